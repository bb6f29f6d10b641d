//! Servers that use a store and then fork their workers, as preforking ones do: a child must not use its parent's
//! leases and connections.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write, pipe};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use chrono::TimeDelta;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
#[cfg(feature = "redis")]
use soloist::RedisMutex;
use soloist::store::Owner;
use soloist::{Event, EventMutex, LeaseGuard, MutexName, Schedule, SkipReason, Term, Verdict, connect};
#[cfg(all(feature = "mysql", feature = "postgres"))]
use soloist::{MysqlMutex, PostgresMutex};

use crate::support::{holder, noon};

/// The environment variable for a master: the work of its children, their store, and their file.
const ORDER: &str = "SOLOIST_TEST_FORK";

const CHILDREN: usize = 6;
const ROUNDS: usize = 5;
const OCCURRENCES: u32 = 8;

/// The time between occurrences, for children that all tick at the same moment.
const BETWEEN: Duration = Duration::from_millis(40);

/// The timeout of a call to a server.
#[cfg(any(feature = "redis", all(feature = "mysql", feature = "postgres")))]
const TIMEOUT: Duration = Duration::from_secs(60);

/// A process of this program, started again for one of its tests, which forks; killed on drop.
pub(crate) struct StartedAgain {
    child: Child,
    said: BufReader<ChildStdout>,
}

