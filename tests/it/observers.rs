//! The notices that observers receive, their order, and their limits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::observe::{Notice, Observer, Step};
use soloist::store::LeaseRequest;
use soloist::testing::TestStore;
use soloist::time::{Clock, ManualClock};
use soloist::{Event, EventMutex, LeaseGuard, MemoryMutex, MutexName, Run, Schedule, Term};

use crate::scripted::Scripted;
use crate::support::{PATIENCE, noon, until};

/// An observer that notes each event and step.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<String>>>);

impl Observer for Listener {
    fn observe(&self, notice: &Notice<'_>) {
        let step = match notice.step() {
            Step::Begins { events, .. } => format!("begins with {}", events.join(" and ")),
            Step::Removed => "removed".into(),
            Step::Due { missed: false, .. } => "due".into(),
            Step::Due { missed: true, .. } => "due, because it was missed".into(),
            Step::Skipped(reason) => format!("skipped: {}", reason.keyword()),
            Step::Queued { place, .. } => format!("queued at {place}"),
            Step::CatchesUp(late) => format!("catches up {} s", late.as_secs()),
            Step::Unprotected(_) => "unprotected".into(),
            Step::Admitted { token, .. } => format!("admitted{}", if token.is_some() { " with a token" } else { "" }),
            Step::Started { .. } => "started".into(),
            Step::Cancelled(reason) => format!("cancelled: {}", reason.keyword()),
            Step::LeaseLost { .. } => "lease lost".into(),
            Step::Ended(outcome) => format!("ended: {}", outcome.kind().keyword()),
            Step::HookFailed(failure) => format!("hook failed: {failure}"),
            Step::Released(_) => "released".into(),
            Step::NotRenewed { leases, .. } => format!("{leases} not renewed"),
            Step::Renewed { leases, late, .. } => format!("{leases} renewed, {late} late"),
            Step::StoreUnavailable(_) => "store unavailable".into(),
            Step::StoreAvailable => "store available".into(),
            Step::Paused { schedule, .. } => format!("{schedule} paused"),
            Step::Resumed { schedule, .. } => format!("{schedule} resumed"),
            Step::LoopAlive => return,
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(notice.event().map_or_else(|| step.clone(), |event| format!("{event}: {step}")));
    }
}

impl Listener {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn has_heard(&self, line: &str) -> bool {
        self.0.lock().unwrap().iter().any(|known| known == line)
    }

    fn on(&self, schedule: Schedule) -> Schedule {
        schedule.observe(self.clone())
    }
}

fn minute(number: i64) -> DateTime<Utc> {
    noon() + TimeDelta::minutes(number)
}

fn every_minute(name: &str) -> Event {
    Event::call(name, |_| {}).every_minute()
}

#[test]
fn a_run_is_told_step_by_step_and_a_skip_with_its_reason() {
    let listener = Listener::default();
    let schedule = listener.on(Schedule::in_process());
    let fails = |_: &Run| -> soloist::TaskResult { Err("no paper".into()) };
    schedule
        .add(Event::call("a", fails).every_minute().without_overlapping().then(|_, _| Err("no ink".into())))
        .unwrap();
    schedule.add(every_minute("b").skip(|_| true)).unwrap();
    schedule.add(every_minute("c")).unwrap();
    let _ = schedule.run_due(noon());
    let told = [
        "begins with a and b and c",
        "a: due",
        "b: due",
        "c: due",
        "a: admitted with a token",
        "a: started",
        "a: ended: failed",
        "a: hook failed: `then` hook 1 failed: no ink",
        "a: released",
        "b: skipped: filtered",
        "c: admitted",
        "c: started",
        "c: ended: succeeded",
    ];
    assert_eq!(listener.take(), told);
    // An occurrence that has begun does not begin again, unless the events have changed.
    schedule.remove("a");
    schedule.remove("b");
    let _ = schedule.run_due(minute(1));
    let of_c = ["c: due", "c: admitted", "c: started", "c: ended: succeeded"];
    assert_eq!(listener.take(), [&["a: removed", "b: removed", "begins with c"][..], &of_c].concat());
    let _ = schedule.clone().run_due(minute(2));
    assert_eq!(listener.take(), of_c);
}

#[test]
fn an_observer_hears_of_a_run_while_it_is_at_work() {
    let listener = Listener::default();
    let schedule = listener.on(Schedule::in_process());
    let heard = listener.clone();
    let task = move |_: &Run| {
        let is_live = heard.has_heard("a: started") && !heard.has_heard("a: ended: succeeded");
        if is_live { Ok(()) } else { Err("nobody was told".into()) }
    };
    schedule.add(Event::call("a", task).every_minute().in_background()).unwrap();
    schedule.add(every_minute("b").in_background()).unwrap();
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{report}");
}

#[test]
fn a_store_is_told_to_be_out_once_and_back_once() {
    let listener = Listener::default();
    let store = TestStore::new(&ManualClock::at(noon()));
    let schedule = listener.on(Schedule::new(store.clone()));
    schedule.add(every_minute("a").without_overlapping()).unwrap();
    schedule.add(every_minute("b").without_overlapping()).unwrap();
    store.be_unavailable(true);
    let _ = schedule.run_due(noon());
    let _ = schedule.run_due(minute(1));
    let heard = listener.take();
    assert_eq!(heard.iter().filter(|line| *line == "store unavailable").count(), 1, "{heard:?}");
    assert_eq!(heard.iter().filter(|line| line.ends_with("skipped: store_unavailable")).count(), 4, "{heard:?}");
    store.be_unavailable(false);
    let _ = schedule.run_due(minute(2));
    let _ = schedule.run_due(minute(3));
    let heard = listener.take();
    assert_eq!(heard.iter().filter(|line| *line == "store available").count(), 1, "{heard:?}");
    assert!(!heard.contains(&"store unavailable".to_owned()), "{heard:?}");
}

#[test]
fn a_task_that_times_out_is_told_to_be_cancelled_before_it_ends() {
    let (listener, clock) = (Listener::default(), ManualClock::at(noon()));
    let schedule = listener.on(Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock));
    let (moved, heard) = (clock.clone(), listener.clone());
    // The task never checks whether it is cancelled.
    let task = move |_: &Run| {
        moved.advance(Duration::from_secs(2));
        until(|| heard.has_heard("a: cancelled: timed_out"))
    };
    schedule.add(Event::call("a", task).every_minute().timeout(Duration::from_secs(1))).unwrap();
    let report = schedule.run_due(noon());
    assert!(report.to_string().contains("timed out"), "{report}");
    let heard = listener.take();
    assert_eq!(heard[4..], ["a: cancelled: timed_out", "a: ended: timed_out"], "{heard:?}");
}

