//! The status of a schedule: its runs, its last skips with their reasons, the holders of its leases, and its next due times.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::logged_run::LoggedRun;
use super::{LastRun, LastSkip, RunningNow, SeenRuns};
use crate::base::{error::MutexError, process_id};
use crate::event::definition::Definition;
use crate::lease::holder::Holder;
use crate::lease::label::this_host;
use crate::lease::name::MutexName;
use crate::outcome::paused::{EVENT_PAUSED, Pause};
use crate::schedule::pause::pause_check::find_pauses;
use crate::schedule::schedule::Schedule;
use crate::store::event_mutex::held::{Held, Names};
use crate::time::zone::Zone;

/// The status of a schedule: the runs that this process knows, and what its stores hold; see [`Schedule::status`]. With the
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
    /// The pause of the schedule; `None` if it is not paused, or that is not known.
    pub paused: Option<Pause>,
    /// The errors of stores that gave no answer: their holders and pauses are not known.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_texts"))]
    pub store_errors: Vec<MutexError>,
    /// All events, in the order of their registration.
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
    /// When it is due next; `None`: never, in this environment, or never again.
    pub next_due: Option<DateTime<Utc>>,
    /// Whether it had its last occurrence, as its [`until`](crate::Event::until) or [`at`](crate::Event::at) says.
    pub is_over: bool,
    /// Its protections, in the words that ask for them.
    pub protections: Vec<String>,
    /// The name of its lease; `None` without one.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_optional_text"))]
    pub mutex: Option<MutexName>,
    /// Its runs in this process.
    pub running: Vec<RunningNow>,
    /// Who holds its lease, wherever that is; several where several may run. `None`: that is not known.
    pub held_by: Option<Vec<Holder>>,
    /// Its last run that ended in this process.
    pub last_run: Option<LastRun>,
    /// Its last run that succeeded.
    pub last_success: Option<LastRun>,
    /// How many of its runs in this process have failed since one succeeded. A cancelled run does not count.
    pub consecutive_failures: u32,
    /// Its last occurrence that this process skipped, and why.
    pub last_skip: Option<LastSkip>,
    /// The pause of the event alone; `None` if it is not paused, or that is not known.
    pub paused: Option<Pause>,
    /// Its last runs in the whole fleet, the newest first, where the schedule keeps [a log](Schedule::with_run_log). `None`: it
    /// keeps none, or the store did not answer.
    pub log: Option<Vec<LoggedRun>>,
}

impl Status {
    /// Returns the status of the event of this name.
    pub fn event(&self, name: &str) -> Option<&EventStatus> {
        self.events.iter().find(|event| &*event.name == name)
    }
}

impl Schedule {
    /// Returns what the schedule does and did in this process, also during its runs; and what its stores say: who holds each lease,
    /// and who paused what. For a page, a health check, or a test.
    ///
    /// A store is asked twice; and about each event alone where there is [a log](Self::with_run_log).
    /// That may take as long as a store takes to answer. If it gives no answer, [`Status::store_errors`] says so; the other fields are
    /// complete.
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

    /// Returns the status without what the stores say.
    pub(crate) fn status_here(&self) -> Status {
        let at = self.clock.now();
        let events = self.events.iter().zip(&self.histories);
        let events = events.map(|(event, history)| EventStatus::new(event, history.now(), at)).collect();
        let (host, pid, instance) = (this_host(), process_id::current(), self.instance());
        let application = self.application().cloned();
        Status { at, host, pid, instance, application, paused: None, store_errors: Vec::new(), events }
    }

    /// Returns who paused the schedule, and each of its events.
    fn pauses(&self, events: &mut [EventStatus]) -> Result<Option<Pause>, MutexError> {
        let Some(mark) = &self.pause_marker else { return Ok(None) };
        let store = &*self.store.mutex;
        let of_events = events.iter().map(|event| mark.mark(Arc::clone(&event.name), EVENT_PAUSED));
        let marks: Vec<MutexName> = of_events.chain([mark.clone()]).collect();
        let mut paused: HashMap<MutexName, Pause> = find_pauses(store, &marks)?.collect();
        for (event, mark) in events.iter_mut().zip(&marks) {
            event.paused = paused.remove(mark);
        }
        Ok(paused.remove(mark))
    }

    fn ask_who_holds(&self, status: &mut Status) {
        let Status { events: statuses, store_errors, .. } = status;
        for store in self.stores() {
            let is_here = |event: &Definition| event.protection.lease.is_some() && self.store_of(event).id == store.id;
            let protected = || self.events.iter().zip(0..).filter(|(event, _)| is_here(event));
            let leases: Vec<MutexName> =
                protected().flat_map(|(event, _)| event.protection.leases()).cloned().collect();
            if leases.is_empty() {
                continue;
            }
            match store.mutex.held(Names::Each(&leases)) {
                Ok(held) => {
                    let holder = |held: Held| (held.name().clone(), held.into_holder());
                    let holders: HashMap<MutexName, Option<Holder>> = held.into_iter().map(holder).collect();
                    for (event, at) in protected() {
                        let leases = event.protection.leases().iter();
                        statuses[at].held_by = leases.filter_map(|lease| holders.get(lease).cloned()).collect();
                    }
                }
                Err(error) if error.is_unsupported() => {}
                Err(error) => {
                    // A lease that can't be read hides no other.
                    if !error.is_outage() {
                        protected().for_each(|(event, at)| statuses[at].held_by = self.holders_of(event));
                    }
                    store_errors.push(error);
                }
            }
        }
    }

    fn read_log(&self, status: &mut Status) {
        if self.run_logger.is_none() {
            return;
        }
        for (event, in_status) in self.events.iter().zip(&mut status.events) {
            match self.runs_of(event) {
                Ok(runs) => in_status.log = Some(runs),
                // The logs of the other events would give no answer either.
                Err(error) => return status.store_errors.push(error),
            }
        }
    }
}

impl EventStatus {
    fn new(event: &Definition, seen: SeenRuns, at: DateTime<Utc>) -> Self {
        let last_success = seen.last_success().cloned();
        let SeenRuns { running, last, failures, last_skip, .. } = seen;
        Self {
            name: Arc::clone(&event.name),
            timetable: event.timetable(),
            zone: event.zone().clone(),
            next_due: event.upcoming(at).next(),
            is_over: event.is_over(at),
            protections: event.protections(),
            mutex: event.mutex_name().cloned(),
            running,
            held_by: None,
            last_run: last,
            last_success,
            consecutive_failures: failures,
            last_skip,
            paused: None,
            log: None,
        }
    }
}

#[cfg(feature = "serde")]
mod form {
    //! How values are written that have no form of their own.

    use std::fmt::Display;

    use serde::Serializer;

    use crate::base::{error::MutexError, escape::Chain};

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
}

#[cfg(feature = "serde")]
use form::{as_optional_text, as_text, as_texts};
