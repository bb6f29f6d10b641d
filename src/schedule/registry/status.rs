//! The status of a schedule: what runs, what ran, why something did not, who holds it, and what is next.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SubsecRound, Utc};

use super::Schedule;
use super::event_history::{SeenRun, SeenRuns, SeenSkip, SeenStart};
use super::logged_run::LoggedRun;
use crate::base::{error::MutexError, process_id};
use crate::event::definition::Definition;
use crate::lease::holder::Holder;
use crate::lease::label::this_host;
use crate::lease::name::MutexName;
use crate::lease::{store_id::StoreId, token::FencingToken};
use crate::observe::paused::{EVENT_PAUSED, Pause};
use crate::observe::run_record::outcome_kind::OutcomeKind;
use crate::observe::skip_reason::SkipReason;
use crate::schedule::tick_context::pause_check::find_pauses;
use crate::store::event_mutex::held::{Held, Names};
use crate::store::handle::Store;
use crate::time::{clock::Clock, zone::Zone};

/// What a schedule does and did, as far as this process knows, and what its stores hold; see [`Schedule::status`]. With the
/// feature `serde` it is written as JSON; [the guide](crate::guide::observing) shows its form.
///
/// ```
/// use soloist::observe::OutcomeKind;
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut schedule = Schedule::in_process();
/// schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping())?;
/// let _ = schedule.run_due(chrono::Utc::now());
/// let status = schedule.status();
/// let reports = status.event("reports").expect("it was added");
/// assert_eq!(reports.timetable, "every minute");
/// assert_eq!(reports.last_run.as_ref().map(|run| run.result), Some(OutcomeKind::Succeeded));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Status {
    /// When this was so, on the schedule's clock.
    pub at: DateTime<Utc>,
    /// The host of this process.
    pub host: Arc<str>,
    /// This process.
    pub pid: u32,
    /// The name of this process, if it [has one](Schedule::with_instance).
    pub instance: Option<Arc<str>>,
    /// The name of the schedule, if it [has one](Schedule::named).
    pub application: Option<Arc<str>>,
    /// Who paused the schedule; `None` if nobody did, or it is not known.
    pub paused: Option<Pause>,
    /// What stores did not say, because they gave no answer: then who holds or paused something is not known.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_texts"))]
    pub store_errors: Vec<MutexError>,
    /// All events, in the order in which they were added.
    pub events: Vec<EventStatus>,
}

/// The status of one event; see [`Schedule::status`].
///
/// ```
/// use soloist::observe::EventStatus;
/// use soloist::Schedule;
///
/// fn is_in_trouble(event: &EventStatus) -> bool {
///     event.consecutive_failures >= 3
/// }
/// assert!(!Schedule::in_process().status().events.iter().any(is_in_trouble));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct EventStatus {
    /// Its name.
    pub name: Arc<str>,
    /// When it is due, in plain English.
    pub timetable: String,
    /// The zone of that.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
    pub zone: Zone,
    /// When it is due next; `None`: never, in this environment.
    pub next_due: Option<DateTime<Utc>>,
    /// Its protections, in the words that ask for them.
    pub protections: Vec<String>,
    /// The name of its lease; `None` without one.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_optional_text"))]
    pub mutex: Option<MutexName>,
    /// Its runs that are at work in this process.
    pub running: Vec<RunningNow>,
    /// Who holds its lease, wherever that is; several where several may run. `None`: that is not known.
    pub held_by: Option<Vec<Holder>>,
    /// Its last run that ended in this process.
    pub last_run: Option<LastRun>,
    /// Its last one that succeeded.
    pub last_success: Option<LastRun>,
    /// How many of its runs in this process have failed since one succeeded. What was cancelled does not count.
    pub consecutive_failures: u32,
    /// Its last occurrence that this process skipped, and why.
    pub last_skip: Option<LastSkip>,
    /// Who paused the event alone; `None` if nobody did, or it is not known.
    pub paused: Option<Pause>,
    /// Its last runs in the whole fleet, the newest first, where the schedule keeps [a log](Schedule::with_run_log). `None`: it
    /// keeps none, or the store did not answer.
    pub log: Option<Vec<LoggedRun>>,
}

