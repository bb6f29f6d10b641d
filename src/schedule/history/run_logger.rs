//! Writes the runs of a schedule to the log in its store. A separate thread does this, so that no admission and no run
//! waits for the log.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::error::{MutexError, if_supported};
use crate::base::lock::lock;
use crate::base::per_process::PerProcess;
use crate::base::threads;
use crate::hold::held_lease::{NO_THREAD, this_thread};
#[cfg(unix)]
use crate::hold::process_exit::{self, EndsWithProcess};
use crate::lease::owner::Owner;
use crate::observe::notice::{Notice, Step};
use crate::observe::tell::{observers::Observer, trace};
use crate::outcome::run_record::skip_count::{SkipCount, add_skips};
use crate::outcome::{run_record::RunRecord, run_record::outcome_kind::OutcomeKind};
use crate::store::described_store::{Store, WRITE_LOG};
use crate::store::event_mutex::EventMutex;
use crate::time::clock::Clock;
use crate::time::clock::moment::Moment;
#[cfg(feature = "cli")]
use crate::time::clock::shown::ExactDuration;

/// The largest number of records in one write.
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
    /// The state in this process. A child that `fork` makes has no writing thread, and records only its own runs.
    state: PerProcess<(Mutex<LoggerState>, Condvar)>,
}

#[derive(Default)]
struct LoggerState {
    /// Whether the logger is registered for the exit of this process.
    #[cfg(unix)]
    is_registered: bool,
    /// The running runs of this process.
    runs: HashMap<Owner, LoggedStart>,
    /// The work of each event that waits for the writing thread.
    queues: BTreeMap<Box<str>, EventQueue>,
    writer: Writer,
    /// The error of the last attempt to write, if it failed.
    failure: Option<MutexError>,
    /// The number of attempts to write.
    attempts: u64,
    /// The thread that ends the process, until the runs of this thread are recorded as failed.
    exits_on: Option<usize>,
    is_last: bool,
}

/// A running run.
#[derive(Default)]
struct LoggedStart {
    /// The record of the start, and the thread of the run. `None`: the task has not started.
    record: Option<(RunRecord, usize)>,
    after_failure: Option<FollowUp>,
}

/// An action after a failed run. It is called after the record of the run is written.
type FollowUp = Box<dyn FnOnce() + Send>;

/// The work of an event, in the order of the fields. The writing thread holds no lock while it works.
#[derive(Default)]
struct LogWork {
    records: VecDeque<RunRecord>,
    follow_up: Option<FollowUp>,
    /// The numbers of skipped occurrences to add.
    skips: Vec<SkipCount>,
}

#[derive(Default)]
struct EventQueue {
    work: LogWork,
    skips_written_at: Option<Moment>,
    skips_are_due: bool,
    /// Whether the log of the event can't be used, so that the work waits for the next record or skip of the event.
    is_set_aside: bool,
}

/// The state of the writing thread.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Writer {
    #[default]
    Absent,
    Idle,
    Writing,
    /// The last write has failed, and the thread waits until it tries again.
    Delayed,
}

impl LogWork {
    fn is_done(&self) -> bool {
        self.records.is_empty() && self.follow_up.is_none() && self.skips.is_empty()
    }
}

impl EventQueue {
    fn is_due(&self) -> bool {
        let LogWork { records, follow_up, .. } = &self.work;
        !self.is_set_aside && (!records.is_empty() || follow_up.is_some() || self.skips_are_due)
    }

    /// Returns whether the numbers of skips were written a moment ago, so that new numbers wait.
    fn has_written_skips(&self, now: Moment) -> bool {
        self.skips_written_at.is_some_and(|at| now.since(at) < SKIPS_AT_MOST_EACH)
    }

    /// Puts back the work that could not be written. It is older than the work that came meanwhile.
    fn put_back(&mut self, left: LogWork, most: usize) {
        let LogWork { mut records, follow_up, skips } = left;
        records.append(&mut self.work.records);
        self.work.records = records;
        self.drop_surplus(most);
        self.work.follow_up = follow_up.or(self.work.follow_up.take());
        add_skips(&mut self.work.skips, &skips);
    }

    /// Drops the oldest records. At most `most` records wait.
    fn drop_surplus(&mut self, most: usize) {
        let surplus = self.work.records.len().saturating_sub(most);
        self.work.records.drain(..surplus);
    }
}

