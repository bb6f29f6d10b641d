//! A tick in which a hundred events are due, in memory and with the report kept, beside `clokwerk`, which protects
//! nothing and reports nothing; and one with a thousand, in the background beside one after another.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use clokwerk::timeprovider::TimeProvider;
use clokwerk::{Scheduler, TimeUnits};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use soloist::{Event, ManualClock, MemoryMutex, Report, Schedule};

const EVENTS: u64 = 100;
const MANY: u64 = 1_000;

/// Ticks once a minute, on a clock that moves with it, so that claims expire as they do in life.
fn soloist(criterion: &mut Criterion, group: &str, events: u64, name: &str, attributes: fn(Event) -> Event) {
    observed(criterion, group, events, name, attributes, |schedule| schedule);
}

/// The same with what `observe` adds to the schedule.
fn observed(
    criterion: &mut Criterion,
    group: &str,
    events: u64,
    name: &str,
    attributes: fn(Event) -> Event,
    observe: fn(Schedule) -> Schedule,
) {
    let clock = ManualClock::at(DateTime::UNIX_EPOCH);
    let mut schedule = observe(Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock));
    for number in 0..events {
        let event = Event::call(format!("event {number}"), |_| {}).every_minute().apply(attributes);
        schedule.add(event).expect("the event is in order");
    }
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(events));
    let mut now = DateTime::UNIX_EPOCH;
    let mut kept: Option<Report> = None;
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            now += TimeDelta::minutes(1);
            clock.advance(Duration::from_secs(60));
            kept = Some(schedule.run_due(now));
        });
    });
    assert!(kept.is_none_or(|report| !report.is_failure() && report.entries().len() as u64 == events));
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
        soloist(criterion, "due", EVENTS, name, attributes);
        clokwerk(criterion, name);
    };
    beside_clokwerk("bare", |event| event);
    beside_clokwerk("lease", Event::without_overlapping);
    // The same but for the renewal, which is never due here.
    beside_clokwerk("lease for a fixed term", |event| event.without_overlapping_for(Duration::from_secs(60)));
    beside_clokwerk("claim", Event::on_one_server);
    beside_clokwerk("lease and claim", |event| event.without_overlapping().on_one_server());
}

/// What metrics add to an event, by Prometheus' recorder.
#[cfg(feature = "metrics")]
fn metrics(criterion: &mut Criterion) {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    metrics::set_global_recorder(recorder).expect("nobody else has");
    let attributes: fn(Event) -> Event = |event| event.without_overlapping().on_one_server();
    for (name, observe) in [
        ("without metrics", (|schedule| schedule) as fn(Schedule) -> Schedule),
        ("with metrics", |schedule| schedule.observe(soloist::Metrics::new())),
    ] {
        observed(criterion, "due", EVENTS, name, attributes, observe);
    }
}

#[cfg(not(feature = "metrics"))]
fn metrics(_: &mut Criterion) {}

fn background(criterion: &mut Criterion) {
    let mut beside_the_foreground = |name: &str, attributes: fn(Event) -> Event, background: fn(Event) -> Event| {
        soloist(criterion, "background", MANY, name, background);
        soloist(criterion, "background", MANY, &format!("{name}, one after another"), attributes);
    };
    beside_the_foreground("bare", |event| event, Event::in_background);
    beside_the_foreground(
        "lease and claim",
        |event| event.without_overlapping().on_one_server(),
        |event| event.without_overlapping().on_one_server().in_background(),
    );
}

criterion_group!(benches, due, metrics, background);
criterion_main!(benches);
