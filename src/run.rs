//! One event's run, from the gate to the release.

use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use crate::error::MutexError;
use crate::fault::{attempt, contain};
use crate::gate;
use crate::guard::Held;
use crate::lease::FencingToken;
use crate::mutex::Grant;
use crate::outcome::{Ended, Hook, HookFailure, Release, RunOutcome};
use crate::report::{Entry, Verdict};
use crate::task::{Run, Task};
use crate::turn::Turn;

impl Turn<'_> {
    /// Takes the turn: gate, `before`, task, `then`, release. Nothing that a user's code does ends it early.
    pub(crate) fn take(&self) -> Entry {
        let span = self.span();
        let _in_span = span.enter();
        self.conclude(match gate::admit(self) {
            Err(reason) => Verdict::Skipped(reason),
            Ok(grant) => {
                let run = self.begin(grant);
                let held = run.lease().map(|lease| Held::new(self.mutex, lease));
                let mut outcome = self.perform(&run);
                outcome.release = held.map(|held| self.released(held.release()));
                Verdict::Ran(outcome)
            }
        })
    }

    /// What the events of `tracing` that belong to this run lie within.
    #[inline]
    pub(crate) fn span(&self) -> Span {
        tracing::info_span!(target: "soloist", "run", event = &*self.event.name, occurrence = %self.occurrence())
    }

    /// What became of the turn, as it is told and kept.
    #[inline]
    pub(crate) fn conclude(&self, verdict: Verdict) -> Entry {
        let entry = Entry {
            event: Arc::clone(&self.event.name),
            zone: self.event.timetable.zone.clone(),
            occurrence: self.occurrence(),
            verdict,
        };
        if let Err(message) = contain(|| entry.trace()) {
            tracing::error!(target: "soloist", error = &*message, "error that can't be shown");
        }
        entry
    }

    #[inline]
    pub(crate) fn begin(&self, grant: Option<Grant>) -> Run {
        Run::new(Arc::clone(&self.event.name), self.occurrence(), grant)
    }

    /// `before`, task, `then`, while somebody holds the lease.
    #[inline]
    pub(crate) fn perform(&self, run: &Run) -> RunOutcome {
        let mut outcome = RunOutcome {
            ended: Ended::NotStarted,
            took: Duration::ZERO,
            token: run.fencing_token(),
            hook_failures: self.prepare(run),
            release: None,
        };
        if outcome.hook_failures.is_empty() {
            (outcome.ended, outcome.took) = self.work(run);
        }
        self.follow_up(run, &mut outcome);
        outcome
    }

    /// What the store's answer to a release means; an outage is one for the rest of the tick.
    #[inline]
    pub(crate) fn released(&self, answer: Result<bool, MutexError>) -> Release {
        match answer {
            Ok(true) => Release::Released,
            Ok(false) => Release::Lost,
            Err(error) => {
                if error.is_unavailable() {
                    self.round.outages.heard(self.store, self.clock, Some(&error));
                }
                Release::Failed(error)
            }
        }
    }

    #[inline]
    fn work(&self, run: &Run) -> (Ended, Duration) {
        tracing::debug!(target: "soloist", token = run.fencing_token().map(FencingToken::get), "started");
        let started = self.clock.moment();
        let ended = match attempt(|| (self.event.task)(run)) {
            Ok(()) => Ended::Succeeded,
            Err(fault) => Ended::Faulted(fault),
        };
        (ended, self.clock.moment().since(started))
    }

    /// The `before` hooks, up to the first that fails.
    #[inline]
    fn prepare(&self, run: &Run) -> Vec<HookFailure> {
        let failed = |(at, hook): (usize, &Task)| {
            let fault = attempt(|| hook(run)).err()?;
            Some(HookFailure { hook: Hook::Before, number: at + 1, fault })
        };
        self.event.before.iter().enumerate().find_map(failed).into_iter().collect()
    }

    /// The hooks after the task, each whatever the others did.
    #[inline]
    fn follow_up(&self, run: &Run, outcome: &mut RunOutcome) {
        for (at, after) in self.event.after.iter().enumerate() {
            let wanted = match after.hook {
                Hook::OnSuccess => outcome.is_success(),
                Hook::OnFailure => !outcome.is_success(),
                Hook::Before | Hook::Then => true,
            };
            if wanted && let Err(fault) = attempt(|| (after.call)(run, outcome)) {
                let earlier = self.event.after[..at].iter().filter(|earlier| earlier.hook == after.hook).count();
                outcome.hook_failures.push(HookFailure { hook: after.hook, number: earlier + 1, fault });
            }
        }
    }
}
