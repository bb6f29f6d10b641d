//! A failed task is started again within its run: how often, until when, and what ends the wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Utc};
use soloist::observe::{NoRetry, Notice, OutcomeKind, Step};
use soloist::time::{Clock, ManualClock};
use soloist::{Event, EventMutex, MemoryMutex, MutexName, Report, Retry, Run, RunOutcome, Schedule, TaskResult};

use crate::support::{Diary, PATIENCE, noon, ran, until};

mod endings;
mod limits;
#[cfg(all(unix, feature = "redis", feature = "mysql", feature = "postgres"))]
mod on_stores;
mod refused;

const SECOND: Duration = Duration::from_secs(1);

/// So short that a test waits for it.
const MOMENT: Duration = Duration::from_millis(5);

/// A longer wait than any test has.
const FOREVER: Duration = Duration::from_secs(6 * 3600);

fn name() -> MutexName {
    MutexName::lease("import").expect("it is a name")
}

fn fails(_: &Run) -> TaskResult {
    Err("the supplier is busy".into())
}

/// Makes an event that succeeds in this attempt, and notes each attempt. All have one token.
fn succeeds_in(attempt: u32, diary: &Diary) -> Event {
    let (diary, first) = (diary.clone(), Mutex::new(None));
    Event::call("import", move |run: &Run| {
        let first = *first.lock().expect("nothing panics").get_or_insert(run.fencing_token());
        if first != run.fencing_token() || first.is_none() {
            diary.note(format!("{:?} is another token than {first:?}", run.fencing_token()));
        }
        diary.note(format!("attempt {} of {}", run.attempt(), run.occurrence()));
        if run.attempt() < attempt { fails(run) } else { Ok(()) }
    })
    .hourly()
    .without_overlapping()
    .on_one_server()
}

/// Ticks at noon. Each wait for a retry is over as soon as it has begun: the clock moves by its length.
fn tick(clock: &ManualClock, event: Event) -> Report {
    tick_with(clock, Schedule::new(MemoryMutex::with_clock(clock)), event)
}

fn tick_with(clock: &ManualClock, schedule: Schedule, event: Event) -> Report {
    schedule.add(event).expect("it is right");
    skipping_waits(clock, schedule, |schedule| schedule.run_due(noon()))
}

/// Runs a tick, and moves the clock at the begin of each wait by its length.
fn skipping_waits(clock: &ManualClock, schedule: Schedule, tick: impl FnOnce(&Schedule) -> Report) -> Report {
    let (failed, delays) = mpsc::channel();
    let failed = Mutex::new(failed);
    let schedule = schedule.observe(move |notice: &Notice<'_>| {
        if let Step::AttemptFailed { retry_in, .. } = notice.step() {
            failed.lock().expect("nothing panics").send(*retry_in).expect("the clock is moved");
        }
    });
    thread::scope(|scope| {
        scope.spawn(move || delays.iter().for_each(|delay| clock.advance(delay)));
        let report = tick(&schedule);
        drop(schedule); // With its observer, the other thread ends.
        report
    })
}

/// A tick at noon on another thread, whose event fails and then waits for hours.
struct Waiting {
    report: mpsc::Receiver<Report>,
    starts: Arc<AtomicUsize>,
}

impl Waiting {
    /// Returns when the run waits.
    fn begin(schedule: Schedule, event: impl Fn(Event) -> Event) -> Self {
        let starts = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&starts);
        let task = move |run: &Run| -> TaskResult {
            counted.fetch_add(1, Ordering::SeqCst);
            fails(run)
        };
        Self::begin_with(schedule, event(Event::call("import", task)), starts)
    }

    fn begin_with(schedule: Schedule, event: Event, starts: Arc<AtomicUsize>) -> Self {
        let (waits, waiting) = mpsc::channel();
        let waits = Mutex::new(waits);
        let schedule = schedule.observe(move |notice: &Notice<'_>| {
            if let Step::AttemptFailed { .. } = notice.step() {
                waits.lock().expect("nothing panics").send(()).expect("the test listens");
            }
        });
        schedule.add(event.daily_at("12:00").retry(Retry::times(3).after(FOREVER))).expect("it is right");
        let (ends, report) = mpsc::channel();
        thread::spawn(move || ends.send(schedule.run_due(noon())));
        waiting.recv_timeout(PATIENCE).expect("it fails at once");
        Self { report, starts }
    }

    /// Asserts that the wait has ended, for this reason, and that no attempt followed.
    #[track_caller]
    fn ends(self, because: NoRetry) -> RunOutcome {
        let report = self.report.recv_timeout(PATIENCE).expect("nothing waits any more");
        let outcome = ran(&report, "import").clone();
        assert_eq!(outcome.no_retry(), Some(because), "{report}");
        assert_eq!((outcome.attempts(), self.starts.load(Ordering::SeqCst)), (1, 1), "{report}");
        assert_eq!((outcome.kind(), outcome.cancel_reason()), (OutcomeKind::Failed, None), "it failed by itself");
        outcome
    }
}

