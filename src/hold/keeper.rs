//! The keeper of a store: it renews the leases that this process holds while their tasks run, notices lost ones, and lets go
//! of all when the process ends.
//!
//! Each store has its own keeper, so that an outage of one delays no renewal in another, and asks it on connections that no
//! gate waits for. Its thread lives while the process holds a lease of that store.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

#[cfg(unix)]
use super::process_exit::{self, EndsWithProcess};
use super::tenure::Tenure;
use super::timer_thread::{Need, TimerThread};
use crate::base::escape::{Chain, Named, OneLine};
use crate::base::process_id;
use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::{holder::Holder, request::Lease, store_id::StoreId, term::Renewal};
use crate::observe::log::{log_or_print, spawn_detached};
use crate::observe::run_id::RunId;
use crate::store::event_mutex::{batch::no_answer, description::Scope, slot::Slot};
use crate::store::handle::Store;
use crate::time::clock::{Clock, Waiting};
use crate::time::{clock::manual::Wake, clock::moment::Moment, clock::shown::Rfc3339};

mod exit_release;
mod handles;
mod plan;

use handles::Handles;
use plan::{DueRenewals, KeeperJob, Plan};

/// How long after its timeout a task may take to stop before a warning is logged.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);

/// The keeper of one store, on one clock, in one process.
pub(crate) struct Keeper {
    handles: Handles,
    scope: Scope,
    clock: Clock,
    timer: TimerThread<Plan>,
}

/// All keepers of this process, and those of the one that it was forked from.
static KNOWN: Mutex<Vec<KnownKeeper>> = Mutex::new(Vec::new());

/// A keeper that lives as long as somebody has it, and of which store it is the keeper.
struct KnownKeeper {
    store: StoreId,
    clock: Clock,
    /// The other side of a `fork` has no thread, and needs a keeper of its own.
    pid: u32,
    keeper: Weak<Keeper>,
}

impl Keeper {
    /// The keeper of this store. It lives as long as somebody has it, which whoever holds a lease does.
    pub(crate) fn of(store: &Store, clock: &Clock) -> Arc<Self> {
        let pid = process_id::current();
        let is_it = |known: &&KnownKeeper| known.store == store.id && known.clock.is_same(clock) && known.pid == pid;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(is_it).find_map(|known| known.keeper.upgrade()).unwrap_or_else(|| {
            let handles = Handles::of(&store.mutex);
            let (clock, timer) = (clock.clone(), TimerThread::new(Plan::default()));
            let keeper = Arc::new(Self { handles, scope: store.scope, clock: clock.clone(), timer });
            #[cfg(unix)]
            process_exit::register(Arc::downgrade(&keeper) as _);
            known.retain(|known| known.keeper.strong_count() > 0);
            known.push(KnownKeeper { store: store.id, clock, pid, keeper: Arc::downgrade(&keeper) });
            keeper
        })
    }

    /// Keeps a lease that was just granted by `store`, of which this is the keeper, and renews it until it ends, unless its
    /// term is fixed.
    ///
    /// # Errors
    ///
    /// Another run in this process still holds the name, and the store granted it again: it has lost its data. The error is
    /// the holder of that run.
    #[inline]
    pub(crate) fn keep(
        self: &Arc<Self>,
        store: &Store,
        tenure: &Arc<Tenure>,
        renewal: Renewal,
    ) -> Result<(), Option<Holder>> {
        let Some(lease) = tenure.lease() else { return Ok(()) };
        if !self.handles.begin_with(&store.mutex) {
            self.handles.note(&store.mutex);
        }
        // What is in the memory of this process is lost with the leases in hand.
        let may_forget = self.scope != Scope::Process && renewal == Renewal::WhileItRuns;
        let (kept, need) = self.timer.change(|plan| {
            let now = tenure.began();
            match if may_forget { plan.holder(lease.name(), now) } else { None } {
                // Whoever holds it is told without waiting for its turn.
                Some(holder) => (Err(holder.holder()), Some(plan.doubt(lease.name(), now))),
                None => (Ok(()), Some(plan.keep(tenure, lease, renewal))),
            }
        });
        if need == Need::Thread {
            self.start();
        }
        kept
    }

    /// Logs a warning if the task is still at work a while after its timeout.
    pub(crate) fn expect_end(self: &Arc<Self>, tenure: &Arc<Tenure>, run: &RunId, timeout: Moment) {
        let overdue = timeout.plus(OVERDUE_AFTER);
        if let ((), Need::Thread) = self.timer.change(|plan| (plan.expect_end(tenure, run, overdue), Some(overdue))) {
            self.start();
        }
    }

    /// The task of this run has ended.
    pub(crate) fn has_ended(&self, tenure: &Arc<Tenure>) {
        let ((), _) = self.timer.change(|plan| (plan.has_ended(tenure), None));
    }

