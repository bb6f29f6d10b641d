//! An observer that counts steps for the crate `metrics`. No other file uses that crate.

use std::time::Duration;

use chrono::{DateTime, Utc};
use metrics::{Counter, Unit, counter, gauge, histogram};
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
/// with 0. If several schedules have this observer, events with equal names share their metrics, and all stores share
/// theirs.
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
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Metrics;

impl Metrics {
    /// Returns the observer.
    pub fn new() -> Self {
        Self
    }
}

impl Observer for Metrics {
    fn observe(&self, notice: &Notice<'_>) {
        let now = timestamp(notice.at());
        match notice.step() {
            Step::Begins { events } => begin(events),
            Step::LoopAlive => gauge!("soloist_loop_heartbeat_timestamp_seconds").set(now),
            Step::Admitted { took, .. } if *took > Duration::ZERO => {
                histogram!("soloist_admission_duration_seconds").record(*took);
            }
            Step::Renewed { late, lowest, .. } => {
                counter!("soloist_late_renewals_total").increment(*late as u64);
                gauge!("soloist_lease_lowest_remaining_seconds").set(lowest.as_secs_f64());
            }
            Step::NotRenewed { lowest, .. } => {
                counter!("soloist_store_errors_total").increment(1);
                gauge!("soloist_lease_lowest_remaining_seconds").set(lowest.as_secs_f64());
            }
            Step::StoreUnavailable(_) => gauge!("soloist_store_unavailable").increment(1),
            Step::StoreAvailable => gauge!("soloist_store_unavailable").decrement(1),
            Step::Unprotected(_) | Step::Skipped(SkipReason::StoreUnavailable(_)) => {
                counter!("soloist_store_errors_total").increment(1);
            }
            _ => {}
        }
        if let Some(event) = notice.event() {
            count(event, notice, now);
        }
    }
}

/// Counts a step in the metrics of its event.
fn count(event: &str, notice: &Notice<'_>, now: f64) {
    let counter = |name: &'static str| counter!(name, "event" => event.to_owned());
    let gauge = |name: &'static str| gauge!(name, "event" => event.to_owned());
    match notice.step() {
        Step::Due { missed: true, .. } => counter("soloist_missed_total").increment(1),
        Step::CatchesUp(_) => counter("soloist_caught_up_total").increment(1),
        Step::Skipped(reason) => skips(event, reason.keyword()).increment(1),
        Step::Removed => gauge("soloist_consecutive_failures").set(0),
        Step::Started { .. } => {
            gauge("soloist_running").increment(1);
            gauge("soloist_last_start_timestamp_seconds").set(now);
            counter("soloist_backfilled_total").increment(notice.is_backfill().into());
        }
        Step::AttemptStarted { .. } => counter("soloist_retries_total").increment(1),
        Step::LeaseLost { .. } => counter("soloist_leases_lost_total").increment(1),
        Step::Ended(outcome) => {
            let result = outcome.kind();
            runs(event, result).increment(1);
            if result != OutcomeKind::NotStarted {
                gauge("soloist_running").decrement(1);
                histogram!("soloist_run_duration_seconds", "event" => event.to_owned()).record(outcome.took());
            }
            match result {
                OutcomeKind::Succeeded if !outcome.is_failure() => {
                    gauge("soloist_last_success_timestamp_seconds").set(now);
                    gauge("soloist_consecutive_failures").set(0);
                }
                OutcomeKind::Cancelled => {}
                _ => gauge("soloist_consecutive_failures").increment(1),
            }
        }
        _ => {}
    }
}

fn runs(event: &str, result: OutcomeKind) -> Counter {
    counter!("soloist_runs_total", "event" => event.to_owned(), "result" => result.keyword())
}

fn skips(event: &str, reason: &'static str) -> Counter {
    counter!("soloist_skips_total", "event" => event.to_owned(), "reason" => reason)
}

/// The counters whose only label is the event, and their descriptions.
const COUNTERS_OF_AN_EVENT: [(&str, &str); 5] = [
    ("soloist_retries_total", "Retries: the attempts of a run after its first attempt."),
    ("soloist_leases_lost_total", "Leases that were lost while their run was running."),
    ("soloist_missed_total", "Missed occurrences: no server had run them."),
    ("soloist_caught_up_total", "Runs that caught up a missed occurrence."),
    ("soloist_backfilled_total", "Runs that a backfill started."),
];

/// Creates the metrics of the stores and of these events, unless they exist.
fn begin(events: &[&str]) {
    describe();
    counter!("soloist_late_renewals_total").increment(0);
    counter!("soloist_store_errors_total").increment(0);
    gauge!("soloist_store_unavailable").increment(0);
    let _ = histogram!("soloist_admission_duration_seconds");
    for event in events {
        let labels = [("event", (*event).to_owned())];
        for result in OutcomeKind::ALL {
            runs(event, result).increment(0);
        }
        for reason in SkipReason::KEYWORDS {
            skips(event, reason).increment(0);
        }
        for (name, _) in COUNTERS_OF_AN_EVENT {
            counter!(name, &labels).increment(0);
        }
        let _ = histogram!("soloist_run_duration_seconds", &labels);
        gauge!("soloist_running", &labels).increment(0);
        gauge!("soloist_consecutive_failures", &labels).increment(0);
    }
}

fn timestamp(at: DateTime<Utc>) -> f64 {
    Duration::from_micros(at.timestamp_micros().try_into().unwrap_or(0)).as_secs_f64()
}

fn describe() {
    let count = Unit::Count;
    describe_counter!("soloist_runs_total", count, "Runs that have ended, by their result.");
    describe_counter!("soloist_skips_total", count, "Due occurrences that did not run in this process, by the reason.");
    for (name, what) in COUNTERS_OF_AN_EVENT {
        describe_counter!(name, count, what);
    }
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
