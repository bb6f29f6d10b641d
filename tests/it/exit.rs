//! Processes that end by `exit` in the middle of a task, or by a return from `main` during a run, and the fate of
//! their leases.

use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::mem;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGTERM;
use soloist::observe::{Notice, OutcomeKind, RunState, Step};
use soloist::time::ManualClock;
use soloist::{
    Event, EventMutex, FileMutex, LeaseGuard, MutexName, Output, Retry, Run, Schedule, Shutdown, TaskResult, Term,
    connect,
};

use crate::scripted::Scripted;
use crate::support::{HOUR, PATIENCE, group_lives, holder, noon, number_in, until};

/// The environment variable for a child: the place of its exit, its events' protection, and its store.
const ORDER: &str = "SOLOIST_TEST_EXIT";

/// Where `other` writes the number of its group, if it is a command.
const GROUP: &str = "SOLOIST_TEST_GROUP";

/// The places where the thread of a run exits.
const PLACES: [&str; 6] = ["admitted", "before", "task", "background", "then", "ended"];

/// How its events are protected, both for much longer than the process takes to end.
const WAYS: [&str; 2] = ["renewed", "fixed"];

/// The longest remaining lease of another run after the process has gone.
const FEW_SECONDS: Duration = Duration::from_secs(5);

/// The longest time that an exit waits for its stores. A machine that stood still for so long has shown nothing.
const STORES_ANSWER: Duration = Duration::from_secs(3);

/// Starts a process up to five times, until one exits in less time than an exit waits for its stores. Returns the
/// moment before that exit, the status and the lines.
#[track_caller]
fn exit_in_time(start: impl Fn() -> Leaving) -> (Instant, (Option<i32>, Vec<String>)) {
    let exit = || {
        let leaving = start();
        (Instant::now(), leaving.exit())
    };
    let is_in_time = |(began, _): &(Instant, _)| began.elapsed() < STORES_ANSWER;
    std::iter::repeat_with(exit).take(5).find(is_in_time).expect("one of five exits is quick")
}

/// A process whose run of `other` goes on, and which waits for a word before it exits.
struct Leaving {
    child: Child,
    words: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Leaving {
    /// Waits until the child is where it is to exit.
    #[track_caller]
    fn start(place: &str, way: &str, store: &str) -> Self {
        Self::with(place, way, store, None)
    }

    /// Starts such a process whose `other` is a command that ignores TERM. Returns its process group, too.
    #[track_caller]
    fn beside_a_command(way: &str, store: &str) -> (Self, u32) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("group");
        (Self::with("task", way, store, Some(&file)), number_in(&file))
    }

    /// Starts such a process that writes each sleep of a thread into a file.
    #[cfg(target_os = "linux")]
    #[track_caller]
    fn watched(place: &str, way: &str, store: &str, naps: &Path) -> Self {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", "trace=/nanosleep", "-e", "signal=none", "-o"]).arg(naps);
        strace.arg(std::env::current_exe().expect("a running program has a path"));
        Self::begin(strace, place, way, store, None)
    }

    #[track_caller]
    fn with(place: &str, way: &str, store: &str, group: Option<&Path>) -> Self {
        let program = Command::new(std::env::current_exe().expect("a running program has a path"));
        Self::begin(program, place, way, store, group)
    }

    #[track_caller]
    fn begin(mut command: Command, place: &str, way: &str, store: &str, group: Option<&Path>) -> Self {
        command.args(["--exact", "exit::a_child_exits_as_it_is_told", "--nocapture", "--test-threads=1"]);
        command.env(ORDER, format!("{place}\n{way}\n{store}")).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(file) = group {
            command.env(GROUP, file);
        }
        let mut child = command.spawn().expect("it runs");
        let words = child.stdin.take().expect("its input is piped");
        let said = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut leaving = Self { child, words, said };
        while leaving.next_line().expect("it says that it is ready") != "ready" {}
        leaving
    }

    fn next_line(&mut self) -> Option<String> {
        let mut lines = self.said.by_ref().lines().map_while(Result::ok);
        lines.find_map(|line| line.strip_prefix('>').map(str::to_owned))
    }

