//! Tests that move a clock during runs: everything due meanwhile happens in its order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Utc};
use soloist::time::{Clock, ManualClock};
use soloist::{
    CancelReason, Event, EventMutex, FileMutex, LeaseGuard, MemoryMutex, MutexName, Report, Run, Schedule, SkipReason,
    TaskResult, Term,
};

use crate::scripted::Scripted;
use crate::support::{HOUR, PATIENCE, noon, ran, skipped};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

type Store = Arc<dyn EventMutex>;

/// A schedule with a run of `e` that goes on until the test ends it, and another handle of its clock.
struct Scene {
    clock: ManualClock,
    schedule: Schedule,
    begins: mpsc::Receiver<Run>,
    goes: mpsc::Sender<()>,
}

impl Scene {
    fn new(clock: ManualClock, store: Store, protect: impl FnOnce(Event) -> Event) -> Self {
        let ((begun, begins), (goes, gone)) = (mpsc::channel(), mpsc::channel());
        let gone = Mutex::new(gone);
        let task = move |run: &Run| -> TaskResult {
            begun.send(run.clone())?;
            Ok(gone.lock().unwrap().recv_timeout(PATIENCE)?)
        };
        let schedule = Schedule::new(store).with_clock(&clock);
        schedule.add(protect(Event::call("e", task).every_minute().without_overlapping())).unwrap();
        Self { clock, schedule, begins, goes }
    }

    fn in_memory(protect: impl FnOnce(Event) -> Event) -> Self {
        let clock = ManualClock::at(noon());
        let store = Arc::new(MemoryMutex::with_clock(&clock));
        Self::new(clock, store, protect)
    }

    fn tick(&self) -> Report {
        self.schedule.run_due(now(&self.clock))
    }

    /// Ticks on a thread of its own, which is joined after `meanwhile`; `e` has begun by then.
    #[track_caller]
    fn while_it_runs(&self, meanwhile: impl FnOnce(&Run)) -> Report {
        thread::scope(|scope| {
            let (schedule, at) = (&self.schedule, now(&self.clock));
            let tick = scope.spawn(move || schedule.run_due(at));
            let run = self.begins.recv().expect("it begins");
            let at_work = LetGo(&self.goes);
            meanwhile(&run);
            drop(at_work);
            tick.join().expect("it ends")
        })
    }
}

/// Lets the task end, also when an assertion has failed.
struct LetGo<'a>(&'a mpsc::Sender<()>);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

fn now(clock: &ManualClock) -> DateTime<Utc> {
    Clock::from(clock).now()
}

fn lease(name: &str) -> MutexName {
    MutexName::lease(name).unwrap()
}

fn in_each_store(promise: impl Fn(ManualClock, Store)) {
    let clock = ManualClock::at(noon());
    promise(clock.clone(), Arc::new(MemoryMutex::with_clock(&clock)));
    let (clock, dir) = (ManualClock::at(noon()), tempfile::tempdir().expect("a temporary directory"));
    promise(clock.clone(), Arc::new(FileMutex::builder(dir.path()).clock(&clock).open().expect("it is ours")));
}

/// Plays the test that most users write.
#[test]
fn a_task_at_work_overlaps_however_far_the_clock_is_moved() {
    for place in [|event: Event| event, Event::in_background] {
        for by in [MINUTE, 10 * MINUTE, 3 * HOUR] {
            in_each_store(|clock, store| {
                let scene = Scene::new(clock, store, place);
                let first = scene.while_it_runs(|run| {
                    scene.clock.advance(by);
                    let second = scene.tick();
                    assert!(matches!(skipped(&second, "e"), SkipReason::Overlapping(_)), "{second}");
                    assert!(!run.is_cancelled());
                });
                assert!(!first.is_failure(), "{first}");
                scene.goes.send(()).unwrap();
                assert!(ran(&scene.tick(), "e").is_success(), "it is free");
            });
        }
    }
}

