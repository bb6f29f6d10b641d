//! Leases that are held longer than their tasks.

use super::*;

fn five_seconds(event: Event) -> Event {
    event.hold_at_least(5 * SECOND)
}

/// The ways to hold a lease longer than its task: renewed, with a shorter term, or with a longer one.
const WAYS: [Way; 4] = [
    |event| event.without_overlapping(),
    |event| event.without_overlapping().lease_term(2 * SECOND),
    |event| event.without_overlapping_for(5 * SECOND),
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
        for way in [WAYS[0], WAYS[3]] {
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
    let event = |event: Event| event.without_overlapping_for(2 * SECOND).hold_at_least(2 * SECOND);
    let report = tick(&store, &clock, event, takes(&clock, 3 * SECOND));
    let said = format!(
        "succeeded in 3.0 s, but the lease was lost at 2026-03-01 12:00:02 UTC{}",
        crate::support::FIXED_TERM.replace("1m", "2s")
    );
    assert_eq!(ran(&report, "e").to_string(), said);
    assert_eq!(held_until(&*store, "e"), None);
}

#[test]
fn of_those_that_end_together_each_is_held_as_long_as_it_asked_for() {
    let clock = ManualClock::at(noon());
    let counted = Scripted::fleet_by(&clock);
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
    let counted = Scripted::fleet_by(&clock);
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
