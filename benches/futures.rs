//! Ten thousand futures that are due in one tick, protected on one Redis; beside ten thousand tasks of the same runtime that
//! nothing protects. It prints how many threads and how much memory the process has while all of them are at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use soloist::{Event, RedisMutex, Schedule};
use tokio::runtime::Runtime;
use tokio::sync::Barrier;

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

const MANY: usize = 10_000;

/// Nothing takes that long, unless one of them does not begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// Is at work until all of them are. One of them says what that takes, for the first time.
async fn work(all: Arc<Barrier>, is_said: Arc<AtomicBool>, whose: &'static str) {
    let everybody = tokio::time::timeout(PATIENCE, all.wait()).await.expect("each of them begins");
    if everybody.is_leader() && !is_said.swap(true, Ordering::Relaxed) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let of = |what: &str| status.lines().find_map(|line| line.strip_prefix(what)).unwrap_or("?").trim().to_owned();
        println!("futures, {whose}: {} threads, {} resident", of("Threads:"), of("VmRSS:"));
    }
}

fn futures(criterion: &mut Criterion) {
    let server = servers::redis::Redis::start();
    let runtime = Runtime::new().expect("a runtime");
    let store = RedisMutex::new(&server.url()).expect("the url is in order");
    let all = Arc::new(Barrier::new(MANY));
    let [ours, plain] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let mut schedule = Schedule::new(store).with_runtime(runtime.handle().clone());
    for number in 0..MANY {
        let (all, is_said) = (Arc::clone(&all), Arc::clone(&ours));
        let event =
            Event::spawn(format!("event:{number}"), move |_| work(Arc::clone(&all), Arc::clone(&is_said), "protected"));
        let event = event.every_minute().on_one_server().without_overlapping().in_background();
        schedule.add(event).expect("the event is in order");
    }
    let mut minute = DateTime::UNIX_EPOCH;
    let mut group = criterion.benchmark_group("futures");
    group.throughput(Throughput::Elements(MANY as u64)).sample_size(10);
    group.bench_function("protected", |bencher| {
        bencher.iter_custom(|iterations| {
            let began = Instant::now();
            for _ in 0..iterations {
                minute += TimeDelta::minutes(1);
                assert!(!schedule.run_due(minute).is_failure());
            }
            began.elapsed()
        });
    });
    group.bench_function("tasks that nothing protects, beside protected", |bencher| {
        bencher.iter_custom(|iterations| {
            let began = Instant::now();
            for _ in 0..iterations {
                let tasks: Vec<_> = (0..MANY)
                    .map(|_| runtime.spawn(work(Arc::clone(&all), Arc::clone(&plain), "that nothing protects")))
                    .collect();
                for task in tasks {
                    runtime.block_on(task).expect("no panic");
                }
            }
            began.elapsed()
        });
    });
    group.finish();
}

criterion_group!(benches, futures);
criterion_main!(benches);
