//! What ends the wait for a retry, and releases: a shutdown, a pause, a later occurrence, an operator, the loss of the lease.

use std::sync::atomic::AtomicBool;

use soloist::store::LeaseRequest;
use soloist::{Overlap, Shutdown, Term};

use super::*;
use crate::scripted::Scripted;
use crate::support::{holder, with_subscriber};

const PLACES: [fn(Event) -> Event; 2] = [|event| event, Event::in_background];

#[test]
fn a_shutdown_ends_the_wait_at_once_and_releases() {
    for place in PLACES {
        let clock = ManualClock::at(noon());
        let (store, shutdown) = (MemoryMutex::with_clock(&clock), Shutdown::new());
        let schedule = Schedule::new(store.clone()).with_shutdown(&shutdown);
        let waiting = Waiting::begin(schedule, |event| place(event.without_overlapping()));
        shutdown.trigger();
        let outcome = waiting.ends(NoRetry::ShuttingDown);
        assert!(outcome.to_string().contains("not retried, because the process is shutting down"), "{outcome}");
        assert!(!store.exists(&name()).expect("memory answers"));
    }
}

#[test]
fn a_task_that_fails_during_the_drain_is_not_retried() {
    let shutdown = Shutdown::new();
    let schedule = Schedule::in_process().with_shutdown(&shutdown);
    let task = move |run: &Run| -> TaskResult {
        shutdown.trigger();
        fails(run)
    };
    schedule.add(Event::call("import", task).hourly().retry(Retry::times(3).after(MOMENT))).expect("it is right");
    let report = schedule.run_due(noon());
    assert_eq!(ran(&report, "import").no_retry(), Some(NoRetry::ShuttingDown));
}

#[cfg(feature = "tokio")]
#[test]
fn a_dropped_tick_ends_the_wait_of_a_future() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let store = MemoryMutex::new();
    let ended = Diary::default();
    let (waits, waiting) = mpsc::channel();
    let waits = Mutex::new(waits);
    let told = ended.clone();
    let schedule = Schedule::new(store.clone()).with_runtime(runtime.handle().clone());
    let schedule = schedule.observe(move |notice: &Notice<'_>| match notice.step() {
        Step::AttemptFailed { .. } => waits.lock().expect("nothing panics").send(()).expect("the test listens"),
        Step::Ended(outcome) => told.note(format!("{:?}", outcome.no_retry())),
        _ => {}
    });
    let event = Event::spawn("import", |run: Run| async move { fails(&run) }).daily_at("12:00").in_background();
    schedule.add(event.without_overlapping().retry(Retry::times(1).after(FOREVER))).expect("it is right");
    let tick = runtime.spawn({
        let schedule = schedule.clone();
        async move { drop(schedule.run_due_async(noon()).await) }
    });
    waiting.recv_timeout(PATIENCE).expect("it fails at once");
    tick.abort();
    until(|| ended.lines() == ["Some(ShuttingDown)"] && !store.exists(&name()).expect("memory answers"))
        .expect("it is released");
}

/// Asks the store about once a second, so that the wait of six hours ends early.
#[test]
fn a_pause_of_the_schedule_or_of_the_event_ends_the_wait() {
    for (pauses_event, place) in [(false, PLACES[0]), (true, PLACES[1])] {
        for filtered in [false, true] {
            let store = MemoryMutex::new();
            let named = || Schedule::new(store.clone()).named("shop").expect("it is a name");
            let waiting = Waiting::begin(named(), |event| {
                let event = place(event.without_overlapping());
                if filtered { event.when(|_| true) } else { event }
            });
            let until = Utc::now() + chrono::TimeDelta::hours(1);
            let paused = if pauses_event { named().pause_event("import", until, "") } else { named().pause(until, "") };
            paused.expect("memory answers");
            waiting.ends(NoRetry::Paused);
            assert!(!store.exists(&name()).expect("memory answers"));
        }
    }
}

#[test]
fn a_run_by_hand_is_retried_during_a_pause() {
    let schedule = Schedule::in_process().named("shop").expect("it is a name");
    let diary = Diary::default();
    schedule.add(succeeds_in(2, &diary).retry(Retry::times(1).after(MOMENT))).expect("it is right");
    schedule.pause(Utc::now() + chrono::TimeDelta::hours(1), "").expect("memory answers");
    assert!(!schedule.run_event("import", noon()).expect("it was added").is_failure());
}

#[test]
fn a_pause_that_begins_in_an_attempt_is_found_before_the_next() {
    let store = MemoryMutex::new();
    let named = || Schedule::new(store.clone()).named("shop").expect("it is a name");
    let operator = named();
    let task = move |run: &Run| -> TaskResult {
        operator.pause(Utc::now() + chrono::TimeDelta::hours(1), "").map_err(|error| error.to_string())?;
        fails(run)
    };
    let schedule = named();
    schedule.add(Event::call("import", task).hourly().retry(Retry::times(3).after(MOMENT))).expect("it is right");
    let report = schedule.run_due(noon());
    assert_eq!((ran(&report, "import").attempts(), ran(&report, "import").no_retry()), (1, Some(NoRetry::Paused)));
}