#[test]
fn a_guard_is_kept_on_the_clock_of_its_store() {
    in_each_store(|clock, store| {
        let term = Term::new(MINUTE).unwrap();
        let acquire = || LeaseGuard::acquire(&store, lease("g"), term).unwrap();
        let guard = acquire().expect("nobody holds it");
        clock.advance(10 * MINUTE);
        assert!(acquire().is_none(), "one at a time");
        assert!(!guard.is_lost() && guard.release().unwrap());
        let fixed = LeaseGuard::acquire_for(&store, lease("g"), term).unwrap().expect("it was given back");
        clock.advance(MINUTE);
        assert!(fixed.is_lost() && acquire().is_some(), "its term is over");
    });
}

#[test]
fn a_schedule_goes_by_the_clock_of_its_store_unless_it_has_one_of_its_own() {
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(Arc::new(MemoryMutex::with_clock(&clock)) as Store);
    let moved = clock.clone();
    schedule.add(Event::call("e", move |_| moved.advance(SECOND)).every_minute().without_overlapping()).unwrap();
    assert_eq!(ran(&schedule.run_due(noon()), "e").took(), SECOND);
}

#[test]
fn whoever_waits_for_a_time_goes_on_when_the_clock_is_moved_over_it() {
    let scene = Scene::in_memory(|event| event);
    let report = scene.while_it_runs(|run| {
        thread::scope(|scope| {
            let waits = scope.spawn(move || run.wait_cancelled(45 * SECOND));
            // The wait may begin after the clock was moved.
            while !waits.is_finished() {
                scene.clock.advance(MINUTE);
            }
            assert_eq!(waits.join().unwrap(), None, "there was no reason to stop");
        });
    });
    assert!(!report.is_failure(), "{report}");
}

#[test]
fn a_timeout_sets_in_at_its_time_under_a_lease_that_is_renewed() {
    let scene = Scene::in_memory(|event| event.timeout(90 * SECOND));
    let report = scene.while_it_runs(|run| {
        thread::scope(|scope| {
            let waits = scope.spawn(move || run.wait_cancelled(HOUR));
            scene.clock.advance(Duration::from_millis(89_999));
            assert!(!run.is_cancelled());
            scene.clock.advance(Duration::from_millis(1));
            assert_eq!(waits.join().unwrap(), Some(CancelReason::TimedOut));
        });
        scene.clock.advance(10 * MINUTE);
    });
    let outcome = ran(&report, "e");
    assert_eq!(outcome.to_string(), "timed out after 1 min 30 s, and stopped 10 min 0 s later");
    assert!(outcome.lease_lost_at().is_none());
}

#[test]
fn a_lease_that_its_store_forgot_is_lost_when_it_was_to_be_renewed() {
    in_each_store(|clock, store| {
        let scene = Scene::new(clock, Arc::clone(&store), |event| event);
        let report = scene.while_it_runs(|run| {
            assert!(store.break_lease(&lease("e")).unwrap().is_some());
            scene.clock.advance(Duration::from_millis(19_999));
            assert!(!run.is_cancelled(), "nobody knows yet");
            scene.clock.advance(10 * MINUTE);
            assert_eq!(run.cancel_reason(), Some(CancelReason::LeaseLost));
        });
        assert_eq!(ran(&report, "e").lease_lost_at(), Some(noon() + 20 * SECOND), "{report}");
    });
}

#[test]
fn a_jump_gives_nobody_a_turn_before_its_end() {
    in_each_store(|clock, store| {
        let scene = Scene::new(clock, store, |event| event);
        let report = scene.while_it_runs(|run| {
            scene.clock.jump(MINUTE);
            assert_eq!(run.cancel_reason(), Some(CancelReason::LeaseLost));
        });
        assert_eq!(ran(&report, "e").lease_lost_at(), Some(noon() + MINUTE), "{report}");
    });
}

#[test]
fn a_task_that_moves_the_clock_itself_keeps_its_lease() {
    in_each_store(|clock, store| {
        let moved = clock.clone();
        let schedule = Schedule::new(store).with_clock(&clock);
        let task = move |run: &Run| {
            moved.advance(10 * MINUTE);
            Ok(run.check()?)
        };
        for place in [|event: Event| event, Event::in_background] {
            let event = Event::call("e", task.clone()).every_minute().without_overlapping().apply(place);
            schedule.add(event).unwrap();
            assert_eq!(ran(&schedule.run_due(now(&clock)), "e").to_string(), "succeeded in 10 min 0 s");
            assert!(schedule.remove("e"));
        }
    });
}

