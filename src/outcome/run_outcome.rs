//! The outcome of a run.

use std::fmt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::cancel::CancelReason;
use super::command_exit::{CommandExit, Exited, KeptOutput};
use super::fault::{Fault, Hook, HookFailure};
use super::no_retry::NoRetry;
use super::release::Release;
use super::run_record::outcome_kind::OutcomeKind;
use crate::base::escape::{Chain, Lines, OneLine};
use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::{holder::Holder, token::FencingToken};
use crate::time::clock::shown::{ExactDuration, HumanDuration, for_people};

/// The outcome of a run. The hooks after the task receive the outcome, and the report has it.
///
/// ```
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process();
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
    /// Boxed, so that an outcome is small: most runs have none of these fields, and a report has many outcomes.
    pub(crate) details: Option<Box<OutcomeDetails>>,
}

/// The fields that few outcomes have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutcomeDetails {
    pub(crate) asked_to_stop_by: Option<Holder>,
    pub(crate) hook_failures: Vec<HookFailure>,
    pub(crate) lost_at: Option<DateTime<Utc>>,
    /// The fixed term of the lease, if the term ended while the run was running.
    pub(crate) fixed_term: Option<Duration>,
    pub(crate) unprotected: Option<MutexError>,
    pub(crate) exit: Option<CommandExit>,
    pub(crate) started_late: Option<Duration>,
    pub(crate) waited: Option<Duration>,
    /// How often the task was retried.
    pub(crate) retries: u32,
    pub(crate) no_retry: Option<NoRetry>,
}

impl RunOutcome {
    /// The outcome of a run before its task was called.
    pub(crate) const NOT_STARTED: Self = Self {
        ended: Ended::NotStarted,
        took: Duration::ZERO,
        cancelled: None,
        token: None,
        release: None,
        details: None,
    };

    /// Returns the details, so that the caller can change them.
    pub(crate) fn details_mut(&mut self) -> &mut OutcomeDetails {
        self.details.get_or_insert_default()
    }

    /// Returns how the task ended.
    pub fn ended(&self) -> &Ended {
        &self.ended
    }

    /// Returns the kind of the outcome, for example for a metric.
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

    /// Returns whether the task succeeded. A failed hook or a failed release does not change the answer.
    pub fn is_success(&self) -> bool {
        matches!(self.ended, Ended::Succeeded)
    }

    /// Returns whether anything failed: the task or a hook failed, the lease was lost or not released, or the run was
    /// [`unprotected`](Self::unprotected). A task that stopped because it was [replaced](CancelReason::Replaced) or
    /// [unlocked](CancelReason::Unlocked) has not failed.
    pub fn is_failure(&self) -> bool {
        let stopped_for_the_lease = || match &self.ended {
            Ended::Faulted(fault) => fault.cancellation().is_some_and(CancelReason::is_for_the_lease),
            _ => false,
        };
        !(self.is_success() || stopped_for_the_lease())
            || !self.hook_failures().is_empty()
            || self.lease_lost_at().is_some()
            || self.unprotected().is_some()
            || self.release.as_ref().is_some_and(Release::is_failure)
    }

    /// Returns how often the task was started: more than once if the task [was retried](crate::Event::retry), and zero
    /// if it was not called.
    pub fn attempts(&self) -> u32 {
        match self.ended {
            Ended::NotStarted => 0,
            _ => 1 + self.details.as_ref().map_or(0, |details| details.retries),
        }
    }

    /// Returns why a task that failed by itself was not [retried](crate::Event::retry), although attempts were left.
    /// `None`: the task did not fail by itself, or no attempts were left.
    pub fn no_retry(&self) -> Option<NoRetry> {
        self.details.as_ref()?.no_retry
    }

    /// Returns how long the task took, without its hooks. With [retries](crate::Event::retry), this is the time from
    /// the start of the first attempt to the end of the last attempt.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Returns how late the task started, if it started at least a minute late: the run waited for earlier events in
    /// the foreground, for a free thread, or in its queue. A delay by a [jitter](crate::Event::jitter) does not count.
    /// For a missed occurrence, this returns `None`, and [`Entry::missed_by`](crate::Entry::missed_by) returns the
    /// time.
    pub fn started_late(&self) -> Option<Duration> {
        self.details.as_ref()?.started_late
    }

