//! Leases that are renewed, lost, held longer than their tasks or done without: on a clock that tests move, or on real
//! leases that are short, and without a server.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Utc};
use soloist::{
    Admission, Admitted, Answers, CancelReason, Clock, Ended, Event, EventMutex, Fault, FileMutex, Holder, Lease,
    LeaseGuard, LeaseRequest, ManualClock, MemoryMutex, MutexError, MutexName, Outage, Release, Report, Run, Schedule,
    Scope, SkipReason, TaskOutcome, Term,
};

use crate::support::{Counted, Diary, HOUR, PATIENCE, at, entry, noon, ran, run_alone, skipped, until};

/// The term of a lease that is renewed, and when that is due.
const TERM: Duration = Duration::from_secs(60);
const THIRD: Duration = Duration::from_secs(20);

const SECOND: Duration = Duration::from_secs(1);

type Store = Arc<dyn EventMutex>;

fn in_memory(clock: &ManualClock) -> Store {
    Arc::new(MemoryMutex::with_clock(clock))
}

/// A promise of all stores, tried on one of this process and on one of this host.
fn in_memory_and_on_file(promise: impl Fn(&ManualClock, &Store)) {
    let clock = ManualClock::at(noon());
    promise(&clock, &in_memory(&clock));
    let (clock, dir) = (ManualClock::at(noon()), tempfile::tempdir().expect("a temporary directory"));
    promise(&clock, &(Arc::new(FileMutex::builder(dir.path()).clock(&clock).open().expect("it is ours")) as Store));
}

fn schedule(store: &Store, clock: &ManualClock, events: impl IntoIterator<Item = Event>) -> Schedule {
    let mut schedule = Schedule::new(Arc::clone(store)).with_clock(clock);
    for event in events {
        schedule.add(event).unwrap();
    }
    schedule
}

/// One tick at noon with an event `e` that does this.
#[track_caller]
fn tick(store: &Store, clock: &ManualClock, event: impl FnOnce(Event) -> Event, task: impl Task) -> Report {
    schedule(store, clock, [event(Event::call("e", task).every_minute())]).run_due(noon())
}

/// How an event is protected.
type Way = fn(Event) -> Event;

type Work = fn(&Run) -> TaskOutcome;

trait Task: Fn(&Run) -> TaskOutcome + Send + Sync + 'static {}

impl<T: Fn(&Run) -> TaskOutcome + Send + Sync + 'static> Task for T {}

/// A task that takes so long, and sees nothing of what happens meanwhile.
fn takes(clock: &ManualClock, long: Duration) -> impl Task {
    let clock = clock.clone();
    move |_| {
        clock.advance(long);
        Ok(())
    }
}

fn lease(name: &str) -> MutexName {
    MutexName::lease(name).unwrap()
}

#[track_caller]
fn holder(store: &dyn EventMutex, name: &str) -> Holder {
    store.holder(&lease(name)).unwrap().unwrap_or_else(|| panic!("nobody holds {name}"))
}

/// Until when the name is held; `None`: it is free.
fn held_until(store: &dyn EventMutex, name: &str) -> Option<DateTime<Utc>> {
    store.holder(&lease(name)).unwrap().map(|holder| holder.until())
}

fn now(clock: &ManualClock) -> DateTime<Utc> {
    Clock::from(clock).now()
}

/// Lets a third of the term pass, and waits until the lease is renewed.
fn let_it_be_renewed(store: &dyn EventMutex, clock: &ManualClock, name: &str) -> Result<(), &'static str> {
    clock.advance(THIRD);
    until(|| held_until(store, name) == Some(now(clock) + TERM))
}

/// A clock that runs, as long as this is there.
struct Running(Arc<AtomicBool>, Option<thread::JoinHandle<()>>);

/// Lets the clock run, for whoever waits on it.
fn let_it_run(clock: &ManualClock) -> Running {
    let (over, clock) = (Arc::new(AtomicBool::new(false)), clock.clone());
    let seen = Arc::clone(&over);
    let runs = move || {
        while !seen.load(Ordering::SeqCst) {
            clock.advance(Duration::from_millis(100));
            thread::sleep(Duration::from_millis(1)); // a second takes ten milliseconds
        }
    };
    Running(over, Some(thread::spawn(runs)))
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.take().expect("it is stopped once").join().expect("it only moves the clock");
    }
}

/// What `run` says to this wait, in a thread of its own: a wait without an end is a failure of the test and no hang.
#[track_caller]
fn cancelled(run: &Run, timeout: Duration) -> Option<CancelReason> {
    let run = run.clone();
    let waiting = thread::spawn(move || run.cancelled(timeout));
    until(|| waiting.is_finished()).expect("the wait has an end");
    waiting.join().expect("it only waits")
}

mod renewal {
    use super::*;

    #[test]
    fn a_task_of_three_terms_runs_under_one_lease_and_nothing_runs_beside_it() {
        in_memory_and_on_file(|clock, store| {
            let beside = schedule(store, clock, [Event::call("e", |_| {}).every_minute().without_overlapping()]);
            let (seen, moved) = (Arc::clone(store), clock.clone());
            let task = move |run: &Run| {
                for _ in 0..9 {
                    let_it_be_renewed(&*seen, &moved, "e")?;
                    run.check()?;
                    let report = beside.run_due(now(&moved));
                    let SkipReason::Overlapping(Some(holder)) = skipped(&report, "e") else { panic!("{report}") };
                    assert_eq!(Some(holder.owner()), run.lease().map(Lease::owner));
                    assert_eq!(Some(holder.token()), run.fencing_token(), "it is one lease, under one token");
                    assert!(!report.is_failure());
                }
                Ok(())
            };
            let report = tick(store, clock, Event::without_overlapping, task);
            assert_eq!(ran(&report, "e").to_string(), "succeeded in 3 min 0 s");
            assert!(matches!(ran(&report, "e").release(), Some(Release::Released)));
            assert!(!report.is_failure() && held_until(&**store, "e").is_none());
        });
    }

