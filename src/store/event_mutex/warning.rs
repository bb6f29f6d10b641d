//! The warnings of the check of a store.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::base::escape::{Named, OneLine};
#[cfg(feature = "server")]
use crate::time::clock::LITTLE_STEP;
use crate::time::clock::shown::HumanDuration;

/// A setting or a state of a store under which it promises less than the documentation says;
/// [`EventMutex::check`](crate::EventMutex::check) returns it.
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
    /// When its memory is full, the server evicts entries, live leases among them. This concerns a server without a limit
    /// (`maxmemory 0`) too: it evicts as soon as it gets one.
    Evicts {
        /// The server's `maxmemory-policy`.
        policy: String,
    },
    /// The server is a replica, and takes no writes.
    Replica,
    /// The store answers, and takes no writes: nothing protected runs.
    TakesNoWrites {
        /// The reason, and the next step, as in "its disk is full".
        why: String,
    },
    /// A table on PostgreSQL has many old versions of rows, which make each admission slow. The server can't clean them away
    /// while an old transaction may still see them.
    DeadRows {
        /// The number of old versions.
        count: u64,
    },
    /// The server is a node of a Redis Cluster, and the URL names this node alone: no event runs while another node has the slot of
    /// the keys.
    ClusterNode,
    /// The server answers before its replicas have the write: a failover can lose the last grants.
    AsyncReplicas {
        /// The number of connected replicas.
        replicas: u32,
    },
    /// The connection to another host is not encrypted, and it carries the password. A server is on this host if the URL names a
    /// socket, `localhost` or a loopback address.
    Plaintext {
        /// The part of a URL that asks for TLS, as in `rediss://`.
        instead: &'static str,
    },
    /// The server is older than the store supports.
    OldVersion {
        /// The version of the server.
        found: String,
        /// The oldest version that is supported.
        needed: &'static str,
    },
    /// The table of mutexes loses leases when the server ends.
    Forgets {
        /// The cause, as in "its engine is MEMORY".
        how: String,
    },
    /// A table of mutexes is not as it should be, so that names may be mixed up or granted twice.
    WrongTable {
        /// The fault, as in "it has no primary key".
        what: String,
    },
    /// A directory that other users can change, so that they can end or forge its leases.
    WrongDirectory {
        /// The directory of the store, or one above it.
        path: PathBuf,
        /// The fault and the next step, as in "its group can write to it".
        what: String,
    },
    /// A directory on overlayfs, like the root of a container: each container has a directory of its own at this path, which is
    /// lost with the container.
    Overlay {
        /// The directory of the store.
        path: PathBuf,
    },
    /// A file in the directory of a store that can't be used, or that other users can lock: they block its events.
    WrongFile {
        /// The lock, state or life file, or the log of runs.
        path: PathBuf,
        /// The fault and the next step, as in "it is a symbolic link".
        what: String,
    },
    /// The server's clock was set back: grants of live leases, or the last grant, lie in the future.
    ClockSetBack {
        /// The smallest step that explains it.
        by: Duration,
    },
    /// Another application has an event of this name in the store, so that each takes occurrences of the other;
    /// [`Schedule::check`](crate::Schedule::check) returns it.
    SharedName {
        /// The name of the event.
        event: String,
        /// The name of the other application.
        application: String,
    },
    /// The store's calls are tasks of the application's runtime.
    SharesRuntime,
    /// The clocks of the server and of this host differ: one of them is wrong, and hosts that disagree tick at
    /// different times. Claims tolerate a difference of five minutes.
    ClocksDiffer {
        /// The difference.
        by: Duration,
    },
}

impl StoreWarning {
    /// Returns the warning if grants lie more than a little step in the future of the server's clock.
    #[cfg(feature = "server")]
    pub(crate) fn of_grants_ahead(ahead: Duration) -> Option<Self> {
        (ahead > LITTLE_STEP).then_some(Self::ClockSetBack { by: ahead })
    }

    /// Returns the warning if the server's version is older than the store supports. Only the first two numbers count.
    #[cfg(feature = "server")]
    pub(crate) fn if_older(found: &str, needed: &'static str) -> Option<Self> {
        let numbers =
            |version: &str| -> Vec<u32> { version.split('.').take(2).map(|part| part.parse().unwrap_or(0)).collect() };
        (numbers(found) < numbers(needed)).then(|| Self::OldVersion { found: found.to_owned(), needed })
    }
}

