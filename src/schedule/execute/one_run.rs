//! Runs one event: gate, `before` hooks, task, hooks after it, release.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tracing::Span;

use crate::base::catch_panic::contain;
use crate::base::process_id;
use crate::lease::{holder::this_host, token::FencingToken};
use crate::observe::fault::{Fault, attempt};
use crate::observe::outcome::hook_failure::{Hook, HookFailure};
use crate::observe::outcome::{Ended, RunOutcome};
use crate::observe::{command_exit::CommandExit, log::print_unless_logged, release::Release, skip_reason::SkipReason};
use crate::schedule::gate::{self, AdmittedRun};
use crate::schedule::planned_run::PlannedRun;
use crate::schedule::report::{Entry, Verdict};
use crate::task::work::{Task, Work};
use crate::task::{command::Command, orphan_policy::OrphanPolicy, run::Run};
use crate::time::{clock::moment::Moment, clock::shown::Rfc3339};

impl PlannedRun<'_> {
    /// Runs the event, from the gate to the release. No panic of a user's code ends this early.
    pub(crate) fn run(&self) -> Entry {
        let span = self.span();
        let _in_span = span.enter();
        match gate::admit(self) {
            Err(reason) => self.skip(reason),
            Ok(admitted_run) => {
                let outcome = self.perform(&admitted_run);
                self.conclude(outcome, admitted_run.held.release())
            }
        }
    }

    /// The span for the `tracing` events of this run.
    #[inline]
    pub(crate) fn span(&self) -> Span {
        // At the level `error`, so that a filter that lets failures through lets the name of their event through, too.
        tracing::error_span!(
            target: "soloist",
            "run",
            event = &*self.event.name,
            occurrence = %Rfc3339(self.occurrence()),
            host = &*this_host(),
            pid = process_id::current(),
        )
    }

    #[inline]
    pub(crate) fn skip(&self, reason: SkipReason) -> Entry {
        self.enter(Arc::clone(&self.event.name), Verdict::Skipped(reason))
    }

    /// Enters a run that has ended and whose lease was released; gives back its claim if the task did not start.
    pub(crate) fn conclude(&self, outcome: RunOutcome, released: (Run, Option<Release>)) -> Entry {
        gate::give_back_claims(self, iter::once((&outcome, &released.0)));
        self.enter_released(outcome, released)
    }

    /// Enters a run that has ended and has given back all that it is to give back.
    pub(crate) fn enter_released(&self, mut outcome: RunOutcome, (run, release): (Run, Option<Release>)) -> Entry {
        // A store that is out at the release is not asked again in this tick either.
        if let Some(outage) = release.as_ref().and_then(Release::outage) {
            self.context.outages.record(self.store.id, self.clock, Some(outage));
        }
        outcome.release = release;
        self.enter(run.into_event(), Verdict::Ran(outcome))
    }

    /// The entry of the report, which is also told to `tracing` and to `catch_up`.
    fn enter(&self, event: Arc<str>, verdict: Verdict) -> Entry {
        let zone = self.event.timetable.zone.clone();
        self.settle_occurrence(&verdict);
        let missed_by = self.missed.is_some().then(|| self.lateness());
        let entry = Entry { event, zone, occurrence: self.occurrence(), missed_by, verdict };
        if let Err(message) = contain(|| entry.trace()) {
            let _ = contain(|| tracing::error!(target: "soloist", error = &*message, "error that can't be shown"));
        }
        if self.context.logs_failures && entry.is_failure() {
            print_unless_logged(&entry);
        }
        entry
    }

    /// `before` hooks, task, hooks after it; the caller holds the lease.
    pub(crate) fn perform(&self, admitted_run: &AdmittedRun<'_>) -> RunOutcome {
        let run = admitted_run.run();
        let _watched = self.context.shutdown.map(|shutdown| shutdown.watch(run));
        run.tenure().is_performed_here();
        let mut outcome = RunOutcome {
            hook_failures: self.prepare(run),
            unprotected: admitted_run.unprotected.clone(),
            ..RunOutcome::new(Ended::NotStarted, run.fencing_token())
        };
        // An unprotected run may have given back a late grant since it began, which took time.
        let at_once = self.event.before.is_empty() && !self.event.background && admitted_run.unprotected.is_none();
        let started = if at_once { run.tenure().began() } else { self.clock.moment() };
        let mut ended = started;
        // Hooks, and the wait for a thread, may have taken longer than the lease lasted.
        if outcome.hook_failures.is_empty() && run.tenure().gone_by(started).is_none() {
            outcome.ended = self.work(run, started, &mut outcome.exit);
            ended = self.clock.moment();
            outcome.took = ended.since(started);
            outcome.cancelled = run.tenure().reason_at(ended);
        }
        outcome.lost_at = self.lost_by(ended, run);
        if !self.event.after.is_empty() {
            self.follow_up(run, &mut outcome);
            outcome.lost_at = self.lost_by(self.clock.moment(), run);
        }
        run.tenure().has_been_performed();
        outcome
    }

    /// When the lease was lost, if it is by `now`.
    #[inline]
    fn lost_by(&self, now: Moment, run: &Run) -> Option<DateTime<Utc>> {
        run.tenure().gone_by(now).map(|moment| self.clock.wall_at(moment))
    }

    #[inline]
    fn work(&self, run: &Run, started: Moment, exit: &mut Option<Box<CommandExit>>) -> Ended {
        if self.missed.is_some() {
            let late_ms = u64::try_from(run.lateness().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(target: "soloist", late_ms, "making up for what was missed");
        }
        tracing::info!(target: "soloist", token = run.fencing_token().map(FencingToken::get), "started");
        let mut fault = || match &self.event.work {
            Work::Callback(task) => attempt(|| task(run)).err(),
            Work::Command(command) => {
                let (fault, ended) = self.run_command(command, run);
                *exit = ended;
                fault
            }
        };
        match self.event.timeout {
            None => fault().map_or(Ended::Succeeded, Ended::Faulted),
            Some(limit) => self.timed(run, started, limit, fault),
        }
    }

    /// Runs the command so that it never outlives its lease: the store keeps the lease for it, or a watchdog ends it.
    fn run_command(&self, command: &Command, run: &Run) -> (Option<Fault>, Option<Box<CommandExit>>) {
        let orphan = match run.lease() {
            None => OrphanPolicy::RunOn,
            Some(lease) => match contain(|| self.mutex().lifeline(lease)) {
                Ok(Ok(Some(lifeline))) => OrphanPolicy::KeepLease(lifeline),
                Ok(Ok(None)) => OrphanPolicy::End,
                Ok(Err(error)) => return (Some(Fault::Failed(Arc::new(error))), None),
                Err(message) => return (Some(Fault::Panicked(message)), None),
            },
        };
        command.run(run, orphan)
    }

    /// Runs the task under its timeout: one that takes longer has failed, however it ends.
    fn timed(&self, run: &Run, started: Moment, limit: Duration, fault: impl FnOnce() -> Option<Fault>) -> Ended {
        run.tenure().limit_task_until(started.plus(limit));
        self.context.keepers.with(self.store, self.clock, |keeper| {
            keeper.expect_end(run.tenure(), run.id(), started.plus(limit));
        });
        let fault = fault();
        self.context.keepers.with(self.store, self.clock, |keeper| keeper.has_ended(run.tenure()));
        if limit <= self.clock.moment().since(started) {
            return Ended::TimedOut { limit, fault };
        }
        // The hooks after it have no timeout.
        run.tenure().limit_task_until(Moment::NEVER);
        fault.map_or(Ended::Succeeded, Ended::Faulted)
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

    /// The hooks after the task: each runs even if others fail.
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
