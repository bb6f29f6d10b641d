//! Events that run one after another: how often the store is asked when other servers have the due occurrences. No
//! event is admitted before the one before it has ended.

use std::sync::Arc;

use soloist::{Event, EventMutex, MutexName, Report, Schedule, SkipReason, Verdict};

use crate::scripted::Scripted;
use crate::support::{Diary, noon};

/// A function that returns whether another server has the occurrence of the event with this number.
type Taken = fn(usize) -> bool;

fn name(number: usize) -> String {
    format!("event {number:02}")
}

fn event(number: usize, task: impl Fn(&soloist::Run) + Send + Sync + 'static) -> Event {
    Event::call(name(number), task).every_minute().without_overlapping().on_one_server()
}

/// Lets another server run its events of this tick.
fn run_elsewhere(store: &Scripted, events: usize, taken: impl Fn(usize) -> bool) {
    let schedule = Schedule::new(store.clone());
    for number in (0..events).filter(|number| taken(*number)) {
        schedule.add(event(number, |_| {})).unwrap();
    }
    assert!(!schedule.run_due(noon()).is_failure());
}

/// Ticks with all of them, and asserts that no two hold a lease at one time.
fn run_here(store: &Scripted, events: usize) -> Report {
    let schedule = Schedule::new(store.clone());
    for number in 0..events {
        let others: Vec<_> = (0..events).filter(|other| *other != number).map(name).collect();
        let store = store.clone();
        let task = move |_: &soloist::Run| {
            let leases = others.iter().map(|other| MutexName::lease(other.as_str()).unwrap());
            assert!(!leases.into_iter().any(|lease| store.exists(&lease).unwrap()), "another event holds its lease");
        };
        schedule.add(event(number, task)).unwrap();
    }
    schedule.run_due(noon())
}

#[track_caller]
fn assert_each_ran_once(report: &Report, events: usize, taken: Taken) {
    let names = report.entries().iter().map(soloist::Entry::event);
    assert!(names.eq((0..events).map(name)), "in their order: {report}");
    for (number, entry) in report.entries().iter().enumerate() {
        match entry.verdict() {
            Verdict::Ran(outcome) => assert!(outcome.is_success() && !taken(number), "{report}"),
            Verdict::Skipped(SkipReason::RanElsewhere(_)) => assert!(taken(number), "{report}"),
            Verdict::Skipped(_) => panic!("{report}"),
        }
    }
}

#[test]
fn a_server_that_loses_again_and_again_reads_more_claims_each_time() {
    let (store, all) = (Scripted::fleet(), |_| true);
    run_elsewhere(&store, 250, all);
    let before = store.admissions().len();
    assert_each_ran_once(&run_here(&store, 250), 250, all);
    assert_eq!(store.admissions()[before..], [1; 4]);
    assert_eq!(store.reads(), [10, 100, 100, 36]);
}

#[test]
fn a_claim_that_is_taken_after_the_read_is_lost_in_its_turn() {
    let store = Scripted::fleet();
    run_elsewhere(&store, 10, |number| number < 3);
    let others = store.clone();
    let schedule = Schedule::new(store.clone());
    for number in 0..10 {
        let others = others.clone();
        let task = move |_: &soloist::Run| run_elsewhere(&others, 10, |other| other == number + 1);
        schedule.add(event(number, task)).unwrap();
    }
    let report = schedule.run_due(noon());
    assert_each_ran_once(&report, 10, |number| number < 3 || number % 2 == 0);
    assert_eq!(store.reads(), [9, 5, 3, 1]);
}

#[test]
fn the_last_run_is_released_before_the_skip_of_an_event_is_told() {
    let (store, diary) = (Scripted::fleet(), Diary::default());
    run_elsewhere(&store, 3, |number| number != 1);
    let held = store.clone();
    let seen = diary.clone();
    let schedule = Schedule::new(store).observe(move |notice: &soloist::observe::Notice<'_>| {
        if let soloist::observe::Step::Skipped(_) = notice.step() {
            let lease = MutexName::lease(name(1)).unwrap();
            seen.note(format!(
                "{} is skipped, event 01 is held: {}",
                notice.event().unwrap(),
                held.exists(&lease).unwrap()
            ));
        }
    });
    for number in 0..3 {
        schedule.add(event(number, |_| {})).unwrap();
    }
    assert!(!schedule.run_due(noon()).is_failure());
    let skipped = |number: usize| format!("{} is skipped, event 01 is held: false", name(number));
    assert_eq!(diary.lines(), [skipped(0), skipped(2)]);
}

