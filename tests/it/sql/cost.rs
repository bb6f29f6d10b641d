//! How often a server is asked, and how often it has to write for that, by its own counters.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::panic::Location;
use std::slice;
use std::sync::Mutex;
use std::time::Duration;

use chrono::TimeDelta;
use soloist::store::{Admission, Admitted, Lease, LeaseRequest};
use soloist::time::Clock;
use soloist::{Event, EventMutex, MutexError, MutexName, Schedule, Term};

use super::batches::{admit, extend, release};
use super::{Ask, SqlServer, on_both};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::servers::proxy::{Behind, Proxy};
use crate::support::{at, holder, noon, ran};

on_both!(what_a_run_costs, what_a_batch_costs, a_tick_in_which_nothing_is_due_opens_no_connection);

/// A server that counts its work, and the queries for the counts.
trait Counts: SqlServer + Behind {
    /// The transactions that have written.
    const TRANSACTIONS: &str;
    /// Numbers that stay as they are where nothing is written.
    const WRITTEN: &[&str];

    /// Starts a server without writes of its own.
    fn at_rest() -> Self;
}

impl Counts for Mariadb {
    /// The binary log, for replicas.
    const TRANSACTIONS: &str = "SHOW GLOBAL STATUS LIKE 'Binlog_commits'";
    const WRITTEN: &[&str] = &[
        "SHOW GLOBAL STATUS LIKE 'Handler_write'",
        "SHOW GLOBAL STATUS LIKE 'Handler_update'",
        "SHOW GLOBAL STATUS LIKE 'Handler_delete'",
    ];

    fn at_rest() -> Self {
        let server = Self::with(&["--log-bin=binlog", "--binlog-format=ROW"]);
        Self::create_table(&server.mutex()).expect("the table is made");
        server
    }
}

impl Counts for Postgres {
    /// Only those get a number.
    const TRANSACTIONS: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())";
    const WRITTEN: &[&str] = &["SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"];

    fn at_rest() -> Self {
        let server = Self::with(&["-c", "wal_level=minimal", "-c", "max_wal_senders=0"]);
        Self::create_table(&server.mutex()).expect("the table is made");
        server
    }
}

/// The store on one connection to a server, with the counters of both.
struct Counted<S: Counts> {
    mutex: S::Mutex,
    proxy: Proxy,
    witness: Witness,
    /// How many connections there were when the counting began.
    connections: usize,
    unexpected: RefCell<Vec<String>>,
    /// The fewest round trips of an admission of one event.
    fewest: Cell<usize>,
    _server: S,
}

/// A connection past the store, for the counters: a new one for each would take so long that the store's own is closed.
struct Witness(Mutex<Ask>);

impl Witness {
    fn of(server: &impl SqlServer) -> Self {
        Self(Mutex::new(server.connected()))
    }

    /// Reads the number at the end of the answer's row.
    #[track_caller]
    fn number(&self, sql: &str) -> u64 {
        let rows = (self.0.lock().expect("no question fails"))(sql);
        let number = rows[0].last().cloned().flatten();
        number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{sql}: no number: {rows:?}"))
    }
}

/// Round trips, and transactions that write.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost(usize, u64);

impl<S: Counts> Counted<S> {
    /// Measures on one connection. Measures again if a second connection was opened, because the store closes a
    /// connection that is idle for half a second. Also measures again if a busy machine has split a request, so
    /// that its replies count for more.
    #[track_caller]
    fn on_one_connection(measure: impl Fn(&Self)) {
        let mut unexpected = Vec::new();
        for _ in 0..5 {
            let counted = Self::start();
            measure(&counted);
            let is_of_one = counted.proxy.connections() == counted.connections;
            unexpected =
                if is_of_one { counted.unexpected.into_inner() } else { vec!["another connection".to_owned()] };
            if unexpected.is_empty() {
                return;
            }
        }
        panic!("five times, at last: {}", unexpected.join("\n"));
    }

    /// Starts the server and the store, and makes the first calls of a process.
    fn start() -> Self {
        let server = S::at_rest();
        let proxy = Proxy::of(&server);
        let mutex = S::open_at_rest(&proxy, Duration::from_secs(10));
        // The first admission of all writes a row for the locks of PostgreSQL.
        assert!(mutex.create(&request("first")).expect("an answer").is_some());
        let (connections, witness) = (proxy.connections(), Witness::of(&server));
        Self {
            mutex,
            proxy,
            witness,
            connections,
            unexpected: RefCell::default(),
            fewest: Cell::new(usize::MAX),
            _server: server,
        }
    }

    #[track_caller]
    fn costs<T>(&self, cost: Cost, call: impl FnOnce(&S::Mutex) -> T) -> T {
        let (answer, found) = self.measured(call);
        self.expect(&found, &cost);
        answer
    }

    /// Asserts the cost of an admission of one event. A clean-up, which comes by chance, has a round trip of its own.
    #[track_caller]
    fn admits<T>(&self, call: impl FnOnce(&S::Mutex) -> T) -> T {
        let (answer, Cost(round_trips, transactions)) = self.measured(call);
        self.fewest.set(self.fewest.get().min(round_trips));
        self.expect(&Cost(if round_trips == 3 { 2 } else { round_trips }, transactions), &Cost(2, 1));
        answer
    }

    fn measured<T>(&self, call: impl FnOnce(&S::Mutex) -> T) -> (T, Cost) {
        let transactions = || self.witness.number(S::TRANSACTIONS);
        let before = (transactions(), self.proxy.replies());
        let answer = call(&self.mutex);
        let round_trips = self.proxy.replies() - before.1;
        (answer, Cost(round_trips, transactions() - before.0))
    }

