//! A store for tests of a schedule, with faults that the test sets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::base::error::MutexError;
use crate::base::lock::lock;
use crate::lease::name::{InvalidName, MutexName};
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::term::Term;
use crate::outcome::{run_record::RunRecord, run_record::skip_count::SkipCount};
use crate::store::event_mutex::batch::{Batch, Slot, fill_each};
use crate::store::event_mutex::description::{Description, Scope};
use crate::store::event_mutex::held::{Held, Names};
use crate::store::event_mutex::run_log::RunLog;
use crate::store::event_mutex::warning::StoreWarning;
use crate::store::event_mutex::{EventMutex, attempted_extension};
use crate::store::memory::MemoryMutex;
use crate::time::clock::{Clock, manual::ManualClock};

/// A store in memory for tests of a schedule. The test can make the store unavailable or slow, delete its data, or let
/// another server hold a name. The store describes itself as the store of a fleet. All clones are one store, so give a
/// clone to each server of the test.
///
/// ```
/// use soloist::testing::TestStore;
/// use soloist::time::ManualClock;
/// use soloist::{Event, Schedule, SkipReason};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = ManualClock::at("2026-03-01T12:00:00Z".parse()?);
/// let store = TestStore::new(&clock);
/// let schedule = Schedule::new(store.clone());
/// schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping())?;
///
/// store.be_unavailable(true);
/// let report = schedule.run_due(clock.now());
/// assert!(matches!(report.skip_reason("reports"), Some(SkipReason::StoreUnavailable(_))) && report.is_failure());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TestStore {
    memory: MemoryMutex,
    clock: ManualClock,
    faults: Arc<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    is_unavailable: AtomicBool,
    takes: Mutex<Duration>,
}

impl TestStore {
    /// Creates an empty store that uses `clock`. The store answers without a delay.
    pub fn new(clock: &ManualClock) -> Self {
        Self { memory: MemoryMutex::with_clock(clock), clock: clock.clone(), faults: Arc::default() }
    }

    /// Makes the store unavailable if `is_unavailable` is `true`, and available again if it is `false`. Held names stay
    /// held, and expire as usual.
    pub fn be_unavailable(&self, is_unavailable: bool) {
        self.faults.is_unavailable.store(is_unavailable, Ordering::SeqCst);
    }

    fn is_unavailable(&self) -> bool {
        self.faults.is_unavailable.load(Ordering::SeqCst)
    }

    /// Makes the store slow: from now on, `time` passes on the store's clock before each answer.
    pub fn answer_after(&self, time: Duration) {
        *lock(&self.faults.takes) = time;
    }

    /// Deletes all leases, claims and markers, such as pauses, as if a server was restarted without its data. The log
    /// of runs stays.
    pub fn lose_all(&self) {
        self.memory.lose_all();
    }

    /// Lets another server run the event with this name, or the events with this
    /// [`mutex_name`](crate::Event::mutex_name), until the returned value is dropped. This method does not wait: if the
    /// event is already running, its lease is broken.
    ///
    /// # Errors
    ///
    /// The text `mutex` is not allowed as the name of an event.
    ///
    /// ```
    /// use soloist::testing::TestStore;
    /// use soloist::time::ManualClock;
    /// use soloist::{Event, Schedule, SkipReason};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::at("2026-03-01T12:00:00Z".parse()?);
    /// let store = TestStore::new(&clock);
    /// let schedule = Schedule::new(store.clone());
    /// schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping())?;
    ///
    /// let elsewhere = store.run_elsewhere("reports")?;
    /// assert!(matches!(schedule.run_due(clock.now()).skip_reason("reports"), Some(SkipReason::Overlapping(Some(_)))));
    /// drop(elsewhere);
    /// assert!(schedule.run_due(clock.now()).outcome("reports").is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_elsewhere(&self, mutex: &str) -> Result<RunElsewhere, InvalidName> {
        Ok(self.take_away(&MutexName::readable(mutex)?))
    }

    /// Claims this occurrence of an event that is [`on_one_server`](crate::Event::on_one_server), as if another server
    /// had run the occurrence. The claim is not released. It is not the claim of an event with a
    /// [`mutex_name`](crate::Event::mutex_name) or with [`once_per`](crate::Event::once_per).
    ///
    /// # Errors
    ///
    /// The text `event` is not allowed as the name of an event.
    pub fn claim_elsewhere(&self, event: &str, occurrence: DateTime<Utc>) -> Result<(), InvalidName> {
        let claim = self.take_away(&MutexName::readable(event)?.claim(event, occurrence));
        std::mem::forget(claim); // A claim is not released.
        Ok(())
    }

    fn take_away(&self, name: &MutexName) -> RunElsewhere {
        let lease = loop {
            // The present holder loses the name. If another thread acquires the name before the request below, the loop
            // tries again.
            let _ = self.memory.break_lease(name);
            let request = LeaseRequest::new(name.clone(), Term::MAX, &self.clock());
            if let Ok(Some(lease)) = self.memory.create(&request) {
                break lease;
            }
        };
        RunElsewhere { memory: self.memory.clone(), lease }
    }

    /// Returns the answer of the store in memory, or an error if the test has made the store unavailable. Before the
    /// return, moves the clock by the time that [`answer_after`](Self::answer_after) has set.
    fn answer<T>(
        &self,
        attempted: impl FnOnce() -> String,
        ask: impl FnOnce(&MemoryMutex) -> Result<T, MutexError>,
    ) -> Result<T, MutexError> {
        let answer = if self.is_unavailable() { Err(unavailable(attempted())) } else { ask(&self.memory) };
        self.pass_time();
        answer
    }

    fn log(&self, attempted: &str) -> Result<&dyn RunLog, MutexError> {
        if self.is_unavailable() { Err(unavailable(attempted)) } else { Ok(&*self.memory.runs) }
    }

    fn pass_time(&self) {
        let takes = *lock(&self.faults.takes);
        if !takes.is_zero() {
            self.clock.advance(takes);
        }
    }
}

