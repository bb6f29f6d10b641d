//! The only file that reads a clock.
//!
//! There are two clocks. The wall clock is for people and timetables, and can be set forward or back. The monotonic
//! clock measures all deadlines. It never goes back. On Linux and Android, it also counts the time for which the
//! machine is suspended.
//!
//! A thread that waits for a time asks a [`Waiting`] how long to sleep. So the clock of a test knows the moment that
//! each thread waits for. The clock stops at each of these moments until the thread has had its turn.

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

/// The tolerance for the time of a grant or renewal that a store has recorded. If this time lies further in the future,
/// a clock was set back. A smaller difference can come from a usual, small correction of a clock.
pub(crate) const LITTLE_STEP: Duration = Duration::from_secs(1);

/// The source of the time: the machine, or, in tests, a [`ManualClock`](crate::time::ManualClock).
///
/// A clock is a cheap handle, so clone it freely. The default is the clock of the machine.
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
    /// The time of a test. `None`: the time of the machine.
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

    /// Returns the time of the wall clock, in UTC. The wall clock can be set forward or back, so never measure a
    /// duration with it.
    ///
    /// ```
    /// println!("{}", soloist::time::Clock::system().now());
    /// ```
    pub fn now(&self) -> DateTime<Utc> {
        self.0.as_ref().map_or_else(Utc::now, |time| time.now())
    }

    /// Returns the time of the monotonic clock. On Linux and Android, this is `CLOCK_BOOTTIME`, which also counts the
    /// time for which the machine was suspended. On other systems, this is the clock of [`std::time::Instant`].
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

    /// Converts a past moment into a time of the wall clock, as if the wall clock had not been set since then.
    pub(crate) fn wall_at(&self, moment: Moment) -> DateTime<Utc> {
        let ago = TimeDelta::from_std(self.moment().since(moment)).unwrap_or(TimeDelta::MAX);
        self.now().checked_sub_signed(ago).unwrap_or(DateTime::<Utc>::MIN_UTC)
    }

    /// Returns whether a test moves the clock.
    pub(crate) fn is_manual(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether this clock and `other` always show equal times.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(time), Some(other)) => Arc::ptr_eq(time, other),
            (time, other) => time.is_none() && other.is_none(),
        }
    }

    /// Registers a thread that may wait for moments of this clock. When a test moves the clock, `here` wakes the
    /// thread.
    pub(crate) fn waiting<W: Wake + 'static>(&self, here: &Arc<W>) -> Waiting {
        let place = self.0.as_ref().map_or(0, |time| time.take_place(Arc::clone(here) as _));
        Waiting { clock: self.clone(), place }
    }

    /// Prevents other threads from moving the clock of a test until the result is dropped. The caller keeps the result
    /// until the store has answered, so that no time passes between a request and its grant.
    pub(crate) fn stand_still(&self) -> Waiting {
        let place = self.0.as_ref().map_or(0, |time| time.take_turn());
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
#[must_use = "a test can move its clock as soon as this is dropped"]
pub(crate) struct Waiting {
    clock: Clock,
    /// The number of the thread's place in the clock of a test.
    place: u64,
}

impl Waiting {
    /// Makes a value for a thread that waits on the clock of the machine, which no test can move.
    pub(crate) fn on_the_machine() -> Self {
        Self { clock: Clock::system(), place: 0 }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns how long this thread may sleep before it reads the clock again: at most [`LONGEST_SLEEP`]. After a
    /// suspend of the machine, a long sleep could end too late, because the sleep does not count the time of the
    /// suspend.
    pub(crate) fn patience(&self, until: Moment) -> Duration {
        self.sleep_until(until).min(LONGEST_SLEEP)
    }

    /// Returns how long this thread may sleep before `until`, without the limit [`LONGEST_SLEEP`]. Use this only if the
    /// thread may wake up late after a suspend. In return, the thread seldom wakes up for nothing.
    pub(crate) fn sleep_until(&self, until: Moment) -> Duration {
        match &self.clock.0 {
            None => until.since(self.clock.moment()),
            Some(time) if time.sleeps(self.place, until) => Duration::MAX,
            Some(_) => Duration::ZERO,
        }
    }

    /// Notes that this value is used by this thread from now on.
    pub(crate) fn begins(&self) {
        if let Some(time) = &self.clock.0 {
            time.begins(self.place);
        }
    }

    /// Notes that the thread has work, so that the clock of a test stops until the thread has done the work.
    pub(crate) fn is_needed(&self) {
        if let Some(time) = &self.clock.0 {
            time.is_needed(self.place);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(time) = &self.clock.0 {
            time.leave_place(self.place);
        }
    }
}

/// The limit of [`Waiting::patience`]. After a suspend of the machine, a thread reads the clock again within this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// Returns a random duration below `limit`, or zero if `limit` is zero.
pub(crate) fn random_below(limit: Duration) -> Duration {
    // All bits of the first field of a random UUID are random.
    let fraction = f64::from(Uuid::new_v4().as_fields().0) / (f64::from(u32::MAX) + 1.0);
    limit.mul_f64(fraction)
}

/// Returns a random index of a list of this length.
pub(crate) fn random_index(length: usize) -> usize {
    let random = u64::from(Uuid::new_v4().as_fields().0); // All bits of the first field of a random UUID are random.
    usize::try_from(random).map_or(0, |random| random % length)
}

/// Returns how long a process waits before it reads a state again that other processes change: about a second. The time
/// is random, so that the processes do not all read in the same moment.
pub(crate) fn about_a_second() -> Duration {
    Duration::from_millis(900) + random_below(Duration::from_millis(200))
}

/// Returns the instant at `second` seconds since 1970, or the nearer end of the range of `chrono`.
pub(crate) fn instant_of(second: i64) -> DateTime<Utc> {
    let end = if second < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    DateTime::from_timestamp(second, 0).unwrap_or(end)
}

/// Returns `instant` plus `later`, at most the last instant of `chrono`.
pub(crate) fn wall_plus(instant: DateTime<Utc>, later: Duration) -> DateTime<Utc> {
    let later = TimeDelta::from_std(later).unwrap_or(TimeDelta::MAX);
    instant.checked_add_signed(later).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // The kernel never reports a negative time since boot, and the nanoseconds are always fewer than 10^9. So both
    // conversions are exact.
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
