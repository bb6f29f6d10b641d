//! The events that a schedule has from one change to the next.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use crate::base::error::debug_as_display;
use crate::base::{
    escape::Quoted,
    similar::{did_you_mean, quoted},
};
use crate::event::add_error::{AddError, AddErrorKind};
use crate::event::definition::Definition;
use crate::lease::{name::MutexName, store_id::StoreId};
use crate::schedule::history::EventHistory;
use crate::time::due_index::DueIndex;

/// The events that a schedule has from one change to the next. A tick uses one registry from its beginning to its end.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    /// A number that rises with each change.
    pub(in crate::schedule) version: u64,
    pub(in crate::schedule) events: Vec<Arc<Definition>>,
    /// The history of each of `events`.
    pub(in crate::schedule) histories: Vec<Arc<EventHistory>>,
    /// The name of each event, with its index in `events`.
    names: HashMap<Arc<str>, usize>,
    /// The number of runs that may hold each mutex at a time.
    runs_at_a_time: HashMap<(StoreId, MutexName), usize>,
    pub(in crate::schedule) due_index: DueIndex,
    /// The indices of the events that make up for missed occurrences.
    pub(in crate::schedule) catch_up_events: Vec<usize>,
}

impl Registry {
    /// Adds an event at the end. Refuses a name that exists already. Also refuses an event that shares a mutex with
    /// another event, but allows a different number of runs.
    pub(super) fn add(&mut self, event: Arc<Definition>) -> Result<(), AddError> {
        if self.names.contains_key(&event.name) {
            let refusal = AddErrorKind::Duplicate.because("there is already an event of this name in the schedule: use another name, or change the event with `replace(..)`");
            return Err(AddError::new(&event.name, refusal));
        }
        self.check_runs_at_a_time(&event, None)?;
        self.push(event, Arc::default());
        self.version += 1;
        Ok(())
    }

    /// Replaces the event that has the name of `event`. The new event has the index and the history of the old event.
    /// Returns the old event. `None`: there was no event of this name, so the new event was added.
    pub(super) fn replace(&mut self, event: Arc<Definition>) -> Result<Option<Arc<Definition>>, AddError> {
        let Some(at) = self.names.get(&event.name).copied() else { return self.add(event).map(|()| None) };
        self.check_runs_at_a_time(&event, Some(at))?;
        let replaced = mem::replace(&mut self.events[at], event);
        self.index_anew();
        Ok(Some(replaced))
    }

    /// Removes the event of this name, and returns it. `None`: no event has this name.
    pub(super) fn remove(&mut self, name: &str) -> Option<Arc<Definition>> {
        let at = self.names.get(name).copied()?;
        let removed = self.events.remove(at);
        self.histories.remove(at);
        self.index_anew();
        Some(removed)
    }

    /// Refuses an event if it shares a mutex with another event, and the two events allow different numbers of runs at
    /// a time. The event `replaced` does not count as another event.
    fn check_runs_at_a_time(&self, event: &Definition, replaced: Option<usize>) -> Result<(), AddError> {
        let Some(mutex) = shared_mutex(event) else { return Ok(()) };
        let asked = event.protection.slots.len();
        let Some(known) = self.runs_at_a_time.get(&mutex).filter(|known| **known != asked) else { return Ok(()) };
        let shares_it = |(at, other): &(usize, &Arc<Definition>)| {
            Some(*at) != replaced && shared_mutex(other).is_some_and(|its_own| its_own == mutex)
        };
        let Some((_, other)) = self.events.iter().enumerate().find(shares_it) else { return Ok(()) };
        let (mutex, other) = (mutex.1.mutex(), Quoted::new(&other.name));
        let refusal = AddErrorKind::Conflict.because(format_args!(
            "the mutex {mutex:?} is shared, but this event allows {asked} at a time, and the event {other} allows \
             {known}: use one number in `at_most(..)` for all events that share the mutex, and leave \
             `without_overlapping()` out"
        ));
        Err(AddError::new(&event.name, refusal))
    }

    fn index_anew(&mut self) {
        let events = mem::take(&mut self.events);
        let histories = mem::take(&mut self.histories);
        *self = Self { version: self.version + 1, ..Self::default() };
        for (event, history) in events.into_iter().zip(histories) {
            self.push(event, history);
        }
    }

    fn push(&mut self, event: Arc<Definition>, history: Arc<EventHistory>) {
        let at = self.events.len();
        if let Some(mutex) = shared_mutex(&event) {
            self.runs_at_a_time.insert(mutex, event.protection.slots.len());
        }
        if event.runs_here {
            self.due_index.push(at, &event.timetable);
            self.catch_up_events.extend(event.catch_up.as_ref().map(|_| at));
        }
        self.names.insert(Arc::clone(&event.name), at);
        self.events.push(event);
        self.histories.push(history);
    }

    pub(in crate::schedule) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.events.iter().map(|event| &*event.name)
    }

    pub(in crate::schedule) fn index_of(&self, name: &str) -> Result<usize, UnknownEvent> {
        self.names.get(name).copied().ok_or_else(|| UnknownEvent::new(name, self.names()))
    }
}

/// Returns the mutex of an event with a lease, which other events may share.
fn shared_mutex(event: &Definition) -> Option<(StoreId, MutexName)> {
    event.protection.lease.map(|_| (event.store.id, event.protection.mutex.clone()))
}

/// An error: the schedule has no event of this name.
///
/// ```
/// use soloist::Schedule;
///
/// let error = Schedule::in_process().run_event("reports", chrono::Utc::now()).unwrap_err();
/// assert_eq!(error.to_string(), "there is no event `reports` in the schedule");
///
/// let schedule = Schedule::in_process();
/// schedule.add(soloist::Event::call("reports", |_| {}).hourly()).unwrap();
/// let error = schedule.run_event("report", chrono::Utc::now()).unwrap_err();
/// assert_eq!(error.to_string(), "there is no event `report` in the schedule; did you mean `reports`?");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no event {name} in the schedule{instead}")]
pub struct UnknownEvent {
    name: Quoted,
    /// The similar names, or some of the existing names.
    instead: Box<str>,
}

impl UnknownEvent {
    /// The largest number of names that are shown if no name is similar.
    const NAMED: usize = 5;

    fn new<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Self {
        let (question, count) = (did_you_mean(name, known.clone()), known.clone().count());
        let instead = match (question, count.saturating_sub(Self::NAMED)) {
            (Some(question), _) => format!("; {question}"),
            _ if count == 0 => String::new(),
            (None, 0) => format!("; it has {}", quoted(known.collect(), "and")),
            (None, more) => format!("; it has {}, and {more} more", quoted(known.take(Self::NAMED).collect(), "and")),
        };
        Self { name: Quoted::new(name), instead: instead.into() }
    }
}

debug_as_display!(UnknownEvent);