    #[test]
    fn two_hundred_leases_are_renewed_in_one_call_for_each_third_of_their_term() {
        if run_alone("healing::renewal::two_hundred_leases_are_renewed_in_one_call_for_each_third_of_their_term", &[])
            .is_some()
        {
            return;
        }
        let clock = ManualClock::at(noon());
        let (store, at_work) = (Counted::with_clock(&clock), Arc::new(AtomicUsize::new(0)));
        let (end, over) = (Arc::new(AtomicBool::new(false)), |end: &AtomicBool| end.load(Ordering::SeqCst));
        let event = |number: usize| {
            let (at_work, end) = (Arc::clone(&at_work), Arc::clone(&end));
            let task = move |run: &Run| -> TaskOutcome {
                at_work.fetch_add(1, Ordering::SeqCst);
                until(|| over(&end))?;
                Ok(run.check()?)
            };
            Event::call(format!("e{number}"), task).every_minute().without_overlapping().in_background()
        };
        let shared: Store = Arc::new(store.clone());
        let schedule = schedule(&shared, &clock, (0..200).map(event));
        let tick = thread::spawn(move || schedule.run_due(noon()));
        until(|| at_work.load(Ordering::SeqCst) == 200).unwrap();
        assert_eq!(store.extensions(), [0; 0], "nothing is renewed before a third of its term is over");
        assert_eq!(keepers(), 1);
        for thirds in 1..=7 {
            clock.advance(THIRD);
            let all = |number: usize| held_until(&store, &format!("e{number}")) == Some(now(&clock) + TERM);
            until(|| (0..200).all(all)).unwrap();
            assert_eq!(store.extensions(), vec![200; thirds]);
        }
        end.store(true, Ordering::SeqCst);
        let report = tick.join().unwrap();
        assert!(!report.is_failure(), "{report}");
        until(|| keepers() == 0).expect("the thread ends when there is nothing to renew");
        clock.advance(10 * TERM);
        assert_eq!(store.extensions(), [200; 7], "nothing is asked for after the last lease");
    }

    /// How many threads of this process keep leases.
    fn keepers() -> usize {
        let threads = std::fs::read_dir("/proc/self/task").expect("Linux shows a process its threads");
        // One may end while it is looked at.
        let names = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        names.filter(|name| name.trim() == "soloist-keeper").count()
    }

    #[test]
    fn a_term_is_the_events_own_or_the_schedules_or_a_minute() {
        let (clock, terms) = (ManualClock::at(noon()), Arc::new(Mutex::new(Vec::new())));
        let event = |name: &str| {
            let terms = Arc::clone(&terms);
            let note = move |run: &Run| {
                let term = run.lease().expect("it is protected").term().get().as_secs();
                terms.lock().unwrap().push((run.name().to_owned(), term));
            };
            Event::call(name, note).every_minute().without_overlapping()
        };
        let mut schedule = Schedule::new(in_memory(&clock)).with_clock(&clock);
        schedule.add(event("a minute")).unwrap();
        let mut schedule = schedule.with_lease_term(Term::new(Duration::from_secs(45)).unwrap());
        schedule.add(event("the schedule's")).unwrap();
        schedule.add(event("its own").lease_term(Duration::from_secs(30))).unwrap();
        schedule.add(event("fixed").without_overlapping_for(Duration::from_secs(15))).unwrap();
        assert!(!schedule.run_due(noon()).is_failure());
        let expected = [("a minute", 60), ("the schedule's", 45), ("its own", 30), ("fixed", 15)];
        assert_eq!(*terms.lock().unwrap(), expected.map(|(name, term)| (name.to_owned(), term)));
    }

    #[test]
    fn a_fixed_term_is_not_renewed_beside_one_that_is() {
        let clock = ManualClock::at(noon());
        let counted = Counted::with_clock(&clock);
        let store: Store = Arc::new(counted.clone());
        let (seen, moved) = (Arc::clone(&store), clock.clone());
        let renewed = move |_: &Run| let_it_be_renewed(&*seen, &moved, "renewed");
        let renewed = Event::call("renewed", renewed).every_minute().without_overlapping();
        let beside = schedule(&store, &clock, [renewed]);
        let (seen, moved) = (Arc::clone(&store), clock.clone());
        let fixed = move |_: &Run| {
            let report = beside.run_due(noon());
            assert!(!report.is_failure(), "{report}");
            assert_eq!(held_until(&*seen, "e"), Some(noon() + TERM));
            moved.advance(2 * THIRD);
            Ok(())
        };
        let report = tick(&store, &clock, |event| event.without_overlapping_for(TERM), fixed);
        let said = "succeeded in 1 min 0 s, but the lease was lost at 2026-03-01T12:01:00Z";
        assert_eq!(ran(&report, "e").to_string(), said);
        assert_eq!(counted.extensions(), [1], "the other one");
    }
}

mod loss {
    use super::*;

