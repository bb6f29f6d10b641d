//! How giving a lease back went.

use std::fmt;

use crate::base::{error::MutexError, escape::Chain};
use crate::lease::term::Term;
use crate::time::clock::shown::HumanDuration;

/// The result of the release of a lease.
///
/// ```
/// assert_eq!(soloist::observe::Release::Lost.to_string(), "the lease was lost while the task was at work");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Returns whether the name was not, or not by us, given back.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Lost | Self::Failed(_))
    }

    /// Returns what a store's answer to the release of a lease means.
    #[inline]
    pub(crate) fn of(rest: Option<Term>, answer: Result<bool, MutexError>) -> Self {
        match (answer, rest) {
            (Ok(true), None) => Self::Released,
            (Ok(true), Some(rest)) => Self::HeldFor(rest),
            (Ok(false), _) => Self::Lost,
            (Err(error), _) => Self::Failed(error),
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
