//! The definition of an event in a schedule, and the validation of the builder's options.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

mod spacing_check;

use super::add_error::{AddErrorKind, Refusal, checked_term, out_of_range};
use super::catch_up::CatchUp;
use super::event_builder::{AfterHook, Event};
use super::filter::{Environments, Filter, named};
use super::protection::claim::{MINUTE, check_live_claims, usual_claim_window};
use super::protection::{LeaseTerms, Protection};
use super::retry::Retry;
use crate::lease::{label::Label, name::MutexName, term::Renewal, term::Term};
use crate::outcome::no_retry::NoRetry;
use crate::outcome::run_record::MOST_KEPT;
use crate::store::described_store::Store;
use crate::task::event_task::{Task, Work};
use crate::task::run::{ENDING_TAKES, LONGEST_GRACE, USUAL_GRACE};
use crate::time::clock::shown::{ExactDuration, HumanDuration};
use crate::time::{timetable::Timetable, zone::Zone};

/// The definition of an event that was added to a schedule. [`Schedule::event`](crate::Schedule::event) returns it.
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
    /// The time that is reserved for stopping the task. If the lease can't be renewed, the task is cancelled this long
    /// before the deadline of the lease.
    pub(crate) stopping: Duration,
    pub(crate) timetable: Timetable,
    /// The timetable and its zone in plain English. Each claim has this text, so that other servers can compare it with
    /// their own timetable. `None`: the event makes no claims.
    pub(crate) claimed_timetable: Option<Arc<str>>,
    /// The label of a tick, and the label of the event's claims in such a tick. They are kept from the first claim on.
    claim_label: OnceLock<(Option<Arc<Label>>, Arc<Label>)>,
    pub(crate) filters: Vec<Filter>,
    pub(crate) before: Vec<Task>,
    pub(crate) after: Vec<AfterHook>,
    pub(crate) protection: Protection,
    /// The claim window. A queue or `catch_up_all` can make the window longer than usual. The time that `catch_up` adds
    /// is not included, because that time depends on the occurrence.
    pub(crate) claim_window: Duration,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<Retry>,
    /// The environments in which the event runs. `None`: all.
    environments: Option<Environments>,
    /// Whether the event runs in the environment of the schedule. If not, the event is never due.
    pub(crate) runs_here: bool,
    pub(crate) catch_up: Option<CatchUp>,
    /// The store of the event: its own, or that of the schedule.
    pub(crate) store: Store,
    pub(crate) background: bool,
    pub(crate) even_when_paused: bool,
    /// The event is paused after this many failures in a row.
    pub(crate) failure_limit: Option<usize>,
    /// A run that has been running for longer than this is stuck.
    pub(crate) stuck_after: Option<Duration>,
}

impl Definition {
    /// Returns the name of the event.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the timetable in plain English, with the local times of its [zone](Self::zone): `daily at 02:30`,
    /// `every 10 seconds`. The text does not mention the [conditions](Self::conditions), which can refuse some of these
    /// times.
    pub fn timetable(&self) -> String {
        self.timetable.in_words()
    }

    /// Returns the zone of the timetable.
    pub fn zone(&self) -> &Zone {
        &self.timetable.zone
    }

    /// Returns the name of the lease. `None`: the event has no lease.
    pub fn mutex_name(&self) -> Option<&MutexName> {
        self.protection.lease.map(|_| &self.protection.mutex)
    }

