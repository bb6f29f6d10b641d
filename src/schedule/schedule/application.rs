//! The application of a schedule: its name, its instance, and the check whether another application uses the names of
//! its events in the same store.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::Schedule;
use crate::base::error::{MutexError, ask_store, if_supported};
use crate::base::escape::Named;
use crate::event::definition::Definition;
use crate::event::protection::claim::CLAIM_MARGIN;
use crate::lease::label::{LONGEST, Label};
use crate::lease::name::{InvalidName, MutexName};
use crate::outcome::paused::PAUSED;
use crate::schedule::pause::pause_error::PauseError;
use crate::store::described_store::Store;
use crate::store::event_mutex::held::Names;
use crate::store::event_mutex::{EventMutex, warning::StoreWarning};

impl Schedule {
    /// Gives the schedule the name of its application. Use one name on all servers. The name is shown to people, and a
    /// pause finds the schedule by its name. The name does not separate applications in a store: for that, give each
    /// application a prefix, a table or a folder of its own; see [`connect`].
    ///
    /// - A schedule with a name can be [paused](Self::pause), together with all schedules of this name on the same
    ///   store.
    /// - The [holder](crate::store::Holder::application) of a lease or claim has the name.
    /// - If two applications have an event of one name in one store, each application takes occurrences of the other.
    ///   If both schedules have names, the [report](crate::SkipReason::other_application) of a skipped event says so,
    ///   and [`check`](Self::check) warns. A schedule without a name is not recognized as another application.
    ///
    /// # Errors
    ///
    /// The name is empty, has more than 100 characters, or has a character that people can't read.
    ///
    /// ```
    /// use soloist::store::Names;
    /// use soloist::{Event, EventMutex, MemoryMutex, MutexName, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryMutex::new();
    /// let schedule = Schedule::new(store.clone()).named("shop")?;
    /// schedule.add(
    ///     Event::call("reports", move |_| {
    ///         let held = store.held(Names::of(&MutexName::lease("reports")?))?;
    ///         assert_eq!(held[0].holder().and_then(|holder| holder.application()), Some("shop"));
    ///         Ok(())
    ///     })
    ///     .every_minute()
    ///     .without_overlapping(),
    /// )?;
    /// assert!(!schedule.run_due(chrono::Utc::now()).is_failure());
    /// assert!(Schedule::in_process().named("").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`connect`]: crate::connect
    pub fn named(self, name: impl Into<Arc<str>>) -> Result<Self, PauseError> {
        let name = name.into();
        let schedule = self.paused_as(Arc::clone(&name))?;
        Ok(schedule.with_label(|label| label.application = Some(name)))
    }

    /// Sets the name under which the schedule can be paused. Does not set the name of the application.
    pub(crate) fn paused_as(self, name: Arc<str>) -> Result<Self, PauseError> {
        let lease = MutexName::readable_up_to(Arc::clone(&name), LONGEST)
            .map_err(|error| PauseError::Name(error.of("the name of the schedule")))?;
        Ok(Self { pause_marker: Some(lease.mark(name, PAUSED)), ..self })
    }

    /// Returns the schedule with events that run if the store does not say whether they are paused.
    #[cfg(feature = "cli")]
    pub(crate) fn past_unknown_pauses(self) -> Self {
        Self { runs_past_unknown_pauses: true, ..self }
    }

    /// Returns the name under which the schedule can be paused; empty if the schedule has no such name.
    #[cfg(feature = "cli")]
    pub(crate) fn pause_name(&self) -> &str {
        self.pause_marker.as_ref().map_or("", MutexName::mutex)
    }