    #[test]
    fn a_process_that_was_stopped_past_its_term_knows_before_anything_else_that_its_lease_is_lost() {
        in_memory_and_on_file(|clock, store| {
            let (entered, wait_for_entry) = mpsc::channel();
            let (go_on, wait_to_go_on) = mpsc::channel::<()>();
            let wait_to_go_on = Mutex::new(wait_to_go_on);
            let second = move |run: &Run| -> TaskOutcome {
                entered.send(run.clone())?;
                wait_to_go_on.lock().unwrap().recv_timeout(PATIENCE)?;
                Ok(run.check()?)
            };
            let second = schedule(store, clock, [Event::call("e", second).every_minute().without_overlapping()]);
            let second = Mutex::new(Some(second));
            let (beside, taken) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
            let first = {
                let (seen, moved, beside, taken) =
                    (Arc::clone(store), clock.clone(), Arc::clone(&beside), Arc::clone(&taken));
                let wait_for_entry = Mutex::new(wait_for_entry);
                move |run: &Run| -> TaskOutcome {
                    // Everything stands still for longer than the term.
                    moved.advance(90 * SECOND);
                    assert_eq!(run.cancel_reason(), Some(CancelReason::LeaseLost));
                    assert!(run.is_cancelled() && run.remaining() == Some(Duration::ZERO));
                    let second = second.lock().unwrap().take().expect("it is called once");
                    let tick = now(&moved);
                    *beside.lock().unwrap() = Some(thread::spawn(move || second.run_due(tick)));
                    let other = wait_for_entry.lock().unwrap().recv_timeout(PATIENCE)?;
                    assert!(other.fencing_token() > run.fencing_token(), "tokens rise");
                    *taken.lock().unwrap() = Some((other.lease().expect("protected").owner(), holder(&*seen, "e")));
                    // A renewal for the first one would move the end by this.
                    moved.advance(5 * SECOND);
                    Ok(())
                }
            };
            let report = tick(store, clock, Event::without_overlapping, first);
            assert_eq!(
                entry(&report, "e").to_string(),
                "e  2026-03-01 12:00 UTC  succeeded in 1 min 35 s, but the lease was lost at 2026-03-01 12:01 UTC"
            );
            let outcome = ran(&report, "e");
            assert_eq!(outcome.lease_lost_at(), Some(at("2026-03-01T12:01:00Z")), "its deadline");
            assert!(outcome.is_success() && outcome.is_failure() && report.is_failure());
            assert!(matches!(outcome.release(), Some(Release::Lost)));

            let (owner, before) = taken.lock().unwrap().take().expect("the first one noted it");
            let after = holder(&**store, "e");
            assert_eq!((after.owner(), after.until()), (owner, before.until()), "the new holder is left alone");
            go_on.send(()).unwrap();
            let beside = beside.lock().unwrap().take().expect("it was started").join().unwrap();
            assert!(!beside.is_failure(), "{beside}");
        });
    }

    #[test]
    fn a_broken_lease_is_told_at_the_next_renewal() {
        in_memory_and_on_file(|clock, store| {
            let (seen, moved) = (Arc::clone(store), clock.clone());
            let task = move |run: &Run| {
                assert!(seen.break_lease(&lease("e")).unwrap());
                assert!(!run.is_cancelled(), "nobody knows yet");
                moved.advance(THIRD);
                // The clock stands still: only the word of the store ends this.
                assert_eq!(cancelled(run, HOUR), Some(CancelReason::LeaseLost));
                assert!(run.is_cancelled());
                Ok(())
            };
            let report = tick(store, clock, Event::without_overlapping, task);
            let said = "succeeded in 20.0 s, but the lease was lost at 2026-03-01T12:00:20Z";
            assert_eq!(ran(&report, "e").to_string(), said);
            assert!(report.is_failure(), "the process fails");
        });
    }

    #[test]
    fn a_run_past_its_deadline_has_lost_its_lease_also_where_the_clock_of_the_store_is_behind() {
        let (clock, the_stores) = (ManualClock::at(noon()), ManualClock::at(noon()));
        let hook = |_: &Run, outcome: &soloist::RunOutcome| {
            assert!(outcome.is_success() && outcome.is_failure(), "hooks are told, too");
            assert_eq!(outcome.lease_lost_at(), Some(at("2026-03-01T12:01:00Z")));
        };
        let event = |event: Event| event.without_overlapping_for(TERM).then(hook);
        let report = tick(&in_memory(&the_stores), &clock, event, takes(&clock, TERM));
        let outcome = ran(&report, "e");
        assert_eq!(outcome.to_string(), "succeeded in 1 min 0 s, but the lease was lost at 2026-03-01T12:01:00Z");
        assert!(matches!(outcome.release(), Some(Release::Released)) && outcome.is_failure());
    }

    #[test]
    fn whoever_waits_is_woken_when_the_term_of_its_lease_is_over() {
        let clock = ManualClock::at(noon());
        let moved = clock.clone();
        let task = move |run: &Run| {
            let _runs = let_it_run(&moved);
            assert_eq!(cancelled(run, 10 * TERM), Some(CancelReason::LeaseLost));
            assert_eq!(cancelled(run, 10 * TERM), Some(CancelReason::LeaseLost), "what is lost is lost");
            Ok(())
        };
        let report = tick(&in_memory(&clock), &clock, |event| event.without_overlapping_for(5 * SECOND), task);
        assert_eq!(ran(&report, "e").lease_lost_at(), Some(at("2026-03-01T12:00:05Z")));
        assert!(ran(&report, "e").took() < 10 * TERM);
    }

    #[test]
    fn whoever_waits_for_a_loss_that_does_not_come_goes_on_when_the_time_is_over() {
        let clock = ManualClock::at(noon());
        for event in [|event: Event| event, |event: Event| event.without_overlapping_for(HOUR)] {
            let moved = clock.clone();
            let task = move |run: &Run| {
                let (_runs, before) = (let_it_run(&moved), now(&moved));
                assert_eq!(cancelled(run, 5 * SECOND), None);
                assert!(now(&moved) >= before + 5 * SECOND);
                Ok(())
            };
            let report = tick(&in_memory(&clock), &clock, event, task);
            assert!(!report.is_failure(), "{report}");
        }
    }

    #[test]
    fn a_task_that_checks_fails_with_the_reason() {
        let clock = ManualClock::at(noon());
        let moved = clock.clone();
        let task = move |run: &Run| {
            run.check()?;
            moved.advance(TERM);
            run.check()?;
            panic!("it may not go on")
        };
        let report = tick(&in_memory(&clock), &clock, Event::without_overlapping, task);
        assert_eq!(
            entry(&report, "e").to_string(),
            "e  2026-03-01 12:00 UTC  failed after 1 min 0 s: the run was cancelled, because its lease was lost; \
             the lease was lost at 2026-03-01 12:01 UTC"
        );
    }

