//! Runs one event: gate, `before` hooks, task, hooks after it, release.

use std::mem;
use std::sync::Arc;

use crate::base::catch_panic::contain;
use crate::lease::{request::Lease, term::Term};
use crate::observe::fault::{Fault, attempt};
use crate::observe::notice::Notice;
use crate::observe::outcome::hook_failure::{Hook, HookFailure};
use crate::observe::outcome::{Ended, RunOutcome};
use crate::observe::tell::tell;
use crate::observe::tell::trace::{TraceSpan, print_unless_logged};
use crate::observe::{outcome::command_exit::CommandExit, release::Release, skip_reason::SkipReason};
use crate::schedule::gate::AdmittedRun;
use crate::schedule::planned_run::PlannedRun;
use crate::schedule::report::{Entry, Verdict};
use crate::task::work::{Task, Work};
use crate::task::{command::Command, orphan_policy::OrphanPolicy, run::Run};
use crate::time::clock::moment::Moment;
use chrono::{DateTime, Utc};

/// A planned run, and its place in the plan.
pub(super) type Planned<'a> = (usize, &'a PlannedRun<'a>);

/// A planned run on its way through a tick.
pub(super) struct Pass<'a> {
    /// Its place in the plan.
    pub(super) index: usize,
    pub(super) planned: &'a PlannedRun<'a>,
    /// The span for the `tracing` events of this run.
    pub(super) span: TraceSpan,
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
        Self { index, planned, span: TraceSpan::of_run(&planned.event.name, planned.occurrence()) }
    }

    /// Enters that it did not run.
    pub(super) fn skip(self, reason: SkipReason, enter: &mut impl FnMut(usize, Entry)) {
        let _in_span = self.span.enter();
        let entry = self.planned.entry(Arc::clone(&self.planned.event.name), Verdict::Skipped(reason));
        self.planned.tell_result(&entry);
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
        held.holding().held().claim().filter(|_| is_unused && !held.is_inherited()).cloned()
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
        planned.tell_result(&entry);
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

    /// Tells of the result, and notes it for `catch_up`.
    fn tell_result(&self, entry: &Entry) {
        self.settle_occurrence(&entry.verdict);
        match &entry.verdict {
            Verdict::Skipped(reason) => tell(&Notice::Skipped(reason)),
            Verdict::Ran(outcome) => {
                tell(&Notice::Ended(outcome));
                outcome.hook_failures.iter().for_each(|failure| tell(&Notice::HookFailed(failure)));
                // The keeper has told of a loss that it noticed, and the release of a failure.
                if outcome.lost_at.is_none() && matches!(outcome.release, Some(Release::Lost)) {
                    tell(&Notice::LeaseLost { mutex: None, token: outcome.token });
                }
            }
        }
        if self.context.logs_failures && entry.is_failure() {
            print_unless_logged(entry);
        }
    }

    /// `before` hooks, task, hooks after it; the caller holds the lease.
    fn perform(&self, admitted_run: &AdmittedRun<'_>) -> RunOutcome {
        let run = admitted_run.run();
        let _watched = self.context.shutdown.map(|shutdown| shutdown.watch(run));
        run.cancellation().at_work().begins_here();
        let mut outcome = RunOutcome {
            hook_failures: self.prepare(run),
            unprotected: admitted_run.unprotected.clone(),
            ..RunOutcome::new(Ended::NotStarted, run.fencing_token())
        };
        // An unprotected run may have given back a late grant since it began, which took time.
        let at_once = self.event.before.is_empty() && !self.event.background && admitted_run.unprotected.is_none();
        let started = if at_once { run.held().began() } else { self.clock.moment() };
        let mut ended = started;
        // Hooks, and the wait for a thread, may have taken longer than the lease lasted.
        if outcome.hook_failures.is_empty() && run.held().gone_by(started).is_none() {
            outcome.ended = self.work(run, started, &mut outcome.exit);
            ended = self.clock.moment();
            outcome.took = ended.since(started);
            outcome.cancelled = run.cancellation().reason_at(ended);
        }
        outcome.lost_at = self.lost_by(ended, run);
        if !self.event.after.is_empty() {
            self.follow_up(run, &mut outcome);
            outcome.lost_at = self.lost_by(self.clock.moment(), run);
        }
        run.cancellation().at_work().ends();
        outcome
    }

    /// When the lease was lost, if it is by `now`.
    #[inline]
    fn lost_by(&self, now: Moment, run: &Run) -> Option<DateTime<Utc>> {
        run.held().gone_by(now).map(|moment| self.clock.wall_at(moment))
    }

    #[inline]
    fn work(&self, run: &Run, started: Moment, exit: &mut Option<Box<CommandExit>>) -> Ended {
        if self.missed.is_some() {
            tell(&Notice::CatchesUp(run.lateness()));
        }
        tell(&Notice::Started(run.fencing_token()));
        self.under_timeout(run, started, || match &self.event.work {
            Work::Callback(task) => attempt(|| task(run)).err(),
            Work::Command(command) => {
                let (fault, ended) = self.run_command(command, run);
                *exit = ended;
                fault
            }
        })
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