    /// Gives this process an instance name, in addition to its host and process id. If each server is a container, all
    /// of them may be `worker, pid 1` without an instance name. [Holders](crate::store::Holder::instance), the status,
    /// the log of runs and `tracing` show the name. The default is the value of the environment variable
    /// `SOLOIST_INSTANCE`.
    ///
    /// # Errors
    ///
    /// The name is empty, has more than 100 characters, or has a character that people can't read.
    ///
    /// ```
    /// use soloist::Schedule;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process().named("shop")?.with_instance("web-1")?;
    /// assert_eq!(schedule.status().instance.as_deref(), Some("web-1"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_instance(self, instance: impl Into<Arc<str>>) -> Result<Self, InvalidName> {
        let instance = instance.into();
        MutexName::readable_up_to(Arc::clone(&instance), LONGEST)
            .map_err(|error| error.of("the instance of `with_instance(..)`"))?;
        let schedule = self.with_label(|label| label.instance = Some(Arc::clone(&instance)));
        let instance = Some(instance);
        Ok(Self { observers: schedule.observers.on(&schedule.clock, instance.clone()), instance, ..schedule })
    }

    fn with_label(self, change: impl FnOnce(&mut Label)) -> Self {
        let mut label = self.label.as_deref().cloned().unwrap_or_default();
        change(&mut label);
        Self { label: Some(Arc::new(label)), ..self }
    }

    pub(in crate::schedule) fn application(&self) -> Option<&Arc<str>> {
        self.label.as_ref()?.application.as_ref()
    }

    /// Checks the stores of the schedule and of its events by [`EventMutex::check`](crate::EventMutex::check). If the
    /// schedule has a [name](Self::named), `check` also warns of each event whose lease or latest claim belongs to
    /// another application.
    ///
    /// # Errors
    ///
    /// A store did not answer.
    ///
    /// ```
    /// use soloist::Schedule;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// for warning in Schedule::in_process().named("shop")?.check()? {
    ///     eprintln!("{warning}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        let mut warnings = Vec::new();
        for store in self.stores() {
            warnings.extend(ask_store(|| "check the store".to_owned(), || store.mutex.check())?);
            warnings.extend(self.shared_names(&store)?);
        }
        Ok(warnings)
    }

    /// Returns a warning for each event of this store whose lease or claim another application holds.
    fn shared_names(&self, store: &Store) -> Result<Vec<StoreWarning>, MutexError> {
        let Some(application) = self.application() else { return Ok(Vec::new()) };
        let now = self.clock.now();
        let registry = self.events.registry();
        let events = registry.events.iter().filter(|event| event.store.id == store.id);
        let names: Vec<MutexName> = events.flat_map(|event| own_names(event, now)).collect();
        let held = if_supported(store.held(Names::Each(&names)))?;
        let mut others = BTreeMap::new();
        for held in &held {
            let event = held.name().event().unwrap_or(held.name().mutex());
            let other = held.holder().and_then(|holder| holder.application()).filter(|other| *other != &**application);
            others.extend(other.map(|other| (event, other)));
        }
        let warning = |(event, application): (&str, &str)| {
            StoreWarning::new(format_args!(
                "the application {} has the event {}, too, so that each application takes occurrences of the other: give \
                 each application a prefix, a table or a folder of its own",
                Named(application),
                Named(event)
            ))
        };
        Ok(others.into_iter().map(warning).collect())
    }
}

/// Returns the names of the event's leases and of its latest claim. If the `mutex_name` of the event is not the event's
/// own name, the leases are left out, because other applications may share them.
fn own_names(event: &Definition, now: DateTime<Utc>) -> impl Iterator<Item = MutexName> + use<> {
    let protection = &event.protection;
    let is_its_own = protection.mutex.mutex() == &*event.name;
    let leases = if is_its_own { protection.leases().to_vec() } else { Vec::new() };
    let oldest =
        TimeDelta::from_std(event.claim_window + CLAIM_MARGIN).ok().and_then(|age| now.checked_sub_signed(age));
    let latest = oldest.filter(|_| protection.claim.is_some());
    let latest = latest.and_then(|oldest| event.starts(oldest).take_while(|start| start.at <= now).last());
    let claim = latest.and_then(|start| event.claim(start.occurrence));
    leases.into_iter().chain(claim.map(|(name, _)| name))
}
