//! The due times of a schedule: the events that are due now, the next due time, and those in a range of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::schedule::schedule::Schedule;
use crate::schedule::schedule::registry::{Registry, UnknownEvent};

impl Schedule {
    /// Returns the names of the events that are due at `now`, in the order of their registration. Asks neither filters
    /// nor stores.
    pub fn due(&self, now: DateTime<Utc>) -> impl Iterator<Item = Arc<str>> + use<> {
        let registry = self.registry();
        let due = registry.due_index.due(now, DateTime::<Utc>::MIN_UTC).into_iter();
        due.map(move |(event, _)| Arc::clone(&registry.events[event].name))
    }

    /// Returns when the first event is due after `after`, within its windows and in this environment: see [`Event::next`](crate::Event::next). `None`:
    /// none of them is, until the year 2100.
    ///
    /// Nothing is kept between calls: it searches the timetables of all events, some nanoseconds each.
    pub fn next_due(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let registry = self.registry();
        let Registry { due_index, events, .. } = &*registry;
        let one_by_one = due_index.one_by_one().filter_map(|event| events[event].upcoming(after).next());
        one_by_one.chain(due_index.next_of_all(after)).min()
    }

    /// Returns the due times of one event after `after`: see [`Event::upcoming`](crate::Event::upcoming). There are none for an event that is not for
    /// this [environment](Self::with_environment).
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

    /// Returns when events are due in this time, from its begin on and before its end, in the order of time; events that are due at
    /// one time in the order of their registration. Windows count, filters and stores are not asked.
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
        let registry = self.registry();
        let before = time.start.checked_sub_signed(TimeDelta::nanoseconds(1)).unwrap_or(time.start);
        let mut times: Vec<_> = registry.events.iter().map(|event| event.upcoming(before)).collect();
        let mut next: BinaryHeap<_> =
            times.iter_mut().enumerate().filter_map(|(event, times)| Some(Reverse((times.next()?, event)))).collect();
        std::iter::from_fn(move || {
            let Reverse((at, event)) = next.pop().filter(|Reverse((at, _))| *at < time.end)?;
            next.extend(times[event].next().map(|later| Reverse((later, event))));
            Some((at, Arc::clone(&registry.events[event].name)))
        })
    }
}