/// Lets the renewal thread sleep until the first lease ends, while a second one needs it earlier.
#[test]
fn a_lease_of_a_renewal_thread_that_sleeps_for_another_is_renewed_in_time() {
    let clock = ManualClock::at(noon());
    let store: Store = Arc::new(MemoryMutex::with_clock(&clock));
    let long = LeaseGuard::acquire_for(&store, lease("long"), Term::new(24 * HOUR).unwrap()).unwrap();
    for round in 0..300 {
        clock.advance(SECOND);
        let guard = LeaseGuard::acquire(&store, lease("g"), Term::new(MINUTE).unwrap()).unwrap().expect("it is free");
        clock.advance(MINUTE);
        assert!(!guard.is_lost(), "round {round}");
    }
    assert!(long.is_some_and(|long| !long.is_lost()));
}

/// Returns a store that calls `happens` at each call of this kind.
fn when(asked: &'static str, clock: &ManualClock, happens: impl Fn() + Send + Sync + 'static) -> Store {
    Arc::new(Scripted::over(MemoryMutex::with_clock(clock)).before(move |call| {
        if call.is(asked) {
            happens();
        }
        Ok(())
    }))
}

#[test]
fn time_that_passes_while_somebody_is_admitted_waits_for_the_answer() {
    let foreground: fn(Event) -> Event = |event| event;
    for (is_guard, place) in [(false, foreground), (false, Event::in_background), (true, foreground)] {
        let (clock, (asked, asks)) = (ManualClock::at(noon()), mpsc::channel());
        let slow = move || {
            asked.send(()).unwrap();
            thread::sleep(Duration::from_millis(50)); // the way to the store and back
        };
        let store: Store = when("admit", &clock, slow);
        let scene = Scene::new(clock, Arc::clone(&store), place);
        thread::scope(|scope| {
            let clock = &scene.clock;
            let moves = scope.spawn(move || {
                asks.recv().unwrap();
                clock.advance(10 * MINUTE);
            });
            if is_guard {
                let guard = LeaseGuard::acquire(&store, lease("g"), Term::new(MINUTE).unwrap()).unwrap();
                moves.join().unwrap();
                assert!(!guard.expect("nobody holds it").is_lost());
            } else {
                scene.goes.send(()).unwrap();
                assert!(ran(&scene.schedule.run_due(noon()), "e").is_success());
            }
        });
    }
}

#[test]
fn a_renewal_that_moves_the_clock_itself_holds_nobody_up() {
    let (clock, renewals) = (ManualClock::at(noon()), Arc::new(AtomicUsize::new(0)));
    let (moved, counted) = (clock.clone(), Arc::clone(&renewals));
    let slow = move || {
        moved.advance(5 * SECOND);
        counted.fetch_add(1, Ordering::SeqCst);
    };
    let scene = Scene::new(clock.clone(), when("extend", &clock, slow), |event| event);
    let report = scene.while_it_runs(|run| {
        scene.clock.advance(10 * MINUTE);
        assert!(!run.is_cancelled());
    });
    // Each is asked for a third of the term after the one before, and each lets five seconds more pass.
    assert!(renewals.load(Ordering::SeqCst) >= 30, "{renewals:?}");
    assert!(!report.is_failure(), "{report}");
}

#[test]
fn a_renewal_that_does_not_end_is_not_waited_for_for_ever_and_once() {
    let (clock, (go, gone)) = (ManualClock::at(noon()), mpsc::channel::<()>());
    let gone = Mutex::new(gone);
    let stuck = move || {
        let _ = gone.lock().unwrap().recv();
    };
    let scene = Scene::new(clock.clone(), when("extend", &clock, stuck), |event| event);
    let report = scene.while_it_runs(|run| {
        for _ in 0..100 {
            scene.clock.advance(MINUTE);
        }
        assert_eq!(run.cancel_reason(), Some(CancelReason::LeaseLost));
        drop(go);
    });
    assert_eq!(ran(&report, "e").lease_lost_at(), Some(noon() + MINUTE), "{report}");
}