impl fmt::Display for StoreWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts { policy } => write!(
                f,
                "the server evicts keys when its memory is full (maxmemory-policy {}), also those of live leases: \
                 set it to noeviction, or use a server of its own",
                OneLine(policy)
            ),
            Self::Forgets { how } => {
                write!(f, "the table forgets leases when the server ends, because {}: make it a durable one", OneLine(how))
            }
            Self::WrongTable { what } => write!(
                f,
                "the table is wrong: {}; drop it while nothing runs, and create it with create_table() or `soloist create-table`",
                OneLine(what)
            ),
            Self::WrongDirectory { path, what } => {
                write!(f, "the directory {} is not safe: {}", OneLine(path.display()), OneLine(what))
            }
            Self::WrongFile { path, what } => {
                write!(f, "the file {} is not safe: {}", OneLine(path.display()), OneLine(what))
            }
            Self::Overlay { path } => write!(
                f,
                "the directory {} is on overlayfs: other containers do not see it, and it is lost when this container is \
                 created again; put it on a volume that all containers mount",
                OneLine(path.display())
            ),
            Self::ClusterNode => f.write_str(
                "the server is a node of a Redis Cluster, and no event runs while another node has the slot of the keys: \
                 write redis+cluster:// in the url",
            ),
            Self::AsyncReplicas { replicas } => write!(
                f,
                "the server answers before its replicas ({replicas}) have the write: a failover can lose the last grants, and an \
                 occurrence then runs twice; with wait=1 in the url, a grant counts when a replica has it"
            ),
            Self::Plaintext { instead } => write!(
                f,
                "the connection to another host is not encrypted: others on the network can read the password and change \
                 answers; use TLS, with {instead} in the url"
            ),
            Self::TakesNoWrites { why } => write!(f, "the store takes no writes, so that no protected event runs: {}", OneLine(why)),
            Self::DeadRows { count } => write!(
                f,
                "{count} old versions of rows make each admission slow: end the transaction that keeps the server from \
                 cleaning them away (the oldest backend_xmin in pg_stat_activity, pg_prepared_xacts or \
                 pg_replication_slots), then VACUUM the table"
            ),
            Self::Replica => f.write_str("the server is a replica and can't be written to: connect to its primary"),
            Self::OldVersion { found, needed } => {
                write!(
                    f,
                    "the server's version {} is older than {needed}, the oldest that is supported: update it",
                    OneLine(found)
                )
            }
            Self::SharedName { event, application } => write!(
                f,
                "the application {} has the event {}, too, so that each takes occurrences of the other: give each application a \
                 prefix, a table or a folder of its own",
                Named(application),
                Named(event)
            ),
            Self::SharesRuntime => f.write_str(
                "its calls, renewals among them, are tasks of the application's runtime: while that stalls for longer than a \
                 term, leases are lost; give it a runtime of its own, or leases a longer term",
            ),
            Self::ClockSetBack { by } => write!(
                f,
                "the server's clock was set back by {} or more: a lease that a dead process left blocks its event for \
                 one more term, from the next tick that asks for it; find out what set the clock, and if it is wrong \
                 now, set it right while nothing runs",
                HumanDuration(*by)
            ),
            Self::ClocksDiffer { by } => write!(
                f,
                "the clocks of the server and of this host differ by {:.1} s: synchronise both with NTP",
                by.as_secs_f64()
            ),
        }
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[test]
    fn a_grant_that_is_a_little_ahead_is_no_warning() {
        assert_eq!(StoreWarning::of_grants_ahead(Duration::from_secs(1)), None);
        let warning = StoreWarning::of_grants_ahead(Duration::from_secs(23 * 3600)).unwrap();
        assert_eq!(
            warning.to_string(),
            "the server's clock was set back by 23 h 0 min or more: a lease that a dead process left blocks its event for \
             one more term, from the next tick that asks for it; find out what set the clock, and if it is wrong \
             now, set it right while nothing runs"
        );
    }
}