/// Starts this program again for this test, with a value in the variable.
#[track_caller]
pub(crate) fn started_again(test: &str, variable: &str, told: &str) -> StartedAgain {
    let mut command = Command::new(std::env::current_exe().expect("a running program has a path"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(variable, told);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let said = BufReader::new(child.stdout.take().expect("its output is piped"));
    StartedAgain { child, said }
}

impl StartedAgain {
    /// Waits for this line. The lines for us begin with `>`.
    #[track_caller]
    pub(crate) fn waits_until_it_says(&mut self, what: &str) {
        let mut lines = self.said.by_ref().lines().map_while(Result::ok);
        assert!(lines.any(|line| line.strip_prefix('>') == Some(what)), "it ended before {what}");
    }

    /// Sends the word that the process waits for.
    #[track_caller]
    pub(crate) fn send_word(&mut self) {
        self.child.stdin.as_mut().expect("its input is piped").write_all(b"!").expect("it listens");
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn succeeds(mut self) {
        let mut said = String::new();
        self.said.read_to_string(&mut said).expect("it speaks in words");
        let status = self.child.wait().expect("it is ours");
        assert!(status.success(), "{status}, and what it met is on standard error: {said}");
    }
}

impl Drop for StartedAgain {
    fn drop(&mut self) {
        // The child may have ended by itself.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Starts a process that uses the store and then forks children which do `what`.
#[track_caller]
fn master(what: &str, store: &str, log: &Path) {
    started_again("fork::a_master_forks_as_it_is_told", ORDER, &format!("{what}\n{store}\n{}", log.display()))
        .succeeds();
}

#[test]
fn a_master_forks_as_it_is_told() {
    let Ok(told) = std::env::var(ORDER) else { return };
    let [what, store, log] = told.split('\n').collect::<Vec<_>>()[..] else { panic!("{told:?}") };
    let store = patient(store);
    match what {
        "tick" => children_tick(store, Path::new(log)),
        "guard" => children_drop_a_guard(&store, Path::new(log)),
        "owners" => children_have_owners(Path::new(log)),
        #[cfg(feature = "signals")]
        "signal" => a_child_is_told_to_end(store),
        #[cfg(feature = "redis")]
        "connection" => drop_beside_a_child(store),
        _ => panic!("{what}"),
    }
}

/// Returns the store at this URL, with a timeout for a busy machine and many processes.
pub(crate) fn patient(url: &str) -> Arc<dyn EventMutex> {
    match url.split(':').next() {
        #[cfg(feature = "redis")]
        Some("redis") => Arc::new(RedisMutex::builder(url).timeout(TIMEOUT).build().expect("a url")),
        #[cfg(all(feature = "mysql", feature = "postgres"))]
        Some("mysql") => Arc::new(MysqlMutex::builder(url).timeout(TIMEOUT).build().expect("a url")),
        #[cfg(all(feature = "mysql", feature = "postgres"))]
        Some("postgres") => Arc::new(PostgresMutex::builder(url).timeout(TIMEOUT).build().expect("a url")),
        _ => connect(url).expect("a url"),
    }
}

/// Forks. Runs `child` in the child.
#[expect(unsafe_code, reason = "fork")]
pub(crate) fn fork(child: impl FnOnce()) -> Pid {
    // SAFETY: this process has two threads, and the other one waits for this one's end, and holds nothing.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: this only sets a timer. Its signal ends a child that hangs.
            unsafe { libc::alarm(300) };
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).is_ok();
            // `exit` runs the handlers that release leases.
            std::process::exit(i32::from(!done));
        }
        child => Pid::from_raw(child).expect("there are processes to be had"),
    }
}

#[track_caller]
pub(crate) fn all_succeed(children: Vec<Pid>) {
    for child in children {
        let ended = waitpid(Some(child), WaitOptions::empty()).expect("it is ours").expect("it was waited for");
        assert_eq!(ended.1.exit_status(), Some(0), "{ended:?}");
    }
}

fn children_tick(store: Arc<dyn EventMutex>, log: &Path) {
    let name = log.file_name().expect("a file").to_str().expect("it is plain").to_owned();
    let file = Arc::new(File::options().append(true).create(true).open(log).expect("the directory takes a file"));
    let schedule = Schedule::new(store);
    let task = move |run: &soloist::Run| {
        for what in ["start", "end"] {
            let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later").as_nanos();
            let line = format!("{at} {what} {}\n", run.occurrence().to_rfc3339());
            (&*file).write_all(line.as_bytes()).expect("the disk has room");
            thread::sleep(Duration::from_millis(2)); // the task runs
        }
    };
    schedule.add(Event::call(name, task).every_minute().on_one_server().without_overlapping()).expect("an event");
    assert!(!schedule.run_due(noon() - TimeDelta::minutes(1)).is_failure());
    thread::sleep(BETWEEN); // a table is cleaned up on the first tick's connection
    assert!(!schedule.run_due(noon()).is_failure());

    let began = SystemTime::now();
    let tick = || {
        for occurrence in 1..=OCCURRENCES {
            let now = noon() + TimeDelta::minutes(occurrence.into());
            thread::sleep((BETWEEN * occurrence).saturating_sub(began.elapsed().unwrap_or_default()));
            let report = schedule.run_due(now);
            for entry in report.entries() {
                let expected = match entry.verdict() {
                    Verdict::Skipped(reason) => {
                        matches!(reason, SkipReason::Overlapping(_) | SkipReason::RanElsewhere(_))
                    }
                    Verdict::Ran(_) => true,
                };
                assert!(expected && !report.is_failure(), "{report}");
            }
        }
    };
    all_succeed((0..CHILDREN).map(|_| fork(tick)).collect());
}

/// Asserts that each occurrence of each round starts once, and no two runs overlap. Plays several rounds.
#[track_caller]
fn rounds_of_preforked_children(store: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for round in 0..ROUNDS {
        let log = directory.path().join(format!("fork-{}-{round}", std::process::id()));
        master("tick", store, &log);
        let mut lines: Vec<(u128, String, String)> = Vec::new();
        for line in fs::read_to_string(&log).expect("they ran").lines() {
            let [at, what, occurrence] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            lines.push((at.parse().expect("a number"), what.to_owned(), occurrence.to_owned()));
        }
        lines.sort();
        let mut starts = BTreeMap::<&str, u32>::new();
        for (_, what, occurrence) in &lines {
            *starts.entry(occurrence).or_default() += u32::from(what == "start");
        }
        assert!(starts.values().all(|starts| *starts == 1), "doubled: {starts:?}");
        for pair in lines.chunks(2) {
            assert!(pair[0].1 == "start" && pair[1].1 == "end" && pair[0].2 == pair[1].2, "an overlap: {lines:#?}");
        }
        // The master's own two, and those that met no running task.
        assert!(starts.len() > 2, "the children ran nothing: {starts:?}");
    }
}

fn children_drop_a_guard(store: &Arc<dyn EventMutex>, log: &Path) {
    let name = log.file_name().expect("a file").to_str().expect("it is plain");
    let name = MutexName::lease(name).expect("a name");
    let term = Term::new(Duration::from_secs(60)).expect("a term");
    let guard = LeaseGuard::acquire(store, name.clone(), term).expect("it answers").expect("nobody holds it");
    let guard = std::cell::Cell::new(Some(guard));
    all_succeed(vec![fork(|| drop(guard.take()))]);
    let is_ours = |when| {
        let holder = holder(store, &name).map(|holder| holder.pid());
        assert_eq!(holder, Some(std::process::id()), "{when}");
    };
    is_ours("it was dropped in a child");
    all_succeed(vec![fork(|| assert!(!guard.take().expect("a copy").release().expect("nothing is asked")))]);
    is_ours("it was to be released in a child");
    all_succeed(vec![fork(|| {
        assert!(LeaseGuard::acquire(store, name.clone(), term).expect("it answers").is_none(), "its parent holds it");
    })]);
    is_ours("a child has asked for it");
    let copy = guard.take().expect("it stayed here");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) && !copy.is_lost() {
                std::hint::spin_loop();
            }
        });
        for _ in 0..50 {
            all_succeed(vec![fork(|| {
                assert!(!copy.wait_lost(Duration::from_millis(1)) && !copy.remaining().is_zero(), "it lasts a minute");
            })]);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    guard.set(Some(copy));
    is_ours("children have looked at it while a thread of their parent did");
    let guard = guard.take().expect("it stayed here");
    assert!(!guard.is_lost());
    assert!(guard.release().expect("it answers"), "it was this process's to the end");
    all_succeed(vec![fork(|| {
        let guard = LeaseGuard::acquire(store, name.clone(), term).expect("it answers").expect("it is free");
        assert!(guard.release().expect("it answers"), "it is the child's");
    })]);
    assert!(!store.exists(&name).expect("it answers"));
    // What this process knows of the lease at the fork, the copy knows, too.
    let term = Term::new(Duration::from_secs(6)).expect("a term");
    let guard = LeaseGuard::acquire(store, name.clone(), term).expect("it answers").expect("it is free");
    assert!(store.break_lease(&name).expect("it answers").is_some());
    assert!(guard.wait_lost(Duration::from_secs(60)), "its renewal is refused");
    all_succeed(vec![fork(|| assert!(guard.is_lost() && guard.remaining().is_zero()))]);
}

