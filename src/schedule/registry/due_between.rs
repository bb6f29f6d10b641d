//! When all events are due, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use chrono::{DateTime, TimeDelta, Utc};

use super::Schedule;

impl Schedule {
    /// Returns when events are due in this time, from its begin on and before its end, in the order of time; events that are due at
    /// one time in the order in which they were added. Windows count, filters and stores are not asked.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).daily_at("06:00"))?;
    /// schedule.add(Event::call("import", |_| {}).every_six_hours())?;
    /// let day = "2026-03-01T00:00:00Z".parse()?.."2026-03-01T12:00:00Z".parse()?;
    /// let due: Vec<String> = schedule.due_between(day).map(|(at, event)| format!("{} {event}", at.format("%H:%M"))).collect();
    /// assert_eq!(due, ["00:00 import", "06:00 reports", "06:00 import"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn due_between(&self, time: Range<DateTime<Utc>>) -> impl Iterator<Item = (DateTime<Utc>, &str)> {
        let before = time.start.checked_sub_signed(TimeDelta::nanoseconds(1)).unwrap_or(time.start);
        let mut times: Vec<_> = self.events.iter().map(|event| event.upcoming(before)).collect();
        let mut next: BinaryHeap<_> =
            times.iter_mut().enumerate().filter_map(|(event, times)| Some(Reverse((times.next()?, event)))).collect();
        std::iter::from_fn(move || {
            let Reverse((at, event)) = next.pop().filter(|Reverse((at, _))| *at < time.end)?;
            next.extend(times[event].next().map(|later| Reverse((later, event))));
            Some((at, &*self.events[event].name))
        })
    }
}
