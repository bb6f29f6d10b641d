//! One event's run, from the gate to the release.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::clock::{Clock, Moment};
use crate::event::Definition;
use crate::fault::attempt;
use crate::gate;
use crate::guard::Held;
use crate::lease::{FencingToken, Lease, Owners};
use crate::mutex::{EventMutex, Grant};
use crate::outcome::{Ended, Hook, HookFailure, Release, RunOutcome};
use crate::report::{Entry, Verdict};
use crate::task::Task;
use crate::tick::Tick;

/// One run of an event, as its task and its hooks see it. An owned, cheap handle: clone it into threads and futures.
///
/// ```
/// use soloist::{Event, Run, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// fn import(run: &Run) {
///     let run = run.clone();
///     std::thread::spawn(move || println!("{} for {}", run.name(), run.occurrence())).join().expect("it only prints");
/// }
/// Schedule::in_process().add(Event::call("import", import).hourly())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Run(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: Arc<str>,
    occurrence: DateTime<Utc>,
    /// `None`: the event has no protection.
    grant: Option<Grant>,
}

impl Run {
    /// The event's name.
    ///
    /// ```
    /// let event = soloist::Event::call("reports", |run| assert_eq!(run.name(), "reports"));
    /// ```
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The instant this run was scheduled for, the same on every server; by hand, the instant that was given.
    ///
    /// ```
    /// let event = soloist::Event::call("reports", |run| println!("the report of {}", run.occurrence().date_naive()));
    /// ```
    pub fn occurrence(&self) -> DateTime<Utc> {
        self.0.occurrence
    }

    /// The lease it runs under; `None` without `without_overlapping`.
    ///
    /// ```
    /// let event = soloist::Event::call("reports", |run| assert!(run.lease().is_some())).without_overlapping();
    /// ```
    pub fn lease(&self) -> Option<&Lease> {
        self.0.grant.as_ref()?.lease()
    }

    /// The token of what it was granted; `None` without any protection.
    ///
    /// ```
    /// let event = soloist::Event::call("reports", |run| assert!(run.fencing_token().is_some())).on_one_server();
    /// ```
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.0.grant.as_ref().map(Grant::token)
    }
}

/// What the turns of one tick have in common.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    pub(crate) cause: Cause,
    /// When the tick began.
    pub(crate) began: Moment,
    pub(crate) owners: Owners,
}

/// Why it is an event's turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Due,
    ByHand,
}

impl Round {
    pub(crate) fn begin(cause: Cause, clock: &Clock) -> Self {
        Self { cause, began: clock.moment(), owners: Owners::of_this_process() }
    }
}

/// An event whose turn it is, and all that its run needs.
pub(crate) struct Turn<'a> {
    pub(crate) event: &'a Definition,
    pub(crate) tick: Tick,
    pub(crate) round: Round,
    pub(crate) mutex: &'a dyn EventMutex,
    pub(crate) clock: &'a Clock,
}

impl<'a> Turn<'a> {
    /// The event and the occurrence that a claim would be for; nothing by hand, which runs whoever else did.
    pub(crate) fn claimed(&self) -> Option<(&'a Arc<str>, DateTime<Utc>)> {
        (self.round.cause == Cause::Due).then(|| (&self.event.name, self.occurrence()))
    }

    fn occurrence(&self) -> DateTime<Utc> {
        match self.round.cause {
            Cause::Due => self.tick.occurrence(),
            Cause::ByHand => self.tick.now(),
        }
    }

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
        entry.trace();
        entry
    }

    fn perform(&self, grant: Option<Grant>) -> RunOutcome {
        let inner = Inner { name: Arc::clone(&self.event.name), occurrence: self.occurrence(), grant };
        let run = Run(Arc::new(inner));
        let held = run.lease().map(|lease| Held::new(self.mutex, lease));
        let token = run.fencing_token();
        tracing::debug!(target: "soloist", token = token.map(FencingToken::get), "started");

        let started = self.clock.moment();
        let mut outcome = RunOutcome {
            ended: Ended::NotStarted,
            took: Duration::ZERO,
            token,
            hook_failures: self.prepare(&run),
            release: None,
        };
        if outcome.hook_failures.is_empty() {
            outcome.ended = match attempt(|| (self.event.task)(&run)) {
                Ok(()) => Ended::Succeeded,
                Err(fault) => Ended::Faulted(fault),
            };
            outcome.took = self.clock.moment().since(started);
        }
        self.follow_up(&run, &mut outcome);
        outcome.release = held.map(give_back);
        outcome
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
