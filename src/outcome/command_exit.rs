//! The end of a command: its exit status and the kept part of its output.

use std::fmt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use crate::base::escape::Lines;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandExit {
    pub(crate) status: ExitStatus,
    pub(crate) output: Option<KeptOutput>,
    /// The output file of the command, if `Output::File` or `Output::Append` names a file.
    pub(crate) file: Option<Arc<Path>>,
}

/// Returns the signal that ended a process. `None`: the process has exited.
#[cfg(unix)]
pub(crate) fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

/// Returns `None`, because this system has no signals.
#[cfg(not(unix))]
pub(crate) fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

/// An exit status in words: `exited with 3`, `ended by signal 9 (SIGKILL)`.
pub(crate) struct Exited(pub(crate) ExitStatus);

impl fmt::Display for Exited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.code() {
            Some(127) => f.write_str("exited with 127 (in a shell: no such command)"),
            Some(code) => write!(f, "exited with {code}"),
            None => write!(f, "ended by {}", self.0.to_string().replacen(": ", " ", 1)),
        }
    }
}

/// The last bytes of a command's output: at most the number in [`Output::Keep`](crate::Output::Keep), or at most 16 KiB
/// if the output went to a file.
///
/// ```
/// # #[cfg(unix)] {
/// use soloist::{Event, Output, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process();
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

    /// Returns how many bytes of output came before the kept bytes.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Shows the bytes as text. Invalid UTF-8 becomes `�`. Control characters are escaped, as in `\u{1b}`, so that they
/// can't change the terminal.
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
