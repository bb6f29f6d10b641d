//! How a command ended: its exit status, and what is kept of its output.

use std::fmt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use crate::base::escape::Lines;

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandExit {
    pub(crate) status: ExitStatus,
    pub(crate) output: Option<KeptOutput>,
    /// The file that has all of the output.
    pub(crate) file: Option<Arc<Path>>,
}

/// How a command ended, as a person says it: `exited with 3`, `ended by signal 9 (SIGKILL)`.
pub(crate) struct Exited(pub(crate) ExitStatus);

impl fmt::Display for Exited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.code() {
            Some(code) => write!(f, "exited with {code}"),
            None => write!(f, "ended by {}", self.0.to_string().replacen(": ", " ", 1)),
        }
    }
}

/// The end of what a command wrote: as much as [`Output::Keep`](crate::Output::Keep) says, or the last 16 KiB of what went to a file.
///
/// ```
/// # #[cfg(unix)] {
/// use soloist::{Event, Output, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut schedule = Schedule::in_process();
/// schedule.add(
///     Event::exec("count", "seq 1 100").hourly().output(Output::Keep(7)).then(|_, outcome| {
///         let output = outcome.output().expect("it is kept");
///         assert_eq!((output.bytes(), output.left_out()), (&b"99\n100\n"[..], 285));
///     }),
/// )?;
/// # assert!(!schedule.run_event("count", chrono::Utc::now())?.is_failure());
/// # Ok(())
/// # }
/// # main().unwrap();
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct KeptOutput {
    bytes: Arc<[u8]>,
    left_out: u64,
}

impl KeptOutput {
    pub(crate) fn new(bytes: Vec<u8>, left_out: u64) -> Self {
        Self { bytes: bytes.into(), left_out }
    }

    /// Returns the bytes that were kept.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns how many bytes came before those.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// As text; what is none is shown as `�`, and what would steer a terminal as `\u{1b}`.
impl fmt::Display for KeptOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.left_out > 0 {
            f.write_str("…")?;
        }
        Lines(String::from_utf8_lossy(&self.bytes)).fmt(f)
    }
}

impl fmt::Debug for KeptOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_output_reads_as_text_and_shows_that_it_begins_in_the_middle() {
        assert_eq!(KeptOutput::new(b"e\xfftwo".to_vec(), 3).to_string(), "…e\u{fffd}two");
        assert_eq!(format!("{:?}", KeptOutput::new(Vec::new(), 0)), "\"\"");
    }
}
