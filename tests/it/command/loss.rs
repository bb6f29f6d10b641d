//! Commands whose lease is lost.

use super::*;
use crate::support::FIXED_TERM;

/// A command that notes `TERM`, and ends.
const HEARS: &str = "trap 'echo told >told; exit 6' TERM; echo $$ >pid; while :; do sleep 0.02; done";

/// A command that ignores TERM.
const DEAF: &str = "trap '' TERM; echo $$ >pid; sleep 60; :";

#[test]
fn a_command_is_told_to_stop_while_its_lease_still_lasts_for_its_grace_and_a_second() {
    type Way = fn(Event) -> Event;
    // The grace, and the time of `TERM`.
    let ways: [(Way, u32, u32); 3] = [
        (|event| event, 5, 54),
        (|event| event.grace(20 * SECOND), 20, 39),
        (|event| event.grace(Duration::ZERO), 0, 59),
    ];
    for (way, grace, seconds) in ways {
        let place = Place::new();
        let run = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&run);
        // Without a grace, it is killed at about the time of `TERM`.
        let line = if grace == 0 { DEAF } else { HEARS };
        let event = place.exec(line).without_overlapping_for(60 * SECOND).apply(way);
        let event = event.before(move |run| *noted.lock().unwrap() = Some(run.clone()));
        let observed = observe(&place, event, |clock, store| {
            let run = run.lock().unwrap().take().unwrap();
            clock.advance((seconds - 1) * SECOND);
            clock.advance(Duration::from_millis(999));
            assert_eq!(run.remaining(), Some(Duration::from_millis(1)));
            assert!(!run.is_cancelled() && group_lives(place.pid("pid")));
            clock.advance(Duration::from_millis(1));
            assert_eq!(run.wait_cancelled(PATIENCE), Some(CancelReason::LeaseLost));
            let held = holder(&store.store, &MutexName::lease("e").unwrap());
            if let Some(holder) = held {
                assert_eq!(holder.until(), at("2026-03-01T12:01:00Z"), "the store keeps it for the whole term");
            }
        });
        let lost_at = noon() + seconds * SECOND;
        assert_eq!(observed.outcome.lease_lost_at(), Some(lost_at));
        let end = if grace == 0 { "ended by signal 9 (SIGKILL)" } else { "exited with 6" };
        let lost_at = lost_at.format("%F %T UTC");
        let said = format!("cancelled after {seconds}.0 s; {end}; the lease was lost at {lost_at}{FIXED_TERM}");
        assert_eq!(observed.outcome.to_string(), said);
        assert!(
            matches!(observed.outcome.release(), Some(Release::Released)),
            "it was still ours: {}",
            observed.report
        );
        assert_eq!(observed.seen[1..], ["given back when its group had gone"]);
        assert!(observed.took < (grace + 1) * SECOND + SLACK);
    }
}

#[test]
fn a_renewal_moves_the_moment_in_which_a_command_is_told() {
    let place = Place::new();
    let run = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&run);
    let event = place.exec("echo $$ >pid; until [ -e go ]; do sleep 0.02; done").without_overlapping();
    let event = event.before(move |run| *noted.lock().unwrap() = Some(run.clone()));
    let observed = observe(&place, event, |clock, _| {
        let run = run.lock().unwrap().take().unwrap();
        for _ in 0..4 {
            // A third of the lease without the time for stopping.
            clock.advance(18 * SECOND);
            assert_eq!(run.remaining(), Some(54 * SECOND));
        }
        place.touch("go");
    });
    assert_eq!(observed.outcome.to_string(), "succeeded in 1 min 12 s");
    assert!(!observed.outcome.is_failure());
}

#[test]
fn a_command_whose_lease_is_not_renewed_is_told_before_it_ends() {
    let place = Place::new();
    let observed = observe(&place, place.exec(HEARS).without_overlapping(), |clock, store| {
        store.is_out.store(true, Ordering::SeqCst);
        clock.advance(THIRD);
        clock.advance(34 * SECOND);
    });
    let said = "cancelled after 54.0 s; exited with 6; the lease was lost at 2026-03-01 12:00:54 UTC";
    assert_eq!(observed.outcome.to_string(), said);
    assert!(place.has("told") && matches!(observed.outcome.release(), Some(Release::Released)));
    assert_eq!(observed.seen[1..], ["given back when its group had gone"]);
}

