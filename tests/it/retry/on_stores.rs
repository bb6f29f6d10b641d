//! Between two attempts: the process is killed, exits or shuts down, the lease is lost, the store is unavailable. On each store.

use std::process::Child;

use super::*;
use crate::fleet::Fleet;
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::servers::redis::Redis;
use crate::support::patient_url;
use crate::worker_log::{Line, read};

/// A server that can be stopped; none for files.
struct Server {
    url: String,
    pause: Box<dyn Fn()>,
    resume: Box<dyn Fn()>,
    /// Whether the leases of a process end with it.
    frees_at_once: bool,
    _directory: Option<tempfile::TempDir>,
}

fn file() -> Server {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let url = format!("file:{}", directory.path().join("store").display());
    Server { url, pause: Box::new(|| {}), resume: Box::new(|| {}), frees_at_once: true, _directory: Some(directory) }
}

macro_rules! server {
    ($make:ident, $server:ty, $create:expr) => {
        fn $make() -> Server {
            let server = std::rc::Rc::new(<$server>::start());
            let (url, other) = (server.url(), std::rc::Rc::clone(&server));
            $create(&patient_url(&url));
            Server {
                url,
                pause: Box::new(move || server.pause()),
                resume: Box::new(move || other.resume()),
                frees_at_once: false,
                _directory: None,
            }
        }
    };
}

server!(redis, Redis, |_: &str| {});
server!(mariadb, Mariadb, |url: &str| soloist::MysqlMutex::new(url).unwrap().create_table().unwrap());
server!(postgres, Postgres, |url: &str| soloist::PostgresMutex::new(url).unwrap().create_table().unwrap());

