//! Why a pattern makes no periods.

use crate::base::error::message_error;

message_error! {
    /// A [`Period::pattern`](crate::Period::pattern) that tells no periods apart.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{AddErrorKind, Event, Period, Schedule};
    ///
    /// let nightly = Event::call("backup", |_| {}).daily().once_per(Period::pattern("night", Duration::from_secs(36_000)));
    /// let error = Schedule::in_process().add(nightly).unwrap_err();
    /// let AddErrorKind::Period(error) = error.kind() else { panic!("{error}") };
    /// assert!(error.to_string().starts_with("`night` is not a pattern of periods: it has no part of the time in it"));
    /// ```
    pub struct InvalidPeriod;
}
