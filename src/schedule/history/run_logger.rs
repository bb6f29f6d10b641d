//! Writes the runs of a schedule to the log in its store. A separate thread does this, so that no admission and no run
//! waits for the log.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::error::{MutexError, if_supported};
use crate::base::lock::lock;
use crate::base::per_process::PerProcess;
use crate::hold::held_lease::{NO_THREAD, this_thread};
#[cfg(unix)]
use crate::hold::process_exit::{self, EndsWithProcess};
use crate::lease::owner::Owner;
use crate::observe::notice::{Notice, Step};
use crate::observe::tell::{notice_queue::spawn_detached, observers::Observer, trace};
use crate::outcome::run_record::numbered_record::by_event;
use crate::outcome::run_record::skip_count::{SkipCount, add_skips};
use crate::outcome::{run_record::RunRecord, run_record::outcome_kind::OutcomeKind};
#[cfg(feature = "cli")]
use crate::store::described_store::WRITE_LOG;
use crate::store::{described_store::Store, event_mutex::EventMutex};
use crate::time::clock::Clock;
use crate::time::clock::moment::Moment;
#[cfg(feature = "cli")]
use crate::time::clock::shown::ExactDuration;

/// The largest number of records that wait while the store is unavailable. If there are more, the oldest are dropped.
const MOST_WAITING: usize = 10_000;

/// The largest number of records in one write. Also the largest number of records of an event that are set aside.
const BATCH_SIZE: usize = 100;

/// The time between a failed write and the next try.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The longest wait of a process for its last records to be written.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// The shortest time between two writes of the numbers of skipped occurrences of an event.
const SKIPS_AT_MOST_EACH: Duration = Duration::from_secs(10);

/// The error in the record of a run that called `exit`.
const EXITED: &str = "the process called `exit` during the run";

/// An observer that writes the runs of a schedule to the log.
///
/// The writing thread is started before the task of a run, and ends after the run. The reason is that a task may end
/// the process, and then no thread can be started.
pub(crate) struct RunLogger {
    store: Store,
    clock: Clock,
    /// The number of runs that the log keeps for each event.
    pub(crate) keep: usize,
    /// The records of this process. A child that `fork` makes has no writing thread, and records only its own runs.
    records: PerProcess<(Mutex<WaitingRecords>, Condvar)>,
}

#[derive(Default)]
struct WaitingRecords {
    /// Whether the logger is registered for the exit of this process.
    #[cfg(unix)]
    is_registered: bool,
    /// The records of the running runs, each with the thread of its run.
    started: HashMap<Owner, (RunRecord, usize)>,
    waiting: VecDeque<RunRecord>,
    /// The records of events whose logs can't be used. The records of an event are written with its next record.
    set_aside: HashMap<Box<str>, VecDeque<RunRecord>>,
    /// The state of the writing thread.
    writer: Writer,
    /// The error of the last write of records, if it failed.
    failure: Option<MutexError>,
    /// The number of attempts to write.
    attempts: u64,
    /// The actions for events whose runs have failed. They are called when no record waits.
    once_written: HashMap<Box<str>, FollowUp>,
    /// The actions of running runs. An action is called if its run fails.
    after_failure: HashMap<Owner, FollowUp>,
    /// The skipped occurrences that are not written yet, by event.
    skips: HashMap<Box<str>, WaitingSkips>,
    /// The thread that ends the process, until the runs of this thread are recorded as failed.
    exits_on: Option<usize>,
    is_last: bool,
}

/// Numbers of skipped occurrences of an event.
#[derive(Default)]
struct WaitingSkips {
    counts: Vec<SkipCount>,
    written_at: Option<Moment>,
    /// Whether the numbers must be written now.
    are_due: bool,
    /// Whether the last write of the log has failed. Then the numbers wait for the next skip of the event, or for a
    /// successful write, so that an outage does not delay each call.
    have_failed: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Writer {
    #[default]
    Absent,
    Idle,
    Writing,
    /// The last write has failed, and the thread waits until it tries again.
    Delayed,
}

impl WaitingRecords {
    fn has_work(&self) -> bool {
        let waits = || {
            self.exits_on.is_some()
                || !self.waiting.is_empty()
                || self.once_written.keys().any(|event| !self.set_aside.contains_key(event))
                || self.skips.values().any(|skips| skips.are_due)
        };
        self.writer == Writer::Writing || (self.writer != Writer::Absent && waits())
    }

    /// Returns whether the last write of records has failed because of the whole store.
    fn has_outage(&self) -> bool {
        self.failure.as_ref().is_some_and(MutexError::is_outage)
    }