    /// Returns how long the run waited for the previous run: in the [queue](crate::Event::on_overlap) of its event, or
    /// with `--wait` on the command line. `None`: the run did not wait.
    pub fn waited(&self) -> Option<Duration> {
        self.details.as_ref()?.waited
    }

    /// Returns why the run was cancelled, if it was cancelled while the task was running. A task that then returned
    /// without an error has succeeded, because only the task knows whether its work is done. There is one exception: a
    /// task that exceeded its timeout has failed.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.cancelled
    }

    /// Returns the process that asked the run to stop, or that ended the run's wait for a retry. Either the returned
    /// process waits to start a later occurrence; see [`Overlap::Replace`](crate::Overlap::Replace). Or the returned
    /// process belongs to an operator who [frees](CancelReason::Unlocked) the lease.
    pub fn asked_to_stop_by(&self) -> Option<&Holder> {
        self.details.as_ref()?.asked_to_stop_by.as_ref()
    }

    /// Returns the fencing token of the run. `None`: the event has no protection, or the run was
    /// [`unprotected`](Self::unprotected).
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.token
    }

    /// Returns the failures of the hooks that have been called so far, in the order of the calls.
    pub fn hook_failures(&self) -> &[HookFailure] {
        self.details.as_ref().map_or(&[], |details| &details.hook_failures)
    }

    /// Returns the time at which the lease was lost, if it was lost while the task or its hooks were running. There are
    /// two cases:
    ///
    /// - The lease could not be renewed. For a callback, the time is the deadline of the lease, and another run may
    ///   have been admitted after the deadline. For a command or a future, the time is that of its cancellation: the
    ///   [`grace`](crate::Event::grace) and one second before the deadline.
    /// - The store answered that the run no longer holds the lease, because an operator broke the lease or the store
    ///   lost its data. The time is that of the answer, and another run may have been admitted since the last renewal.
    pub fn lease_lost_at(&self) -> Option<DateTime<Utc>> {
        self.details.as_ref()?.lost_at
    }

    /// Returns the error of the store, if the run was unprotected: the store could not say whether the event may run,
    /// and the event has [`OutagePolicy::RunUnprotected`](crate::OutagePolicy::RunUnprotected).
    pub fn unprotected(&self) -> Option<&MutexError> {
        self.details.as_ref()?.unprotected.as_ref()
    }

    /// Returns the exit status of the command: its exit code, or the signal that ended the command. A
    /// [cancelled](crate::CancelReason) command has an exit status, too. `None`: the task is no command, or the command
    /// was not started.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.details.as_ref()?.exit.as_ref().map(|exit| exit.status)
    }

    /// Returns the last bytes of the command's output. [`Output::Keep`](crate::Output::Keep) says how many bytes are
    /// kept at most. With [`Output::File`](crate::Output::File) or [`Output::Append`](crate::Output::Append), these are
    /// the last bytes that this run wrote to the file, at most 16 KiB. `None`: no command was started, its output was
    /// inherited or discarded, the file is a pipe or a device, or the file can't be read.
    pub fn output(&self) -> Option<&KeptOutput> {
        self.details.as_ref()?.exit.as_ref()?.output.as_ref()
    }

    /// Returns the file that the command wrote to.
    pub fn output_file(&self) -> Option<&Path> {
        self.details.as_ref()?.exit.as_ref()?.file.as_deref()
    }

    /// Returns the result of the release. `None`: the run has no lease, or the caller is a hook, which runs before the
    /// release.
    pub fn release(&self) -> Option<&Release> {
        self.release.as_ref()
    }

    /// Returns the message of the task's fault, or of a failed `before` hook. If the task succeeded, returns the reason
    /// why the run [failed](Self::is_failure) nevertheless. `None`: there is no fault, or the task timed out and then
    /// returned without an error.
    pub(crate) fn error(&self) -> Option<String> {
        // The application's error type writes the message, and its code can panic.
        let shown = |message: &dyn fmt::Display| {
            contain(|| message.to_string()).unwrap_or_else(|_| "an error whose message can't be shown".to_owned())
        };
        let message = |fault: &Fault| match fault {
            Fault::Failed(error) => shown(&Chain(&**error)),
            Fault::Panicked(message) => message.to_string(),
            Fault::Exited(status) => Exited(*status).to_string(),
        };
        match &self.ended {
            Ended::Succeeded => match (self.lease_lost_at(), self.hook_failures(), self.unprotected()) {
                (Some(at), ..) => Some(format!("the lease was lost at {}", for_people(at))),
                (None, [failure, ..], _) => Some(shown(failure)),
                (None, [], error) => error.map(|error| format!("unprotected: {}", Chain(error))),
            },
            Ended::Faulted(fault) => Some(message(fault)),
            Ended::TimedOut { fault, .. } => fault.as_ref().map(message),
            Ended::NotStarted => self.hook_failures().first().map(|failure| message(&failure.fault)),
        }
    }

    /// Returns whether another server may run the occurrence. It may do so if the lease was lost before the task
    /// started, or if this process could not start the task.
    pub(crate) fn leaves_its_occurrence(&self) -> bool {
        let is_prepared = || self.hook_failures().iter().all(|failure| failure.hook != Hook::Before);
        match &self.ended {
            Ended::NotStarted => self.lease_lost_at().is_some() && is_prepared(),
            Ended::Faulted(fault) | Ended::TimedOut { fault: Some(fault), .. } => {
                self.attempts() == 1
                    && fault.is_not_started()
                    && !fault.cancellation().is_some_and(CancelReason::is_for_the_lease)
            }
            Ended::Succeeded | Ended::TimedOut { fault: None, .. } => false,
        }
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = &format!("{}{}", HumanDuration(self.took), attempts_suffix(self.attempts()));
        let write_requester = |f: &mut fmt::Formatter<'_>| match self.asked_to_stop_by() {
            Some(holder) => write!(f, ": {holder}"),
            None => Ok(()),
        };
        match &self.ended {
            Ended::Succeeded => {
                write!(f, "succeeded in {took}")?;
                if let Some(reason) = self.cancelled.filter(|reason| reason.is_request()) {
                    write!(f, ", after it was cancelled, because {reason}")?;
                    write_requester(f)?;
                }
            }
            Ended::Faulted(fault @ Fault::Failed(error)) => match fault.cancellation() {
                None => write!(f, "failed after {took}: {}", Chain(&**error))?,
                // The text about the lost lease follows below.
                Some(CancelReason::LeaseLost) if self.lease_lost_at().is_some() => {
                    write!(f, "cancelled after {took}")?;
                }
                Some(reason) => {
                    write!(f, "cancelled after {took}, because {reason}")?;
                    write_requester(f)?;
                }
            },
            Ended::Faulted(Fault::Panicked(message)) => {
                write!(f, "panicked after {took}: {}", Lines(message))?;
            }
            Ended::Faulted(Fault::Exited(status)) => {
                write!(f, "{} after {took}", Exited(*status))?;
            }
            Ended::TimedOut { limit, fault } => {
                write!(f, "timed out after {}{}", HumanDuration(*limit), attempts_suffix(self.attempts()))?;
                let late = self.took.saturating_sub(*limit);
                if late >= STOPPED_AT_ONCE {
                    write!(f, ", and stopped {} later", HumanDuration(late))?;
                }
                // The exit status follows below.
                let is_known = |fault: &&Fault| fault.cancellation().is_some() || matches!(fault, Fault::Exited(_));
                if let Some(fault) = fault.as_ref().filter(|fault| !is_known(fault)) {
                    write!(f, "; {fault}")?;
                }
            }
            Ended::NotStarted => write!(f, "not started")?,
        }
        if let Some(reason) = self.no_retry() {
            write!(f, "; not retried, because {reason}")?;
            write_requester(f)?;
        }
        let mut link = if self.is_success() { ", but " } else { "; " };
        let mut add = |what: &dyn fmt::Display| {
            write!(f, "{link}{what}")?;
            link = "; ";
            Ok(())
        };
        if let Some(late) = self.started_late() {
            add(&format_args!("started {} late", HumanDuration(late)))?;
        }
        if let Some(status) = self.exit_status().filter(|_| self.ended.was_cut_short()) {
            add(&Exited(status))?;
        }
        if let Some(error) = self.unprotected() {
            add(&format_args!("unprotected, because the store gave no decision: {}", Chain(error)))?;
        }
        if let Some(at) = self.lease_lost_at() {
            match self.details.as_ref().and_then(|details| details.fixed_term) {
                None => add(&format_args!("the lease was lost at {}", for_people(at)))?,
                Some(term) => add(&format_args!(
                    "the lease was lost at {}, because `without_overlapping_for({})` is a fixed term: use \
                     `without_overlapping()`, whose lease lasts as long as the run",
                    for_people(at),
                    ExactDuration(term)
                ))?,
            }
        }
        self.hook_failures().iter().try_for_each(|failure| add(failure))?;
        match &self.release {
            None | Some(Release::Released) => Ok(()),
            Some(Release::Lost) if self.lease_lost_at().is_some() => Ok(()),
            Some(release @ Release::HeldFor(_)) => write!(f, "; {release}"),
            Some(release) => add(release),
        }?;
        if let Some(waited) = self.waited() {
            write!(f, "; it waited {} for the previous run", HumanDuration(waited))?;
        }
        match (self.output_file(), self.output()) {
            (Some(file), _) if !self.is_success() => write!(f, "; its output is in {}", OneLine(file.display())),
            (None, Some(output)) if !self.is_success() && !output.bytes().is_empty() => {
                write!(f, "; its output:\n{output}")
            }
            _ => Ok(()),
        }
    }
}

