//! Runs one event: gate, `before` hooks, task, hooks after it, release.

use std::sync::Arc;

use crate::base::catch_panic::contain;
use crate::event::definition::Definition;
use crate::lease::{owner::Owner, request::Lease, term::Term};
use crate::observe::cancel::CancelReason;
use crate::observe::fault::{Fault, attempt};
use crate::observe::notice::{About, Step};
use crate::observe::outcome::hook_failure::{Hook, HookFailure};
use crate::observe::outcome::{Ended, RunOutcome};
use crate::observe::tell::trace::{TraceSpan, print_unless_logged};
use crate::observe::{outcome::command_exit::CommandExit, release::Release, skip_reason::SkipReason};
use crate::schedule::gate::AdmittedRun;
use crate::schedule::planned_run::PlannedRun;
use crate::schedule::registry::event_history::SeenStart;
use crate::schedule::report::{Entry, Verdict};
use crate::schedule::shutdown::shutdown_state::RunGuard;
use crate::task::future_task::{FutureTask, PreparedTask, TaskEnd};
use crate::task::work::{Task, Work};
use crate::task::{command::Command, orphan_policy::OrphanPolicy, run::Run};
use crate::time::clock::moment::Moment;

const BLOCKED: &str = "this call blocks the only thread of its runtime; in a task, use `run_due_async`, `run_minute_async` or \
                       `work_async`";

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
    admitted: AdmittedRun,
    /// Set while its task, a future, is at work elsewhere.
    begun: Option<Box<BegunRun<'a>>>,
    /// Whether its task may still hold something, although it does not go on: then its lease ends with its term.
    is_abandoned: bool,
    /// `None` until it is performed. It is large: it is filled in where it is.
    outcome: Option<RunOutcome>,
}

/// A run whose task, a future, has begun, and perhaps ended.
struct BegunRun<'a> {
    start: SeenStart,
    watched: Option<RunGuard<'a>>,
    /// How its task ended.
    end: Option<TaskEnd>,
}

impl<'a> Pass<'a> {
    #[inline]
    pub(super) fn new(index: usize, planned: &'a PlannedRun<'a>) -> Self {
        let instance = planned.context.instance.as_deref();
        Self { index, planned, span: TraceSpan::of_run(&planned.event.name, planned.occurrence(), instance) }
    }

    /// Enters that it did not run.
    pub(super) fn skip(self, reason: SkipReason, enter: &mut impl FnMut(usize, Entry)) {
        let _in_span = self.span.enter();
        let Definition { name, stuck_after, .. } = self.planned.event;
        let reason = match stuck_after {
            Some(limit) => reason.or_stuck(*limit, self.planned.clock.now()),
            None => reason,
        };
        let reason = self.planned.note_other_application(reason);
        let entry = self.planned.entry(Arc::clone(name), Verdict::Skipped(reason));
        self.planned.tell_result(&entry, None);
        enter(self.index, entry);
    }
}

impl<'a> ActiveRun<'a> {
    #[inline]
    pub(super) fn new(pass: Pass<'a>, admitted: AdmittedRun) -> Self {
        Self { pass, admitted, begun: None, is_abandoned: false, outcome: None }
    }

    /// Performs it, unless the process has begun to shut down since it was admitted. If its task is a future, that is
    /// returned: the run is performed further once [it has ended](Self::task_has_ended).
    #[inline]
    pub(super) fn perform(&mut self) -> Option<PreparedTask> {
        let Self { pass: Pass { planned, span, .. }, admitted, begun, is_abandoned, outcome } = self;
        if begun.is_none() && planned.context.is_shutting_down() {
            return None;
        }
        // Tasks and hooks contain their panics, so this one is of a subscriber of `tracing`. The other runs go on.
        let performed = contain(|| {
            let _in_span = span.enter();
            if let (Some(begun), Some(outcome)) = (begun.take(), &mut *outcome) {
                *is_abandoned = begun.end.as_ref().is_some_and(|end| end.is_abandoned);
                planned.conclude_task(&admitted.run, *begun, outcome);
                return None;
            }
            let outcome = outcome.insert(RunOutcome::new(Ended::NotStarted, admitted.run.fencing_token()));
            let (task, begun_run) = planned.perform(admitted, outcome)?;
            *begun = Some(begun_run);
            Some(task.prepare(&admitted.run, span))
        });
        performed.unwrap_or_else(|message| {
            let ended = Ended::Faulted(Fault::Panicked(message));
            let outcome = outcome.insert(RunOutcome::new(ended, admitted.run.fencing_token()));
            tell_end(&admitted.run, outcome);
            *begun = None;
            None
        })
    }

