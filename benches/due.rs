//! A tick in which a hundred events are due, in memory and with the report kept, beside `clokwerk`, which protects
//! nothing and reports nothing; and one with a thousand, in the background beside one after another.
//!
//! On the system's clock, as in life, and in turns, tick by tick: a machine's speed changes within a second.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use clokwerk::timeprovider::TimeProvider;
use clokwerk::{Scheduler, TimeUnits};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use soloist::{Event, MemoryMutex, Report, Schedule};

const EVENTS: u64 = 100;
const MANY: u64 = 1_000;

/// Claims live for a quarter of an hour on the system's clock, and are made much faster here: after so many ticks, a store
/// has as many as it ever has in life.
const TICKS: u32 = 15;

/// Something whose ticks are measured.
trait Ticking {
    /// What is not measured, before each tick.
    fn prepare(&mut self) {}

    fn tick(&mut self);
}

struct Soloist {
    events: u64,
    attributes: fn(Event) -> Event,
    observe: fn(Schedule) -> Schedule,
    schedule: Schedule,
    ticks: u32,
    /// As somebody keeps it who reads it.
    kept: Option<Report>,
}

impl Soloist {
    fn new(events: u64, attributes: fn(Event) -> Event) -> Self {
        Self::observed(events, attributes, |schedule| schedule)
    }

    /// With what `observe` adds to the schedule.
    fn observed(events: u64, attributes: fn(Event) -> Event, observe: fn(Schedule) -> Schedule) -> Self {
        let mut schedule = observe(Schedule::new(MemoryMutex::new()));
        for number in 0..events {
            let event = Event::call(format!("event {number}"), |_| {}).every_minute().apply(attributes);
            schedule.add(event).expect("the event is in order");
        }
        let mut soloist = Self { events, attributes, observe, schedule, ticks: 0, kept: None };
        // In the first ticks, maps and buffers grow.
        soloist.tick();
        soloist.tick();
        soloist
    }
}

impl Ticking for Soloist {
    fn prepare(&mut self) {
        if self.ticks == TICKS {
            let is_in_order = |report: &Report| !report.is_failure() && report.entries().len() as u64 == self.events;
            assert!(self.kept.as_ref().is_some_and(is_in_order));
            *self = Self::observed(self.events, self.attributes, self.observe);
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.kept = Some(self.schedule.run_due(DateTime::UNIX_EPOCH + TimeDelta::minutes(self.ticks.into())));
    }
}

/// The minute that `clokwerk` is told.
static MINUTE: AtomicI64 = AtomicI64::new(0);

struct Minutes;

impl TimeProvider for Minutes {
    fn now<Tz: TimeZone + Sync + Send>(zone: &Tz) -> DateTime<Tz> {
        (DateTime::UNIX_EPOCH + TimeDelta::minutes(MINUTE.load(Ordering::Relaxed))).with_timezone(zone)
    }
}

struct Clokwerk(Scheduler<Utc, Minutes>);

impl Clokwerk {
    fn new() -> Self {
        let mut scheduler = Scheduler::with_tz_and_provider::<Utc, Minutes>(Utc);
        for _ in 0..EVENTS {
            scheduler.every(1.minute()).run(|| {});
        }
        Self(scheduler)
    }
}

impl Ticking for Clokwerk {
    fn tick(&mut self) {
        MINUTE.fetch_add(1, Ordering::Relaxed);
        self.0.run_pending();
    }
}

/// Measures one beside the other, and then the other beside the one.
fn in_turns(criterion: &mut Criterion, group: &str, events: u64, names: [&str; 2], mut both: [&mut dyn Ticking; 2]) {
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(events));
    for (measured, name) in names.into_iter().enumerate() {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| {
                let mut took = [Duration::ZERO; 2];
                for _ in 0..times {
                    for (ticking, took) in both.iter_mut().zip(&mut took) {
                        ticking.prepare();
                        let began = Instant::now();
                        ticking.tick();
                        *took += began.elapsed();
                    }
                }
                took[measured]
            });
        });
    }
}

fn due(criterion: &mut Criterion) {
    let mut beside_clokwerk = |name: &str, attributes: fn(Event) -> Event| {
        let names = [name, &format!("clokwerk beside {name}")];
        in_turns(criterion, "due", EVENTS, names, [&mut Soloist::new(EVENTS, attributes), &mut Clokwerk::new()]);
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
    let mut without = Soloist::new(EVENTS, attributes);
    let mut with = Soloist::observed(EVENTS, attributes, |schedule| schedule.observe(soloist::Metrics::new()));
    in_turns(criterion, "due", EVENTS, ["without metrics", "with metrics"], [&mut without, &mut with]);
}

#[cfg(not(feature = "metrics"))]
fn metrics(_: &mut Criterion) {}

fn background(criterion: &mut Criterion) {
    let mut beside_the_foreground = |name: &str, attributes: fn(Event) -> Event, background: fn(Event) -> Event| {
        let names = [name, &format!("{name}, one after another")];
        let (mut background, mut foreground) = (Soloist::new(MANY, background), Soloist::new(MANY, attributes));
        in_turns(criterion, "background", MANY, names, [&mut background, &mut foreground]);
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
