//! The clock of a test, and the threads that wait for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::moment::Moment;
use crate::base::lock::lock;

/// The longest real time for which the clock waits for the threads that have a turn.
const LONGEST_TURN: Duration = Duration::from_secs(5);

/// A clock that stands still until a test moves it. If a task waits on this clock while the test itself waits in
/// `run_due`, the task and the test wait for ever. So move the clock on another thread.
///
/// [`advance`](Self::advance) stops at each moment that a thread waits for. For example, leases are renewed in time, so
/// a task that is still running after ten minutes still holds its lease:
///
/// ```
/// use std::sync::{Mutex, mpsc};
/// use std::thread;
/// use std::time::Duration;
/// use chrono::{TimeZone, Utc};
/// use soloist::time::ManualClock;
/// use soloist::{Event, MemoryMutex, Schedule, SkipReason, Verdict};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = ManualClock::at(Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap());
/// let (begun, begins) = mpsc::channel();
/// let (end, ends) = mpsc::channel::<()>();
/// let ends = Mutex::new(ends);
/// let task = move |_: &soloist::Run| {
///     begun.send(()).unwrap();
///     let _ = ends.lock().unwrap().recv(); // running until the test ends it
/// };
/// let schedule = Schedule::new(MemoryMutex::with_clock(&clock));
/// schedule.add(Event::call("reports", task).every_minute().without_overlapping())?;
///
/// thread::scope(|scope| {
///     let first = scope.spawn(|| schedule.run_due(clock.now()));
///     begins.recv().unwrap();
///     clock.advance(Duration::from_secs(600));
///     let report = schedule.run_due(clock.now());
///     let second = report.entries()[0].verdict();
///     assert!(matches!(second, Verdict::Skipped(SkipReason::Overlapping(_))), "{report}");
///     drop(end);
///     assert!(!first.join().unwrap().is_failure());
/// });
/// assert!(matches!(schedule.run_due(clock.now()).entries()[0].verdict(), Verdict::Ran(_)));
/// # Ok(())
/// # }
/// ```
///
/// A [`Schedule`](crate::Schedule::with_clock), a [`MemoryMutex`](crate::MemoryMutex::with_clock) and a
/// [`FileMutex`](crate::store::FileMutexBuilder::clock) can use this clock. Three things do not use it:
///
/// - A server has its own clock. A lease on a server does not expire because a test moves this clock.
/// - The process of a command uses the clock of the machine.
/// - A [`Shutdown`](crate::Shutdown) uses the clock of the machine to decide when the process exits. But when a run
///   hears of the shutdown, the time that is left of the drain begins to pass on the clock of its schedule. At the end
///   of this time, the run is cancelled.
#[derive(Clone)]
pub struct ManualClock(pub(super) Arc<ManualTime>);

impl ManualClock {
    /// Makes a clock that shows `start`. A time outside of the years 1678 to 2262 is moved to the nearer end of this
    /// range.
    ///
    /// ```
    /// use chrono::DateTime;
    ///
    /// let manual = soloist::time::ManualClock::at(DateTime::UNIX_EPOCH);
    /// assert_eq!(soloist::time::Clock::from(&manual).now(), DateTime::UNIX_EPOCH);
    /// ```
    pub fn at(start: DateTime<Utc>) -> Self {
        Self(Arc::new(ManualTime {
            moment_nanos: AtomicU64::new(0),
            set_to_nanos: AtomicI64::new(nanos(start)),
            places: Mutex::default(),
            settled: Condvar::new(),
        }))
    }

    /// Returns the time of the wall clock.
    ///
    /// ```
    /// use chrono::DateTime;
    ///
    /// assert_eq!(soloist::time::ManualClock::at(DateTime::UNIX_EPOCH).now(), DateTime::UNIX_EPOCH);
    /// ```
    pub fn now(&self) -> DateTime<Utc> {
        self.0.now()
    }

