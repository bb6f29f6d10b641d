//! Writes the runs of a schedule to the log of its store, on a thread of its own: no admission and no run waits for it.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::{catch_panic::contain, error::MutexError, process_id};
use crate::hold::held_lease::{NO_THREAD, this_thread};
#[cfg(unix)]
use crate::hold::process_exit::{self, EndsWithProcess};
use crate::lease::owner::Owner;
use crate::observe::tell::observers::Observer;
use crate::observe::{
    notice::incident::Incident,
    notice::{Notice, Step},
};
use crate::observe::{tell::delivery::spawn_detached, tell::log};
use crate::outcome::run_record::skip_count::{SkipCount, add_skips};
use crate::outcome::{run_record::RunRecord, run_record::outcome_kind::OutcomeKind};
use crate::store::{described_store::Store, event_mutex::EventMutex};
use crate::time::clock::Clock;
#[cfg(unix)]
use crate::time::clock::Waiting;
use crate::time::clock::moment::Moment;

/// How many records wait at most, while the store is unavailable; the oldest are dropped then.
const MOST_WAITING: usize = 10_000;

/// How many are written at once.
const BATCH_SIZE: usize = 100;

/// When a write that failed is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long the last tick of a process waits for its records to be written.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// How often the numbers of skipped occurrences of an event are written at most.
const SKIPS_AT_MOST_EACH: Duration = Duration::from_secs(10);

/// The error in the record of a run that called `exit`.
const EXITED: &str = "the process ended by exit while it was running";

/// The observer of a schedule that keeps the log of its runs.
///
/// Its thread also exists while a run is running: if the run ends the process, no thread can be started any more.
pub(crate) struct RunLogger {
    store: Store,
    clock: Clock,
    keep: usize,
    records: Mutex<WaitingRecords>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitingRecords {
    /// The process that has them. The other side of a `fork` has no thread, and other runs.
    pid: u32,
    /// Those of the running runs, with their threads.
    started: HashMap<Owner, (RunRecord, usize)>,
    waiting: VecDeque<RunRecord>,
    /// The thread that writes them.
    writer: Writer,
    /// Whether the last write failed.
    is_failing: bool,
    /// How often it was tried to write.
    attempts: u64,
    /// What each event waits for, until all this is written.
    once_written: HashMap<Arc<str>, FollowUp>,
    /// The actions for events whose run ends the process.
    once_exited: HashMap<Arc<str>, FollowUp>,
    /// The skipped occurrences of each event that are not written yet.
    skips: HashMap<Box<str>, WaitingSkips>,
    /// The thread that ends the process, until its runs are among those that wait.
    exits_on: Option<usize>,
    is_last: bool,
}

/// Numbers of skipped occurrences of an event.
#[derive(Default)]
struct WaitingSkips {
    counts: Vec<SkipCount>,
    written_at: Option<Moment>,
    /// Whether they are to be written now.
    are_due: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Writer {
    #[default]
    Absent,
    Idle,
    Writing,
}

impl WaitingRecords {
    fn has_work(&self) -> bool {
        let waits = || {
            self.exits_on.is_some()
                || !self.waiting.is_empty()
                || !self.once_written.is_empty()
                || self.skips.values().any(|skips| skips.are_due)
        };
        self.writer == Writer::Writing || (self.writer == Writer::Idle && waits())
    }

    /// Takes out what the writer does next: records, then what waits for them, then numbers of skipped occurrences.
    fn next_work(&mut self) -> Option<LogWork> {
        let count = self.waiting.len().min(BATCH_SIZE);
        if count > 0 {
            return Some(LogWork::Write(self.waiting.drain(..count).collect()));
        }
        if !self.once_written.is_empty() {
            return Some(LogWork::FollowUp(mem::take(&mut self.once_written).into_values().collect()));
        }
        let (event, skips) = self.skips.iter_mut().find(|(_, skips)| skips.are_due)?;
        skips.are_due = false;
        Some(LogWork::Count(event.clone(), mem::take(&mut skips.counts)))
    }

    /// Puts back what could not be written. Records that came meanwhile are newer; numbers are written with the next one.
    fn put_back(&mut self, work: LogWork) {
        match work {
            LogWork::Write(batch) => {
                batch.into_iter().rev().for_each(|record| self.waiting.push_front(record));
                let surplus = self.waiting.len().saturating_sub(MOST_WAITING);
                self.waiting.drain(..surplus);
            }
            LogWork::Count(event, skips) => add_skips(&mut self.skips.entry(event).or_default().counts, &skips),
            LogWork::FollowUp(_) => {}
        }
    }

