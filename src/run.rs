//! One event's run, from the gate to the release.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tracing::Span;

use crate::fault::{attempt, contain};
use crate::gate::{self, Pass};
use crate::lease::FencingToken;
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
            Ok(pass) => {
                let mut outcome = self.perform(&pass);
                outcome.release = pass.held.release().inspect(|release| self.heard(release));
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

    /// `before`, task, `then`, while somebody holds the lease.
    #[inline]
    pub(crate) fn perform(&self, pass: &Pass<'_>) -> RunOutcome {
        let run = pass.run();
        let mut outcome = RunOutcome {
            hook_failures: self.prepare(run),
            unprotected: pass.unprotected.clone(),
            ..RunOutcome::new(Ended::NotStarted, run.fencing_token())
        };
        if outcome.hook_failures.is_empty() {
            (outcome.ended, outcome.took) = self.work(run);
        }
        outcome.lost_at = self.lost_at(run);
        if !self.event.after.is_empty() {
            self.follow_up(run, &mut outcome);
            outcome.lost_at = self.lost_at(run);
        }
        outcome
    }

    /// Since when the lease has been lost, if it has.
    #[inline]
    fn lost_at(&self, run: &Run) -> Option<DateTime<Utc>> {
        run.tenure().gone_since().map(|moment| self.clock.wall_at(moment))
    }

    /// An outage at the release is one for the rest of the tick.
    #[inline]
    pub(crate) fn heard(&self, release: &Release) {
        if let Some(outage) = release.outage() {
            self.round.outages.heard(self.store.id, self.clock, Some(outage));
        }
    }

    #[inline]
    fn work(&self, run: &Run) -> (Ended, Duration) {
        tracing::debug!(target: "soloist", token = run.fencing_token().map(FencingToken::get), "started");
        let started = if self.event.before.is_empty() { run.tenure().began() } else { self.clock.moment() };
        if let Some(limit) = self.event.timeout {
            run.tenure().limit(limit, started);
            self.round.keepers.with(self.store, self.clock, |keeper| keeper.expect_end(run, started.plus(limit)));
        }
        let fault = attempt(|| (self.event.task)(run)).err();
        let took = self.clock.moment().since(started);
        if self.event.timeout.is_some() {
            self.round.keepers.with(self.store, self.clock, |keeper| keeper.has_ended(run));
        }
        let ended = match (self.event.timeout, fault) {
            (Some(limit), fault) if limit <= took => Ended::TimedOut { limit, fault },
            (_, None) => Ended::Succeeded,
            (_, Some(fault)) => Ended::Faulted(fault),
        };
        (ended, took)
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
