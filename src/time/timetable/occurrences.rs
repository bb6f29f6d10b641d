//! The search for the first occurrence from a given second on, for civil times in one zone. The rules for clock changes
//! are in `clock_change`.

use std::fmt;

use crate::time::crontab::civil_times::CivilTimes;
use crate::time::crontab::field_set::{Field, FieldSet, InField};
use crate::time::zone::Zone;

/// The occurrences of one or more timetables, between the years 1970 and 2100. The timetables differ only in their
/// `times`.
#[derive(Clone, Copy)]
pub(crate) struct Occurrences<'a> {
    pub(crate) times: &'a [CivilTimes],
    pub(crate) zone: &'a Zone,
    /// Whether each time of the day comes exactly once, even if the clocks skip or repeat that time.
    pub(crate) once: bool,
    pub(crate) seconds: Seconds,
}

/// The seconds of a minute at which an event is due. The set is not empty. Bit n stands for the second n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(u64);

impl Seconds {
    /// The start of the minute.
    pub(crate) const START: Self = Self(1);

    /// Makes the set of these seconds from 0 to 59. `None`: the set is empty.
    #[cfg(feature = "cron")]
    pub(crate) fn new(seconds: impl IntoIterator<Item = u32>) -> Option<Self> {
        let bits = seconds.into_iter().fold(0, |bits, second| bits | 1 << second);
        (bits != 0).then_some(Self(bits))
    }

    fn last(self) -> i64 {
        self.0.ilog2().into()
    }

    /// Returns the smallest number of the set that is `second` or larger. `None`: all numbers of the set are smaller.
    pub(crate) fn at_or_after(self, second: i64) -> Option<i64> {
        let rest = self.0 & u64::MAX.checked_shl(u32::try_from(second.max(0)).ok()?)?;
        (rest != 0).then(|| rest.trailing_zeros().into())
    }

    /// Returns the shortest time between two seconds of the set. If `next_minute`, the seconds of the next minute
    /// count, too. `None`: the set has only one second.
    pub(crate) fn shortest_interval(self, next_minute: bool) -> Option<u32> {
        let seconds = u128::from(self.0) | if next_minute { u128::from(self.0) << 60 } else { 0 };
        (1..60).find(|interval| seconds & seconds >> interval != 0)
    }
}

/// Writes `0-59/5`, as in a field of a crontab.
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Seconds can be shown like the minutes of an hour, because both are from 0 to 59.
        InField(Field::Minute, FieldSet { bits: self.0.into(), star: false }).fmt(f)
    }
}

impl Occurrences<'_> {
    /// Returns the first occurrence at second `from` or after.
    pub(crate) fn at_or_after(self, from: i64) -> Option<i64> {
        let minute = self.minute_at_or_after(from - self.seconds.last())?;
        Some(minute + self.seconds.at_or_after(from - minute)?)
    }
}