fn children_have_owners(log: &Path) {
    let file = Arc::new(File::options().append(true).create(true).open(log).expect("the directory takes a file"));
    let note = || (&*file).write_all(format!("{}\n", Owner::unique()).as_bytes()).expect("the disk has room");
    note();
    all_succeed(vec![fork(note)]);
    all_succeed(vec![fork(|| {
        note();
        all_succeed(vec![fork(note)]);
    })]);
}

/// Lets a process id come round: a child may have that of a process that has ended, and still holds a permit.
#[test]
fn owners_of_two_processes_differ_by_more_than_the_process_id() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = directory.path().join("owners");
    master("owners", &format!("file:{}", directory.path().join("store").display()), &log);
    let noted = fs::read_to_string(&log).expect("they noted their owners");
    let ids: BTreeSet<&str> = noted.lines().map(|owner| owner.split('-').next().unwrap_or_default()).collect();
    assert_eq!(ids.len(), 4, "{noted}");
}

/// Tests that a child of a process that shuts down by signals does so itself, and its parent does not.
#[cfg(feature = "signals")]
fn a_child_is_told_to_end(store: Arc<dyn EventMutex>) {
    let shutdown = soloist::Shutdown::on_signals().expect("the handlers are to be had");
    let schedule = Schedule::new(store).with_shutdown(&shutdown);
    schedule.add(Event::call("report", |_| {}).every_minute().without_overlapping()).expect("an event");
    assert!(!schedule.run_due(noon()).is_failure());
    let (mut hears, mut says) = pipe().expect("a pipe");
    let child = fork(|| {
        assert!(!schedule.run_due(noon()).is_failure());
        says.write_all(b"!").expect("the parent listens");
        assert!(shutdown.wait(Duration::from_secs(30)), "it was told");
        shutdown.finish();
    });
    hears.read_exact(&mut [0]).expect("the child ticks");
    kill_process(child, Signal::TERM).expect("it is there");
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).expect("it is ours").expect("it was waited for");
    assert_eq!(status.terminating_signal(), Some(Signal::TERM.as_raw()), "{status:?}");
    assert!(!shutdown.wait(Duration::from_millis(50)), "the parent was not told");
    assert!(!schedule.run_due(noon()).is_failure());
}

