//! An event that was added to a schedule, and how the builder's words are validated.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

mod retry_check;

use super::add_error::{AddError, AddErrorKind, Refusal, checked_term, out_of_range};
use super::catch_up::CatchUp;
use super::claim_window::{check_live_claims, usual_claim_window};
use super::event_builder::{AfterHook, Event};
use super::filter::{Environments, Filter, named, windows_of};
use super::protection::{LeaseTerms, Protection, claim::MINUTE};
use super::retry::Retry;
use crate::lease::{name::MutexName, term::Renewal, term::Term};
use crate::outcome::run_record::MOST_KEPT;
use crate::store::described_store::Store;
use crate::task::event_task::{Task, Work};
use crate::task::run::{ENDING_TAKES, LONGEST_GRACE, USUAL_GRACE};
use crate::time::clock::shown::{ExactDuration, HumanDuration};
use crate::time::{timetable::Timetable, zone::Zone};

/// An event as a schedule has it: [`Schedule::event`](crate::Schedule::event) gives it to read.
///
/// ```
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process();
/// schedule.add(Event::call("poll", |_| {}).every_ten_seconds().on_one_server())?;
/// let poll = schedule.event("poll")?;
/// assert_eq!((poll.name(), poll.timetable()), ("poll", "every 10 seconds".to_owned()));
/// # Ok(())
/// # }
/// ```
pub struct Definition {
    pub(crate) name: Arc<str>,
    pub(crate) work: Work,
    /// How long before the deadline of its lease the task is cancelled.
    pub(crate) stopping: Duration,
    pub(crate) timetable: Timetable,
    /// The timetable and its zone in plain English, for its claims: other servers compare it with theirs. `None`: it makes none.
    pub(crate) claimed_timetable: Option<Arc<str>>,
    pub(crate) filters: Vec<Filter>,
    pub(crate) before: Vec<Task>,
    pub(crate) after: Vec<AfterHook>,
    pub(crate) protection: Protection,
    /// The claim window without `catch_up`: It is longer than usual for an event that may wait in a queue, or that
    /// makes up for all missed occurrences.
    pub(crate) claim_window: Duration,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<Retry>,
    /// The environments that it is for; `None`: all.
    environments: Option<Environments>,
    /// Whether it is due at all, in this environment.
    pub(crate) runs_here: bool,
    pub(crate) catch_up: Option<CatchUp>,
    pub(crate) store: Option<Store>,
    pub(crate) background: bool,
    pub(crate) even_when_paused: bool,
    /// After how many failures in a row it is paused.
    pub(crate) failure_limit: Option<usize>,
    /// How long a run has been running that is stuck.
    pub(crate) stuck_after: Option<Duration>,
}

impl Definition {
    /// Returns the name of the event.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the times at which the event is due on the clocks of its [zone](Self::zone), in plain English: `daily at
    /// 02:30`, `every 10 seconds`. The text does not mention the [conditions](Self::conditions), which may leave times
    /// out.
    pub fn timetable(&self) -> String {
        self.timetable.in_words()
    }

    /// Returns the zone of the timetable.
    pub fn zone(&self) -> &Zone {
        &self.timetable.zone
    }

    /// Returns the name of the lease; `None` without one.
    pub fn mutex_name(&self) -> Option<&MutexName> {
        self.protection.lease.map(|_| &self.protection.mutex)
    }

    /// Returns the protections, in the words that ask for them, one by one: `without_overlapping, lease of 1 min 0 s,
    /// renewed`, `on_one_server`, `timeout 5 min 0 s`. For people; the texts may change.
    pub fn protections(&self) -> Vec<String> {
        let mut words = self.protection.in_words();
        // An event that makes up only for occurrences that it waited for did not ask for `catch_up`.
        let catch_up = self.catch_up.as_ref().filter(|catch_up| catch_up.marker.is_some());
        words.extend(catch_up.map(|CatchUp { window, most, .. }| match most {
            1 => format!("catch_up {}", HumanDuration(*window)),
            most => format!("catch_up_all {}, {most} at most", HumanDuration(*window)),
        }));
        words.extend(self.timeout.map(|limit| format!("timeout {}", HumanDuration(limit))));
        words.extend(self.retry.as_ref().map(Retry::to_string));
        words.extend(self.stuck_after.map(|time| format!("stuck_after {}", HumanDuration(time))));
        words.extend(self.even_when_paused.then(|| "even_when_paused".to_owned()));
        words.extend(self.failure_limit.map(|limit| format!("pause_on_failure {limit}")));
        words
    }