    /// Whether what is next for it takes no time: to start a future, or to enter how it ended.
    pub(super) fn needs_no_thread(&self) -> bool {
        let event = self.pass.planned.event;
        let hooks_are_none = if self.begun.is_some() { event.after.is_empty() } else { event.before.is_empty() };
        matches!(event.work, Work::Future(_)) && hooks_are_none
    }

    /// Its task, a future, has ended.
    pub(super) fn task_has_ended(&mut self, end: TaskEnd) {
        if let Some(begun) = &mut self.begun {
            begun.end = Some(end);
        }
    }

    /// Returns whether the task did not start, so that another server can run the occurrence.
    #[inline]
    fn is_unused(&self) -> bool {
        self.outcome.as_ref().is_none_or(RunOutcome::leaves_its_occurrence)
    }

    /// Returns the claim, if it is unused.
    #[inline]
    pub(super) fn unused_claim(&self) -> Option<Lease> {
        let held = &self.admitted.held;
        held.claim().filter(|_| self.is_unused() && !held.is_inherited()).cloned()
    }

    /// Ends the renewal of the lease, which the caller asks the store to take back, now or after a rest.
    #[inline]
    pub(super) fn begin_release(&self) -> Option<(Lease, Option<Term>)> {
        let (lease, rest) = self.admitted.held.begin_release().filter(|_| !self.is_abandoned)?;
        // What has not run is not held any longer.
        Some((lease, rest.filter(|_| !self.is_unused())))
    }

    /// Enters the result, with the answer of the store to the release, if it was asked for one.
    #[inline]
    pub(super) fn conclude(&mut self, release: Option<Release>, enter: &mut impl FnMut(usize, Entry)) {
        let Self {
            pass: Pass { index, planned, span },
            admitted: AdmittedRun { run, held, .. },
            is_abandoned,
            outcome,
            ..
        } = self;
        let _in_span = span.enter();
        let release = if *is_abandoned || release.is_some() {
            held.disarm();
            release
        } else {
            held.release()
        };
        let observed = run.held().observed_run();
        let verdict = match outcome.take() {
            Some(outcome) => Verdict::Ran(RunOutcome { release, ..outcome }),
            None => Verdict::Skipped(SkipReason::ShuttingDown),
        };
        let entry = planned.entry(Arc::clone(&run.id().event), verdict);
        planned.tell_result(&entry, observed);
        enter(*index, entry);
    }
}

impl<'a> PlannedRun<'a> {
    #[inline]
    fn entry(&self, event: Arc<str>, verdict: Verdict) -> Entry {
        let zone = self.event.timetable.zone.clone();
        let missed_by = self.missed.is_some().then(|| self.lateness());
        Entry { event, zone, occurrence: self.occurrence(), missed_by, verdict }
    }

    /// Tells of the result, and notes it for `catch_up`.
    fn tell_result(&self, entry: &Entry, run: Option<Owner>) {
        self.settle_occurrence(&entry.verdict);
        match &entry.verdict {
            Verdict::Skipped(reason) => {
                self.history.skipped(entry.occurrence, reason);
                self.tell(&Step::Skipped(reason));
            }
            Verdict::Ran(outcome @ RunOutcome { release: Some(release), token, .. }) => {
                let about = About { run, ..About::occurrence(&self.event.name, entry.occurrence) };
                let tell = |step: &Step<'_>| self.context.observers.tell(about, step);
                // The keeper has told of a loss that it noticed.
                if outcome.lease_lost_at().is_none() && matches!(release, Release::Lost) {
                    tell(&Step::LeaseLost { mutex: None, token: *token });
                }
                tell(&Step::Released(release));
            }
            Verdict::Ran(_) => {}
        }
        if self.context.logs_failures && entry.is_failure() {
            print_unless_logged(entry);
        }
    }

