//! How one run ended.

use std::fmt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::cancel::CancelReason;
use super::command_exit::{CommandExit, Exited, KeptOutput};
use super::fault::Fault;
use super::hook_failure::{Hook, HookFailure};
use super::release::Release;
use super::run_record::outcome_kind::OutcomeKind;
use crate::base::escape::{Chain, Lines, OneLine};
use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::{holder::Holder, token::FencingToken};
use crate::time::clock::shown::{ExactDuration, HumanDuration, Reading, to_the_second};

/// The outcome of a run; `then` and its kin receive it, and the report keeps it.
///
/// ```
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut schedule = Schedule::in_process();
/// schedule.add(
///     Event::call("reports", |_| println!("working"))
///         .every_minute()
///         .then(|run, outcome| println!("{} {}", run.name(), if outcome.is_success() { "is done" } else { "failed" })),
/// )?;
/// # schedule.run_due(chrono::Utc::now());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    pub(crate) ended: Ended,
    pub(crate) took: Duration,
    pub(crate) cancelled: Option<CancelReason>,
    pub(crate) token: Option<FencingToken>,
    pub(crate) release: Option<Release>,
    /// Behind a pointer, because most runs have none of it, and a report has many outcomes.
    pub(crate) rest: Option<Box<RestOfOutcome>>,
}

/// The fields that few outcomes have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RestOfOutcome {
    pub(crate) asked_to_stop_by: Option<Holder>,
    pub(crate) hook_failures: Vec<HookFailure>,
    pub(crate) lost_at: Option<DateTime<Utc>>,
    /// The fixed term of the lease, which was over while the run was at work.
    pub(crate) fixed_term: Option<Duration>,
    pub(crate) unprotected: Option<MutexError>,
    pub(crate) exit: Option<CommandExit>,
}

impl RunOutcome {
    /// Returns a run of which no more is known yet.
    pub(crate) fn new(ended: Ended, token: Option<FencingToken>) -> Self {
        Self { ended, took: Duration::ZERO, cancelled: None, token, release: None, rest: None }
    }

    /// Returns the details that only some outcomes have, to change them.
    pub(crate) fn rest_mut(&mut self) -> &mut RestOfOutcome {
        self.rest.get_or_insert_default()
    }

    /// Returns how the task ended.
    pub fn ended(&self) -> &Ended {
        &self.ended
    }

    /// Returns the same in one word, for a page or a metric.
    pub fn kind(&self) -> OutcomeKind {
        match &self.ended {
            Ended::Succeeded => OutcomeKind::Succeeded,
            Ended::Faulted(Fault::Panicked(_)) => OutcomeKind::Panicked,
            Ended::Faulted(_) if self.cancelled.is_some() => OutcomeKind::Cancelled,
            Ended::Faulted(_) => OutcomeKind::Failed,
            Ended::TimedOut { .. } => OutcomeKind::TimedOut,
            Ended::NotStarted => OutcomeKind::NotStarted,
        }
    }

    /// Returns whether the task did what it was asked to. Hooks and the release have no say in it.
    pub fn is_success(&self) -> bool {
        matches!(self.ended, Ended::Succeeded)
    }

    /// Returns whether anything went wrong: the task, a hook, the lease or its release, or a store that was out, so that the
    /// run had no protection. A task that stopped because it was [replaced](CancelReason::Replaced) or
    /// [unlocked](CancelReason::Unlocked) did nothing wrong.
    pub fn is_failure(&self) -> bool {
        let gave_way = || match &self.ended {
            Ended::Faulted(fault) => fault.cancellation().is_some_and(CancelReason::gave_way),
            _ => false,
        };
        !(self.is_success() || gave_way())
            || self.rest.as_ref().is_some_and(|rest| rest.is_failure())
            || self.release.as_ref().is_some_and(Release::is_failure)
    }