    #[test]
    fn what_remains_ends_with_the_lease_or_the_timeout_whichever_is_first() {
        let clock = ManualClock::at(noon());
        let remaining = |event: Way| {
            let (moved, seen) = (clock.clone(), Arc::new(Mutex::new(Vec::new())));
            let noted = Arc::clone(&seen);
            let task = move |run: &Run| {
                for _ in 0..3 {
                    noted.lock().unwrap().push(run.remaining());
                    moved.advance(10 * SECOND);
                }
                Ok(())
            };
            let _ = tick(&in_memory(&clock), &clock, event, task);
            let seconds = |left: &Option<Duration>| left.map(|left| left.as_secs());
            seen.lock().unwrap().iter().map(seconds).collect::<Vec<_>>()
        };
        assert_eq!(remaining(|event| event), [None; 3]);
        assert_eq!(remaining(|event| event.without_overlapping_for(15 * SECOND)), [Some(15), Some(5), Some(0)]);
        assert_eq!(remaining(|event| event.timeout(15 * SECOND)), [Some(15), Some(5), Some(0)]);
        let both = |event: Event| event.without_overlapping_for(25 * SECOND).timeout(35 * SECOND);
        assert_eq!(remaining(both), [Some(25), Some(15), Some(5)]);
        let both = |event: Event| event.without_overlapping_for(35 * SECOND).timeout(25 * SECOND);
        assert_eq!(remaining(both), [Some(25), Some(15), Some(5)]);
    }

    #[test]
    fn a_store_of_a_fleet_that_forgot_admits_no_second_run_beside_one_of_this_process() {
        for place in [|event: Event| event, Event::in_background] {
            let clock = ManualClock::at(noon());
            let (inner, grants) = (MemoryMutex::with_clock(&clock), Arc::new(AtomicUsize::new(0)));
            let counted = Arc::clone(&grants);
            let count = move |inner: &MemoryMutex, admissions: &[Admission]| {
                let answers = inner.admit(admissions);
                let granted = answers.iter().filter(|answer| matches!(answer, Ok(Admitted::Granted(_)))).count();
                counted.fetch_add(granted, Ordering::SeqCst);
                answers
            };
            let store: Store = Arc::new(Odd::new(&inner, Scope::Fleet, count));
            let protect = move |event: Event| event.every_minute().without_overlapping().on_one_server().apply(place);
            // One more makes several that are gated together.
            let events = ["e", "f"].map(|name| Event::call(name, |_| {}).apply(protect));
            let beside = schedule(&store, &clock, events);
            let (seen, tick_at) = (inner.clone(), at("2026-03-01T12:01:00Z"));
            let task = move |run: &Run| -> TaskOutcome {
                assert!(seen.break_lease(&lease("e")).unwrap(), "the server has lost its memory");
                let report = beside.run_due(tick_at);
                let SkipReason::Overlapping(Some(holder)) = skipped(&report, "e") else { panic!("{report}") };
                assert_eq!(Some(holder.owner()), run.lease().map(Lease::owner), "it is this run");
                assert_eq!((Some(holder.token()), holder.pid()), (run.fencing_token(), std::process::id()));
                assert!(ran(&report, "f").is_success() && !report.is_failure());
                assert!(!seen.exists(&lease("e")).unwrap(), "the lease was given back");
                assert!(!seen.exists(&lease("e").claim("e", tick_at)).unwrap(), "and the occurrence");
                Ok(())
            };
            let report = tick(&store, &clock, protect, task);
            assert_eq!(grants.load(Ordering::SeqCst), 3, "the store itself would have let it in");
            let said = "succeeded in 0 µs, but the lease was lost while the task was at work";
            assert_eq!(ran(&report, "e").to_string(), said);
        }
    }

    #[test]
    fn a_grant_whose_term_was_over_before_it_came_is_given_back_and_not_used() {
        for place in [|event: Event| event, Event::in_background] {
            for outage in [Outage::Skip, Outage::RunUnprotected] {
                let clock = ManualClock::at(noon());
                let (inner, moved) = (MemoryMutex::with_clock(&clock), clock.clone());
                // The way to the store takes longer than the term; there, it is as good as new.
                let slow = move |inner: &MemoryMutex, admissions: &[Admission]| {
                    moved.advance(TERM);
                    inner.admit(admissions)
                };
                let store: Store = Arc::new(Odd::new(&inner, Scope::Fleet, slow));
                let diary = Diary::default();
                let event = |name: &str| {
                    let event = Event::call(name, diary.task(name)).every_minute().on_one_server();
                    event.without_overlapping().on_outage(outage).apply(place)
                };
                let report = schedule(&store, &clock, ["e", "f"].map(event)).run_due(noon());
                let why = "could not admit lease/e: its term was over before the answer came; choose one that is longer \
                           than the store's time-out";
                if outage == Outage::Skip {
                    assert_eq!(skipped(&report, "e").to_string(), format!("the store did not answer: {why}"));
                    assert_eq!(diary.lines(), [""; 0]);
                } else {
                    let outcome = ran(&report, "e");
                    assert!(outcome.to_string().ends_with(why), "{outcome}");
                    assert!(outcome.fencing_token().is_none() && outcome.release().is_none());
                }
                assert!(report.is_failure());
                for name in ["e", "f"] {
                    assert!(!inner.exists(&lease(name)).unwrap(), "the lease was given back");
                    assert!(!inner.exists(&lease(name).claim(name, noon())).unwrap(), "and the occurrence");
                }
            }
        }
    }
}

mod timeout {
    use super::*;

    fn half_a_minute(event: Event) -> Event {
        event.without_overlapping().timeout(30 * SECOND)
    }

    #[test]
    fn a_task_that_stops_when_it_is_told_to_has_timed_out() {
        let clock = ManualClock::at(noon());
        let (diary, moved) = (Diary::default(), clock.clone());
        let task = move |run: &Run| {
            moved.advance(29 * SECOND);
            assert!(!run.is_cancelled());
            moved.advance(SECOND);
            assert_eq!(run.cancel_reason(), Some(CancelReason::TimedOut));
            Ok(())
        };
        let hooks = |event: Event| event.on_failure(diary.hook("failed")).on_success(diary.hook("succeeded"));
        let report = tick(&in_memory(&clock), &clock, |event| hooks(half_a_minute(event)), task);
        let outcome = ran(&report, "e");
        assert_eq!(outcome.to_string(), "timed out after 30.0 s");
        assert!(
            matches!(outcome.ended(), Ended::TimedOut { limit, fault: None, .. } if *limit == 30 * SECOND),
            "{outcome:?}"
        );
        assert!(!outcome.is_success() && report.is_failure());
        assert!(outcome.lease_lost_at().is_none() && matches!(outcome.release(), Some(Release::Released)));
        assert_eq!(diary.lines(), ["failed"]);
    }

