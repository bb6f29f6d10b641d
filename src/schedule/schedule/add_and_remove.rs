//! Adds, replaces, removes and reads the events of a schedule.

use std::sync::Arc;

use super::Schedule;
use super::registry::UnknownEvent;
#[cfg(feature = "cli")]
use crate::base::error::MutexError;
use crate::event::add_error::{AddError, AddErrorKind, Refusal, wrong_zone};
use crate::event::definition::Definition;
use crate::event::event_builder::Event;
use crate::event::protection::LeaseTerms;
use crate::observe::notice::{About, Step};
use crate::observe::tell::trace;
use crate::store::described_store::Store;
use crate::store::event_mutex::description::Scope;
#[cfg(feature = "cli")]
use crate::store::event_mutex::{EventMutex, held::Names};

impl Schedule {
    /// Adds an event at the end, if the event is valid. All clones of the schedule have the event from now on, and
    /// running loops of [`work`](Self::work) wake up. In a loop, the event first runs for its next occurrence after
    /// now.
    ///
    /// Warns of a protection that the store can't give: `on_one_server`, `once_per` or `on_overlap` on a store that only
    /// this process uses. Subscribers of `tracing` receive a warning for each such event. Without a subscriber, only the
    /// warning for the first such event is printed, on standard error. If the schedule or its store has a
    /// [`ManualClock`](crate::time::ManualClock), as in a test, there is no warning.
    ///
    /// # Errors
    ///
    /// The event is invalid; the error says why. After an error, the schedule is unchanged.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).hourly())?;
    /// let error = schedule.add(Event::call("reports", |_| {}).daily()).unwrap_err();
    /// assert!(error.to_string().starts_with("event `reports`: there is already an event of this name in the schedule"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn add(&self, event: Event) -> Result<&Self, AddError> {
        let event = self.checked(event)?;
        self.events.change(|registry| registry.add(Arc::clone(&event)))?;
        self.warn_of(&event);
        Ok(self)
    }

    /// Replaces the event that has the name of `event`, and puts `event` in its place. If there is no such event, adds
    /// `event`. Returns whether an event was replaced.
    ///
    /// - The new event keeps the history of the old event: its [status](Self::status), its log and its pause.
    /// - An occurrence belongs to the event that the schedule had at the time of the occurrence. So a change in the
    ///   middle of a minute neither repeats nor loses the occurrence of that minute.
    /// - A run of the old event continues to its end, and an occurrence that waits in its queue still runs. The lease
    ///   of the old run keeps the new event from overlapping that run. This does not hold if the new event has another
    ///   `mutex_name`, store or number of runs in [`at_most`](Event::at_most).
    ///
    /// # Errors
    ///
    /// The errors of [`add`](Self::add), except for a name that exists already. After an error, the schedule is
    /// unchanged.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).hourly())?;
    /// assert!(schedule.replace(Event::call("reports", |_| {}).daily_at("02:30"))?);
    /// assert_eq!(schedule.event("reports")?.timetable(), "daily at 02:30");
    /// # Ok(())
    /// # }
    /// ```
    pub fn replace(&self, event: Event) -> Result<bool, AddError> {
        let event = self.checked(event)?;
        let replaced = self.events.change(|registry| registry.replace(Arc::clone(&event)))?;
        self.warn_of(&event);
        Ok(replaced.is_some())
    }

    /// Removes an event. `false`: no event has this name. A running run continues. An occurrence that waits in the
    /// queue still runs, and so does an occurrence whose time came before the removal. The log of the event stays in
    /// the store.
    pub fn remove(&self, name: &str) -> bool {
        let is_removed = self.events.change(|registry| registry.remove(name)).is_some();
        if is_removed {
            self.observers.tell(About { event: Some(name), ..About::default() }, &Step::Removed);
        }
        is_removed
    }

    /// Returns the names of the events, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = Arc<str>> + use<> {
        let registry = self.events.registry();
        (0..registry.events.len()).map(move |event| Arc::clone(&registry.events[event].name))
    }

    /// Returns the definition of the event of this name.
    ///
    /// # Errors
    ///
    /// There is no event of this name.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).daily_at("02:30").without_overlapping())?;
    /// let reports = schedule.event("reports")?;
    /// assert_eq!(reports.timetable(), "daily at 02:30");
    /// assert_eq!(reports.protections(), ["without_overlapping, lease of 1 min 0 s, renewed"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn event(&self, name: &str) -> Result<Arc<Definition>, UnknownEvent> {
        let registry = self.events.registry();
        Ok(Arc::clone(&registry.events[registry.index_of(name)?]))
    }

    #[cfg(feature = "cli")]
    pub(crate) fn definitions(&self) -> Vec<Arc<Definition>> {
        self.events.registry().events.clone()
    }

    /// Returns the schedule's store, and the stores of single events.
    pub(crate) fn stores(&self) -> Vec<Store> {
        let mut stores = vec![self.store.clone()];
        for store in self.events.registry().events.iter().map(|event| &event.store) {
            if !stores.iter().any(|known| known.id == store.id) {
                stores.push(store.clone());
            }
        }
        stores
    }

    /// Returns whether all leases of this event are held, so that no further run can start now.
    #[cfg(feature = "cli")]
    pub(crate) fn is_fully_held(&self, name: &str) -> Result<bool, MutexError> {
        let Ok(event) = self.event(name) else { return Ok(false) };
        let leases = event.protection.leases();
        let held = event.store.mutex.held(Names::Each(leases))?;
        Ok(!leases.is_empty() && held.len() == leases.len())
    }

    /// Validates an event against the settings of the schedule.
    pub(crate) fn checked(&self, event: Event) -> Result<Arc<Definition>, AddError> {
        let name = Arc::clone(&event.name);
        let define = || {
            let event = event.driven_by(self.runtime.as_ref())?;
            let zone = self.zone.as_ref().map_err(|error| wrong_zone("with_timezone", error))?;
            let event = event.define(&self.store, zone, self.lease_term, self.environment.as_deref())?;
            check_store_of(&event)?;
            self.check_failure_limit(&event)?;
            Ok(Arc::new(event))
        };
        define().map_err(|refusal: Refusal| AddError::new(&name, refusal))
    }

    fn check_failure_limit(&self, event: &Definition) -> Result<(), Refusal> {
        let Some(limit) = event.failure_limit else { return Ok(()) };
        if self.pause_marker.is_none() {
            return Err(AddErrorKind::Missing.because(
                "it has a `pause_on_failure(..)`, and the schedule has no name: call `schedule.named(..)` before `add`",
            ));
        }
        let keep = self.run_logger.as_ref().map_or(0, |logger| logger.keep);
        if keep > limit {
            return Ok(());
        }
        Err(AddErrorKind::Missing.because(format_args!(
            "it has a `pause_on_failure({limit})`, and the log of the schedule keeps {keep} runs: call \
             `schedule.with_run_log(..)` with more than {limit} before `add`"
        )))
    }

    fn warn_of(&self, event: &Definition) {
        let Store { mutex, scope, .. } = &event.store;
        let is_in_a_test = || self.clock.is_manual() || mutex.clock().is_manual();
        if event.protection.claim.is_some() && *scope == Scope::Process && !is_in_a_test() {
            trace::store_is_not_shared(&event.name, scope);
        }
    }
}

fn check_store_of(event: &Definition) -> Result<(), Refusal> {
    if event.store.can_extend {
        return Ok(());
    }
    if event.protection.lease.is_some_and(LeaseTerms::need_extension) {
        return Err(AddErrorKind::Store.because(
            "its store says that it can't extend a lease (`EventMutex::describe`), so that no lease is renewed, or held \
             longer than its task: use `without_overlapping_for(..)` alone, with a term that is longer than the task \
             takes",
        ));
    }
    if event.protection.queue.is_some() {
        return Err(AddErrorKind::Store.because(
            "its store says that it can't extend a lease (`EventMutex::describe`), so that an occurrence can't wait in a \
             queue: leave out the `on_overlap(..)`",
        ));
    }
    Ok(())
}
