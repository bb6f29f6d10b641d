//! One run of one event, by hand or for its last due time.

#[cfg(feature = "cli")]
use std::sync::Arc;

#[cfg(feature = "cli")]
use chrono::TimeDelta;
use chrono::{DateTime, Utc};

#[cfg(feature = "cli")]
use super::TickPlan;
use super::planned_run::{PlannedRun, StartedBy, TickContext};
#[cfg(feature = "cli")]
use crate::base::error::MutexError;
#[cfg(feature = "cli")]
use crate::event::{catch_up::Missed, definition::Definition};
use crate::schedule::execute::run_planned;
use crate::schedule::report::Entry;
use crate::schedule::schedule::{Schedule, registry::UnknownEvent};
use crate::time::tick::Tick;

impl Schedule {
    /// Runs one event by hand, due or not, with its filters and its lease. Such a run makes no claim. So it runs even
    /// if another server ran the present occurrence or period, and it does not use up the permit of
    /// [`once_per`](crate::Event::once_per). It also runs while the schedule is [paused](Self::pause), because a pause
    /// stops only runs by the timetable.
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
    /// schedule.add(Event::call("backup", |_| println!("backing up")).daily_at("02:30").without_overlapping())?;
    /// let entry = schedule.run_event("backup", chrono::Utc::now())?;
    /// println!("{entry}");
    /// # assert!(!entry.is_failure());
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_event(&self, name: &str, now: DateTime<Utc>) -> Result<Entry, UnknownEvent> {
        self.run_by_hand(name, now, false)
    }

    /// Runs one event by hand, with `past_filters` also if its filters refuse it. An event for another environment does
    /// not run.
    pub(crate) fn run_by_hand(
        &self,
        name: &str,
        now: DateTime<Utc>,
        past_filters: bool,
    ) -> Result<Entry, UnknownEvent> {
        let registry = self.events.registry();
        let event = registry.index_of(name)?;
        let tick = Tick::at(now, &registry.events[event].timetable.zone);
        let context = TickContext { past_filters, ..TickContext::new(self, &registry, StartedBy::Caller) };
        Ok(self.run_alone(context.plan(&[(event, tick)])))
    }

    /// Runs one event for its [last due time](Self::last_due), like a tick: the run makes the claim of the event, and a
    /// paused event does not run. `None`: the event was not due in the last five minutes.
    #[cfg(feature = "cli")]
    pub(crate) fn run_last_due(&self, name: &str, now: DateTime<Utc>) -> Result<Option<Entry>, UnknownEvent> {
        let (registry, due) = (self.events.registry(), self.last_due(name, now)?);
        let event = registry.index_of(name)?;
        let _call = self.begin_call();
        let report = due.map(|due| {
            let Definition { timetable, catch_up, .. } = &*registry.events[event];
            if let Some(catch_up) = catch_up {
                catch_up.begin(due);
            }
            let (due, maybe_missed) = (vec![(event, timetable.tick(due, due))], Vec::new());
            self.tick(&TickPlan { registry: Arc::clone(&registry), now, due, maybe_missed }, None, None)
        });
        Ok(report.and_then(|mut report| report.entries.pop()))
    }

    /// Runs one event for its last due time, as a missed occurrence. `None`: the event makes no claims, or its last due
    /// time is so long ago that a claim on it may have expired.
    #[cfg(feature = "cli")]
    pub(crate) fn run_missed(&self, name: &str, now: DateTime<Utc>) -> Result<Option<Entry>, UnknownEvent> {
        let registry = self.events.registry();
        let event = registry.index_of(name)?;
        let Definition { timetable, protection, claim_window, .. } = &*registry.events[event];
        let window =
            protection.claim.as_ref().and_then(|_| TimeDelta::from_std(*claim_window).ok()).unwrap_or_default();
        let Some(due) = self.last_due_within(name, now, window)? else { return Ok(None) };
        let context = TickContext::new(self, &registry, StartedBy::Timetable);
        let mut planned = context.plan(&[(event, timetable.tick(now, due))]);
        planned[0].missed = Some(Missed::Confirmed);
        Ok(Some(self.run_alone(planned)))
    }

    /// Returns whether `now` repeats a local time for which a server has claimed the event. (If the clocks of a zone
    /// are set back, they show some local times twice.) The claim is for the event's last due time, up to the first of
    /// the two times. `false` if the event is unknown.
    #[cfg(feature = "cli")]
    pub(crate) fn is_claimed_repetition(&self, name: &str, now: DateTime<Utc>) -> Result<bool, MutexError> {
        let Ok(event) = self.event(name) else { return Ok(false) };
        let zone = &event.timetable.zone;
        let first = zone.first_showing(zone.at(now).naive_local());
        let Some(due) = self.last_due(name, first).ok().flatten().filter(|_| first < now) else { return Ok(false) };
        event.claim(due).map_or(Ok(false), |(claim, _)| event.store.mutex.exists(&claim))
    }

    /// Runs one event on the caller's thread, outside of a tick.
    fn run_alone(&self, planned: Vec<PlannedRun<'_>>) -> Entry {
        let _call = self.begin_call();
        run_planned(planned).swap_remove(0)
    }
}