    /// Lets the process exit. Returns its status and its lines.
    #[track_caller]
    fn exit(mut self) -> (Option<i32>, Vec<String>) {
        self.order_exit();
        self.ends()
    }

    #[track_caller]
    fn order_exit(&mut self) {
        self.words.write_all(b"go\n").expect("it listens");
    }

    /// Waits for the end of the process. A process that hangs fails the test.
    #[track_caller]
    fn ends(mut self) -> (Option<i32>, Vec<String>) {
        let status = Mutex::new((&mut self.child, None));
        let ended = until(|| {
            let (child, status) = &mut *status.lock().expect("one thread looks");
            *status = child.try_wait().expect("it is ours");
            status.is_some()
        });
        ended.expect("it does not hang");
        let status = status.into_inner().expect("one thread looked").1.and_then(|status| status.code());
        (status, std::iter::from_fn(|| self.next_line()).collect())
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_child_exits_as_it_is_told() {
    let Ok(told) = std::env::var(ORDER) else { return };
    let told: Vec<&'static str> = String::leak(told).split('\n').collect();
    let [place, way, store] = told[..] else { panic!("{told:?}") };
    let store: Arc<dyn EventMutex> = match store {
        "talking" => Arc::new(talking()),
        "talking, without extend" => Arc::new(talking().can_extend(false)),
        "stuck" => Arc::new(stuck()),
        url => connect(url).expect("a url"),
    };
    match place {
        "nothing in hand" => leave_with_nothing_in_hand(store, way),
        "a return from main" => return_from_main(store, way),
        "extend" => exit_on_the_renewal_thread(store),
        _ => {
            let (other, starts) = other(way);
            let starts = Arc::new(Mutex::new(starts));
            let leave = move || {
                let _ = starts.lock().expect("it is locked once").recv();
                exit_when_told();
            };
            let schedule = match place {
                "task, on record" => logged(&store),
                "admitted" | "ended" => Schedule::new(Arc::clone(&store)).observe(leaves_at(place, leave.clone())),
                _ => Schedule::new(Arc::clone(&store)),
            };
            schedule.add(other).unwrap();
            schedule.add(report(place, way, &store, leave)).unwrap();
            let _ = schedule.run_due(noon());
        }
    }
}

/// Makes a schedule that keeps a log.
fn logged(store: &Arc<dyn EventMutex>) -> Schedule {
    Schedule::new(Arc::clone(store)).named("shop").unwrap().with_run_log(10).unwrap()
}

/// Returns an observer that calls `leave` at this step of `report`.
fn leaves_at(place: &str, leave: impl Fn() + Send + Sync) -> impl Fn(&Notice<'_>) + Send + Sync {
    let at_its_end = place == "ended";
    move |notice| match notice.step() {
        Step::Admitted { .. } if notice.event() == Some("report") && !at_its_end => leave(),
        Step::Ended(_) if notice.event() == Some("report") && at_its_end => leave(),
        _ => {}
    }
}

fn protect(event: Event, way: &str) -> Event {
    let event = event.every_minute();
    match way {
        "renewed" => event.without_overlapping(),
        "fixed" => event.without_overlapping_for(24 * HOUR),
        "renewed and held" => event.without_overlapping().hold_at_least(Duration::from_secs(30)),
        "fixed and held" => event.without_overlapping_for(24 * HOUR).hold_at_least(Duration::from_secs(30)),
        _ => panic!("{way}"),
    }
}

/// Returns an event whose run does not end, and a channel that tells of its start.
fn other(way: &str) -> (Event, mpsc::Receiver<()>) {
    let (started, starts) = mpsc::channel();
    if let Some(file) = std::env::var_os(GROUP) {
        let line = format!("trap '' TERM; sleep 600 & echo $$ > {}; sleep 600", file.display());
        // Its output would keep the pipe open as long as it lives.
        let event = Event::exec("other", line).grace(Duration::from_secs(1)).output(Output::Discard);
        let event = event.before(move |_| started.send(()).expect("somebody waits for it"));
        return (protect(event.in_background(), way), starts);
    }
    let task = move |_: &Run| {
        started.send(()).expect("somebody waits for it");
        go_on_for_ever();
    };
    (protect(Event::call("other", task).in_background(), way), starts)
}

/// Returns the event during whose run the process exits.
fn report(
    place: &str,
    way: &str,
    store: &Arc<dyn EventMutex>,
    leave: impl Fn() + Clone + Send + Sync + 'static,
) -> Event {
    let event = match place {
        "task" => Event::call("report", move |_| leave()),
        "task, on record" => Event::call("report", move |_| leave()).pause_on_failure(2),
        "background" => Event::call("report", move |_| leave()).in_background(),
        "admitted" | "ended" => Event::call("report", |_| {}),
        "before" => Event::call("report", |_| {}).before(move |_| leave()),
        "then" => Event::call("report", |_| {}).then(move |_, _| leave()),
        "a thread of the task's own" => Event::call("report", move |_| {
            thread::spawn(leave.clone());
            go_on_for_ever();
        }),
        "task, beside a guard" => {
            let name = MutexName::lease("guarded").unwrap();
            let guard = LeaseGuard::acquire_for(store, name, Term::MAX).unwrap().expect("nobody holds it");
            mem::forget(guard);
            Event::call("report", move |_| leave())
        }
        "task, beside a store that is stuck" => {
            let stuck: Arc<dyn EventMutex> = Arc::new(stuck());
            return protect(Event::call("report", move |_| leave()).mutex(stuck), way);
        }
        _ => panic!("{place}"),
    };
    protect(event, way)
}

/// Lets a run end, while the thread that renewed its lease is still there.
fn leave_with_nothing_in_hand(store: Arc<dyn EventMutex>, way: &str) {
    let schedule = Schedule::new(store);
    schedule.add(protect(Event::call("report", |_| {}), way)).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
    exit_when_told();
}

/// Waits for a word: the test harness returns from `main` when all of its tests have.
fn return_from_main(store: Arc<dyn EventMutex>, way: &'static str) {
    let (other, starts) = other(way);
    thread::spawn(move || {
        let schedule = Schedule::new(store);
        schedule.add(other).unwrap();
        schedule.run_due(noon())
    });
    starts.recv().expect("it starts");
    wait_for_a_word();
}

/// Uses a store that exits at the first renewal, and another one.
fn exit_on_the_renewal_thread(store: Arc<dyn EventMutex>) {
    let schedule = Schedule::new(store);
    let (other, starts) = other("renewed");
    schedule.add(other).unwrap();
    let starts = Mutex::new(starts);
    let task = move |_: &Run| {
        let _ = starts.lock().expect("it is locked once").recv();
        wait_for_a_word();
        EXITS.store(true, Ordering::SeqCst);
        go_on_for_ever();
    };
    let exits = Scripted::default().before(|call| {
        if call.is("extend") {
            until(|| EXITS.load(Ordering::SeqCst)).expect("a word comes");
            exit(3);
        }
        Ok(())
    });
    let event = Event::call("report", task).every_minute().mutex(exits).without_overlapping();
    // The lease is renewed after four seconds, so that eight are left for the exit.
    schedule.add(event.lease_term(Duration::from_secs(12))).unwrap();
    let _ = schedule.run_due(noon());
}

fn exit_when_told() {
    wait_for_a_word();
    exit(3);
}

fn wait_for_a_word() {
    say("ready");
    stdin().read_line(&mut String::new()).expect("the parent is there");
    STUCK.store(true, Ordering::SeqCst);
}

fn go_on_for_ever() -> ! {
    loop {
        thread::sleep(PATIENCE); // until the process has ended
    }
}

fn say(what: &str) {
    let mut out = stdout().lock();
    out.write_all(format!("\n>{what}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent listens");
}

/// Returns a store that prints each call when leases end.
fn talking() -> Scripted {
    Scripted::fleet().in_steps().before(|call| {
        for name in &call.names {
            let name = name.mutex();
            match (call.verb, call.term) {
                ("forget", _) => say(&format!("forget {name}")),
                (verb @ ("extend" | "release_after"), Some(term)) => say(&format!("{verb} {name} {:?}", term.get())),
                _ => {}
            }
        }
        Ok(())
    })
}

/// Whether a stuck store hangs from now on, and an exiting one exits.
static STUCK: AtomicBool = AtomicBool::new(false);
static EXITS: AtomicBool = AtomicBool::new(false);

/// Returns a store that hangs.
fn stuck() -> Scripted {
    Scripted::default().before(|_| if STUCK.load(Ordering::SeqCst) { go_on_for_ever() } else { Ok(()) })
}

#[test]
fn what_the_exiting_thread_performs_is_given_back_once_and_the_rest_ends_soon() {
    for way in WAYS {
        for place in PLACES {
            let (_, (status, said)) = exit_in_time(|| Leaving::start(place, way, "talking"));
            assert_eq!(
                (status, said),
                (Some(3), vec!["forget report".into(), "extend other 5s".into()]),
                "{place}, {way}"
            );
        }
    }
}

#[test]
fn what_a_task_works_under_whose_own_thread_exits_is_not_given_back_while_the_task_is_at_work() {
    for way in WAYS {
        let start = || Leaving::start("a thread of the task's own", way, "talking");
        let (_, (status, mut said)) = exit_in_time(start);
        said.sort_unstable();
        assert_eq!((status, said), (Some(3), vec!["extend other 5s".into(), "extend report 5s".into()]), "{way}");
    }
}

#[test]
fn a_run_that_ends_its_process_is_on_record_as_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file:{}", directory.path().display());
    let store = || connect(&url).unwrap();
    let schedule = logged(&(Arc::new(store()) as _));
    for name in ["report", "other"] {
        schedule.add(protect(Event::call(name, |_| {}), "renewed")).unwrap();
    }
    for runs in 1..=2 {
        assert!(schedule.paused_event("report").unwrap().is_none());
        let (status, _) = Leaving::start("task, on record", "renewed", &url).exit();
        assert_eq!(status, Some(3));
        let ended = schedule.runs("report").unwrap();
        assert_eq!(ended.len(), runs);
        for run in ended {
            let end = run.record().end().expect("it is known how it ended");
            assert_eq!(end.result(), OutcomeKind::Failed);
            assert_eq!(end.error(), Some("the process called `exit` during the run"));
        }
        // Runs on other threads do not end by themselves.
        let others = schedule.runs("other").unwrap();
        assert!(others.len() == runs && others.iter().all(|run| run.state() == RunState::PresumedDead), "{others:?}");
    }
    let pause = schedule.paused_event("report").unwrap().expect("it has failed twice");
    assert!(pause.to_string().ends_with("failed 2 times in a row"), "{pause}");
}

const SIGNALLED: &str = "SOLOIST_TEST_EXIT_SIGNALLED";

/// Plays the child of the next test: a signal ends it in the hook of a run that has waited for a retry.
#[test]
fn a_child_is_ended_by_a_signal_in_a_hook_after_a_wait() {
    let Ok(url) = std::env::var(SIGNALLED) else { return };
    let shutdown = Shutdown::on_signals().unwrap().with_drain(Duration::ZERO).with_grace(Duration::from_millis(100));
    let schedule = logged(&(Arc::new(connect(&url).unwrap()) as _)).with_shutdown(&shutdown);
    let schedule = schedule.observe(|notice: &Notice<'_>| {
        if let Step::AttemptFailed { .. } = notice.step() {
            signal_hook::low_level::raise(SIGTERM).expect("it is a signal");
        }
    });
    let fails = |_: &Run| -> TaskResult { Err("no paper".into()) };
    let retry = Retry::times(1).after(Duration::from_secs(30));
    let event = Event::call("report", fails).retry(retry).on_failure(|_, _| go_on_for_ever());
    schedule.add(protect(event, "renewed")).unwrap();
    let _ = schedule.run_due(noon());
}

#[test]
fn a_run_whose_process_is_ended_by_a_signal_is_not_on_record_as_one_that_called_exit() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file:{}", directory.path().display());
    let child = "exit::a_child_is_ended_by_a_signal_in_a_hook_after_a_wait";
    let output = crate::support::output_alone(child, &[(SIGNALLED, &url)]).expect("this is no child");
    assert_eq!(output.status.signal(), Some(SIGTERM), "{}", String::from_utf8_lossy(&output.stderr));
    let schedule = logged(&(Arc::new(connect(&url).unwrap()) as _));
    schedule.add(protect(Event::call("report", |_| {}), "renewed")).unwrap();
    let runs = schedule.runs("report").unwrap();
    assert_eq!(runs.iter().map(|run| run.record().end()).collect::<Vec<_>>(), [None], "nobody knows its end");
}

