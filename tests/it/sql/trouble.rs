//! The faults of a server, and helpers that check the stores afterwards.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use soloist::store::LeaseRequest;
use soloist::time::Clock;
use soloist::{
    Event, EventMutex, MutexError, MutexName, MysqlMutex, PostgresMutex, Report, Schedule, SkipReason, Term,
};

use super::{PATIENT, SqlServer, key};
use crate::servers::mariadb::{self, Mariadb};
use crate::servers::postgres::{self, Postgres};
use crate::servers::proxy::Behind;
use crate::support::{Diary, noon, ran, skipped};

/// How long a call may take at most where nothing is answered.
pub(super) const TIMEOUT: Duration = Duration::from_secs(1);

/// How long a tick may take then, on a busy machine.
pub(super) const IN_TIME: Duration = Duration::from_secs(14);

/// A longer wait than any healthy server needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that can be hurt.
pub(super) trait Trouble: SqlServer + Behind {
    /// A connection past every store, with all privileges.
    type Client: Send;

    const NOW: &'static str;
    /// Locks the whole table until the client is dropped.
    const LOCK_TABLE: &'static [&'static str];
    const BEGIN: &'static str;
    /// Lets each session that begins afterwards wait for a lock for one second, unless the session sets another limit.
    const SHORT_WAITS: &'static str;
    /// Makes it read-only, and writable again.
    const READ_ONLY: [&'static str; 2];
    /// Selects the numbers of the connections of the stores' user; and of those that wait for a lock or a commit,
    /// with a value that differs for each wait.
    const CONNECTED: &'static str;
    const WAITING: &'static str;

    fn connect(&self) -> Self::Client;
    #[track_caller]
    fn execute(client: &mut Self::Client, sql: &str);
    /// Returns the URL of a new user with these grants on the table and no other.
    fn user_with(&self, grants: &str) -> String;
    fn end_connection(&self, number: &str);
    /// Blocks every commit until `let_commit`.
    fn block_commits(&self) -> Self::Client;
    fn let_commit(&self, blocking: Self::Client);
    /// Returns the errors in the server's log.
    fn errors(&self) -> Vec<String>;
    fn kill(&self);
    fn start_again(&self);
    fn pause(&self);
    fn resume(&self);
    /// Starts a server whose port speaks TLS only.
    fn with_tls() -> Self;
    fn without_tls() -> Self;
    fn tls_url(&self) -> String;
    fn ca(&self) -> Vec<u8>;
    fn trusting(url: &str, ca: Vec<u8>) -> Self::Mutex;

    /// Runs these statements on a new client. Its locks are freed when it is dropped.
    #[track_caller]
    fn holding(&self, statements: &[&str]) -> Self::Client {
        let mut client = self.connect();
        for statement in statements {
            Self::execute(&mut client, statement);
        }
        client
    }

    /// Ends all connections of the stores' user.
    fn end_connections(&self) {
        for row in self.ask(Self::CONNECTED) {
            self.end_connection(row[0].as_deref().expect("a number"));
        }
    }

    /// Returns the names that are held, by a query of a person.
    #[track_caller]
    fn held(&self) -> Vec<String> {
        let sql = format!("SELECT name FROM soloist_mutexes WHERE expires_at > {} ORDER BY name", Self::NOW);
        self.ask(&sql).into_iter().map(|mut row| row.remove(0).expect("a name")).collect()
    }
}

impl Trouble for Mariadb {
    type Client = mysql::Conn;