#[test]
fn attempts_are_parts_of_one_run() {
    for place in [|event: Event| event, Event::in_background] {
        let (clock, diary, steps) = (ManualClock::at(noon()), Diary::default(), Diary::default());
        let store = MemoryMutex::with_clock(&clock);
        let told = steps.clone();
        let schedule = Schedule::new(store.clone()).with_run_log(20).expect("memory keeps one");
        let schedule = schedule.observe(move |notice: &Notice<'_>| match notice.step() {
            Step::AttemptFailed { attempt, fault, retry_in, .. } => {
                told.note(format!("{attempt} {fault}, {retry_in:?}"));
            }
            Step::AttemptStarted { attempt, .. } => told.note(format!("{attempt} started")),
            Step::Started { .. } => told.note("started"),
            Step::Ended(outcome) => told.note(format!("ended: {} attempts", outcome.attempts())),
            _ => {}
        });
        let event = succeeds_in(3, &diary)
            .before(diary.task("before"))
            .then(diary.hook("then"))
            .on_failure(diary.hook("on_failure"))
            .retry(Retry::times(3).after(10 * SECOND).doubling());
        let report = tick_with(&clock, schedule.clone(), place(event));
        let outcome = ran(&report, "import");
        assert!(outcome.is_success() && outcome.no_retry().is_none(), "{report}");
        assert_eq!((outcome.attempts(), outcome.took()), (3, 30 * SECOND));
        let attempt = |number: u32| format!("attempt {number} of {}", noon());
        assert_eq!(diary.lines(), ["before".into(), attempt(1), attempt(2), attempt(3), "then".to_owned()]);
        let failed = "failed: the supplier is busy";
        assert_eq!(
            steps.lines(),
            [
                "started".to_owned(),
                format!("1 {failed}, 10s"),
                "2 started".into(),
                format!("2 {failed}, 20s"),
                "3 started".into(),
                "ended: 3 attempts".into()
            ]
        );
        assert!(report.to_string().contains("succeeded in 30.0 s and 3 attempts"), "{report}");
        let mut log = Vec::new();
        until(|| {
            let runs = store.run_log().expect("memory keeps one").runs("import").expect("memory answers");
            runs.first().is_some_and(|run| run.end().is_some())
        })
        .expect("it is written");
        log.extend(store.run_log().expect("memory keeps one").runs("import").expect("memory answers"));
        assert_eq!(log.iter().map(|run| (run.attempts(), run.is_success())).collect::<Vec<_>>(), [(3, true)]);
        assert!(!store.exists(&name()).expect("memory answers"), "it was released");
    }
}

#[test]
fn a_run_that_waits_is_renewed_and_holds_its_lease() {
    let clock = ManualClock::at(noon());
    let store = MemoryMutex::with_clock(&clock);
    let waiting = Waiting::begin(Schedule::new(store.clone()), Event::without_overlapping);
    clock.advance(300 * SECOND); // five terms
    assert!(store.exists(&name()).expect("memory answers"), "it was renewed");
    store.break_lease(&name()).expect("memory answers").expect("it was held");
    clock.advance(60 * SECOND);
    assert!(waiting.ends(NoRetry::LeaseOver).lease_lost_at().is_some());
}

#[test]
fn errors_panics_and_exit_codes_are_retried_and_the_last_attempt_counts() {
    let clock = ManualClock::at(noon());
    let retry = |event: Event| event.hourly().retry(Retry::times(1).after(10 * SECOND));
    let report = tick(&clock, retry(Event::call("import", |_| panic!("no paper"))));
    assert_eq!((ran(&report, "import").kind(), ran(&report, "import").attempts()), (OutcomeKind::Panicked, 2));
    assert!(report.to_string().contains("panicked after 10.0 s and 2 attempts: no paper"), "{report}");
    #[cfg(unix)]
    {
        let line = "test \"$SOLOIST_ATTEMPT\" = 1 && exit 7; exit $((SOLOIST_ATTEMPT + 2))";
        let report = tick(&clock, retry(Event::exec("import", line)));
        let outcome = ran(&report, "import");
        assert_eq!((outcome.attempts(), outcome.exit_status().and_then(|status| status.code())), (2, Some(4)));
        assert!(report.to_string().contains("exited with 4 after"), "{report}");
    }
}