#[test]
fn what_is_to_be_held_longer_is_held_longer() {
    for way in ["renewed and held", "fixed and held"] {
        let began = Instant::now();
        let (_, (status, mut said)) = exit_in_time(|| Leaving::start("task", way, "talking"));
        said.sort_unstable();
        // The lease lasts half a minute from the grant; no more time can have passed.
        let least = 30_u64.saturating_sub(began.elapsed().as_secs());
        let is_held = |line: &str, name| {
            let rest = line.strip_prefix("release_after ")?.strip_prefix(name)?.trim().strip_suffix('s')?;
            Some((least..=30).contains(&rest.parse::<u64>().ok()?))
        };
        let are_held = said.iter().zip(["other", "report"]).all(|(line, name)| is_held(line, name) == Some(true));
        assert!(status == Some(3) && said.len() == 2 && are_held, "{way}: {status:?}, {said:?}");
    }
}

#[test]
fn a_store_that_can_not_extend_is_asked_only_for_what_it_can() {
    let (_, (status, said)) = exit_in_time(|| Leaving::start("task", "fixed", "talking, without extend"));
    assert_eq!((status, said), (Some(3), vec!["forget report".into()]));
}

#[test]
fn a_guard_ends_soon() {
    let (_, (status, mut said)) = exit_in_time(|| Leaving::start("task, beside a guard", "renewed", "talking"));
    said.sort_unstable();
    let expected = ["extend guarded 5s", "extend other 5s", "forget report"].map(String::from);
    assert_eq!((status, said), (Some(3), expected.to_vec()));
}