    /// Returns how long the task took, without its hooks.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Returns why the task was told to stop, if it was while it was at work. One that returned without an error all the same has
    /// succeeded: whether its work is done is for the task to say.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.cancelled
    }

    /// Returns who waited to take its place when it was told to stop, see [`Overlap::Replace`](crate::Overlap::Replace); or the operator's
    /// process that [frees](CancelReason::Unlocked) its lease.
    pub fn asked_to_stop_by(&self) -> Option<&Holder> {
        self.rest.as_ref()?.asked_to_stop_by.as_ref()
    }

    /// Returns the fencing token the run carried; `None` for an event without protection, and where it was
    /// [`unprotected`](Self::unprotected).
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.token
    }

    /// Returns the hooks that failed so far, in the order in which they ran.
    pub fn hook_failures(&self) -> &[HookFailure] {
        self.rest.as_ref().map_or(&[], |rest| &rest.hook_failures)
    }

    /// Returns when the lease was lost, if it was while the task or its hooks were at work: its deadline, if it could not be
    /// renewed before; from then on another run may have been admitted. For a command that is when it was told to stop:
    /// its [`grace`](crate::Event::grace) and a second before another run may be admitted. Or when the store said that it was not
    /// ours any more, because somebody broke it, or the store lost its data: then another run may have been admitted since the
    /// last renewal.
    pub fn lease_lost_at(&self) -> Option<DateTime<Utc>> {
        self.rest.as_ref()?.lost_at
    }

    /// Returns why it ran without its protection, if it did: the store gave no decision, and the event says
    /// [`OutagePolicy::RunUnprotected`](crate::OutagePolicy::RunUnprotected).
    pub fn unprotected(&self) -> Option<&MutexError> {
        self.rest.as_ref()?.unprotected.as_ref()
    }

    /// Returns the exit code of its command, or the signal that ended it; `None` if it is a callback, or was not started. Also
    /// there when the command was [cancelled](crate::CancelReason), however it took that.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.rest.as_ref()?.exit.as_ref().map(|exit| exit.status)
    }

    /// Returns the end of what its command wrote: what [`Output::Keep`](crate::Output::Keep) asks for, or the last 16 KiB that this run
    /// wrote to the file of [`Output::File`](crate::Output::File) or [`Output::Append`](crate::Output::Append). `None` for any other
    /// output, and where the file is a pipe or a device, or can't be read.
    pub fn output(&self) -> Option<&KeptOutput> {
        self.rest.as_ref()?.exit.as_ref()?.output.as_ref()
    }

    /// Returns the file to which its command wrote.
    pub fn output_file(&self) -> Option<&Path> {
        self.rest.as_ref()?.exit.as_ref()?.file.as_deref()
    }

    /// Returns how giving the lease back went; `None` without a lease, and in hooks, which run while it is still held.
    pub fn release(&self) -> Option<&Release> {
        self.release.as_ref()
    }

    /// Returns what went wrong with the task, in its own words; `None` if it succeeded, or there are none.
    pub(crate) fn error(&self) -> Option<String> {
        let said = |fault: &Fault| match fault {
            Fault::Failed(error) => Chain(&**error).to_string(),
            Fault::Panicked(message) => message.to_string(),
            Fault::Exited(status) => Exited(*status).to_string(),
        };
        // An error is shown by its own code, which may panic.
        let said =
            |fault: &Fault| contain(|| said(fault)).unwrap_or_else(|_| "an error that can't be shown".to_owned());
        match &self.ended {
            Ended::Succeeded => None,
            Ended::Faulted(fault) => Some(said(fault)),
            Ended::TimedOut { fault, .. } => fault.as_ref().map(said),
            Ended::NotStarted => self.hook_failures().first().map(|failure| said(&failure.fault)),
        }
    }

    /// Returns whether another server may run the occurrence, because the lease was lost before the task started, or this
    /// process could not start the task.
    #[inline]
    pub(crate) fn leaves_its_occurrence(&self) -> bool {
        let is_prepared = || self.hook_failures().iter().all(|failure| failure.hook != Hook::Before);
        match &self.ended {
            Ended::NotStarted => self.lease_lost_at().is_some() && is_prepared(),
            Ended::Faulted(fault) | Ended::TimedOut { fault: Some(fault), .. } => {
                fault.is_not_started() && !fault.cancellation().is_some_and(CancelReason::gave_way)
            }
            Ended::Succeeded | Ended::TimedOut { fault: None, .. } => false,
        }
    }
}

