//! The store of a fleet: its address, and its faults.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use crate::history::{Fault, now};
use crate::plan::{Kind, LIMIT_OF_A_CALL, Trouble};
use crate::servers::cluster::Cluster;
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::servers::proxy::{Behind, Fault as OnTheWay, Proxy};
use crate::servers::redis::Redis;
use crate::servers::replication::{Replicated, is_primary};
use crate::servers::sentinel::Sentinels;
use crate::support::{example, patient_url};

pub(crate) enum Site {
    /// A directory, which has no server.
    File(tempfile::TempDir),
    Server {
        server: Box<dyn Server>,
        proxy: Proxy,
        /// The URL of the server itself, where the store is a table.
        database: Option<String>,
    },
    /// Servers that copy their data. The clients find the primary by themselves.
    Replicated {
        servers: Box<dyn Replicated>,
        /// The options of the URL.
        options: &'static str,
    },
}

/// A server with its data, for the faults.
pub(crate) trait Server: Send + Sync {
    fn kill(&self);
    /// Starts it again with its data.
    fn start_again(&self);
    fn pause(&self);
    fn resume(&self);
    fn kill_connections(&self);
    /// Forgets all data.
    fn empty(&self);
}

impl Site {
    pub(crate) fn file() -> Self {
        Self::File(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn redis() -> Self {
        // `Redis::with` has it write each command before it answers.
        Self::behind(Redis::with("appendonly yes"), None)
    }

    pub(crate) fn sentinel(options: &'static str) -> Self {
        Self::Replicated { servers: Box::new(Sentinels::start()), options }
    }

    pub(crate) fn cluster(options: &'static str) -> Self {
        Self::Replicated { servers: Box::new(Cluster::start()), options }
    }

    pub(crate) fn mariadb() -> Self {
        let mariadb = Mariadb::start();
        let database = mariadb.url();
        Self::behind(mariadb, Some(database))
    }

    pub(crate) fn postgres() -> Self {
        let postgres = Postgres::start();
        let database = postgres.url();
        Self::behind(postgres, Some(database))
    }

    fn behind<S: Server + Behind + 'static>(server: S, database: Option<String>) -> Self {
        let proxy = Proxy::of(&server);
        Self::Server { server: Box::new(server), proxy, database }
    }

    /// Lets a worker make the table of a database, as its deployment does.
    pub(crate) fn create_table(&self) {
        let Self::Server { database: Some(url), .. } = self else { return };
        let mut worker = Command::new(worker_program(0));
        let output =
            worker.args(["--store", &patient_url(url), "--create-table", "--ticks", "0"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "no table was made: {}: {said}", output.status);
    }

    /// Returns the URL that the workers get.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::File(directory) => format!("file:{}", directory.path().display()),
            Self::Server { proxy, .. } => proxy.url(),
            Self::Replicated { servers, options } => servers.url() + options,
        }
    }