    /// Takes out the next work for the writer: records, and with the last records also actions and numbers of skips.
    fn next_work(&mut self) -> Option<LogWork> {
        let count = self.waiting.len().min(BATCH_SIZE);
        let new: Vec<RunRecord> = self.waiting.drain(..count).collect();
        let older = by_event(&new).into_keys().filter_map(|event| self.set_aside.remove(event)).flatten();
        let mut work = LogWork { records: older.collect(), ..LogWork::default() };
        work.records.extend(new);
        if self.waiting.is_empty() {
            let Self { once_written, set_aside, .. } = self;
            work.follow_ups.extend(once_written.extract_if(|event, _| !set_aside.contains_key(event)));
            let due = self.skips.iter_mut().filter(|(_, skips)| skips.are_due);
            work.skips.extend(due.map(|(event, skips)| {
                skips.are_due = false;
                (event.clone(), mem::take(&mut skips.counts))
            }));
        }
        let is_nothing = work.records.is_empty() && work.follow_ups.is_empty() && work.skips.is_empty();
        (!is_nothing).then_some(work)
    }

    /// Puts back the work that could not be written. Its records go to the front, because they are older than the
    /// records that came meanwhile. But if `are_set_aside`, they are set aside, so that they delay no other event.
    fn put_back(&mut self, work: LogWork, are_set_aside: bool) {
        if are_set_aside {
            for record in work.records {
                let of_event = self.set_aside.entry(record.event().into()).or_default();
                if of_event.len() >= BATCH_SIZE {
                    of_event.pop_front();
                }
                of_event.push_back(record);
            }
        } else {
            work.records.into_iter().rev().for_each(|record| self.waiting.push_front(record));
            let surplus = self.waiting.len().saturating_sub(MOST_WAITING);
            self.waiting.drain(..surplus);
        }
        for (event, follow_up) in work.follow_ups {
            self.once_written.entry(event).or_insert(follow_up);
        }
        for (event, skips) in work.skips {
            let waiting = self.skips.entry(event).or_default();
            add_skips(&mut waiting.counts, &skips);
            waiting.have_failed = true;
        }
    }

    /// Lets the records that were set aside wait again. Returns whether there are any.
    fn take_set_aside(&mut self) -> bool {
        let older: Vec<RunRecord> = self.set_aside.drain().flat_map(|(_, records)| records).collect();
        let has_older = !older.is_empty();
        older.into_iter().rev().for_each(|record| self.waiting.push_front(record));
        has_older
    }

    /// Marks the waiting numbers of skips as due, because the process may end. Returns whether there are any.
    fn let_skips_be_due(&mut self) -> bool {
        self.skips.values_mut().for_each(|skips| skips.are_due = !skips.counts.is_empty() && !skips.have_failed);
        self.skips.values().any(|skips| skips.are_due)
    }

    fn push(&mut self, record: RunRecord) {
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(record);
    }

    /// Notes the thread that performs the next attempt of the run.
    fn run_on(&mut self, run: Owner, thread: usize) {
        if let Some((_, on)) = self.started.get_mut(&run) {
            *on = thread;
        }
    }

    /// Queues the action of a run that has failed. The action is called after the record of the run is written.
    fn let_follow(&mut self, run: Owner, event: &str) {
        let follow_up = self.after_failure.remove(&run);
        self.once_written.extend(follow_up.map(|follow_up| (event.into(), follow_up)));
    }

    /// Records that the runs on the thread `thread` have failed, because that thread ends the process.
    fn end_runs(&mut self, thread: usize, clock: &Clock) {
        let on_it = self.started.extract_if(|_, (_, of)| *of == thread);
        let ended: Vec<(Owner, RunRecord)> = on_it.map(|(run, (record, _))| (run, record)).collect();
        for (run, record) in ended {
            self.let_follow(run, record.event());
            self.push(record.ended(clock.now(), OutcomeKind::Failed, Some(EXITED)));
        }
    }
}

/// An action after a failed run. It is called after the record of the run is written.
type FollowUp = Box<dyn FnOnce() + Send>;

/// The next work for the writing thread, in the order of the fields. The thread holds no lock while it works.
#[derive(Default)]
struct LogWork {
    records: Vec<RunRecord>,
    follow_ups: HashMap<Box<str>, FollowUp>,
    /// The numbers of skipped occurrences to add.
    skips: Vec<(Box<str>, Vec<SkipCount>)>,
}

impl RunLogger {
    pub(in crate::schedule) fn new(store: &Store, keep: usize) -> Arc<Self> {
        let (store, clock) = (store.clone(), store.mutex.clock());
        Arc::new(Self { store, clock, keep, records: PerProcess::new() })
    }

    fn post(self: &Arc<Self>, mut records: MutexGuard<'_, WaitingRecords>, record: RunRecord) {
        records.push(record);
        self.begin_to_write(records);
    }

