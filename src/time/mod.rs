//! Clocks, time zones, crontab expressions and timetables, and the index of the events that are due.

pub(crate) mod clock;
pub(crate) mod crontab;
pub(crate) mod due_index;
pub(crate) mod period;
pub(crate) mod tick;
pub(crate) mod timetable;
pub(crate) mod timetable_spec;
pub(crate) mod zone;

pub use clock::Clock;
pub use clock::manual::ManualClock;
pub use clock::moment::Moment;
pub use crontab::Crontab;
pub use crontab::error::CrontabError;
pub use tick::Tick;
pub use timetable::clock_change::ClockChange;
pub use timetable_spec::one_or_more::OneOrMore;
pub use zone::zone_text::UnknownZone;