    /// Lets all that waits be written, because the process ends.
    fn let_skips_be_due(&mut self) {
        self.skips.values_mut().for_each(|skips| skips.are_due = !skips.counts.is_empty());
    }

    fn push(&mut self, record: RunRecord) {
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(record);
    }

    /// Notes the thread of the run's next attempt.
    fn run_on(&mut self, run: Owner, thread: usize) {
        if let Some((_, on)) = self.started.get_mut(&run) {
            *on = thread;
        }
    }

    /// Adds the ends of the runs of the thread that ends the process.
    fn end_runs(&mut self, thread: usize, clock: &Clock) {
        let on_it = self.started.extract_if(|_, (_, of)| *of == thread);
        let ended: Vec<RunRecord> = on_it.map(|(_, (record, _))| record).collect();
        for record in ended {
            let follow_up = self.once_exited.remove_entry(record.event());
            self.once_written.extend(follow_up);
            self.push(record.ended(clock.now(), OutcomeKind::Failed, Some(EXITED)));
        }
    }
}

/// An action for an event, once its runs are written.
type FollowUp = Box<dyn FnOnce() + Send>;

/// A piece of work for the writer, which it does with nothing locked.
enum LogWork {
    Write(Vec<RunRecord>),
    FollowUp(Vec<FollowUp>),
    /// Adds to the numbers of skipped occurrences of an event.
    Count(Box<str>, Vec<SkipCount>),
}

impl RunLogger {
    pub(in crate::schedule) fn new(store: &Store, keep: usize) -> Arc<Self> {
        let (store, clock) = (store.clone(), store.mutex.clock());
        Arc::new(Self { store, clock, keep, records: Mutex::default(), changed: Condvar::new() })
    }

    fn post(self: &Arc<Self>, mut records: MutexGuard<'_, WaitingRecords>, record: RunRecord) {
        records.push(record);
        self.begin_to_write(records);
    }

    /// Returns the records, without those of the process that this one was forked from, and asks to be told when this one ends.
    fn records_of_this_process(self: &Arc<Self>) -> MutexGuard<'_, WaitingRecords> {
        let mut records = self.records();
        if records.pid != process_id::current() {
            *records = WaitingRecords { pid: process_id::current(), ..WaitingRecords::default() };
            #[cfg(unix)]
            process_exit::register(Arc::downgrade(self) as _);
        }
        records
    }

    fn begin_to_write(self: &Arc<Self>, mut records: MutexGuard<'_, WaitingRecords>) {
        if records.writer == Writer::Absent {
            let logger = Arc::clone(self);
            // Without a thread, the records wait for the next attempt.
            let has_thread = spawn_detached(move || logger.write_all());
            records.writer = if has_thread { Writer::Idle } else { Writer::Absent };
        } else if !records.is_failing {
            self.changed.notify_all();
        }
    }

    /// Calls `follow_up` on another thread, when all runs that ended so far are written. It must not panic. Of several for an event, the
    /// last is called.
    pub(crate) fn once_written(self: &Arc<Self>, event: &Arc<str>, follow_up: impl FnOnce() + Send + 'static) {
        let mut records = self.records();
        records.once_written.insert(Arc::clone(event), Box::new(follow_up));
        self.begin_to_write(records);
    }

    /// Calls `follow_up` if a run of the event ends the process, when that is written. It must not panic.
    pub(crate) fn once_exited(&self, event: &Arc<str>, follow_up: impl FnOnce() + Send + 'static) {
        self.records().once_exited.insert(Arc::clone(event), Box::new(follow_up));
    }

    /// Returns how many runs of each event are kept.
    pub(crate) fn keep(&self) -> usize {
        self.keep
    }