    /// Sets the wall clock forward or back, for every handle of this clock, like an operator who corrects a clock. The
    /// monotonic clock does not change.
    ///
    /// ```
    /// use chrono::{DateTime, TimeDelta};
    /// use soloist::time::{Clock, ManualClock};
    ///
    /// let manual = ManualClock::at(DateTime::UNIX_EPOCH);
    /// let before = Clock::from(&manual).moment();
    /// manual.set(DateTime::UNIX_EPOCH - TimeDelta::hours(1));
    /// assert_eq!(Clock::from(&manual).now().timestamp(), -3600);
    /// assert_eq!(Clock::from(&manual).moment(), before);
    /// ```
    pub fn set(&self, wall: DateTime<Utc>) {
        self.0.set_to_nanos.store(nanos(wall).saturating_sub(self.0.passed()), Ordering::SeqCst);
    }

    /// Moves the wall clock and the monotonic clock forward by `by`, for every handle of this clock. Returns after the
    /// turn of the last woken thread.
    ///
    /// The clock stops at each moment that a thread waits for, and moves on after the turn of that thread. So a lease
    /// is renewed every third of its term, [`Run::wait_cancelled`](crate::Run::wait_cancelled) returns, a
    /// [timeout](crate::Event::timeout) takes effect, and [`Schedule::work`](crate::Schedule::work) starts its ticks.
    ///
    /// The clock waits for renewals and admissions, but no longer than five seconds of real time. It does not wait for
    /// tasks, hooks and ticks. It does not wait for the thread that calls this method, so that a store can call this
    /// method during an admission. A thread that begins to wait after this method has returned is not woken before
    /// another call.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::time::{Clock, ManualClock};
    ///
    /// let manual = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
    /// let before = Clock::from(&manual).moment();
    /// manual.advance(Duration::from_secs(1));
    /// assert_eq!(Clock::from(&manual).moment().since(before), Duration::from_secs(1));
    /// ```
    pub fn advance(&self, by: Duration) {
        let mut left = Moment::at(by).0;
        loop {
            left -= self.0.pass(left);
            if left == 0 {
                // Also waits for the turn of the last woken thread.
                drop(self.0.settle());
                return;
            }
        }
    }

    /// Moves the wall clock and the monotonic clock forward by `by` in one step: no thread has a turn in between. So a
    /// test can imitate a suspended process or a suspended machine. A lease whose deadline passes in this step is lost.
    ///
    /// ```
    /// use std::time::Duration;
    /// use chrono::Utc;
    /// use soloist::time::ManualClock;
    /// use soloist::{Event, MemoryMutex, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::at(Utc::now());
    /// let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    /// let stopped = move |run: &soloist::Run| {
    ///     clock.jump(Duration::from_secs(90));
    ///     Ok(run.check()?)
    /// };
    /// schedule.add(Event::call("reports", stopped).every_minute().without_overlapping())?;
    /// let entry = schedule.run_event("reports", Utc::now())?;
    /// assert!(entry.to_string().contains("the lease was lost"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn jump(&self, by: Duration) {
        let due = self.0.skip(Moment::at(by).0, &mut self.0.settle());
        wake(&due);
        drop(self.0.settle());
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}

/// A type that wakes threads that wait for moments of a clock.
pub(crate) trait Wake: Send + Sync {
    /// Wakes the waiting threads, so that they read the clock again. A thread that is about to sleep must not miss this
    /// call.
    fn wake(&self);
}

/// The time of a test. The wall clock and the monotonic clock are both computed from `moment_nanos`. So `advance` and
/// `jump` always move both clocks together.
pub(super) struct ManualTime {
    moment_nanos: AtomicU64,
    /// The time that the wall clock shows at moment zero, in nanoseconds since 1970. A test that sets the wall clock
    /// changes this time.
    set_to_nanos: AtomicI64,
    /// Locked while time moves.
    places: Mutex<Places>,
    /// Notified when the turn of a thread may have ended.
    settled: Condvar,
}

