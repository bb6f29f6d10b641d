//! One run from its admission to its result: the `before` hooks, the attempts of its task, the hooks after it, and the
//! data of its release. The requests to the store are in `store_request`.

use std::mem;
use std::time::Duration;

use chrono::SubsecRound;

use super::retry_wait::{AwaitedPart, BegunRun, FailedAttempt, RetryWait};
use crate::base::{catch_panic::contain, error::BoxError};
use crate::event::protection::claim::MINUTE;
use crate::lease::{request::Lease, term::Renewal, term::Term};
use crate::observe::notice::{About, Step};
use crate::observe::tell::trace::{TraceSpan, print_unless_logged};
use crate::outcome::cancel::CancelReason;
use crate::outcome::fault::{Fault, Hook, HookFailure};
use crate::outcome::no_retry::NoRetry;
use crate::outcome::run_outcome::{Ended, RunOutcome};
use crate::outcome::run_record::RunId;
use crate::outcome::{command_exit::CommandExit, release::Release, skip_reason::SkipReason};
use crate::schedule::history::{LastSkip, RunningNow};
use crate::schedule::report::{Entry, Verdict};
use crate::schedule::run_admission::{self, AdmittedRun};
use crate::schedule::shutdown::shutdown_state::RunGuard;
use crate::schedule::tick_plan::planned_run::PlannedRun;
use crate::task::event_task::{Task, Work};
use crate::task::future_task::TaskEnd;
use crate::task::{command::Command, orphan_policy::OrphanPolicy, run::Run};
use crate::time::clock::moment::Moment;

const BLOCKED: &str = "the caller of the schedule blocks the only thread of the task's runtime: use `run_due_async`, \
                       `run_minute_async`, `work_async` or `cli::run_async`";

/// A planned run whose admission is not decided yet.
pub(super) struct PendingRun<'a> {
    pub(super) planned: &'a PlannedRun<'a>,
    pub(super) span: TraceSpan,
}

/// A run that was admitted, or that needs no admission. The value exists until the result of the run is recorded.
pub(super) struct ActiveRun<'a> {
    pub(super) planned: &'a PlannedRun<'a>,
    pub(super) span: TraceSpan,
    admitted: AdmittedRun,
    progress: RunProgress<'a>,
    /// Whether the schedule no longer waits for the task, although the task may still be running. If so, the lease is
    /// not released, so that no other run starts before the lease ends.
    is_abandoned: bool,
}

enum RunProgress<'a> {
    /// No hook and no task has started.
    Admitted,
    /// The run has begun, and waits for a future or for a retry.
    Awaits(Box<BegunRun<'a>>, AwaitedPart<'a>),
    /// The task and the hooks have ended with this outcome.
    Over(RunOutcome),
}

impl<'a> PendingRun<'a> {
    #[inline]
    pub(super) fn new(planned: &'a PlannedRun<'a>) -> Self {
        let instance = planned.context.instance.as_deref();
        Self { planned, span: TraceSpan::of_run(About::from(&planned.id), instance) }
    }

    /// Records that the run was skipped, with the reason.
    pub(super) fn skip(self, reason: SkipReason) {
        let Self { planned, span } = self;
        let _in_span = span.enter();
        let reason = match planned.event.stuck_after {
            Some(limit) => reason.or_stuck(limit, planned.clock.now()),
            None => reason,
        };
        if let SkipReason::Overlapping(holder) = &reason {
            planned.settle_overlapped(holder.as_ref());
        }
        let reason = planned.note_other_application(reason);
        planned.enter(Verdict::Skipped(reason));
    }
}

impl<'a> ActiveRun<'a> {
    #[inline]
    pub(super) fn new(PendingRun { planned, span }: PendingRun<'a>, admitted: AdmittedRun) -> Self {
        Self { planned, span, admitted, progress: RunProgress::Admitted, is_abandoned: false }
    }

    /// Begins a run that needs no admission.
    pub(super) fn unasked(pending: PendingRun<'a>) -> Self {
        let admitted = run_admission::begin_run(pending.planned, None, pending.planned.clock.moment());
        Self::new(pending, admitted)
    }