#[test]
fn a_command_that_does_not_hear_is_killed_before_its_lease_ends() {
    let place = Place::new();
    let grace = 20 * SECOND;
    let event = place.exec(DEAF).without_overlapping_for(60 * SECOND).grace(grace);
    let observed = observe(&place, event, |clock, _| {
        clock.advance(39 * SECOND);
        // The machine has slept, and its time with it.
        clock.advance(grace);
    });
    assert!(observed.took < grace, "it took {:?}, and its lease would have ended", observed.took);
    let said = format!(
        "cancelled after 59.0 s; ended by signal 9 (SIGKILL); the lease was lost at 2026-03-01 12:00:39 UTC{FIXED_TERM}"
    );
    assert_eq!(observed.outcome.to_string(), said);
    assert_eq!(observed.seen[1..], ["given back when its group had gone"]);
}

#[test]
fn a_command_whose_lease_somebody_broke_is_killed_at_once() {
    for (text, grace) in [(DEAF, 29 * SECOND), ("echo $$ >pid; (trap '' TERM; sleep 60; :) & exit 0", 29 * SECOND)] {
        let place = Place::new();
        let event = place.exec(text).without_overlapping().grace(grace);
        let observed = observe(&place, event, |clock, store| {
            until(|| text == DEAF || !is_alive(place.pid("pid"))).unwrap();
            assert!(store.store.break_lease(&MutexName::lease("e").unwrap()).unwrap().is_some());
            // A third of the lease without its grace.
            clock.advance(10 * SECOND);
        });
        let end = if text == DEAF { "ended by signal 9 (SIGKILL)" } else { "exited with 0" };
        let said = format!("cancelled after 10.0 s; {end}; the lease was lost at 2026-03-01 12:00:10 UTC");
        assert_eq!(observed.outcome.to_string(), said);
        let Ended::Faulted(Fault::Failed(error)) = observed.outcome.ended() else { panic!("{:?}", observed.outcome) };
        let reason = error.downcast_ref::<Cancelled>().map(Cancelled::reason);
        assert_eq!(reason, Some(CancelReason::LeaseLost));
        assert_eq!(observed.outcome.lease_lost_at(), Some(at("2026-03-01T12:00:10Z")));
        assert!(matches!(observed.outcome.release(), Some(Release::Lost)), "{}", observed.report);
        assert_eq!(observed.seen[1..], ["given back when its group had gone"]);
        assert!(observed.took < SECOND + SLACK, "its grace is not waited for: {:?}", observed.took);
    }
}

#[test]
fn a_command_that_uses_up_its_grace_is_killed_when_its_lease_is_broken() {
    let place = Place::new();
    let text = "trap 'echo told >told' TERM; echo $$ >pid; while :; do sleep 0.02; done";
    let event = place.exec(text).without_overlapping().grace(29 * SECOND).timeout(SECOND);
    let observed = observe(&place, event, |clock, store| {
        clock.advance(SECOND);
        until(|| place.has("told")).unwrap();
        assert!(store.store.break_lease(&MutexName::lease("e").unwrap()).unwrap().is_some());
        clock.advance(9 * SECOND);
    });
    let said = "timed out after 1.0 s, and stopped 9.0 s later; ended by signal 9 (SIGKILL); the lease was lost at \
                2026-03-01 12:00:10 UTC";
    assert_eq!(observed.outcome.to_string(), said);
    assert!(observed.took < SECOND + SLACK, "its grace is not waited for: {:?}", observed.took);
}

#[test]
fn a_command_whose_lease_was_lost_before_it_is_not_started() {
    let (place, clock) = (Place::new(), ManualClock::at(noon()));
    let moved = clock.clone();
    let event = place.exec(": >started").without_overlapping_for(60 * SECOND);
    // The remaining lease is shorter than the time for stopping.
    let event = event.before(move |_| moved.advance(54 * SECOND));
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    schedule.add(event).unwrap();
    let report = schedule.run_due(noon());
    let said = format!("not started; the lease was lost at 2026-03-01 12:00:54 UTC{FIXED_TERM}");
    assert_eq!(ran(&report, "e").to_string(), said);
    assert!(!place.has("started"));
}
