//! A tick of protected events on a server of the bench's own, over loopback, beside a raw client that writes the same
//! entries: in exact order, with four round trips for each (is it held, claim, create, forget); and in pipelines of a
//! hundred. The raw client compares no owner, hands out no token, and does not take back a claim whose lease is held.

use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use redis::{Connection, Pipeline, Value, cmd};
use soloist::{Event, RedisMutex, Schedule};

/// The servers of the tests.
#[allow(dead_code)]
#[path = "../tests/it/servers"]
mod servers {
    pub(crate) mod clock;
    mod process;
    pub(crate) mod redis;
    pub(crate) mod resp;
    mod tls;
}

const IN_ORDER: u64 = 100;
const IN_BACKGROUND: u64 = 1000;
const PIPELINE: u64 = 100;

fn schedule(url: &str, prefix: &str, events: u64, attributes: fn(Event) -> Event) -> Schedule {
    let mut schedule = Schedule::new(RedisMutex::builder(url).prefix(prefix).build().expect("the url is in order"));
    for number in 0..events {
        let event = Event::call(format!("event:{number}"), |_| {}).every_minute().on_one_server().without_overlapping();
        schedule.add(event.apply(attributes)).expect("the event is in order");
    }
    schedule
}

/// What an entry says: who holds it, under which token, since when.
const ENTRY: &str = "2f4a9f0e8f0b4b0c9a570e7a6f3d51c8-4711-1234 token=1772366400000000 term=60000 since=2026-03-01T12:00:00.000Z \
                     pid=4711 host=web-1";

fn names(number: u64, minute: DateTime<Utc>) -> (String, String) {
    let minute = minute.to_rfc3339_opts(SecondsFormat::Secs, true);
    (format!("raw:lease:{{event:{number}}}"), format!("raw:claim:{{event:{number}}}:{minute}"))
}

fn set(pipeline: &mut Pipeline, key: &str) {
    pipeline.cmd("SET").arg(key).arg(ENTRY).arg("NX").arg("PX").arg(60_000);
}

fn four_round_trips(raw: &mut Connection, minute: DateTime<Utc>) {
    for number in 0..IN_ORDER {
        let (lease, claim) = names(number, minute);
        let mut ask = |command: &redis::Cmd| command.query::<Value>(raw).expect("the server answers");
        ask(cmd("EXISTS").arg(&lease));
        ask(cmd("SET").arg(&claim).arg(ENTRY).arg("NX").arg("PX").arg(60_000));
        ask(cmd("SET").arg(&lease).arg(ENTRY).arg("NX").arg("PX").arg(60_000));
        ask(cmd("DEL").arg(&lease));
    }
}

fn pipelined(raw: &mut Connection, minute: DateTime<Utc>) {
    for first in (0..IN_BACKGROUND).step_by(usize::try_from(PIPELINE).expect("it is a hundred")) {
        let (mut gate, mut release) = (redis::pipe(), redis::pipe());
        for number in first..first + PIPELINE {
            let (lease, claim) = names(number, minute);
            set(&mut gate, &claim);
            set(&mut gate, &lease);
            release.cmd("DEL").arg(&lease);
        }
        for pipeline in [gate, release] {
            pipeline.query::<Value>(raw).expect("the server answers");
        }
    }
}

/// The processor time of this process so far, all its threads together, in clock ticks of ten milliseconds.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux says how long a process has run");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("there is a name in it").split(' ').collect();
    let ticks: u64 = [11, 12].map(|at: usize| fields[at].parse::<u64>().expect("it is a count")).iter().sum();
    Duration::from_millis(ticks * 10)
}

