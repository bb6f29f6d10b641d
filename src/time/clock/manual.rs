//! The clock of a test, and who waits for it.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::moment::Moment;

/// How long the clock waits for a thread that does not end its turn, in real time.
const LONGEST_TURN: Duration = Duration::from_secs(5);

/// A clock that stands still until a test moves it. If a task waits on this clock while the test itself waits in `run_due`, nothing
/// moves the clock, and both wait for ever: move the clock on another thread.
///
/// [`advance`](Self::advance) lets everything that is due happen in its order, especially renewals of leases. So a task
/// that is still running after ten minutes still holds its lease:
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
///     let _ = ends.lock().unwrap().recv(); // at work until the test lets it end
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
/// It moves the deadlines of a [`Schedule`](crate::Schedule::with_clock) on this clock, and the stores on this clock:
/// [`MemoryMutex::with_clock`](crate::MemoryMutex::with_clock) and, with
/// [`clock`](crate::store::FileMutexBuilder::clock), [`FileMutex`](crate::FileMutex). A server has a clock of its own:
/// a lease there does not expire because a test moves this clock. The process of a command uses the clock of the
/// machine. During a [`Shutdown`](crate::Shutdown), a run is cancelled after the rest of the drain has passed on the
/// clock of its schedule, but the process ends by the clock of the machine.
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

    /// Returns the time that it shows.
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
    /// clock that never steps does not change.
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

    /// Lets `by` pass on both clocks, for every handle of this clock. Returns when everything that was due in this time
    /// is done.
    ///
    /// Time stops at each moment that a thread waits for, and continues after the turn of that thread: a lease is
    /// renewed every third of its term, [`Run::wait_cancelled`](crate::Run::wait_cancelled) returns, a
    /// [timeout](crate::Event::timeout) sets in, [`Schedule::work`](crate::Schedule::work) starts its ticks. The clock
    /// does not wait for tasks, hooks and ticks. It waits for renewals and admissions, but no longer than five seconds
    /// of real time, and not for a call that calls this method itself. If a thread begins to wait after this has returned,
    /// it waits for the next call.
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

    /// Lets `by` pass at once, as for a stopped process or a suspended machine: no thread has a turn before the whole
    /// time has passed. A lease whose term is over by then is lost.
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

/// A place where threads wait for moments of a clock.
pub(crate) trait Wake: Send + Sync {
    /// Makes the threads that wait here read the clock again. A thread that is about to sleep must not miss this call.
    fn wake(&self);
}

/// The time of a test. It passes on both clocks at once: if a thread reads one clock and then the other, the second is
/// never behind the first.
pub(super) struct ManualTime {
    moment_nanos: AtomicU64,
    /// The time that the wall clock, with its present setting, would have shown at the first moment.
    set_to_nanos: AtomicI64,
    /// Locked while time moves.
    places: Mutex<Places>,
    /// Notified when a turn may be over.
    settled: Condvar,
}

#[derive(Default)]
struct Places {
    next: u64,
    /// With their numbers, in whose order they are.
    taken: Vec<(u64, Place)>,
}

