//! Measures ten thousand futures that are due at once: the time from the tick until all futures are running, and the
//! memory of the process at that time. Each contender has a process of its own:
//!
//! - soloist on one Redis, with a lease and a claim for each future;
//! - tokio-cron-scheduler, without protection; it ticks by itself, so its time begins when the first future starts;
//! - tasks of tokio without a scheduler: the least possible cost.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta};
use soloist::{Event, RedisMutex, Schedule};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_cron_scheduler::{Job, JobScheduler};

/// The modules of the tests that start real servers.
#[allow(dead_code, unexpected_cfgs)]
#[path = "../tests/it/servers"]
mod servers {
    pub(crate) mod clock;
    mod process;
    pub(crate) mod redis;
    pub(crate) mod resp;
    mod tls;
}

/// Returns whether this program measures. If not, `cargo test` runs it, only to see that it works.
fn measures() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// Returns the number of futures.
fn many() -> u64 {
    if measures() { 10_000 } else { 100 }
}

/// Returns the number of occurrences.
fn times() -> u32 {
    if measures() { 10 } else { 1 }
}

/// The time after which a future panics, because another future has not begun.
const PATIENCE: Duration = Duration::from_secs(30);

const CONTENDER: &str = "SOLOIST_BENCH_CONTENDER";

type Contender = (&'static str, fn(&Runtime));

const CONTENDERS: [Contender; 3] =
    [("soloist, protected", soloist), ("tokio-cron-scheduler", tokio_cron_scheduler), ("tokio's tasks alone", tasks)];

fn main() {
    if let Ok(name) = std::env::var(CONTENDER) {
        let (_, run) = CONTENDERS.into_iter().find(|(known, _)| *known == name).expect("one of ours");
        return run(&Runtime::new().expect("a runtime"));
    }
    println!(
        "{:24} {:>10} {:>10} {:>8} {:>14}",
        format!("{} futures", many()),
        "median",
        "worst",
        "threads",
        "resident"
    );
    for (name, _) in CONTENDERS {
        let itself = std::env::current_exe().expect("it runs");
        let status = Command::new(itself)
            .args(std::env::args().skip(1))
            .env(CONTENDER, name)
            .status()
            .expect("it can be started again");
        assert!(status.success(), "{name}: {status}");
    }
}

/// An occurrence of all futures. It ends when all futures are running.
#[derive(Default)]
struct Occurrence {
    at_work: AtomicU64,
    is_full: Notify,
    began: Mutex<Option<Instant>>,
    took: Mutex<Vec<Duration>>,
}

impl Occurrence {
    fn begins(&self) {
        *self.began.lock().expect("no thread panics") = Some(Instant::now());
    }

    /// Runs one future: waits until all futures are running.
    async fn work(&self) {
        let full = self.is_full.notified();
        let before = self.at_work.fetch_add(1, Ordering::SeqCst);
        if before == 0 {
            self.began.lock().expect("no thread panics").get_or_insert_with(Instant::now);
        }
        if before + 1 < many() {
            let patience = tokio::time::timeout(PATIENCE, full).await;
            return patience.unwrap_or_else(|_| panic!("only {} futures began", self.at_work.load(Ordering::SeqCst)));
        }
        let began = self.began.lock().expect("no thread panics").take().expect("it has begun");
        let mut took = self.took.lock().expect("no thread panics");
        took.push(began.elapsed());
        if took.len() == times() as usize {
            report(&mut took);
        }
        self.at_work.store(0, Ordering::SeqCst);
        self.is_full.notify_waiters();
    }

    fn so_far(&self) -> usize {
        self.took.lock().expect("no thread panics").len()
    }
}

/// Prints the times and the memory of this process. It is called while all futures are running.
fn report(took: &mut [Duration]) {
    took.sort();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |what: &str| status.lines().find_map(|line| line.strip_prefix(what)).unwrap_or("?").trim().to_owned();
    let name = std::env::var(CONTENDER).expect("it is one");
    let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
    println!("{name:24} {median:>10.1?} {worst:>10.1?} {:>8} {:>14}", of("Threads:"), of("VmRSS:"));
}

fn soloist(runtime: &Runtime) {
    let server = servers::redis::Redis::start();
    let store = RedisMutex::new(&server.url()).expect("the url is in order");
    let occurrence = Arc::new(Occurrence::default());
    let schedule = Schedule::new(store).with_runtime(runtime.handle().clone());
    for number in 0..many() {
        let occurrence = Arc::clone(&occurrence);
        let event = Event::spawn(format!("event:{number}"), move |_| {
            let occurrence = Arc::clone(&occurrence);
            async move { occurrence.work().await }
        });
        let event = event.every_minute().on_one_server().without_overlapping().in_background();
        schedule.add(event).expect("the event is in order");
    }
    for minute in 1..=times() {
        occurrence.begins();
        let report = schedule.run_due(DateTime::UNIX_EPOCH + TimeDelta::minutes(minute.into()));
        assert!(!report.is_failure(), "{:?}", report.failures().next());
    }
}

fn tokio_cron_scheduler(runtime: &Runtime) {
    let occurrence = Arc::new(Occurrence::default());
    runtime.block_on(async {
        // With its default channel size of 200, this scheduler loses ticks of ten thousand jobs.
        let mut scheduler = JobScheduler::new_with_channel_size(2 * usize::try_from(many()).expect("it is small"))
            .await
            .expect("a scheduler");
        for _ in 0..many() {
            let occurrence = Arc::clone(&occurrence);
            let job = Job::new_async("1/5 * * * * *", move |_, _| {
                let occurrence = Arc::clone(&occurrence);
                Box::pin(async move { occurrence.work().await })
            });
            scheduler.add(job.expect("the expression is in order")).await.expect("it takes the job");
        }
        scheduler.start().await.expect("it starts");
        while occurrence.so_far() < times() as usize {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        scheduler.shutdown().await.expect("it ends");
    });
}

fn tasks(runtime: &Runtime) {
    let occurrence = Arc::new(Occurrence::default());
    for _ in 0..times() {
        occurrence.begins();
        let one = || {
            let occurrence = Arc::clone(&occurrence);
            runtime.spawn(async move { occurrence.work().await })
        };
        let all: Vec<_> = (0..many()).map(|_| one()).collect();
        for task in all {
            runtime.block_on(task).expect("no panic");
        }
    }
}