#[test]
fn a_return_from_main_lets_the_runs_of_other_threads_end_soon() {
    for way in WAYS {
        let (_, (status, said)) = exit_in_time(|| Leaving::start("a return from main", way, "talking"));
        assert_eq!((status, said), (Some(0), vec!["extend other 5s".into()]), "{way}");
    }
}

#[test]
fn an_exit_with_nothing_in_hand_asks_nobody_and_waits_for_nobody() {
    for way in WAYS {
        // The process would wait for its limit each time, because the store does not answer.
        let does_not_wait = || {
            let leaving = Leaving::start("nothing in hand", way, "stuck");
            let began = Instant::now();
            assert_eq!(leaving.exit().0, Some(3), "{way}");
            began.elapsed() < Duration::from_secs(2)
        };
        assert!((0..5).any(|_| does_not_wait()), "{way}");
        assert_eq!(Leaving::start("nothing in hand", way, "talking").exit(), (Some(3), vec![]), "{way}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_exit_waits_for_no_time_but_for_what_is_asked_of_the_stores() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let trace = dir.path().join("naps");
    let naps = |place, way, other_naps| {
        assert_eq!(Leaving::watched(place, way, "talking", &trace).exit().0, Some(3), "{place}, {way}");
        let naps = std::fs::read_to_string(&trace).expect("strace writes it");
        // The task may not have come to its own one.
        assert!(naps.matches("nanosleep(").count() <= other_naps, "{place}, {way}: {naps}");
    };
    for way in WAYS {
        naps("nothing in hand", way, 0);
        // The task sleeps until the process has ended.
        naps("task", way, 1);
    }
}

#[test]
fn an_exit_does_not_hang_in_a_store_that_does_not_answer() {
    let mut leaving = PLACES.map(|place| Leaving::start(place, "renewed", "stuck"));
    leaving.iter_mut().for_each(Leaving::order_exit);
    for (leaving, place) in leaving.into_iter().zip(PLACES) {
        assert_eq!(leaving.ends().0, Some(3), "{place}");
    }
}

#[test]
fn a_store_that_does_not_answer_keeps_no_other_from_what_it_is_asked() {
    let (status, said) = Leaving::start("task, beside a store that is stuck", "renewed", "talking").exit();
    assert_eq!((status, said), (Some(3), vec!["extend other 5s".into()]));
}

#[test]
fn an_exit_on_the_thread_that_renews_does_not_hang_and_other_stores_are_asked() {
    let (status, said) = Leaving::start("extend", "renewed", "talking").exit();
    assert_eq!((status, said), (Some(3), vec!["extend other 5s".into()]));
}

#[test]
fn a_command_of_another_thread_keeps_its_lease_on_file() {
    for way in ["renewed", "fixed", "renewed and held", "fixed and held"] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let later = ManualClock::at(chrono::Utc::now() + Duration::from_secs(30 * 24 * 3600));
        let store = FileMutex::builder(dir.path()).clock(&later).open().unwrap();
        let other = MutexName::lease("other").unwrap();
        let (leaving, group) = Leaving::beside_a_command(way, &format!("file:{}", dir.path().display()));
        assert_eq!(leaving.exit().0, Some(3), "{way}");
        assert!(group_lives(group) && store.exists(&other).unwrap(), "{way}: a month later");
        assert!(Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status().unwrap().success());
        until(|| !store.exists(&other).unwrap()).unwrap_or_else(|why| panic!("{way}: {why}"));
        assert!(!group_lives(group), "{way}");
    }
}

#[test]
fn on_file_nothing_stays_but_what_is_to_be_held_longer() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (url, store) = (format!("file:{}", dir.path().display()), FileMutex::in_dir(dir.path()).unwrap());
    let until = |name: &str| holder(&store, &MutexName::lease(name).unwrap()).map(|holder| holder.until());
    for way in WAYS {
        for place in PLACES {
            assert_eq!(Leaving::start(place, way, &url).exit().0, Some(3), "{place}, {way}");
            assert_eq!([until("report"), until("other")], [None, None], "{place}, {way}");
        }
    }
    for way in ["renewed and held", "fixed and held"] {
        assert_eq!(Leaving::start("task", way, &url).exit().0, Some(3), "{way}");
        let soon = chrono::Utc::now() + Duration::from_secs(31);
        for name in ["report", "other"] {
            assert!(until(name).is_some_and(|until| until < soon), "{way}: {name} until {:?}", until(name));
            store.break_lease(&MutexName::lease(name).unwrap()).unwrap().expect("it is held");
        }
    }
}

