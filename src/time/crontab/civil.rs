//! A civil time as bit masks, laid out like the words of a crontab, which are compared with it.

use chrono::{Datelike, Timelike};

/// The minute, hour, day and month of a civil time, one bit in each mask: taken apart once per zone and tick, and compared
/// with every crontab of that zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CivilFields {
    pub(crate) minute: u64,
    pub(crate) hour_and_month: u64,
    pub(crate) day_of_week: u64,
    pub(crate) day_of_month: u32,
}

impl CivilFields {
    /// In the word that begins with the hours: from which bit on it has the months, and the days of the week.
    pub(crate) const MONTH: u32 = 32;
    pub(crate) const DAY_OF_WEEK: u32 = 48;

    pub(crate) fn of(civil: &(impl Datelike + Timelike)) -> Self {
        let is_last_day = civil.day() >= 28 && civil.day() == u32::from(civil.num_days_in_month());
        Self {
            minute: 1 << civil.minute(),
            hour_and_month: 1 << civil.hour() | 1 << (Self::MONTH + civil.month()),
            day_of_week: 1 << (Self::DAY_OF_WEEK + civil.weekday().num_days_from_sunday()),
            // Bit 0 stands for the last day of the month.
            day_of_month: 1 << civil.day() | u32::from(is_last_day),
        }
    }
}
