//! The status of a schedule: its runs, its last skips with their reasons, the holders of its leases, and its next due
//! times.

use std::collections::HashMap;
use std::slice;
use std::sync::Arc;

use chrono::{DateTime, SubsecRound, Utc};

use super::differing_timetable::OtherTimetable;
use super::logged_run::LoggedRun;
use super::{LastRun, LastSkip, RunningNow, SeenRuns};
#[cfg(feature = "cli")]
use crate::base::error::if_supported;
use crate::base::{error::MutexError, lock::lock};
use crate::event::definition::Definition;
use crate::lease::holder::Holder;
use crate::lease::label::this_host;
use crate::lease::name::MutexName;
use crate::outcome::paused::{EVENT_PAUSED, Pause};
use crate::schedule::schedule::{Schedule, registry::Registry};
use crate::store::described_store::{HeldAnswer, read_each};
use crate::store::event_mutex::held::Held;
#[cfg(feature = "cli")]
use crate::store::event_mutex::held::Names;
use crate::time::zone::Zone;

/// The status of a schedule: the runs of this process, and the entries in its stores; see [`Schedule::status`]. With
/// the feature `serde`, the status can be serialized; [the
/// book](https://docs.rs/crate/soloist/latest/source/docs/guide/observing.md) shows the JSON.
///
/// ```
/// use soloist::observe::OutcomeKind;
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process();
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
    /// The time of the status, on the schedule's clock.
    pub at: DateTime<Utc>,
    /// The host of this process.
    pub host: Arc<str>,
    /// The id of this process.
    pub pid: u32,
    /// The instance name of this process, if it [has one](Schedule::with_instance).
    pub instance: Option<Arc<str>>,
    /// The name of the schedule, if it [has one](Schedule::named).
    pub application: Option<Arc<str>>,
    /// The pause of the schedule. `None`: the schedule is not paused, or the store did not answer.
    pub paused: Option<Pause>,
    /// The errors of stores that did not answer, or have an entry or a log that can't be read. The holders, the pauses or
    /// the log that the error is about are not known.
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
    /// The name of the event.
    pub name: Arc<str>,
    /// The timetable, in plain English.
    pub timetable: String,
    /// The zone of the timetable.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
    pub zone: Zone,
    /// The next start. `None`: the event never starts in this environment, or has started for the last time.
    pub next_due: Option<DateTime<Utc>>,
    /// The occurrence of the next start. With a [`jitter`](crate::Event::jitter), the occurrence is earlier than the
    /// start.
    pub next_occurrence: Option<DateTime<Utc>>,
    /// Whether no further occurrence follows, because of [`until`](crate::Event::until) or [`at`](crate::Event::at).
    pub is_over: bool,
    /// The protections, with the names of the methods that set them.
    pub protections: Vec<String>,
    /// The name of the event's lease; `None` if the event has no lease.
    pub mutex: Option<MutexName>,
    /// The running runs of the event in this process.
    pub running: Vec<RunningNow>,
    /// The holders of the lease in the whole fleet: several, if several runs are allowed. `None`: the event has no
    /// lease, or the holders are not known.
    pub held_by: Option<Vec<Holder>>,
    /// The waiters in the [queue](crate::Event::on_overlap) in the whole fleet, in their order. `None`: the event has
    /// no queue, or the waiters are not known.
    pub waiting: Option<Vec<Holder>>,
    /// The last ended run of the event in this process.
    pub last_run: Option<LastRun>,
    /// The last successful run of the event in this process.
    pub last_success: Option<LastRun>,
    /// The number of failed runs in this process since the last success. Cancelled runs do not count.
    pub consecutive_failures: u32,
    /// The last occurrence that this process skipped, and the reason.
    pub last_skip: Option<LastSkip>,
    /// The pause of this event alone. `None`: the event itself is not paused, or the store did not answer.
    pub paused: Option<Pause>,
    /// The last runs in the whole fleet, newest first, if the schedule keeps [a log](Schedule::with_run_log). `None`:
    /// the schedule keeps no log, or the log could not be read.
    pub log: Option<Vec<LoggedRun>>,
    /// The timetable on another server, if it has differed from the timetable on this server for an hour or longer.
    /// This process finds the other timetable in the claims of that server. The field becomes `None` when no claim has
    /// shown the difference for an hour.
    pub other_timetable: Option<OtherTimetable>,
}

impl Status {
    /// Returns the status of the event of this name.
    pub fn event(&self, name: &str) -> Option<&EventStatus> {
        self.events.iter().find(|event| &*event.name == name)
    }
}

impl Schedule {
    /// Returns the present and past runs of the schedule in this process, and the holders and pauses in its stores. The
    /// status is for a status page, a health check or a test. This method can be called at any time, even while runs
    /// are running.
    ///
    /// Each store gets one request, and more if it has an entry that can't be read. If the schedule has [a
    /// log](Self::with_run_log), the log of each event is read, too. So the call takes as long as the stores take to
    /// answer. If a store does not answer, [`Status::store_errors`] has the error. The data of this process is complete
    /// in any case.
    ///
    /// The past runs are the runs since this process made the schedule. Clones of the schedule share them.
    pub fn status(&self) -> Status {
        let registry = self.events.registry();
        let mut status = self.status_in(&registry);
        self.ask_who_holds(&registry.events, &mut status);
        self.read_log(&registry.events, &mut status);
        status
    }

    /// Returns the status without the log of runs, for a display that is drawn again each second.
    #[cfg(feature = "cli")]
    pub(crate) fn status_without_log(&self) -> Status {
        Self { run_logger: None, ..self.clone() }.status()
    }