/// A run that is at work; see [`EventStatus`].
///
/// ```
/// use soloist::Schedule;
///
/// for event in Schedule::in_process().status().events {
///     event.running.iter().for_each(|run| println!("{} runs since {}", event.name, run.since));
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RunningNow {
    /// The instant it was scheduled for.
    pub occurrence: DateTime<Utc>,
    /// Since when its task is at work.
    pub since: DateTime<Utc>,
    /// The token under which it runs.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_number"))]
    pub token: Option<FencingToken>,
}

/// A run that has ended; see [`EventStatus`].
///
/// ```
/// use soloist::observe::{LastRun, OutcomeKind};
///
/// fn is_slow(run: &LastRun) -> bool {
///     run.result == OutcomeKind::Succeeded && run.took.as_secs() > 60
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LastRun {
    /// The instant it was scheduled for.
    pub occurrence: DateTime<Utc>,
    /// When its task started.
    pub started: DateTime<Utc>,
    /// How long that took.
    #[cfg_attr(feature = "serde", serde(rename = "took_ms", serialize_with = "as_millis"))]
    pub took: Duration,
    /// How it ended, in one word.
    pub result: OutcomeKind,
    /// What went wrong, on one line; `None` if it succeeded.
    pub error: Option<Arc<str>>,
    /// The token under which it ran.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_number"))]
    pub token: Option<FencingToken>,
}

/// An occurrence that was skipped; see [`EventStatus`].
///
/// ```
/// use soloist::observe::LastSkip;
/// use soloist::SkipReason;
///
/// fn is_of_another_server(skip: &LastSkip) -> bool {
///     matches!(skip.reason, SkipReason::RanElsewhere(_))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LastSkip {
    /// The instant it was scheduled for.
    pub occurrence: DateTime<Utc>,
    /// Why.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub reason: SkipReason,
}

impl Status {
    /// That of the event of this name.
    pub fn event(&self, name: &str) -> Option<&EventStatus> {
        self.events.iter().find(|event| &*event.name == name)
    }
}

impl Schedule {
    /// What the schedule does and did in this process, while runs are at work too; and what its stores say: who holds each lease,
    /// and who paused what. For a page, a health check, or a test.
    ///
    /// A store is asked twice; and about each event alone while one is paused, and where there is [a log](Self::with_run_log).
    /// That may take as long as a store takes to answer. If it gives no answer, [`Status::store_errors`] says so; the rest is
    /// there all the same.
    ///
    /// What ran is known since this process has the schedule; clones share it.
    pub fn status(&self) -> Status {
        let mut status = self.status_here();
        let paused = self.pauses(&mut status.events);
        match paused {
            Ok(paused) => status.paused = paused,
            Err(error) => status.store_errors.push(error),
        }
        self.ask_who_holds(&mut status);
        self.read_log(&mut status);
        status
    }

    /// The same without what the stores say.
    pub(crate) fn status_here(&self) -> Status {
        let at = self.clock.now();
        let events = self.events.iter().zip(&self.histories);
        let events = events.map(|(event, history)| EventStatus::new(event, history.now(), at, &self.clock)).collect();
        let (host, pid, instance) = (this_host(), process_id::current(), self.instance());
        let application = self.application().cloned();
        Status { at, host, pid, instance, application, paused: None, store_errors: Vec::new(), events }
    }

    /// Who paused the schedule, and each of its events.
    fn pauses(&self, events: &mut [EventStatus]) -> Result<Option<Pause>, MutexError> {
        let Some(mark) = &self.pause_mark else { return Ok(None) };
        let store = &*self.mutex.mutex;
        let of_events = events.iter().map(|event| mark.mark(Arc::clone(&event.name), EVENT_PAUSED));
        let marks: Vec<MutexName> = of_events.chain([mark.clone()]).collect();
        let mut paused: HashMap<MutexName, Pause> = find_pauses(store, &marks)?.collect();
        for (event, mark) in events.iter_mut().zip(&marks) {
            event.paused = paused.remove(mark);
        }
        Ok(paused.remove(mark))
    }

    fn ask_who_holds(&self, status: &mut Status) {
        let Status { events, store_errors, .. } = status;
        let mut asked: Vec<(StoreId, Result<Vec<Held>, MutexError>)> = Vec::new();
        let protected = self.events.iter().zip(events).filter(|(event, _)| event.protection.lease.is_some());
        for (event, status) in protected {
            let store = self.store_of(event);
            let at = asked.iter().position(|(id, _)| *id == store.id).unwrap_or_else(|| {
                asked.push((store.id, store.mutex.held(Names::LeasesWithPrefix(&self.common_prefix(store)))));
                asked.len() - 1
            });
            let held = &asked[at].1;
            status.held_by = held.as_ref().ok().map(|held| holders(event, store, held));
        }
        let errors = asked.into_iter().filter_map(|(_, held)| held.err());
        store_errors.extend(errors.filter(|error| !error.is_unsupported()));
    }