    /// Returns the conditions under which the event runs when it is due, in the words that ask for them, one by one:
    /// `between 08:00 and 17:00`, `environments production`, `when`. For people; the texts may change.
    pub fn conditions(&self) -> Vec<String> {
        let here =
            self.environments.iter().filter(|_| self.runs_here).map(|them| format!("environments {}", them.list()));
        here.chain((0..self.filters.len()).map(|at| named(&self.filters, at))).collect()
    }

    /// Returns the claim window for one occurrence. With `catch_up`, it also covers the time when other servers look
    /// for the claim.
    #[inline]
    pub(crate) fn claim_window(&self, occurrence: DateTime<Utc>) -> Duration {
        match self.catch_up.as_ref().filter(|catch_up| catch_up.window + MINUTE > self.claim_window) {
            Some(catch_up) => catch_up.claim_lookup_time(&self.timetable, occurrence).max(self.claim_window),
            None => self.claim_window,
        }
    }

    /// Returns the name and the term of the claim of a run on this occurrence, which may be asked for in this window; `None` if the event
    /// claims nothing.
    pub(crate) fn claim(&self, occurrence: DateTime<Utc>, window: Duration) -> Option<(MutexName, Term)> {
        let Self { name, timetable, protection, .. } = self;
        Some(protection.claim?.name_and_term(&protection.mutex, name, occurrence, timetable, window))
    }

    pub(crate) fn has_windows(&self) -> bool {
        self.filters.iter().any(|filter| matches!(filter, Filter::Window(_)))
    }

    /// Returns when this occurrence starts: after its part of the [`jitter`](Event::jitter), if the event has one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("backup", |_| {}).daily_at("02:30").jitter(Duration::from_secs(600)))?;
    /// let occurrence = "2026-03-01T02:30:00Z".parse()?;
    /// assert_eq!(schedule.event("backup")?.start_of(occurrence).to_string(), "2026-03-01 02:37:49 UTC");
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_of(&self, occurrence: DateTime<Utc>) -> DateTime<Utc> {
        self.timetable.start_of(occurrence)
    }

    /// Returns the event's occurrences that start after `after`, and their starts: within its windows; none if the event does not
    /// run in this environment.
    pub(crate) fn starts(&self, after: DateTime<Utc>) -> impl Iterator<Item = Start> + use<> {
        let longest = TimeDelta::from_std(self.timetable.jitter.longest()).unwrap_or_default();
        let earliest = after.checked_sub_signed(longest).unwrap_or(after);
        let (occurrences, timetable) = (self.upcoming(earliest), self.timetable.clone());
        let starts = occurrences.map(move |occurrence| Start { at: timetable.start_of(occurrence), occurrence });
        starts.filter(move |start| start.at > after)
    }

    /// Returns the event's occurrences after `after`, within its windows; none if the event does not run in this
    /// environment.
    pub(crate) fn upcoming(&self, after: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> + use<> {
        let times = self.runs_here.then(|| self.timetable.clone().upcoming(after, windows_of(&self.filters)));
        times.into_iter().flatten()
    }

    /// Returns whether it had its last occurrence, if this is its `next` start.
    pub(crate) fn is_over(&self, next: Option<&Start>) -> bool {
        next.is_none() && self.upcoming(DateTime::<Utc>::MIN_UTC).next().is_some()
    }
}

/// The start of an occurrence. The two differ for an event with a jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Start {
    pub(crate) at: DateTime<Utc>,
    pub(crate) occurrence: DateTime<Utc>,
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("name", &self.name)
            .field("timetable", &self.timetable)
            .field("protection", &self.protection)
            .field("timeout", &self.timeout)
            .field("retry", &self.retry)
            .field("background", &self.background)
            .finish_non_exhaustive()
    }
}

impl Event {
    /// Validates the event for a schedule in this `environment`. The usual zone and term apply where the event has none
    /// of its own.
    pub(crate) fn define(
        self,
        usual_zone: &Zone,
        usual_term: Term,
        environment: Option<&str>,
    ) -> Result<Definition, AddError> {
        let name = Arc::clone(&self.name);
        self.validated(usual_zone, usual_term, environment).map_err(|refusal| AddError::new(&name, refusal))
    }