    /// Returns a text for each protection, with the name of the builder's method:
    /// `without_overlapping, lease of 1 min 0 s, renewed`, `on_one_server`, `timeout 5 min 0 s`. Show these texts, but
    /// do not parse them: they can change with each version.
    pub fn protections(&self) -> Vec<String> {
        let mut words = self.protection.in_words();
        // Without a marker, the event has only a queue, and no `catch_up(..)`.
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

    /// Returns a text for each condition that a due event must meet, with the name of the builder's method:
    /// `between 08:00 and 17:00`, `environments production`, `when`. Show these texts, but do not parse them: they can
    /// change with each version.
    pub fn conditions(&self) -> Vec<String> {
        let here =
            self.environments.iter().filter(|_| self.runs_here).map(|them| format!("environments {}", them.list()));
        here.chain((0..self.filters.len()).map(|at| named(&self.filters, at))).collect()
    }

    /// Returns the window of a claim on `occurrence`.
    ///
    /// The window begins with the tick of the run. The run may request its claim only within the window: after the
    /// window, the claim of a server that has run the occurrence may have expired. With `catch_up`, the window also
    /// covers the time in which other servers read the claim to find missed occurrences.
    pub(crate) fn window_of_claim(&self, occurrence: DateTime<Utc>) -> Duration {
        let usual = self.claim_window;
        match self.catch_up.as_ref().filter(|catch_up| catch_up.window + MINUTE > usual) {
            Some(catch_up) => catch_up.claim_lookup_time(&self.timetable, occurrence).max(usual),
            None => usual,
        }
    }

    /// Returns the name and the term of the claim on `occurrence`. `None`: the event makes no claims.
    pub(crate) fn claim(&self, occurrence: DateTime<Utc>) -> Option<(MutexName, Term)> {
        let Self { name, timetable, protection, .. } = self;
        let (claim, window) = (protection.claim?, self.window_of_claim(occurrence));
        Some(claim.name_and_term(&protection.mutex, name, occurrence, timetable, window))
    }

    /// Returns the label of a claim: `of_tick`, the label of the tick, with the timetable of the event. `None`: the event
    /// makes no claims.
    pub(crate) fn claim_label(&self, of_tick: Option<&Arc<Label>>) -> Option<Arc<Label>> {
        let timetable = self.claimed_timetable.as_ref()?;
        let label = || {
            let timetable = Some(Arc::clone(timetable));
            Arc::new(Label { timetable, ..of_tick.map(|label| Label::clone(label)).unwrap_or_default() })
        };
        // A clone of the schedule may have another name, and so another label.
        let (kept_of, kept) = self.claim_label.get_or_init(|| (of_tick.cloned(), label()));
        Some(if kept_of.as_ref() == of_tick { Arc::clone(kept) } else { label() })
    }

    /// Returns the time at which `occurrence` starts. With a [`jitter`](Event::jitter), the start can be later than the
    /// occurrence. Without a jitter, the two times are equal.
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

    /// Returns the event's occurrences that start after `after`, each with its start. An occurrence outside of the
    /// event's windows is left out. If the event does not run in this environment, there are no occurrences.
    pub(crate) fn starts(&self, after: DateTime<Utc>) -> impl Iterator<Item = Start> + use<> {
        let longest = TimeDelta::from_std(self.timetable.jitter.longest()).unwrap_or_default();
        let earliest = after.checked_sub_signed(longest).unwrap_or(after);
        let (occurrences, timetable) = (self.upcoming(earliest), self.timetable.clone());
        let starts = occurrences.map(move |occurrence| Start { at: timetable.start_of(occurrence), occurrence });
        starts.filter(move |start| start.at > after)
    }

    /// Returns the event's occurrences after `after`. An occurrence outside of the event's windows is left out. If the
    /// event does not run in this environment, there are no occurrences.
    pub(crate) fn upcoming(&self, after: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> + use<> {
        let times = self.runs_here.then(|| self.timetable.clone().upcoming(after));
        times.into_iter().flatten()
    }

    /// Returns why no attempt may begin at the time `at`. `since` is the time of the run's tick. `None`: an attempt may
    /// begin.
    pub(crate) fn refuses_attempt(
        &self,
        at: DateTime<Utc>,
        since: DateTime<Utc>,
        ignores_windows: bool,
    ) -> Option<NoRetry> {
        let shown = self.timetable.zone.at(at).time();
        if self.timetable.span.is_over_at(at.timestamp()) {
            Some(NoRetry::Over)
        } else if self.starts(since).next().is_some_and(|next| next.at <= at) {
            Some(NoRetry::NextOccurrence)
        } else if !ignores_windows && !self.timetable.windows.are_open_at(shown) {
            Some(NoRetry::OutsideWindow)
        } else {
            None
        }
    }

    /// Returns whether the event has had its last occurrence. `next` is the next start of the event, if there is one.
    pub(crate) fn is_over(&self, next: Option<&Start>) -> bool {
        next.is_none() && self.upcoming(DateTime::<Utc>::MIN_UTC).next().is_some()
    }
}

/// An occurrence and its start. With a jitter, the start can be later than the occurrence.
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
    /// Validates the event for a schedule in this `environment`. `usual_store`, `usual_zone` and `usual_term` are the
    /// schedule's defaults, for an event that does not set its own store, zone or term.
    pub(crate) fn define(
        mut self,
        usual_store: &Store,
        usual_zone: &Zone,
        usual_term: Duration,
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
                    "it has a `pause_on_failure(..)`, and an `even_when_paused()`, so that no pause would stop it: leave out \
                     one of the two",
                ));
            }
        }
        let environments = self.environments.as_ref();
        let runs_here = environments.map_or(Ok(true), |them| them.include(environment))?;
        if !runs_here {
            self.filters.extend(self.environments.clone().map(Filter::OtherEnvironment));
            // This filter refuses every run. It comes first, so that no run calls a filter function of the application.
            self.filters.rotate_right(1);
        }
        let all = self.protections.catch_up_all;
        let catch_up = self.protections.catch_up.map(|window| (window, 1)).or(all);
        let usual_window = usual_claim_window(timetable.period());
        let protection = self.protections.validate(own_name, usual_term, usual_window, self.store.is_some())?;
        if let Work::Command(command) = &self.work {
            command.check().map_err(|error| AddErrorKind::Command.because(error))?;
        }
        // A callback can't be ended by force, so it has no grace.
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
        let catch_up = CatchUp::new(catch_up, &self.name, &protection, &timetable);
        let definition = Definition {
            name: self.name,
            work: self.work,
            stopping: stopping.unwrap_or_default(),
            claim_window,
            claimed_timetable: protection.claim.map(|_| timetable.in_words_and_zone().into()),
            claim_label: OnceLock::new(),
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
            store: self.store.unwrap_or_else(|| usual_store.clone()),
            background: self.background,
            even_when_paused: self.even_when_paused,
            failure_limit: self.failure_limit,
            stuck_after: self.stuck_after,
        };
        definition.check_hold()?;
        definition.check_catch_up()?;
        definition.check_retry()?;
        Ok(definition)
    }
}