    #[test]
    fn whoever_waits_is_woken_when_its_time_is_over() {
        let clock = ManualClock::at(noon());
        let moved = clock.clone();
        let task = move |run: &Run| {
            let _runs = let_it_run(&moved);
            assert_eq!(cancelled(run, 10 * TERM), Some(CancelReason::TimedOut));
            run.check()?;
            panic!("it may not go on")
        };
        let report = tick(&in_memory(&clock), &clock, |event| event.timeout(5 * SECOND), task);
        let outcome = ran(&report, "e");
        let cancelled = "; failed: the run was cancelled, because it took longer than its timeout";
        let text = outcome.to_string();
        assert!(text.starts_with("timed out after 5.0 s") && text.ends_with(cancelled), "{text}");
        assert!(matches!(outcome.ended(), Ended::TimedOut { fault: Some(Fault::Failed(_)), .. }), "{outcome:?}");
    }

    #[test]
    fn a_task_that_does_not_stop_is_waited_for_under_its_lease() {
        in_memory_and_on_file(|clock, store| {
            let (seen, moved) = (Arc::clone(store), clock.clone());
            let task = move |run: &Run| {
                for _ in 0..5 {
                    let_it_be_renewed(&*seen, &moved, "e")?;
                }
                assert_eq!(run.cancel_reason(), Some(CancelReason::TimedOut));
                Err("no paper".into())
            };
            let seen = Arc::clone(store);
            let hook = move |_: &Run, _: &soloist::RunOutcome| match seen.exists(&lease("e")) {
                Ok(true) => Ok(()),
                other => Err(format!("while the hook ran, exists answered {other:?}")),
            };
            let report = tick(store, clock, |event| half_a_minute(event).on_failure(hook), task);
            let outcome = ran(&report, "e");
            let said = "timed out after 30.0 s, and did not stop for 1 min 10 s more; failed: no paper";
            assert_eq!(outcome.to_string(), said);
            assert_eq!(outcome.took(), 100 * SECOND);
            assert!(outcome.hook_failures().is_empty() && outcome.lease_lost_at().is_none());
            assert!(matches!(outcome.release(), Some(Release::Released)));
        });
    }

    #[test]
    fn a_task_that_ends_in_time_is_no_failure() {
        let clock = ManualClock::at(noon());
        let report = tick(&in_memory(&clock), &clock, half_a_minute, takes(&clock, Duration::from_millis(29_999)));
        assert_eq!(ran(&report, "e").to_string(), "succeeded in 29.9 s");
        assert!(!report.is_failure());
        // Its hooks may take as long as they like.
        let slow = {
            let clock = clock.clone();
            move |_: &Run| clock.advance(HOUR)
        };
        let event = |event: Event| event.timeout(30 * SECOND).before(slow);
        let report = tick(&in_memory(&clock), &clock, event, takes(&clock, SECOND));
        assert!(!report.is_failure(), "{report}");
    }

    #[test]
    fn the_first_reason_to_stop_is_the_one_that_is_told() {
        let clock = ManualClock::at(noon());
        for (term, limit, expected) in
            [(20, 30, CancelReason::LeaseLost), (30, 20, CancelReason::TimedOut), (30, 30, CancelReason::LeaseLost)]
        {
            let moved = clock.clone();
            let task = move |run: &Run| {
                moved.advance(HOUR);
                assert_eq!(run.cancel_reason(), Some(expected), "{term} {limit}");
                Ok(())
            };
            let event = |event: Event| event.without_overlapping_for(term * SECOND).timeout(limit * SECOND);
            let report = tick(&in_memory(&clock), &clock, event, task);
            assert!(matches!(ran(&report, "e").ended(), Ended::TimedOut { fault: None, .. }), "{report}");
        }
    }
}

mod holding {
    use super::*;

    fn five_seconds(event: Event) -> Event {
        event.hold_at_least(5 * SECOND)
    }

    /// The ways to ask for a lease that is held longer than its task: renewed, or for a term that is shorter or longer.
    const WAYS: [Way; 3] = [
        |event| event.without_overlapping(),
        |event| event.without_overlapping_for(2 * SECOND),
        |event| event.without_overlapping_for(HOUR),
    ];

    #[test]
    fn the_lease_of_a_shorter_task_stays_for_the_rest() {
        in_memory_and_on_file(|clock, store| {
            for way in WAYS {
                let began = now(clock);
                let report = tick(store, clock, |event| five_seconds(way(event)), takes(clock, SECOND));
                let outcome = ran(&report, "e");
                assert_eq!(outcome.to_string(), "succeeded in 1.0 s; the lease is held for 4.0 s more");
                assert!(matches!(outcome.release(), Some(Release::HeldFor(rest)) if rest.get() == 4 * SECOND));
                assert!(!report.is_failure());
                assert_eq!(held_until(&**store, "e"), Some(began + 5 * SECOND));
                let report = tick(store, clock, way, takes(clock, SECOND));
                assert!(matches!(skipped(&report, "e"), SkipReason::Overlapping(Some(_))), "{report}");
                clock.advance(4 * SECOND);
                assert_eq!(held_until(&**store, "e"), None);
            }
        });
    }

    #[test]
    fn the_lease_of_a_longer_task_is_given_back_at_once() {
        in_memory_and_on_file(|clock, store| {
            for way in [WAYS[0], WAYS[2]] {
                let report = tick(store, clock, |event| five_seconds(way(event)), takes(clock, 5 * SECOND));
                assert_eq!(ran(&report, "e").to_string(), "succeeded in 5.0 s");
                assert!(matches!(ran(&report, "e").release(), Some(Release::Released)));
                assert_eq!(held_until(&**store, "e"), None);
            }
        });
    }