    const NOW: &'static str = "UTC_TIMESTAMP(6)";
    const LOCK_TABLE: &'static [&'static str] = &["LOCK TABLES soloist_mutexes WRITE"];
    const BEGIN: &'static str = "START TRANSACTION";
    const SHORT_WAITS: &'static str = "SET GLOBAL innodb_lock_wait_timeout = 1, lock_wait_timeout = 1";
    const READ_ONLY: [&'static str; 2] = ["SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"];
    const CONNECTED: &'static str = "SELECT id FROM information_schema.processlist WHERE user = 'owner'";
    // InnoDB's view of its locks is cached, and old for a client that reads it often.
    const WAITING: &'static str = "SELECT id, query_id FROM information_schema.processlist \
                                   WHERE user = 'owner' AND info IS NOT NULL AND info NOT LIKE 'SELECT%'";

    fn connect(&self) -> mysql::Conn {
        self.connection()
    }

    fn execute(client: &mut mysql::Conn, sql: &str) {
        mariadb::ask(client, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn user_with(&self, grants: &str) -> String {
        Mariadb::user_with(self, grants)
    }

    fn end_connection(&self, number: &str) {
        let _ = self.try_ask(&format!("KILL {number}")); // The connection may have ended by itself.
    }

    fn block_commits(&self) -> mysql::Conn {
        self.holding(
            &["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"]
                .map(|stage| format!("BACKUP STAGE {stage}"))
                .each_ref()
                .map(String::as_str),
        )
    }

    fn let_commit(&self, blocking: mysql::Conn) {
        drop(blocking);
    }

    fn errors(&self) -> Vec<String> {
        self.log().lines().filter(|line| line.contains("[ERROR]")).map(str::to_owned).collect()
    }

    fn kill(&self) {
        Mariadb::kill(self);
    }

    fn start_again(&self) {
        Mariadb::start_again(self);
    }

    fn pause(&self) {
        Mariadb::pause(self);
    }

    fn resume(&self) {
        Mariadb::resume(self);
    }

    fn with_tls() -> Self {
        Mariadb::with_tls()
    }

    fn without_tls() -> Self {
        Mariadb::with(&["--skip-ssl"])
    }

    fn tls_url(&self) -> String {
        Mariadb::tls_url(self)
    }

    fn ca(&self) -> Vec<u8> {
        fs::read(Mariadb::ca(self)).expect("there is a certificate")
    }

    fn trusting(url: &str, ca: Vec<u8>) -> MysqlMutex {
        MysqlMutex::builder(url).timeout(PATIENT).root_certificates(ca).build().expect("a url")
    }
}

impl Trouble for Postgres {
    type Client = ::postgres::Client;

    const NOW: &'static str = "clock_timestamp()";
    const LOCK_TABLE: &'static [&'static str] = &["BEGIN", "LOCK TABLE soloist_mutexes IN ACCESS EXCLUSIVE MODE"];
    const BEGIN: &'static str = "BEGIN";
    const SHORT_WAITS: &'static str =
        "ALTER DATABASE app SET lock_timeout = '1s'; ALTER DATABASE app SET statement_timeout = '1s'";
    const READ_ONLY: [&'static str; 2] = [
        "ALTER DATABASE app SET default_transaction_read_only = on",
        "BEGIN READ WRITE; ALTER DATABASE app RESET default_transaction_read_only; COMMIT",
    ];
    const CONNECTED: &'static str = "SELECT pid FROM pg_stat_activity WHERE usename = 'owner'";
    const WAITING: &'static str = "SELECT pid, query_start FROM pg_stat_activity \
                                   WHERE usename = 'owner' AND (wait_event_type = 'Lock' OR wait_event = 'SyncRep')";

    fn connect(&self) -> ::postgres::Client {
        self.connection()
    }

    fn execute(client: &mut ::postgres::Client, sql: &str) {
        postgres::ask(client, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn user_with(&self, grants: &str) -> String {
        Postgres::user_with(self, grants)
    }

    fn end_connection(&self, number: &str) {
        self.ask(&format!("SELECT pg_terminate_backend({number})"));
    }

    /// Waits for a replica that does not exist.
    fn block_commits(&self) -> ::postgres::Client {
        self.holding(&["ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"])
    }

    fn let_commit(&self, mut blocking: ::postgres::Client) {
        for statement in ["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"] {
            Self::execute(&mut blocking, statement);
        }
    }

    fn errors(&self) -> Vec<String> {
        self.log().lines().filter(|line| line.contains("ERROR: ")).map(str::to_owned).collect()
    }

    fn kill(&self) {
        Postgres::kill(self);
    }

    fn start_again(&self) {
        Postgres::start_again(self);
    }

    fn pause(&self) {
        Postgres::pause(self);
    }

    fn resume(&self) {
        Postgres::resume(self);
    }

    fn with_tls() -> Self {
        Postgres::with_tls()
    }

    fn without_tls() -> Self {
        Postgres::with(&[])
    }

    fn tls_url(&self) -> String {
        Postgres::tls_url(self)
    }

    fn ca(&self) -> Vec<u8> {
        fs::read(Postgres::ca(self)).expect("there is a certificate")
    }

    fn trusting(url: &str, ca: Vec<u8>) -> PostgresMutex {
        PostgresMutex::builder(url).timeout(PATIENT).root_certificates(ca).build().expect("a url")
    }
}

/// Returns the `number`th minute after noon.
pub(super) fn minute(number: i64) -> DateTime<Utc> {
    noon() + TimeDelta::minutes(number)
}

pub(super) fn request(name: &str) -> LeaseRequest {
    LeaseRequest::new(MutexName::lease(name).expect("a name"), Term::MAX, &Clock::system())
}

/// Returns a schedule of one event, `report`, that writes `ran` into the diary, with both protections.
pub(super) fn schedule(mutex: impl EventMutex + 'static, diary: &Diary) -> Schedule {
    let schedule = Schedule::new(mutex);
    schedule.add(report(diary)).expect("an event");
    schedule
}

pub(super) fn report(diary: &Diary) -> Event {
    Event::call("report", diary.task("ran")).every_minute().on_one_server().without_overlapping()
}

/// Returns the name of the claim of `report` in this minute.
pub(super) fn claim(number: i64) -> String {
    key(&MutexName::lease("report").expect("a name").claim("report", minute(number)))
}

#[track_caller]
pub(super) fn assert_ran(report: &Report) {
    ran(report, "report");
    assert!(!report.is_failure(), "{report}");
}

/// Asserts that the tick runs nothing because the store is unavailable, and is over in time. Returns the reason.
#[track_caller]
pub(super) fn assert_out(schedule: &Schedule, at: DateTime<Utc>, diary: &Diary) -> String {
    let (began, ran) = (Instant::now(), diary.lines().len());
    let report = schedule.run_due(at);
    let took = began.elapsed();
    let reason = skipped(&report, "report");
    assert!(matches!(reason, SkipReason::StoreUnavailable(_)), "{reason}");
    assert!(report.is_failure());
    assert_eq!(diary.lines().len(), ran, "a task ran");
    assert!(took < IN_TIME, "the tick took {took:?}: {reason}");
    assert!(!reason.to_string().contains("password@"), "{reason}");
    reason.to_string()
}

/// Returns the text of an error, with its cause.
pub(super) fn said(error: &MutexError) -> String {
    error.to_string()
}

#[track_caller]
pub(super) fn wait_until(what: &str, mut happens: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happens() {
        assert!(began.elapsed() < PATIENCE, "waited for {PATIENCE:?} until {what}");
        thread::sleep(Duration::from_millis(30)); // between two checks of a server
    }
}