/// Checks that a run can last as long as `limit`, the argument of `method`. A lease with a fixed term cancels its run
/// at the end of the term, so a longer limit would have no effect.
fn check_limit(method: &str, limit: Option<Duration>, lease: Option<LeaseTerms>) -> Result<(), Refusal> {
    limit.map(|limit| checked_term(method, limit)).transpose()?;
    let fixed = lease.filter(|lease| lease.renewal == Renewal::Never).map(|lease| lease.term.get());
    match (limit, fixed) {
        (Some(limit), Some(term)) if limit > term => {
            let [limit, term] = [limit, term].map(ExactDuration);
            Err(AddErrorKind::Conflict.because(format_args!(
                "it has a `{method}({limit})`, and a `without_overlapping_for({term})`, which cancels the run before that: choose \
                 a `{method}(..)` of {term} or less, or use `without_overlapping()`, whose lease is renewed"
            )))
        }
        _ => Ok(()),
    }
}

/// Returns the time to reserve for stopping the task: the grace and [`ENDING_TAKES`]. Refuses a grace that is too long,
/// and a lease that is shorter than twice the returned time.
fn checked_stopping(grace: Duration, lease: Option<LeaseTerms>) -> Result<Duration, Refusal> {
    if grace > LONGEST_GRACE {
        return Err(out_of_range("grace", grace, Duration::ZERO, "1h"));
    }
    let stopping = grace + ENDING_TAKES;
    let needed = stopping * 2;
    match lease {
        Some(LeaseTerms { term, renewal, .. }) if term.get() < needed => {
            let [term, needed, grace, killing] = [term.get(), needed, grace, ENDING_TAKES].map(ExactDuration);
            let longer = if renewal == Renewal::Never { "`without_overlapping_for(..)`" } else { "`lease_term(..)`" };
            Err(AddErrorKind::Conflict.because(format_args!(
                "its lease of {term} is too short: it must last at least {needed}, twice the sum of the `grace(..)`, which is \
                 {grace}, and the {killing} that a kill may take: use a longer {longer}, or a shorter `grace(..)`"
            )))
        }
        _ => Ok(stopping),
    }
}