#[test]
fn a_lost_lease_and_a_failed_renewal_are_told_with_numbers_that_rise() {
    let (listener, clock) = (Listener::default(), ManualClock::at(noon()));
    let numbers = Arc::new(Mutex::new(Vec::new()));
    let counted = Arc::clone(&numbers);
    let store = Scripted::over(MemoryMutex::with_clock(&clock)).in_steps();
    let store = store.before(|call| if call.verb == "extend" { call.times_out() } else { Ok(()) });
    let schedule = listener.on(Schedule::new(store).with_clock(&clock)).observe(move |notice: &Notice<'_>| {
        counted.lock().unwrap().extend(notice.sequence());
    });
    let (moved, heard) = (clock.clone(), listener.clone());
    let task = move |run: &Run| {
        moved.advance(Duration::from_secs(61));
        until(|| heard.has_heard("a: lease lost") && run.is_cancelled())
    };
    schedule.add(Event::call("a", task).every_minute().without_overlapping()).unwrap();
    let _ = schedule.run_due(noon());
    until(|| listener.has_heard("1 not renewed")).unwrap();
    until(|| listener.has_heard("a: cancelled: lease_lost")).unwrap();
    let numbers = numbers.lock().unwrap();
    assert!(!numbers.is_empty() && numbers.is_sorted(), "{numbers:?}");
}

#[test]
fn a_slow_observer_loses_no_lease() {
    let clock = ManualClock::at(noon());
    let (stuck, renewed) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
    let (gate, count) = (Arc::clone(&stuck), Arc::clone(&renewed));
    let observer = move |notice: &Notice<'_>| {
        if let Step::Renewed { .. } = notice.step() {
            drop(gate.lock().unwrap());
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock).observe(observer);
    let moved = clock.clone();
    let task = move |run: &Run| {
        let observers_wait = stuck.lock().unwrap();
        (0..20).for_each(|_| moved.advance(Duration::from_secs(15)));
        let is_lost = run.is_cancelled();
        drop(observers_wait);
        if is_lost { Err("the lease is lost".into()) } else { Ok(()) }
    };
    schedule.add(Event::call("a", task).every_minute().without_overlapping()).unwrap();
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{report}");
    until(|| renewed.load(Ordering::Relaxed) >= 10).unwrap();
}

#[test]
fn a_slow_observer_of_a_release_loses_no_lease_of_the_next_event() {
    let clock = ManualClock::at(noon());
    let moved = clock.clone();
    let observer = move |notice: &Notice<'_>| {
        if let Step::Released(_) = notice.step() {
            moved.advance(Duration::from_secs(90));
        }
    };
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock).observe(observer);
    for name in ["a", "b"] {
        schedule.add(every_minute(name).without_overlapping()).unwrap();
    }
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{report}");
}

