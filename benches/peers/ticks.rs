//! A schedule whose events are all due once a minute. Each tick is for the next minute, but the ticks follow each other
//! without a wait. The schedule and its store use the system's clock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use soloist::{Event, EventMutex, Report, Schedule, SkipReason, Verdict};

/// The number of callbacks that have run, of all contenders together.
static RAN: AtomicUsize = AtomicUsize::new(0);

/// Counts a run. Every event has this callback.
pub(crate) fn callback() {
    RAN.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn ran() -> usize {
    RAN.load(Ordering::Relaxed)
}

/// Measures the time of `work`, and asserts that `runs` callbacks have run in it.
#[track_caller]
pub(crate) fn timed(runs: usize, work: impl FnOnce()) -> Duration {
    let before = ran();
    let began = Instant::now();
    work();
    let took = began.elapsed();
    assert_eq!(ran() - before, runs, "events ran");
    took
}

/// Returns the time of one part in seconds: `took` divided by `count`.
#[expect(clippy::cast_precision_loss, reason = "they are few")]
pub(crate) fn each(took: Duration, count: usize) -> f64 {
    took.as_secs_f64() / count as f64
}

pub(crate) fn lease(event: Event) -> Event {
    event.without_overlapping()
}

pub(crate) fn lease_and_claim(event: Event) -> Event {
    event.without_overlapping().on_one_server()
}

pub(crate) struct Ticks {
    schedule: Schedule,
    events: usize,
    minute: DateTime<Utc>,
    /// The report of the last tick. It is dropped in the next tick, so the time of the drop is measured, too.
    kept: Option<Report>,
}

impl Ticks {
    pub(crate) fn new(mutex: impl EventMutex + 'static, events: usize, attributes: fn(Event) -> Event) -> Self {
        let schedule = Schedule::new(mutex);
        for number in 0..events {
            let event = Event::call(format!("event:{number}"), |_| callback()).every_minute().apply(attributes);
            schedule.add(event).expect("the event is in order");
        }
        Self { schedule, events, minute: Utc::now(), kept: None }
    }

    /// Ticks, and asserts that each event has run.
    #[track_caller]
    pub(crate) fn run(&mut self) -> Duration {
        self.minute += TimeDelta::minutes(1);
        let took = self.tick(self.events);
        assert_eq!(self.counts(), [self.events, 0], "succeeded and lost");
        took
    }

    /// Ticks in a minute in which `winner` has run all events, and asserts that this server runs none of them.
    #[track_caller]
    pub(crate) fn lose(&mut self, winner: &Self) -> Duration {
        self.minute = winner.minute;
        let took = self.tick(0);
        assert_eq!(self.counts(), [0, self.events], "succeeded and lost");
        took
    }

    /// Ticks while other processes tick in this minute, too. Returns how many events ran here, and how many ran in
    /// another process.
    pub(crate) fn compete(&mut self, minute: DateTime<Utc>) -> [usize; 2] {
        self.kept = Some(self.schedule.run_due(minute));
        self.counts()
    }

    fn tick(&mut self, runs: usize) -> Duration {
        timed(runs, || {
            drop(self.kept.take());
            self.kept = Some(self.schedule.run_due(self.minute));
        })
    }

    /// Counts the events of the last tick that succeeded here, and the events that another process has run or is
    /// running.
    fn counts(&self) -> [usize; 2] {
        let mut counts = [0, 0];
        for entry in self.kept.iter().flat_map(Report::entries) {
            match entry.verdict() {
                Verdict::Ran(outcome) if outcome.is_success() => counts[0] += 1,
                Verdict::Skipped(SkipReason::RanElsewhere(_) | SkipReason::Overlapping(_)) => counts[1] += 1,
                _ => {}
            }
        }
        counts
    }
}
