//! A tick in which a hundred events are due, in memory and with the report kept, beside `clokwerk`, which protects
//! nothing and reports nothing.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use clokwerk::timeprovider::TimeProvider;
use clokwerk::{Scheduler, TimeUnits};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use soloist::{Event, ManualClock, MemoryMutex, Report, Schedule};

const EVENTS: u64 = 100;

/// Ticks once a minute, on a clock that moves with it, so that claims expire as they do in life.
fn soloist(criterion: &mut Criterion, name: &str, attributes: fn(Event) -> Event) {
    let clock = ManualClock::at(DateTime::UNIX_EPOCH);
    let mut schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    for number in 0..EVENTS {
        let event = Event::call(format!("event {number}"), |_| {}).every_minute().apply(attributes);
        schedule.add(event).expect("the event is in order");
    }
    let mut group = criterion.benchmark_group("due");
    group.throughput(Throughput::Elements(EVENTS));
    let mut now = DateTime::UNIX_EPOCH;
    let mut kept: Option<Report> = None;
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            now += TimeDelta::minutes(1);
            clock.advance(Duration::from_secs(60));
            kept = Some(schedule.run_due(now));
        });
    });
    assert!(kept.is_some_and(|report| !report.is_failure() && report.entries().len() == 100));
}

/// The minute that `clokwerk` is told.
static MINUTE: AtomicI64 = AtomicI64::new(0);

struct Minutes;

impl TimeProvider for Minutes {
    fn now<Tz: TimeZone + Sync + Send>(zone: &Tz) -> DateTime<Tz> {
        (DateTime::UNIX_EPOCH + TimeDelta::minutes(MINUTE.load(Ordering::Relaxed))).with_timezone(zone)
    }
}

/// Measured anew beside each of ours, since the speed of a virtual machine changes within a minute.
fn clokwerk(criterion: &mut Criterion, beside: &str) {
    let mut scheduler = Scheduler::with_tz_and_provider::<Utc, Minutes>(Utc);
    for _ in 0..EVENTS {
        scheduler.every(1.minute()).run(|| {});
    }
    let mut group = criterion.benchmark_group("due");
    group.throughput(Throughput::Elements(EVENTS));
    group.bench_function(format!("clokwerk beside {beside}"), |bencher| {
        bencher.iter(|| {
            MINUTE.fetch_add(1, Ordering::Relaxed);
            scheduler.run_pending();
        });
    });
}

fn due(criterion: &mut Criterion) {
    let mut beside_clokwerk = |name: &str, attributes: fn(Event) -> Event| {
        soloist(criterion, name, attributes);
        clokwerk(criterion, name);
    };
    beside_clokwerk("bare", |event| event);
    beside_clokwerk("lease", Event::without_overlapping);
    beside_clokwerk("claim", Event::on_one_server);
    beside_clokwerk("lease and claim", |event| event.without_overlapping().on_one_server());
}

criterion_group!(benches, due);
criterion_main!(benches);