    /// Writes until nothing waits and nothing runs any more.
    fn write_all(&self) {
        let mut records = self.records();
        loop {
            if let Some(thread) = records.exits_on.take() {
                records.end_runs(thread, &self.clock);
            }
            let Some(mut work) = records.next_work() else {
                records.writer = if records.started.is_empty() { Writer::Absent } else { Writer::Idle };
                self.changed.notify_all();
                if records.writer == Writer::Absent {
                    return;
                }
                records = self.changed.wait(records).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let was_failing = records.is_failing;
            records.writer = Writer::Writing;
            drop(records);
            let answer = self.carry_out(&mut work);
            records = self.records();
            records.writer = Writer::Idle;
            if let LogWork::Write(_) = work {
                records.is_failing = answer.is_err();
                records.attempts += 1;
            }
            let Err(error) = answer else { continue };
            records.put_back(work);
            self.changed.notify_all();
            // A subscriber may wait for a lock of the thread that ends the process.
            if !was_failing && !records.is_last {
                drop(records);
                log(&Incident::RunsNotLogged(&error));
                records = self.records();
            }
            if records.is_failing {
                (records, _) =
                    self.changed.wait_timeout(records, TRY_AGAIN_AFTER).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn carry_out(&self, work: &mut LogWork) -> Result<(), MutexError> {
        let done = contain(|| {
            let log = || self.store.mutex.run_log().ok_or_else(no_log);
            match work {
                LogWork::Write(batch) => log()?.write(batch, self.keep),
                LogWork::Count(event, skips) => match log()?.count_skips(event, skips) {
                    Err(error) if error.is_unsupported() => Ok(()),
                    answer => answer,
                },
                LogWork::FollowUp(follow_ups) => {
                    follow_ups.drain(..).for_each(|follow_up| follow_up());
                    Ok(())
                }
            }
        });
        done.unwrap_or_else(|message| Err(MutexError::panicked("write the log of runs".to_owned(), &message)))
    }

    /// Counts a skipped occurrence. The number is written now, or with a later one.
    fn skipped(self: &Arc<Self>, event: &str, skip: SkipCount) {
        let now = self.clock.moment();
        let mut records = self.records_of_this_process();
        let skips = records.skips.entry(event.into()).or_default();
        add_skips(&mut skips.counts, &[skip]);
        if skips.written_at.is_none_or(|at| now.since(at) >= SKIPS_AT_MOST_EACH) {
            (skips.written_at, skips.are_due) = (Some(now), true);
            self.begin_to_write(records);
        }
    }

    /// Writes all numbers of skipped occurrences, too, and waits for that: the process ends.
    pub(crate) fn finish_all(self: &Arc<Self>) {
        let mut records = self.records();
        records.let_skips_be_due();
        if records.skips.values().any(|skips| skips.are_due) {
            self.begin_to_write(records);
        } else {
            drop(records);
        }
        self.finish();
    }

    /// Waits until all is written, or one more attempt has failed, for a few seconds at most: the process may end then.
    pub(crate) fn finish(&self) {
        self.finish_until(Clock::system().moment().plus(LAST_WRITES));
    }

    fn finish_until(&self, enough: Moment) {
        let mut records = self.records();
        let before = records.attempts;
        // The store may be back.
        self.changed.notify_all();
        while records.has_work() && !(records.is_failing && records.attempts > before) {
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

#[cfg(unix)]
impl EndsWithProcess for RunLogger {
    fn begin(&self, by: usize) {
        let mut records = self.records();
        records.exits_on = Some(by);
        records.is_last = true;
        records.let_skips_be_due();
        drop(records);
        self.changed.notify_all();
    }

    fn wait(&self, _: &Waiting, enough: Moment) {
        self.finish_until(enough);
    }
}

impl Observer for Arc<RunLogger> {
    fn observe(&self, notice: &Notice<'_>) {
        if let (Step::Skipped(reason), Some(event), Some(occurrence)) =
            (notice.step(), notice.event(), notice.occurrence())
        {
            // What a backfill skips is no occurrence that is due.
            if !notice.is_backfill()
                && let Some(skip) = SkipCount::new(reason.keyword(), 1, occurrence)
            {
                self.skipped(event, skip);
            }
            return;
        }
        let (Some(id), Some(event), Some(occurrence)) = (notice.run(), notice.event(), notice.occurrence()) else {
            return;
        };
        let started = |token| {
            RunRecord::started(event, id, occurrence, token, notice.at())
                .of_instance(notice.instance.cloned())
                .of_backfill(notice.is_backfill())
        };
        match notice.step() {
            Step::Started { token } => {
                let record = started(*token);
                let mut records = self.records_of_this_process();
                records.started.insert(id, (record.clone(), this_thread()));
                self.post(records, record);
            }
            Step::AttemptFailed { .. } => self.records().run_on(id, NO_THREAD),
            Step::AttemptStarted { .. } => self.records().run_on(id, this_thread()),
            Step::Ended(outcome) => {
                let (at, error) = (notice.at(), outcome.error());
                let mut records = self.records();
                let known = records.started.remove(&id).map(|(record, _)| record);
                // It knows the observers, and so this one.
                if !records.started.values().any(|(record, _)| record.event() == event) {
                    records.once_exited.remove(event);
                }
                let record = known.unwrap_or_else(|| started(outcome.fencing_token()));
                let record = record.ended(at, outcome.kind(), error.as_deref()).with_attempts(outcome.attempts());
                self.post(records, record);
            }
            _ => {}
        }
    }
}
