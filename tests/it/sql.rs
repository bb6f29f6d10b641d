//! The stores in tables of MariaDB and PostgreSQL: real servers, their faults, and their load. Assertions for both
//! are written once.

use std::sync::OnceLock;
use std::time::Duration;

use soloist::{EventMutex, MutexError, MutexName, MysqlMutex, PostgresMutex};

use crate::servers::mariadb::{self, Mariadb};
use crate::servers::postgres::{self, Postgres};
use crate::servers::proxy::Proxy;

mod answers;
mod audit;
mod batches;
mod clean_up;
#[cfg(feature = "cli")]
mod command_line;
mod connections;
mod contract;
mod cost;
mod deadlocks;
mod examples;
mod exclusion;
mod fleet;
mod listing;
mod locks;
mod many_rows;
mod outage;
mod pause;
mod plain;
mod races;
mod refused;
mod runtime;
mod sessions;
mod strangers;
mod table;
mod tls;
mod tokens;
mod trouble;
mod unreadable;

/// The timeout of calls that meet a fault. A call learns in time that a row is locked, also from a server that counts
/// in seconds. Half of the timeout is kept for a second request, with the delay of a busy machine.
const LONG: Duration = Duration::from_secs(4);

/// The timeout of calls that meet a lock. A quarter of it is the wait for the lock.
const HASTY: Duration = Duration::from_secs(8);

/// The timeout of calls that are to be answered, however busy the machine is. A row is waited for ten seconds.
const PATIENT: Duration = Duration::from_secs(40);

/// The columns that every row has.
const COLUMNS: &str = "released, term_us, name, owner, token, host, pid, acquired_at, expires_at";

/// The first values of a row that was granted for an hour, and not released.
const GRANTED: &str = "FALSE, 3600000000";

/// An answer as text.
type Rows = Vec<Vec<Option<String>>>;

/// A connection for requests.
type Ask = Box<dyn FnMut(&str) -> Rows + Send>;

/// A server of either kind.
pub(crate) trait SqlServer: Sized + Send + Sync + 'static {
    type Mutex: EventMutex + Clone + 'static;

    /// Returns the server that all tests of this process share, if they leave other tests' names alone. It has the
    /// table.
    fn shared() -> &'static Self;
    /// Starts an empty server with these options, without the table.
    fn with(options: &[&str]) -> Self;
    fn url(&self) -> String;
    /// Asks past every store, each time on a new connection.
    fn ask(&self, sql: &str) -> Rows;
    /// Connects, for many questions past every store.
    fn connected(&self) -> Ask;

    fn open(url: &str, timeout: Duration) -> Self::Mutex;
    fn named(url: &str, table: &str) -> Self::Mutex;
    fn create_table(mutex: &Self::Mutex) -> Result<(), MutexError>;
    fn purge(mutex: &Self::Mutex) -> Result<u64, MutexError>;
    fn schema(mutex: &Self::Mutex) -> &str;
    /// Adds claims that have ended so many seconds ago, with low tokens.
    fn add_ended(&self, count: u64, seconds_ago: u64);

    /// Starts a server for this test alone, with the table.
    fn start() -> Self {
        let server = Self::with(&[]);
        Self::create_table(&server.mutex()).expect("the table is made");
        server
    }

    /// Returns a new handle on the table, whose calls are answered on a busy machine, too.
    fn mutex(&self) -> Self::Mutex {
        Self::open(&self.url(), PATIENT)
    }

    /// Returns a new handle on the table, for calls that meet a lock.
    fn hasty(&self) -> Self::Mutex {
        Self::open(&self.url(), HASTY)
    }

    /// Returns a handle through this proxy with an idle connection.
    #[track_caller]
    fn open_at_rest(proxy: &Proxy, timeout: Duration) -> Self::Mutex {
        let mutex = Self::open(&proxy.url(), timeout);
        assert!(!mutex.exists(&MutexName::lease("first").expect("a name")).expect("an answer"));
        mutex
    }

    /// Returns the count that a query selects.
    #[track_caller]
    fn count(&self, sql: &str) -> u64 {
        let rows = self.ask(sql);
        rows[0][0].as_deref().expect("it counts").parse().expect("a number")
    }
}

impl SqlServer for Mariadb {
    type Mutex = MysqlMutex;