/// Returns the number of attempts as a text that follows a time: ` and 2 attempts`. The text is empty unless there were
/// several attempts.
pub(super) fn attempts_suffix(attempts: u32) -> String {
    if attempts > 1 { format!(" and {attempts} attempts") } else { String::new() }
}

/// If a task ends within this time after its timeout, the outcome does not show the delay.
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
    /// The task returned without an error.
    Succeeded,
    /// The task failed: it returned an error or panicked, or its command failed or was
    /// [cancelled](crate::CancelReason). If the command could not be started, or the future was never polled, the claim
    /// is released, so that another server can run the occurrence.
    Faulted(Fault),
    /// The task took longer than its [`timeout`](crate::Event::timeout) and was cancelled.
    #[non_exhaustive]
    TimedOut {
        /// The timeout.
        limit: Duration,
        /// The fault of the task. `None`: the task returned without an error after its timeout.
        fault: Option<Fault>,
    },
    /// The task was not called, because a `before` hook failed, or because the lease was lost before the call. If the
    /// lease was lost, the claim is released, so that another server can run the occurrence.
    NotStarted,
}

impl Ended {
    /// Returns whether the task stopped because it was cancelled.
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
            details: Some(Box::new(OutcomeDetails {
                exit: Some(CommandExit { status, output: None, file: None }),
                ..OutcomeDetails::default()
            })),
            ended: Ended::TimedOut { limit, fault },
            took: limit,
            ..RunOutcome::NOT_STARTED
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
            details: Some(Box::new(OutcomeDetails {
                hook_failures: vec![HookFailure { hook: Hook::Then, number: 2, fault: Fault::Panicked("gone".into()) }],
                ..OutcomeDetails::default()
            })),
            release: Some(Release::Failed(MutexError::unavailable("forget lease/reports", "timed out"))),
        };
        assert_eq!(
            outcome.to_string(),
            "failed after 12 ms: no paper; `then` hook 2 panicked: gone; \
             the lease was not released: could not forget lease/reports: timed out"
        );
    }
}
