//! An audit of every admission, as `examples/audit.rs` keeps it: the table and the reports agree, and a failed
//! write decides nothing.

use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, Utc};
use soloist::contract::Harness;
use soloist::store::{Admission, Admitted, LeaseRequest};
use soloist::time::{Clock, ManualClock};
use soloist::{Event, LeaseGuard, MemoryMutex, MutexName, Period, Report, Schedule, SkipReason, Term, Verdict};

use super::{SqlServer, on_both};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::support::{PATIENCE, at, in_time, noon};

#[path = "../../../examples/audit.rs"]
#[expect(dead_code, reason = "an example has a main function")]
mod example;

use example::{Audit, Audited, Row, three_servers};

/// Starts an audit in the table of this server.
fn audit<S: SqlServer>(server: &str, of: &S) -> Audit {
    let url = of.url();
    if url.starts_with("mysql") {
        Audit::start(server, example::on_mysql(url))
    } else {
        Audit::start(server, example::on_postgres(url))
    }
}

/// Creates the table, one thread at a time: PostgreSQL fails two that create it at once.
fn make_audit_table<S: SqlServer>(server: &S) {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if server.url().starts_with("mysql") {
        server.ask(example::MYSQL_TABLE);
    } else {
        server.ask(&format!("SET ROLE owner; {}", example::POSTGRES_TABLE));
    }
}

/// A row as the report has it: server, reason, holder, token.
type Reported = (String, String, Option<String>, Option<u64>);

fn rows<S: SqlServer>(server: &S, event: &str, occurrence: &str) -> Vec<Reported> {
    let sql = format!(
        "SELECT server, reason, holder, token FROM soloist_audit WHERE event = '{event}' AND occurrence = '{occurrence}' \
         ORDER BY server"
    );
    let told = |row: Vec<Option<String>>| {
        let [server, reason, holder, token] = <[_; 4]>::try_from(row).expect("four columns");
        let token = token.map(|token| token.parse().expect("a number"));
        (server.expect("not null"), reason.expect("not null"), holder, token)
    };
    server.ask(&sql).into_iter().map(told).collect()
}

fn as_reported(server: &str, report: &Report) -> Reported {
    let [entry] = report.entries() else { panic!("one event was due:\n{report}") };
    let server = server.to_owned();
    match entry.verdict() {
        Verdict::Ran(outcome) => {
            (server, "granted".into(), None, outcome.fencing_token().map(soloist::FencingToken::get))
        }
        Verdict::Skipped(reason) => (server, reason.keyword().into(), reason.holder().map(ToString::to_string), None),
    }
}