    /// `before` hooks, task, hooks after it; the caller holds the lease. A task that is a future is returned and not performed
    /// here, and neither is what follows it.
    fn perform(
        &self,
        admitted_run: &AdmittedRun,
        outcome: &mut RunOutcome,
    ) -> Option<(&'a FutureTask, Box<BegunRun<'a>>)> {
        let run = &admitted_run.run;
        run.tell(&Step::Admitted { token: run.fencing_token(), gate: admitted_run.gate });
        let watched = self.context.shutdown.map(|shutdown| shutdown.watch(run));
        run.held().enter_thread();
        let is_prepared = self.prepare(run, outcome);
        if let Some(error) = &admitted_run.unprotected {
            outcome.rest_mut().unprotected = Some(error.clone());
        }
        let started = self.clock.moment();
        let start = SeenStart { occurrence: run.occurrence(), token: run.fencing_token(), at: started };
        // Observers, hooks and the wait for a thread may have taken longer than the lease lasted.
        if !is_prepared || run.held().gone_by(started).is_some() {
            self.note_loss(started, run, outcome);
            self.follow_up(run, &start, outcome, watched);
            return None;
        }
        if self.missed.is_some() {
            run.tell(&Step::CatchesUp(run.lateness()));
        }
        self.history.started(start);
        run.tell(&Step::Started { token: start.token });
        if let (Some(limit), Some(on_failure)) = (self.event.failure_limit, &self.context.on_failure) {
            on_failure.run_begins(&self.event.name, limit);
        }
        self.begin_timeout(run, started);
        let fault = match &self.event.work {
            Work::Callback(task) => attempt(|| task(run)).err(),
            Work::Command(command) => {
                let (fault, exit) = self.run_command(command, run);
                if exit.is_some() {
                    outcome.rest_mut().exit = exit;
                }
                fault
            }
            Work::Future(task) if self.context.blocked.get().is_some_and(|blocked| task.is_driven_by(*blocked)) => {
                Some(Fault::not_started(BLOCKED))
            }
            Work::Future(task) => {
                run.held().leave_thread();
                return Some((task, Box::new(BegunRun { start, watched, end: None })));
            }
        };
        self.end_task(run, &start, fault, outcome);
        self.follow_up(run, &start, outcome, watched);
        None
    }

    /// What follows a task that was a future.
    fn conclude_task(&self, run: &Run, begun: BegunRun<'_>, outcome: &mut RunOutcome) {
        let BegunRun { start, watched, end } = begun;
        run.held().enter_thread();
        let TaskEnd { fault, is_abandoned, .. } = end.expect("it is performed further when that is known");
        if is_abandoned {
            run.tell(&Step::LeftBehind);
        }
        self.end_task(run, &start, fault, outcome);
        self.follow_up(run, &start, outcome, watched);
    }

    #[inline]
    fn end_task(&self, run: &Run, start: &SeenStart, fault: Option<Fault>, outcome: &mut RunOutcome) {
        outcome.ended = self.end_timeout(run, start.at, fault);
        let ended = self.clock.moment();
        outcome.took = ended.since(start.at);
        outcome.cancelled = run.held().reason_at_end(ended);
        if outcome.cancelled.is_some_and(CancelReason::gave_way) {
            outcome.rest_mut().asked_to_stop_by = run.held().asked_by().cloned();
        }
        self.note_loss(ended, run, outcome);
    }

    /// Notes when the lease was lost, if it is by `now`.
    #[inline]
    fn note_loss(&self, now: Moment, run: &Run, outcome: &mut RunOutcome) {
        if let Some(moment) = run.held().gone_by(now) {
            outcome.rest_mut().lost_at = Some(self.clock.wall_at(moment));
        }
    }

    /// Runs the command so that it never outlives its lease: the store keeps the lease for it, or a watchdog ends it.
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

    /// The `before` hooks, up to the first that fails: then `false`.
    #[inline]
    fn prepare(&self, run: &Run, outcome: &mut RunOutcome) -> bool {
        let failed = |(at, hook): (usize, &Task)| {
            let fault = attempt(|| hook(run)).err()?;
            Some(HookFailure { hook: Hook::Before, number: at + 1, fault })
        };
        let failure = self.event.before.iter().enumerate().find_map(failed);
        failure.map(|failure| outcome.rest_mut().hook_failures.push(failure)).is_none()
    }

    /// The hooks after the task: each runs even if others fail.
    #[inline]
    fn follow_up(&self, run: &Run, start: &SeenStart, outcome: &mut RunOutcome, watched: Option<RunGuard<'_>>) {
        for (at, after) in self.event.after.iter().enumerate() {
            let wanted = match after.hook {
                Hook::OnSuccess => outcome.is_success(),
                Hook::OnFailure => !outcome.is_success(),
                Hook::Before | Hook::Then => true,
            };
            if wanted && let Err(fault) = attempt(|| (after.call)(run, outcome)) {
                let earlier = self.event.after[..at].iter().filter(|earlier| earlier.hook == after.hook).count();
                let failure = HookFailure { hook: after.hook, number: earlier + 1, fault };
                outcome.rest_mut().hook_failures.push(failure);
            }
        }
        if !self.event.after.is_empty() {
            self.note_loss(self.clock.moment(), run, outcome);
        }
        run.held().leave_thread();
        self.history.ended(start, outcome);
        tell_end(run, outcome);
        if let (Some(limit), Some(on_failure)) = (self.event.failure_limit, &self.context.on_failure)
            && !outcome.is_success()
        {
            on_failure.run_failed(&self.event.name, limit);
        }
        drop(watched);
    }
}

/// Tells how it ended, on the thread that performed it.
fn tell_end(run: &Run, outcome: &RunOutcome) {
    run.tell(&Step::Ended(outcome));
    outcome.hook_failures().iter().for_each(|failure| run.tell(&Step::HookFailed(failure)));
}
