//! How giving a lease back went.

use std::fmt;

use crate::base::escape::{Chain, OneLine};
use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::{request::Lease, term::Term};
use crate::time::clock::shown::HumanDuration;

/// How giving a lease back went.
///
/// ```
/// assert_eq!(soloist::Release::Lost.to_string(), "the lease was lost while the task was at work");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Release {
    /// The name is free.
    Released,
    /// It was not ours any more: it expired or was broken while the task was at work, so that another run may have
    /// been admitted beside it. The present holder was left alone.
    Lost,
    /// It is held for so much longer, as [`hold_at_least`](crate::Event::hold_at_least) asks.
    HeldFor(Term),
    /// The store did not answer; the lease expires with its term.
    Failed(MutexError),
}

impl Release {
    /// Whether the name was not, or not by us, given back.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Lost | Self::Failed(_))
    }

    /// What a store's answer to the release of `lease` means. A failure is logged, since a drop has nobody else to tell.
    #[inline]
    pub(crate) fn of(lease: &Lease, rest: Option<Term>, answer: Result<bool, MutexError>) -> Self {
        match (answer, rest) {
            (Ok(true), None) => Self::Released,
            (Ok(true), Some(rest)) => Self::HeldFor(rest),
            (Ok(false), _) => Self::Lost,
            (Err(error), _) => {
                // In a drop, a panic of the error's own code would end the process.
                let text = contain(|| OneLine(Chain(&error)).to_string()).unwrap_or_else(|message| message.to_string());
                let _ = contain(|| {
                    tracing::error!(target: "soloist", mutex = %OneLine(lease.name()), error = text, "lease not given back");
                });
                Self::Failed(error)
            }
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("the lease was given back"),
            Self::Lost => f.write_str("the lease was lost while the task was at work"),
            Self::HeldFor(rest) => write!(f, "the lease is held for {} more", HumanDuration(rest.get())),
            Self::Failed(error) => write!(f, "the lease was not given back: {}", Chain(error)),
        }
    }
}
