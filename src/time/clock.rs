//! The only file that reads a clock.
//!
//! Two clocks are read. The wall clock, which people and timetables mean, may step. The other clock only moves forward,
//! counts the time the machine was suspended, and measures every deadline.
//!
//! A thread that waits for a time asks a [`Waiting`] how long to sleep. So a clock that a test moves knows the moment
//! that each thread waits for. It stops at each of these moments, and lets its thread have its turn.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

pub(crate) mod manual;
pub(crate) mod moment;
pub(crate) mod shown;

use manual::ManualTime;
use manual::{ManualClock, Wake};
use moment::Moment;

/// How far a time that a store wrote may lie in the future although no clock was set back: clocks are corrected by little
/// steps.
pub(crate) const LITTLE_STEP: Duration = Duration::from_secs(1);

/// The source of the time: the machine, or, in tests, a [`ManualClock`](crate::time::ManualClock).
///
/// A cheap handle. Everything that reads a clock takes one, and takes the machine's unless told otherwise.
///
/// ```
/// use soloist::time::Clock;
///
/// let clock = Clock::system();
/// let before = clock.moment();
/// assert!(clock.moment() >= before);
/// ```
#[derive(Clone, Default)]
pub struct Clock(
    /// The time of a test; `None`: the machine's.
    Option<Arc<ManualTime>>,
);

impl Clock {
    /// Returns the machine's clocks. This is the default.
    ///
    /// ```
    /// assert!(soloist::time::Clock::system().now().timestamp() > 0);
    /// ```
    pub fn system() -> Self {
        Self(None)
    }

    /// Reads the wall clock, in UTC. It may step in either direction: never measure a duration with it.
    ///
    /// ```
    /// println!("{}", soloist::time::Clock::system().now());
    /// ```
    pub fn now(&self) -> DateTime<Utc> {
        self.0.as_ref().map_or_else(Utc::now, |time| time.now())
    }

    /// Reads the clock that never steps and counts suspend: `CLOCK_BOOTTIME` on Linux and Android, elsewhere
    /// what [`std::time::Instant`] reads.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let started = soloist::time::Clock::system().moment();
    /// let took: Duration = soloist::time::Clock::system().moment().since(started);
    /// ```
    pub fn moment(&self) -> Moment {
        self.0.as_ref().map_or_else(|| Moment::at(since_boot()), |time| time.moment())
    }

    /// Returns the time of the wall clock at a past moment, by its present setting.
    pub(crate) fn wall_at(&self, moment: Moment) -> DateTime<Utc> {
        wall_minus(self.now(), self.moment().since(moment))
    }

    /// Returns whether a test moves the clock.
    pub(crate) fn is_manual(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether both clocks always show equal times.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(time), Some(other)) => Arc::ptr_eq(time, other),
            (time, other) => time.is_none() && other.is_none(),
        }
    }

    /// Registers a thread that may wait here for moments of this clock.
    pub(crate) fn waiting<W: Wake + 'static>(&self, here: &Arc<W>) -> Waiting {
        let take_place = |time: &Arc<ManualTime>| (Arc::clone(time), time.take_place(Arc::clone(here) as _));
        let place = self.0.as_ref().map(take_place);
        Waiting { clock: self.clone(), place }
    }

    /// Keeps time from moving on, except by this thread, until the result is dropped: a request is granted at the
    /// moment of the request.
    #[inline]
    pub(crate) fn stand_still(&self) -> Waiting {
        let place = self.0.as_ref().map(|time| (Arc::clone(time), time.take_turn()));
        Waiting { clock: self.clone(), place }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_none() { "Clock::system()" } else { "Clock::manual()" })
    }
}

impl From<&ManualClock> for Clock {
    fn from(manual: &ManualClock) -> Self {
        Self(Some(Arc::clone(&manual.0)))
    }
}

impl From<ManualClock> for Clock {
    fn from(manual: ManualClock) -> Self {
        Self::from(&manual)
    }
}

/// A thread that waits for moments of a clock, until this value is dropped.
#[must_use = "time may move on without whoever drops it"]
pub(crate) struct Waiting {
    clock: Clock,
    /// Its place among all that wait for the clock of a test.
    place: Option<(Arc<ManualTime>, u64)>,
}

impl Waiting {
    /// Waits on the machine's clock, which no test moves.
    pub(crate) fn on_the_machine() -> Self {
        Self { clock: Clock::system(), place: None }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns how long this thread may sleep before it reads the clock again. That is not long, because a thread's
    /// sleep does not count the time the machine is suspended.
    pub(crate) fn patience(&self, until: Moment) -> Duration {
        self.sleep_until(until).min(LONGEST_SLEEP)
    }

    /// Returns how long a thread may sleep that would rather notice a suspend later than wake up for nothing.
    pub(crate) fn sleep_until(&self, until: Moment) -> Duration {
        match &self.place {
            None => until.since(self.clock.moment()),
            Some((time, place)) if time.sleeps(*place, until) => Duration::MAX,
            Some(_) => Duration::ZERO,
        }
    }

    /// Notes that the thread was given something to do: it has its turn before time moves on.
    pub(crate) fn is_needed(&self) {
        if let Some((time, place)) = &self.place {
            time.is_needed(*place);
        }
    }
}

impl Drop for Waiting {
    #[inline]
    fn drop(&mut self) {
        if let Some((time, place)) = &self.place {
            time.leave_place(*place);
        }
    }
}

/// After a suspend, a thread that waits reads the clock this much later at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// Returns a random length, less than `limit` unless that is zero.
pub(crate) fn random_below(limit: Duration) -> Duration {
    // All bits of the first field are random.
    let fraction = f64::from(Uuid::new_v4().as_fields().0) / (f64::from(u32::MAX) + 1.0);
    limit.mul_f64(fraction)
}

/// Returns a random index of a list of this length.
pub(crate) fn random_index(length: usize) -> usize {
    let random = u64::from(Uuid::new_v4().as_fields().0); // All bits of the first field are random.
    usize::try_from(random).map_or(0, |random| random % length)
}

/// Returns the pause between two reads of a state that others change: about a second, and random, so that not all read
/// at once.
pub(crate) fn about_a_second() -> Duration {
    Duration::from_millis(900) + random_below(Duration::from_millis(200))
}

/// Returns the instant of a second, or the nearer end of time.
pub(crate) fn instant_of(second: i64) -> DateTime<Utc> {
    let end = if second < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    DateTime::from_timestamp(second, 0).unwrap_or(end)
}

/// `instant` plus `later`, kept within what can be written down.
pub(crate) fn wall_plus(instant: DateTime<Utc>, later: Duration) -> DateTime<Utc> {
    let later = TimeDelta::from_std(later).unwrap_or(TimeDelta::MAX);
    instant.checked_add_signed(later).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// `instant` minus `earlier`, kept within what can be written down.
fn wall_minus(instant: DateTime<Utc>, earlier: Duration) -> DateTime<Utc> {
    let earlier = TimeDelta::from_std(earlier).unwrap_or(TimeDelta::MAX);
    instant.checked_sub_signed(earlier).unwrap_or(DateTime::<Utc>::MIN_UTC)
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