fn unavailable(attempted: impl Into<Arc<str>>) -> MutexError {
    MutexError::unavailable(attempted, "the test has made the store unavailable")
}

impl EventMutex for TestStore {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.answer(|| format!("create {}", request.name()), |memory| memory.create(request))
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.answer(|| format!("read {name}"), |memory| memory.exists(name))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.answer(|| format!("forget {}", lease.name()), |memory| memory.forget(lease))
    }

    fn describe(&self) -> Description {
        self.memory.describe().with_scope(Scope::Fleet)
    }

    fn clock(&self) -> Clock {
        self.memory.clock()
    }

    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        self.answer(|| "check the store".to_owned(), MemoryMutex::check)
    }

    fn carry_out(&self, batch: &mut Batch) {
        if self.is_unavailable() {
            let (releases, admissions) = batch.slots_mut();
            fill_each(releases, |asked| Err(unavailable(asked.attempted())));
            fill_each(admissions, |asked| Err(unavailable(asked.attempted())));
        } else {
            self.memory.carry_out(batch);
        }
        self.pass_time();
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        if self.is_unavailable() {
            fill_each(leases, |lease| Err(unavailable(attempted_extension(lease))));
        } else {
            self.memory.extend(leases, term);
        }
        self.pass_time();
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        self.answer(|| "read the held names".to_owned(), |memory| memory.held(names))
    }

    fn break_lease(&self, name: &MutexName) -> Result<Option<Held>, MutexError> {
        self.answer(|| format!("break {name}"), |memory| memory.break_lease(name))
    }

    fn run_log(&self) -> Option<&dyn RunLog> {
        Some(self)
    }
}

/// Calls to the log take no time, because no run waits for the log.
impl RunLog for TestStore {
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError> {
        self.log("write the log of runs")?.write(records, keep)
    }

    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError> {
        self.log("read the log of runs")?.runs(event)
    }

    fn count_skips(&self, event: &str, skips: &[SkipCount]) -> Result<(), MutexError> {
        self.log("count skipped occurrences")?.count_skips(event, skips)
    }

    fn skips(&self, event: &str) -> Result<Vec<SkipCount>, MutexError> {
        self.log("read the log of runs")?.skips(event)
    }

    fn events(&self) -> Result<Vec<String>, MutexError> {
        self.log("list the events in the log of runs")?.events()
    }
}

/// A run on another server. The run ends when this value is dropped; see [`TestStore::run_elsewhere`].
///
/// ```
/// use soloist::testing::{RunElsewhere, TestStore};
/// use soloist::time::ManualClock;
/// use soloist::{EventMutex, MutexName};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = TestStore::new(&ManualClock::at(chrono::DateTime::UNIX_EPOCH));
/// let elsewhere: RunElsewhere = store.run_elsewhere("reports")?;
/// assert!(store.exists(&MutexName::lease("reports")?)?);
/// drop(elsewhere);
/// assert!(!store.exists(&MutexName::lease("reports")?)?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the run elsewhere ends when this is dropped"]
pub struct RunElsewhere {
    memory: MemoryMutex,
    lease: Lease,
}

impl Drop for RunElsewhere {
    fn drop(&mut self) {
        let _ = self.memory.forget(&self.lease);
    }
}
