//! Which runs of this process another one may replace, and when to look whether it wants to. It knows no thread, no store and
//! no clock.

use std::sync::Arc;
use std::time::Duration;

use crate::hold::cancellation::Cancellation;
use crate::hold::held_lease::HoldsLease;
use crate::hold::timer_thread::{TimedJobs, TimedStep};
use crate::lease::name::MutexName;
use crate::time::clock::{about_a_second, moment::Moment};

/// The runs that may be replaced.
#[derive(Default)]
pub(super) struct Replacements {
    watched: Vec<WatchedRun>,
}

struct WatchedRun {
    run: Arc<Cancellation>,
    /// What asks it to stop.
    mark: MutexName,
    /// How long it may go on after it was told.
    patience: Duration,
    /// When the store is asked again or, once the run was told, when it has gone on for too long.
    due: Moment,
}

/// What is due.
#[derive(Debug)]
pub(super) enum ReplacementJob {
    /// Ask for these marks, and tell the runs.
    Look(Vec<(Arc<Cancellation>, MutexName)>),
    /// These have gone on for too long.
    StopRenewing(Vec<Arc<Cancellation>>),
}

impl Replacements {
    /// Watches a run that was just admitted, and returns when it is looked for the first time.
    pub(super) fn watch(&mut self, run: Arc<Cancellation>, mark: MutexName, patience: Duration, now: Moment) -> Moment {
        let due = now.plus(about_a_second());
        self.watched.push(WatchedRun { run, mark, patience, due });
        due
    }
}

impl TimedJobs for Replacements {
    type Job = ReplacementJob;
    type Answer = ();

    fn next_step(&mut self, now: Moment) -> TimedStep<ReplacementJob> {
        self.watched.retain(|watched| watched.run.held().deadline_at(now).is_some());
        let is_due = |watched: &mut WatchedRun| watched.due <= now;
        let told = self.watched.extract_if(.., |watched| is_due(watched) && watched.run.is_replaced());
        let stop_renewing: Vec<_> = told.map(|watched| watched.run).collect();
        if !stop_renewing.is_empty() {
            return TimedStep::Do(ReplacementJob::StopRenewing(stop_renewing));
        }
        let looks: Vec<_> = self
            .watched
            .iter()
            .filter(|watched| watched.due <= now)
            .map(|watched| (Arc::clone(&watched.run), watched.mark.clone()))
            .collect();
        if !looks.is_empty() {
            return TimedStep::Do(ReplacementJob::Look(looks));
        }
        self.watched.iter().map(|watched| watched.due).min().map_or(TimedStep::Rest, TimedStep::Wait)
    }

    fn on_signal(&mut self, _: usize) {}

    fn job_done(&mut self, job: &ReplacementJob, (): (), now: Moment) {
        let ReplacementJob::Look(looks) = job else { return };
        for watched in &mut self.watched {
            if looks.iter().any(|(run, _)| Arc::ptr_eq(run, &watched.run)) {
                let rest = if watched.run.is_replaced() { watched.patience } else { about_a_second() };
                watched.due = now.plus(rest);
            }
        }
    }
}