fn text(occurrence: DateTime<Utc>) -> String {
    occurrence.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

on_both!(
    three_servers_over_one_occurrence_leave_one_granted_row_and_two_denied_ones_as_they_report,
    every_way_to_ask_leaves_a_row,
    an_audit_without_its_table_changes_no_answer,
    an_audit_whose_server_stands_still_changes_no_answer_and_holds_nobody_up,
    an_audit_whose_server_is_down_changes_no_answer,
);

fn three_servers_over_one_occurrence_leave_one_granted_row_and_two_denied_ones_as_they_report<S: SqlServer>() {
    let server = S::shared();
    make_audit_table(server);
    for (round, event) in ["carts", "répartition", "it's 'quoted' \\"].into_iter().enumerate() {
        let now = noon() + chrono::TimeDelta::minutes(i64::try_from(round).unwrap());
        let reports = three_servers(event, now, || server.mutex(), |name| audit(name, server));

        let reported: Vec<Reported> = reports.iter().map(|(server, report)| as_reported(server, report)).collect();
        let quoted = event.replace('\'', "''");
        let quoted = if server.url().starts_with("mysql") { quoted.replace('\\', "\\\\") } else { quoted };
        assert_eq!(rows(server, &quoted, &text(now)), reported);
        let of = |reason: &str| reported.iter().filter(|told| told.1 == reason).count();
        assert_eq!((of("granted"), of("ran_elsewhere")), (1, 2), "{reported:#?}");
        assert!(reported.iter().all(|told| told.2.is_some() != told.3.is_some()), "a holder or a token: {reported:#?}");
    }
}

fn every_way_to_ask_leaves_a_row<S: SqlServer>() {
    let server = S::shared();
    make_audit_table(server);
    let schedule = Schedule::new(Audited::new(server.mutex(), audit("web-1", server)));
    // Alone, in a batch of the background, and in the foreground after another, whose release travels with the question.
    let event = |name: &str| Event::call(format!("audit:{name}"), |_| {}).every_minute().on_one_server();
    schedule.add(event("first").without_overlapping()).unwrap();
    schedule.add(event("second").without_overlapping()).unwrap();
    schedule.add(event("batched-1").in_background()).unwrap();
    schedule.add(event("batched-2").in_background()).unwrap();
    schedule.add(Event::call("audit:permit", |_| {}).every_minute().once_per(Period::Day)).unwrap();
    schedule.add(Event::call("audit:lease", |_| {}).every_minute().without_overlapping()).unwrap();
    let report = schedule.run_due(noon());
    assert_eq!(report.entries().iter().filter(|entry| matches!(entry.verdict(), Verdict::Ran(_))).count(), 6);
    drop(schedule);

    let mutex = Audited::new(server.mutex(), audit("by hand", server));
    let guard = LeaseGuard::acquire(&mutex, MutexName::lease("audit:guard").unwrap(), Term::DEFAULT).unwrap().unwrap();
    assert!(LeaseGuard::acquire(&mutex, guard.lease().name().clone(), Term::DEFAULT).unwrap().is_none());
    guard.release().unwrap();
    drop(mutex);

    let sql = "SELECT event, occurrence, server, reason FROM soloist_audit WHERE event LIKE 'audit:%' ORDER BY 1, 4";
    let found: Vec<String> =
        server.ask(sql).into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        found,
        [
            "audit:batched-1 2026-03-01T12:00:00Z web-1 granted",
            "audit:batched-2 2026-03-01T12:00:00Z web-1 granted",
            "audit:first 2026-03-01T12:00:00Z web-1 granted",
            "audit:guard by hand granted",
            "audit:guard by hand overlapping",
            "audit:lease web-1 granted",
            "audit:permit day@2026-03-01 web-1 granted",
            "audit:second 2026-03-01T12:00:00Z web-1 granted",
        ]
    );
}

/// Asserts that three servers with a broken audit get their usual answers.
#[track_caller]
fn answers_are_as_ever(audit: impl Fn(&str) -> Audit + Sync) {
    let store = MemoryMutex::new();
    let reports = three_servers("carts", at("2026-03-01T13:00:00Z"), || store.clone(), audit);
    let ran = reports.iter().filter(|(_, report)| matches!(report.entries()[0].verdict(), Verdict::Ran(_))).count();
    let stood_back =
        |report: &Report| matches!(report.entries()[0].verdict(), Verdict::Skipped(SkipReason::RanElsewhere(Some(_))));
    assert_eq!((ran, reports.iter().filter(|(_, report)| stood_back(report)).count()), (1, 2), "{reports:#?}");
    assert!(reports.iter().all(|(_, report)| !report.is_failure()));
}

fn an_audit_without_its_table_changes_no_answer<S: SqlServer>() {
    let server = S::with(&[]);
    answers_are_as_ever(|name| audit(name, &server));

    make_audit_table(&server);
    answers_are_as_ever(|name| audit(name, &server));
    assert_eq!(rows(&server, "carts", "2026-03-01T13:00:00Z").len(), 3, "it is there again");
}

/// A server that a test can stop and kill.
trait Breakable: SqlServer {
    fn stop(&self);
    fn go_on(&self);
    fn end(&self);
}

macro_rules! breakable {
    ($server:ty) => {
        impl Breakable for $server {
            fn stop(&self) {
                self.pause();
            }
            fn go_on(&self) {
                self.resume();
            }
            fn end(&self) {
                self.kill();
            }
        }
    };
}
breakable!(Mariadb);
breakable!(Postgres);