#[derive(Default)]
struct Places {
    next: u64,
    /// The places, by their numbers.
    taken: BTreeMap<u64, Place>,
}

/// A thread that waits for moments of the clock, or a thread that the clock waits for.
struct Place {
    /// Wakes the thread. `None`: the thread does not sleep.
    here: Option<Arc<dyn Wake>>,
    /// The id of the thread. `None`: the thread has not slept yet.
    thread: Option<ThreadId>,
    state: ThreadState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadState {
    /// The thread waits for no moment. Or its turn has lasted so long that the clock does not wait for the thread any
    /// more.
    Idle,
    Asleep(Moment),
    /// The thread has its turn, so the clock waits for the thread.
    Awake,
}

impl ManualTime {
    pub(super) fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_nanos(self.set_to_nanos.load(Ordering::SeqCst).saturating_add(self.passed()))
    }

    pub(super) fn moment(&self) -> Moment {
        Moment(self.moment_nanos.load(Ordering::SeqCst))
    }

    fn passed(&self) -> i64 {
        i64::try_from(self.moment_nanos.load(Ordering::SeqCst)).unwrap_or(i64::MAX)
    }

    /// Takes a place for a thread that may sleep. `here` wakes the thread.
    pub(super) fn take_place(&self, here: Arc<dyn Wake>) -> u64 {
        self.take(Place { here: Some(here), thread: None, state: ThreadState::Idle })
    }

    /// Takes a place for this thread. The clock waits for the thread until the thread leaves the place.
    pub(super) fn take_turn(&self) -> u64 {
        self.take(Place { here: None, thread: Some(thread::current().id()), state: ThreadState::Awake })
    }

    fn take(&self, place: Place) -> u64 {
        let mut places = self.places();
        places.next += 1;
        let number = places.next;
        places.taken.insert(number, place);
        number
    }

    /// Notes that this thread is about to sleep until the moment `until`. `false`: the moment has passed, so the thread
    /// has its turn.
    pub(super) fn sleeps(&self, place: u64, until: Moment) -> bool {
        let mut places = self.places();
        let sleeps = self.moment() < until;
        if let Some(place) = places.taken.get_mut(&place) {
            place.thread = Some(thread::current().id());
            place.state = if sleeps { ThreadState::Asleep(until) } else { ThreadState::Awake };
        }
        self.settled.notify_all();
        sleeps
    }

    /// Notes that the place is that of this thread. If this thread moves the time in its turn, it does not wait for
    /// itself.
    pub(super) fn begins(&self, place: u64) {
        if let Some(place) = self.places().taken.get_mut(&place) {
            place.thread = Some(thread::current().id());
        }
    }

    pub(super) fn is_needed(&self, place: u64) {
        if let Some(place) = self.places().taken.get_mut(&place) {
            place.state = ThreadState::Awake;
        }
    }

    pub(super) fn leave_place(&self, place: u64) {
        let mut places = self.places();
        let left = places.taken.remove(&place);
        drop(places);
        self.settled.notify_all();
        // Drop the place only after the unlock: if it has the last reference to `here`, the drop runs code of another
        // type, which may need the lock.
        drop(left);
    }

    /// Moves the time forward to the next moment that a thread waits for, but by `at_most` at most. Wakes the threads
    /// of that moment. Returns the time that has passed.
    fn pass(&self, at_most: u64) -> u64 {
        let mut places = self.settle();
        let next = places.taken.values().filter_map(Place::sleeps_until).min();
        let by = next.map_or(at_most, |next| at_most.min(next.0.saturating_sub(self.moment().0)));
        let due = self.skip(by, &mut places);
        drop(places);
        wake(&due);
        by
    }