    fn shared() -> &'static Self {
        static READY: OnceLock<()> = OnceLock::new();
        let server = Mariadb::shared();
        READY.get_or_init(|| server.mutex().create_table().expect("the table is made"));
        server
    }

    fn with(options: &[&str]) -> Self {
        Mariadb::with(options)
    }

    fn url(&self) -> String {
        Mariadb::url(self)
    }

    fn ask(&self, sql: &str) -> Rows {
        Mariadb::ask(self, sql)
    }

    fn connected(&self) -> Ask {
        let mut connection = self.connection();
        Box::new(move |sql| mariadb::ask(&mut connection, sql).expect("an answer"))
    }

    fn open(url: &str, timeout: Duration) -> MysqlMutex {
        MysqlMutex::builder(url).timeout(timeout).build().expect("a url")
    }

    fn named(url: &str, table: &str) -> MysqlMutex {
        MysqlMutex::builder(url).table(table).build().expect("a url")
    }

    fn create_table(mutex: &MysqlMutex) -> Result<(), MutexError> {
        mutex.create_table()
    }

    fn purge(mutex: &MysqlMutex) -> Result<u64, MutexError> {
        mutex.purge()
    }

    fn schema(mutex: &MysqlMutex) -> &str {
        mutex.schema()
    }

    fn add_ended(&self, count: u64, seconds_ago: u64) {
        for [first, last] in batches(count) {
            self.ask(&format!(
                "INSERT INTO soloist_mutexes ({COLUMNS}) SELECT {GRANTED}, CONCAT('claim/old/{seconds_ago}/', LPAD(seq, 7, '0')), 'x', seq, 'h', 1, \
                 UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL {seconds_ago} SECOND FROM seq_{first}_to_{last}"
            ));
        }
    }
}

impl SqlServer for Postgres {
    type Mutex = PostgresMutex;

    fn shared() -> &'static Self {
        static READY: OnceLock<()> = OnceLock::new();
        let server = Postgres::shared();
        READY.get_or_init(|| server.mutex().create_table().expect("the table is made"));
        server
    }

    fn with(options: &[&str]) -> Self {
        Postgres::with(options)
    }

    fn url(&self) -> String {
        Postgres::url(self)
    }

    fn ask(&self, sql: &str) -> Rows {
        Postgres::ask(self, sql)
    }

    fn connected(&self) -> Ask {
        let mut connection = self.connection();
        Box::new(move |sql| postgres::ask(&mut connection, sql).expect("an answer"))
    }

    fn open(url: &str, timeout: Duration) -> PostgresMutex {
        PostgresMutex::builder(url).timeout(timeout).build().expect("a url")
    }

    fn named(url: &str, table: &str) -> PostgresMutex {
        PostgresMutex::builder(url).table(table).build().expect("a url")
    }

    fn create_table(mutex: &PostgresMutex) -> Result<(), MutexError> {
        mutex.create_table()
    }

    fn purge(mutex: &PostgresMutex) -> Result<u64, MutexError> {
        mutex.purge()
    }

    fn schema(mutex: &PostgresMutex) -> &str {
        mutex.schema()
    }

    fn add_ended(&self, count: u64, seconds_ago: u64) {
        for [first, last] in batches(count) {
            self.ask(&format!(
                "INSERT INTO soloist_mutexes ({COLUMNS}) SELECT {GRANTED}, 'claim/old/{seconds_ago}/' || lpad(seq::text, 7, '0'), 'x', seq, 'h', 1, \
                 now(), now() - {seconds_ago} * interval '1 second' FROM generate_series({first}, {last}) AS seq"
            ));
        }
    }
}

/// Returns the first and the last of each batch of rows: a busy machine may need long for all of them, but no
/// reply takes long.
fn batches(count: u64) -> impl Iterator<Item = [u64; 2]> {
    const BATCH: u64 = 50_000;
    (0..count.div_ceil(BATCH)).map(move |batch| [batch * BATCH + 1, count.min((batch + 1) * BATCH)])
}

/// Each of these cases on a server of either kind.
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod on_mariadb {
            $(#[test] fn $case() { super::$case::<crate::servers::mariadb::Mariadb>(); })*
        }

        mod on_postgres {
            $(#[test] fn $case() { super::$case::<crate::servers::postgres::Postgres>(); })*
        }
    };
}
use on_both;

/// Returns the name in the table, as documented.
fn key(name: &MutexName) -> String {
    let plain = |byte: u8| match byte {
        b'!'..=b'~' if !b"{}\"'\\".contains(&byte) => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.to_string().bytes().map(plain).collect()
}