impl RestOfOutcome {
    fn is_failure(&self) -> bool {
        !self.hook_failures.is_empty() || self.lost_at.is_some() || self.unprotected.is_some()
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Reading(self, &to_the_second).fmt(f)
    }
}

impl fmt::Display for Reading<'_, RunOutcome> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(outcome, time) = self;
        let by_whom = |f: &mut fmt::Formatter<'_>| match outcome.asked_to_stop_by() {
            Some(holder) => write!(f, ": {}", Reading(holder, *time)),
            None => Ok(()),
        };
        match &outcome.ended {
            Ended::Succeeded => {
                write!(f, "succeeded in {}", HumanDuration(outcome.took))?;
                if let Some(reason) = outcome.cancelled.filter(|reason| reason.is_wanted()) {
                    write!(f, ", after it was told to stop, because {reason}")?;
                    by_whom(f)?;
                }
            }
            Ended::Faulted(fault @ Fault::Failed(error)) => match fault.cancellation() {
                None => write!(f, "failed after {}: {}", HumanDuration(outcome.took), Chain(&**error))?,
                // When that was follows.
                Some(CancelReason::LeaseLost) if outcome.lease_lost_at().is_some() => {
                    write!(f, "cancelled after {}", HumanDuration(outcome.took))?;
                }
                Some(reason) => {
                    write!(f, "cancelled after {}, because {reason}", HumanDuration(outcome.took))?;
                    by_whom(f)?;
                }
            },
            Ended::Faulted(Fault::Panicked(message)) => {
                write!(f, "panicked after {}: {}", HumanDuration(outcome.took), Lines(message))?;
            }
            Ended::Faulted(Fault::Exited(status)) => {
                write!(f, "{} after {}", Exited(*status), HumanDuration(outcome.took))?;
            }
            Ended::TimedOut { limit, fault } => {
                write!(f, "timed out after {}", HumanDuration(*limit))?;
                let late = outcome.took.saturating_sub(*limit);
                if late >= STOPPED_AT_ONCE {
                    write!(f, ", and stopped {} later", HumanDuration(late))?;
                }
                // How its command ended follows.
                let said = |fault: &&Fault| fault.cancellation().is_some() || matches!(fault, Fault::Exited(_));
                if let Some(fault) = fault.as_ref().filter(|fault| !said(fault)) {
                    write!(f, "; {fault}")?;
                }
            }
            Ended::NotStarted => write!(f, "not started")?,
        }
        let mut link = if outcome.is_success() { ", but " } else { "; " };
        let mut add = |what: &dyn fmt::Display| {
            write!(f, "{link}{what}")?;
            link = "; ";
            Ok(())
        };
        if let Some(status) = outcome.exit_status().filter(|_| outcome.ended.was_cut_short()) {
            add(&Exited(status))?;
        }
        if let Some(error) = outcome.unprotected() {
            add(&format_args!("unprotected, because the store gave no decision: {}", Chain(error)))?;
        }
        if let Some(at) = outcome.lease_lost_at() {
            match outcome.rest.as_ref().and_then(|rest| rest.fixed_term) {
                None => add(&format_args!("the lease was lost at {}", time(at)))?,
                Some(term) => add(&format_args!(
                    "the lease was lost at {}, because `without_overlapping_for({})` is a fixed term: use \
                     `without_overlapping()`, whose lease lasts as long as the run",
                    time(at),
                    ExactDuration(term)
                ))?,
            }
        }
        outcome.hook_failures().iter().try_for_each(|failure| add(failure))?;
        match &outcome.release {
            None | Some(Release::Released) => Ok(()),
            Some(Release::Lost) if outcome.lease_lost_at().is_some() => Ok(()),
            Some(release @ Release::HeldFor(_)) => write!(f, "; {release}"),
            Some(release) => add(release),
        }?;
        match (outcome.output_file(), outcome.output()) {
            (Some(file), _) if !outcome.is_success() => write!(f, "; its output is in {}", OneLine(file.display())),
            (None, Some(output)) if !outcome.is_success() && !output.bytes().is_empty() => {
                write!(f, "; its output:\n{output}")
            }
            _ => Ok(()),
        }
    }
}

