//! The drain of a shutdown: nothing new starts, and running tasks may finish before they are cancelled.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use soloist::observe::{Notice, Step};
use soloist::testing::TestStore;
use soloist::time::{Clock, ManualClock, Moment};
use soloist::{CancelReason, Event, EventMutex, MemoryMutex, MutexName, Report, Run, Schedule, Shutdown, SkipReason};

use crate::support::{Diary, HOUR, PATIENCE, noon, ran, run_alone, skipped, until};

const SECOND: Duration = Duration::from_secs(1);
const DRAIN: Duration = Duration::from_secs(20);

/// Servers that share a store, and a clock that a test moves.
struct Servers {
    clock: ManualClock,
    store: TestStore,
    diary: Diary,
    drain: Option<Duration>,
    at_work: BTreeMap<usize, (Shutdown, JoinHandle<()>)>,
    /// When the current run last read the clock.
    seen: Arc<Mutex<Option<Moment>>>,
}

impl Servers {
    /// Starts the server of this number. Its task takes 15 seconds, and writes down where it begins and how it ends.
    fn start(&mut self, number: usize) {
        let (clock, diary, seen) = (Clock::from(&self.clock), self.diary.clone(), Arc::clone(&self.seen));
        let task = move |run: &Run| {
            let (begun, occurrence) = (clock.moment(), run.occurrence().format("%R"));
            *seen.lock().unwrap() = Some(begun);
            diary.note(format!("{occurrence} begins on {number}"));
            let how = loop {
                let (now, reason) = (clock.moment(), run.cancel_reason());
                match reason {
                    Some(reason) => break reason.keyword(),
                    None if now.since(begun) >= 15 * SECOND => break "done",
                    None => *seen.lock().unwrap() = Some(now),
                }
                thread::sleep(Duration::from_millis(1)); // until its next read of the clock
            };
            diary.note(format!("{occurrence} {how}"));
            *seen.lock().unwrap() = None;
        };
        let schedule = Schedule::new(self.store.clone()).with_clock(&self.clock).on_report(|_| {});
        schedule.add(Event::call("e", task).every_minute().on_one_server().without_overlapping()).unwrap();
        let shutdown = self.drain.into_iter().fold(Shutdown::new(), Shutdown::with_drain);
        let working = shutdown.clone();
        self.at_work.insert(number, (shutdown, thread::spawn(move || schedule.work(&working))));
    }

    /// Tells the server of this number to end, and lets this time pass meanwhile.
    fn end(&mut self, number: usize, meanwhile: Duration) {
        let (shutdown, server) = self.at_work.remove(&number).expect("it is at work");
        shutdown.trigger();
        self.pass(meanwhile);
        server.join().expect("it does not panic");
    }

    /// Lets this time pass, no faster than the current run reads the clock.
    fn pass(&self, by: Duration) {
        let clock = Clock::from(&self.clock);
        let end = clock.moment().plus(by);
        let seen = || *self.seen.lock().unwrap();
        while seen().is_some() && clock.moment() < end {
            self.clock.advance(SECOND);
            until(|| seen().is_none_or(|seen| seen >= clock.moment())).expect("it looks again");
        }
        self.clock.advance(end.since(clock.moment()));
    }

    /// Returns the number of the server that begins this occurrence.
    #[track_caller]
    fn begun(&self, occurrence: &str) -> usize {
        let begins = format!("{occurrence} begins on ");
        let server = || self.diary.lines().iter().find_map(|line| line.strip_prefix(&begins)?.parse().ok());
        until(|| server().is_some()).unwrap_or_else(|_| panic!("{occurrence} is lost: {:?}", self.diary.lines()));
        server().expect("it has begun")
    }
}