    /// Performs the run, unless the process has begun to shut down since the admission. If the run then
    /// [waits](Self::awaited) for a future or for a retry, the caller calls `perform` again after the wait.
    #[inline]
    pub(super) fn perform(&mut self) {
        let Self { planned, span, admitted, progress, is_abandoned } = self;
        let begun = match mem::replace(progress, RunProgress::Admitted) {
            RunProgress::Awaits(begun, part) => {
                *is_abandoned = matches!(&part, AwaitedPart::TaskEnded(end) if end.is_abandoned);
                Some((begun, part))
            }
            _ => None,
        };
        // Panics of tasks and hooks are caught elsewhere, so only a subscriber of `tracing` can panic here. Then this
        // run counts as panicked, and the other runs continue.
        let performed = contain(|| {
            let _in_span = span.enter();
            match begun {
                Some((begun, part)) => planned.go_on(&mut admitted.run, *begun, part),
                None => planned.perform(admitted),
            }
        });
        *progress = performed.unwrap_or_else(|message| {
            let ended = Ended::Faulted(Fault::Panicked(message));
            let outcome = RunOutcome::new(ended, admitted.run.fencing_token());
            tell_end(&admitted.run, &outcome);
            RunProgress::Over(outcome)
        });
    }

    /// Returns the future or the retry for which the run waits, with the run and its span. `None`: the run does not
    /// wait.
    pub(super) fn awaited(&mut self) -> Option<(&mut AwaitedPart<'a>, &Run, &TraceSpan)> {
        let Self { admitted, span, progress: RunProgress::Awaits(_, part), .. } = self else { return None };
        Some((part, &admitted.run, span))
    }

    /// Returns whether the thread of the loop can perform the next part of the run without a delay for other runs. Such
    /// a part starts a future, or records the end of the future. It calls no hook, and sends no request to the store.
    /// After the end of a future, the answer is also `false` if the event has retries and can be paused: a retry may
    /// follow, and before a retry, the store may be asked whether the event is paused.
    pub(super) fn needs_no_thread(&self) -> bool {
        let event = self.planned.event;
        let has_begun = matches!(self.progress, RunProgress::Awaits(..));
        let hooks_are_none = if has_begun { event.after.is_empty() } else { event.before.is_empty() };
        let asks_no_store = !has_begun || event.retry.is_none() || !self.planned.can_be_paused();
        matches!(event.work, Work::Future(_)) && hooks_are_none && asks_no_store
    }

    /// Returns whether the task did not start, so that another server can still run the occurrence.
    #[inline]
    fn is_unused(&self) -> bool {
        !matches!(&self.progress, RunProgress::Over(outcome) if !outcome.leaves_its_occurrence())
    }

    /// Returns the claim if the task did not start, so that the claim can be released.
    #[inline]
    pub(super) fn unused_claim(&self) -> Option<Lease> {
        let held = &self.admitted.held;
        held.claim().filter(|_| self.is_unused() && !held.is_inherited()).cloned()
    }

    /// Ends the renewal of the lease. Returns the lease and its minimum hold, so that the caller can release the lease.
    /// `None`: there is no lease to release.
    #[inline]
    pub(super) fn begin_release(&self) -> Option<(Lease, Option<Term>)> {
        let (lease, minimum_hold) = self.admitted.held.begin_release().filter(|_| !self.is_abandoned)?;
        // A run that did not start needs no minimum hold.
        Some((lease, minimum_hold.filter(|_| !self.is_unused())))
    }

    /// Records the result. `release` is the store's answer to the release of the lease, if the caller has sent the
    /// release.
    #[inline]
    pub(super) fn conclude(&mut self, release: Option<Release>) {
        let Self { planned, span, admitted: AdmittedRun { run, held, .. }, progress, is_abandoned } = self;
        let _in_span = span.enter();
        let release = if *is_abandoned || release.is_some() {
            held.disarm();
            release
        } else {
            held.release()
        };
        let verdict = match mem::replace(progress, RunProgress::Admitted) {
            RunProgress::Over(outcome) => Verdict::Ran(RunOutcome { release, ..outcome }),
            _ => Verdict::Skipped(SkipReason::ShuttingDown),
        };
        if let Verdict::Ran(outcome @ RunOutcome { release: Some(release), token, .. }) = &verdict {
            // If the renewal thread has noticed the loss, it has already reported the loss.
            if outcome.lease_lost_at().is_none() && matches!(release, Release::Lost) {
                run.tell(&Step::LeaseLost { mutex: None, token: *token });
            }
            run.tell(&Step::Released(release));
        }
        planned.enter(verdict);
    }
}

