//! An observer that counts steps for the crate `metrics`. No other file uses that crate.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};
use metrics::{describe_counter, describe_gauge, describe_histogram};

use super::notice::{Notice, Step};
use super::tell::observers::Observer;
use crate::outcome::run_record::outcome_kind::OutcomeKind;
use crate::outcome::skip_reason::SkipReason;

/// An observer that counts the runs, skips and failures of a schedule. The numbers go to [the
/// recorder](https://docs.rs/metrics) that the application installs, such as [Prometheus'
/// exporter](https://docs.rs/metrics-exporter-prometheus). [The
/// book](https://docs.rs/crate/soloist/latest/source/docs/guide/observing.md) lists the metrics; `docs/` has alert
/// rules and a dashboard for them.
///
/// Install the recorder before the first tick of the schedule, because that tick creates the metrics. Counters begin
/// with 0. Several schedules can share one `Metrics` in an `Arc`. Then events with equal names share their metrics, and
/// all stores share theirs.
///
/// ```
/// use soloist::observe::Metrics;
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process().observe(Metrics::new());
/// schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping())?;
/// # assert!(!schedule.run_due(chrono::Utc::now()).is_failure());
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Metrics {
    /// `None` before the first tick.
    of_all: OnceLock<OfAll>,
    /// The metrics of each event. A removed event stays in the map, because a run of the event may not have ended yet.
    events: RwLock<HashMap<Box<str>, OfEvent>>,
}

/// The metrics that all events share.
struct OfAll {
    admission: Histogram,
    lowest_remaining: LateGauge,
    late_renewals: Counter,
    store_errors: Counter,
    stores_unavailable: Gauge,
}

struct OfEvent {
    runs: [Counter; OutcomeKind::ALL.len()],
    skips: [Counter; SkipReason::KEYWORDS.len()],
    retries: Counter,
    duration: Histogram,
    running: Gauge,
    last_start: LateGauge,
    last_success: LateGauge,
    consecutive_failures: Gauge,
    failures: AtomicU32,
    leases_lost: Counter,
    missed: Counter,
    caught_up: Counter,
    backfilled: Counter,
}

/// A gauge that does not exist before its first value is set.
struct LateGauge {
    metric: &'static str,
    event: Option<String>,
    gauge: OnceLock<Gauge>,
}

impl Metrics {
    /// Returns an observer that has counted nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the metrics of new events. The metrics of known events and of the stores keep their values.
    fn begin(&self, events: &[&str]) {
        self.of_all.get_or_init(OfAll::new);
        let mut known = self.events.write().unwrap_or_else(PoisonError::into_inner);
        for event in events.iter().filter(|event| !known.contains_key(**event)).collect::<Vec<_>>() {
            known.insert(Box::from(*event), OfEvent::new(event));
        }
    }
}

impl Observer for Metrics {
    fn observe(&self, notice: &Notice<'_>) {
        match notice.step() {
            Step::Begins { events } => self.begin(events),
            Step::LoopAlive => gauge!("soloist_loop_heartbeat_timestamp_seconds").set(timestamp(notice.at())),
            Step::Due { missed: false, .. } | Step::Released(_) | Step::Admitted { took: Duration::ZERO, .. } => {}
            step => {
                let Some(of_all) = self.of_all.get() else { return };
                of_all.count(step);
                // The duration of admissions is one metric for all events together.
                let Some(event) = notice.event().filter(|_| !matches!(step, Step::Admitted { .. })) else { return };
                if let Some(event) = self.events.read().unwrap_or_else(PoisonError::into_inner).get(event) {
                    event.count(step, notice);
                }
            }
        }
    }
}

impl OfAll {
    fn new() -> Self {
        describe();
        let this = Self {
            admission: histogram!("soloist_admission_duration_seconds"),
            lowest_remaining: LateGauge::new("soloist_lease_lowest_remaining_seconds", None),
            late_renewals: counter!("soloist_late_renewals_total"),
            store_errors: counter!("soloist_store_errors_total"),
            stores_unavailable: gauge!("soloist_store_unavailable"),
        };
        this.late_renewals.increment(0);
        this.store_errors.increment(0);
        this.stores_unavailable.increment(0);
        this
    }

    fn count(&self, step: &Step<'_>) {
        match step {
            Step::Admitted { took, .. } if *took > Duration::ZERO => self.admission.record(*took),
            Step::Renewed { late, lowest, .. } => {
                self.late_renewals.increment(*late as u64);
                self.lowest_remaining.set(lowest.as_secs_f64());
            }
            Step::NotRenewed { lowest, .. } => {
                self.store_errors.increment(1);
                self.lowest_remaining.set(lowest.as_secs_f64());
            }
            Step::StoreUnavailable(_) => self.stores_unavailable.increment(1),
            Step::StoreAvailable => self.stores_unavailable.decrement(1),
            Step::Unprotected(_) | Step::Skipped(SkipReason::StoreUnavailable(_)) => self.store_errors.increment(1),
            _ => {}
        }
    }
}