    /// Returns the records of this process. The first call registers the logger for the exit of the process.
    fn records_until_exit(self: &Arc<Self>) -> MutexGuard<'_, WaitingRecords> {
        #[cfg_attr(not(unix), expect(unused_mut))]
        let mut records = self.records();
        #[cfg(unix)]
        if !mem::replace(&mut records.is_registered, true) {
            process_exit::register(Arc::downgrade(self) as _);
        }
        records
    }

    fn begin_to_write(self: &Arc<Self>, mut records: MutexGuard<'_, WaitingRecords>) {
        if records.writer == Writer::Absent {
            let logger = Arc::clone(self);
            // If no thread can be started now, the next call of this function tries again.
            let has_thread = spawn_detached(move || logger.write_all());
            records.writer = if has_thread { Writer::Idle } else { Writer::Absent };
        } else if records.writer == Writer::Idle {
            self.changed().notify_all();
        }
    }

    /// Registers `follow_up` for a run that is about to begin. If this run fails, or ends the process, the writing
    /// thread calls `follow_up` when no record waits. `follow_up` must not panic.
    pub(crate) fn after_failure(self: &Arc<Self>, run: Owner, follow_up: impl FnOnce() + Send + 'static) {
        self.records_until_exit().after_failure.insert(run, Box::new(follow_up));
    }