/// The place of a thread that waits for moments, or for whose turn the clock waits.
struct Place {
    /// `None`: it does not sleep.
    here: Option<Arc<dyn Wake>>,
    /// The thread, once it is known.
    thread: Option<ThreadId>,
    state: ThreadState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadState {
    /// It waits for nothing yet, or its turn has lasted so long that time does not wait for it any more.
    Idle,
    Asleep(Moment),
    /// It has its turn.
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

    /// Takes a place for a thread that may sleep here.
    pub(super) fn take_place(&self, here: Arc<dyn Wake>) -> u64 {
        self.take(Place { here: Some(here), thread: None, state: ThreadState::Idle })
    }

    /// Takes a place for this thread. The turn of the thread lasts until it leaves the place.
    pub(super) fn take_turn(&self) -> u64 {
        self.take(Place { here: None, thread: Some(thread::current().id()), state: ThreadState::Awake })
    }

    fn take(&self, place: Place) -> u64 {
        let mut places = self.places();
        places.next += 1;
        let number = places.next;
        places.taken.push((number, place));
        number
    }

    /// Notes that this thread is about to sleep until this moment. `false`: the moment has passed, and the thread has
    /// its turn.
    pub(super) fn sleeps(&self, place: u64, until: Moment) -> bool {
        let mut places = self.places();
        let sleeps = self.moment() < until;
        if let Some(place) = places.at(place) {
            place.thread = Some(thread::current().id());
            place.state = if sleeps { ThreadState::Asleep(until) } else { ThreadState::Awake };
        }
        self.settled.notify_all();
        sleeps
    }

    pub(super) fn is_needed(&self, place: u64) {
        if let Some(place) = self.places().at(place) {
            place.state = ThreadState::Awake;
        }
    }

    pub(super) fn leave_place(&self, place: u64) {
        let mut places = self.places();
        let at = places.taken.iter().position(|(number, _)| *number == place);
        let left = at.map(|at| places.taken.remove(at));
        drop(places);
        self.settled.notify_all();
        // Dropped after the lock, because this may be the last reference to `here`.
        drop(left);
    }

    /// Lets time pass up to the next moment that a thread waits for, but no longer than `at_most`, and wakes the
    /// threads of that moment. Returns the time that has passed.
    fn pass(&self, at_most: u64) -> u64 {
        let mut places = self.settle();
        let next = places.taken.iter().filter_map(|(_, place)| place.sleeps_until()).min();
        let by = next.map_or(at_most, |next| at_most.min(next.0.saturating_sub(self.moment().0)));
        let due = self.skip(by, &mut places);
        drop(places);
        wake(&due);
        by
    }

    /// Lets this time pass at once. Returns the places of the threads whose moments have come. Each of these threads
    /// has its turn.
    fn skip(&self, by: u64, places: &mut Places) -> Vec<Arc<dyn Wake>> {
        let now = Moment(self.moment().0.saturating_add(by));
        self.moment_nanos.store(now.0, Ordering::SeqCst);
        let due = places.all().filter(|place| place.sleeps_until().is_some_and(|until| until <= now));
        due.filter_map(|place| {
            place.state = ThreadState::Awake;
            place.here.clone()
        })
        .collect()
    }

    /// Waits until the turns of all other threads are over. No turn begins while the result is held.
    fn settle(&self) -> MutexGuard<'_, Places> {
        let this = Some(thread::current().id());
        let waits_for = |place: &Place| place.state == ThreadState::Awake && place.thread != this;
        let (mut places, waited) = self
            .settled
            .wait_timeout_while(self.places(), LONGEST_TURN, |places| {
                places.taken.iter().any(|(_, place)| waits_for(place))
            })
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            places.all().filter(|place| waits_for(place)).for_each(|place| place.state = ThreadState::Idle);
        }
        places
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        // No code that can panic runs while the places behind this lock are half-changed.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes these threads, without a lock on the places: a thread that is about to sleep takes that lock while it holds
/// the lock that `Wake::wake` waits for.
fn wake(due: &[Arc<dyn Wake>]) {
    for here in due {
        here.wake();
    }
}

impl Places {
    fn all(&mut self) -> impl Iterator<Item = &mut Place> {
        self.taken.iter_mut().map(|(_, place)| place)
    }

    fn at(&mut self, number: u64) -> Option<&mut Place> {
        self.taken.iter_mut().find(|(known, _)| *known == number).map(|(_, place)| place)
    }
}

impl Place {
    fn sleeps_until(&self) -> Option<Moment> {
        if let ThreadState::Asleep(until) = self.state { Some(until) } else { None }
    }
}

/// Returns the nanoseconds since 1970, or the nearer end of the range that can be counted.
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
