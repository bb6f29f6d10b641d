//! The renewal thread of a store: it renews the leases of this process while their tasks run, reports lost leases, and
//! releases or shortens all leases when the process exits.
//!
//! Each store has its own renewal thread, so that an outage of one store delays no renewal in another store. A renewal
//! does not wait for an admission, because each request has its own connection. The thread lives while the process
//! holds a lease of the store.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::held_lease::HeldLease;
#[cfg(unix)]
use super::process_exit::{self, EndsWithProcess};
use super::renewal_plan::{DueRenewals, Plan, PlannedJob, RenewalAnswers};
use super::timer_thread::TimerThread;
use crate::base::lock::lock;
use crate::base::{catch_panic::contain, catch_panic::discard, error::MutexError, per_process::PerProcess, threads};
use crate::lease::{holder::Holder, name::MutexName, request::Lease, store_id::StoreId, term::Renewal};
use crate::observe::notice::{About, Step};
use crate::observe::tell::{notice_queue::NoticeQueue, notice_queue::Posted, trace};
use crate::outcome::run_record::RunId;
use crate::store::described_store::{Store, read_each};
use crate::store::event_mutex::{attempted_extension, batch::Slot, description::Scope};
use crate::time::clock::{Clock, Waiting};
use crate::time::{clock::manual::Wake, clock::moment::Moment};

#[cfg(feature = "tokio")]
pub(crate) mod call_permits;

#[cfg(feature = "tokio")]
use call_permits::CallPermits;

/// The time that a task gets to stop after its timeout, before a warning is logged.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);

/// The renewal thread of one store, on one clock, in one process.
pub(crate) struct RenewalThread {
    clock: Clock,
    timer: TimerThread,
    /// Delivers notices, so that renewals don't wait for subscribers.
    notices: Arc<NoticeQueue>,
    #[cfg(feature = "tokio")]
    pub(crate) dropped_futures: CallPermits,
}

/// An entry of the list of renewal threads, with the values that identify the thread.
struct KnownThread {
    store: StoreId,
    /// The scope is compared, too, because a new store can get the identity of a dropped store whose renewal thread
    /// still exists.
    scope: Scope,
    clock: Clock,
    thread: Weak<RenewalThread>,
}

/// The renewal threads of this process. A child made by `fork` does not have the threads of its parent.
static RENEWAL_THREADS: PerProcess<Mutex<Vec<KnownThread>>> = PerProcess::new();

impl RenewalThread {
    /// Returns the renewal thread of this store. The value lives until its last reference is dropped and its thread has
    /// ended.
    pub(crate) fn of(store: &Store, clock: &Clock) -> Arc<Self> {
        let is_it =
            |known: &&KnownThread| known.store == store.id && known.scope == store.scope && known.clock.is_same(clock);
        let mut known = lock(RENEWAL_THREADS.get());
        // The search begins with the newest thread, because the threads of dropped stores live on for a few seconds.
        if let Some(found) = known.iter().rev().filter(is_it).find_map(|known| known.thread.upgrade()) {
            return found;
        }
        let renewal_thread = Arc::new(Self {
            clock: clock.clone(),
            timer: TimerThread::new(Plan::default()),
            notices: Arc::default(),
            #[cfg(feature = "tokio")]
            dropped_futures: CallPermits::default(),
        });
        #[cfg(unix)]
        process_exit::register(Arc::downgrade(&renewal_thread) as _);
        known.retain(|known| known.thread.strong_count() > 0);
        let thread = Arc::downgrade(&renewal_thread);
        known.push(KnownThread { store: store.id, scope: store.scope, clock: clock.clone(), thread });
        renewal_thread
    }

    /// Adds a lease that `store` has just granted, and renews the lease until it is released or lost. A lease with a
    /// fixed term is not renewed.
    ///
    /// # Errors
    ///
    /// This process already holds the name. So the store has granted a held name again: the store has lost its data, or
    /// an operator broke the lease. The error is the earlier holder.
    pub(crate) fn keep(self: &Arc<Self>, store: &Store, held: &Arc<HeldLease>, renewal: Renewal) -> Result<(), Holder> {
        self.change(|plan| plan.keep(held, Arc::downgrade(&store.mutex), renewal)).map(discard)
    }

    /// Plans to wake the task at `timeout`, and to log a warning if the task has not ended five seconds later.
    pub(crate) fn expect_end(self: &Arc<Self>, held: &Arc<HeldLease>, run: &RunId, timeout: Moment) {
        let overdue = timeout.plus(OVERDUE_AFTER);
        self.change(|plan| (plan.add_timeout(held, run, timeout, overdue), Some(timeout)));
    }

    /// Notes that the task of this run has ended.
    pub(crate) fn has_ended(self: &Arc<Self>, held: &Arc<HeldLease>) {
        self.change(|plan| (plan.remove_timeout(held), None));
    }

    /// Notes that the run waits for a retry. From now on, an exit of the process releases the run's lease, and requests
    /// to stop are read about once a second.
    pub(crate) fn begin_wait(self: &Arc<Self>, held: &Arc<HeldLease>) {
        self.change(|plan| ((), plan.begin_wait(held, self.clock.moment())));
    }

