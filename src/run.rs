//! One event's run, from the gate to the release.

use std::sync::Arc;
use std::time::Duration;

use crate::fault::{attempt, contain};
use crate::gate;
use crate::guard::Held;
use crate::lease::{FencingToken, Lease};
use crate::mutex::{EventMutex, Grant};
use crate::outcome::{Ended, Hook, HookFailure, Release, RunOutcome};
use crate::report::{Entry, Verdict};
use crate::task::{Run, Task};
use crate::turn::Turn;

impl Turn<'_> {
    /// Takes the turn: gate, `before`, task, `then`, release. Nothing that a user's code does ends it early.
    pub(crate) fn take(&self) -> Entry {
        let span =
            tracing::info_span!(target: "soloist", "run", event = &*self.event.name, occurrence = %self.occurrence());
        let _in_span = span.enter();
        let verdict = match gate::admit(self) {
            Err(reason) => Verdict::Skipped(reason),
            Ok(grant) => Verdict::Ran(self.perform(grant)),
        };
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

    fn perform(&self, grant: Option<Grant>) -> RunOutcome {
        let run = Run::new(Arc::clone(&self.event.name), self.occurrence(), grant);
        let held = run.lease().map(|lease| Held::new(self.mutex, lease));
        let token = run.fencing_token();
        let mut outcome = RunOutcome {
            ended: Ended::NotStarted,
            took: Duration::ZERO,
            token,
            hook_failures: self.prepare(&run),
            release: None,
        };
        if outcome.hook_failures.is_empty() {
            (outcome.ended, outcome.took) = self.work(&run);
        }
        self.follow_up(&run, &mut outcome);
        outcome.release = held.map(give_back);
        outcome
    }

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
    fn prepare(&self, run: &Run) -> Vec<HookFailure> {
        let failed = |(at, hook): (usize, &Task)| {
            let fault = attempt(|| hook(run)).err()?;
            Some(HookFailure { hook: Hook::Before, number: at + 1, fault })
        };
        self.event.before.iter().enumerate().find_map(failed).into_iter().collect()
    }

    /// The hooks after the task, each whatever the others did.
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

fn give_back(held: Held<&dyn EventMutex, &Lease>) -> Release {
    match held.release() {
        Ok(true) => Release::Released,
        Ok(false) => Release::Lost,
        Err(error) => Release::Failed(error),
    }
}