    /// Returns the status without any request to a store.
    #[cfg(feature = "tokio")]
    pub(crate) fn status_here(&self) -> Status {
        self.status_in(&self.events.registry())
    }

    fn status_in(&self, registry: &Registry) -> Status {
        let at = self.clock.now();
        let events = registry.events.iter().zip(&registry.histories);
        let events = events.map(|(event, history)| EventStatus::new(event, lock(&history.0).clone(), at)).collect();
        let host = this_host();
        let pid = std::process::id();
        let instance = self.instance.clone();
        let application = self.application().cloned();
        Status { at, host, pid, instance, application, paused: None, store_errors: Vec::new(), events }
    }

    /// Reads the holders, the waiters and the pauses, in one request to each store.
    fn ask_who_holds(&self, events: &[Arc<Definition>], status: &mut Status) {
        for store in self.stores() {
            let is_here = |event: &Definition| event.store.id == store.id;
            let events_here: Vec<_> =
                events.iter().zip(&mut status.events).filter(|(event, _)| is_here(event)).collect();
            let mut names: Vec<MutexName> = Vec::new();
            for (event, _) in &events_here {
                names.extend(event.protection.leases().iter().cloned());
                names.extend(event.protection.queue.iter().flat_map(|queue| queue.places.iter().cloned()));
            }
            let pause_marker = self.pause_marker.as_ref().filter(|_| store.id == self.store.id);
            names.extend(pause_marker.into_iter().flat_map(|mark| {
                let of_events = events.iter().map(|event| mark.mark(Arc::clone(&event.name), EVENT_PAUSED));
                of_events.chain([mark.clone()])
            }));
            if names.is_empty() {
                continue;
            }
            let answers = read_each(&names, |names| store.held(names));
            let known: HashMap<&MutexName, &HeldAnswer> = names.iter().zip(answers.iter().flatten()).collect();
            // `None`: it is not known which of the names are held.
            let find = |names: &[MutexName]| -> Option<Vec<&Held>> {
                let answers = names.iter().map(|name| known.get(name)?.as_ref().ok());
                Some(answers.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
            };
            let holders = |names: &[MutexName]| -> Option<Vec<Holder>> {
                find(names)?.into_iter().map(|held| held.holder().cloned()).collect()
            };
            let pause = |mark: &MutexName| Some(Pause::by(find(slice::from_ref(mark))?.pop()?.holder().cloned()));
            for (event, status) in events_here {
                if event.protection.lease.is_some() {
                    status.held_by = holders(event.protection.leases());
                }
                status.waiting = event.protection.queue.as_ref().and_then(|queue| holders(&queue.places));
                if let Some(waiting) = &mut status.waiting {
                    waiting.sort_by_key(Holder::token);
                }
            }
            if let Some(mark) = pause_marker {
                status.paused = pause(mark);
                for event in &mut status.events {
                    event.paused = pause(&mark.mark(Arc::clone(&event.name), EVENT_PAUSED));
                }
            }
            let error = match answers {
                Ok(answers) => answers.into_iter().find_map(Result::err),
                Err(error) => Some(error).filter(|error| !error.is_unsupported() || pause_marker.is_some()),
            };
            status.store_errors.extend(error);
        }
    }

    fn read_log(&self, events: &[Arc<Definition>], status: &mut Status) {
        if self.run_logger.is_none() {
            return;
        }
        for (event, in_status) in events.iter().zip(&mut status.events) {
            match self.runs_of(event) {
                Ok(runs) => in_status.log = Some(runs),
                // A read for the next event would fail, too.
                Err(error) if error.is_outage() => return status.store_errors.push(error),
                Err(error) => status.store_errors.push(error),
            }
        }
    }
}

/// Returns the processes that wait in the queue of an event, in their order. The list is empty if the event has no
/// queue, or if the store keeps no holders.
#[cfg(feature = "cli")]
pub(crate) fn waiting_for(event: &Definition) -> Result<Vec<Holder>, MutexError> {
    let Some(queue) = &event.protection.queue else { return Ok(Vec::new()) };
    let held = if_supported(event.store.held(Names::Each(&queue.places)))?;
    let mut waiting: Vec<Holder> = held.into_iter().filter_map(Held::into_holder).collect();
    waiting.sort_by_key(Holder::token);
    Ok(waiting)
}

impl EventStatus {
    fn new(event: &Definition, mut seen: SeenRuns, at: DateTime<Utc>) -> Self {
        let next = event.starts(at).next();
        let ended = seen.last.iter_mut().chain(&mut seen.last_success).map(|run| &mut run.started);
        let starts = seen.running.iter_mut().map(|run| &mut run.since).chain(ended);
        starts.for_each(|start| *start = start.round_subsecs(3));
        let SeenRuns { running, last, last_success, failures, last_skip, difference } = seen;
        Self {
            name: Arc::clone(&event.name),
            timetable: event.timetable(),
            zone: event.zone().clone(),
            next_due: next.map(|start| start.at),
            next_occurrence: next.map(|start| start.occurrence),
            is_over: event.is_over(next.as_ref()),
            protections: event.protections(),
            mutex: event.mutex_name().cloned(),
            running,
            held_by: None,
            waiting: None,
            last_run: last,
            last_success,
            consecutive_failures: failures,
            last_skip,
            paused: None,
            log: None,
            other_timetable: difference.filter(|difference| difference.is_told).map(|difference| difference.other),
        }
    }
}

#[cfg(feature = "serde")]
fn as_text<S: serde::Serializer>(value: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[cfg(feature = "serde")]
fn as_texts<S: serde::Serializer>(errors: &[MutexError], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(errors.iter().map(|error| crate::base::escape::Chain(error).to_string()))
}
