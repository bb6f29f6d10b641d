//! Writes the runs of a schedule to the log of its store, on a thread of its own: no gate and no run waits for it.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::owner::Owner;
use crate::observe::notice::{Notice, Step, incident::Incident};
use crate::observe::run_record::RunRecord;
use crate::observe::tell::observers::Observer;
use crate::observe::tell::{delivery::spawn_detached, log};
use crate::store::{event_mutex::EventMutex, handle::Store};
use crate::time::clock::Clock;

/// How many records wait at most, while the store is out; the oldest are dropped then.
const MOST_WAITING: usize = 10_000;

/// How many are written at once.
const BATCH_SIZE: usize = 100;

/// When a write that failed is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long a tick of a process that may end waits for what it has to write.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// The observer of a schedule that keeps the log of its runs.
pub(crate) struct RunLogger {
    store: Store,
    keep: usize,
    records: Mutex<WaitingRecords>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitingRecords {
    /// Those of the runs that are at work.
    started: HashMap<Owner, RunRecord>,
    waiting: VecDeque<RunRecord>,
    /// Whether there is a thread that writes them.
    has_thread: bool,
    /// Whether the last write failed.
    is_failing: bool,
    /// How often it was tried to write.
    attempts: u64,
    /// What each event waits for, until all this is written.
    once_written: HashMap<Arc<str>, FollowUp>,
}

/// What is done about an event when its runs are written.
type FollowUp = Box<dyn FnOnce() + Send>;

impl RunLogger {
    pub(super) fn new(store: &Store, keep: usize) -> Arc<Self> {
        Arc::new(Self { store: store.clone(), keep, records: Mutex::default(), changed: Condvar::new() })
    }

    fn post(self: &Arc<Self>, mut records: MutexGuard<'_, WaitingRecords>, record: RunRecord) {
        if records.waiting.len() >= MOST_WAITING {
            records.waiting.pop_front();
        }
        records.waiting.push_back(record);
        self.begin_to_write(records);
    }

    fn begin_to_write(self: &Arc<Self>, mut records: MutexGuard<'_, WaitingRecords>) {
        if !mem::replace(&mut records.has_thread, true) {
            let logger = Arc::clone(self);
            // Without a thread, the records wait for the next attempt.
            records.has_thread = spawn_detached(move || logger.write_all());
        }
    }

    /// Does this on another thread, when all that ended so far is written. It must not panic. Of several for an event that wait
    /// for that, the last one is done.
    pub(crate) fn once_written(self: &Arc<Self>, event: &Arc<str>, follow_up: impl FnOnce() + Send + 'static) {
        let mut records = self.records();
        records.once_written.insert(Arc::clone(event), Box::new(follow_up));
        self.begin_to_write(records);
    }

    /// How many runs of each event are kept.
    pub(crate) fn keep(&self) -> usize {
        self.keep
    }

    /// Writes until nothing waits any more.
    fn write_all(&self) {
        loop {
            let mut records = self.records();
            let count = records.waiting.len().min(BATCH_SIZE);
            if count == 0 && !records.once_written.is_empty() {
                let follow_ups = mem::take(&mut records.once_written);
                drop(records);
                for follow_up in follow_ups.into_values() {
                    follow_up();
                }
                continue;
            }
            if count == 0 {
                records.has_thread = false;
                self.changed.notify_all();
                return;
            }
            let batch: Vec<RunRecord> = records.waiting.drain(..count).collect();
            let was_failing = records.is_failing;
            drop(records);
            let written = self.write(&batch);
            let mut records = self.records();
            records.is_failing = written.is_err();
            records.attempts += 1;
            let Err(error) = written else { continue };
            // What came meanwhile is newer.
            batch.into_iter().rev().for_each(|record| records.waiting.push_front(record));
            let surplus = records.waiting.len().saturating_sub(MOST_WAITING);
            records.waiting.drain(..surplus);
            self.changed.notify_all();
            drop(records);
            if !was_failing {
                log(&Incident::RunsNotLogged(&error));
            }
            let _ = self.changed.wait_timeout(self.records(), TRY_AGAIN_AFTER);
        }
    }

    fn write(&self, batch: &[RunRecord]) -> Result<(), MutexError> {
        let attempted = || "write the log of runs".to_owned();
        let written = contain(|| match self.store.mutex.run_log() {
            Some(log) => log.write(batch, self.keep),
            None => Err(no_log()),
        });
        written.unwrap_or_else(|message| Err(MutexError::panicked(attempted(), &message)))
    }

    /// Waits until all is written, or one more attempt has failed, for a few seconds at most: the process may end then.
    pub(crate) fn finish(&self) {
        let enough = Clock::system().moment().plus(LAST_WRITES);
        let mut records = self.records();
        let before = records.attempts;
        // The store may be back.
        self.changed.notify_all();
        while records.has_thread && !(records.is_failing && records.attempts > before) {
            let left = enough.since(Clock::system().moment());
            if left.is_zero() {
                return;
            }
            (records, _) = self.changed.wait_timeout(records, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn records(&self) -> MutexGuard<'_, WaitingRecords> {
        // No code that can panic runs while it is half-changed.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn no_log() -> MutexError {
    MutexError::unsupported("keep a log of runs")
}

impl Observer for Arc<RunLogger> {
    fn observe(&self, notice: &Notice<'_>) {
        let (Some(id), Some(event), Some(occurrence)) = (notice.run(), notice.event(), notice.occurrence()) else {
            return;
        };
        let started = |token| RunRecord::started(event, id, occurrence, token, notice.at());
        match notice.step() {
            Step::Started { token } => {
                let record = started(*token);
                let mut records = self.records();
                records.started.insert(id, record.clone());
                self.post(records, record);
            }
            Step::Ended(outcome) => {
                let (at, error) = (notice.at(), outcome.error());
                let mut records = self.records();
                let record = records.started.remove(&id).unwrap_or_else(|| started(outcome.fencing_token()));
                self.post(records, record.ended(at, outcome.result(), error.as_deref()));
            }
            _ => {}
        }
    }
}