#[cfg(feature = "redis")]
mod on_redis {
    use super::*;
    use crate::servers::redis::Redis;
    use crate::support::patient_url;

    /// Returns how long the server will still hold the lease of this event; `None`: it is free.
    fn left(server: &Redis, event: &str) -> Option<Duration> {
        let left = server.ask(&["PTTL", &format!("{{soloist}}:lease/{event}")]).number();
        u64::try_from(left).ok().map(Duration::from_millis)
    }

    /// Asserts that it ends within seconds after this moment, and not before.
    #[track_caller]
    fn assert_ends_soon(server: &Redis, event: &str, exited: Instant) {
        let left = left(server, event);
        let ends_soon = left.map_or(exited.elapsed() > FEW_SECONDS, |left| left <= FEW_SECONDS);
        assert!(ends_soon, "{event} is held for {left:?}");
        server.ask(&["DEL", &format!("{{soloist}}:lease/{event}")]);
    }

    #[test]
    fn the_lease_of_an_exiting_task_is_free_at_once_and_those_of_others_within_seconds() {
        let server = Redis::start();
        for way in WAYS {
            let exit_at = |place| {
                let start = || {
                    server.ask(&["FLUSHALL"]); // another try needs free leases
                    Leaving::start(place, way, &patient_url(&server.url()))
                };
                let (exited, (status, _)) = exit_in_time(start);
                assert_eq!(status, Some(3), "{place}, {way}");
                exited
            };
            for place in PLACES {
                let exited = exit_at(place);
                assert_eq!(left(&server, "report"), None, "{place}, {way}");
                assert_ends_soon(&server, "other", exited);
            }
            let exited = exit_at("a thread of the task's own");
            assert_ends_soon(&server, "report", exited);
            assert_ends_soon(&server, "other", exited);
        }
    }

