//! When an event is due, as its methods say it one by one: fields of a crontab, seconds, or a whole expression.
//!
//! No field is set twice, so that the order of the methods makes no difference.

pub(crate) mod one_or_more;
pub(crate) mod timetable_spec;
