//! One run from its admission to its end: the `before` hooks, the attempts of its task, and the hooks after it. Its
//! requests to the store are in `store_request`.

use std::mem;
use std::sync::Arc;

use chrono::DateTime;

use super::next_attempt::{AwaitedPart, FailedAttempt, RetryWait, TaskStart};
use crate::base::{catch_panic::contain, catch_panic::discard, error::BoxError};
use crate::event::protection::claim::MINUTE;
use crate::hold::held_lease::ReleaseOnDrop;
use crate::hold::renewal_thread::RenewalThread;
use crate::lease::term::Renewal;
use crate::observe::notice::{About, Step};
use crate::observe::tell::trace::Span;
use crate::outcome::cancel::CancelReason;
use crate::outcome::command_exit::CommandExit;
use crate::outcome::fault::{Fault, Hook, HookFailure};
use crate::outcome::no_retry::NoRetry;
use crate::outcome::run_outcome::{Ended, OutcomeDetails, RunOutcome};
use crate::outcome::run_record::RunId;
use crate::schedule::history::RunningNow;
use crate::schedule::run_due::planned_run::PlannedRun;
use crate::schedule::shutdown::shutdown_state::RunGuard;
use crate::task::event_task::{Task, Work};
use crate::task::future_task::TaskEnd;
use crate::task::{command::Command, orphan_policy::OrphanPolicy, run::Run};
use crate::time::clock::moment::Moment;

const BLOCKED: &str = "the caller of the schedule blocks the only thread of the task's runtime: use `run_due_async`, \
                       `run_minute_async`, `work_async` or `cli::run_async`";

/// A run that was admitted, or that needs no admission. The value exists until the result of the run is recorded.
pub(super) struct ActiveRun<'a> {
    pub(super) planned: &'a PlannedRun<'a>,
    pub(super) span: Span,
    run: Run,
    pub(super) held: ReleaseOnDrop,
    stage: RunStage<'a>,
    /// The outcome so far.
    pub(super) outcome: RunOutcome,
    /// Lets the shutdown wait for the task and its hooks.
    watched: Option<RunGuard<'a>>,
    /// The start of the first attempt.
    start: TaskStart,
    /// Whether the schedule no longer waits for the task, although the task may still be running. If so, the lease is
    /// not released, so that no other run starts before the lease ends.
    pub(super) is_abandoned: bool,
}

enum RunStage<'a> {
    /// No hook and no task has started.
    Admitted,
    /// The run has begun, and waits for a future or for a retry. Boxed, because few runs wait.
    Awaits(Box<AwaitedPart<'a>>),
    /// The task and the hooks have ended.
    Over,
}

impl<'a> ActiveRun<'a> {
    pub(super) fn new(
        planned: &'a PlannedRun<'a>,
        span: Span,
        held: ReleaseOnDrop,
        details: Option<Box<OutcomeDetails>>,
    ) -> Self {
        let outcome = RunOutcome { token: held.token(), details, ..RunOutcome::NOT_STARTED };
        let run = Run { id: planned.id.clone(), lateness: planned.lateness, attempt: 1, held: Arc::clone(&held) };
        let (stage, start) = (RunStage::Admitted, (Moment::NEVER, DateTime::UNIX_EPOCH));
        Self { planned, span, run, held, stage, outcome, watched: None, start, is_abandoned: false }
    }

    /// Performs the run, unless the process has begun to shut down since the admission. Returns whether the run now
    /// [waits](Self::awaited) for a future or for a retry. After the wait, the caller calls `perform` again.
    pub(super) fn perform(&mut self) -> bool {
        let span = self.span.clone();
        // Panics of tasks and hooks are caught elsewhere, so only a subscriber of `tracing` can panic here. Then this
        // run counts as panicked, and the other runs continue.
        let performed = contain(|| {
            let _in_span = span.enter();
            match mem::replace(&mut self.stage, RunStage::Admitted) {
                RunStage::Awaits(part) => self.go_on(*part),
                RunStage::Admitted => self.begin(),
                RunStage::Over => unreachable!("a run that is over is released"),
            }
        });
        if let Err(message) = performed {
            let ended = Ended::Faulted(Fault::Panicked(message));
            let panicked = RunOutcome { ended, token: self.outcome.token, ..RunOutcome::NOT_STARTED };
            discard(mem::replace(&mut self.outcome, panicked));
            self.tell_end();
        }
        matches!(self.stage, RunStage::Awaits(_))
    }