    #[test]
    fn a_signal_that_nobody_handles_lets_leases_end_with_their_terms() {
        let server = Redis::start();
        let mut leaving = Leaving::start("task", "renewed", &patient_url(&server.url()));
        let pid = leaving.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("there is kill").success());
        leaving.child.wait().expect("it is ours");
        for event in ["report", "other"] {
            assert!(left(&server, event) > Some(FEW_SECONDS), "{event}: {:?}", left(&server, event));
        }
    }

    #[test]
    fn the_lease_of_a_command_outlasts_its_watchdog() {
        let server = Redis::start();
        let outlasts = |way| {
            let (leaving, group) = Leaving::beside_a_command(way, &patient_url(&server.url()));
            let exited = Instant::now();
            assert_eq!(leaving.exit().0, Some(3), "{way}");
            let is_in_time = exited.elapsed() < STORES_ANSWER;
            let (soon, left_then) = (FEW_SECONDS + Duration::from_secs(2), left(&server, "other"));
            let ends_soon = left_then.map_or(exited.elapsed() > soon, |left| left <= soon);
            assert!(ends_soon || !is_in_time, "{way}: {left_then:?}");
            let lease_ended_first = AtomicBool::new(false);
            let ended = until(|| {
                // In this order: a lease that ends after this read does not count.
                let is_held = left(&server, "other").is_some();
                let lives = group_lives(group);
                lease_ended_first.fetch_or(lives && !is_held, Ordering::SeqCst);
                !lives
            });
            ended.expect("the watchdog ends it");
            server.ask(&["FLUSHALL"]);
            is_in_time && !lease_ended_first.into_inner()
        };
        for way in WAYS {
            // A watchdog that gets no turn for six seconds ends the command too late.
            assert!((0..3).any(|_| outlasts(way)), "{way}: its lease ended first");
        }
    }

    #[test]
    fn what_is_to_be_held_longer_is_held_longer() {
        let server = Redis::start();
        for way in ["renewed and held", "fixed and held"] {
            assert_eq!(Leaving::start("task", way, &patient_url(&server.url())).exit().0, Some(3), "{way}");
            for event in ["report", "other"] {
                let left = left(&server, event).expect("it is held");
                assert!((FEW_SECONDS..=Duration::from_secs(30)).contains(&left), "{way}: {event} is held for {left:?}");
                server.ask(&["DEL", &format!("{{soloist}}:lease/{event}")]);
            }
        }
    }

    /// Starts a process for each place, all about to exit. The server loses each lease when its process is ready,
    /// so that the next can have it.
    fn one_in_each_place(server: &Redis) -> [Leaving; PLACES.len()] {
        PLACES.map(|place| {
            let leaving = Leaving::start(place, "renewed", &patient_url(&server.url()));
            server.ask(&["FLUSHALL"]);
            leaving
        })
    }

    #[test]
    fn an_exit_does_not_hang_while_the_server_is_stopped_or_gone() {
        let server = Redis::start();
        for silence in [Redis::pause, Redis::kill] {
            let mut leaving = one_in_each_place(&server);
            silence(&server);
            leaving.iter_mut().for_each(Leaving::order_exit);
            for (leaving, place) in leaving.into_iter().zip(PLACES) {
                assert_eq!(leaving.ends().0, Some(3), "{place}");
            }
            server.restart();
        }
    }
}
