//! The only file that reads a clock.
//!
//! Two clocks are read: the wall clock, which people and timetables mean and which may step, and one that only
//! moves forward and counts the time the machine was suspended, which every deadline is measured on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use uuid::Uuid;

pub(crate) mod manual;
pub(crate) mod waiting;

use manual::ManualTime;

/// How far a time that a store wrote may lie in the future although no clock was set back: clocks are corrected by little
/// steps.
pub(crate) const LITTLE_STEP: Duration = Duration::from_secs(1);

/// Where the time comes from: the machine, or, in tests, a [`ManualClock`](crate::ManualClock).
///
/// A cheap handle. Everything that reads a clock takes one, and takes the machine's unless told otherwise.
///
/// ```
/// use soloist::Clock;
///
/// let clock = Clock::system();
/// let before = clock.moment();
/// assert!(clock.moment() >= before);
/// ```
#[derive(Clone, Default)]
pub struct Clock(Source);

#[derive(Clone, Default)]
enum Source {
    #[default]
    System,
    Manual(Arc<ManualTime>),
}

impl Clock {
    /// The machine's clocks. This is the default.
    ///
    /// ```
    /// assert!(soloist::Clock::system().now().timestamp() > 0);
    /// ```
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// The wall clock, in UTC. It may step in either direction: never measure a duration with it.
    ///
    /// ```
    /// println!("{}", soloist::Clock::system().now());
    /// ```
    pub fn now(&self) -> DateTime<Utc> {
        match &self.0 {
            Source::System => Utc::now(),
            Source::Manual(time) => time.now(),
        }
    }

    /// A point on the clock that never steps and counts suspend: `CLOCK_BOOTTIME` on Linux and Android, elsewhere
    /// what [`std::time::Instant`] reads.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let started = soloist::Clock::system().moment();
    /// let took: Duration = soloist::Clock::system().moment().since(started);
    /// ```
    pub fn moment(&self) -> Moment {
        match &self.0 {
            Source::System => Moment::at(since_boot()),
            Source::Manual(time) => time.moment(),
        }
    }

    /// What the wall clock showed at a moment that has passed, by how it is set now.
    pub(crate) fn wall_at(&self, moment: Moment) -> DateTime<Utc> {
        wall_minus(self.now(), self.moment().since(moment))
    }

    /// Whether both show the same time, now and later.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Source::System, Source::System) => true,
            (Source::Manual(time), Source::Manual(other)) => Arc::ptr_eq(time, other),
            _ => false,
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System => "Clock::system()",
            Source::Manual(_) => "Clock::manual()",
        })
    }
}

/// A point on the clock that never steps; only good for comparing with another of the same process.
///
/// ```
/// use std::time::Duration;
///
/// let now = soloist::Clock::system().moment();
/// assert_eq!(now.plus(Duration::from_secs(5)).since(now), Duration::from_secs(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// In nanoseconds, which last for 584 years.
    fn at(since_start: Duration) -> Self {
        Self(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The point `later` after this one.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let now = soloist::Clock::system().moment();
    /// assert!(now.plus(Duration::from_millis(1)) > now);
    /// ```
    #[must_use = "a moment is not changed in place"]
    pub fn plus(self, later: Duration) -> Self {
        Self(self.0.saturating_add(Self::at(later).0))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let now = soloist::Clock::system().moment();
    /// assert_eq!(now.since(now.plus(Duration::from_secs(1))), Duration::ZERO);
    /// ```
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The point `earlier` before this one.
    pub(crate) fn minus(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(Self::at(earlier).0))
    }

    /// As a number of 62 bits, which last for 146 years.
    pub(crate) fn to_bits(self) -> u64 {
        self.0.min(Self::NEVER.0)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// A moment that has always passed.
    pub(crate) const BEGINNING: Self = Self(0);

    /// A moment that does not come.
    pub(crate) const NEVER: Self = Self(u64::MAX >> 2);
}

/// A random length, less than `limit` unless that is zero.
pub(crate) fn random_below(limit: Duration) -> Duration {
    // All bits of the first field are random.
    let fraction = f64::from(Uuid::new_v4().as_fields().0) / (f64::from(u32::MAX) + 1.0);
    limit.mul_f64(fraction)
}

/// `instant` plus `later`, kept within what can be written down.
pub(crate) fn wall_plus(instant: DateTime<Utc>, later: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(later)
        .ok()
        .and_then(|later| instant.checked_add_signed(later))
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// `instant` minus `earlier`, kept within what can be written down.
fn wall_minus(instant: DateTime<Utc>, earlier: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(earlier)
        .ok()
        .and_then(|earlier| instant.checked_sub_signed(earlier))
        .unwrap_or(DateTime::<Utc>::MIN_UTC)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // The kernel never reports a negative time since boot, nor a second of more than 10^9 nanoseconds.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;

    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// An instant as programs read it: `2026-03-01T12:00:00Z`, with a fraction where it has one.
pub(crate) struct Rfc3339(pub(crate) DateTime<Utc>);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}

/// A length of time as people say it, in its two largest units.
pub(crate) struct Rough(pub(crate) Duration);

impl fmt::Display for Rough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
        match seconds {
            0..60 => write!(f, "{seconds}s"),
            60..3600 => write!(f, "{minutes}min {}s", seconds % 60),
            3600..86_400 => write!(f, "{hours}h {minutes}min"),
            _ => write!(f, "{days}d {hours}h"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_past_the_end_of_time_is_the_end_of_time() {
        assert_eq!(wall_plus(DateTime::UNIX_EPOCH, Duration::MAX), DateTime::<Utc>::MAX_UTC);
        let now = Clock::system().moment();
        assert!(now.plus(Duration::MAX) > now);
    }
}