/// Plays a rolling restart of half an hour. Each minute one of three servers ends, and its successor starts in the
/// next minute. In turn, it ends one or five seconds after its run began, or while another runs. Returns the
/// notes, and how many were cancelled while running.
fn rolling_restart(drain: Option<Duration>) -> (Vec<String>, usize) {
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    let (diary, at_work, seen) = (Diary::default(), BTreeMap::new(), Arc::default());
    let mut servers = Servers { clock, store, diary, drain, at_work, seen };
    (0..3).for_each(|number| servers.start(number));
    let (mut away, mut told_at_work) = (None, 0);
    for minute in 0..30 {
        let begun = servers.begun(&format!("12:{minute:02}"));
        if let Some(number) = away {
            servers.start(number);
        }
        let (number, after) = [(begun, 1), (begun, 5), ((begun + 1) % 3, 10)][minute % 3];
        told_at_work += usize::from(number == begun);
        servers.pass(after * SECOND);
        servers.end(number, (40 - after) * SECOND);
        until(|| !servers.store.exists(&MutexName::lease("e").unwrap()).unwrap()).expect("its lease goes back");
        away = Some(number);
        servers.pass(20 * SECOND);
    }
    let begun = servers.begun("12:30");
    servers.pass(SECOND);
    servers.end(begun, 20 * SECOND);
    let idle = *servers.at_work.keys().next().expect("one is away, and one is left");
    servers.end(idle, Duration::ZERO);
    (servers.diary.lines(), told_at_work)
}

#[test]
fn a_rolling_restart_loses_cancels_and_doubles_no_run() {
    let (lines, told_at_work) = rolling_restart(None);
    let mut told: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in &lines {
        let (occurrence, what) = line.split_once(' ').unwrap();
        told.entry(occurrence).or_default().push(what.split(' ').next().unwrap());
    }
    let expected: Vec<String> = (0..=30).map(|minute| format!("12:{minute:02}")).collect();
    assert_eq!(told.keys().copied().collect::<Vec<_>>(), expected, "none is lost");
    assert!(told.values().all(|what| what == &["begins", "done"]), "none is cancelled or doubled: {lines:#?}");
    assert_eq!(told_at_work, 20);
}

#[test]
fn the_same_restart_without_a_drain_cancels() {
    let (lines, told_at_work) = rolling_restart(Some(Duration::ZERO));
    let cancelled = lines.iter().filter(|line| line.ends_with("shutting_down")).count();
    assert_eq!(cancelled, told_at_work + 1, "and the last: {lines:#?}");
}

/// The running tasks of each kind while a shutdown begins: `go` ends them.
struct ActiveTasks {
    _folder: tempfile::TempDir,
    begun: std::path::PathBuf,
    go: std::path::PathBuf,
}

/// Returns a schedule whose tasks of each kind run until they are ended.
fn of_each_kind() -> (Schedule, ActiveTasks) {
    let folder = tempfile::tempdir().unwrap();
    let at_work = ActiveTasks { begun: folder.path().join("begun"), go: folder.path().join("go"), _folder: folder };
    let mut schedule = Schedule::in_process();
    let (begun, go) = (at_work.begun.clone(), at_work.go.clone());
    let callback = move |run: &Run| {
        say(&begun, "callback");
        until(|| go.exists() || run.is_cancelled())?;
        Ok(run.check()?)
    };
    schedule.add(Event::call("callback", callback).every_minute().without_overlapping().in_background()).unwrap();
    #[cfg(unix)]
    {
        let (begun, go) = (at_work.begun.display(), at_work.go.display());
        let line = format!("echo command >> {begun}; until [ -e {go} ]; do sleep 0.01; done");
        schedule.add(Event::exec("command", line).every_minute().without_overlapping().in_background()).unwrap();
    }
    #[cfg(feature = "tokio")]
    {
        let (begun, go) = (at_work.begun.clone(), at_work.go.clone());
        let future = move |run: Run| {
            let (begun, go) = (begun.clone(), go.clone());
            async move {
                say(&begun, "future");
                let goes = async {
                    while !go.exists() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                };
                tokio::select! {
                    () = goes => Ok(()),
                    reason = run.cancelled() => Err(reason.to_string().into()),
                }
            }
        };
        // The runtime drives the futures as long as this process lives.
        let runtime = Box::leak(Box::new(crate::futures::many_threads()));
        schedule = schedule.with_runtime(runtime.handle().clone());
        let event = Event::spawn("future", future).every_minute().without_overlapping().in_background();
        schedule.add(event).unwrap();
    }
    (schedule, at_work)
}

fn say(file: &Path, line: &str) {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
    writeln!(file, "{line}").unwrap();
}

fn kinds() -> Vec<&'static str> {
    let mut kinds = vec!["callback"];
    kinds.extend(cfg!(unix).then_some("command"));
    kinds.extend(cfg!(feature = "tokio").then_some("future"));
    kinds
}