impl<'a> PlannedRun<'a> {
    /// Records the result, and notes it for `catch_up`. If the run was skipped, notifies the observers.
    #[inline]
    fn enter(&self, verdict: Verdict) {
        let RunId { event, occurrence, is_backfill } = self.id.clone();
        let zone = self.event.timetable.zone.clone();
        let missed_by = self.missed.is_some().then(|| self.lateness());
        if let Some(catch_up) = &self.event.catch_up {
            self.settle_occurrence(catch_up, &verdict);
        }
        self.compare_timetables(&verdict);
        if let Verdict::Skipped(reason) = &verdict {
            self.history.skipped(LastSkip { occurrence, is_backfill, reason: reason.clone() });
            self.tell(&Step::Skipped(reason));
        }
        let entry = Entry { event, zone, occurrence, missed_by, verdict };
        if self.context.schedule.drops_reports && entry.is_failure() {
            print_unless_logged(&entry);
        }
        let _ = self.result.set(entry); // Each run has one result.
    }

    /// Runs the `before` hooks, the task, and the hooks after it, while the caller holds the lease. If the task is a
    /// future, or if a retry follows, this returns [`RunProgress::Awaits`]. Then [`go_on`](Self::go_on) performs the
    /// rest.
    fn perform(&'a self, admitted_run: &mut AdmittedRun) -> RunProgress<'a> {
        let run = &mut admitted_run.run;
        let shutdown = self.context.schedule.shutdown.as_ref();
        let Ok(watched) = shutdown.map(|shutdown| shutdown.watch(run)).transpose() else {
            return RunProgress::Admitted;
        };
        let details = admitted_run.details.take();
        let mut outcome = RunOutcome { details, ..RunOutcome::new(Ended::NotStarted, run.fencing_token()) };
        run.tell(&Step::Admitted { token: run.fencing_token(), took: admitted_run.decided_in });
        run.held().enter_thread();
        if let Some(limit) = self.event.failure_limit {
            self.context.schedule.pause_if_it_fails(&self.event.name, limit);
        }
        let is_prepared = self.prepare(run, &mut outcome);
        let started = self.clock.moment();
        let RunId { occurrence, is_backfill, .. } = self.id;
        let (since, token) = (self.clock.now().round_subsecs(3), run.fencing_token());
        let running = RunningNow { occurrence, is_backfill, since, attempt: 1, token };
        // The lease may have ended, because observers, hooks or the wait for a thread took too long.
        if !is_prepared || run.held().gone_by(started).is_some() {
            self.note_loss(started, run, &mut outcome);
            return RunProgress::Over(self.follow_up(run, &running, outcome, watched));
        }
        if self.missed.is_some() {
            run.tell(&Step::CatchesUp(run.lateness()));
        } else if !is_backfill {
            let late = self.lateness() + started.since(self.context.began);
            if late >= MINUTE {
                outcome.details_mut().started_late = Some(late);
            }
        }
        self.history.started(running.clone());
        run.tell(&Step::Started { token });
        self.begin_timeout(run, started);
        self.attempt(run, BegunRun { running, began: started, watched, outcome })
    }

    /// Continues a run whose future has ended, or whose wait for a retry is over.
    fn go_on(&'a self, run: &mut Run, begun: BegunRun<'a>, part: AwaitedPart<'a>) -> RunProgress<'a> {
        run.held().enter_thread();
        match part {
            AwaitedPart::Retry(failed, wait) => self.retry(run, begun, failed, Some(wait)),
            AwaitedPart::TaskEnded(TaskEnd { fault, is_abandoned }) => {
                if is_abandoned {
                    run.tell(&Step::LeftBehind);
                }
                self.end_attempt(run, begun, fault)
            }
            AwaitedPart::NextTask(_) | AwaitedPart::Task(_) => {
                unreachable!("a run continues only when its future has ended")
            }
        }
    }

    #[inline]
    fn attempt(&'a self, run: &mut Run, mut begun: BegunRun<'a>) -> RunProgress<'a> {
        let fault = match &self.event.work {
            Work::Callback(task) => fault_of(|| task(run)),
            Work::Command(command) => {
                let (fault, exit) = self.run_command(command, run);
                if exit.is_some() || run.attempt() > 1 {
                    begun.outcome.details_mut().exit = exit;
                }
                fault
            }
            Work::Future(task) if self.context.blocked.get().is_some_and(|blocked| task.is_driven_by(*blocked)) => {
                Some(Fault::not_started(BLOCKED))
            }
            Work::Future(task) => {
                run.held().leave_thread();
                return RunProgress::Awaits(Box::new(begun), AwaitedPart::NextTask(task));
            }
        };
        self.end_attempt(run, begun, fault)
    }

    /// Ends the run, or lets it wait for its next attempt.
    #[inline]
    fn end_attempt(&'a self, run: &mut Run, begun: BegunRun<'a>, fault: Option<Fault>) -> RunProgress<'a> {
        let ended = self.clock.moment();
        match fault.as_ref().and_then(|fault| self.failed_attempt(run, fault, ended)) {
            Some(failed) => self.retry(run, begun, failed, None),
            None => RunProgress::Over(self.end_task(run, begun, fault, ended)),
        }
    }

