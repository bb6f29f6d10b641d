//! Shows an audit: a store that wraps any other store, and writes each admission, granted or refused, to an SQL table.
//! The example needs a PostgreSQL or MariaDB.
//!
//! ```text
//! cargo run --example audit -- postgres://app:secret@127.0.0.1/app
//! cargo run --example audit --features redis -- mysql://app:secret@127.0.0.1/app redis://127.0.0.1
//! ```
//!
//! The first URL is the database of the audit. The second URL is the wrapped store; its default is `memory:`. Three
//! servers ask for one occurrence: one row says that the occurrence was granted, and two rows name the server that has
//! it.
//!
//! A separate thread writes the rows. So no admission waits for the database of the audit, or fails because of it. If
//! the process is killed, rows that are not written yet are lost.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use mysql::prelude::Queryable;
use soloist::store::{Admission, Admitted, Batch, Holder, Lease, LeaseRequest, Slot};
use soloist::{Event, EventMutex, MutexError, MutexName, Report, Schedule};

/// A store that reports its admissions to an audit.
#[derive(Clone, Debug)]
pub(crate) struct Audited<M> {
    store: M,
    audit: Arc<Audit>,
}

impl<M: EventMutex> Audited<M> {
    pub(crate) fn new(store: M, audit: Audit) -> Self {
        Self { store, audit: Arc::new(audit) }
    }
}

impl<M: EventMutex> EventMutex for Audited<M> {
    fn inner(&self) -> Option<&dyn EventMutex> {
        Some(&self.store) // answers all methods that are not overridden below
    }

    /// Passes a batch to the store, and reports its admissions. A tick and a `LeaseGuard` send all
    /// their admissions in batches.
    fn carry_out(&self, batch: &mut Batch) {
        self.store.carry_out(batch);
        batch.admissions().iter().for_each(|slot| self.audit.tell(slot));
    }

    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.store.create(request)
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.store.exists(name)
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.store.forget(lease)
    }
}

/// A requested admission, as a row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) at: DateTime<Utc>,
    pub(crate) server: String,
    /// The name of the event. An admission without a claim has the name of its lease here: the event's name or its
    /// `mutex_name`.
    pub(crate) event: String,
    /// The occurrence or the period of the requested claim.
    pub(crate) occurrence: Option<String>,
    /// The text `granted`, or the keyword of the skip: `overlapping`, `ran_elsewhere`, `paused`, `store_unavailable`.
    pub(crate) reason: &'static str,
    /// The holder of the lease, claim or pause that caused the refusal, or the text of the error.
    pub(crate) holder: Option<String>,
    /// The fencing token that was granted.
    pub(crate) token: Option<u64>,
}

/// The thread that writes the rows, one after another.
pub(crate) struct Audit {
    server: String,
    rows: Option<SyncSender<Row>>,
    written: Mutex<Receiver<()>>,
}

/// The number of rows that can wait for a database that does not answer. Further rows are lost, and reported on
/// standard error.
const WAITING: usize = 1_000;

/// The longest time for which the drop of an audit waits until all rows are written.
const PATIENCE: Duration = Duration::from_secs(2);

impl Audit {
    /// Starts the thread of an audit. Neither a slow nor a failing `write` disturbs an admission.
    pub(crate) fn start<E: fmt::Display>(
        server: impl Into<String>,
        mut write: impl FnMut(&Row) -> Result<(), E> + Send + 'static,
    ) -> Self {
        let (rows, to_write) = mpsc::sync_channel::<Row>(WAITING);
        let (all_written, written) = mpsc::channel();
        thread::spawn(move || {
            for row in to_write {
                // Tries twice, because an idle connection can be broken. In rare cases, the row is then written twice.
                if let Err(error) = write(&row).or_else(|_| write(&row)) {
                    complain(format_args!("not written: {row:?}: {error}"));
                }
            }
            // The send fails only if the drop of the audit has stopped waiting.
            let _ = all_written.send(());
        });
        Self { server: server.into(), rows: Some(rows), written: Mutex::new(written) }
    }

    fn tell(&self, slot: &Slot<Admission, Admitted>) {
        let asked = slot.asked();
        let request = asked.claim().or(asked.lease()).expect("an admission is a lease, a claim, or both");
        let denied = |reason, holder: &Option<Holder>| (reason, holder.as_ref().map(Holder::to_string), None);
        let (reason, holder, token) = match slot.answer() {
            Some(Ok(Admitted::Granted(grant))) => ("granted", None, Some(grant.token().get())),
            Some(Ok(Admitted::LeaseTaken(holder))) => denied("overlapping", holder),
            Some(Ok(Admitted::ClaimTaken(holder))) => denied("ran_elsewhere", holder),
            Some(Ok(Admitted::Excluded(held))) => denied("paused", &held.holder().cloned()),
            Some(Ok(_)) => denied("refused", &None),
            Some(Err(error)) => ("store_unavailable", Some(error.to_string()), None),
            None => ("store_unavailable", Some("no answer".to_owned()), None),
        };
        let name = request.name();
        let occurrence = name.occurrence().map(|occurrence| occurrence.to_rfc3339_opts(SecondsFormat::AutoSi, true));
        let row = Row {
            at: Utc::now(),
            server: self.server.clone(),
            event: name.event().unwrap_or(name.mutex()).to_owned(),
            occurrence: occurrence.or_else(|| name.period().map(str::to_owned)),
            reason,
            holder,
            token,
        };
        let rows = self.rows.as_ref().expect("only the drop takes the sender");
        if let Err(error) = rows.try_send(row) {
            complain(format_args!("not written: {error}"));
        }
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        drop(self.rows.take()); // the thread ends after the last row, because no sender is left
        let written = self.written.get_mut().unwrap_or_else(PoisonError::into_inner);
        if written.recv_timeout(PATIENCE).is_err() {
            complain(format_args!("not all rows were written within {PATIENCE:?}"));
        }
    }
}

