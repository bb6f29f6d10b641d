//! The owner of a lease: the id of one acquisition.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use crate::base::per_process::PerProcess;

/// The id of one acquisition. No other acquisition has this id, on any host, in any process, in any thread.
///
/// Only the owner of a lease can release or extend the lease. Several hosts may have one name, because the id does not
/// depend on the name of the host.
///
/// ```
/// use soloist::store::Owner;
///
/// let owner = Owner::unique();
/// assert_ne!(owner, Owner::unique());
/// assert_eq!(owner.to_string().parse::<Owner>().unwrap(), owner);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    id: Uuid,
    pid: u32,
}

impl Owner {
    /// Makes a new owner. It consists of an id and the process id. The ids of a process count upwards from a random
    /// number of 122 bits, so that the ids of two processes differ.
    ///
    /// A child process made by `fork` counts from another random number. A copy of the parent's random number would not
    /// be enough, because two children, one after the other, can have equal process ids.
    pub fn unique() -> Self {
        static PROCESS: PerProcess<OnceLock<(u128, u32)>> = PerProcess::new();
        static MADE: AtomicU64 = AtomicU64::new(1);
        let (first, pid) = *PROCESS.get().get_or_init(|| (Uuid::new_v4().as_u128(), std::process::id()));
        let id = first.wrapping_add(MADE.fetch_add(1, Ordering::Relaxed).into());
        Self { id: Uuid::from_u128(id), pid }
    }

    /// Returns the process id of the owner, on its host.
    pub fn pid(self) -> u32 {
        self.pid
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.id.simple(), self.pid)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

impl FromStr for Owner {
    type Err = InvalidOwner;

    /// Parses the text of `Display`, so that a store can keep an owner as text.
    fn from_str(text: &str) -> Result<Self, InvalidOwner> {
        let parse = || {
            let (id, pid) = text.split_once('-').filter(|(id, _)| id.len() == 32)?;
            Some(Self { id: Uuid::try_parse(id).ok()?, pid: pid.parse().ok()? })
        };
        parse().ok_or(InvalidOwner)
    }
}

/// The error for a text that is not the id of an owner.
///
/// ```
/// assert_eq!("nobody".parse::<soloist::store::Owner>().unwrap_err().to_string(), "not the id of an owner");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of an owner")]
pub struct InvalidOwner;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_back_and_nothing_else_is() {
        let owner = Owner::unique();
        assert_eq!(owner.to_string().parse(), Ok(owner));
        let text = owner.to_string();
        for wrong in ["", "-", "a-1", &text[1..], &format!("{text}-1"), &text.replace('-', "")] {
            assert_eq!(wrong.parse::<Owner>(), Err(InvalidOwner), "{wrong}");
        }
    }
}