#[cfg(feature = "signals")]
#[test]
fn a_signal_ends_the_child_that_it_was_sent_to() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    master("signal", &format!("file:{}", directory.path().join("store").display()), directory.path());
}

/// Drops a store while a child has its socket.
#[cfg(feature = "redis")]
fn drop_beside_a_child(store: Arc<dyn EventMutex>) {
    store.exists(&MutexName::lease("report").expect("a name")).expect("it answers");
    let (hears, says) = pipe().expect("a pipe");
    let child = fork(|| (&hears).read_exact(&mut [0]).expect("its parent says when to end"));
    drop(store);
    println!("\n>dropped"); // behind what libtest has begun
    std::io::stdin().read_exact(&mut [0]).expect("it is told to go on");
    (&says).write_all(b"!").expect("the child listens");
    all_succeed(vec![child]);
}

#[cfg(feature = "redis")]
#[test]
fn a_connection_to_redis_ends_with_its_store_although_a_child_has_its_socket() {
    let server = crate::servers::redis::Redis::start();
    let mut parent =
        started_again("fork::a_master_forks_as_it_is_told", ORDER, &format!("connection\n{}\n", server.url()));
    parent.waits_until_it_says("dropped");
    let is_there = || server.ask(&["CLIENT", "LIST"]).text().contains(" addr=127.0.0.1:");
    crate::support::until(|| !is_there()).expect("the server sees its end");
    parent.send_word();
    parent.succeeds();
}

#[track_caller]
fn a_guard_is_its_parents(store: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    master("guard", store, &directory.path().join(format!("guard-{}", std::process::id())));
}

/// A suite for one store, at this URL.
macro_rules! on {
    ($store:ident, $url:expr) => {
        mod $store {
            #[test]
            fn six_preforked_children_double_nothing_and_overlap_nowhere() {
                super::rounds_of_preforked_children(&$url);
            }

            #[test]
            fn a_guard_that_is_dropped_in_a_child_stays_its_parents() {
                super::a_guard_is_its_parents(&$url);
            }
        }
    };
}

on!(on_files, {
    let directory = tempfile::tempdir().expect("a temporary directory").keep();
    format!("file:{}", directory.display())
});
#[cfg(feature = "redis")]
on!(on_redis, crate::servers::redis::Redis::shared().url());
#[cfg(all(feature = "mysql", feature = "postgres"))]
on!(on_mariadb, crate::sql::SqlServer::url(<crate::servers::mariadb::Mariadb as crate::sql::SqlServer>::shared()));
#[cfg(all(feature = "mysql", feature = "postgres"))]
on!(on_postgres, crate::sql::SqlServer::url(<crate::servers::postgres::Postgres as crate::sql::SqlServer>::shared()));
