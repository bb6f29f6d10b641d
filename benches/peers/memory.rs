//! Measures due events on the store in memory, compared with schedulers that protect nothing.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use clokwerk::timeprovider::TimeProvider;
use clokwerk::{Scheduler, TimeUnits};
use rustix::time::{ClockId, clock_gettime};
use soloist::{Event, MemoryMutex};
use tokio::runtime::Runtime;
use tokio_cron_scheduler::{Job, JobScheduler};

use crate::alternate::{BOTH, LEASE, NOTHING, Unit, Work};
use crate::race::Race;
use crate::ticks::{Ticks, callback, each, lease, lease_and_claim, ran, timed};

const EVENTS: usize = 100;
/// The number of ticks after which a store is replaced. In production, a store has 15 claims of an event that is due
/// once a minute, because a claim lives for 15 minutes. Here no claim ends, so 30 ticks give 15 claims on average.
pub(crate) const TICKS: usize = 30;

pub(crate) fn race(race: &mut Race) {
    let times = race.size(30, 1);
    let soloist = |attributes: fn(Event) -> Event| {
        move || {
            let tick = |_| {
                let mut ticks = Ticks::new(MemoryMutex::new(), EVENTS, attributes);
                (0..TICKS).map(|_| ticks.run()).sum::<Duration>()
            };
            each((0..times).map(tick).sum(), times * TICKS * EVENTS)
        }
    };
    let mut clokwerk = Clokwerk::with(EVENTS);
    let work = Work::new("due in memory, each of 100 events", Unit::Seconds)
        .by("clokwerk", NOTHING, || each((0..times * TICKS).map(|_| clokwerk.tick()).sum(), times * TICKS * EVENTS))
        .by("soloist, bare, with its report", NOTHING, soloist(|event| event))
        .by("soloist", LEASE, soloist(lease))
        .by("soloist", BOTH, soloist(lease_and_claim))
        .by("tokio-cron-scheduler, processor time", NOTHING, tokio_cron_scheduler);
    race.run(20, work);
}

/// Jobs that are due once a minute.
pub(crate) struct Clokwerk {
    scheduler: Scheduler<Utc, Shifted>,
    jobs: usize,
}

/// A clock that is ahead of the system's clock by the minutes that were skipped.
struct Shifted;

static SKIPPED: AtomicI64 = AtomicI64::new(0);

impl TimeProvider for Shifted {
    fn now<Tz: TimeZone + Sync + Send>(zone: &Tz) -> DateTime<Tz> {
        (Utc::now() + TimeDelta::minutes(SKIPPED.load(Ordering::Relaxed))).with_timezone(zone)
    }
}

impl Clokwerk {
    pub(crate) fn with(jobs: usize) -> Self {
        let mut scheduler = Scheduler::with_tz_and_provider::<Utc, Shifted>(Utc);
        for _ in 0..jobs {
            scheduler.every(1.minute()).run(callback);
        }
        Self { scheduler, jobs }
    }

    pub(crate) fn tick(&mut self) -> Duration {
        SKIPPED.fetch_add(1, Ordering::Relaxed);
        timed(self.jobs, || self.scheduler.run_pending())
    }
}

/// Returns the average processor time of a run, measured over all runs and all threads in two seconds. Only the
/// processor time can be measured, because this scheduler ticks by itself.
fn tokio_cron_scheduler() -> f64 {
    let processor_time = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("less than a second"))
    };
    Runtime::new().expect("a runtime").block_on(async {
        let mut scheduler = JobScheduler::new().await.expect("a scheduler");
        for _ in 0..EVENTS {
            let job = Job::new_async("* * * * * *", |_, _| Box::pin(async { callback() }));
            scheduler.add(job.expect("the expression is in order")).await.expect("it takes the job");
        }
        scheduler.start().await.expect("it starts");
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        let (runs, began) = (ran(), processor_time());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (runs, took) = (ran() - runs, processor_time().saturating_sub(began));
        assert!((EVENTS..=3 * EVENTS).contains(&runs), "{runs} runs in two seconds");
        scheduler.shutdown().await.expect("it ends");
        each(took, runs)
    })
}
