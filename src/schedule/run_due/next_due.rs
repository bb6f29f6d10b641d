//! The due times of a schedule: the events that are due now, the next and the last due time, and all due times in a
//! range.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::event::definition::{Definition, Start};
#[cfg(feature = "cli")]
use crate::event::protection::claim::CLAIM_MARGIN;
use crate::schedule::schedule::Schedule;
use crate::schedule::schedule::registry::{Registry, UnknownEvent};

impl Schedule {
    /// Returns the names of the events that [`run_due`](Self::run_due) starts at `now`, in the order in which they were
    /// added. Calls no filters, and asks no store.
    pub fn due(&self, now: DateTime<Utc>) -> impl Iterator<Item = Arc<str>> + use<> {
        let registry = self.events.registry();
        let mut due = registry.due_index.due(now, DateTime::<Utc>::MIN_UTC);
        due.dedup_by_key(|(event, _)| *event);
        due.into_iter().map(move |(event, _)| Arc::clone(&registry.events[event].name))
    }

    /// Returns the earliest time after `after` at which any event starts, within its windows and in this environment.
    /// An event starts at its [next](crate::Event::next) occurrence, or later by its [`jitter`](crate::Event::jitter).
    /// `None`: no event starts again before the year 2100.
    ///
    /// Each call searches the timetables of all events; a search takes some nanoseconds.
    pub fn next_due(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let registry = self.events.registry();
        let Registry { due_index, events, .. } = &*registry;
        let singles = due_index.singles().filter_map(|event| events[event].starts(after).next());
        singles.map(|start| start.at).chain(due_index.next_of_groups(after)).min()
    }

    /// Returns the occurrences of one event after `after`; see [`Event::upcoming`](crate::Event::upcoming). An event
    /// for another [environment](Self::with_environment) has none.
    ///
    /// # Errors
    ///
    /// There is no event of this name.
    pub fn upcoming(
        &self,
        name: &str,
        after: DateTime<Utc>,
    ) -> Result<impl Iterator<Item = DateTime<Utc>> + use<>, UnknownEvent> {
        Ok(self.event(name)?.upcoming(after))
    }

    /// Returns the last due time of an event, if it was less than [`CLAIM_MARGIN`] before `now`. The claim on an earlier
    /// time may have expired.
    #[cfg(feature = "cli")]
    pub(crate) fn last_due(&self, name: &str, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, UnknownEvent> {
        self.last_due_within(name, now, TimeDelta::from_std(CLAIM_MARGIN).unwrap_or_default())
    }

    /// Returns the last due time of an event, if it was less than `window` before `now`.
    #[cfg(feature = "cli")]
    pub(crate) fn last_due_within(
        &self,
        name: &str,
        now: DateTime<Utc>,
        window: TimeDelta,
    ) -> Result<Option<DateTime<Utc>>, UnknownEvent> {
        Ok(self.upcoming(name, now - window)?.take_while(|due| *due <= now).last())
    }

    /// Returns the starts in this range, with their events, in the order of time. The range includes its start, but not
    /// its end. If events start at the same time, they come in the order in which they were added. Occurrences outside
    /// of an event's windows, such as [`between`](crate::Event::between), are left out. Filters are not called, and
    /// stores are not asked. An event starts at its occurrences, or later by its [`jitter`](crate::Event::jitter). A
    /// range that ends before its start is empty, as in Rust.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).daily_at("06:00"))?;
    /// schedule.add(Event::call("import", |_| {}).every_six_hours())?;
    /// let day = "2026-03-01T00:00:00Z".parse()?.."2026-03-01T12:00:00Z".parse()?;
    /// let due: Vec<String> = schedule.due_between(day).map(|(at, event)| format!("{} {event}", at.format("%H:%M"))).collect();
    /// assert_eq!(due, ["00:00 import", "06:00 reports", "06:00 import"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn due_between(&self, time: Range<DateTime<Utc>>) -> impl Iterator<Item = (DateTime<Utc>, Arc<str>)> + use<> {
        self.starts_between(time).map(|(start, event)| (start.at, Arc::clone(&event.name)))
    }

    /// Returns the starts in the range `time`, in the order of time, and the event of each start.
    pub(crate) fn starts_between(
        &self,
        time: Range<DateTime<Utc>>,
    ) -> impl Iterator<Item = (Start, Arc<Definition>)> + use<> {
        let registry = self.events.registry();
        let before = time.start.checked_sub_signed(TimeDelta::nanoseconds(1)).unwrap_or(time.start);
        let mut starts: Vec<_> = registry.events.iter().map(|event| event.starts(before)).collect();
        let first = |(event, starts): (usize, &mut _)| Some(Reverse((Iterator::next(starts)?, event)));
        let mut next: BinaryHeap<Reverse<(Start, usize)>> = starts.iter_mut().enumerate().filter_map(first).collect();
        std::iter::from_fn(move || {
            let Reverse((start, event)) = next.pop().filter(|Reverse((start, _))| start.at < time.end)?;
            next.extend(starts[event].next().map(|later| Reverse((later, event))));
            Some((start, Arc::clone(&registry.events[event])))
        })
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::event_builder::Event;
    use crate::schedule::report::Verdict;
    use crate::store::memory::MemoryMutex;
    use crate::time::clock::manual::ManualClock;

    #[test]
    fn the_last_due_time_is_less_than_five_minutes_ago() {
        let schedule = Schedule::in_process();
        schedule.add(Event::call("e", |_| {}).hourly()).unwrap();
        let noon: DateTime<Utc> = "2026-03-01T12:00:00Z".parse().unwrap();
        let last_due = |now| schedule.last_due("e", now).unwrap();
        assert_eq!(last_due(noon + TimeDelta::minutes(5) - TimeDelta::nanoseconds(1)), Some(noon));
        assert_eq!(last_due(noon + TimeDelta::minutes(5)), None);
    }

    // `run_last_due` runs an occurrence before its jittered start. The claim must prevent a second run at that start.
    #[test]
    fn what_ran_before_its_start_does_not_run_again() {
        const MINUTE: Duration = Duration::from_secs(60);
        let noon: DateTime<Utc> = "2026-03-01T12:00:00Z".parse().unwrap();
        let clock = ManualClock::at(noon - TimeDelta::minutes(1));
        let store = MemoryMutex::with_clock(&clock);
        let [schedule, another] = [(); 2].map(|()| {
            let schedule = Schedule::new(store.clone()).with_clock(&clock);
            let event = Event::call("e", |_| {}).hourly().jitter(59 * MINUTE);
            schedule.add(event.on_one_server().catch_up(180 * MINUTE)).unwrap();
            schedule
        });
        assert!(another.run_due(clock.now()).entries().is_empty());
        let delay = |hour: &DateTime<Utc>| schedule.event("e").unwrap().start_of(*hour) - *hour;
        let late = (0..23).map(|hours| noon + TimeDelta::hours(hours)).max_by_key(delay).unwrap();
        while clock.now() < late {
            clock.advance(MINUTE);
            let _ = another.run_due(clock.now());
        }
        let ran = schedule.run_last_due("e", clock.now()).unwrap().expect("it was due");
        assert!(ran.occurrence() == late && matches!(ran.verdict(), Verdict::Ran(_)), "{ran}");
        for _ in 0..130 {
            clock.advance(MINUTE);
            let report = another.run_due(clock.now());
            let again = report.entries().iter().find(|entry| entry.occurrence() == late);
            assert!(again.is_none_or(|entry| matches!(entry.verdict(), Verdict::Skipped(_))), "{report}");
        }
    }
}