#[test]
fn where_others_have_some_each_of_the_rest_runs_once_in_its_turn() {
    let shares: [Taken; 5] = [
        |number| number % 2 == 0,
        |number| number % 2 == 1,
        |number| number < 20,
        |number| (10..30).contains(&number),
        |number| number.is_multiple_of(7) || number > 35,
    ];
    for taken in shares {
        for store in [Scripted::fleet(), Scripted::fleet().in_steps()] {
            run_elsewhere(&store, 40, taken);
            assert_each_ran_once(&run_here(&store, 40), 40, taken);
        }
    }
}

#[test]
fn a_server_that_wins_asks_for_one_at_a_time() {
    let store = Scripted::fleet();
    assert_each_ran_once(&run_here(&store, 20), 20, |_| false);
    assert_eq!(store.admissions(), [1; 20]);
}

#[test]
fn a_filter_is_asked_when_the_events_before_it_have_run() {
    let (store, diary) = (Scripted::fleet(), Diary::default());
    run_elsewhere(&store, 12, |number| number < 8);
    let schedule = Schedule::new(store.clone());
    for number in 0..12 {
        let event = event(number, {
            let (diary, name) = (diary.clone(), name(number));
            move |_| diary.note(format!("{name} runs"))
        });
        let asked = diary.clone();
        let filtered = move |_: &soloist::time::Tick| {
            asked.note(format!("{} is asked", name(number)));
            true
        };
        schedule.add(if number == 10 { event.when(filtered) } else { event }).unwrap();
    }
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{report}");
    let lines = ["event 08 runs", "event 09 runs", "event 10 is asked", "event 10 runs", "event 11 runs"];
    assert_eq!(diary.lines(), lines);
}

#[test]
fn an_outage_in_the_middle_is_told_to_the_rest() {
    let taken: Taken = |number| number < 5;
    let memory = Arc::new(soloist::MemoryMutex::new());
    run_elsewhere(&Scripted::over(Arc::clone(&memory)), 10, taken);
    let is_about_another =
        |call: &crate::scripted::Call| call.is("admit") && call.names.contains(&MutexName::lease(name(6)).unwrap());
    let store =
        Scripted::over(memory).before(move |call| if is_about_another(call) { call.times_out() } else { Ok(()) });
    let report = run_here(&store, 10);
    let names = report.entries().iter().map(soloist::Entry::event);
    assert!(names.eq((0..10).map(name)), "in their order: {report}");
    let unknown =
        |entry: &&soloist::Entry| matches!(entry.verdict(), Verdict::Skipped(SkipReason::StoreUnavailable(_)));
    assert_eq!(report.entries().iter().filter(unknown).count(), 4, "{report}");
    assert_eq!(store.admissions(), [1, 1, 1], "it is asked no more");
}

#[test]
fn a_read_without_an_answer_is_an_outage() {
    let store = Scripted::fleet().before(|call| if call.is("held") { call.times_out() } else { Ok(()) });
    run_elsewhere(&store, 1, |_| true);
    let before = store.admissions().len();
    let report = run_here(&store, 5);
    let unknown =
        |entry: &&soloist::Entry| matches!(entry.verdict(), Verdict::Skipped(SkipReason::StoreUnavailable(_)));
    assert_eq!(report.entries().iter().filter(unknown).count(), 4, "{report}");
    assert_eq!((store.admissions().len() - before, store.reads().len()), (1, 1), "it is asked no more");
}

#[test]
fn a_store_that_can_not_be_read_is_asked_for_each_event() {
    let store = Scripted::fleet().before(|call| {
        if call.is("held") { Err(soloist::MutexError::unsupported("tell who holds a name")) } else { Ok(()) }
    });
    run_elsewhere(&store, 5, |number| number < 3);
    let before = store.admissions().len();
    assert_each_ran_once(&run_here(&store, 5), 5, |number| number < 3);
    assert_eq!(store.admissions()[before..], [1; 5]);
}