    /// Returns whether all users of the store are on one host, and share its clock.
    pub(crate) fn is_for_one_host(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Returns whether the leases of a killed process are free without waiting for the term.
    pub(crate) fn frees_at_once(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Returns how long a client that lost a reply may keep others waiting.
    pub(crate) fn fault_lingers(&self) -> Duration {
        if matches!(self, Self::Server { database: Some(_), .. }) { LIMIT_OF_A_CALL } else { Duration::ZERO }
    }

    /// Returns the shortest time limit in a call: at least a quarter of the call is for a replica to confirm, or for the lock of a row.
    pub(crate) fn shortest_limit(&self) -> Duration {
        match self {
            Self::Replicated { options: "?wait=1", .. } | Self::Server { database: Some(_), .. } => LIMIT_OF_A_CALL / 4,
            _ => LIMIT_OF_A_CALL,
        }
    }

    /// Delays each reply by this latency from now on.
    pub(crate) fn delay_replies(&self, latency: Duration) {
        if let Self::Server { proxy, .. } = self {
            proxy.delay_replies(latency);
        }
    }

    /// Triggers the trouble, and returns when it is over. `None`: the trouble had no effect, or cannot be
    /// triggered here.
    pub(crate) fn suffer(&self, trouble: &Trouble) -> Option<Fault> {
        let (server, proxy) = match self {
            Self::File(_) => return None,
            Self::Server { server, proxy, .. } => (server, proxy),
            Self::Replicated { servers, .. } => return fail_over(&**servers, trouble),
        };
        let from = now();
        let has_met = match trouble.kind {
            Kind::ServerRestarted => {
                server.kill();
                thread::sleep(trouble.lasts);
                server.start_again();
                true
            }
            Kind::ServerEmptied => {
                // No process sees it before it is empty.
                proxy.fault_from_the_start(OnTheWay::Cut);
                proxy.cut();
                server.kill();
                thread::sleep(trouble.lasts);
                server.start_again();
                server.empty();
                proxy.mend();
                true
            }
            Kind::ServerStopped => {
                server.pause();
                thread::sleep(trouble.lasts);
                server.resume();
                true
            }
            Kind::ConnectionsKilled => {
                server.kill_connections();
                true
            }
            Kind::Delayed => {
                let held = [OnTheWay::RequestHeld, OnTheWay::ReplyHeld];
                meets(proxy, held[trouble.way % held.len()], trouble.lasts)
            }
            Kind::Cut => {
                proxy.fault_from_the_start(OnTheWay::Cut);
                proxy.cut();
                thread::sleep(trouble.lasts);
                proxy.mend();
                true
            }
            Kind::HalfClosed => meets(proxy, OnTheWay::HalfClosed, trouble.lasts),
            Kind::ReplyDropped => {
                use OnTheWay::{HalfAReply, ReplyCut, ReplyCutInHalf, ReplyLost};
                let dropped = [ReplyLost, ReplyCut, HalfAReply, ReplyCutInHalf];
                meets(proxy, dropped[trouble.way % dropped.len()], trouble.lasts)
            }
            _ => false,
        };
        has_met.then(|| Fault::since(from, trouble.kind, None))
    }
}

/// Lets a replica take the place of the primary, and the primary come back, or causes the fault that is possible
/// here instead. Returns when all replicas have a copy again.
fn fail_over(servers: &dyn Replicated, trouble: &Trouble) -> Option<Fault> {
    let (from, old) = (now(), servers.primary());
    let kind = match trouble.kind {
        Kind::ServerRestarted => Kind::PrimaryKilled,
        Kind::ServerStopped => Kind::PrimaryStopped,
        Kind::Cut => Kind::PrimaryCutOff,
        kind => kind,
    };
    match kind {
        Kind::PrimaryKilled => old.kill(),
        Kind::PrimaryStopped => old.pause(),
        Kind::PrimaryCutOff | Kind::PrimaryBehind => {
            if kind == Kind::PrimaryBehind {
                for replica in servers.servers().iter().filter(|server| !is_primary(server)) {
                    replica.clock().set_ahead(-5);
                }
            }
            servers.cut_off_replicas();
        }
        Kind::ConnectionsKilled => Server::kill_connections(old),
        Kind::ServerEmptied => Server::empty(old),
        _ => return None,
    }
    if !kind.is_failover() {
        return Some(Fault::since(from, kind, None));
    }
    thread::sleep(trouble.lasts);
    servers.promote_a_replica(old);
    let come_back: fn(&Redis) = match kind {
        Kind::PrimaryKilled => Redis::start_again,
        Kind::PrimaryStopped => Redis::resume,
        _ => |_| {},
    };
    let lost = servers.lost_in_failover(old, &come_back);
    Some(Fault { lost, ..Fault::since(from, kind, None) })
}

/// Returns the program of the worker that is started as the `nth`. It is found once: an edit of its source during a campaign does
/// not end the campaign. Beside a neighbour, every second worker is of that version: `tests/neighbours` builds it.
pub(crate) fn worker_program(nth: usize) -> &'static Path {
    static OURS: LazyLock<PathBuf> = LazyLock::new(|| example("worker"));
    static NEIGHBOUR: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os("SOLOIST_FIRE_NEIGHBOUR").map(PathBuf::from));
    NEIGHBOUR.as_deref().filter(|_| nth % 2 == 1).unwrap_or(&OURS)
}

/// Applies this fault to each message for a while, and to the next one if that is later. Returns whether a message
/// met it.
fn meets(proxy: &Proxy, fault: OnTheWay, lasts: Duration) -> bool {
    const PATIENCE: u32 = 200;
    proxy.fault(fault);
    thread::sleep(lasts);
    for _ in 0..PATIENCE {
        if proxy.met() > 0 {
            break;
        }
        thread::sleep(Duration::from_millis(5)); // between two checks of other threads
    }
    proxy.mend();
    proxy.met() > 0
}

/// A server of the tests; how its clients are thrown out, and how its data are deleted.
macro_rules! server {
    ($server:ty, $kill_connections:expr, $empty:expr) => {
        impl Server for $server {
            fn kill(&self) {
                <$server>::kill(self);
            }
            fn start_again(&self) {
                <$server>::start_again(self);
            }
            fn pause(&self) {
                <$server>::pause(self);
            }
            fn resume(&self) {
                <$server>::resume(self);
            }
            fn kill_connections(&self) {
                self.ask($kill_connections);
            }
            fn empty(&self) {
                self.ask($empty);
            }
        }
    };
}

server!(Redis, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"], &["FLUSHALL"]);
server!(Mariadb, "KILL USER owner", "DELETE FROM soloist_mutexes");
server!(
    Postgres,
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'owner'",
    "DELETE FROM soloist_mutexes"
);
