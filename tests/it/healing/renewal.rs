//! Leases that are renewed for as long as their tasks run.

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
    let (store, at_work) = (Scripted::fleet_by(&clock), Arc::new(AtomicUsize::new(0)));
    let (end, over) = (Arc::new(AtomicBool::new(false)), |end: &AtomicBool| end.load(Ordering::SeqCst));
    let event = |number: usize| {
        let (at_work, end) = (Arc::clone(&at_work), Arc::clone(&end));
        let task = move |run: &Run| -> TaskResult {
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
    until(|| renewal_threads() == 1).expect("the thread gets its name when it begins");
    for thirds in 1..=7 {
        clock.advance(THIRD);
        let all = |number: usize| held_until(&store, &format!("e{number}")) == Some(now(&clock) + TERM);
        until(|| (0..200).all(all)).unwrap();
        assert_eq!(store.extensions(), vec![200; thirds]);
    }
    end.store(true, Ordering::SeqCst);
    let report = tick.join().unwrap();
    assert!(!report.is_failure(), "{report}");
    until(|| renewal_threads() == 0).expect("the thread ends when there is nothing to renew");
    clock.advance(10 * TERM);
    assert_eq!(store.extensions(), [200; 7], "nothing is asked for after the last lease");
}

/// Returns the number of renewal threads of this process.
fn renewal_threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux shows a process its threads");
    // A thread may end while its name is read.
    let names = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.trim() == "soloist-renewal").count()
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
        Event::call(name, note).every_minute()
    };
    let renewed = |name| event(name).without_overlapping();
    let schedule = Schedule::new(in_memory(&clock)).with_clock(&clock);
    schedule.add(renewed("a minute")).unwrap();
    let schedule = schedule.with_lease_term(Duration::from_secs(45));
    schedule.add(renewed("the schedule's")).unwrap();
    schedule.add(renewed("its own").lease_term(Duration::from_secs(30))).unwrap();
    schedule.add(event("fixed").without_overlapping_for(Duration::from_secs(15))).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
    let expected = [("a minute", 60), ("the schedule's", 45), ("its own", 30), ("fixed", 15)];
    assert_eq!(*terms.lock().unwrap(), expected.map(|(name, term)| (name.to_owned(), term)));
}

#[test]
fn a_fixed_term_is_not_renewed_beside_one_that_is() {
    let clock = ManualClock::at(noon());
    let counted = Scripted::fleet_by(&clock);
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
    let said = format!(
        "succeeded in 1 min 0 s, but the lease was lost at 2026-03-01 12:01:00 UTC{}",
        crate::support::FIXED_TERM
    );
    assert_eq!(ran(&report, "e").to_string(), said);
    assert_eq!(counted.extensions(), [1], "the other one");
}