    /// Notes that the run is about to start its task again. `false`: the task must not start, because the process
    /// exits.
    pub(crate) fn end_wait(self: &Arc<Self>, held: &Arc<HeldLease>) -> bool {
        self.change(|plan| (plan.end_wait(held), None))
    }

    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut Plan) -> (T, Option<Moment>)) -> T {
        let (changed, needs_thread) = self.timer.change(change);
        if needs_thread {
            self.start();
        }
        changed
    }

    #[cold]
    fn start(self: &Arc<Self>) {
        let run = |renewal_thread: &Arc<Self>, waiting| {
            renewal_thread.timer.run(waiting, |job| renewal_thread.carry_out(job));
        };
        if let Err(error) = self.start_thread("soloist-renewal", run) {
            trace::no_thread("renewals", "leases end with their terms", &error);
            trace::no_thread("requests to stop", "runs are not asked to stop", &error);
            self.timer.thread_failed();
        }
    }

    fn start_thread(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Arc<Self>, Waiting) + Send + 'static,
    ) -> io::Result<()> {
        let renewal_thread = Arc::clone(self);
        // From now on, the clock of a test stands still until the new thread has done its first work.
        let waiting = self.clock.waiting(self);
        waiting.is_needed();
        threads::start(name, move || {
            waiting.begins();
            work(&renewal_thread, waiting);
        })
    }

    /// Performs the job. Returns the store's answers to a renewal, one for each lease, or an empty list for any other
    /// job.
    fn carry_out(self: &Arc<Self>, job: &PlannedJob) -> RenewalAnswers {
        match job {
            PlannedJob::Renew(due) => return self.renew(due),
            PlannedJob::ReleaseAtExit(release) => {
                if let Some(store) = self.change(|plan| (plan.store(), None)) {
                    release.send_to(&*store, &self.clock);
                }
            }
            PlannedJob::Cancel(cancelled) => {
                for held in cancelled {
                    held.wake();
                    // Without observers, a timeout is not reported here: the thread of the run logs the timeout, so
                    // that the log record is inside the span of the run.
                    if held.is_lost() || held.observers().is_any() {
                        self.post_reason(held);
                    }
                }
            }
            PlannedJob::ReportOverdue(overdue) => {
                for (held, run) in overdue.clone() {
                    self.notices.post(self.clock.now(), move |posted| {
                        let about = About { posted: Some(posted), ..About::from(&run) };
                        held.observers().tell(about, &Step::DoesNotStop);
                    });
                }
            }
            PlannedJob::ReadStopRequests(runs) => {
                // The requests to stop are read on a separate thread, because a store that hangs must not delay the
                // next renewal.
                let reads = runs.clone();
                let read = move |renewal_thread: &Arc<Self>, _: Waiting| {
                    let is_answered = contain(|| renewal_thread.read_stop_requests(&reads)).unwrap_or(false);
                    renewal_thread.read_ended(&reads, is_answered);
                };
                if let Err(error) = self.start_thread("soloist-stop", read) {
                    let log = move |_| trace::no_thread("requests to stop", "runs are not asked to stop", &error);
                    self.notices.post(self.clock.now(), log);
                    self.read_ended(runs, false);
                }
            }
        }
        Vec::new()
    }

    fn post_reason(&self, held: &Arc<HeldLease>) {
        let held = Arc::clone(held);
        self.notices.post(self.clock.now(), move |posted| {
            held.report_reason(held.now(), Some(posted));
        });
    }

    fn renew(self: &Arc<Self>, due: &DueRenewals) -> RenewalAnswers {
        let leases = due.leases.iter().filter_map(|(held, _)| held.lease().cloned());
        let mut slots: Vec<Slot<Lease, bool>> = leases.map(Slot::new).collect();
        // A run or a guard keeps a handle to the store until it releases its lease; the plan itself keeps no handle. So
        // if no handle is left, the leases were dropped without a release.
        let Some(store) = self.change(|plan| (plan.store(), None)) else { return vec![Ok(false); slots.len()] };
        let panic = contain(|| store.extend(&mut slots, due.term)).err();
        let answers = slots.iter_mut().map(|slot| slot.take_answer(attempted_extension, panic.as_ref()));
        let answers: RenewalAnswers = answers.collect();
        if let Some(report) = report_on(due, &answers) {
            self.notices.post(self.clock.now(), report);
        }
        answers
    }

    /// Reads the requests to stop, which other processes have written into the store. Cancels the runs that are asked to
    /// stop. Returns whether the store has answered.
    fn read_stop_requests(&self, runs: &[Arc<HeldLease>]) -> bool {
        let Some(store) = self.timer.change(|plan| (plan.store(), None)).0 else { return true };
        let marker = |held: &Arc<HeldLease>| {
            let lease = held.lease().expect("only a run with a lease is in the plan");
            lease.name().request_to_stop(lease.token())
        };
        let markers: Vec<MutexName> = runs.iter().map(marker).collect();
        let answers = match read_each(&markers, |names| store.held(names)) {
            Ok(answers) => answers,
            Err(error) => return !error.is_outage(),
        };
        for (held, answer) in runs.iter().zip(answers) {
            if let Ok(Some(request)) = answer {
                held.ask_to_stop(request.into_holder());
                self.post_reason(held);
            }
        }
        true
    }

    fn read_ended(self: &Arc<Self>, runs: &[Arc<HeldLease>], is_answered: bool) {
        self.change(|plan| ((), plan.read_ended(runs, is_answered, self.clock.moment())));
    }
}

