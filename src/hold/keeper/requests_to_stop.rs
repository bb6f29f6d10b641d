//! Which runs of this process somebody else may ask to stop, and when to look whether somebody does. It knows no thread, no store
//! and no clock.
//!
//! A run that another one may replace is looked for about once a second. Any other is looked for once with each renewal of its
//! lease, for operators who free it: one that ends before its first renewal costs nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::hold::held_lease::HoldsLease;
use crate::hold::timer_thread::{TimedJobs, TimedStep};
use crate::lease::name::MutexName;
use crate::time::clock::{about_a_second, moment::Moment};

/// The runs that may be asked to stop.
#[derive(Default)]
pub(super) struct RequestsToStop {
    watched: Vec<WatchedRun>,
}

struct WatchedRun {
    run: Arc<dyn HoldsLease>,
    /// What asks it to stop.
    mark: MutexName,
    /// How long it may go on after it was asked. `None`: it is looked for once, and may go on as long as it does.
    patience: Option<Duration>,
    /// When the store is asked again or, once the run was asked to stop, when it has gone on for too long.
    due: Moment,
}

/// What is due.
#[derive(Debug)]
pub(super) enum StopJob {
    /// Look for these marks, and tell the runs.
    Look(Vec<(Arc<dyn HoldsLease>, MutexName)>),
    /// These have gone on for too long.
    StopRenewing(Vec<Arc<dyn HoldsLease>>),
}

impl RequestsToStop {
    /// Watches a run that was just admitted, and returns when it is looked for the first time.
    pub(super) fn watch(
        &mut self,
        run: Arc<dyn HoldsLease>,
        mark: MutexName,
        patience: Duration,
        now: Moment,
    ) -> Moment {
        let due = now.plus(about_a_second());
        self.watched.push(WatchedRun { run, mark, patience: Some(patience), due });
        due
    }

    /// Looks once for those of these runs that are not watched.
    pub(super) fn look_once(&mut self, runs: Vec<Arc<dyn HoldsLease>>, now: Moment) {
        for run in runs {
            let Some(lease) = run.held().lease() else { continue };
            let is_watched = self.watched.iter().any(|watched| Arc::ptr_eq(&watched.run, &run));
            if !is_watched && !run.gives_way() {
                let mark = lease.name().request_to_stop(lease.token());
                self.watched.push(WatchedRun { run, mark, patience: None, due: now });
            }
        }
    }
}

impl TimedJobs for RequestsToStop {
    type Job = StopJob;
    type Answer = ();

    fn next_step(&mut self, now: Moment) -> TimedStep<StopJob> {
        self.watched.retain(|watched| watched.run.held().deadline_at(now).is_some());
        let is_due = |watched: &mut WatchedRun| watched.due <= now;
        let told = self.watched.extract_if(.., |watched| is_due(watched) && watched.run.gives_way());
        let stop_renewing: Vec<_> = told.map(|watched| watched.run).collect();
        if !stop_renewing.is_empty() {
            return TimedStep::Do(StopJob::StopRenewing(stop_renewing));
        }
        let looks: Vec<_> = self
            .watched
            .iter()
            .filter(|watched| watched.due <= now)
            .map(|watched| (Arc::clone(&watched.run), watched.mark.clone()))
            .collect();
        if !looks.is_empty() {
            return TimedStep::Do(StopJob::Look(looks));
        }
        self.watched.iter().map(|watched| watched.due).min().map_or(TimedStep::Rest, TimedStep::Wait)
    }

    fn on_signal(&mut self, _: usize) {}

    fn job_done(&mut self, job: &StopJob, (): (), now: Moment) {
        let StopJob::Look(looks) = job else { return };
        self.watched.retain_mut(|watched| {
            if !looks.iter().any(|(run, _)| Arc::ptr_eq(run, &watched.run)) {
                return true;
            }
            let Some(patience) = watched.patience else { return false };
            watched.due = now.plus(if watched.run.gives_way() { patience } else { about_a_second() });
            true
        });
    }
}