impl OfEvent {
    fn new(event: &str) -> Self {
        let counted = |counter: Counter| {
            counter.increment(0);
            counter
        };
        let this = Self {
            runs: OutcomeKind::ALL.map(|result| {
                counted(counter!("soloist_runs_total", "event" => event.to_owned(), "result" => result.keyword()))
            }),
            skips: SkipReason::KEYWORDS.map(|reason| {
                counted(counter!("soloist_skips_total", "event" => event.to_owned(), "reason" => reason))
            }),
            retries: counted(counter!("soloist_retries_total", "event" => event.to_owned())),
            duration: histogram!("soloist_run_duration_seconds", "event" => event.to_owned()),
            running: gauge!("soloist_running", "event" => event.to_owned()),
            last_start: LateGauge::new("soloist_last_start_timestamp_seconds", Some(event)),
            last_success: LateGauge::new("soloist_last_success_timestamp_seconds", Some(event)),
            consecutive_failures: gauge!("soloist_consecutive_failures", "event" => event.to_owned()),
            failures: AtomicU32::new(0),
            leases_lost: counted(counter!("soloist_leases_lost_total", "event" => event.to_owned())),
            missed: counted(counter!("soloist_missed_total", "event" => event.to_owned())),
            caught_up: counted(counter!("soloist_caught_up_total", "event" => event.to_owned())),
            backfilled: counted(counter!("soloist_backfilled_total", "event" => event.to_owned())),
        };
        this.running.increment(0);
        this.consecutive_failures.increment(0);
        this
    }

    fn count(&self, step: &Step<'_>, notice: &Notice<'_>) {
        match step {
            Step::Due { missed: true, .. } => self.missed.increment(1),
            Step::CatchesUp(_) => self.caught_up.increment(1),
            Step::Skipped(reason) => self.skips[reason.number()].increment(1),
            Step::Removed => self.fails_no_more(),
            Step::Started { .. } => {
                self.running.increment(1);
                self.last_start.set(timestamp(notice.at()));
                self.backfilled.increment(notice.is_backfill().into());
            }
            Step::AttemptStarted { .. } => self.retries.increment(1),
            Step::LeaseLost { .. } => self.leases_lost.increment(1),
            Step::Ended(outcome) => {
                let result = outcome.kind();
                self.runs[result as usize].increment(1);
                if result != OutcomeKind::NotStarted {
                    self.running.decrement(1);
                    self.duration.record(outcome.took());
                }
                match result {
                    OutcomeKind::Succeeded => {
                        self.last_success.set(timestamp(notice.at()));
                        self.fails_no_more();
                    }
                    OutcomeKind::Cancelled => {}
                    _ => self.consecutive_failures.set(self.failures.fetch_add(1, Ordering::Relaxed) + 1),
                }
            }
            _ => {}
        }
    }

    fn fails_no_more(&self) {
        if self.failures.swap(0, Ordering::Relaxed) > 0 {
            self.consecutive_failures.set(0);
        }
    }
}

impl LateGauge {
    fn new(metric: &'static str, event: Option<&str>) -> Self {
        Self { metric, event: event.map(str::to_owned), gauge: OnceLock::new() }
    }

    fn set(&self, value: f64) {
        let of_event = |event: &String| gauge!(self.metric, "event" => event.clone());
        self.gauge.get_or_init(|| self.event.as_ref().map_or_else(|| gauge!(self.metric), of_event)).set(value);
    }
}

fn timestamp(at: DateTime<Utc>) -> f64 {
    Duration::from_micros(at.timestamp_micros().try_into().unwrap_or(0)).as_secs_f64()
}

fn describe() {
    let count = Unit::Count;
    describe_counter!("soloist_runs_total", count, "Runs that have ended, by their result.");
    describe_counter!("soloist_skips_total", count, "Due occurrences that did not run in this process, by the reason.");
    describe_counter!("soloist_retries_total", count, "Retries: the attempts of a run after its first attempt.");
    describe_counter!("soloist_leases_lost_total", count, "Leases that were lost while their run was running.");
    describe_counter!("soloist_missed_total", count, "Missed occurrences: no server had run them.");
    describe_counter!("soloist_caught_up_total", count, "Runs that caught up a missed occurrence.");
    describe_counter!("soloist_backfilled_total", count, "Runs that a backfill started.");
    describe_counter!(
        "soloist_late_renewals_total",
        count,
        "Renewals that came when less than half of the term was left."
    );
    describe_counter!("soloist_store_errors_total", count, "Admissions and renewals that failed because of the store.");
    describe_gauge!("soloist_running", count, "Runs that are running in this process.");
    describe_gauge!(
        "soloist_consecutive_failures",
        count,
        "Runs that have failed since the last success in this process."
    );
    describe_gauge!("soloist_store_unavailable", count, "Stores that were unavailable at the last request.");
    let seconds = Unit::Seconds;
    describe_histogram!("soloist_run_duration_seconds", seconds, "How long the tasks took, including their retries.");
    describe_histogram!("soloist_admission_duration_seconds", seconds, "How long the store took to admit a run.");
    describe_gauge!(
        "soloist_lease_lowest_remaining_seconds",
        seconds,
        "The shortest time that was left on a lease at the last renewal or attempt to renew."
    );
    describe_gauge!("soloist_last_start_timestamp_seconds", seconds, "When a run last started in this process.");
    describe_gauge!("soloist_last_success_timestamp_seconds", seconds, "When a run last succeeded in this process.");
    describe_gauge!(
        "soloist_loop_heartbeat_timestamp_seconds",
        seconds,
        "When the loop was last awake. It wakes up at least once a minute."
    );
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
