//! A tick in which nothing is due, beside the raw loop over masks, `clokwerk` and the `cron` crate; and when the next event
//! is due.

use std::hint::black_box;
use std::str::FromStr;

use chrono::{DateTime, TimeZone, Utc};
use clokwerk::{Job, Scheduler, TimeUnits};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use soloist::{Event, Schedule};

/// A random mix of daily, hourly and five-minute events, none of which is due at the weekend, so that a Saturday's
/// ticks find every partial match of a weekday's and nothing to do.
fn expressions(count: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(1);
    let expression = |_| {
        let (minute, hour) = (random.u8(0..60), random.u8(0..24));
        match random.u8(0..3) {
            0 => format!("{minute} {hour} * * 1-5"),
            1 => format!("{minute} * * * 1-5"),
            _ => format!("{}-59/5 * * * 1-5", minute % 5),
        }
    };
    (0..count).map(expression).collect()
}

fn schedule(expressions: &[String]) -> Schedule {
    let mut schedule = Schedule::in_process();
    for (number, expression) in expressions.iter().enumerate() {
        let event = Event::call(format!("event {number}"), |_| {}).cron(expression).without_overlapping();
        schedule.add(event).expect("the expressions are in order");
    }
    schedule
}

/// The least that a bit-set test can cost: five masks in 24 bytes.
struct Masks {
    minute: u64,
    hour: u32,
    day: u32,
    month: u16,
    weekday: u8,
}

fn masks(expressions: &[String]) -> Vec<Masks> {
    let mask = |field: &str| {
        let (range, step) = field.split_once('/').unwrap_or((field, "1"));
        let (low, high) = match range.split_once('-') {
            _ if range == "*" => (0, 59),
            Some((low, high)) => (low.parse().expect("a number"), high.parse().expect("a number")),
            None => (range.parse().expect("a number"), range.parse().expect("a number")),
        };
        (low..=high).step_by(step.parse().expect("a number")).fold(0, |mask, bit: u32| mask | 1_u64 << bit)
    };
    let masks = |expression: &String| {
        let fields: Vec<u64> = expression.split(' ').map(mask).collect();
        Masks {
            minute: fields[0],
            hour: u32::try_from(fields[1] & 0xff_ffff).expect("24 bits"),
            day: u32::try_from(fields[2] & 0xffff_ffff).expect("32 bits"),
            month: u16::try_from(fields[3] & 0x1fff).expect("13 bits"),
            weekday: u8::try_from(fields[4] & 0x7f).expect("7 bits"),
        }
    };
    expressions.iter().map(masks).collect()
}

fn mask_loop(masks: &[Masks], now: &Masks) -> usize {
    let due = |masks: &&Masks| {
        (masks.minute & now.minute != 0)
            && (masks.hour & now.hour != 0)
            && (masks.day & now.day != 0)
            && (masks.month & now.month != 0)
            && (masks.weekday & now.weekday != 0)
    };
    masks.iter().filter(due).count()
}

fn saturday(hour: u32, minute: u32) -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 7, hour, minute, 0).single().expect("UTC has every minute")
}

fn idle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("idle");
    for count in [100, 10_000, 100_000, 1_000_000] {
        group.throughput(Throughput::Elements(count));
        let expressions = expressions(usize::try_from(count).expect("it is small"));

        let ours = schedule(&expressions);
        for (name, now) in [("soloist", saturday(13, 37)), ("soloist, worst minute", saturday(0, 0))] {
            group.bench_function(BenchmarkId::new(name, count), |bencher| {
                bencher.iter(|| assert!(ours.run_due(black_box(now)).entries().is_empty()));
            });
        }

        let raw = masks(&expressions);
        let now = Masks { minute: 1 << 37, hour: 1 << 13, day: 1 << 7, month: 1 << 3, weekday: 1 << 6 };
        group.bench_function(BenchmarkId::new("raw masks", count), |bencher| {
            bencher.iter(|| assert_eq!(mask_loop(black_box(&raw), black_box(&now)), 0));
        });

        let mut theirs = Scheduler::with_tz(Utc);
        for _ in 0..count {
            theirs.every(1.day()).at("03:00").run(|| {});
        }
        group.bench_function(BenchmarkId::new("clokwerk", count), |bencher| bencher.iter(|| theirs.run_pending()));

        let crates: Vec<cron::Schedule> = expressions
            .iter()
            .map(|expression| cron::Schedule::from_str(&format!("0 {expression}")).expect("it reads the like"))
            .collect();
        if count < 100_000 {
            group.bench_function(BenchmarkId::new("cron crate", count), |bencher| {
                let now = saturday(13, 37);
                // Its days of the week are counted from 1, so that a Saturday is in its 1-5 as little as in ours.
                bencher.iter(|| crates.iter().filter(|schedule| schedule.includes(black_box(now))).count());
            });
        }
    }
    group.finish();
}

/// When the first of all events is due: of those that the other benchmark has, and with a zone or windows each.
fn next_due(criterion: &mut Criterion) {
    const EVENTS: usize = 100_000;
    let zones = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Lord_Howe", "Africa/Casablanca"];
    let mut group = criterion.benchmark_group("next_due");
    group.sample_size(20).throughput(Throughput::Elements(EVENTS as u64));
    for name in ["one zone", "six zones", "windows"] {
        let mut schedule = Schedule::in_process();
        for (number, expression) in expressions(EVENTS).iter().enumerate() {
            let event = Event::call(format!("event {number}"), |_| {}).cron(expression);
            let event = match name {
                "six zones" => event.timezone(zones[number % zones.len()]),
                "windows" => event.between("08:00", "17:00"),
                _ => event,
            };
            // All but those of which no time lies in the windows.
            let _ = schedule.add(event);
        }
        group.bench_function(name, |bencher| {
            bencher.iter(|| schedule.next_due(black_box(saturday(13, 37))).expect("there is a Monday"));
        });
    }
    group.finish();
}

criterion_group!(benches, idle, next_due);
criterion_main!(benches);
