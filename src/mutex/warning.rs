//! What a look at a store, before it is trusted, can warn of.

use std::fmt;
use std::time::Duration;

/// Something about a store that lets it promise less than the documentation says; told by
/// [`EventMutex::check`](super::EventMutex::check).
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// for warning in soloist::connect("redis://cache.internal")?.check()? {
///     eprintln!("{warning}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreWarning {
    /// When its memory is full, the server throws entries away that are held.
    Evicts {
        /// The server's `maxmemory-policy`.
        policy: String,
    },
    /// The server follows another one, and can't be written to.
    Replica,
    /// The server is older than what the store is written for.
    OldVersion {
        /// The version of the server.
        found: String,
        /// The oldest that is known to do.
        needed: &'static str,
    },
    /// The clocks of the server and of this host differ: one of them is wrong, and hosts that disagree tick at
    /// different times. A claim bears five minutes.
    ClocksDiffer {
        /// How far they are apart.
        by: Duration,
    },
}

impl fmt::Display for StoreWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts { policy } => write!(
                f,
                "the server evicts keys when its memory is full (maxmemory-policy {policy}), also those of live leases: \
                 set it to noeviction, or use a server of its own"
            ),
            Self::Replica => f.write_str("the server is a replica and can't be written to: connect to its primary"),
            Self::OldVersion { found, needed } => {
                write!(f, "the server's version {found} is older than {needed}, the oldest that is tested: update it")
            }
            Self::ClocksDiffer { by } => write!(
                f,
                "the clocks of the server and of this host differ by {:.1} s: let both follow the same time",
                by.as_secs_f64()
            ),
        }
    }
}
