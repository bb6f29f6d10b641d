//! The minutes of the day that an event may run in: its timetable is limited to them.

use std::fmt;

use chrono::{NaiveTime, Timelike};

const MINUTES_OF_A_DAY: u32 = 24 * 60;

/// The minutes of the day from one to another, both of them included, over midnight if that is the earlier one; or all
/// minutes but these.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) is_excluded: bool,
}

impl Window {
    pub(crate) fn is_open_at(self, time: NaiveTime) -> bool {
        self.is_open_in(minute_of(time))
    }

    fn is_open_in(self, minute: u32) -> bool {
        let (begun, not_over) = (self.first <= minute, minute <= self.last);
        let contained = if self.first <= self.last { begun && not_over } else { begun || not_over };
        contained != self.is_excluded
    }

    /// Returns how many minutes after this one it opens; none where it is open.
    fn closed_for(self, minute: u32) -> u32 {
        let opens = if self.is_excluded { self.last + 1 } else { self.first };
        // A whole day, where no minute is left.
        if self.is_open_in(minute) { 0 } else { (opens + MINUTES_OF_A_DAY - minute - 1) % MINUTES_OF_A_DAY + 1 }
    }
}

/// As the method that asks for it.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, is_excluded } = self;
        let method = if *is_excluded { "unless_between" } else { "between" };
        write!(f, "{method} {:02}:{:02} and {:02}:{:02}", first / 60, first % 60, last / 60, last % 60)
    }
}

/// An event may run where all of its windows are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows(pub(crate) Vec<Window>);

impl Windows {
    /// Returns how many minutes after the minute of `time` they are open: none where they are open then. A day: they never are.
    pub(crate) fn closed_for(&self, time: NaiveTime) -> u32 {
        let mut after = 0;
        while after < MINUTES_OF_A_DAY {
            let minute = (minute_of(time) + after) % MINUTES_OF_A_DAY;
            match self.0.iter().map(|window| window.closed_for(minute)).max() {
                None | Some(0) => return after,
                Some(more) => after += more,
            }
        }
        MINUTES_OF_A_DAY
    }
}

pub(crate) fn minute_of(time: NaiveTime) -> u32 {
    time.hour() * 60 + time.minute()
}