    /// Returns the future or the retry for which the run waits, with the run and its span. `None`: the run does not
    /// wait.
    pub(super) fn awaited(&mut self) -> Option<(&mut AwaitedPart<'a>, &Run, &Span)> {
        let Self { run, span, stage: RunStage::Awaits(part), .. } = self else { return None };
        Some((part, run, span))
    }

    /// Notes that the awaited task has ended. `None`: a wait for a retry is over.
    pub(super) fn note_end(&mut self, end: Option<TaskEnd>) {
        if let (Some(end), RunStage::Awaits(part)) = (end, &mut self.stage) {
            self.is_abandoned = end.is_abandoned;
            **part = AwaitedPart::TaskEnded(end);
        }
    }

    /// Returns whether the thread of the loop can perform the next part of the run without a delay for other runs. Such
    /// a part starts a future, or records the end of the future. It calls no hook, and sends no request to the store. If
    /// a future can't start, its run ends at once, with the hooks after the task. After the end of a future, the answer
    /// is also `false` if the event has retries and can be paused: a retry may follow, and before a retry, the store may
    /// be asked whether the event is paused.
    pub(super) fn needs_no_thread(&self) -> bool {
        let event = self.planned.event;
        let has_begun = matches!(self.stage, RunStage::Awaits(_));
        let has_no_hooks = event.before.is_empty() && event.after.is_empty();
        let asks_no_store = !has_begun || event.retry.is_none() || self.planned.pauses.is_none();
        matches!(event.work, Work::Future(_)) && has_no_hooks && asks_no_store
    }