    #[test]
    fn a_task_that_failed_is_held_as_long() {
        in_memory_and_on_file(|clock, store| {
            let tasks: [(Work, &str); 2] = [
                (|_| Err("no paper".into()), "failed after 0 µs: no paper; the lease is held for 5.0 s more"),
                (|_| panic!("no ink"), "panicked after 0 µs: no ink; the lease is held for 5.0 s more"),
            ];
            for (task, said) in tasks {
                let report = tick(store, clock, |event| five_seconds(event.without_overlapping()), task);
                assert_eq!(ran(&report, "e").to_string(), said);
                assert_eq!(held_until(&**store, "e"), Some(now(clock) + 5 * SECOND));
                clock.advance(5 * SECOND);
            }
        });
    }

    #[test]
    fn a_lease_that_was_lost_is_not_held_any_longer() {
        let clock = ManualClock::at(noon());
        let store = in_memory(&clock);
        let event = |event: Event| event.without_overlapping_for(2 * SECOND).hold_at_least(TERM);
        let report = tick(&store, &clock, event, takes(&clock, 3 * SECOND));
        let said = "succeeded in 3.0 s, but the lease was lost at 2026-03-01T12:00:02Z";
        assert_eq!(ran(&report, "e").to_string(), said);
        assert_eq!(held_until(&*store, "e"), None);
    }

    #[test]
    fn of_those_that_end_together_each_is_held_as_long_as_it_asked_for() {
        let clock = ManualClock::at(noon());
        let counted = Counted::with_clock(&clock);
        let store: Store = Arc::new(counted.clone());
        let at_work = Arc::new(AtomicUsize::new(0));
        let event = |number: u32| {
            let at_work = Arc::clone(&at_work);
            let task = move |_: &Run| {
                at_work.fetch_add(1, Ordering::SeqCst);
                until(|| at_work.load(Ordering::SeqCst) == 8)
            };
            let event = Event::call(format!("e{number}"), task).every_minute().without_overlapping().in_background();
            if number.is_multiple_of(2) { event.hold_at_least((number + 1) * SECOND) } else { event }
        };
        let report = schedule(&store, &clock, (0..8).map(event)).run_due(noon());
        assert!(!report.is_failure(), "{report}");
        for number in 0..8_u32 {
            let (name, rest) = (format!("e{number}"), (number + 1) * SECOND);
            let release = ran(&report, &name).release();
            if number.is_multiple_of(2) {
                assert!(matches!(release, Some(Release::HeldFor(held)) if held.get() == rest), "{name}: {release:?}");
                assert_eq!(held_until(&*store, &name), Some(noon() + rest));
            } else {
                assert!(matches!(release, Some(Release::Released)), "{name}: {release:?}");
                assert_eq!(held_until(&*store, &name), None);
            }
        }
        assert_eq!(counted.releases().iter().sum::<usize>(), 4, "what is held longer is not given back");
        assert_eq!(counted.extensions().iter().sum::<usize>(), 4);
    }

    #[test]
    fn on_a_fleets_store_the_next_event_gives_nothing_back_that_is_to_be_held() {
        let clock = ManualClock::at(noon());
        let counted = Counted::with_clock(&clock);
        let store: Store = Arc::new(counted.clone());
        let first = Event::call("first", |_| {}).every_minute().without_overlapping().apply(five_seconds);
        let seen = Arc::clone(&store);
        let look = move |_: &Run| {
            assert_eq!(held_until(&*seen, "first"), Some(noon() + 5 * SECOND));
        };
        let second = Event::call("second", look).every_minute().without_overlapping();
        let third = Event::call("third", |_| {}).every_minute().without_overlapping();
        let report = schedule(&store, &clock, [first, second, third]).run_due(noon());
        assert!(!report.is_failure(), "{report}");
        assert!(matches!(ran(&report, "first").release(), Some(Release::HeldFor(_))));
        for event in ["second", "third"] {
            assert!(matches!(ran(&report, event).release(), Some(Release::Released)));
        }
        assert_eq!(held_until(&*store, "first"), Some(noon() + 5 * SECOND));
        assert_eq!((counted.releases().iter().sum::<usize>(), counted.extensions()), (2, vec![1]));
    }

    #[test]
    fn a_task_that_is_shorter_than_two_clocks_are_apart_runs_once_if_it_is_held_longer() {
        let ways: [(Way, usize); 2] =
            [(|event| event.without_overlapping(), 2), (|event| five_seconds(event.without_overlapping()), 1)];
        in_memory_and_on_file(|clock, store| {
            for (way, expected) in ways {
                let runs = Arc::new(AtomicUsize::new(0));
                let server = || {
                    let (runs, clock) = (Arc::clone(&runs), clock.clone());
                    let task = move |_: &Run| {
                        runs.fetch_add(1, Ordering::SeqCst);
                        clock.advance(Duration::from_millis(1));
                    };
                    Event::call("e", task).every_minute().apply(way)
                };
                let servers = [schedule(store, clock, [server()]), schedule(store, clock, [server()])];
                assert!(!servers[0].run_due(noon()).is_failure());
                // The other one's clock is behind by so much: there it is noon only now.
                clock.advance(2 * SECOND);
                assert!(!servers[1].run_due(noon()).is_failure());
                assert_eq!(runs.load(Ordering::SeqCst), expected);
                clock.advance(TERM);
            }
        });
    }
}

mod outage {
    use super::*;

    /// What a store answers instead of a decision.
    type Answer = fn(&Admission) -> MutexError;

    /// A store that never decides, and how often it was asked to.
    fn out(answer: Answer) -> (Store, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let admit = move |_: &MemoryMutex, admissions: &[Admission]| {
            counted.fetch_add(1, Ordering::SeqCst);
            admissions.iter().map(|admission| Err(answer(admission))).collect()
        };
        (Arc::new(Odd::new(&MemoryMutex::new(), Scope::Unknown, admit)), asked)
    }

    fn attempted(admission: &Admission) -> String {
        format!("admit {}", admission.lease().expect("it asks for a lease").name())
    }

    fn silent(admission: &Admission) -> MutexError {
        MutexError::unavailable(attempted(admission), "timed out")
    }

    fn unprotected(event: Event) -> Event {
        event.without_overlapping().on_outage(Outage::RunUnprotected)
    }