/// Returns the report of a tick. `meanwhile` is called as soon as all tasks run.
fn ticked(shutdown: &Shutdown, meanwhile: impl FnOnce(&ActiveTasks)) -> Report {
    let (schedule, at_work) = of_each_kind();
    let schedule = schedule.with_shutdown(shutdown);
    thread::scope(|scope| {
        let tick = scope.spawn(|| schedule.run_due(noon()));
        let begun =
            || std::fs::read_to_string(&at_work.begun).is_ok_and(|begun| begun.lines().count() == kinds().len());
        until(begun).expect("everything begins");
        meanwhile(&at_work);
        tick.join().expect("no panic")
    })
}

#[test]
fn a_task_of_any_kind_finishes_within_the_drain_and_its_tick_returns_then() {
    let shutdown = Shutdown::new().with_drain(HOUR);
    let report = ticked(&shutdown, |at_work| {
        shutdown.trigger();
        assert!(shutdown.is_triggered() && shutdown.wait(Duration::ZERO), "whoever else ends begins with that");
        std::fs::write(&at_work.go, "").unwrap();
    });
    for kind in kinds() {
        assert!(ran(&report, kind).is_success(), "{report}");
        assert_eq!(ran(&report, kind).cancel_reason(), None, "{report}");
    }
    assert!(!report.is_failure());
}

#[test]
fn a_task_of_any_kind_is_cancelled_when_the_drain_is_over() {
    let shutdown = Shutdown::new().with_drain(Duration::from_millis(200));
    let report = ticked(&shutdown, |_| shutdown.trigger());
    for kind in kinds() {
        assert_eq!(ran(&report, kind).cancel_reason(), Some(CancelReason::ShuttingDown), "{report}");
        assert!(!ran(&report, kind).is_success(), "{report}");
    }
}

#[test]
fn a_task_of_any_kind_is_cancelled_when_somebody_ends_the_drain() {
    for begun in [true, false] {
        let shutdown = Shutdown::new().with_drain(HOUR);
        let report = ticked(&shutdown, |_| {
            if begun {
                shutdown.trigger();
            }
            shutdown.cancel_runs();
        });
        for kind in kinds() {
            assert_eq!(ran(&report, kind).cancel_reason(), Some(CancelReason::ShuttingDown), "{report}");
        }
        assert!(shutdown.is_triggered());
    }
}

#[test]
fn the_drain_is_20_seconds_and_no_event_starts_meanwhile() {
    let (clock, shutdown, diary) = (ManualClock::at(noon()), Shutdown::new(), Diary::default());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock).with_shutdown(&shutdown);
    let triggers = shutdown.clone();
    let task = move |run: &Run| {
        assert_eq!(run.remaining(), None);
        let began = Instant::now();
        triggers.trigger();
        // The drain began by the machine's clock, which goes on meanwhile.
        let remaining = run.remaining().expect("it may not go on for ever");
        assert!(remaining <= DRAIN && remaining + began.elapsed() >= DRAIN, "{remaining:?}");
        clock.advance(remaining.saturating_sub(Duration::from_millis(1)));
        assert!(!run.is_cancelled());
        triggers.trigger();
        clock.advance(Duration::from_millis(1));
        assert_eq!(run.cancel_reason(), Some(CancelReason::ShuttingDown));
        assert_eq!(run.remaining(), Some(Duration::ZERO));
    };
    schedule.add(Event::call("first", task).every_minute()).unwrap();
    schedule.add(Event::call("second", diary.task("second")).every_minute()).unwrap();
    let report = schedule.run_due(noon());
    assert!(ran(&report, "first").is_success(), "{report}");
    assert!(matches!(skipped(&report, "second"), SkipReason::ShuttingDown), "{report}");
    assert_eq!(diary.lines(), [""; 0]);
}