impl LoggerState {
    fn has_work(&self) -> bool {
        let waits = || self.exits_on.is_some() || self.queues.values().any(EventQueue::is_due);
        self.writer == Writer::Writing || (self.writer != Writer::Absent && waits())
    }

    /// Returns whether the last write has failed because of the whole store.
    fn has_outage(&self) -> bool {
        self.failure.as_ref().is_some_and(MutexError::is_outage)
    }

    fn queue(&mut self, event: &str) -> &mut EventQueue {
        self.queues.entry(event.into()).or_default()
    }

    /// Takes out the work that is due. Forgets the events without work, because events may be added and removed again
    /// and again.
    fn take_work(&mut self, now: Moment) -> Vec<(Box<str>, LogWork)> {
        self.queues.retain(|_, queue| !queue.work.is_done() || queue.has_written_skips(now));
        let due = self.queues.iter_mut().filter(|(_, queue)| queue.is_due());
        let work = due.map(|(event, queue)| {
            queue.skips_are_due = false;
            (event.clone(), mem::take(&mut queue.work))
        });
        work.collect()
    }

    /// Lets all work be written now, because the process may end. After an outage, the numbers of skips wait for the
    /// next skip of their event or for a successful write, so that the outage does not delay each call.
    fn let_all_be_due(&mut self) {
        let has_outage = self.has_outage();
        for queue in self.queues.values_mut() {
            queue.is_set_aside = false;
            queue.skips_are_due = !queue.work.skips.is_empty() && !has_outage;
        }
    }

    /// Records that the runs on the thread `thread` have failed, because that thread ends the process.
    fn end_runs(&mut self, thread: usize, logger: &RunLogger) {
        let is_on_it = |run: &LoggedStart| run.record.as_ref().is_some_and(|(_, on)| *on == thread);
        let ended: Vec<LoggedStart> = self.runs.extract_if(|_, run| is_on_it(run)).map(|(_, run)| run).collect();
        for LoggedStart { record, after_failure } in ended {
            let Some((record, _)) = record else { continue };
            self.queue(record.event()).work.follow_up = after_failure;
            self.push(record.ended(logger.clock.now(), OutcomeKind::Failed, Some(EXITED)), logger.most_waiting());
        }
    }

    fn push(&mut self, record: RunRecord, most: usize) {
        let queue = self.queue(record.event());
        queue.is_set_aside = false;
        queue.work.records.push_back(record);
        queue.drop_surplus(most);
    }
}

impl RunLogger {
    pub(in crate::schedule) fn new(store: &Store, keep: usize) -> Arc<Self> {
        let (store, clock) = (store.clone(), store.mutex.clock());
        Arc::new(Self { store, clock, keep, state: PerProcess::new() })
    }

    /// Returns the largest number of records of an event that wait: two records for each run that the log keeps, but at
    /// least a hundred.
    fn most_waiting(&self) -> usize {
        BATCH_SIZE.max(2 * self.keep)
    }

    fn post(self: &Arc<Self>, mut state: MutexGuard<'_, LoggerState>, record: RunRecord) {
        state.push(record, self.most_waiting());
        self.begin_to_write(state);
    }

