//! Runs one event: gate, `before` hooks, task, hooks after it, release.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tracing::Span;

use crate::base::catch_panic::contain;
use crate::base::process_id;
use crate::lease::{holder::this_host, request::Lease, term::Term, token::FencingToken};
use crate::observe::fault::{Fault, attempt};
use crate::observe::outcome::hook_failure::{Hook, HookFailure};
use crate::observe::outcome::{Ended, RunOutcome};
use crate::observe::{command_exit::CommandExit, log::print_unless_logged, release::Release, skip_reason::SkipReason};
use crate::schedule::gate::AdmittedRun;
use crate::schedule::planned_run::PlannedRun;
use crate::schedule::report::{Entry, Verdict};
use crate::task::work::{Task, Work};
use crate::task::{command::Command, orphan_policy::OrphanPolicy, run::Run};
use crate::time::{clock::moment::Moment, clock::shown::Rfc3339};

/// A planned run, and its place in the plan.
pub(super) type Planned<'a> = (usize, &'a PlannedRun<'a>);

/// A planned run on its way through a tick.
pub(super) struct Pass<'a> {
    /// Its place in the plan.
    pub(super) index: usize,
    pub(super) planned: &'a PlannedRun<'a>,
    /// The span for the `tracing` events of this run.
    pub(super) span: Span,
}

/// A run that was admitted, or asks nobody, until its result is entered.
pub(super) struct ActiveRun<'a> {
    pub(super) pass: Pass<'a>,
    admitted: AdmittedRun<'a>,
    /// Until it is performed, that it was not.
    verdict: Verdict,
}

const NOT_PERFORMED: Verdict = Verdict::Skipped(SkipReason::ShuttingDown);

impl<'a> Pass<'a> {
    #[inline]
    pub(super) fn new(index: usize, planned: &'a PlannedRun<'a>) -> Self {
        // At the level `error`, so that a filter that lets failures through lets the name of their event through, too.
        let span = tracing::error_span!(
            target: "soloist",
            "run",
            event = &*planned.event.name,
            occurrence = %Rfc3339(planned.occurrence()),
            host = &*this_host(),
            pid = process_id::current(),
        );
        Self { index, planned, span }
    }

    /// Enters that it did not run.
    pub(super) fn skip(self, reason: SkipReason, enter: &mut impl FnMut(usize, Entry)) {
        let _in_span = self.span.enter();
        let entry = self.planned.entry(Arc::clone(&self.planned.event.name), Verdict::Skipped(reason));
        self.planned.tell(&entry);
        enter(self.index, entry);
    }
}

impl<'a> ActiveRun<'a> {
    #[inline]
    pub(super) fn new(pass: Pass<'a>, admitted: AdmittedRun<'a>) -> Self {
        Self { pass, admitted, verdict: NOT_PERFORMED }
    }

    /// Performs it, unless the process has begun to shut down since it was admitted.
    #[inline]
    pub(super) fn perform(&mut self) {
        let Self { pass: Pass { planned, span, .. }, admitted, verdict } = self;
        if planned.context.is_shutting_down() {
            return;
        }
        // Tasks and hooks contain their panics, so this one is of a subscriber of `tracing`. The other runs go on.
        let panic = contain(|| {
            let _in_span = span.enter();
            *verdict = Verdict::Ran(planned.perform(admitted));
        });
        if let Err(message) = panic {
            let ended = Ended::Faulted(Fault::Panicked(message));
            *verdict = Verdict::Ran(RunOutcome::new(ended, admitted.run().fencing_token()));
        }
    }

    /// The claim, if the task did not start, so that another server can run the occurrence.
    #[inline]
    pub(super) fn unused_claim(&self) -> Option<Lease> {
        let held = &self.admitted.held;
        let is_unused = match &self.verdict {
            Verdict::Ran(outcome) => outcome.leaves_its_occurrence(),
            Verdict::Skipped(_) => true,
        };
        held.holding().tenure().claim().filter(|_| is_unused && !held.is_inherited()).cloned()
    }

    /// Ends the renewal of the lease, which the caller asks the store to take back, now or after a rest.
    #[inline]
    pub(super) fn begin_release(&self) -> Option<(Lease, Option<Term>)> {
        let (lease, rest) = self.admitted.held.begin_release()?;
        // What has not run is not held any longer.
        Some((lease, rest.filter(|_| matches!(self.verdict, Verdict::Ran(_)))))
    }

    /// Enters the result, with the answer of the store to the release, if it was asked for one.
    #[inline]
    pub(super) fn conclude(&mut self, release: Option<Release>, enter: &mut impl FnMut(usize, Entry)) {
        let Self { pass: Pass { index, planned, span }, admitted: AdmittedRun { held, .. }, verdict } = self;
        let _in_span = span.enter();
        let (run, release) = if release.is_some() { (held.take(), release) } else { held.release() };
        if let Verdict::Ran(outcome) = verdict {
            outcome.release = release;
        }
        let entry = planned.entry(run.into_event(), mem::replace(verdict, NOT_PERFORMED));
        planned.tell(&entry);
        enter(*index, entry);
    }
}

impl PlannedRun<'_> {
    #[inline]
    fn entry(&self, event: Arc<str>, verdict: Verdict) -> Entry {
        let zone = self.event.timetable.zone.clone();
        let missed_by = self.missed.is_some().then(|| self.lateness());
        Entry { event, zone, occurrence: self.occurrence(), missed_by, verdict }
    }

    /// Tells `tracing` and `catch_up` of the result.
    fn tell(&self, entry: &Entry) {
        self.settle_occurrence(&entry.verdict);
        if let Err(message) = contain(|| entry.trace()) {
            let _ = contain(|| tracing::error!(target: "soloist", error = &*message, "error that can't be shown"));
        }
        if self.context.logs_failures && entry.is_failure() {
            print_unless_logged(entry);
        }
    }

    /// `before` hooks, task, hooks after it; the caller holds the lease.
    fn perform(&self, admitted_run: &AdmittedRun<'_>) -> RunOutcome {
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
            Some(lease) => match contain(|| self.store.mutex.lifeline(lease)) {
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