#[test]
fn a_callback_that_sleeps_until_it_is_told_is_woken_at_the_end_of_the_drain() {
    let clock = ManualClock::at(noon());
    let (shutdown, diary) = (Shutdown::new().with_drain(HOUR), Diary::default());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock).with_shutdown(&shutdown);
    let noted = diary.clone();
    let task = move |run: &Run| {
        noted.note("begins");
        noted.note(run.wait_cancelled(2 * HOUR).map_or("nothing", CancelReason::keyword));
    };
    schedule.add(Event::call("e", task).every_minute().without_overlapping()).unwrap();
    thread::scope(|scope| {
        let tick = scope.spawn(|| schedule.run_due(noon()));
        until(|| diary.lines() == ["begins"]).unwrap();
        shutdown.trigger();
        let passed = until(|| {
            clock.advance(60 * SECOND);
            diary.lines().len() == 2
        });
        passed.expect("it is woken");
        assert!(ran(&tick.join().unwrap(), "e").is_success());
    });
    assert_eq!(diary.lines(), ["begins", "shutting_down"]);
    assert!(clock.now() >= noon() + chrono::TimeDelta::minutes(59), "{clock:?}");
}

/// Tests that a future without a timer is woken by the cancellation, even if the shutdown begins right before the task.
#[cfg(feature = "tokio")]
#[test]
fn a_future_of_its_own_hears_of_the_end_of_the_drain() {
    for begins_before_the_task in [false, true] {
        let shutdown = Shutdown::new().with_drain(Duration::from_millis(100));
        let (begins, triggers) = (shutdown.clone(), shutdown.clone());
        let observer = move |notice: &Notice<'_>| {
            if begins_before_the_task && matches!(notice.step(), Step::Admitted { .. }) {
                begins.trigger();
            }
        };
        let schedule = Schedule::in_process().with_shutdown(&shutdown).observe(observer);
        let task = move |run: &Run| {
            triggers.trigger();
            let (told, hears) = std::sync::mpsc::channel();
            let (runtime, cancellation) = (tokio::runtime::Builder::new_current_thread().build()?, run.cancelled());
            thread::spawn(move || told.send(runtime.block_on(cancellation))); // it has no timer
            assert_eq!(hears.recv_timeout(PATIENCE)?, CancelReason::ShuttingDown);
            Ok(())
        };
        schedule.add(Event::call("e", task).every_minute()).unwrap();
        let report = schedule.run_due(noon());
        assert!(ran(&report, "e").is_success(), "{report}");
    }
}

#[cfg(feature = "tokio")]
#[test]
fn a_loop_that_is_dropped_cancels_its_runs_at_once_also_while_it_drains() {
    let runtime = crate::futures::many_threads();
    for drains in [false, true] {
        let (begun, diary, shutdown) = (Arc::new(AtomicUsize::new(0)), Diary::default(), Shutdown::new());
        let shutdown = shutdown.with_drain(HOUR);
        let (counted, noted) = (Arc::clone(&begun), diary.clone());
        let task = move |run: &Run| {
            counted.fetch_add(1, Ordering::SeqCst);
            noted.note(run.wait_cancelled(PATIENCE).map_or("nothing", CancelReason::keyword));
            until(|| noted.lines().len() == 2).expect("the rest is triggered");
            noted.note(format!("cancelled: {}", run.is_cancelled()));
        };
        let schedule = Schedule::in_process();
        schedule.add(Event::call("slow", task).every_second().without_overlapping()).unwrap();
        let work = runtime.spawn(schedule.work_async(&shutdown));
        until(|| begun.load(Ordering::SeqCst) > 0).expect("it ticks");
        if drains {
            shutdown.trigger();
        }
        work.abort();
        assert!(runtime.block_on(work).unwrap_err().is_cancelled());
        until(|| diary.lines() == ["shutting_down"]).expect("its run is told");
        assert_eq!(shutdown.is_triggered(), drains);
        shutdown.trigger();
        diary.note("triggered");
        until(|| diary.lines().len() == 3).expect("it ends");
        assert_eq!(diary.lines()[2], "cancelled: true", "it stays so");
    }
}

