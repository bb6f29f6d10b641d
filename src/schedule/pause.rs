//! Pauses and resumes a schedule, or one of its events. A pause is a marker in the store, so that every server sees it.

use chrono::{DateTime, Utc};

pub(crate) mod pause_check;
pub(crate) mod pause_error;
mod pause_on_failure;
mod pause_marker;

use pause_error::PauseError;

use super::schedule::Schedule;
use crate::lease::name::MutexName;
use crate::outcome::paused::{EVENT_PAUSED, Pause};
#[cfg(feature = "cli")]
use crate::store::event_mutex::held::Names;

impl Schedule {
    /// Pauses all schedules of this [name](Self::named) on this store: no due event starts before `until`. The pause
    /// holds for all processes that share the store: this process, the host, or the fleet. The pause ends at `until`,
    /// or by a call of [`resume`](Self::resume). The end of this process does not end the pause.
    ///
    /// Due events are skipped as [`Paused`](crate::SkipReason::Paused), before their filters are called; only the filters
    /// of a missed occurrence may be called before. Running runs continue. Runs [by hand](Self::run_event) and events
    /// that are [`even_when_paused`](crate::Event::even_when_paused) start as always.
    ///
    /// If an event is protected, has no filters, and uses the schedule's store, the store itself refuses its admissions
    /// during the pause. So the pause takes effect at once. On the stores of this crate, this needs no extra request.
    /// For all other events, a tick reads in one request whether the schedule or one of these events is paused. If the
    /// tick takes long, it reads the pauses again each minute. A tick without a due event sends no request. The [pause
    /// of one event](Self::pause_event) takes effect in these two ways, too.
    ///
    /// If the store does not answer, it is not known whether the schedule is paused. So all due events of a schedule
    /// with a name are skipped as [`StoreUnavailable`](crate::SkipReason::StoreUnavailable), and the report fails. This
    /// is also true for an event without a protection, and for an event with
    /// [`OutagePolicy::RunUnprotected`](crate::OutagePolicy::RunUnprotected), because such an event, too, may have to
    /// wait for a migration. For an event that need not wait, call
    /// [`even_when_paused`](crate::Event::even_when_paused).
    ///
    /// If the schedule is paused already, the end of the pause moves to `until`, later or earlier, and without a gap.
    /// The last call wins. The pause keeps the process and the reason of the first call. (If a store can't
    /// [extend](crate::EventMutex::extend), or does not keep [holders](crate::EventMutex::held), the first pause ends
    /// before the second begins.)
    ///
    /// A tick that began before the pause can still start some events, for a minute at most: events with filters,
    /// without protection, or with a store of their own. Before a migration, wait for a minute, and until all running
    /// runs have ended.
    ///
    /// The length of the pause is the time until `until` on this schedule's clock. The store then ends the pause by its
    /// own clock.
    ///
    /// `why` is the reason for the pause: a line of 200 characters at most. The reason is shown in
    /// [reports](crate::SkipReason::Paused) and by [`paused`](Self::paused). With an empty text, no reason is shown.
    ///
    /// # Errors
    ///
    /// `until` is not in the future, or is more than ten years away; `why` is too long, or is not a readable line; the
    /// schedule has no name; or the store did not answer. If the store did not answer, the schedule may be paused or
    /// not: call this method again.
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
        self.begin_pause(&self.pause_marker()?, until, why)
    }

    /// Ends the pause, even if another server began it. `false`: the schedule was not paused.
    ///
    /// # Errors
    ///
    /// The schedule has no [name](Self::named); the store can't [break](crate::EventMutex::break_lease) a marker; or the
    /// store did not answer.
    pub fn resume(&self) -> Result<bool, PauseError> {
        self.end_pause(&self.pause_marker()?)
    }

    /// Returns the present pause, for example for a status page. `None`: the schedule is not paused.
    ///
    /// # Errors
    ///
    /// The schedule has no [name](Self::named), or its store did not answer.
    pub fn paused(&self) -> Result<Option<Pause>, PauseError> {
        self.find_pause(&self.pause_marker()?)
    }

    /// Pauses one event in all schedules of this [name](Self::named) on this store: no due occurrence of the event
    /// starts before `until`. The rules of [`pause`](Self::pause) hold here, too. The pause of an event and the pause
    /// of its schedule can last at the same time.
    ///
    /// Waiting occurrences leave the [queue](crate::Event::on_overlap). After the pause,
    /// [`catch_up`](crate::Event::catch_up) makes up for the latest occurrence only, if its window is not over.
    ///
    /// A schedule without events, such as that of an operator's tool, accepts any name.
    ///
    /// # Errors
    ///
    /// The errors of [`pause`](Self::pause). If the schedule has events, there are two more: no event has this name, or
    /// the event runs [even when it is paused](crate::Event::even_when_paused).
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
        self.begin_pause(&self.event_pause_marker(event)?, until, why)
    }

    /// Ends the pause of one event, even if another server began it. `false`: the event itself was not paused.
    ///
    /// # Errors
    ///
    /// The errors of [`resume`](Self::resume). Or the schedule has events, but no event of this name.
    pub fn resume_event(&self, event: &str) -> Result<bool, PauseError> {
        self.end_pause(&self.event_pause_marker(event)?)
    }

    /// Returns the present pause of one event. `None`: the event itself is not paused, but its schedule may be paused.
    ///
    /// # Errors
    ///
    /// The errors of [`paused`](Self::paused). Or the schedule has events, but no event of this name.
    pub fn paused_event(&self, event: &str) -> Result<Option<Pause>, PauseError> {
        self.find_pause(&self.event_pause_marker(event)?)
    }

    /// Returns the pauses of single events, with the names of the events. If the store can't list pauses, only the
    /// pauses of this schedule's events are returned.
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
}