#[cfg(feature = "tokio")]
#[test]
fn a_future_is_made_anew_for_each_attempt() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    for place in [|event: Event| event, Event::in_background] {
        let (clock, diary) = (ManualClock::at(noon()), Diary::default());
        let noted = diary.clone();
        let task = move |run: Run| {
            noted.note(format!("made for {}", run.attempt()));
            async move { if run.attempt() < 3 { fails(&run) } else { Ok(()) } }
        };
        let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_runtime(runtime.handle().clone());
        let event = Event::spawn("import", task).hourly().without_overlapping();
        let report = tick_with(&clock, schedule, place(event.retry(Retry::times(5).after(SECOND))));
        assert!(ran(&report, "import").is_success(), "{report}");
        assert_eq!(diary.lines(), ["made for 1", "made for 2", "made for 3"]);
    }
}

#[test]
fn runs_that_wait_in_the_background_take_no_thread() {
    const RUNS: usize = 300; // more than a loop has threads
    let waiting = Arc::<AtomicUsize>::default();
    let (waits, all_wait) = (Arc::clone(&waiting), Arc::clone(&waiting));
    let schedule = Schedule::in_process().observe(move |notice: &Notice<'_>| {
        if let Step::AttemptFailed { .. } = notice.step() {
            waits.fetch_add(1, Ordering::SeqCst);
        }
    });
    let shutdown = soloist::Shutdown::new();
    for number in 0..RUNS {
        let event = Event::call(format!("import-{number}"), fails).daily_at("12:00").in_background();
        schedule.add(event.retry(Retry::times(1).after(FOREVER))).expect("it is right");
    }
    let last = Event::call("another", |_| {}).daily_at("12:00").in_background().without_overlapping();
    schedule.add(last).expect("it is right");
    let schedule = schedule.with_shutdown(&shutdown);
    thread::scope(|scope| {
        let tick = scope.spawn(|| schedule.run_due(noon()));
        until(|| all_wait.load(Ordering::SeqCst) == RUNS).expect("none waits for a thread");
        until(|| schedule.status().event("another").is_some_and(|event| event.last_run.is_some())).expect("it runs");
        let status = schedule.status();
        let running = &status.event("import-0").expect("it was added").running;
        assert_eq!(running.iter().map(|run| run.attempt).collect::<Vec<_>>(), [1], "it waits after its first attempt");
        shutdown.trigger();
        assert_eq!(tick.join().expect("it ends").failures().count(), RUNS);
    });
}

#[test]
fn a_run_in_the_foreground_delays_those_behind_it() {
    let (clock, diary) = (ManualClock::at(noon()), Diary::default());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock));
    let behind = diary.clone();
    let task = move |_: &Run| behind.note("behind");
    schedule.add(succeeds_in(2, &diary).retry(Retry::times(1).after(10 * SECOND))).expect("it is right");
    schedule.add(Event::call("behind", task).hourly()).expect("it is right");
    let report = skipping_waits(&clock, schedule, |schedule| schedule.run_due(noon()));
    assert!(!report.is_failure(), "{report}");
    let attempt = |number: u32| format!("attempt {number} of {}", noon());
    assert_eq!(diary.lines(), [attempt(1), attempt(2), "behind".into()]);
}

#[test]
fn an_event_is_retried_when_it_is_run_by_hand_too() {
    let diary = Diary::default();
    let schedule = Schedule::in_process();
    schedule.add(succeeds_in(2, &diary).retry(Retry::times(2).after(MOMENT))).expect("it is right");
    let entry = schedule.run_event("import", noon()).expect("it was added");
    assert!(!entry.is_failure() && entry.to_string().contains("and 2 attempts"), "{entry}");
    let last = schedule.status().events.remove(0).last_run.expect("it ran");
    assert_eq!((last.attempts, last.result), (2, OutcomeKind::Succeeded));
    assert_eq!(diary.lines().len(), 2);
}