    /// Returns whether the task and the hooks have ended. `false` before that, and for a run that was skipped because of a
    /// shutdown.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, RunStage::Over)
    }

    /// Returns whether the task did not start. Then the run needs no minimum hold, and another server can still run the
    /// occurrence.
    pub(super) fn is_unused(&self) -> bool {
        !self.is_over() || self.outcome.leaves_its_occurrence()
    }

    /// Notifies the observers of a step of this run.
    pub(super) fn tell(&self, step: &Step<'_>) {
        let about = About { run: self.held.observed_run(), ..About::from(&self.planned.id) };
        self.planned.context.schedule.observers.tell(about, step);
    }

    /// Runs the `before` hooks and the task, while the caller holds the lease. If the process has begun to shut down,
    /// the run stays in its stage, and is skipped.
    fn begin(&mut self) {
        let (PlannedRun { event, clock, context, .. }, token) = (self.planned, self.outcome.token);
        if let Some(shutdown) = &context.schedule.shutdown {
            let Some(watched) = shutdown.watch(&self.run) else { return };
            self.watched = Some(watched);
        }
        self.held.enter_thread();
        self.tell(&Step::Admitted { token, took: self.held.decided_in() });
        if let (Some(run), Some(limit)) = (self.held.observed_run(), event.failure_limit) {
            context.schedule.pause_if_it_fails(run, &event.name, limit);
        }
        let is_prepared = self.prepare();
        let began = clock.moment();
        self.start = (began, clock.now());
        // The lease may have ended, because observers, hooks or the wait for a thread took too long.
        if self.note_loss(began) || !is_prepared {
            return self.follow_up();
        }
        let late = self.planned.lateness + began.since(context.began);
        if self.planned.missed.is_some() {
            self.tell(&Step::CatchesUp(self.planned.lateness));
        } else if late >= MINUTE && !self.planned.id.is_backfill {
            self.outcome.details_mut().started_late = Some(late);
        }
        self.planned.history.started(self.running());
        self.tell(&Step::Started { token });
        // The timeout limits all attempts of the task together. At the timeout, the task is cancelled, and counts as
        // failed. If the task does not end then, a warning is logged. The hooks after the task have no timeout.
        if let Some(limit) = event.timeout {
            let end = began.plus(limit);
            self.held.limit_task_until(end);
            RenewalThread::of(self.planned.store, clock).expect_end(&self.held, &self.planned.id, end);
        }
        self.attempt();
    }

    /// Continues a run whose future has ended, or whose wait for a retry is over.
    fn go_on(&mut self, part: AwaitedPart<'a>) {
        // If the schedule no longer waits for the task, an exit of this thread must not release the lease.
        if !self.is_abandoned {
            self.held.enter_thread();
        }
        match part {
            AwaitedPart::Retry(failed, wait) => self.retry(failed, Some(wait)),
            AwaitedPart::TaskEnded(end) => {
                if self.is_abandoned {
                    self.tell(&Step::LeftBehind);
                }
                self.end_attempt(end.fault);
            }
            AwaitedPart::NextTask(_) | AwaitedPart::Task(_) => {
                unreachable!("a run continues only when its future has ended")
            }
        }
    }

    /// Starts the task. If the task is a future, the run then waits for the future.
    fn attempt(&mut self) {
        let fault = match &self.planned.event.work {
            Work::Callback(task) => fault_of(|| task(&self.run)),
            Work::Command(command) => {
                let (fault, exit) = self.planned.run_command(command, &self.run);
                if exit.is_some() || self.run.attempt() > 1 {
                    self.outcome.details_mut().exit = exit;
                }
                fault
            }
            Work::Future(task) => {
                let blocked = self.planned.context.blocked.get();
                if blocked.is_none_or(|blocked| !task.is_driven_by(*blocked)) {
                    return self.wait_for(AwaitedPart::NextTask(task));
                }
                Some(Fault::not_started(BLOCKED))
            }
        };
        self.end_attempt(fault);
    }

    /// Lets the run wait for `part`, which needs no thread.
    fn wait_for(&mut self, part: AwaitedPart<'a>) {
        self.held.leave_thread();
        self.stage = RunStage::Awaits(Box::new(part));
    }

    /// Ends the run, or lets it wait for its next attempt.
    fn end_attempt(&mut self, fault: Option<Fault>) {
        let ended = self.planned.clock.moment();
        match fault.as_ref().and_then(|fault| self.planned.failed_attempt(&self.run, fault, ended)) {
            Some(failed) => self.retry(failed, None),
            None => self.end_task(fault, ended),
        }
    }

    /// Begins the next attempt, or lets the run wait for it, or ends the run because no attempt follows.
    #[cold]
    fn retry(&mut self, failed: FailedAttempt, waited: Option<RetryWait<'a>>) {
        let attempt = self.run.attempt();
        let decision = self.planned.decide_on_attempt(&self.run, self.start, &failed);
        let has_waited = waited.is_some();
        drop(waited); // The decision is made, so a test's clock may move on.
        if decision.is_ok() && !has_waited {
            let retry_in = failed.retry_at.since(failed.ended);
            self.tell(&Step::AttemptFailed { attempt, fault: &failed.fault, retry_in });
        }
        match decision {
            Ok(None) => {
                discard(failed);
                self.planned.history.retried(&self.running());
                self.run.attempt += 1;
                self.outcome.details_mut().retries = attempt;
                self.tell(&Step::AttemptStarted { attempt: self.run.attempt() });
                self.attempt();
            }
            Ok(Some(wait)) => self.wait_for(AwaitedPart::Retry(failed, wait)),
            Err(reason) => {
                if has_waited {
                    // The hooks follow, so an exit of the process must not release the lease any more.
                    RenewalThread::of(self.planned.store, self.planned.clock).end_wait(&self.held);
                }
                self.outcome.details_mut().no_retry = Some(reason);
                self.end_task(Some(failed.fault), failed.ended);
            }
        }
    }

    /// Records the end of the task, and runs the hooks after it.
    fn end_task(&mut self, fault: Option<Fault>, ended: Moment) {
        let (began, _) = self.start;
        let took = ended.since(began);
        self.outcome.took = took;
        self.outcome.ended = match (self.planned.event.timeout, fault) {
            (Some(limit), fault) if limit <= took => Ended::TimedOut { limit, fault },
            (_, Some(fault)) => Ended::Faulted(fault),
            (_, None) => Ended::Succeeded,
        };
        if let Some(limit) = self.planned.event.timeout {
            RenewalThread::of(self.planned.store, self.planned.clock).has_ended(&self.held);
            if took < limit {
                self.held.limit_task_until(Moment::NEVER);
            }
        }
        let cancelled = self.held.reason_at_end(ended);
        let no_retry = self.outcome.no_retry();
        // A loss of the lease is a reason, too. After a wait for a retry, the lease may have been lost since `ended`.
        if cancelled.is_some() || no_retry.is_some() {
            self.note_loss(if no_retry.is_none() { ended } else { self.planned.clock.moment() });
        }
        // If the task failed by itself, the run does not count as cancelled, even if its wait for a retry was
        // cancelled.
        self.outcome.cancelled = cancelled.filter(|_| no_retry.is_none());
        if self.outcome.cancelled.is_some_and(CancelReason::is_for_the_lease)
            || matches!(no_retry, Some(NoRetry::Replaced | NoRetry::Unlocked))
        {
            self.outcome.details_mut().asked_to_stop_by = self.held.asked_by();
        }
        self.follow_up();
    }

    /// Records the time at which the lease was lost, if it was lost by `now`. Returns whether it was lost.
    fn note_loss(&mut self, now: Moment) -> bool {
        let Some(moment) = self.held.gone_by(now) else { return false };
        let details = self.outcome.details_mut();
        details.lost_at = Some(self.planned.clock.wall_at(moment));
        let fixed = self.planned.event.protection.lease.filter(|lease| lease.renewal == Renewal::Never);
        details.fixed_term = fixed.map(|lease| lease.term.get());
        true
    }

    /// Runs the `before` hooks. `false`: a hook failed, and the hooks after it were not called.
    fn prepare(&mut self) -> bool {
        let failed = |(at, hook): (usize, &Task)| {
            let fault = fault_of(|| hook(&self.run))?;
            Some(HookFailure { hook: Hook::Before, number: at + 1, fault })
        };
        let failure = self.planned.event.before.iter().enumerate().find_map(failed);
        failure.map(|failure| self.outcome.details_mut().hook_failures.push(failure)).is_none()
    }

    /// Runs all hooks after the task, even if some of them fail. Then the run is over.
    fn follow_up(&mut self) {
        let hooks = &self.planned.event.after;
        for (at, after) in hooks.iter().enumerate() {
            let wanted = match after.hook {
                Hook::OnSuccess => self.outcome.is_success(),
                Hook::OnFailure => !self.outcome.is_success(),
                Hook::Before | Hook::Then => true,
            };
            if wanted && let Some(fault) = fault_of(|| (after.call)(&self.run, &self.outcome)) {
                let earlier = hooks[..at].iter().filter(|earlier| earlier.hook == after.hook).count();
                let failure = HookFailure { hook: after.hook, number: earlier + 1, fault };
                self.outcome.details_mut().hook_failures.push(failure);
            }
        }
        if !hooks.is_empty() {
            self.note_loss(self.planned.clock.moment());
        }
        self.tell_end();
        self.held.leave_thread();
    }

    /// Returns the run for the status.
    fn running(&self) -> RunningNow {
        let RunId { occurrence, is_backfill, .. } = self.run.id;
        RunningNow {
            occurrence,
            is_backfill,
            since: self.start.1,
            attempt: self.run.attempt,
            token: self.outcome.token,
        }
    }

    /// Reports the end of the run, on the thread that performed it.
    fn tell_end(&mut self) {
        // After a panic the run may have been reported, or may not have begun.
        if !self.is_over() && self.start.0 != Moment::NEVER {
            self.planned.history.ended(&self.running(), &self.outcome);
        }
        self.stage = RunStage::Over;
        self.tell(&Step::Ended(&self.outcome));
        for failure in self.outcome.hook_failures() {
            self.tell(&Step::HookFailed(failure));
        }
        self.watched = None;
    }
}

impl PlannedRun<'_> {
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
}

/// Runs `code`, a task or a hook, and returns its error or its panic as a [`Fault`].
fn fault_of(code: impl FnOnce() -> Result<(), BoxError>) -> Option<Fault> {
    match contain(code) {
        Ok(outcome) => outcome.err().map(|error| Fault::Failed(error.into())),
        Err(message) => Some(Fault::Panicked(message)),
    }
}