/// Whoever ends within this after it was told to has stopped when it was told to.
const STOPPED_AT_ONCE: Duration = Duration::from_millis(100);

/// The end of a task.
///
/// ```
/// use soloist::observe::{Ended, Fault};
///
/// fn describe(ended: &Ended) -> String {
///     match ended {
///         Ended::Succeeded => "done".into(),
///         Ended::Faulted(Fault::Panicked(message)) => format!("a bug: {message}"),
///         Ended::Faulted(fault) => fault.to_string(),
///         Ended::NotStarted => "its preparation failed".into(),
///         _ => "in some other way".into(),
///     }
/// }
/// assert_eq!(describe(&Ended::Succeeded), "done");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// It returned without an error.
    Succeeded,
    /// It returned an error, or panicked; or its command failed, or was [cancelled](crate::CancelReason). If its command could not
    /// be started, or its future was never polled, the occurrence or the period is released, and another server can run it.
    Faulted(Fault),
    /// It took longer than its [`timeout`](crate::Event::timeout) and was told to stop.
    #[non_exhaustive]
    TimedOut {
        /// How long it might have taken.
        limit: Duration,
        /// What it did when it stopped, unless it returned without an error.
        fault: Option<Fault>,
    },
    /// It was not called, because a `before` hook failed, or its lease was lost before. In the second case the occurrence
    /// or the period is given back too, for whoever asks next.
    NotStarted,
}

impl Ended {
    /// Returns whether it was told to stop, and did.
    fn was_cut_short(&self) -> bool {
        match self {
            Self::Faulted(fault) => fault.cancellation().is_some(),
            Self::TimedOut { .. } => true,
            Self::Succeeded | Self::NotStarted => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::error::BoxError;

    #[test]
    #[cfg(unix)]
    fn a_command_that_ended_by_itself_when_its_time_was_over_has_ended_once() {
        use std::os::unix::process::ExitStatusExt;

        let (limit, status) = (Duration::from_secs(30), ExitStatus::from_raw(3 << 8));
        let fault = Some(Fault::Exited(status));
        let outcome = RunOutcome {
            rest: Some(Box::new(RestOfOutcome {
                exit: Some(CommandExit { status, output: None, file: None }),
                ..RestOfOutcome::default()
            })),
            took: limit,
            ..RunOutcome::new(Ended::TimedOut { limit, fault }, None)
        };
        assert_eq!(outcome.to_string(), "timed out after 30.0 s; exited with 3");
    }

    #[test]
    fn an_outcome_names_everything_that_went_wrong() {
        let outcome = RunOutcome {
            ended: Ended::Faulted(Fault::Failed(Arc::from(BoxError::from("no paper")))),
            took: Duration::from_millis(12),
            cancelled: None,
            token: None,
            rest: Some(Box::new(RestOfOutcome {
                hook_failures: vec![HookFailure { hook: Hook::Then, number: 2, fault: Fault::Panicked("gone".into()) }],
                ..RestOfOutcome::default()
            })),
            release: Some(Release::Failed(MutexError::unavailable("forget lease/reports", "timed out"))),
        };
        assert_eq!(
            outcome.to_string(),
            "failed after 12 ms: no paper; `then` hook 2 panicked: gone; \
             the lease was not given back: could not forget lease/reports: timed out"
        );
    }
}