#[test]
fn subscribers_are_told_when_the_drain_is_over_if_runs_are_still_at_work() {
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone)]
    struct Captured(Diary);

    struct Text<'a>(&'a mut String);

    impl tracing::field::Visit for Text<'_> {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
            if ["message", "runs", "drain_ms", "grace_ms"].contains(&field.name()) {
                self.0.extend([field.name(), "=", &format!("{value:?} ")]);
            }
        }
    }

    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Captured {
        fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            let mut text = String::new();
            event.record(&mut Text(&mut text));
            if text.contains("drain") {
                self.0.note(text.trim());
            }
        }
    }

    // Another thread sends the event, so the subscriber must be that of the process.
    let this = "drain::subscribers_are_told_when_the_drain_is_over_if_runs_are_still_at_work";
    if run_alone(this, &[]).is_some() {
        return;
    }
    let heard = Captured(Diary::default());
    tracing::subscriber::set_global_default(tracing_subscriber::Registry::default().with(heard.clone())).unwrap();
    for (takes, tells) in [(10 * SECOND, false), (100 * SECOND, true)] {
        let clock = ManualClock::at(noon());
        let shutdown = Shutdown::new().with_drain(60 * SECOND).with_grace(7 * SECOND);
        let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock).with_shutdown(&shutdown);
        schedule
            .add(
                Event::call("e", move |_| {
                    shutdown.trigger();
                    clock.advance(takes);
                })
                .every_minute(),
            )
            .unwrap();
        let _ = schedule.run_due(noon());
        let begins = "message=shutting down runs=1 drain_ms=60000 grace_ms=7000";
        let is_over = "message=drain is over: runs are cancelled runs=1 grace_ms=7000";
        let expected: &[&str] = if tells { &[begins, begins, is_over] } else { &[begins] };
        assert_eq!(heard.0.lines(), expected);
    }
}

#[cfg(all(unix, feature = "signals"))]
mod signals {
    use signal_hook::consts::{SIGINT, SIGTERM};

    use super::*;
    use crate::fleet::Fleet;
    use crate::worker::{Worker, what};

    /// Returns whether a signal to this process was not delivered yet.
    fn is_pending(process: u32, signal: i32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap_or_default().trim();
        u64::from_str_radix(pending, 16).is_ok_and(|mask| (mask >> (signal - 1)) & 1 == 1)
    }

    /// Returns whether all threads of this process sleep, so that its signals are handled.
    fn is_at_rest(process: u32) -> bool {
        let mut threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let has_work = |thread: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with(['R', 'D']))
        };
        !threads.any(has_work)
    }

    /// Starts a worker with a drain of an hour.
    fn start<'a>(fleet: &'a Fleet, options: &str) -> Worker<'a> {
        let mut worker = Worker::start(fleet, "first", &format!("--drain-ms 3600000 {options}"));
        worker.wait_for("start");
        worker
    }

    #[test]
    fn after_the_drain_the_grace_ends_the_process_and_another_signal_does_at_once() {
        for third in [false, true] {
            let fleet = Fleet::new();
            let grace = if third { 600_000 } else { 500 };
            let worker = start(&fleet, &format!("--work-ms 600000 --stubborn --grace-ms {grace}"));
            for signal in ["-TERM", "-TERM", "-INT"].into_iter().take(if third { 3 } else { 2 }) {
                worker.signal(signal);
                if signal == "-TERM" {
                    // The next one must come when this one was handled, or both count as one. A thread may wake a thread
                    // that was seen at rest, so the check is made twice.
                    let process = worker.pid();
                    until(|| !is_pending(process, SIGTERM) && is_at_rest(process) && is_at_rest(process))
                        .expect("it is handled");
                    thread::sleep(SECOND); // signals within a tenth of it count as one
                }
            }
            let (lines, _) = worker.ended_by(if third { SIGINT } else { SIGTERM });
            assert_eq!(what(&lines), ["start"], "it was left behind");
        }
    }

    /// Lets a signal come during a run. Afterwards, the call still has its report to deliver, which takes longer than
    /// `main` has to return.
    #[test]
    fn the_process_goes_on_until_the_call_has_delivered_its_report() {
        let name = "drain::signals::the_process_goes_on_until_the_call_has_delivered_its_report";
        if let Some(output) = crate::support::output_alone(name, &[]) {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("delivered") && said.contains("returned"), "{output:?}");
            return;
        }
        let shutdown = Shutdown::on_signals().unwrap().with_drain(Duration::ZERO).with_grace(HOUR);
        let schedule = Schedule::in_process().with_shutdown(&shutdown).on_report(|_| {
            thread::sleep(3 * SECOND); // longer than `main` has to return
            println!("delivered");
        });
        let task = |run: &Run| -> soloist::TaskResult {
            signal_hook::low_level::raise(SIGTERM)?;
            until(|| run.is_cancelled())
        };
        schedule.add(Event::call("e", task).every_minute()).unwrap();
        let report = schedule.run_due(noon());
        assert!(ran(&report, "e").is_success() || report.is_failure(), "{report}");
        println!("returned");
    }
}