    #[cold]
    fn start(self: &Arc<Self>) {
        let keeper = Arc::clone(self);
        // From here on time waits for the thread, where a test moves it.
        let waiting = self.clock.waiting(self);
        waiting.is_needed();
        let run = move || keeper.timer.run(waiting, |job| keeper.carry_out(job));
        if let Err(error) = thread::Builder::new().name("soloist-keeper".into()).spawn(run) {
            self.timer.thread_failed();
            log_or_print(format_args!("no thread for renewals, so that leases end with their terms: {error}"), || {
                tracing::warn!(target: "soloist", %error, "no thread for renewals: leases end with their terms");
            });
        }
    }

    /// The answers to a renewal, one for each lease; nothing for another job.
    fn carry_out(&self, job: &KeeperJob) -> Vec<Result<bool, MutexError>> {
        match job {
            KeeperJob::Renew(due) => return self.renew(due),
            KeeperJob::ReleaseAtExit(release) => {
                if let Some(mutex) = self.handles.any() {
                    release.send_to(&*mutex, &self.clock);
                }
            }
            KeeperJob::LogOverdue(runs) => {
                // A subscriber may be stuck; renewals must not wait for it.
                let runs = runs.clone();
                spawn_detached(move || runs.iter().for_each(log_overdue));
            }
            KeeperJob::LogLost(tenures) => tenures.iter().for_each(|tenure| tenure.log_loss()),
        }
        Vec::new()
    }

    fn renew(&self, due: &DueRenewals) -> Vec<Result<bool, MutexError>> {
        let mut slots: Vec<Slot<Lease, bool>> = due.leases().map(Slot::new).collect();
        // Whoever holds a lease has a handle; who has none is gone without giving it back.
        let Some(mutex) = self.handles.any() else { return slots.iter().map(|_| Ok(false)).collect() };
        let panic = contain(|| mutex.extend(&mut slots, due.term)).err();
        let no_answer = |lease: &Lease| no_answer(format!("extend {}", lease.name()), panic.as_ref());
        let answers: Vec<_> = slots.iter_mut().map(|slot| slot.take_answer(no_answer)).collect();
        if let Some(error) = answers.iter().find_map(|answer| answer.as_ref().err()) {
            let failures = answers.iter().filter(|answer| answer.is_err()).count();
            let _ = contain(|| {
                tracing::warn!(target: "soloist", leases = failures, error = %OneLine(Chain(error)), "not renewed yet");
            });
        }
        answers
    }
}

#[cfg(unix)]
impl EndsWithProcess for Keeper {
    fn begin(&self, by: usize) {
        self.timer.signal(by);
    }

    fn wait(&self, waiting: &Waiting, enough: Moment) {
        self.timer.wait_until_handled(waiting, enough);
    }
}

impl Wake for Keeper {
    fn wake(&self) {
        self.timer.wake();
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("store", &self.handles.any()).finish_non_exhaustive()
    }
}

fn log_overdue(run: &RunId) {
    let (event, occurrence) = (&*run.event, Rfc3339(run.occurrence));
    log_or_print(format_args!("{}: timed out and does not stop, in its run of {occurrence}", Named(event)), || {
        tracing::warn!(target: "soloist", event, %occurrence, "timed out and does not stop");
    });
}

/// The keepers of one tick. A tick mostly has one store, so the first keeper is remembered.
#[derive(Default)]
pub(crate) struct Keepers {
    first: OnceLock<(StoreId, Arc<Keeper>)>,
}

impl Keepers {
    /// Calls `with` with the keeper of this store.
    #[inline]
    pub(crate) fn with<T>(&self, store: &Store, clock: &Clock, with: impl FnOnce(&Arc<Keeper>) -> T) -> T {
        let (first, keeper) = self.first.get_or_init(|| (store.id, Keeper::of(store, clock)));
        if *first == store.id { with(keeper) } else { with(&Keeper::of(store, clock)) }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::hold::timer_thread::{Step, TimedJobs};

    struct Broken;

    impl TimedJobs for Broken {
        type Job = ();
        type Answer = ();

        fn next_step(&mut self, _: Moment) -> Step<()> {
            panic!("it can't go on")
        }

        fn on_signal(&mut self, _: usize) {}

        fn job_done(&mut self, (): &(), (): (), _: Moment) {}
    }

    #[test]
    fn a_thread_that_panicked_is_missed() {
        let timer = TimerThread::new(Broken);
        let due = |_: &mut Broken| ((), Some(Moment::BEGINNING));
        assert_eq!(timer.change(due).1, Need::Thread);
        assert_eq!(timer.change(due).1, Need::Nobody, "there is one");
        catch_unwind(AssertUnwindSafe(|| timer.run(Waiting::on_the_machine(), |()| ()))).unwrap_err();
        assert_eq!(timer.change(due).1, Need::Thread);
    }
}
