//! Time: clocks, zones, crontab expressions, timetables, the words for frequencies, and which events are due.

pub(crate) mod clock;
pub(crate) mod crontab;
pub(crate) mod due_index;
pub(crate) mod frequency;
pub(crate) mod period;
pub(crate) mod tick;
pub(crate) mod timetable;
pub(crate) mod zone;