/// The limit for three servers that ask at once, and then wait for the lost record: two seconds, and the delay of
/// a busy machine.
const BOUND: Duration = Duration::from_secs(6);

fn an_audit_whose_server_stands_still_changes_no_answer_and_holds_nobody_up<S: Breakable>() {
    let server = S::with(&[]);
    make_audit_table(&server);
    server.stop();
    in_time(BOUND, || answers_are_as_ever_after(&server));

    // An admission does not wait at all: two thousand of them would wait for an hour.
    let mutex = Audited::new(MemoryMutex::new(), audit("web-1", &server));
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for name in 0..2_000 {
            let name = MutexName::lease(name.to_string()).unwrap();
            let request = LeaseRequest::new(name, Term::MAX, &Clock::system());
            assert!(matches!(Admission::lease_only(request).ask(&mutex), Ok(Admitted::Granted(_))));
        }
        tell.send(()).unwrap();
    });
    told.recv_timeout(PATIENCE).expect("no gate waits for the audit");
    server.go_on();
}

fn an_audit_whose_server_is_down_changes_no_answer<S: Breakable>() {
    let server = S::with(&[]);
    make_audit_table(&server);
    server.end();
    in_time(BOUND, || answers_are_as_ever_after(&server));
}

/// Returns how long that took.
fn answers_are_as_ever_after<S: Breakable>(server: &S) -> Duration {
    let began = Instant::now();
    answers_are_as_ever(|name| audit(name, server));
    began.elapsed()
}

#[test]
fn an_audit_that_was_at_rest_while_its_server_was_restarted_writes_on() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    let (tries, written) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (count, list) = (Arc::clone(&tries), Arc::clone(&written));
    let audit = Audit::start("web-1", move |row: &Row| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err("this connection has ended");
        }
        list.lock().unwrap().push(row.reason);
        Ok(())
    });
    let mutex = Audited::new(MemoryMutex::new(), audit);
    let request = LeaseRequest::new(MutexName::lease("reports").unwrap(), Term::MAX, &Clock::system());
    assert!(matches!(Admission::lease_only(request).ask(&mutex), Ok(Admitted::Granted(_))));
    drop(mutex);
    assert_eq!((*written.lock().unwrap()).clone(), ["granted"]);
}

#[test]
fn an_audit_that_panics_or_can_not_even_complain_changes_no_answer() {
    const ALONE: &str = "SOLOIST_TEST_AUDIT_PANICS";
    if std::env::var_os(ALONE).is_some() {
        return answers_are_as_ever(|name| {
            Audit::start(name, |_: &Row| -> Result<(), &str> { panic!("it is broken") })
        });
    }
    // A process of its own, whose standard error takes nothing.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has one");
    let name = "sql::audit::an_audit_that_panics_or_can_not_even_complain_changes_no_answer";
    let mut child = Command::new(std::env::current_exe().expect("a running program has a path"));
    child.args([name, "--exact", "--nocapture"]).env(ALONE, "1").stderr(full);
    let output = child.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// The behaviour suite, on a store in memory with an audit.
struct InMemory(ManualClock, Audited<MemoryMutex>);

impl InMemory {
    fn new() -> Self {
        let clock = ManualClock::at(DateTime::UNIX_EPOCH);
        let audit = Audit::start("suite", |_: &Row| Ok::<(), &str>(()));
        Self(clock.clone(), Audited::new(MemoryMutex::with_clock(clock), audit))
    }
}

impl Harness for InMemory {
    type Mutex = Audited<MemoryMutex>;

    fn mutex(&self) -> Self::Mutex {
        self.1.clone()
    }

    fn clock(&self) -> Clock {
        Clock::from(&self.0)
    }

    fn let_time_pass(&self, by: Duration) {
        self.0.advance(by);
    }
}

mod in_memory {
    soloist::contract_tests!(super::InMemory::new());
}
