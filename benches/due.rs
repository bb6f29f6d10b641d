//! Measures ticks on the store in memory: a hundred due events with and without metrics, a thousand events in the
//! background and one after another, and ticks without a due event, for each kind of timetable.
//!
//! Each pair is measured in turns, tick by tick, because the speed of a machine changes within a second. The schedules
//! use the system's clock, as in production.

use std::hint::black_box;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use soloist::{Event, MemoryMutex, Report, Schedule};

const EVENTS: u64 = 100;
const MANY: u64 = 1_000;

/// The number of ticks after which a schedule and its store are replaced. In production, a store has the claims of 15
/// ticks at most, because a claim lives for a quarter of an hour. In a benchmark, ticks follow each other at once, so
/// no claim would end.
const TICKS: u32 = 15;

struct Soloist {
    events: u64,
    attributes: fn(Event) -> Event,
    observe: fn(Schedule) -> Schedule,
    schedule: Schedule,
    ticks: u32,
    /// The last report. It is dropped in the next tick, as in a program that reads its reports.
    kept: Option<Report>,
}

impl Soloist {
    fn new(events: u64, attributes: fn(Event) -> Event) -> Self {
        Self::observed(events, attributes, |schedule| schedule)
    }

    /// Makes a schedule with events. `observe` can add observers to the schedule.
    fn observed(events: u64, attributes: fn(Event) -> Event, observe: fn(Schedule) -> Schedule) -> Self {
        let schedule = observe(Schedule::new(MemoryMutex::new()));
        for number in 0..events {
            let event = Event::call(format!("event {number}"), |_| {}).every_minute().apply(attributes);
            schedule.add(event).expect("the event is in order");
        }
        let mut soloist = Self { events, attributes, observe, schedule, ticks: 0, kept: None };
        // Two ticks are not measured, because maps and buffers grow in the first ticks.
        soloist.tick();
        soloist.tick();
        soloist
    }

    /// Prepares a tick: replaces the schedule if it has had [`TICKS`] ticks. The time of this call is not measured.
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

/// Measures two schedules, which tick in turns. Each of the two benchmarks counts only the time of one schedule.
fn in_turns(criterion: &mut Criterion, group: &str, events: u64, names: [&str; 2], mut both: [Soloist; 2]) {
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(events));
    for (measured, name) in names.into_iter().enumerate() {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| {
                let mut took = [Duration::ZERO; 2];
                for _ in 0..times {
                    for (soloist, took) in both.iter_mut().zip(&mut took) {
                        soloist.prepare();
                        let began = Instant::now();
                        soloist.tick();
                        *took += began.elapsed();
                    }
                }
                took[measured]
            });
        });
    }
}

/// Measures a due event with and without metrics. Prometheus's recorder keeps the metrics.
fn metrics(criterion: &mut Criterion) {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    metrics::set_global_recorder(recorder).expect("no other recorder is set");
    let attributes: fn(Event) -> Event = |event| event.without_overlapping().on_one_server();
    let without = Soloist::new(EVENTS, attributes);
    let with = Soloist::observed(EVENTS, attributes, |schedule| schedule.observe(soloist::observe::Metrics::new()));
    in_turns(criterion, "due", EVENTS, ["without metrics", "with metrics"], [without, with]);
}

fn background(criterion: &mut Criterion) {
    let mut beside_the_foreground = |name: &str, attributes: fn(Event) -> Event, background: fn(Event) -> Event| {
        let names = [name, &format!("{name}, one after another")];
        in_turns(criterion, "background", MANY, names, [background, attributes].map(|these| Soloist::new(MANY, these)));
    };
    beside_the_foreground("bare", |event| event, Event::in_background);
    beside_the_foreground(
        "lease and claim",
        |event| event.without_overlapping().on_one_server(),
        |event| event.without_overlapping().on_one_server().in_background(),
    );
}

/// Measures ticks without a due event, for crontabs, schedules with seconds, intervals, and crontabs with a jitter.
fn idle(criterion: &mut Criterion) {
    const EVENTS: u32 = 10_000;
    // The 1st of January 2026, a Thursday, at 12:00.
    let now = DateTime::from_timestamp(1_767_268_800, 0).expect("the timestamp is valid");
    let mut random = fastrand::Rng::with_seed(3);
    let mut group = criterion.benchmark_group("idle");
    group.throughput(Throughput::Elements(EVENTS.into()));
    for name in ["crontabs", "seconds", "intervals", "jitter"] {
        let schedule = Schedule::in_process();
        for number in 0..EVENTS {
            let event = Event::call(format!("event {number}"), |_| {});
            // No event is due from 11:00 to 14:00.
            let (minute, hour) = (random.u32(1..60), random.u32(14..35) % 24);
            let event = match name {
                "intervals" => {
                    let interval = Duration::from_secs(60 * random.u64(2..100_000));
                    event.every(interval).anchored_at(now - TimeDelta::minutes(1))
                }
                "seconds" => {
                    let schedule = format!("{} {minute} {hour} * * *", random.u32(1..60));
                    event.on(schedule.parse::<cron::Schedule>().expect("it is in order"))
                }
                "jitter" => event.cron(&format!("{minute} {hour} * * *")).jitter(Duration::from_secs(300)),
                _ => event.cron(&format!("{minute} {hour} * * *")),
            };
            schedule.add(event).expect("the event is in order");
        }
        assert_eq!(schedule.due(now).count(), 0);
        group.bench_function(name, |bencher| bencher.iter(|| schedule.run_due(black_box(now)).entries().len()));
    }
}

criterion_group!(benches, metrics, background, idle);
criterion_main!(benches);
