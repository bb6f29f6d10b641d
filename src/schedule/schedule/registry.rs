//! The events of a schedule: adding one, removing one, and reading them.

use std::sync::Arc;

use super::Schedule;
#[cfg(feature = "cli")]
use crate::base::error::MutexError;
use crate::base::error::debug_as_display;
use crate::base::{escape::Quoted, similar::similar};
use crate::event::add_error::{AddError, AddErrorKind};
use crate::event::definition::Definition;
use crate::event::event_builder::Event;
use crate::event::protection::LeaseTerms;
use crate::observe::notice::{About, Step, incident::Incident};
use crate::observe::tell::log;
#[cfg(feature = "cli")]
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::description::Scope;
#[cfg(feature = "cli")]
use crate::store::event_mutex::held::Names;
use crate::store::handle::Store;
use crate::time::due_index::DueIndex;

impl Schedule {
    /// Adds an event at the end, if it is valid.
    ///
    /// Warns of a protection that its store can't give: `on_one_server` and `once_per` on a store that only this
    /// process sees. The warning goes to subscribers of `tracing` for each such event; without a subscriber, to
    /// standard error for the first. It does not come in a test, where the schedule or its store is on a
    /// [`ManualClock`](crate::time::ManualClock).
    ///
    /// # Errors
    ///
    /// The event is invalid; the error says why. The schedule is unchanged.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).hourly())?;
    /// let error = schedule.add(Event::call("reports", |_| {}).daily()).unwrap_err();
    /// assert_eq!(error.to_string(), "event `reports`: there is already an event of this name in the schedule");
    /// # Ok(())
    /// # }
    /// ```
    pub fn add(&mut self, event: Event) -> Result<&mut Self, AddError> {
        let event = event.driven_by(self.runtime.as_ref())?;
        let event = event.define(&self.zone, self.lease_term, self.environment.as_deref())?;
        let refuse = |refusal| Err(AddError::new(&event.name, refusal));
        if self.names.contains_key(&event.name) {
            return refuse(AddErrorKind::Duplicate.because("there is already an event of this name in the schedule"));
        }
        let Store { id, can_extend, scope, .. } = self.store_of(&event);
        if event.protection.lease.is_some_and(LeaseTerms::need_extension) && !can_extend {
            return refuse(AddErrorKind::Store.because(
                "its store says that it can't extend a lease (`EventMutex::describe`), so that none is renewed or held \
                 longer than its task: use `without_overlapping_for(..)` alone, with a term that is longer than the task \
                 takes",
            ));
        }
        let (mutex, asked) = (&event.protection.mutex, event.protection.alternatives());
        if event.protection.lease.is_some()
            && let Some(known) = self.runs_at_a_time.get(&(*id, mutex.clone())).copied().filter(|known| *known != asked)
        {
            let mutex = mutex.mutex();
            return refuse(AddErrorKind::Conflict.because(format_args!(
                "of the events that share the mutex {mutex:?}, this one allows {asked} at a time and another one {known}: \
                 say the same `at_most(..)` for all of them"
            )));
        }
        if event.protection.queue.is_some() && !can_extend {
            return refuse(AddErrorKind::Store.because(
                "its store says that it can't extend a lease (`EventMutex::describe`), so that it can't keep a place in a \
                 queue: leave out the `on_overlap(..)`",
            ));
        }
        if let Some(limit) = event.failure_limit {
            if self.pause_marker.is_none() {
                return refuse(AddErrorKind::Missing.because(
                    "it has a `pause_on_failure(..)`, and the schedule has no name: call `schedule.named(..)` before `add`",
                ));
            }
            let keep = self.run_logger.as_ref().map_or(0, |logger| logger.keep());
            if keep <= limit {
                let log = match keep {
                    0 => "the schedule keeps no log of runs".to_owned(),
                    _ => format!("the log of the schedule keeps {keep} runs"),
                };
                return refuse(AddErrorKind::Missing.because(format_args!(
                    "it has a `pause_on_failure({limit})`, and {log}: call `schedule.with_run_log(..)` with more than \
                     {limit} before `add`"
                )));
            }
        }
        let is_in_a_test = || self.clock.is_manual() || self.store_of(&event).mutex.clock().is_manual();
        if event.protection.claim.is_some() && *scope == Scope::Process && !is_in_a_test() {
            log(&Incident::StoreTooNear { event: &event.name, scope });
        }
        self.index_event(self.events.len(), &event);
        self.names.insert(Arc::clone(&event.name), self.events.len());
        self.events.push(Arc::new(event));
        self.histories.push(Arc::default());
        self.has_begun = Arc::default();
        Ok(self)
    }