    /// Returns the state. The first call registers the logger for the exit of the process.
    fn state_until_exit(self: &Arc<Self>) -> MutexGuard<'_, LoggerState> {
        #[cfg_attr(not(unix), expect(unused_mut))]
        let mut state = self.state();
        #[cfg(unix)]
        if !mem::replace(&mut state.is_registered, true) {
            process_exit::register(Arc::downgrade(self) as _);
        }
        state
    }

    fn begin_to_write(self: &Arc<Self>, mut state: MutexGuard<'_, LoggerState>) {
        if state.writer == Writer::Absent {
            let logger = Arc::clone(self);
            match threads::start("soloist-aside", move || logger.write_all()) {
                Ok(()) => state.writer = Writer::Idle,
                // The next call of this function tries again.
                Err(error) => {
                    let error = MutexError::unusable(WRITE_LOG, format!("could not start a thread: {error}"));
                    let is_news = state.failure.replace(error.clone()).is_none() && !state.is_last;
                    drop(state);
                    if is_news {
                        trace::runs_not_logged(&error);
                    }
                }
            }
        } else if state.writer == Writer::Idle {
            self.changed().notify_all();
        }
    }

    /// Registers `follow_up` for a run that is about to begin. If this run fails, or ends the process, the writing
    /// thread calls `follow_up` after the record of the run is written. `follow_up` must not panic.
    pub(crate) fn after_failure(self: &Arc<Self>, run: Owner, follow_up: impl FnOnce() + Send + 'static) {
        self.state_until_exit().runs.entry(run).or_default().after_failure = Some(Box::new(follow_up));
    }

    /// Writes until no work waits and no run is running.
    fn write_all(&self) {
        let mut state = self.state();
        loop {
            if let Some(thread) = state.exits_on.take() {
                state.end_runs(thread, self);
            }
            let mut work = state.take_work(self.clock.moment());
            if work.is_empty() {
                state.writer = if state.runs.is_empty() { Writer::Absent } else { Writer::Idle };
                self.changed().notify_all();
                if state.writer == Writer::Absent {
                    return;
                }
                state = self.changed().wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.writer = Writer::Writing;
            drop(state);
            let answer = self.carry_out(&mut work);
            state = self.state();
            state.writer = Writer::Idle;
            state.attempts += 1;
            let failed_before = mem::replace(&mut state.failure, answer.err());
            let Some(error) = state.failure.clone() else { continue };
            for (event, left) in work.into_iter().filter(|(_, left)| !left.is_done()) {
                let queue = state.queue(&event);
                // A log may have been locked for a moment, so only the second failure sets the records of its event
                // aside. Records that came meanwhile are tried, too. Numbers of skips need no second try, because they
                // can wait.
                let has_been_tried = failed_before.is_some() || left.records.is_empty();
                queue.is_set_aside = !error.is_outage() && has_been_tried && queue.work.records.is_empty();
                queue.put_back(left, self.most_waiting());
            }
            self.changed().notify_all();
            // The error is not sent to `tracing` while the process exits, because a subscriber may wait for a lock that
            // the exiting thread holds.
            if failed_before.is_none() && !state.is_last {
                drop(state);
                trace::runs_not_logged(&error);
                state = self.state();
            }
            if state.has_work() {
                state.writer = Writer::Delayed;
                (state, _) =
                    self.changed().wait_timeout(state, TRY_AGAIN_AFTER).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Performs the work of these events, and removes the parts that are done. An outage ends the work. An unusable log
    /// of one event does not: the work of the other events is done, and the first error is returned.
    fn carry_out(&self, work: &mut [(Box<str>, LogWork)]) -> Result<(), MutexError> {
        let records: Vec<RunRecord> = work.iter().flat_map(|(_, work)| &work.records).cloned().collect();
        match self.write(&records) {
            Ok(()) => work.iter_mut().for_each(|(_, work)| work.records.clear()),
            Err(outage) if outage.is_outage() => return Err(outage),
            Err(_) => {} // The log of one event can't be used, so each event has a request of its own.
        }
        let mut answer = Ok(());
        for (event, work) in work {
            let done = self.carry_out_alone(event, work);
            if done.as_ref().is_err_and(MutexError::is_outage) {
                return done;
            }
            answer = answer.and(done);
        }
        answer
    }

    fn carry_out_alone(&self, event: &str, work: &mut LogWork) -> Result<(), MutexError> {
        let LogWork { records, follow_up, skips } = work;
        self.write(records.make_contiguous())?;
        records.clear();
        if let Some(follow_up) = follow_up.take() {
            follow_up();
        }
        if !skips.is_empty() {
            self.store.write_log(|log| if_supported(log.count_skips(event, skips)))?;
            skips.clear();
        }
        Ok(())
    }

    fn write(&self, records: &[RunRecord]) -> Result<(), MutexError> {
        let mut parts = records.chunks(BATCH_SIZE);
        parts.try_for_each(|part| self.store.write_log(|log| log.write(part, self.keep)))
    }

    /// Counts a skipped occurrence of `event`. The number is written now if the last write was at least ten seconds
    /// ago. Otherwise the number is written together with a later skip or record, or by [`finish`](Self::finish).
    fn skipped(self: &Arc<Self>, event: &str, skip: SkipCount) {
        let now = self.clock.moment();
        let mut state = self.state_until_exit();
        let queue = state.queue(event);
        add_skips(&mut queue.work.skips, &[skip]);
        if !queue.has_written_skips(now) {
            (queue.skips_written_at, queue.skips_are_due, queue.is_set_aside) = (Some(now), true, false);
            self.begin_to_write(state);
        }
    }

    /// Writes all records and numbers of skips. Waits until each record is written or set aside, or until one more
    /// attempt has failed because of an outage, but at most three seconds. After this call, the process may end.
    pub(crate) fn finish(self: &Arc<Self>) {
        let mut state = self.state();
        state.let_all_be_due();
        if state.queues.values().any(EventQueue::is_due) {
            self.begin_to_write(state);
        } else {
            drop(state);
        }
        self.finish_until(Clock::system().moment().plus(LAST_WRITES));
    }

    fn finish_until(&self, enough: Moment) {
        let state = self.state();
        let before = state.attempts;
        // The writing thread tries again now, because the store may be available again.
        self.changed().notify_all();
        let goes_on = |state: &mut LoggerState| state.has_work() && !(state.has_outage() && state.attempts > before);
        let left = enough.since(Clock::system().moment());
        drop(self.changed().wait_timeout_while(state, left, goes_on));
    }

    /// Returns the error of the last write, if it left records, or if it takes too long. Call this after
    /// [`finish`](Self::finish).
    #[cfg(feature = "cli")]
    pub(in crate::schedule) fn failure(&self) -> Option<MutexError> {
        let state = self.state();
        let is_late = || {
            let why = format!("it was not written within {}", ExactDuration(LAST_WRITES));
            MutexError::unavailable(WRITE_LOG, why)
        };
        let has_records = state.queues.values().any(|queue| !queue.work.records.is_empty());
        state.failure.clone().filter(|_| has_records).or_else(|| state.has_work().then(is_late))
    }

    /// Notes the thread that performs the next attempt of the run.
    fn run_on(&self, run: Owner, thread: usize) {
        if let Some(LoggedStart { record: Some((_, on)), .. }) = self.state().runs.get_mut(&run) {
            *on = thread;
        }
    }

    fn changed(&self) -> &Condvar {
        &self.state.get().1
    }

    fn state(&self) -> MutexGuard<'_, LoggerState> {
        lock(&self.state.get().0)
    }
}

#[cfg(unix)]
impl EndsWithProcess for RunLogger {
    fn begin(&self, by: usize) {
        let mut state = self.state();
        // If a signal ends the process, no thread does, so no run has called `exit`.
        if by != NO_THREAD {
            state.exits_on = Some(by);
        }
        state.is_last = true;
        state.let_all_be_due();
        drop(state);
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
                let mut state = self.state_until_exit();
                state.runs.entry(id).or_default().record = Some((record.clone(), this_thread()));
                self.post(state, record);
            }
            Step::AttemptFailed { .. } => self.run_on(id, NO_THREAD),
            Step::AttemptStarted { .. } => self.run_on(id, this_thread()),
            Step::Ended(outcome) => {
                let (at, error) = (notice.at(), outcome.error());
                let mut state = self.state();
                let LoggedStart { record, after_failure } = state.runs.remove(&id).unwrap_or_default();
                let record = record.map_or_else(|| started(outcome.fencing_token()), |(record, _)| record);
                let record = record.ended(at, outcome.kind(), error.as_deref()).with_attempts(outcome.attempts());
                if !record.is_success() && after_failure.is_some() {
                    state.queue(event).work.follow_up = after_failure;
                }
                self.post(state, record);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use crate::Event;
    use crate::schedule::schedule::Schedule;

    #[test]
    fn a_removed_event_is_forgotten_when_its_records_are_written() {
        let schedule = Schedule::in_process().with_run_log(3).expect("memory keeps a log");
        for number in 0..3 {
            let name = format!("import-{number}");
            schedule.add(Event::call(&*name, |_| {}).every_minute()).expect("it is right");
            assert!(!schedule.run_due(DateTime::UNIX_EPOCH).is_failure());
            schedule.remove(&name);
        }
        let logger = schedule.run_logger.as_ref().expect("it has a log");
        logger.finish();
        assert!(logger.state().queues.is_empty());
    }
}
