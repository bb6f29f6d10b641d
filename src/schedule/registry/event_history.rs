//! What this process knows of the runs of one event. The clones of a schedule share it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::base::escape::OneLine;
use crate::lease::token::FencingToken;
use crate::observe::outcome::RunOutcome;
use crate::observe::run_record::outcome_kind::OutcomeKind;
use crate::observe::skip_reason::SkipReason;
use crate::time::clock::moment::Moment;

/// The runs of one event, as far as this process has seen them.
#[derive(Default)]
pub(crate) struct EventHistory(Mutex<SeenRuns>);

#[derive(Clone, Default)]
pub(super) struct SeenRuns {
    pub(super) running: Vec<SeenStart>,
    pub(super) last: Option<SeenRun>,
    /// The last one that succeeded, unless that is `last`.
    success_before: Option<SeenRun>,
    /// How many in a row have failed, up to now. One that was cancelled does not count.
    pub(super) failures: u32,
    pub(super) last_skip: Option<SeenSkip>,
}

/// A run that has started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenStart {
    pub(crate) occurrence: DateTime<Utc>,
    pub(crate) token: Option<FencingToken>,
    pub(crate) at: Moment,
}

/// A run that has ended.
#[derive(Clone)]
pub(super) struct SeenRun {
    pub(super) start: SeenStart,
    pub(super) took: Duration,
    pub(super) result: OutcomeKind,
    pub(super) error: Option<Arc<str>>,
}

/// An occurrence that did not run here.
#[derive(Clone)]
pub(super) struct SeenSkip {
    pub(super) occurrence: DateTime<Utc>,
    pub(super) reason: SkipReason,
}

impl SeenRuns {
    pub(super) fn last_success(&self) -> Option<&SeenRun> {
        self.last.as_ref().filter(|run| run.is_success()).or(self.success_before.as_ref())
    }
}

impl SeenRun {
    fn is_success(&self) -> bool {
        self.result == OutcomeKind::Succeeded
    }
}

impl EventHistory {
    #[inline]
    pub(crate) fn started(&self, start: SeenStart) {
        self.seen().running.push(start);
    }

    #[inline]
    pub(crate) fn ended(&self, start: &SeenStart, outcome: &RunOutcome) {
        let result = outcome.kind();
        // Not while this is locked, because an error is shown by its own code.
        let error = if result == OutcomeKind::Succeeded { None } else { outcome.error() };
        let error = error.map(|error| OneLine(error).to_string().into());
        let run = SeenRun { start: *start, took: outcome.took, result, error };
        let mut seen = self.seen();
        if let Some(at) = seen.running.iter().position(|running| running == start) {
            seen.running.swap_remove(at);
        }
        match result {
            OutcomeKind::Succeeded => seen.failures = 0,
            OutcomeKind::Cancelled => {}
            _ => seen.failures += 1,
        }
        let before = seen.last.replace(run);
        if result != OutcomeKind::Succeeded
            && let Some(success) = before.filter(SeenRun::is_success)
        {
            seen.success_before = Some(success);
        }
    }

    pub(crate) fn skipped(&self, occurrence: DateTime<Utc>, reason: &SkipReason) {
        self.seen().last_skip = Some(SeenSkip { occurrence, reason: reason.clone() });
    }

    pub(super) fn now(&self) -> SeenRuns {
        self.seen().clone()
    }

    fn seen(&self) -> MutexGuard<'_, SeenRuns> {
        // No code that can panic runs while it is half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
