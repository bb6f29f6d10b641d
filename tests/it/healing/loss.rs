//! Lost leases, and the cancellation of their runs.

use super::*;
use crate::support::FIXED_TERM;

#[test]
fn a_process_that_was_stopped_past_its_term_knows_before_anything_else_that_its_lease_is_lost() {
    in_memory_and_on_file(|clock, store| {
        let (entered, wait_for_entry) = mpsc::channel();
        let (go_on, wait_to_go_on) = mpsc::channel::<()>();
        let wait_to_go_on = Mutex::new(wait_to_go_on);
        let second = move |run: &Run| -> TaskResult {
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
            move |run: &Run| -> TaskResult {
                // Everything stands still for longer than the term.
                moved.jump(90 * SECOND);
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
            "e  2026-03-01 12:00:00 UTC  succeeded in 1 min 35 s, but the lease was lost at 2026-03-01 12:01:00 UTC"
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
            assert!(seen.break_lease(&lease("e")).unwrap().is_some());
            assert!(!run.is_cancelled(), "nobody knows yet");
            moved.advance(THIRD);
            // The clock stands still: only the word of the store ends this.
            assert_eq!(cancelled(run, HOUR), Some(CancelReason::LeaseLost));
            assert!(run.is_cancelled());
            Ok(())
        };
        let report = tick(store, clock, Event::without_overlapping, task);
        let said = "succeeded in 20.0 s, but the lease was lost at 2026-03-01 12:00:20 UTC";
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
    assert_eq!(
        outcome.to_string(),
        format!("succeeded in 1 min 0 s, but the lease was lost at 2026-03-01 12:01:00 UTC{FIXED_TERM}")
    );
    assert!(matches!(outcome.release(), Some(Release::Released)) && outcome.is_failure());
}

#[test]
fn whoever_waits_is_woken_when_the_term_of_its_lease_is_over() {
    let clock = ManualClock::at(noon());
    let moved = clock.clone();
    let task = move |run: &Run| {
        let _runs = let_it_run(&moved);
        assert_eq!(cancelled(run, 10 * HOUR), Some(CancelReason::LeaseLost));
        assert_eq!(cancelled(run, 10 * HOUR), Some(CancelReason::LeaseLost), "what is lost is lost");
        Ok(())
    };
    let report = tick(&in_memory(&clock), &clock, |event| event.without_overlapping_for(5 * SECOND), task);
    assert_eq!(ran(&report, "e").lease_lost_at(), Some(at("2026-03-01T12:00:05Z")));
    assert!(ran(&report, "e").took() < 10 * HOUR);
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
        moved.jump(TERM);
        run.check()?;
        panic!("it may not go on")
    };
    let report = tick(&in_memory(&clock), &clock, Event::without_overlapping, task);
    assert_eq!(
        entry(&report, "e").to_string(),
        "e  2026-03-01 12:00:00 UTC  cancelled after 1 min 0 s; the lease was lost at 2026-03-01 12:01:00 UTC"
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
    let both = |event: Event| event.without_overlapping_for(25 * SECOND).timeout(25 * SECOND);
    assert_eq!(remaining(both), [Some(25), Some(15), Some(5)]);
    let both = |event: Event| event.without_overlapping_for(35 * SECOND).timeout(25 * SECOND);
    assert_eq!(remaining(both), [Some(25), Some(15), Some(5)]);
}

#[test]
fn a_store_that_forgot_admits_no_second_run_beside_one_of_this_process() {
    let places = [|event: Event| event, Event::in_background];
    for (place, scope) in
        places.into_iter().flat_map(|place| [Scope::Fleet, Scope::Process].map(|scope| (place, scope)))
    {
        let clock = ManualClock::at(noon());
        let (inner, grants) = (MemoryMutex::with_clock(&clock), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&grants);
        let count = move |inner: &dyn EventMutex, admissions: &mut Admissions| {
            forward(inner, &mut [], admissions);
            let granted = admissions.iter().filter(|slot| matches!(slot.answer(), Some(Ok(Admitted::Granted(_)))));
            counted.fetch_add(granted.count(), Ordering::SeqCst);
        };
        let store: Store = odd(&inner, scope, count);
        // A run that never started has no minimum hold.
        let protect = move |event: Event| {
            event.every_minute().without_overlapping().on_one_server().hold_at_least(SECOND).apply(place)
        };
        // A second event makes a batch.
        let events = ["e", "f"].map(|name| Event::call(name, |_| {}).apply(protect));
        let beside = schedule(&store, &clock, events);
        let (seen, tick_at) = (inner.clone(), at("2026-03-01T12:01:00Z"));
        let task = move |run: &Run| -> TaskResult {
            assert!(seen.break_lease(&lease("e")).unwrap().is_some(), "it is free for others");
            let report = beside.run_due(tick_at);
            let SkipReason::Overlapping(Some(holder)) = skipped(&report, "e") else { panic!("{report}") };
            assert_eq!(Some(holder.owner()), run.lease().map(Lease::owner), "it is this run");
            assert_eq!((Some(holder.token()), holder.pid()), (run.fencing_token(), std::process::id()));
            assert!(ran(&report, "f").is_success() && !report.is_failure());
            assert!(!seen.exists(&lease("e")).unwrap(), "the lease was given back");
            assert!(!seen.exists(&lease("e").claim("e", tick_at)).unwrap(), "and the occurrence");
            // The first run is cancelled by the second's loss, without waiting for its next renewal.
            assert_eq!(cancelled(run, PATIENCE), Some(CancelReason::LeaseLost));
            Ok(())
        };
        let report = tick(&store, &clock, protect, task);
        assert_eq!(grants.load(Ordering::SeqCst), 3, "the store itself would have let it in");
        let said = "succeeded in 0 µs, but the lease was lost at 2026-03-01 12:00:00 UTC";
        assert_eq!(ran(&report, "e").to_string(), said);
    }
}

#[test]
fn a_grant_whose_term_was_over_before_it_came_is_given_back_and_not_used() {
    for place in [|event: Event| event, Event::in_background] {
        for outage in [OutagePolicy::Skip, OutagePolicy::RunUnprotected] {
            let clock = ManualClock::at(noon());
            let (inner, moved) = (MemoryMutex::with_clock(&clock), clock.clone());
            // The way to the store takes longer than the term; there, it is as good as new.
            let slow = move |inner: &dyn EventMutex, admissions: &mut Admissions| {
                moved.advance(TERM);
                forward(inner, &mut [], admissions);
            };
            let store: Store = odd(&inner, Scope::Fleet, slow);
            let diary = Diary::default();
            let event = |name: &str| {
                let event = Event::call(name, diary.task(name)).every_minute().on_one_server();
                event.without_overlapping().on_outage(outage).apply(place)
            };
            let report = schedule(&store, &clock, ["e", "f"].map(event)).run_due(noon());
            let why = "could not admit lease/e: the store answered after the term of the lease was over; choose a term that is longer \
                       than the store's timeout";
            if outage == OutagePolicy::Skip {
                assert_eq!(skipped(&report, "e").to_string(), format!("the store could not be used: {why}"));
                assert_eq!(diary.lines(), [""; 0]);
            } else {
                let outcome = ran(&report, "e");
                assert!(outcome.to_string().ends_with(why), "{outcome}");
                assert!(outcome.fencing_token().is_none() && outcome.release().is_none());
            }
            assert!(report.is_failure());
            for name in ["e", "f"] {
                assert!(!inner.exists(&lease(name)).unwrap(), "the lease was given back");
                // A run without protection runs the occurrence for the whole fleet.
                let claimed = inner.exists(&lease(name).claim(name, noon())).unwrap();
                assert_eq!(claimed, outage == OutagePolicy::RunUnprotected, "the occurrence");
            }
        }
    }
}

#[test]
fn a_task_whose_lease_was_lost_before_it_is_not_started() {
    for term in [Event::without_overlapping, |event: Event| event.without_overlapping_for(TERM)] {
        let clock = ManualClock::at(noon());
        let (diary, moved) = (Diary::default(), clock.clone());
        let event = Event::call("e", diary.task("ran")).every_minute().apply(term);
        let event = event.before(move |_| moved.jump(TERM)).then(diary.hook("then"));
        let report = schedule(&in_memory(&clock), &clock, [event]).run_due(noon());
        assert_eq!(diary.lines(), ["then"]);
        let said = "not started; the lease was lost at 2026-03-01 12:01:00 UTC";
        assert!(ran(&report, "e").to_string().starts_with(said), "{report}");
        assert!(report.is_failure());
    }
}

#[test]
fn a_task_whose_lease_ends_while_observers_hear_of_its_admission_is_not_started() {
    // Without the renewal thread, which would find out, too.
    let this = "healing::loss::a_task_whose_lease_ends_while_observers_hear_of_its_admission_is_not_started";
    if run_alone(this, &[NO_THREADS]).is_some() {
        return;
    }
    for term in [Event::without_overlapping, |event: Event| event.without_overlapping_for(TERM)] {
        let clock = ManualClock::at(noon());
        let (store, diary, moved) = (in_memory(&clock), Diary::default(), clock.clone());
        let event = Event::call("e", diary.task("ran")).every_minute().apply(term).then(diary.hook("then"));
        let schedule = schedule(&store, &clock, [event]).observe(move |notice: &Notice<'_>| {
            if matches!(notice.step(), Step::Admitted { .. }) {
                moved.jump(TERM);
            }
        });
        let report = schedule.run_due(noon());
        assert_eq!(diary.lines(), ["then"], "{report}");
        let said = ran(&report, "e").to_string();
        assert!(said.starts_with("not started; the lease was lost at 2026-03-01 12:01:00 UTC"), "{said}");
    }
}

/// Stops a process between its grant and its task. The fleet under fire found this on file with the seed 103: the
/// occurrence was lost.
#[test]
fn the_occurrence_of_a_task_whose_lease_was_lost_before_it_is_another_servers() {
    let once = |event: Event| event.once_per(Period::Day);
    let in_background = |event: Event| event.on_one_server().in_background();
    let ways: [Way; 3] = [Event::on_one_server, in_background, once];
    for way in ways {
        let clock = ManualClock::at(noon());
        let (mutex, moved, diary) = (in_memory(&clock), clock.clone(), Diary::default());
        let event = |name: &str| Event::call("e", diary.task(name)).every_minute().without_overlapping().apply(way);
        let stopped = event("stopped").before(move |_| moved.jump(TERM));
        let report = schedule(&mutex, &clock, [stopped]).run_due(noon());
        assert!(ran(&report, "e").to_string().starts_with("not started; the lease was lost at "), "{report}");

        let other = schedule(&mutex, &clock, [event("another")]);
        ran(&other.run_due(noon()), "e");
        assert!(skipped(&other.run_due(noon()), "e").to_string().starts_with("taken by "), "once");
        assert_eq!(diary.lines(), ["another"]);
    }
}

/// A store that is unavailable for releases.
struct RefusesReleases {
    store: Store,
    releases: Arc<Mutex<Vec<MutexName>>>,
}

impl RefusesReleases {
    /// Makes the store. `meanwhile` runs while an admission is on its way to it.
    fn new(clock: &ManualClock, meanwhile: impl Fn() + Send + Sync + 'static) -> Self {
        Self::after(Duration::ZERO, clock, meanwhile)
    }

    /// Makes a store that hangs for `timeout` in an admission.
    fn after(timeout: Duration, clock: &ManualClock, meanwhile: impl Fn() + Send + Sync + 'static) -> Self {
        let releases = Arc::<Mutex<Vec<MutexName>>>::default();
        let (asked, moved) = (Arc::clone(&releases), clock.clone());
        let store = Scripted::fleet_by(clock).can_extend(false);
        let store = store.before(move |call| match call.verb {
            "forget" | "release" => {
                for name in &call.names {
                    asked.lock().unwrap().push(name.clone());
                    moved.advance(timeout);
                }
                call.times_out()
            }
            "admit" => {
                meanwhile();
                Ok(())
            }
            _ => Ok(()),
        });
        Self { store: Arc::new(store), releases }
    }

    #[track_caller]
    fn assert_releases(&self, expected: impl IntoIterator<Item = MutexName>) {
        let sorted = |names: Vec<MutexName>| {
            let mut names: Vec<String> = names.iter().map(ToString::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(sorted(self.releases.lock().unwrap().clone()), sorted(expected.into_iter().collect()));
    }
}

/// Returns the lease and the claim of an event at noon.
fn both_of(name: &str) -> [MutexName; 2] {
    [lease(name), lease(name).claim(name, noon())]
}

/// The event in the foreground has its answer, and the store is not asked for the next; two in the background have theirs
/// together.
const PLACES: [(Way, &[&str]); 2] = [(|event| event, &["e"]), (Event::in_background, &["e", "f"])];

#[test]
fn what_was_granted_too_late_is_given_back_whole_also_to_a_store_that_is_out() {
    for (place, granted) in PLACES {
        for outage in [OutagePolicy::Skip, OutagePolicy::RunUnprotected] {
            let (clock, diary) = (ManualClock::at(noon()), Diary::default());
            let moved = clock.clone();
            let out = RefusesReleases::new(&clock, move || moved.advance(TERM));
            let event = |name: &str| {
                let event = Event::call(name, diary.task(name)).every_minute().on_one_server();
                event.without_overlapping_for(TERM).on_outage(outage).apply(place)
            };
            let report = schedule(&out.store, &clock, ["e", "f"].map(event)).run_due(noon());
            assert!(report.is_failure(), "{report}");
            // A run without protection runs the occurrence for the whole fleet.
            let is_unused = |name: &MutexName| outage == OutagePolicy::Skip || name.is_lease();
            out.assert_releases(granted.iter().copied().flat_map(both_of).filter(is_unused));
            assert_eq!(diary.lines().len(), if outage == OutagePolicy::Skip { 0 } else { 2 }, "{report}");
        }
    }
}

#[test]
fn what_is_given_back_in_vain_takes_none_of_the_time_of_a_run_without_protection() {
    let clock = ManualClock::at(noon());
    let moved = clock.clone();
    let out = RefusesReleases::after(60 * SECOND, &clock, move || moved.advance(TERM));
    let task = |run: &Run| -> TaskResult { Ok(run.check()?) };
    let event = Event::call("e", task).every_minute().without_overlapping_for(TERM);
    let event = event.timeout(60 * SECOND).on_outage(OutagePolicy::RunUnprotected);
    let report = schedule(&out.store, &clock, [event]).run_due(noon());
    out.assert_releases([lease("e")]);
    let said = ran(&report, "e").to_string();
    assert!(said.starts_with("succeeded in 0 µs, but started 2 min 0 s late; unprotected, "), "{said}");
}

#[test]
fn what_was_granted_while_a_shutdown_began_is_given_back_whole_also_to_a_store_that_is_out() {
    for (place, granted) in PLACES {
        let (clock, shutdown, diary) = (ManualClock::at(noon()), Shutdown::new(), Diary::default());
        let triggers = shutdown.clone();
        let out = RefusesReleases::new(&clock, move || triggers.trigger());
        let event = |name: &str| {
            let event = Event::call(name, diary.task(name)).every_minute().on_one_server();
            event.without_overlapping_for(TERM).apply(place)
        };
        let schedule = schedule(&out.store, &clock, ["e", "f"].map(event)).with_shutdown(&shutdown);
        let report = schedule.run_due(noon());
        assert!(matches!(skipped(&report, "e"), SkipReason::ShuttingDown), "{report}");
        out.assert_releases(granted.iter().copied().flat_map(both_of));
    }
}

#[test]
fn what_waited_for_a_thread_when_a_shutdown_began_is_given_back_whole_also_to_a_store_that_is_out() {
    // Without threads, events that were admitted together run one after another.
    let this =
        "healing::loss::what_waited_for_a_thread_when_a_shutdown_began_is_given_back_whole_also_to_a_store_that_is_out";
    if run_alone(this, &[NO_THREADS]).is_some() {
        return;
    }
    let (clock, shutdown, diary) = (ManualClock::at(noon()), Shutdown::new(), Diary::default());
    let out = RefusesReleases::new(&clock, || {});
    let protected = |event: Event| event.every_minute().without_overlapping_for(TERM).on_one_server().in_background();
    let triggers = shutdown.clone();
    let first = Event::call("first", move |_| triggers.trigger());
    let others = ["e", "f"].map(|name| Event::call(name, diary.task(name)));
    let events = [first].into_iter().chain(others).map(protected);
    let report = schedule(&out.store, &clock, events).with_shutdown(&shutdown).run_due(noon());
    assert!(ran(&report, "first").is_success(), "{report}");
    assert_eq!(diary.lines(), [""; 0], "{report}");
    out.assert_releases([lease("first")].into_iter().chain(["e", "f"].into_iter().flat_map(both_of)));
}

/// Makes the store unavailable for the release of the claim: it makes up for that when it is back.
#[test]
fn the_occurrence_of_a_task_that_was_not_started_is_given_back_also_to_a_store_that_is_out() {
    for place in [|event: Event| event, Event::in_background] {
        // The first one is released with the admission of another, if there is one.
        for events in [&["e"][..], &["e", "f"]] {
            let (clock, diary) = (ManualClock::at(noon()), Diary::default());
            let out = RefusesReleases::new(&clock, || {});
            let store = &out.store;
            let event = |name: &&str| {
                let (moved, is_stopped) = (clock.clone(), *name == "e");
                let event = Event::call(*name, diary.task(name)).every_minute().without_overlapping_for(TERM);
                let stop = move |_: &Run| {
                    if is_stopped {
                        moved.advance(TERM);
                    }
                };
                event.on_one_server().before(stop).apply(place)
            };
            let report = schedule(store, &clock, events.iter().map(event)).run_due(noon());
            let said = ran(&report, "e").to_string();
            assert!(said.starts_with("not started; the lease was lost at "), "{said}");
            assert!(out.releases.lock().unwrap().contains(&lease("e").claim("e", noon())), "{events:?}: {report}");
        }
    }
}

#[test]
fn the_occurrences_of_several_tasks_that_were_not_started_are_given_back_to_a_store_that_is_out() {
    let (clock, diary) = (ManualClock::at(noon()), Diary::default());
    let out = RefusesReleases::new(&clock, || {});
    let (names, entered) = (["a", "b", "c"], Arc::new(Barrier::new(3)));
    let event = |name: &str| {
        let (moved, entered) = (clock.clone(), Arc::clone(&entered));
        let stop = move |_: &Run| {
            entered.wait();
            moved.advance(TERM);
        };
        let event = Event::call(name, diary.task(name)).every_minute().without_overlapping_for(TERM);
        event.on_one_server().before(stop).in_background()
    };
    let report = schedule(&out.store, &clock, names.map(event)).run_due(noon());
    assert_eq!(diary.lines(), [""; 0], "{report}");
    for name in names {
        assert!(out.releases.lock().unwrap().contains(&lease(name).claim(name, noon())), "{name}: {report}");
    }
}

/// Uses the occurrence: the failed preparation may have done what must not be done twice.
#[test]
fn the_occurrence_of_a_task_whose_preparation_failed_is_used_up() {
    let clock = ManualClock::at(noon());
    let (mutex, moved, diary) = (in_memory(&clock), clock.clone(), Diary::default());
    let event = || Event::call("e", diary.task("ran")).every_minute().without_overlapping().on_one_server();
    let fails = event().before(move |_| {
        moved.advance(TERM);
        Err("no paper".into())
    });
    ran(&schedule(&mutex, &clock, [fails]).run_due(noon()), "e");
    assert!(skipped(&schedule(&mutex, &clock, [event()]).run_due(noon()), "e").to_string().starts_with("taken by "));
    assert!(diary.lines().is_empty());
}
