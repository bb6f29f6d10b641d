//! The end of a command: its exit status and the kept part of its output.

use std::fmt;
use std::process::ExitStatus;

use super::kept_output::KeptOutput;

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandExit {
    pub(crate) status: ExitStatus,
    pub(crate) output: Option<KeptOutput>,
}

/// An exit status in words: `exited with 3`, `ended by signal 9 (SIGKILL)`.
pub(crate) struct Exited(pub(crate) ExitStatus);

impl fmt::Display for Exited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.code() {
            Some(code) => write!(f, "exited with {code}"),
            None => write!(f, "ended by {}", self.0.to_string().replacen(": ", " ", 1)),
        }
    }
}
