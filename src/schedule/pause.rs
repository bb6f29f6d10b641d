//! Pausing and resuming a schedule, or one of its events: a marker in the store that every server sees.

use chrono::{DateTime, Utc};

pub(crate) mod pause_check;
pub(crate) mod pause_error;
mod pauser;

use pause_error::PauseError;
use pauser::Pauser;

use super::schedule::Schedule;
use crate::lease::name::MutexName;
use crate::outcome::paused::{EVENT_PAUSED, Pause};
#[cfg(feature = "cli")]
use crate::store::event_mutex::held::Names;

impl Schedule {
    /// Pauses all schedules of this [name](Self::named) on this store: no due event starts before `until`, for the
    /// reason `why`. This concerns all processes that share the store: this process, the host, or the fleet. The pause
    /// ends at that time, or by [`resume`](Self::resume). It does not end with this process.
    ///
    /// Due events are skipped as [`Paused`](crate::SkipReason::Paused), before their filters are asked. Running runs
    /// continue; runs [by hand](Self::run_event) and events that are
    /// [`even_when_paused`](crate::Event::even_when_paused) start as always.
    ///
    /// For a protected event without filters in the schedule's store, the store itself refuses admissions during the
    /// pause. So a pause takes effect at once, and so does the [pause of one event](Self::pause_event). On the stores
    /// of this crate, this costs no extra request. For other events, a tick of a schedule with a name reads in one
    /// request whether the schedule or one of these events is paused, and again after each minute of the tick. A tick
    /// without a due event sends no request.
    ///
    /// If the store does not answer, a schedule with a name may be paused. So all due events are skipped as
    /// [`StoreUnavailable`](crate::SkipReason::StoreUnavailable), and the report fails. This is also true for an event
    /// without a protection, and for an event with
    /// [`OutagePolicy::RunUnprotected`](crate::OutagePolicy::RunUnprotected): even such an event may have to wait for a
    /// migration. For an event that need not wait, call [`even_when_paused`](crate::Event::even_when_paused).
    ///
    /// If the schedule is paused already, the pause gets this new end, later or earlier than before. The last call
    /// wins, and there is no gap between the two pauses. The process and the reason stay those of the first call. (If a
    /// store can't [extend](crate::EventMutex::extend), or does not keep [holders](crate::EventMutex::held), the first
    /// pause is ended before the second begins.)
    ///
    /// A tick that began before the pause may still start events with filters, without protection or with a store of
    /// their own, for a minute at most. Before a migration, wait for that minute and for the running events to end.
    ///
    /// How long it takes to `until` is read from this schedule's clock, and that time then passes on the store's.
    ///
    /// `why` is for people, who read it in [reports](crate::SkipReason::Paused) and in [`paused`](Self::paused): a line of 200
    /// characters at most. An empty text says nothing.
    ///
    /// # Errors
    ///
    /// `until` is not in the future, or more than ten years away; `why` is no such line; the schedule has no name. Or the
    /// store did not answer: whether it is paused is not known, and another call is in order.
    ///
    /// ```
    /// use chrono::{TimeDelta, Utc};
    /// use soloist::{Event, Schedule, SkipReason, Verdict};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process().named("shop")?;
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// schedule.pause(Utc::now() + TimeDelta::hours(2), "the orders are migrated")?;
    /// let report = schedule.run_due(Utc::now());
    /// assert!(matches!(report.entries()[0].verdict(), Verdict::Skipped(SkipReason::Paused(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause(&self, until: DateTime<Utc>, why: &str) -> Result<(), PauseError> {
        self.pauser(self.pause_marker()?).begin(until, why)
    }

    /// Ends the pause, even if another server began it. `false`: the schedule was not paused.
    ///
    /// # Errors
    ///
    /// The schedule has no [name](Self::named), its store can neither [break](crate::EventMutex::break_lease) a marker nor
    /// [move](crate::EventMutex::extend) its end, or did not answer.
    pub fn resume(&self) -> Result<bool, PauseError> {
        self.pauser(self.pause_marker()?).end()
    }

    /// Returns the present pause, for a page about the service's health. `None`: the schedule is not paused.
    ///
    /// # Errors
    ///
    /// The schedule has no [name](Self::named), or its store did not answer.
    pub fn paused(&self) -> Result<Option<Pause>, PauseError> {
        self.pauser(self.pause_marker()?).find()
    }

    /// Pauses one event in all schedules of this [name](Self::named) on this store: no due occurrence of it starts
    /// before `until`, for the reason `why`. Otherwise this is like [`pause`](Self::pause), and both pauses may last at
    /// the same time.
    ///
    /// Waiting occurrences leave the [queue](crate::Event::on_overlap). After the pause,
    /// [`catch_up`](crate::Event::catch_up) makes up for the latest occurrence only, if its window is not over.
    ///
    /// A schedule without events, such as that of an operator's tool, accepts any name.
    ///
    /// # Errors
    ///
    /// Those of [`pause`](Self::pause); the schedule has events, and none of this name, or this event runs
    /// [even when it is paused](crate::Event::even_when_paused).
    ///
    /// ```
    /// use chrono::{TimeDelta, Utc};
    /// use soloist::{Event, Schedule, SkipReason, Verdict};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process().named("shop")?;
    /// schedule.add(Event::call("import", |_| {}).every_minute())?;
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// schedule.pause_event("import", Utc::now() + TimeDelta::hours(2), "the supplier is out")?;
    /// let report = schedule.run_due(Utc::now());
    /// assert!(matches!(report.entries()[0].verdict(), Verdict::Skipped(SkipReason::Paused(_))));
    /// assert!(matches!(report.entries()[1].verdict(), Verdict::Ran(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause_event(&self, event: &str, until: DateTime<Utc>, why: &str) -> Result<(), PauseError> {
        self.pauser(self.event_pause_marker(event)?).begin(until, why)
    }

    /// Ends the pause of one event, even if another server began it. `false`: the event was not paused by itself.
    ///
    /// # Errors
    ///
    /// Those of [`resume`](Self::resume); the schedule has events, and none of this name.
    pub fn resume_event(&self, event: &str) -> Result<bool, PauseError> {
        self.pauser(self.event_pause_marker(event)?).end()
    }

    /// Returns the present pause of one event. `None`: the event is not paused by itself, but its schedule may be.
    ///
    /// # Errors
    ///
    /// Those of [`paused`](Self::paused); the schedule has events, and none of this name.
    pub fn paused_event(&self, event: &str) -> Result<Option<Pause>, PauseError> {
        self.pauser(self.event_pause_marker(event)?).find()
    }

    /// Returns the pauses of single events, by the names of the events: all pauses that the store lists, or those of
    /// this schedule's events.
    #[cfg(feature = "cli")]
    pub(crate) fn paused_events(&self) -> Result<Vec<(String, Pause)>, PauseError> {
        let (mark, store) = (self.pause_marker()?, &*self.store.mutex);
        let own: Vec<_> = self.names().map(|event| mark.mark(event, EVENT_PAUSED)).collect();
        let listed = match store.held(Names::MarksOf(mark.mutex())) {
            Err(error) if error.is_unsupported() => store.held(Names::Each(&own)),
            listed => listed,
        };
        let pauses = listed.map_err(PauseError::Store)?.into_iter();
        let pauses = pauses.filter(|held| held.name().marked() == Some(EVENT_PAUSED));
        let mut pauses: Vec<_> =
            pauses.filter_map(|held| Some((held.name().event()?.to_owned(), Pause::by(held.into_holder())))).collect();
        pauses.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(pauses)
    }

    fn pause_marker(&self) -> Result<MutexName, PauseError> {
        self.pause_marker.clone().ok_or(PauseError::Unnamed)
    }

    fn event_pause_marker(&self, event: &str) -> Result<MutexName, PauseError> {
        let mark = self.pause_marker()?;
        MutexName::readable(event).map_err(|error| PauseError::Name(error.of("the name of the event to pause")))?;
        let has_events = self.names().next().is_some();
        if has_events && self.event(event).map_err(PauseError::UnknownEvent)?.even_when_paused {
            return Err(PauseError::EvenWhenPaused { event: event.into() });
        }
        Ok(mark.mark(event, EVENT_PAUSED))
    }

    fn pauser(&self, mark: MutexName) -> Pauser {
        Pauser { schedule: self.clone(), mark }
    }
}