#[test]
fn an_observer_that_panics_harms_nobody() {
    let listener = Listener::default();
    let schedule = Schedule::in_process().observe(|_: &Notice<'_>| panic!("out of paper"));
    let schedule = listener.on(schedule);
    schedule.add(every_minute("a").without_overlapping()).unwrap();
    schedule.add(every_minute("b").in_background()).unwrap();
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{report}");
    assert!(listener.has_heard("a: released") && listener.has_heard("b: ended: succeeded"), "{:?}", listener.take());
}

#[test]
fn a_pause_is_told_and_its_end() {
    let listener = Listener::default();
    let schedule = listener.on(Schedule::in_process().named("shop").unwrap());
    schedule.add(every_minute("a")).unwrap();
    let in_an_hour = Clock::system().now() + TimeDelta::hours(1);
    schedule.pause(in_an_hour, "").unwrap();
    schedule.pause_event("a", in_an_hour, "").unwrap();
    schedule.resume().unwrap();
    schedule.resume_event("a").unwrap();
    assert_eq!(listener.take(), ["shop paused", "a: shop paused", "shop resumed", "a: shop resumed"]);
}

#[test]
fn the_first_waiter_is_told_at_the_first_place_however_many_places_there_are() {
    let (listener, clock) = (Listener::default(), ManualClock::at(noon()));
    let mutex = MemoryMutex::with_clock(&clock);
    let schedule = listener.on(Schedule::new(mutex).with_clock(&clock));
    let (ends, end) = mpsc::channel::<()>();
    let end = Mutex::new(end);
    let runs = move |_: &Run| _ = end.lock().unwrap().recv();
    let waits = Event::call("a", runs).every_minute().at_most(2).on_overlap(soloist::Overlap::QueueAll(2));
    schedule.add(waits.within(Duration::from_secs(3_600))).unwrap();
    thread::scope(|scope| {
        let told = [(0, "a: started"), (1, "a: started"), (2, "a: queued at 1")].map(|(minute, line)| {
            let schedule = &schedule;
            listener.take();
            scope.spawn(move || schedule.run_due(noon() + TimeDelta::minutes(minute)));
            until(|| listener.has_heard(line))
        });
        listener.take();
        drop(ends);
        // The waiter asks again about once a second.
        let started = until(|| {
            clock.advance(Duration::from_secs(1));
            listener.has_heard("a: started")
        });
        assert!(told.iter().chain([&started]).all(Result::is_ok), "{told:?}, {started:?}");
    });
}

#[test]
fn what_was_missed_and_what_waits_is_told() {
    let (listener, clock) = (Listener::default(), ManualClock::at(noon()));
    let mutex = MemoryMutex::with_clock(&clock);
    let schedule = listener.on(Schedule::new(mutex.clone()).with_clock(&clock));
    let hour = Duration::from_secs(3600);
    schedule.add(Event::call("a", |_| {}).hourly().on_one_server().catch_up(hour)).unwrap();
    let _ = schedule.run_due(noon());
    clock.advance(hour + Duration::from_secs(600));
    listener.take();
    let _ = schedule.run_due(noon() + TimeDelta::minutes(70));
    assert_eq!(
        listener.take()[..3],
        ["a: due, because it was missed", "a: admitted with a token", "a: catches up 600 s"].map(str::to_owned)[..]
    );

    let request = LeaseRequest::new(MutexName::lease("b").unwrap(), Term::MAX, &mutex.clock());
    mutex.create(&request).unwrap().expect("nobody holds it");
    let waits = every_minute("b").without_overlapping().on_overlap(soloist::Overlap::QueueOne);
    schedule.add(waits.within(Duration::from_secs(1))).unwrap();
    schedule.remove("a");
    listener.take();
    std::thread::scope(|scope| {
        scope.spawn(|| schedule.run_due(noon() + TimeDelta::minutes(71)));
        until(|| listener.has_heard("b: queued at 1")).unwrap();
        clock.advance(Duration::from_secs(2));
    });
    assert_eq!(
        listener.take()[1..],
        ["b: due", "b: queued at 1", "b: skipped: queued_too_long"].map(str::to_owned)[..]
    );
}

/// An observer whose drop acquires a lease.
struct AcquiresWhenDropped(MemoryMutex, MutexName);

impl Observer for AcquiresWhenDropped {
    fn observe(&self, _: &Notice<'_>) {}
}

impl Drop for AcquiresWhenDropped {
    fn drop(&mut self) {
        let guard = LeaseGuard::acquire(&self.0, self.1.clone(), Term::MAX).expect("memory answers");
        assert!(guard.is_some(), "nobody holds it");
    }
}

#[test]
fn an_observer_that_acquires_a_lease_when_it_is_dropped_blocks_no_later_run() {
    let (ends, ended) = mpsc::channel();
    thread::spawn(move || {
        let store = MemoryMutex::new();
        for minute in 0..3 {
            // Each tick has a schedule of its own, so that the renewal thread is the last that has the observer.
            let name = MutexName::lease(format!("drop {minute}")).expect("a name");
            let schedule = Schedule::new(store.clone()).observe(AcquiresWhenDropped(store.clone(), name));
            let event = Event::call("import", |_| Ok(())).every_minute().without_overlapping();
            schedule.add(event).expect("it is right");
            let report = schedule.run_due(noon() + TimeDelta::minutes(minute));
            assert!(!report.is_failure(), "{report}");
        }
        ends.send(()).expect("the test listens");
    });
    ended.recv_timeout(PATIENCE).expect("no tick is blocked");
}