    /// Writes until no record waits and no run is running.
    fn write_all(&self) {
        let mut records = self.records();
        loop {
            if let Some(thread) = records.exits_on.take() {
                records.end_runs(thread, &self.clock);
            }
            let Some(mut work) = records.next_work() else {
                records.writer = if records.started.is_empty() { Writer::Absent } else { Writer::Idle };
                self.changed().notify_all();
                if records.writer == Writer::Absent {
                    return;
                }
                records = self.changed().wait(records).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let was_failing = records.failure.is_some();
            records.writer = Writer::Writing;
            drop(records);
            let answer = self.carry_out(&mut work);
            records = self.records();
            records.writer = Writer::Idle;
            records.failure = answer.as_ref().err().filter(|_| !work.records.is_empty()).cloned();
            records.attempts += 1;
            let Err(error) = answer else {
                // The store answers again, so all waiting numbers can be written.
                records.skips.values_mut().for_each(|skips| skips.have_failed = false);
                continue;
            };
            // A log may have been locked for a moment, so only the second failure sets its records aside.
            let are_set_aside = was_failing && !error.is_outage();
            records.put_back(work, are_set_aside);
            self.changed().notify_all();
            // The error is not sent to `tracing` while the process exits, because a subscriber may wait for a lock that
            // the exiting thread holds.
            if !was_failing && !records.is_last {
                drop(records);
                trace::runs_not_logged(&error);
                records = self.records();
            }
            if records.failure.is_some() && !are_set_aside {
                records.writer = Writer::Delayed;
                (records, _) =
                    self.changed().wait_timeout(records, TRY_AGAIN_AFTER).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Performs the work, and removes the parts that are done. An outage ends the work. An unusable log of one event
    /// does not: the work for the other events is done, and the first error is returned.
    fn carry_out(&self, work: &mut LogWork) -> Result<(), MutexError> {
        let written = self.write(&mut work.records);
        if is_outage(&written) {
            return written;
        }
        let LogWork { records, follow_ups, .. } = work;
        let is_written = |event: &str| records.iter().all(|record| record.event() != event);
        follow_ups.extract_if(|event, _| is_written(event)).for_each(|(_, follow_up)| follow_up());
        written.and(write_each(&mut work.skips, |(event, skips)| {
            self.store.write_log(|log| if_supported(log.count_skips(event, skips)))
        }))
    }

    /// Writes the records, and removes those that are written. All records are in one request. If the log of an event
    /// can't be used, the records of each event are in a request of their own.
    fn write(&self, records: &mut Vec<RunRecord>) -> Result<(), MutexError> {
        if records.is_empty() {
            return Ok(());
        }
        let written = self.store.write_log(|log| log.write(records, self.keep));
        if written.is_ok() {
            records.clear();
        }
        let copied = |of_event: Vec<&RunRecord>| of_event.into_iter().cloned().collect();
        let mut events: Vec<Vec<RunRecord>> = by_event(records).into_values().map(copied).collect();
        if events.len() < 2 || is_outage(&written) {
            return written;
        }
        let written = write_each(&mut events, |of_event| self.store.write_log(|log| log.write(of_event, self.keep)));
        *records = events.concat();
        written
    }

    /// Counts a skipped occurrence of `event`. The number is written now if the last write was at least ten seconds
    /// ago. Otherwise the number is written together with a later skip, or by [`finish`](Self::finish).
    fn skipped(self: &Arc<Self>, event: &str, skip: SkipCount) {
        let now = self.clock.moment();
        let mut records = self.records_until_exit();
        let skips = records.skips.entry(event.into()).or_default();
        add_skips(&mut skips.counts, &[skip]);
        skips.have_failed = false;
        if skips.written_at.is_none_or(|at| now.since(at) >= SKIPS_AT_MOST_EACH) {
            (skips.written_at, skips.are_due) = (Some(now), true);
            self.begin_to_write(records);
        }
    }

    /// Writes all records, and the numbers of skips whose last write has not failed. Waits until each record is written
    /// or set aside, or until one more attempt has failed because of an outage, but at most three seconds. After this
    /// call, the process may end.
    pub(crate) fn finish(self: &Arc<Self>) {
        let mut records = self.records();
        let has_older = records.take_set_aside();
        if records.let_skips_be_due() || has_older {
            self.begin_to_write(records);
        } else {
            drop(records);
        }
        self.finish_until(Clock::system().moment().plus(LAST_WRITES));
    }

    fn finish_until(&self, enough: Moment) {
        let records = self.records();
        let before = records.attempts;
        // The writing thread tries again now, because the store may be available again.
        self.changed().notify_all();
        let goes_on =
            |records: &mut WaitingRecords| records.has_work() && !(records.has_outage() && records.attempts > before);
        let left = enough.since(Clock::system().moment());
        drop(self.changed().wait_timeout_while(records, left, goes_on));
    }

    /// Returns the error of the last write of records, if it failed, or if it takes too long. Call this after
    /// [`finish`](Self::finish).
    #[cfg(feature = "cli")]
    pub(in crate::schedule) fn failure(&self) -> Option<MutexError> {
        let records = self.records();
        let is_late = || {
            let why = format!("it was not written within {}", ExactDuration(LAST_WRITES));
            MutexError::unavailable(WRITE_LOG, why)
        };
        records.failure.clone().or_else(|| records.has_work().then(is_late))
    }

    fn changed(&self) -> &Condvar {
        &self.records.get().1
    }

    fn records(&self) -> MutexGuard<'_, WaitingRecords> {
        lock(&self.records.get().0)
    }
}

/// Writes each part, and removes the parts that are written. Returns the first error. After an outage, writes no further
/// part, and returns the outage.
fn write_each<T>(parts: &mut Vec<T>, write: impl Fn(&T) -> Result<(), MutexError>) -> Result<(), MutexError> {
    let mut answer = Ok(());
    parts.retain(|part| {
        if is_outage(&answer) {
            return true;
        }
        let written = write(part);
        let is_left = written.is_err();
        if answer.is_ok() || is_outage(&written) {
            answer = written;
        }
        is_left
    });
    answer
}

fn is_outage(answer: &Result<(), MutexError>) -> bool {
    answer.as_ref().is_err_and(MutexError::is_outage)
}

#[cfg(unix)]
impl EndsWithProcess for RunLogger {
    fn begin(&self, by: usize) {
        let mut records = self.records();
        // If a signal ends the process, no thread does, so no run has called `exit`.
        if by != NO_THREAD {
            records.exits_on = Some(by);
        }
        records.is_last = true;
        records.let_skips_be_due();
        drop(records);
        self.changed().notify_all();
    }

    fn wait(&self, enough: Moment) {
        self.finish_until(enough);
    }
}

impl Observer for Arc<RunLogger> {
    fn observe(&self, notice: &Notice<'_>) {
        let (Some(event), Some(occurrence)) = (notice.event(), notice.occurrence()) else { return };
        if let Step::Skipped(reason) = notice.step() {
            // Skips of a backfill do not count, because its occurrences were not due. Neither do those of a missed
            // occurrence, which was counted when it was due.
            if !notice.is_backfill()
                && !notice.is_missed()
                && let Some(skip) = SkipCount::new(reason.keyword(), 1, occurrence)
            {
                self.skipped(event, skip);
            }
            return;
        }
        let Some(id) = notice.run() else { return };
        let started = |token| {
            RunRecord::started(event, id, occurrence, token, notice.at())
                .of_instance(notice.instance.cloned())
                .of_backfill(notice.is_backfill())
        };
        match notice.step() {
            Step::Started { token } => {
                let record = started(*token);
                let mut records = self.records_until_exit();
                records.started.insert(id, (record.clone(), this_thread()));
                self.post(records, record);
            }
            Step::AttemptFailed { .. } => self.records().run_on(id, NO_THREAD),
            Step::AttemptStarted { .. } => self.records().run_on(id, this_thread()),
            Step::Ended(outcome) => {
                let (at, error) = (notice.at(), outcome.error());
                let mut records = self.records();
                let known = records.started.remove(&id).map(|(record, _)| record);
                if outcome.is_success() {
                    records.after_failure.remove(&id);
                } else {
                    records.let_follow(id, event);
                }
                let record = known.unwrap_or_else(|| started(outcome.fencing_token()));
                let record = record.ended(at, outcome.kind(), error.as_deref()).with_attempts(outcome.attempts());
                self.post(records, record);
            }
            _ => {}
        }
    }
}