    #[test]
    fn an_event_does_not_run_while_its_store_is_out_unless_it_says_so() {
        for place in [|event: Event| event, Event::in_background] {
            let ((store, asked), clock, diary) = (out(silent), ManualClock::at(noon()), Diary::default());
            let event = |name: &str| Event::call(name, diary.task(name)).every_minute().apply(place);
            let events = [
                event("default").without_overlapping(),
                event("runs").apply(unprotected),
                event("skips").without_overlapping().on_outage(Outage::Skip),
                event("also runs").apply(unprotected),
            ];
            let report = schedule(&store, &clock, events).run_due(noon());
            let mut lines = diary.lines();
            lines.sort();
            assert_eq!(lines, ["also runs", "runs"]);
            for name in ["default", "skips"] {
                assert!(matches!(skipped(&report, name), SkipReason::StoreUnavailable(_)), "{report}");
            }
            for name in ["runs", "also runs"] {
                let outcome = ran(&report, name);
                assert!(outcome.unprotected().is_some_and(MutexError::is_unavailable));
                assert!(outcome.is_success() && outcome.is_failure());
                assert!(outcome.fencing_token().is_none() && outcome.release().is_none());
                let text = outcome.to_string();
                let mark = "succeeded in 0 µs, but unprotected, because the store did not answer: could not admit ";
                assert!(text.starts_with(mark) && text.ends_with(": timed out"), "{text}");
            }
            assert_eq!(report.failures().count(), 4, "somebody has to learn of the outage");
            assert_eq!(asked.load(Ordering::SeqCst), 1, "the tick waits for it once");
        }
    }

    #[test]
    fn a_store_that_panics_or_keeps_nonsense_gives_no_decision_either() {
        let answers: [(Answer, &str); 3] = [
            (silent, "could not admit lease/e: timed out"),
            (
                |admission| MutexError::unusable(attempted(admission), "it is a list"),
                "could not admit lease/e: it is a list",
            ),
            (|_| panic!("index out of bounds"), "could not admit lease/e: the store panicked: index out of bounds"),
        ];
        for (answer, why) in answers {
            let (clock, (store, _)) = (ManualClock::at(noon()), out(answer));
            let task = |run: &Run| {
                assert!(run.lease().is_none() && run.fencing_token().is_none() && run.remaining().is_none());
                Ok(())
            };
            let report = tick(&store, &clock, unprotected, task);
            let said = format!("succeeded in 0 µs, but unprotected, because the store did not answer: {why}");
            assert_eq!(ran(&report, "e").to_string(), said);
            assert!(report.is_failure());
        }
    }

    #[test]
    fn a_fleets_store_that_goes_out_between_two_events_lets_the_next_one_choose_too() {
        let clock = ManualClock::at(noon());
        let (inner, counted) = (MemoryMutex::with_clock(&clock), AtomicUsize::new(0));
        let only_the_first = move |inner: &MemoryMutex, admissions: &[Admission]| {
            if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                return inner.admit(admissions);
            }
            admissions.iter().map(|admission| Err(silent(admission))).collect()
        };
        let store: Store = Arc::new(Odd::new(&inner, Scope::Fleet, only_the_first));
        let events = ["first", "next"].map(|name| Event::call(name, |_| {}).every_minute().apply(unprotected));
        let report = schedule(&store, &clock, events).run_due(noon());
        assert!(matches!(ran(&report, "first").release(), Some(Release::Released)), "{report}");
        assert!(ran(&report, "first").unprotected().is_none() && ran(&report, "next").unprotected().is_some());
        assert_eq!(report.failures().count(), 1);
    }

    #[test]
    fn a_refusal_is_a_decision() {
        let clock = ManualClock::at(noon());
        let store = in_memory(&clock);
        let request = LeaseRequest::new(lease("e"), Term::MAX, &Clock::from(&clock));
        store.create(&request).unwrap().expect("nobody holds it");
        let report = tick(&store, &clock, unprotected, |_| Err("it may not run".into()));
        assert!(matches!(skipped(&report, "e"), SkipReason::Overlapping(Some(_))), "{report}");
    }

    #[test]
    fn a_store_that_answers_protects_whatever_the_event_says_about_outages() {
        let clock = ManualClock::at(noon());
        let task = |run: &Run| {
            assert!(run.lease().is_some());
            Ok(())
        };
        let report = tick(&in_memory(&clock), &clock, unprotected, task);
        assert!(!report.is_failure() && ran(&report, "e").unprotected().is_none(), "{report}");
    }
}

mod guard {
    use super::*;

    fn millis(count: u64) -> Term {
        Term::new(Duration::from_millis(count)).unwrap()
    }

    #[track_caller]
    fn acquired(store: &MemoryMutex, term: Term) -> LeaseGuard {
        LeaseGuard::acquire(store, lease("g"), term).unwrap().expect("nobody holds it")
    }

    #[test]
    fn a_guard_is_renewed_for_as_long_as_it_is_there() {
        let store = MemoryMutex::new();
        let held_for_three_terms = || {
            let guard = acquired(&store, millis(300));
            let end = guard.lease().deadline().plus(2 * guard.lease().term().get());
            while Clock::system().moment() < end {
                let second = LeaseGuard::acquire(&store, lease("g"), millis(300)).unwrap();
                if guard.is_lost() {
                    return None;
                }
                assert!(second.is_none(), "one at a time");
                // It is a real lease, on the clock of the machine.
                assert!(!guard.lost(Duration::from_millis(10)) || guard.is_lost());
            }
            Some(guard.release().unwrap())
        };
        // A machine that stands still for two thirds of a term proves nothing.
        let released = (0..10).find_map(|_| held_for_three_terms());
        assert_eq!(released, Some(true));
        assert!(!store.exists(&lease("g")).unwrap());
    }

    #[test]
    fn a_guard_whose_lease_was_broken_knows_within_a_term() {
        let store = MemoryMutex::new();
        let guard = acquired(&store, millis(1_500));
        assert!(store.break_lease(&lease("g")).unwrap());
        assert!(!guard.is_lost(), "nobody knows yet");
        assert!(guard.lost(PATIENCE));
        assert!(Clock::system().moment() < guard.lease().deadline(), "it is told before its term is over");
        assert!(guard.is_lost() && !guard.release().unwrap());
    }