    /// Moves the time forward by `by` in one step. Gives a turn to each thread whose moment has come, and returns the
    /// values that wake these threads.
    fn skip(&self, by: u64, places: &mut Places) -> Vec<Arc<dyn Wake>> {
        let now = Moment(self.moment().0.saturating_add(by));
        self.moment_nanos.store(now.0, Ordering::SeqCst);
        let due = places.taken.values_mut().filter(|place| place.sleeps_until().is_some_and(|until| until <= now));
        due.filter_map(|place| {
            place.state = ThreadState::Awake;
            place.here.clone()
        })
        .collect()
    }

    /// Waits until the turns of all other threads have ended. No turn begins while the result is held.
    fn settle(&self) -> MutexGuard<'_, Places> {
        let this = Some(thread::current().id());
        let waits_for = |place: &Place| place.state == ThreadState::Awake && place.thread != this;
        let (mut places, waited) = self
            .settled
            .wait_timeout_while(self.places(), LONGEST_TURN, |places| places.taken.values().any(waits_for))
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            for place in places.taken.values_mut().filter(|place| waits_for(place)) {
                place.state = ThreadState::Idle;
            }
        }
        places
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        lock(&self.places)
    }
}

/// Wakes these threads. The places must not be locked here, because that could be a deadlock. A thread that is about to
/// sleep takes the locks in the other order: first the lock that `Wake::wake` needs, and then the lock of the places.
fn wake(due: &[Arc<dyn Wake>]) {
    for here in due {
        here.wake();
    }
}

impl Place {
    fn sleeps_until(&self) -> Option<Moment> {
        if let ThreadState::Asleep(until) = self.state { Some(until) } else { None }
    }
}

/// Returns the nanoseconds since 1970, or the nearer end of the range of `i64`.
fn nanos(instant: DateTime<Utc>) -> i64 {
    let end = if instant < DateTime::UNIX_EPOCH { i64::MIN } else { i64::MAX };
    instant.timestamp_nanos_opt().unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::clock::Clock;

    #[test]
    fn the_manual_clock_moves_both_its_clocks_and_stops_at_their_ends() {
        let manual = ManualClock::at(DateTime::UNIX_EPOCH);
        let clock = Clock::from(manual.clone());
        let before = clock.moment();
        manual.advance(Duration::from_secs(60));
        assert_eq!(clock.now().timestamp(), 60);
        assert_eq!(clock.moment().since(before), Duration::from_secs(60));
        manual.advance(Duration::MAX);
        manual.advance(Duration::MAX);
        assert_eq!(clock.now().timestamp_nanos_opt(), Some(i64::MAX));
    }

    #[test]
    fn a_thread_that_moves_the_time_does_not_wait_for_itself() {
        struct Sleeper;
        impl Wake for Sleeper {
            fn wake(&self) {}
        }
        let manual = ManualClock::at(DateTime::UNIX_EPOCH);
        let place = manual.0.take_place(Arc::new(Sleeper));
        manual.0.is_needed(place);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                manual.0.begins(place);
                manual.advance(Duration::from_secs(1));
            });
        });
        let state = manual.0.places().taken.get(&place).map(|place| place.state);
        assert!(state == Some(ThreadState::Awake), "the clock would no longer wait for this thread");
    }

    #[test]
    fn who_reads_one_clock_and_then_the_other_finds_no_time_lost_between_them() {
        const ADVANCES: u32 = 200_000;
        let manual = ManualClock::at(DateTime::UNIX_EPOCH);
        let (clock, start) = (Clock::from(&manual), Clock::from(&manual).moment());
        let shown = || (clock.now() - DateTime::UNIX_EPOCH).to_std().unwrap();
        std::thread::scope(|scope| {
            let passing = scope.spawn(|| (0..ADVANCES).for_each(|_| manual.advance(Duration::from_secs(1))));
            while !passing.is_finished() {
                let passed = clock.moment().since(start);
                assert!(passed <= shown(), "the wall clock is behind");
                let shown = shown();
                assert!(shown <= clock.moment().since(start), "the moment is behind");
            }
        });
    }
}
