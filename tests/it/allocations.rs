//! How often a due event allocates, and how much, counted in the thread of its tick, and how much memory it leaves behind.

use std::time::Duration;

use chrono::TimeDelta;
use soloist::time::ManualClock;
use soloist::{Entry, Event, EventMutex, MemoryMutex, Schedule, SkipReason};

use crate::support::noon;

/// Returns how often a tick of a schedule with so many events allocates, and how many bytes: the median of five. In the first
/// one, maps and buffers grow; in a few of the others a loaded machine takes other paths.
fn of_a_tick(
    store: impl EventMutex + 'static,
    clock: &ManualClock,
    events: usize,
    protect: fn(Event) -> Event,
) -> [u64; 2] {
    let schedule = Schedule::new(store).with_clock(clock);
    for number in 0..events {
        let event = Event::call(format!("{events}-{number}"), |_| {}).every_minute();
        schedule.add(event.apply(protect)).expect("the event is in order");
    }
    assert!(!schedule.run_due(noon()).is_failure());
    let mut ticks: Vec<_> = (1..=5)
        .map(|minute| {
            clock.advance(Duration::from_secs(60));
            let mut report = None;
            let counted =
                allocation_counter::measure(|| report = Some(schedule.run_due(noon() + TimeDelta::minutes(minute))));
            let report = report.expect("it has run");
            assert!(report.entries().len() == events && !report.is_failure(), "{report}");
            [counted.count_total, counted.bytes_total]
        })
        .collect();
    ticks.sort_unstable();
    ticks[2]
}

/// Asserts how often an event allocates, by adding a hundred events to a hundred others. Excludes the allocations
/// of the tick itself, and those of a list or map that grows now and then.
#[track_caller]
fn each_allocates_at_most<M: EventMutex + 'static>(
    [count, bytes]: [u64; 2],
    store: impl Fn(&ManualClock) -> M,
    protect: fn(Event) -> Event,
) {
    let of = |events| {
        let clock = ManualClock::at(noon());
        of_a_tick(store(&clock), &clock, events, protect)
    };
    let ([many, many_bytes], [few, few_bytes]) = (of(200), of(100));
    let each = [(many - few) / 100, (many_bytes - few_bytes) / 100];
    assert!(
        each[0] <= count && each[1] <= bytes,
        "each event allocates {each:?} times and bytes: over [{count}, {bytes}]"
    );
}

// On Redis, the parser's buffer for an answer takes 8 KiB.

#[test]
fn a_due_event_in_memory_allocates_little() {
    let store = |clock: &ManualClock| MemoryMutex::with_clock(clock);
    each_allocates_at_most([1, 1_040], store, |event| event);
    each_allocates_at_most([2, 1_400], store, Event::without_overlapping);
    each_allocates_at_most([3, 1_400], store, Event::on_one_server);
    each_allocates_at_most([4, 1_550], store, |event| event.without_overlapping().on_one_server());
}

#[test]
fn a_claim_takes_as_little_memory_as_its_name_and_its_holder() {
    const EVENTS: usize = 100;
    const TICKS: usize = 26;
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    for number in 0..EVENTS {
        schedule.add(Event::call(format!("{number}"), |_| {}).every_minute().on_one_server()).expect("it is in order");
    }
    let tick = |minute: usize| {
        let report = schedule.run_due(noon() + TimeDelta::minutes(i64::try_from(minute).expect("it is small")));
        assert_eq!(report.entries().iter().filter(|entry| entry.is_failure()).count(), 0);
    };
    (0..4).for_each(tick);
    let left = allocation_counter::measure(|| (4..4 + TICKS).for_each(tick)).bytes_current;
    let each = left / i64::try_from(EVENTS * TICKS).expect("it is small");
    assert!(
        each <= 320,
        "each claim takes {each} bytes: a name, a holder with its words, and a place in a map that is half full"
    );
}

#[test]
fn the_entries_of_a_report_are_small() {
    assert!(size_of::<Entry>() <= 168, "an entry takes {} bytes", size_of::<Entry>());
    assert!(size_of::<SkipReason>() <= 24, "a reason takes {} bytes", size_of::<SkipReason>());
}

#[cfg(feature = "redis")]
#[test]
fn a_due_event_on_redis_allocates_little_beside_the_answer() {
    let server = crate::servers::redis::Redis::start();
    let patient = || soloist::RedisMutex::builder(&server.url()).timeout(Duration::from_secs(60));
    let store = |_: &ManualClock| patient().build().expect("a url");
    each_allocates_at_most([62, 9_000], store, Event::without_overlapping);
    each_allocates_at_most([84, 9_600], store, |event| event.without_overlapping().on_one_server());
}