    fn validated(
        mut self,
        usual_zone: &Zone,
        usual_term: Term,
        environment: Option<&str>,
    ) -> Result<Definition, Refusal> {
        self.zone.get_or_insert_with(|| usual_zone.clone());
        let own_name =
            MutexName::readable(Arc::clone(&self.name)).map_err(|error| AddErrorKind::Name.because(error))?;
        let timetable = self.timetable()?;
        timetable.zone.check().map_err(|error| AddErrorKind::Zone.because(error))?;
        if let Some(limit) = self.failure_limit {
            if !(1..MOST_KEPT).contains(&limit) {
                let message = format_args!("`pause_on_failure({limit})`: use 1 to {}", MOST_KEPT - 1);
                return Err(AddErrorKind::OutOfRange.because(message));
            }
            if self.even_when_paused {
                return Err(AddErrorKind::Conflict.because(
                    "it has a `pause_on_failure(..)` and an `even_when_paused()`, so that it would run on: leave out one of \
                     the two",
                ));
            }
        }
        let environments = self.environments.as_ref();
        let runs_here = environments.map_or(Ok(true), |them| them.include(environment))?;
        if !runs_here {
            self.filters.extend(self.environments.clone().map(Filter::OtherEnvironment));
            self.filters.rotate_right(1); // It is asked before those that call code.
        }
        let all = self.protections.catch_up_all;
        let catch_up = self.protections.catch_up.map(|window| (window, 1)).or(all);
        let usual_window = usual_claim_window(timetable.period());
        let protection = self.protections.validate(own_name, usual_term, usual_window, self.store.is_some())?;
        if let Work::Command(command) = &self.work {
            command.check().map_err(|error| AddErrorKind::Command.because(error))?;
        }
        // A callback can't be ended: it must check for itself.
        let grace = (!matches!(self.work, Work::Callback(_))).then(|| self.grace.unwrap_or(USUAL_GRACE));
        let stopping = grace.map(|grace| checked_stopping(grace, protection.lease)).transpose()?;
        for (method, time) in [("timeout", self.timeout), ("stuck_after", self.stuck_after)] {
            check_limit(method, time, protection.lease)?;
        }
        if self.stuck_after.is_some() && protection.lease.is_none() {
            let message = "it has a `stuck_after(..)`, but no lease: add `without_overlapping()`";
            return Err(AddErrorKind::Missing.because(message));
        }
        let longest_wait = protection.queue.as_ref().map(|queue| queue.within).unwrap_or_default();
        let longest_catch_up = all.map(|(window, _)| window + MINUTE).unwrap_or_default();
        let claim_window = usual_window.max(longest_wait).max(longest_catch_up);
        check_live_claims(claim_window, protection.claim, timetable.period())?;
        let catch_up =
            catch_up.and_then(|(window, most)| CatchUp::new(window, most, &self.name, &protection, &timetable));
        let catch_up = catch_up.or_else(|| protection.queue.as_ref().map(CatchUp::of_queue));
        let definition = Definition {
            name: self.name,
            work: self.work,
            stopping: stopping.unwrap_or_default(),
            claim_window,
            claimed_timetable: protection.claim.map(|_| timetable.in_words_and_zone().into()),
            timetable,
            filters: self.filters,
            before: self.before,
            after: self.after,
            protection,
            timeout: self.timeout,
            retry: self.retry,
            environments: self.environments,
            runs_here,
            catch_up,
            store: self.store,
            background: self.background,
            even_when_paused: self.even_when_paused,
            failure_limit: self.failure_limit,
            stuck_after: self.stuck_after,
        };
        definition.check_retry()?;
        Ok(definition)
    }
}

/// Checks that a limit of the run's length can be reached: a lease for a fixed term cancels the run at its end.
fn check_limit(method: &str, limit: Option<Duration>, lease: Option<LeaseTerms>) -> Result<(), Refusal> {
    limit.map(|limit| checked_term(method, limit)).transpose()?;
    let fixed = lease.filter(|lease| lease.renewal == Renewal::Never).map(|lease| lease.term.get());
    match (limit, fixed) {
        (Some(limit), Some(term)) if limit > term => {
            let [limit, term] = [limit, term].map(ExactDuration);
            Err(AddErrorKind::Conflict.because(format_args!(
                "it has a `{method}({limit})`, and a `without_overlapping_for({term})`, which cancels the run before that: let the \
                 first be {term} or shorter, or use `without_overlapping()`, whose lease is renewed"
            )))
        }
        _ => Ok(()),
    }
}

/// Checks that a task with this grace can be stopped before its lease ends. Returns how long that takes.
fn checked_stopping(grace: Duration, lease: Option<LeaseTerms>) -> Result<Duration, Refusal> {
    if grace > LONGEST_GRACE {
        return Err(out_of_range("grace", grace, Duration::ZERO, "1h"));
    }
    let stopping = grace + ENDING_TAKES;
    let needed = stopping * 2;
    match lease.map(|lease| lease.term.get()) {
        Some(term) if term < needed => {
            let [term, needed, grace, killing] = [term, needed, grace, ENDING_TAKES].map(ExactDuration);
            Err(AddErrorKind::Conflict.because(format_args!(
                "its lease of {term} is too short for a `grace({grace})`: it has to last {needed}, which is twice the grace \
                 and the {killing} that killing may take; let the `lease_term(..)` or the `without_overlapping_for(..)` be \
                 longer, or the `grace(..)` shorter"
            )))
        }
        _ => Ok(stopping),
    }
}