    /// Removes an event; `false` if there is none of this name. A run under way goes on.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(at) = self.names.remove(name) else { return false };
        self.events.remove(at);
        self.histories.remove(at);
        self.has_begun = Arc::default();
        self.names.values_mut().filter(|index| **index > at).for_each(|index| *index -= 1);
        (self.due_index, self.catch_up_events) = (DueIndex::default(), Vec::new());
        self.runs_at_a_time.clear();
        for (at, event) in self.events.clone().iter().enumerate() {
            self.index_event(at, event);
        }
        self.observers.tell(About { event: Some(name), ..About::default() }, &Step::Removed);
        true
    }

    fn index_event(&mut self, at: usize, event: &Definition) {
        if event.protection.lease.is_some() {
            let mutex = (self.store_of(event).id, event.protection.mutex.clone());
            self.runs_at_a_time.insert(mutex, event.protection.alternatives());
        }
        if event.runs_here {
            self.due_index.push(at, &event.timetable, event.has_windows());
            self.catch_up_events.extend(event.catch_up.as_ref().map(|_| at));
        }
    }

    /// Returns the names of its events, in the order of their registration.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.events.iter().map(|event| &*event.name)
    }

    /// Returns the event of this name as it was defined, to read.
    ///
    /// # Errors
    ///
    /// There is no event of this name.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).daily_at("02:30").without_overlapping())?;
    /// let reports = schedule.event("reports")?;
    /// assert_eq!(reports.timetable(), "daily at 02:30");
    /// assert_eq!(reports.protections(), ["without_overlapping, lease of 1 min 0 s, renewed"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn event(&self, name: &str) -> Result<&Definition, UnknownEvent> {
        Ok(&self.events[self.index_of(name)?])
    }

    #[cfg(feature = "cli")]
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.events.iter().map(|event| &**event)
    }

    /// Returns its store, and those that events have for themselves.
    pub(crate) fn stores(&self) -> Vec<&Store> {
        let mut stores = vec![&self.store];
        for store in self.events.iter().filter_map(|event| event.store.as_ref()) {
            if !stores.iter().any(|known| known.id == store.id) {
                stores.push(store);
            }
        }
        stores
    }

    /// Returns whether as many runs of this event hold a lease as may run at a time.
    #[cfg(feature = "cli")]
    pub(crate) fn is_fully_held(&self, name: &str) -> Result<bool, MutexError> {
        let Some(event) = self.names.get(name).map(|event| &self.events[*event]) else { return Ok(false) };
        let leases = event.protection.leases();
        let held = self.store_of(event).mutex.held(Names::Each(leases))?;
        Ok(!leases.is_empty() && held.len() == leases.len())
    }

    pub(in crate::schedule) fn index_of(&self, name: &str) -> Result<usize, UnknownEvent> {
        self.names.get(name).copied().ok_or_else(|| UnknownEvent::new(name, self.names()))
    }

    pub(in crate::schedule) fn store_of<'a>(&'a self, event: &'a Definition) -> &'a Store {
        event.store.as_ref().unwrap_or(&self.store)
    }
}

/// The schedule has no event of this name.
///
/// ```
/// use soloist::Schedule;
///
/// let error = Schedule::in_process().run_event("reports", chrono::Utc::now()).unwrap_err();
/// assert_eq!(error.to_string(), "there is no event `reports` in the schedule");
///
/// let mut schedule = Schedule::in_process();
/// schedule.add(soloist::Event::call("reports", |_| {}).hourly()).unwrap();
/// let error = schedule.run_event("report", chrono::Utc::now()).unwrap_err();
/// assert_eq!(error.to_string(), "there is no event `report` in the schedule; did you mean `reports`?");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no event {name} in the schedule{instead}")]
pub struct UnknownEvent {
    name: Quoted,
    /// The names that may be meant, or some of those that there are.
    instead: Box<str>,
}

impl UnknownEvent {
    /// The most events that are named where none is similar.
    const NAMED: usize = 5;

    fn new<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Self {
        let quoted = |names: Vec<&str>, last: &str| {
            let mut names: Vec<String> = names.into_iter().map(|name| Quoted::new(name).to_string()).collect();
            let end = names.pop().unwrap_or_default();
            if names.is_empty() { end } else { format!("{} {last} {end}", names.join(", ")) }
        };
        let (similar, count) = (similar(name, known.clone()), known.clone().count());
        let instead = match count.saturating_sub(Self::NAMED) {
            _ if !similar.is_empty() => format!("; did you mean {}?", quoted(similar, "or")),
            _ if count == 0 => String::new(),
            0 => format!("; it has {}", quoted(known.collect(), "and")),
            more => format!("; it has {}, and {more} more", quoted(known.take(Self::NAMED).collect(), "and")),
        };
        Self { name: Quoted::new(name), instead: instead.into() }
    }
}

debug_as_display!(UnknownEvent);
