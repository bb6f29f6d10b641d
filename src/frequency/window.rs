//! From one time of the day to another.

use chrono::{NaiveTime, Timelike};

use super::{FrequencyError, TimeOfDay};
use crate::event::{AddErrorKind, Event};
use crate::tick::Tick;

/// In which part of the day. These words are [filters](Self::when): an event that is due outside of its window is in
/// the report, as filtered out, and so is one that is run by hand there.
impl Event {
    /// Runs only from `start` to `end`, both of them included to the end of their minute: with `"08:00"` and `"17:00"`
    /// the last run of an event that is due every minute is that of 17:00. Where `start` is the later one, the window
    /// goes over midnight: `"22:00"` to `"06:00"` is the night.
    ///
    /// What counts is what the clocks of the event's zone show at the tick; of an occurrence that
    /// [`catch_up`](Self::catch_up) makes up for, both that and its own time have to lie in the window. So a time that
    /// a change of the clocks left out, and that [is made up for](crate::ClockChange) after it, has to lie in the
    /// window when it is made up for.
    ///
    /// A time of day is written `hh:mm` or `h:mm`, from `00:00` to `23:59`; `add` refuses any other text. When it is
    /// due has to be said besides.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_five_minutes().between("08:00", "17:00");
    /// ```
    pub fn between(self, start: &str, end: &str) -> Self {
        match Window::new(start, end) {
            Ok(window) => self.when(move |tick| times_of(tick).into_iter().all(|time| window.contains(time))),
            Err(error) => self.refused(AddErrorKind::Frequency(error)),
        }
    }

    /// Does not run from `start` to `end`, both of them included to the end of their minute: the opposite of
    /// [`between`](Self::between).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_five_minutes().unless_between("23:00", "04:00");
    /// ```
    pub fn unless_between(self, start: &str, end: &str) -> Self {
        match Window::new(start, end) {
            Ok(window) => self.skip(move |tick| times_of(tick).into_iter().any(|time| window.contains(time))),
            Err(error) => self.refused(AddErrorKind::Frequency(error)),
        }
    }
}

/// When it is, and when the occurrence was, which differ where that was missed: what a window keeps from running at its
/// time was not.
fn times_of(tick: &Tick) -> [NaiveTime; 2] {
    [tick.local().time(), tick.scheduled().time()]
}

/// The minutes of the day from one to another, over midnight if that is the earlier one.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: TimeOfDay,
    end: TimeOfDay,
}

impl Window {
    fn new(start: &str, end: &str) -> Result<Self, FrequencyError> {
        Ok(Self { start: start.try_into()?, end: end.try_into()? })
    }

    fn contains(self, time: NaiveTime) -> bool {
        let minute = TimeOfDay { hour: time.hour(), minute: time.minute() };
        let (begun, not_over) = (self.start <= minute, minute <= self.end);
        if self.start <= self.end { begun && not_over } else { begun || not_over }
    }
}