    fn read_log(&self, status: &mut Status) {
        if self.run_logger.is_none() {
            return;
        }
        for (event, in_status) in self.events.iter().zip(&mut status.events) {
            match self.runs_of(event) {
                Ok(runs) => in_status.log = Some(runs),
                // The others would get no answer either.
                Err(error) => return status.store_errors.push(error),
            }
        }
    }

    /// What the names of all leases of this schedule in a store begin with.
    fn common_prefix(&self, store: &Store) -> String {
        let protected = self.events.iter().filter(|event| event.protection.lease.is_some());
        let mut names =
            protected.filter(|event| self.store_of(event).id == store.id).map(|event| event.protection.mutex.mutex());
        let first = names.next().unwrap_or_default();
        let shared = |shared: &str, name: &str| {
            shared.chars().zip(name.chars()).take_while(|(a, b)| a == b).map(|(char, _)| char).collect()
        };
        names.fold(first.to_owned(), |prefix, name| shared(&prefix, name))
    }
}

/// Who holds the lease of this event, or one of its slots.
fn holders(event: &Definition, store: &Store, held: &[Held]) -> Vec<Holder> {
    let is_lease = |held: &&Held| *held.name() == event.protection.mutex;
    let leases = held.iter().filter(is_lease).cloned();
    let other_slots = event.protection.slots.iter().skip(1);
    let others = other_slots.flat_map(|slot| store.mutex.held(Names::Exactly(slot)).unwrap_or_default());
    leases.chain(others).filter_map(Held::into_holder).collect()
}

impl EventStatus {
    fn new(event: &Definition, seen: SeenRuns, at: DateTime<Utc>, clock: &Clock) -> Self {
        let last_success = seen.last_success().cloned();
        let SeenRuns { running, last, failures, last_skip, .. } = seen;
        Self {
            name: Arc::clone(&event.name),
            timetable: event.timetable(),
            zone: event.zone().clone(),
            next_due: event.upcoming(at).next(),
            protections: event.protections(),
            mutex: event.mutex_name().cloned(),
            running: running.iter().map(|start| RunningNow::new(start, clock)).collect(),
            held_by: None,
            last_run: last.map(|run| LastRun::new(run, clock)),
            last_success: last_success.map(|run| LastRun::new(run, clock)),
            consecutive_failures: failures,
            last_skip: last_skip.map(|SeenSkip { occurrence, reason }| LastSkip { occurrence, reason }),
            paused: None,
            log: None,
        }
    }
}

impl RunningNow {
    fn new(start: &SeenStart, clock: &Clock) -> Self {
        Self { occurrence: start.occurrence, since: wall_time(start, clock), token: start.token }
    }
}

impl LastRun {
    fn new(run: SeenRun, clock: &Clock) -> Self {
        let SeenRun { start, took, result, error } = run;
        let started = wall_time(&start, clock);
        Self { occurrence: start.occurrence, started, took, result, error, token: start.token }
    }
}

/// To the millisecond, because it is computed from two readings of a clock.
fn wall_time(start: &SeenStart, clock: &Clock) -> DateTime<Utc> {
    clock.wall_at(start.at).round_subsecs(3)
}

#[cfg(feature = "serde")]
mod form {
    //! How values are written that have no form of their own.

    use std::fmt::Display;
    use std::time::Duration;

    use serde::Serializer;

    use crate::base::{error::MutexError, escape::Chain};
    use crate::lease::token::FencingToken;

    pub(super) fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn as_optional_text<S: Serializer>(
        value: &Option<impl Display>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn as_texts<S: Serializer>(errors: &[MutexError], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(errors.iter().map(|error| Chain(error).to_string()))
    }

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn as_number<S: Serializer>(token: &Option<FencingToken>, serializer: S) -> Result<S::Ok, S::Error> {
        match token {
            Some(token) => serializer.serialize_u64(token.get()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn as_millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(duration.as_millis().try_into().unwrap_or(u64::MAX))
    }
}

#[cfg(feature = "serde")]
use form::{as_millis, as_number, as_optional_text, as_text, as_texts};