    #[test]
    fn a_guard_knows_at_once_that_another_one_of_its_process_was_granted_its_name() {
        let store = MemoryMutex::new();
        let guard = acquired(&store, Term::MAX);
        assert!(store.break_lease(&lease("g")).unwrap());
        let other = acquired(&store, Term::MAX);
        assert!(guard.is_lost() && !other.is_lost());
        assert!(guard.lost(PATIENCE), "also whoever waits for it");
        assert!(!guard.release().unwrap(), "it was not ours any more");
        assert!(other.release().unwrap(), "the new holder was left alone");
    }

    #[test]
    fn a_guard_that_is_not_lost_waits_for_as_long_as_it_is_told() {
        let guard = acquired(&MemoryMutex::new(), Term::MAX);
        let before = Clock::system().moment();
        assert!(!guard.lost(Duration::from_millis(20)));
        assert!(Clock::system().moment().since(before) >= Duration::from_millis(20));
    }

    #[test]
    fn a_fixed_guard_ends_with_its_term() {
        let store = MemoryMutex::new();
        let guard = LeaseGuard::acquire_for(&store, lease("g"), millis(50)).unwrap().expect("nobody holds it");
        assert!(guard.lost(PATIENCE) && guard.is_lost());
        let next = acquired(&store, Term::MAX);
        assert!(!guard.release().unwrap());
        assert!(next.release().unwrap());
    }

    #[test]
    fn a_store_that_can_not_extend_has_fixed_guards_only() {
        let store = Arc::new(Plain(MemoryMutex::new()));
        let error = LeaseGuard::acquire(&store, lease("g"), Term::MAX).unwrap_err();
        let advice = "this store can't extend a lease, and so renew it: use `acquire_for`";
        assert_eq!((error.is_unsupported(), format!("{error:?}")), (true, advice.to_owned()));
        let guard = LeaseGuard::acquire_for(&store, lease("g"), Term::MAX).unwrap().expect("nobody holds it");
        assert!(LeaseGuard::acquire_for(&store, lease("g"), Term::MAX).unwrap().is_none());
        assert!(guard.release().unwrap());
    }

    #[test]
    fn a_term_that_would_be_renewed_all_the_time_is_refused() {
        let error = LeaseGuard::acquire(&MemoryMutex::new(), lease("g"), millis(99)).unwrap_err();
        let advice = "could not create lease/g: a renewed lease is 100ms or longer; use `acquire_for`";
        assert_eq!(format!("{error:?}"), advice);
        assert!(LeaseGuard::acquire(&MemoryMutex::new(), lease("g"), millis(100)).unwrap().is_some());
    }

    #[test]
    fn a_guard_whose_term_was_over_before_it_came_is_given_back() {
        let store = Arc::new(Plain(MemoryMutex::new()));
        // The store is slower than the term.
        let error = LeaseGuard::acquire_for(&store, lease("slow"), millis(1)).unwrap_err();
        let why = "could not create lease/slow: its term was over before the answer came; choose one that is longer than \
                   the store's time-out";
        assert_eq!(format!("{error:?}"), why);
        assert!(!store.exists(&lease("slow")).unwrap());
    }

    #[test]
    fn a_store_of_a_fleet_that_forgot_gives_no_second_guard_beside_one_of_this_process() {
        let inner = MemoryMutex::new();
        let admit = |inner: &MemoryMutex, admissions: &[Admission]| inner.admit(admissions);
        let store = Arc::new(Odd::new(&inner, Scope::Fleet, admit));
        let guard = LeaseGuard::acquire(&store, lease("g"), Term::MAX).unwrap().expect("nobody holds it");
        assert!(inner.break_lease(&lease("g")).unwrap(), "the server has lost its memory");
        assert!(LeaseGuard::acquire(&store, lease("g"), Term::MAX).unwrap().is_none());
        assert!(!inner.exists(&lease("g")).unwrap(), "what it granted was given back");
        drop(guard);
        assert!(LeaseGuard::acquire(&store, lease("g"), Term::MAX).unwrap().is_some());
    }
}

/// A store that decides in its own way, and is otherwise like one in memory. It is shared in an `Arc`.
struct Odd {
    inner: MemoryMutex,
    scope: Scope,
    admit: Box<Decide>,
}

type Decide = dyn Fn(&MemoryMutex, &[Admission]) -> Answers<Admitted> + Send + Sync;

impl Odd {
    fn new(
        inner: &MemoryMutex,
        scope: Scope,
        admit: impl Fn(&MemoryMutex, &[Admission]) -> Answers<Admitted> + Send + Sync + 'static,
    ) -> Self {
        Self { inner: inner.clone(), scope, admit: Box::new(admit) }
    }
}

impl fmt::Debug for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Odd")
    }
}

impl EventMutex for Odd {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.inner.create(request)
    }
    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.inner.exists(name)
    }
    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.inner.forget(lease)
    }
    fn scope(&self) -> Scope {
        self.scope
    }
    fn admit(&self, admissions: &[Admission]) -> Answers<Admitted> {
        (self.admit)(&self.inner, admissions)
    }
    fn can_extend(&self) -> bool {
        true
    }
    fn extend(&self, leases: &[Lease], term: Term) -> Answers<bool> {
        self.inner.extend(leases, term)
    }
    fn holder(&self, name: &MutexName) -> Result<Option<Holder>, MutexError> {
        self.inner.holder(name)
    }
}

/// Only the three methods that every store has; the way to what is called `slow` takes longer than a short term.
#[derive(Debug)]
struct Plain(MemoryMutex);

impl EventMutex for Plain {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        if request.name().mutex() == "slow" {
            thread::sleep(request.term().get()); // the clock is the machine's
            // It keeps it for longer than was asked for, so that it is seen to be given back.
            let lease = self.0.create(&request.with(request.name().clone(), Term::MAX))?;
            return Ok(lease.map(|lease| request.granted(lease.token())));
        }
        self.0.create(request)
    }
    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.0.exists(name)
    }
    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.0.forget(lease)
    }
}
