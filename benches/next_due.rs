//! Measures the search for the next due event among a hundred thousand events.

use std::hint::black_box;

use chrono::{DateTime, TimeZone, Utc};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use soloist::{Event, Schedule};

/// Returns a random mix of daily, hourly and five-minute expressions. Each has times between 08:00 and 17:00, the
/// window of one benchmark. None is due at the weekend.
fn expressions(count: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(1);
    let expression = |_| {
        let (minute, hour) = (random.u8(0..60), random.u8(8..17));
        match random.u8(0..3) {
            0 => format!("{minute} {hour} * * 1-5"),
            1 => format!("{minute} * * * 1-5"),
            _ => format!("{}-59/5 * * * 1-5", minute % 5),
        }
    };
    (0..count).map(expression).collect()
}

fn saturday(hour: u32, minute: u32) -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 7, hour, minute, 0).single().expect("UTC has every minute")
}

/// Measures the search for the next due event on a Saturday: with all events in one zone, in six zones, and with a
/// window each.
fn next_due(criterion: &mut Criterion) {
    // `cargo test` runs this program only to see that it works.
    let measures = std::env::args().any(|argument| argument == "--bench");
    let events = if measures { 100_000 } else { 100 };
    let zones = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Lord_Howe", "Africa/Casablanca"];
    let mut group = criterion.benchmark_group("next_due");
    group.sample_size(20).throughput(Throughput::Elements(events as u64));
    for name in ["one zone", "six zones", "windows"] {
        let schedule = Schedule::in_process();
        for (number, expression) in expressions(events).iter().enumerate() {
            let event = Event::call(format!("event {number}"), |_| {}).cron(expression);
            let event = match name {
                "six zones" => event.timezone(zones[number % zones.len()]),
                "windows" => event.between("08:00", "17:00"),
                _ => event,
            };
            schedule.add(event).expect("a fresh name, and times in its window");
        }
        group.bench_function(name, |bencher| {
            bencher.iter(|| schedule.next_due(black_box(saturday(13, 37))).expect("there is a Monday"));
        });
    }
    group.finish();
}

criterion_group!(benches, next_due);
criterion_main!(benches);