#[test]
fn the_pauses_of_the_schedule_and_of_the_event_are_read_once_before_each_attempt() {
    let clock = ManualClock::at(noon());
    let store = Scripted::over(MemoryMutex::with_clock(&clock));
    let schedule = Schedule::new(store.clone()).with_clock(&clock).named("shop").expect("it is a name");
    let event = Event::call("import", fails).hourly().without_overlapping().retry(Retry::times(5).after(MOMENT));
    assert_eq!(ran(&tick_with(&clock, schedule, event), "import").attempts(), 6);
    // The waits share the first answer, because they are shorter than half a second.
    assert_eq!(store.asked(&["held"]).len(), 6);
}

/// Renews the lease after twenty seconds only; the store is asked for requests to stop every second meanwhile.
#[test]
fn an_operator_who_unlocks_ends_the_wait() {
    for place in PLACES {
        let clock = ManualClock::at(noon());
        let store = MemoryMutex::with_clock(&clock);
        let waiting = Waiting::begin(Schedule::new(store.clone()), |event| place(event.without_overlapping()));
        let token = holder(&store, &name()).expect("it waits under its lease").token();
        let mark = name().mark("import", format!("cancel {token}"));
        let request = LeaseRequest::new(mark, Term::MAX, &store.clock()).because("unlock");
        store.create(&request).expect("memory answers").expect("nobody else asks");
        clock.advance(2 * SECOND);
        let outcome = waiting.ends(NoRetry::Unlocked);
        assert_eq!(outcome.asked_to_stop_by().map(soloist::store::Holder::pid), Some(std::process::id()));
        assert!(!store.exists(&name()).expect("memory answers"));
    }
}

#[test]
fn a_later_occurrence_takes_the_place_of_a_run_that_waits() {
    let store = MemoryMutex::new();
    let replaces = |event: Event| event.without_overlapping().on_one_server().on_overlap(Overlap::Replace);
    let waiting = Waiting::begin(Schedule::new(store.clone()), replaces);
    let other = Schedule::new(store);
    other.add(replaces(Event::call("import", |_| {}).daily_at("12:00"))).expect("it is right");
    let report = other.run_due(noon() + chrono::TimeDelta::days(1));
    assert!(ran(&report, "import").is_success(), "{report}");
    let outcome = waiting.ends(NoRetry::Replaced);
    assert!(outcome.to_string().contains("a later occurrence takes its place: "), "{outcome}");
}

#[test]
fn a_lost_lease_ends_the_wait_and_no_attempt_begins() {
    for place in PLACES {
        let clock = ManualClock::at(noon());
        let store = MemoryMutex::with_clock(&clock);
        let waiting = Waiting::begin(Schedule::new(store.clone()), |event| place(event.without_overlapping()));
        clock.jump(90 * SECOND); // as on a machine that was suspended
        assert!(waiting.ends(NoRetry::LeaseOver).lease_lost_at().is_some());
    }
}

#[test]
fn a_machine_that_sleeps_past_the_wait_and_the_lease_begins_no_attempt() {
    let clock = ManualClock::at(noon());
    let waiting = Waiting::begin(Schedule::new(MemoryMutex::with_clock(&clock)), Event::without_overlapping);
    clock.jump(FOREVER + SECOND);
    waiting.ends(NoRetry::LeaseOver);
}

#[test]
fn a_timeout_that_passes_in_the_wait_ends_it() {
    let clock = ManualClock::at(noon());
    let event = |event: Event| event.timeout(FOREVER + SECOND);
    let waiting = Waiting::begin(Schedule::new(MemoryMutex::with_clock(&clock)), event);
    clock.jump(FOREVER + 2 * SECOND);
    waiting.ends(NoRetry::TimedOut);
}

#[test]
fn a_subscriber_that_panics_before_the_second_attempt_leaves_no_running_run_behind() {
    /// Panics when it enters a span, if it is armed.
    struct Panics(Arc<AtomicBool>);
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Panics {
        fn on_enter(&self, _: &tracing::span::Id, _: tracing_subscriber::layer::Context<'_, S>) {
            assert!(!self.0.swap(false, Ordering::SeqCst), "no paper");
        }
    }
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock));
    let (seen, is_armed) = (schedule.clone(), Arc::<AtomicBool>::default());
    let panics = Panics(Arc::clone(&is_armed));
    let task = move |run: &Run| {
        is_armed.store(true, Ordering::SeqCst);
        fails(run)
    };
    let event = Event::call("import", task).hourly().without_overlapping().retry(Retry::times(1).after(MOMENT));
    let subscriber = tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::Registry::default(), panics);
    let report = with_subscriber(subscriber, || tick_with(&clock, schedule, event));
    assert_eq!(ran(&report, "import").kind(), OutcomeKind::Panicked);
    let status = seen.status();
    let import = status.event("import").expect("it was added");
    assert_eq!((import.running.len(), import.consecutive_failures), (0, 1));
    assert_eq!(import.last_run.as_ref().map(|run| (run.result, run.started)), Some((OutcomeKind::Panicked, noon())));
}