    /// Begins the next attempt, or lets the run wait for it, or ends the run because no attempt follows.
    #[cold]
    fn retry(
        &'a self,
        run: &mut Run,
        mut begun: BegunRun<'a>,
        mut failed: FailedAttempt,
        waited: Option<RetryWait<'a>>,
    ) -> RunProgress<'a> {
        let attempt = run.attempt();
        let decision = self.decide_on_attempt(run, &begun, &failed);
        drop(waited); // The decision is made, so a test's clock may move on.
        if decision.is_ok() && !mem::replace(&mut failed.is_told, true) {
            let retry_in = failed.retry_at.since(failed.ended);
            run.tell(&Step::AttemptFailed { attempt, fault: &failed.fault, retry_in });
        }
        match decision {
            Ok(None) => {
                run.count_attempt();
                begun.outcome.details_mut().retries = attempt;
                self.history.retried(&mut begun.running);
                run.tell(&Step::AttemptStarted { attempt: run.attempt() });
                self.attempt(run, begun)
            }
            Ok(Some(wait)) => {
                run.held().leave_thread();
                RunProgress::Awaits(Box::new(begun), AwaitedPart::Retry(failed, wait))
            }
            Err(reason) => {
                begun.outcome.details_mut().no_retry = Some(reason);
                RunProgress::Over(self.end_task(run, begun, Some(failed.fault), failed.ended))
            }
        }
    }

    /// Records the end of the task, and runs the hooks after it.
    #[inline]
    fn end_task(&self, run: &Run, begun: BegunRun<'_>, fault: Option<Fault>, ended: Moment) -> RunOutcome {
        let BegunRun { running, began, watched, mut outcome } = begun;
        outcome.took = ended.since(began);
        outcome.ended = self.end_timeout(run, outcome.took, fault);
        let (cancelled, no_retry) = (run.held().reason_at_end(ended), outcome.no_retry());
        // If the task failed by itself, the run does not count as cancelled, even if its wait for a retry was
        // cancelled.
        outcome.cancelled = cancelled.filter(|_| no_retry.is_none());
        if outcome.cancelled.is_some_and(CancelReason::is_for_the_lease)
            || matches!(no_retry, Some(NoRetry::Replaced | NoRetry::Unlocked))
        {
            outcome.details_mut().asked_to_stop_by = run.held().asked_by().cloned();
        }
        let seen = if no_retry.is_none() { ended } else { self.clock.moment() };
        self.note_loss(seen, run, &mut outcome);
        self.follow_up(run, &running, outcome, watched)
    }

    /// Begins the timeout, which limits all attempts of the task together. At the timeout, the task is cancelled, and
    /// counts as failed. If the task does not end then, a warning is logged. The hooks after the task have no timeout.
    #[inline]
    fn begin_timeout(&self, run: &Run, began: Moment) {
        if let Some(limit) = self.event.timeout {
            let end = began.plus(limit);
            run.held().limit_task_until(end);
            self.renewal_thread().expect_end(run.held(), run.id(), end);
        }
    }

    /// Returns how the task ended, after the time `took` and with this `fault`.
    #[inline]
    fn end_timeout(&self, run: &Run, took: Duration, fault: Option<Fault>) -> Ended {
        if let Some(limit) = self.event.timeout {
            self.renewal_thread().has_ended(run.held());
            if limit <= took {
                return Ended::TimedOut { limit, fault };
            }
            run.held().limit_task_until(Moment::NEVER);
        }
        fault.map_or(Ended::Succeeded, Ended::Faulted)
    }

    /// Records the time at which the lease was lost, if it was lost by `now`.
    #[inline]
    fn note_loss(&self, now: Moment, run: &Run, outcome: &mut RunOutcome) {
        if let Some(moment) = run.held().gone_by(now) {
            outcome.details_mut().lost_at = Some(self.clock.wall_at(moment));
            let fixed = self.event.protection.lease.filter(|lease| lease.renewal == Renewal::Never);
            outcome.details_mut().fixed_term = fixed.map(|lease| lease.term.get());
        }
    }

    /// Runs the command so that it never outlives its lease: either the store keeps the lease until the command ends,
    /// or a watchdog ends the command.
    fn run_command(&self, command: &Command, run: &Run) -> (Option<Fault>, Option<CommandExit>) {
        let orphan = match run.lease() {
            None => OrphanPolicy::RunOn,
            Some(lease) => match contain(|| self.store.mutex.lifeline(lease)) {
                Ok(Ok(Some(lifeline))) => OrphanPolicy::KeepLease(lifeline),
                Ok(Ok(None)) => OrphanPolicy::End,
                Ok(Err(error)) => return (Some(Fault::not_started(error)), None),
                Err(message) => return (Some(Fault::Panicked(message)), None),
            },
        };
        command.run(run, orphan)
    }

    /// Runs the `before` hooks. `false`: a hook failed, and the hooks after it were not called.
    #[inline]
    fn prepare(&self, run: &Run, outcome: &mut RunOutcome) -> bool {
        let failed = |(at, hook): (usize, &Task)| {
            let fault = fault_of(|| hook(run))?;
            Some(HookFailure { hook: Hook::Before, number: at + 1, fault })
        };
        let failure = self.event.before.iter().enumerate().find_map(failed);
        failure.map(|failure| outcome.details_mut().hook_failures.push(failure)).is_none()
    }

    /// Runs all hooks after the task, even if some of them fail.
    #[inline]
    fn follow_up(
        &self,
        run: &Run,
        running: &RunningNow,
        mut outcome: RunOutcome,
        watched: Option<RunGuard<'_>>,
    ) -> RunOutcome {
        for (at, after) in self.event.after.iter().enumerate() {
            let wanted = match after.hook {
                Hook::OnSuccess => outcome.is_success(),
                Hook::OnFailure => !outcome.is_success(),
                Hook::Before | Hook::Then => true,
            };
            if wanted && let Some(fault) = fault_of(|| (after.call)(run, &outcome)) {
                let earlier = self.event.after[..at].iter().filter(|earlier| earlier.hook == after.hook).count();
                let failure = HookFailure { hook: after.hook, number: earlier + 1, fault };
                outcome.details_mut().hook_failures.push(failure);
            }
        }
        if !self.event.after.is_empty() {
            self.note_loss(self.clock.moment(), run, &mut outcome);
        }
        run.held().leave_thread();
        self.history.ended(running, &outcome);
        tell_end(run, &outcome);
        drop(watched);
        outcome
    }
}

/// Runs `code`, a task or a hook, and returns its error or its panic as a [`Fault`].
fn fault_of(code: impl FnOnce() -> Result<(), BoxError>) -> Option<Fault> {
    match contain(code) {
        Ok(outcome) => outcome.err().map(|error| Fault::Failed(error.into())),
        Err(message) => Some(Fault::Panicked(message)),
    }
}

/// Reports the end of the run, on the thread that performed it.
fn tell_end(run: &Run, outcome: &RunOutcome) {
    run.tell(&Step::Ended(outcome));
    outcome.hook_failures().iter().for_each(|failure| run.tell(&Step::HookFailed(failure)));
}
