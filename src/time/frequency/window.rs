//! From one time of the day to another.

use super::TimeOfDay;
use super::error::FrequencyError;
use crate::event::add_error::AddErrorKind;
use crate::event::builder::Event;
use crate::event::filter::Filter;
use crate::time::timetable::windows::Window;

/// In which part of the day. These words are [filters](Self::when): an event that is due outside of its window is in
/// the report, as filtered out, and so is one that is run by hand there. Its [next times](Self::upcoming) are those in its
/// windows. An event that has several runs where all of them are open, and `add` refuses one that never would.
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
        self.in_window(window(start, end, false))
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
        self.in_window(window(start, end, true))
    }

    fn in_window(self, window: Result<Window, FrequencyError>) -> Self {
        match window {
            Ok(window) => self.filtered(Filter::Window(window)),
            Err(error) => self.refused(AddErrorKind::Frequency(error)),
        }
    }
}

fn window(start: &str, end: &str, is_excluded: bool) -> Result<Window, FrequencyError> {
    let minute = |time: TimeOfDay| time.hour * 60 + time.minute;
    Ok(Window { first: minute(start.try_into()?), last: minute(end.try_into()?), is_excluded })
}
