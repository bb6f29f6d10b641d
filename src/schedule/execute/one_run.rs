//! Runs one event: gate, `before` hooks, task, hooks after it, release.

use std::mem;
use std::sync::Arc;

use crate::base::catch_panic::contain;
use crate::hold::release_on_drop::LeaseInHand;
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
    /// Set while its task, a future, is at work elsewhere.
    begun: Option<Box<BegunRun<'a>>>,
    /// Whether its task may still hold something, although it does not go on: then its lease ends with its term.
    is_left: bool,
    /// Until it is performed, that it was not.
    verdict: Verdict,
}

/// A run whose task has begun, and perhaps ended.
struct BegunRun<'a> {
    outcome: RunOutcome,
    start: SeenStart,
    watched: Option<RunGuard<'a>>,
    /// How its task ended.
    end: Option<TaskEnd>,
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
        self.planned.tell_result(&entry, None);
        enter(self.index, entry);
    }
}

impl<'a> ActiveRun<'a> {
    #[inline]
    pub(super) fn new(pass: Pass<'a>, admitted: AdmittedRun<'a>) -> Self {
        Self { pass, admitted, begun: None, is_left: false, verdict: NOT_PERFORMED }
    }

    /// Performs it, unless the process has begun to shut down since it was admitted. If its task is a future, that is
    /// returned: the run is performed further once [it has ended](Self::task_has_ended).
    #[inline]
    pub(super) fn perform(&mut self) -> Option<PreparedTask> {
        let Self { pass: Pass { planned, span, .. }, admitted, begun, is_left, verdict } = self;
        if begun.is_none() && planned.context.is_shutting_down() {
            return None;
        }
        // Tasks and hooks contain their panics, so this one is of a subscriber of `tracing`. The other runs go on.
        let performed = contain(|| {
            let _in_span = span.enter();
            match begun.take() {
                Some(mut begun) => {
                    *is_left = begun.end.as_ref().is_some_and(|end| end.is_left);
                    planned.conclude_task(admitted, &mut begun);
                    *verdict = Verdict::Ran(begun.outcome);
                }
                None => match planned.perform(admitted) {
                    Reached::TheEnd(outcome) => *verdict = Verdict::Ran(outcome),
                    Reached::ItsFuture(task, begun_run) => {
                        *begun = Some(begun_run);
                        return Some(task.prepare(admitted.run(), span));
                    }
                },
            }
            None
        });
        performed.unwrap_or_else(|message| {
            let ended = Ended::Faulted(Fault::Panicked(message));
            let outcome = RunOutcome::new(ended, admitted.run().fencing_token());
            tell_end(admitted.run(), &outcome);
            *verdict = Verdict::Ran(outcome);
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
        let (lease, rest) = self.admitted.held.begin_release().filter(|_| !self.is_left)?;
        // What has not run is not held any longer.
        Some((lease, rest.filter(|_| matches!(self.verdict, Verdict::Ran(_)))))
    }

    /// Enters the result, with the answer of the store to the release, if it was asked for one.
    #[inline]
    pub(super) fn conclude(&mut self, release: Option<Release>, enter: &mut impl FnMut(usize, Entry)) {
        let Self { pass: Pass { index, planned, span }, admitted: AdmittedRun { held, .. }, is_left, verdict, .. } =
            self;
        let _in_span = span.enter();
        let (run, release) = if *is_left || release.is_some() { (held.take(), release) } else { held.release() };
        if let Verdict::Ran(outcome) = verdict {
            outcome.release = release;
        }
        let observed = run.held().observed_run();
        let entry = planned.entry(run.into_event(), mem::replace(verdict, NOT_PERFORMED));
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
            Verdict::Ran(RunOutcome { release: Some(release), lost_at, token, .. }) => {
                let about = About { run, ..About::occurrence(&self.event.name, entry.occurrence) };
                let tell = |step: &Step<'_>| self.context.observers.tell(about, step);
                // The keeper has told of a loss that it noticed.
                if lost_at.is_none() && matches!(release, Release::Lost) {
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

    /// `before` hooks, task, hooks after it; the caller holds the lease. A task that is a future is not performed here, and
    /// neither is what follows it.
    fn perform(&self, admitted_run: &AdmittedRun<'_>) -> Reached<'a> {
        let run = admitted_run.run();
        run.tell(&Step::Admitted { token: run.fencing_token(), gate: admitted_run.gate });
        let watched = self.context.shutdown.map(|shutdown| shutdown.watch(run));
        run.in_hand().at_work().begins_here();
        let outcome = RunOutcome {
            hook_failures: self.prepare(run),
            unprotected: admitted_run.unprotected.clone(),
            ..RunOutcome::new(Ended::NotStarted, run.fencing_token())
        };
        // An unprotected run may have given back a late grant since it began, which took time.
        let at_once = self.event.before.is_empty() && !self.event.background && admitted_run.unprotected.is_none();
        let started = if at_once { run.held().began() } else { self.clock.moment() };
        let start = SeenStart { occurrence: run.occurrence(), token: run.fencing_token(), at: started };
        let mut begun = BegunRun { outcome, start, watched, end: None };
        // Hooks, and the wait for a thread, may have taken longer than the lease lasted.
        if !begun.outcome.hook_failures.is_empty() || run.held().gone_by(started).is_some() {
            begun.outcome.lost_at = self.lost_by(started, run);
            self.follow_up(run, &mut begun);
            return Reached::TheEnd(begun.outcome);
        }
        if self.missed.is_some() {
            run.tell(&Step::CatchesUp(run.lateness()));
        }
        self.history.started(start);
        run.tell(&Step::Started { token: start.token });
        self.begin_timeout(run, started);
        let fault = match &self.event.work {
            Work::Callback(task) => attempt(|| task(run)).err(),
            Work::Command(command) => {
                let (fault, exit) = self.run_command(command, run);
                begun.outcome.exit = exit;
                fault
            }
            Work::Future(task) => {
                run.in_hand().at_work().ends();
                return Reached::ItsFuture(task, Box::new(begun));
            }
        };
        self.end_task(run, &mut begun, fault);
        Reached::TheEnd(begun.outcome)
    }

    /// What follows a task that was a future.
    fn conclude_task(&self, admitted_run: &AdmittedRun<'_>, begun: &mut BegunRun<'_>) {
        let run = admitted_run.run();
        run.in_hand().at_work().begins_here();
        let TaskEnd { fault, is_left, .. } = begun.end.take().expect("it is performed further when that is known");
        if is_left {
            run.tell(&Step::LeftBehind);
        }
        self.end_task(run, begun, fault);
    }

    #[inline]
    fn end_task(&self, run: &Run, begun: &mut BegunRun<'_>, fault: Option<Fault>) {
        let outcome = &mut begun.outcome;
        outcome.ended = self.end_timeout(run, begun.start.at, fault);
        let ended = self.clock.moment();
        outcome.took = ended.since(begun.start.at);
        outcome.cancelled = run.in_hand().reason_at_end(ended);
        if outcome.cancelled.is_some_and(CancelReason::gave_way) {
            outcome.asked_to_stop_by = run.in_hand().asked_by().cloned().map(Box::new);
        }
        outcome.lost_at = self.lost_by(ended, run);
        self.follow_up(run, begun);
    }

    /// When the lease was lost, if it is by `now`.
    #[inline]
    fn lost_by(&self, now: Moment, run: &Run) -> Option<DateTime<Utc>> {
        run.held().gone_by(now).map(|moment| self.clock.wall_at(moment))
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
    fn follow_up(&self, run: &Run, begun: &mut BegunRun<'_>) {
        let BegunRun { outcome, start, watched, .. } = begun;
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
        if !self.event.after.is_empty() {
            outcome.lost_at = self.lost_by(self.clock.moment(), run);
        }
        run.in_hand().at_work().ends();
        self.history.ended(start, outcome);
        tell_end(run, outcome);
        if let (Some(limit), Some(on_failure)) = (self.event.failure_limit, &self.context.on_failure)
            && !outcome.is_success()
        {
            on_failure.run_failed(&self.event.name, limit);
        }
        *watched = None;
    }
}

/// Tells how it ended, on the thread that performed it.
fn tell_end(run: &Run, outcome: &RunOutcome) {
    run.tell(&Step::Ended(outcome));
    outcome.hook_failures.iter().for_each(|failure| run.tell(&Step::HookFailed(failure)));
}

/// How far a run was performed.
enum Reached<'a> {
    TheEnd(RunOutcome),
    /// Its task, a future, which is not performed here.
    ItsFuture(&'a FutureTask, Box<BegunRun<'a>>),
}