/// What the client itself costs, which the time that it waits for the server hides.
fn print_client_cost(name: &str, events: u64, mut tick: impl FnMut(DateTime<Utc>)) {
    let ticks = 20_000 / events;
    let began = processor_time();
    for minute in 0..ticks {
        tick(Utc::now() + TimeDelta::minutes(i64::try_from(minute).expect("it is a small number")));
    }
    let each = processor_time().saturating_sub(began).as_secs_f64() * 1e6;
    println!("redis/{name}: {:.1} µs of processor time in the client for each event", each / 20_000.0);
}

/// The two in turns, tick by tick: what is left of a ratio when the machine changes its speed between two measurements.
fn print_ratio(name: &str, mut ours: impl FnMut(DateTime<Utc>), mut raws: impl FnMut(DateTime<Utc>)) {
    let (mut our_time, mut raw_time) = (Duration::ZERO, Duration::ZERO);
    for minute in 0..100 {
        let now = Utc::now() + TimeDelta::days(30) + TimeDelta::minutes(minute);
        let began = Instant::now();
        ours(now);
        let between = Instant::now();
        raws(now);
        our_time += between - began;
        raw_time += between.elapsed();
    }
    println!("redis/{name}: {:.2} of the raw client's time, in turns", our_time.as_secs_f64() / raw_time.as_secs_f64());
}

/// Both are done in each iteration, so that the server has the same to do; one of them is timed.
fn beside(
    criterion: &mut Criterion,
    name: &str,
    events: u64,
    mut ours: impl FnMut(DateTime<Utc>),
    mut raws: impl FnMut(DateTime<Utc>),
) {
    let mut group = criterion.benchmark_group("redis");
    group.throughput(Throughput::Elements(events)).sample_size(30);
    let mut minute = DateTime::UNIX_EPOCH;
    let mut both = |timed_is_ours: bool, iterations: u64| {
        let mut took = Duration::ZERO;
        for _ in 0..iterations {
            minute += TimeDelta::minutes(1);
            let began = Instant::now();
            ours(minute);
            let between = Instant::now();
            raws(minute);
            took += if timed_is_ours { between - began } else { between.elapsed() };
        }
        took
    };
    group.bench_function(name, |bencher| bencher.iter_custom(|iterations| both(true, iterations)));
    group.bench_function(format!("raw client beside {name}"), |bencher| {
        bencher.iter_custom(|iterations| both(false, iterations));
    });
}

fn redis(criterion: &mut Criterion) {
    let server = servers::redis::Redis::start();
    let mut raw = redis::Client::open(server.url()).and_then(|client| client.get_connection()).expect("it answers");

    let in_order = schedule(&server.url(), "order:", IN_ORDER, |event| event);
    let ours = |now| assert!(!in_order.run_due(now).is_failure());
    beside(criterion, "in order", IN_ORDER, ours, |minute| four_round_trips(&mut raw, minute));
    print_ratio("in order", ours, |minute| four_round_trips(&mut raw, minute));
    print_client_cost("in order", IN_ORDER, ours);
    print_client_cost("raw client beside in order", IN_ORDER, |minute| four_round_trips(&mut raw, minute));

    let in_background = schedule(&server.url(), "background:", IN_BACKGROUND, Event::in_background);
    let ours = |now| assert!(!in_background.run_due(now).is_failure());
    beside(criterion, "in background", IN_BACKGROUND, ours, |minute| pipelined(&mut raw, minute));
    print_ratio("in background", ours, |minute| pipelined(&mut raw, minute));
    print_client_cost("in background", IN_BACKGROUND, ours);
    print_client_cost("raw client beside in background", IN_BACKGROUND, |minute| pipelined(&mut raw, minute));

    let alone = schedule(&server.url(), "alone:", 1, |event| event);
    let ours = |now| assert!(!alone.run_due(now).is_failure());
    beside(criterion, "alone", 1, ours, |minute| {
        let _: Value =
            cmd("SET").arg(format!("raw:{minute}")).arg(1).arg("PX").arg(1).query(&mut raw).expect("it answers");
    });
}

criterion_group!(benches, redis);
criterion_main!(benches);