/// Counts the answers to a renewal, and returns their report to the observers of the leases. `None`: there is nothing to
/// report. If all renewals were in time, only observers receive a report.
fn report_on(due: &DueRenewals, answers: &[Result<bool, MutexError>]) -> Option<impl FnOnce(Posted) + Send + use<>> {
    let observers = due.leases.first()?.0.observers().clone();
    let mut renewed = 0;
    let mut late = 0;
    let mut failed = 0;
    let mut lowest = Duration::MAX;
    let mut first_error = None;
    for ((held, lasted), answer) in due.leases.iter().zip(answers) {
        match answer {
            Ok(true) => {
                renewed += 1;
                // The renewal is late if, at its request, less than half of the usable term was left until the
                // deadline. A renewal without a delay is requested when at least two thirds are left.
                late += usize::from(*lasted < due.term.get().saturating_sub(held.stopping) / 2);
            }
            // The lease is lost. The loss is reported elsewhere.
            Ok(false) => continue,
            Err(error) => {
                failed += 1;
                first_error.get_or_insert_with(|| error.clone());
            }
        }
        lowest = lowest.min(*lasted);
    }
    let is_reported = failed > 0 || late > 0 || (renewed > 0 && observers.is_any());
    is_reported.then_some(move |posted| {
        let about = About { posted: Some(posted), ..About::default() };
        let tell = |step: &Step<'_>| observers.tell(about, step);
        if let Some(error) = &first_error {
            tell(&Step::NotRenewed { leases: failed, lowest, error });
        }
        if renewed > 0 {
            tell(&Step::Renewed { leases: renewed, late, lowest });
        }
    })
}

#[cfg(unix)]
impl EndsWithProcess for RenewalThread {
    fn begin(&self, by: usize) {
        self.timer.signal(by);
    }

    fn wait(&self, latest: Moment) {
        self.timer.wait_until_handled(&Waiting::on_the_machine(), latest);
    }
}

impl Wake for RenewalThread {
    fn wake(&self) {
        self.timer.wake();
    }
}

impl fmt::Debug for RenewalThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenewalThread").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use std::sync::mpsc::{Sender, channel};
    use std::task::{self, Context, Poll, Waker};

    use super::*;
    use crate::lease::{name::MutexName, request::LeaseRequest, term::Term};
    use crate::outcome::cancel::CancelReason;
    use crate::store::event_mutex::EventMutex;
    use crate::store::{event_mutex::admission::Grant, memory::MemoryMutex};
    use crate::time::clock::manual::ManualClock;

    #[test]
    fn a_thread_that_panicked_is_missed() {
        let timer = TimerThread::new(Plan::default());
        let clock = Clock::system();
        let held = HeldLease::for_test(&clock, None, None, Duration::ZERO);
        let id = RunId { event: "reports".into(), occurrence: chrono::DateTime::UNIX_EPOCH, is_backfill: false };
        let due =
            |plan: &mut Plan| (plan.add_timeout(&held, &id, Moment::BEGINNING, Moment::NEVER), Some(Moment::BEGINNING));
        assert!(timer.change(due).1);
        assert!(!timer.change(due).1, "a thread was started before");
        let run = || timer.run(Waiting::on_the_machine(), |_| panic!("it can't go on"));
        catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert!(timer.change(due).1);
    }

    struct Woken(Sender<()>);

    impl task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.send(()).expect("the test listens");
        }
    }

    #[test]
    fn a_task_that_waits_is_woken_when_its_lease_is_found_lost() {
        let manual = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
        let store = Store::new(MemoryMutex::with_clock(&manual));
        let clock = store.mutex.clock();
        let (name, term) = (MutexName::lease("reports").unwrap(), Term::new(Duration::from_secs(60)).unwrap());
        let lease = store.mutex.create(&LeaseRequest::new(name, term, &clock)).unwrap().expect("it is free");
        let grant = Some(Grant::of(lease));
        let run = HeldLease::for_test(&clock, grant, None, Duration::ZERO);
        let renewal_thread = RenewalThread::of(&store, &clock);
        renewal_thread.keep(&store, &run, Renewal::WhileItRuns).expect("no other owner holds the name");
        let (sender, woken) = channel();
        let waker = Waker::from(Arc::new(Woken(sender)));
        let (mut context, mut cancelled) = (Context::from_waker(&waker), Box::pin(run.cancelled()));
        assert_eq!(cancelled.as_mut().poll(&mut context), Poll::Pending);
        manual.jump(term.get());
        woken.recv_timeout(Duration::from_secs(30)).expect("it is woken");
        assert_eq!(cancelled.as_mut().poll(&mut context), Poll::Ready(CancelReason::LeaseLost));
    }
}
