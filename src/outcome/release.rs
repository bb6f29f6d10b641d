//! The result of the release of a lease.

use std::fmt;

use crate::base::{error::MutexError, escape::Chain};
use crate::lease::term::Term;
use crate::time::clock::shown::HumanDuration;

/// The result of the release of a lease.
///
/// ```
/// assert_eq!(soloist::observe::Release::Lost.to_string(), "the lease was lost while the task was running");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// The lease was released, and its name is free.
    Released,
    /// The run had lost the lease before the release: the lease expired or was broken while the task was running. So
    /// another run may have been admitted. The release changed nothing for the present holder of the lease.
    Lost,
    /// The lease is held for this much longer, because the event has a [`hold_at_least`](crate::Event::hold_at_least).
    HeldFor(Term),
    /// The release failed with this error. The lease ends with its term; on the file store, it ends at once.
    Failed(MutexError),
}

impl Release {
    /// Returns whether the lease was lost, or could not be released.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Lost | Self::Failed(_))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("the lease was released"),
            Self::Lost => f.write_str("the lease was lost while the task was running"),
            Self::HeldFor(left) => write!(f, "the lease is held for {} more", HumanDuration(left.get())),
            Self::Failed(error) => write!(f, "the lease was not released: {}", Chain(error)),
        }
    }
}