macro_rules! on_each_store {
    ($($case:ident),* $(,)?) => {
        mod on_file { $(#[test] fn $case() { super::$case(&super::file()); })* }
        mod on_redis { $(#[test] fn $case() { super::$case(&super::redis()); })* }
        mod on_mariadb { $(#[test] fn $case() { super::$case(&super::mariadb()); })* }
        mod on_postgres { $(#[test] fn $case() { super::$case(&super::postgres()); })* }
    };
}

on_each_store!(
    a_process_that_is_killed_between_two_attempts_makes_no_more_and_frees_the_event,
    a_process_that_shuts_down_between_two_attempts_releases_at_once,
    a_process_that_exits_between_two_attempts_releases_at_once,
    a_process_that_exits_in_a_hook_after_a_wait_does_not_release,
    a_broken_lease_ends_the_wait,
    an_outage_between_two_attempts_costs_no_attempt,
    an_outage_that_outlasts_the_lease_ends_the_wait,
);

/// No process stalls for two thirds of the term.
const PROTECTED: [&str; 4] = ["--without-overlapping", "--term", "9", "--on-one-server"];

fn lines(fleet: &Fleet, log: &str, what: &str) -> Vec<Line> {
    read(&fleet.log(log)).into_iter().filter(|line| line.what == what).collect()
}

/// Starts a worker whose task fails and then waits for hours.
fn worker_that_waits(fleet: &Fleet) -> Child {
    let options = ["--cron", "0 0 * * *", "--now", "2026-03-01T00:00:00Z", "--fails", "1", "--retry", "3"];
    let options = [&options[..], &["--retry-after-ms", "3600000"], &PROTECTED[..]].concat();
    let worker = fleet.worker("first", &options).spawn().expect("a worker starts");
    until(|| !lines(fleet, "first", "fails").is_empty()).expect("its task fails");
    worker
}

/// Lets another worker run the next day, as soon as the event is free. Returns its token.
fn next_token(fleet: &Fleet) -> u64 {
    let next = ["--cron", "0 0 * * *", "--now", "2026-03-02T00:00:00Z"];
    until(|| {
        // A worker fails if the machine is too busy for the calls of the store.
        let output = fleet.worker("next", &[&next[..], &PROTECTED[..]].concat()).output().expect("a worker runs");
        println!("{}", String::from_utf8_lossy(&output.stderr));
        !lines(fleet, "next", "start").is_empty()
    })
    .expect("the event is free");
    lines(fleet, "next", "start")[0].token.expect("it is protected")
}

fn store(url: &str) -> Arc<dyn EventMutex> {
    soloist::connect(url).expect("it is a store")
}

fn report() -> MutexName {
    MutexName::lease("report").expect("it is a name")
}

fn a_process_that_is_killed_between_two_attempts_makes_no_more_and_frees_the_event(server: &Server) {
    let fleet = Fleet::on(server.url.clone());
    let mut first = worker_that_waits(&fleet);
    first.kill().and_then(|()| first.wait()).expect("it is ours");
    if !server.frees_at_once {
        assert!(store(&server.url).exists(&report()).expect("it answers"), "nobody has released it");
    }
    let token = next_token(&fleet);
    assert!(lines(&fleet, "first", "start")[0].token.expect("it is protected") < token);
    assert_eq!(lines(&fleet, "first", "attempt").len(), 0);
}

fn a_process_that_shuts_down_between_two_attempts_releases_at_once(server: &Server) {
    let fleet = Fleet::on(server.url.clone());
    let first = worker_that_waits(&fleet);
    let pid = rustix::process::Pid::from_raw(first.id().cast_signed()).expect("a process has a number");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is ours");
    let output = first.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not retried, because the process is shutting down"), "{said}");
    assert!(!store(&server.url).exists(&report()).expect("it answers"));
    assert_eq!(lines(&fleet, "first", "attempt").len(), 0);
}

const EXITS: &str = "SOLOIST_TEST_RETRY_EXITS";

/// Plays the child of the next test: its run waits on a worker thread, and its main thread exits.
#[test]
fn a_child_exits_while_its_run_waits() {
    let Ok(url) = std::env::var(EXITS) else { return };
    let _waiting =
        Waiting::begin(Schedule::new(store(&url)), |event| event.in_background().without_overlapping().on_one_server());
    std::process::exit(7);
}

fn a_process_that_exits_between_two_attempts_releases_at_once(server: &Server) {
    let child = "retry::on_stores::a_child_exits_while_its_run_waits";
    let output = crate::support::output_alone(child, &[(EXITS, &server.url)]).expect("this is no child");
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!store(&server.url).exists(&name()).expect("it answers"), "it was released, not shortened");
}

const EXITS_IN_A_HOOK: &str = "SOLOIST_TEST_RETRY_EXITS_IN_A_HOOK";

/// Plays the child of the next test: a pause ends the wait of its run, and its main thread exits while the hook runs.
#[test]
fn a_child_exits_while_the_hook_of_its_run_runs() {
    let Ok(url) = std::env::var(EXITS_IN_A_HOOK) else { return };
    let named = || Schedule::new(store(&url)).named("shop").expect("it is a name");
    let (begins, begun) = mpsc::channel();
    let _waiting = Waiting::begin(named(), |event| {
        let begins = begins.clone();
        event.in_background().without_overlapping().on_one_server().on_failure(move |_, _| {
            begins.send(()).expect("the test listens");
            thread::sleep(FOREVER);
        })
    });
    named().pause_event("import", Utc::now() + chrono::TimeDelta::hours(1), "").expect("it answers");
    begun.recv_timeout(PATIENCE).expect("the pause ends the wait");
    std::process::exit(7);
}

fn a_process_that_exits_in_a_hook_after_a_wait_does_not_release(server: &Server) {
    let child = "retry::on_stores::a_child_exits_while_the_hook_of_its_run_runs";
    let output = crate::support::output_alone(child, &[(EXITS_IN_A_HOOK, &server.url)]).expect("this is no child");
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    if !server.frees_at_once {
        assert!(store(&server.url).exists(&name()).expect("it answers"), "the hook still ran");
    }
}

fn a_broken_lease_ends_the_wait(server: &Server) {
    let waiting = Waiting::begin(Schedule::new(store(&server.url)), |event| {
        event.in_background().without_overlapping().lease_term(9 * SECOND)
    });
    assert!(store(&server.url).break_lease(&name()).expect("it answers").is_some());
    assert!(waiting.ends(NoRetry::LeaseOver).lease_lost_at().is_some());
}

fn an_outage_between_two_attempts_costs_no_attempt(server: &Server) {
    let (diary, waits) = (Diary::default(), Diary::default());
    let told = waits.clone();
    let schedule = Schedule::new(store(&server.url)).named("shop").expect("it is a name");
    let schedule = schedule.observe(move |notice: &Notice<'_>| {
        if let Step::AttemptFailed { .. } = notice.step() {
            told.note("waits");
        }
    });
    let event = succeeds_in(2, &diary).lease_term(60 * SECOND).in_background();
    schedule.add(event.retry(Retry::times(1).after(SECOND))).expect("it is right");
    let report = thread::scope(|scope| {
        let tick = scope.spawn(|| schedule.run_due(noon()));
        until(|| !waits.lines().is_empty()).expect("its task fails");
        (server.pause)();
        thread::sleep(3 * SECOND); // longer than the wait, and shorter than the lease
        (server.resume)();
        tick.join().expect("it ends")
    });
    assert!(ran(&report, "import").is_success() && !report.is_failure(), "{report}");
    let attempts = diary.lines();
    assert_eq!(attempts.len(), 2, "{attempts:?}");
    assert_eq!(attempts[0].replace("attempt 1", "attempt 2"), attempts[1], "the token stays");
}

fn an_outage_that_outlasts_the_lease_ends_the_wait(server: &Server) {
    if server.frees_at_once {
        return; // Files have no server that could be stopped.
    }
    let waiting = Waiting::begin(Schedule::new(store(&server.url)), |event| {
        event.in_background().without_overlapping().lease_term(6 * SECOND)
    });
    (server.pause)();
    let outcome = waiting.ends(NoRetry::LeaseOver);
    (server.resume)();
    assert!(outcome.lease_lost_at().is_some());
}