/// Writes `why` to standard error. `eprintln!` is not used, because it panics if it can't write, and a panic would fail
/// an admission.
fn complain(why: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "audit: {why}");
}

type Failed = Box<dyn Error + Send + Sync>;

/// The table in PostgreSQL.
pub(crate) const POSTGRES_TABLE: &str = "CREATE TABLE IF NOT EXISTS soloist_audit (
    at TIMESTAMP NOT NULL, server TEXT NOT NULL, event TEXT NOT NULL, occurrence TEXT,
    reason TEXT NOT NULL, holder TEXT, token BIGINT)";

/// The table in MySQL and MariaDB.
pub(crate) const MYSQL_TABLE: &str = "CREATE TABLE IF NOT EXISTS soloist_audit (
    at DATETIME(6) NOT NULL, server TEXT NOT NULL, event TEXT NOT NULL, occurrence TEXT,
    reason TEXT NOT NULL, holder TEXT, token BIGINT) CHARACTER SET utf8mb4";

/// Returns a function that writes a row to the PostgreSQL at `url`. The function connects before its first row.
pub(crate) fn on_postgres(url: String) -> impl FnMut(&Row) -> Result<(), Failed> + Send + 'static {
    let mut connected: Option<postgres::Client> = None;
    move |row| {
        // `take` removes the connection. It is stored again only after a success, so a failed connection is dropped.
        let mut client = match connected.take() {
            Some(client) => client,
            None => postgres::Client::connect(&url, postgres::NoTls)?,
        };
        let Row { server, event, occurrence, reason, holder, .. } = row;
        let (at, token) = (row.at.naive_utc().to_string(), row.token.map(u64::cast_signed));
        let insert = "INSERT INTO soloist_audit VALUES ($1::TEXT::TIMESTAMP, $2, $3, $4, $5, $6, $7)";
        client.execute(insert, &[&at, server, event, occurrence, reason, holder, &token])?;
        connected = Some(client);
        Ok(())
    }
}

/// Returns a function that writes a row to the MySQL or MariaDB at `url`. The function connects before its first row.
pub(crate) fn on_mysql(url: String) -> impl FnMut(&Row) -> Result<(), Failed> + Send + 'static {
    let mut connected: Option<mysql::Conn> = None;
    move |row| {
        let mut client = match connected.take() {
            Some(client) => client,
            None => mysql::Conn::new(&*url)?,
        };
        let Row { server, event, occurrence, reason, holder, token, .. } = row;
        let at = row.at.naive_utc().to_string();
        let insert = "INSERT INTO soloist_audit VALUES (?, ?, ?, ?, ?, ?, ?)";
        client.exec_drop(insert, (at, server, event, occurrence, reason, holder, token))?;
        connected = Some(client);
        Ok(())
    }
}

/// Lets three servers, each with its own audit, ask for one occurrence at the same time. Returns their reports.
pub(crate) fn three_servers<M: EventMutex + 'static>(
    event: &str,
    now: DateTime<Utc>,
    store: impl Fn() -> M + Sync,
    audit: impl Fn(&str) -> Audit + Sync,
) -> Vec<(&'static str, Report)> {
    let at_once = Barrier::new(3);
    let server = |server| {
        let schedule = Schedule::new(Audited::new(store(), audit(server)));
        let event = Event::call(event, |_| {}).every_minute().on_one_server().without_overlapping();
        schedule.add(event).expect("it is well-defined");
        at_once.wait();
        (server, schedule.run_due(now))
        // The drop of the schedule drops the audit, which waits until all rows are written.
    };
    thread::scope(|scope| {
        let servers = ["web-1", "web-2", "web-3"].map(|name| scope.spawn(move || server(name)));
        servers.into_iter().map(|server| server.join().expect("no server panics")).collect()
    })
}

const USAGE: &str = "usage: audit DATABASE [STORE]
  DATABASE  postgres://user:password@host/database or mysql://…, for the rows. The table soloist_audit is created if it
            does not exist
  STORE     the store that the servers share: memory: (the default), file:/path, redis://host or a database, with its feature";

fn main() -> Result<ExitCode, Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (database, store) = match &arguments[..] {
        [database] => (database, "memory:"),
        [database, store] => (database, &**store),
        _ => return Ok(refuse(USAGE)),
    };
    let store = soloist::connect(store)?;
    let is_postgres = database.starts_with("postgres");
    if is_postgres {
        postgres::Client::connect(database, postgres::NoTls)?.batch_execute(POSTGRES_TABLE)?;
    } else if database.starts_with("mysql:") {
        mysql::Conn::new(&**database)?.query_drop(MYSQL_TABLE)?;
    } else {
        return Ok(refuse(USAGE));
    }
    let audit = |server: &str| {
        if is_postgres {
            Audit::start(server, on_postgres(database.clone()))
        } else {
            Audit::start(server, on_mysql(database.clone()))
        }
    };
    // Each start of this program uses another minute, because the store still has the claims of earlier starts.
    let minute = DateTime::UNIX_EPOCH + TimeDelta::minutes(fastrand::i64(0..500_000_000));
    for (server, report) in three_servers("carts:remind", minute, || Arc::clone(&store), audit) {
        println!("{server}: {report}\n");
    }
    println!(
        "SELECT * FROM soloist_audit WHERE occurrence = '{}';",
        minute.to_rfc3339_opts(SecondsFormat::AutoSi, true)
    );
    Ok(ExitCode::SUCCESS)
}

fn refuse(why: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "{why}");
    ExitCode::from(2)
}