    /// Asserts that the call costs one round trip, and writes nothing.
    #[track_caller]
    fn only_looks<T>(&self, call: impl FnOnce(&S::Mutex) -> T) -> T {
        let written = || S::WRITTEN.iter().map(|sql| self.witness.number(sql)).collect::<Vec<_>>();
        let before = written();
        let answer = self.costs(Cost(1, 0), call);
        self.expect(&written(), &before);
        answer
    }

    #[track_caller]
    fn expect<T: Debug + PartialEq>(&self, found: &T, expected: &T) {
        if found != expected {
            let place = Location::caller();
            self.unexpected.borrow_mut().push(format!("{place}: {found:?} instead of {expected:?}"));
        }
    }
}

fn name(name: &str) -> MutexName {
    MutexName::lease(name).expect("a name")
}

pub(super) fn term() -> Term {
    Term::new(Duration::from_secs(600)).expect("a term")
}

pub(super) fn request(of: &str) -> LeaseRequest {
    LeaseRequest::new(name(of), term(), &Clock::system())
}

/// Returns an admission of lease and claim of one of many events, with an owner of its own.
pub(super) fn admission(number: usize, minute: i64) -> Admission {
    let lease = request(&format!("event {number}"));
    let claim = lease.with(lease.name().claim("event", noon() + TimeDelta::minutes(minute)), term());
    Admission::both(lease, claim)
}

#[track_caller]
pub(super) fn granted(admitted: Result<Admitted, MutexError>) -> Lease {
    match admitted {
        Ok(Admitted::Granted(grant)) => grant.lease().expect("a lease was asked for").clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns whether another owner has the claim.
pub(super) fn is_lost(admitted: &Result<Admitted, MutexError>) -> bool {
    matches!(admitted, Ok(Admitted::ClaimTaken(Some(_))))
}

fn what_a_run_costs<S: Counts>() {
    Counted::<S>::on_one_connection(what_runs_cost);
}

fn what_runs_cost<S: Counts>(counted: &Counted<S>) {
    for number in 0..3 {
        let lease = counted.admits(|mutex| granted(admission(number, 0).ask(&mutex)));
        let lost = counted.only_looks(|mutex| admission(number, 0).ask(&mutex));
        assert!(is_lost(&lost));
        let lost = counted.only_looks(|mutex| mutex.create(&request(&format!("event {number}"))));
        assert!(matches!(lost, Ok(None)), "{lost:?}");
        assert!(counted.only_looks(|mutex| mutex.exists(lease.name())).unwrap());
        assert!(counted.only_looks(|mutex| holder(mutex, lease.name())).is_some());
        assert!(counted.costs(Cost(2, 1), |mutex| extend(&mutex, slice::from_ref(&lease), term()).remove(0)).unwrap());
        assert!(counted.costs(Cost(1, 1), |mutex| mutex.forget(&lease)).unwrap());
        assert!(!counted.only_looks(|mutex| mutex.forget(&lease)).unwrap());
        assert!(!counted.costs(Cost(2, 0), |mutex| extend(&mutex, slice::from_ref(&lease), term()).remove(0)).unwrap());
        // The row exists by now.
        let again = request(&format!("event {number}"));
        assert!(counted.admits(|mutex| mutex.create(&again)).unwrap().is_some());
        assert!(counted.costs(Cost(2, 1), |mutex| mutex.break_lease(lease.name())).unwrap().is_some());
    }
    assert_eq!(counted.fewest.get(), 2, "most admissions do not clean up");
}

fn what_a_batch_costs<S: Counts>() {
    Counted::<S>::on_one_connection(what_batches_cost);
}

fn what_batches_cost<S: Counts>(counted: &Counted<S>) {
    for minute in 0..3 {
        let [admissions, others] =
            [(); 2].map(|()| (0..100).map(|number| admission(number, minute)).collect::<Vec<_>>());
        let admitted = counted.costs(Cost(3, 1), |mutex| admit(&mutex, &admissions));
        let leases: Vec<Lease> = admitted.into_iter().map(granted).collect();
        let lost = counted.costs(Cost(1, 0), |mutex| admit(&mutex, &others));
        assert!(lost.iter().all(is_lost));
        counted.costs(Cost(2, 1), |mutex| extend(&mutex, &leases, term()));
        counted.costs(Cost(1, 1), |mutex| release(&mutex, &leases));
    }
}

fn a_tick_in_which_nothing_is_due_opens_no_connection<S: Counts>() {
    let server = S::shared();
    let proxy = Proxy::of(server);
    let schedule = Schedule::new(S::open(&proxy.url(), Duration::from_secs(10)));
    let protected = |event: Event| event.on_one_server().without_overlapping();
    schedule.add(protected(Event::call("cost:yearly", |_| {}).cron("0 0 1 1 *"))).unwrap();
    schedule.add(protected(Event::call("cost:filtered", |_| {}).every_minute().skip(|_| true))).unwrap();
    for minute in 0..3 {
        assert!(!schedule.run_due(noon() + TimeDelta::minutes(minute)).is_failure());
    }
    assert_eq!(proxy.connections(), 0);

    // A busy machine may take so long between two ticks that the idle connection is closed.
    let uses_one_connection = |first: i32| {
        let before = proxy.connections();
        for year in first..first + 4 {
            ran(&schedule.run_due(at(&format!("{year}-01-01T00:00:00Z"))), "cost:yearly");
        }
        proxy.connections() <= before + 1
    };
    assert!((2026..2046).step_by(4).any(uses_one_connection), "the connection is used again");
}
