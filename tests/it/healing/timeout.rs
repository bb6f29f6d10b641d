//! Tasks that take too long.

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
    let text = outcome.to_string();
    assert!(text.starts_with("timed out after 5.0 s") && !text.contains("failed"), "it says it once: {text}");
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
            other => Err(format!("while the hook ran, exists answered {other:?}").into()),
        };
        let report = tick(store, clock, |event| half_a_minute(event).on_failure(hook), task);
        let outcome = ran(&report, "e");
        let said = "timed out after 30.0 s, and stopped 1 min 10 s later; failed: no paper";
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
    // Hooks have no timeout.
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
    // A timeout beyond a fixed term is refused.
    for (term, limit, expected) in [(30, 20, CancelReason::TimedOut), (30, 30, CancelReason::LeaseLost)] {
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

#[test]
fn the_hooks_after_a_task_that_ended_in_time_have_no_timeout() {
    let clock = ManualClock::at(noon());
    let moved = clock.clone();
    let event = Event::call("e", |_| {}).every_minute().timeout(5 * SECOND).then(move |run, _| {
        moved.advance(TERM);
        assert_eq!(run.remaining(), None);
        Ok(run.check()?)
    });
    let report = schedule(&in_memory(&clock), &clock, [event]).run_due(noon());
    assert_eq!(ran(&report, "e").to_string(), "succeeded in 0 µs");
}
