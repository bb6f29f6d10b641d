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
    process: Uuid,
    pid: u32,
    serial: u64,
}

impl Owner {
    /// The lowest of all owners. No lease has this owner.
    pub(crate) const MIN: Self = Self { process: Uuid::nil(), pid: 0, serial: 0 };

    /// Makes a new owner. It consists of a random id of this process, the process id, and a counter.
    ///
    /// A child process made by `fork` gets another random id. A copy of the parent's random id would not be enough,
    /// because two children, one after the other, can have equal process ids.
    pub fn unique() -> Self {
        static PROCESS: PerProcess<OnceLock<(Uuid, u32)>> = PerProcess::new();
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let (process, pid) = *PROCESS.get().get_or_init(|| (Uuid::new_v4(), std::process::id()));
        Self { process, pid, serial: SERIAL.fetch_add(1, Ordering::Relaxed) }
    }

    /// Returns the process id of the owner, on its host.
    pub fn pid(self) -> u32 {
        self.pid
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.process.simple(), self.pid, self.serial)
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
            let mut parts = text.split('-');
            let owner = Self {
                process: Uuid::try_parse(parts.next().filter(|process| process.len() == 32)?).ok()?,
                pid: parts.next()?.parse().ok()?,
                serial: parts.next()?.parse().ok()?,
            };
            parts.next().is_none().then_some(owner)
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
        for wrong in ["", "-", "a-1-2", &text[1..], &format!("{text}-1"), &text.replace('-', "")] {
            assert_eq!(wrong.parse::<Owner>(), Err(InvalidOwner), "{wrong}");
        }
    }
}
