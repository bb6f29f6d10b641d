//! The keeper of a store: it renews the leases that this process holds while their tasks run, notices lost ones, and lets go
//! of all when the process ends.
//!
//! Each store has its own keeper, so that an outage of one delays no renewal in another, and asks it on connections that no
//! gate waits for. Its thread lives while the process holds a lease of that store.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::cancellation::Cancellation;
use super::held_lease::HoldsLease;
#[cfg(unix)]
use super::process_exit::{self, EndsWithProcess};
use super::timer_thread::{Need, TimedJobs, TimerThread};
use crate::base::process_id;
use crate::base::{catch_panic::contain, error::MutexError, threads};
use crate::lease::{holder::Holder, name::MutexName, request::Lease, store_id::StoreId, term::Renewal};
use crate::observe::notice::incident::{Incident, ThreadFor};
use crate::observe::notice::{About, Step};
use crate::observe::run_id::RunId;
use crate::observe::tell::{delivery::Delivery, log};
use crate::store::event_mutex::{batch::no_answer, description::Scope, held::Held, held::Names, slot::Slot};
use crate::store::handle::Store;
use crate::time::clock::{Clock, Waiting};
use crate::time::{clock::manual::Wake, clock::moment::Moment};

#[cfg(feature = "tokio")]
mod dropped_calls;
mod exit_release;
mod handles;
mod plan;
mod renewals;
mod requests_to_stop;

#[cfg(feature = "tokio")]
use dropped_calls::DroppedCalls;
use handles::Handles;
use plan::{DueRenewals, KeeperJob, Plan};
use renewals::by_observers;
use requests_to_stop::{RequestsToStop, StopRequestLook};

/// How long after its timeout a task may take to stop before a warning is logged.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);

/// The keeper of one store, on one clock, in one process.
pub(crate) struct Keeper {
    handles: Handles,
    scope: Scope,
    clock: Clock,
    timer: TimerThread<Plan>,
    /// On a thread of its own, so that it delays no renewal.
    requests_to_stop: TimerThread<RequestsToStop>,
    /// Renewals don't wait for subscribers.
    delivery: Arc<Delivery>,
    #[cfg(feature = "tokio")]
    pub(crate) dropped_calls: Arc<DroppedCalls>,
}

/// All keepers of this process, and those of the one that it was forked from.
static KNOWN: Mutex<Vec<KnownKeeper>> = Mutex::new(Vec::new());

/// A keeper that lives as long as somebody has it, and of which store it is the keeper.
struct KnownKeeper {
    store: StoreId,
    /// A store that is gone may have had the identity of another, and a keeper that is not gone yet.
    scope: Scope,
    clock: Clock,
    /// The other side of a `fork` has no thread, and needs a keeper of its own.
    pid: u32,
    keeper: Weak<Keeper>,
}

impl Keeper {
    /// The keeper of this store. It lives as long as somebody has it, which whoever holds a lease does.
    pub(crate) fn of(store: &Store, clock: &Clock) -> Arc<Self> {
        let pid = process_id::current();
        let is_it = |known: &&KnownKeeper| {
            known.store == store.id && known.scope == store.scope && known.clock.is_same(clock) && known.pid == pid
        };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(is_it).find_map(|known| known.keeper.upgrade()).unwrap_or_else(|| {
            let handles = Handles::of(&store.mutex);
            let clock = clock.clone();
            let keeper = Arc::new(Self {
                handles,
                scope: store.scope,
                clock: clock.clone(),
                timer: TimerThread::new(Plan::default()),
                requests_to_stop: TimerThread::new(RequestsToStop::default()),
                delivery: Arc::default(),
                #[cfg(feature = "tokio")]
                dropped_calls: Arc::default(),
            });
            #[cfg(unix)]
            process_exit::register(Arc::downgrade(&keeper) as _);
            known.retain(|known| known.keeper.strong_count() > 0);
            known.push(KnownKeeper {
                store: store.id,
                scope: store.scope,
                clock,
                pid,
                keeper: Arc::downgrade(&keeper),
            });
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
    pub(crate) fn keep<H: HoldsLease + 'static>(
        self: &Arc<Self>,
        store: &Store,
        holder: &Arc<H>,
        renewal: Renewal,
    ) -> Result<(), Option<Holder>> {
        if !self.handles.begin_with(&store.mutex) {
            self.handles.note(&store.mutex);
        }
        // What is in the memory of this process is lost with the leases in hand.
        let may_forget = self.scope != Scope::Process && renewal == Renewal::WhileItRuns;
        let (kept, need) = self.timer.change(|plan| {
            let now = holder.held().began();
            let name = holder.held().lease().map(Lease::name).filter(|_| may_forget);
            let Some((name, first)) = name.and_then(|name| Some((name, plan.holder(name, now)?.holder()))) else {
                let holder = Arc::clone(holder) as _;
                if may_forget {
                    plan.note_name(&holder);
                }
                return (Ok(()), plan.keep(holder, renewal));
            };
            // Whoever holds it is told without waiting for its turn.
            plan.doubt(name, now);
            (Err(first), Some(now))
        });
        if need == Need::Thread {
            self.start();
        }
        kept
    }

    /// Wakes the task at its timeout if it waits, and logs a warning if it is still at work a while later.
    pub(crate) fn expect_end<H: HoldsLease + 'static>(self: &Arc<Self>, holder: &Arc<H>, run: &RunId, timeout: Moment) {
        let overdue = timeout.plus(OVERDUE_AFTER);
        let expect_end =
            |plan: &mut Plan| (plan.expect_end(Arc::clone(holder) as _, run, timeout, overdue), Some(timeout));
        if let ((), Need::Thread) = self.timer.change(expect_end) {
            self.start();
        }
    }

    /// The task of this run has ended.
    pub(crate) fn has_ended(&self, holder: &dyn HoldsLease) {
        let ((), _) = self.timer.change(|plan| (plan.has_ended(holder), None));
    }

    /// Checks about once a second whether `mark` asks the run to stop, because another run takes its place.
    pub(crate) fn watch_for_replacement(self: &Arc<Self>, run: &Arc<Cancellation>, mark: MutexName) {
        let run = Arc::clone(run) as _;
        self.look_for_requests(|requests, now| Some(requests.watch(run, mark, now)));
    }

    fn look_for_requests(self: &Arc<Self>, change: impl FnOnce(&mut RequestsToStop, Moment) -> Option<Moment>) {
        let change = |requests: &mut RequestsToStop| ((), change(requests, self.clock.moment()));
        if let ((), Need::Thread) = self.requests_to_stop.change(change) {
            let what_for = ThreadFor::RequestsToStop;
            self.start_thread("soloist-stop", what_for, |keeper| &keeper.requests_to_stop, Self::look);
        }
    }

    fn start(self: &Arc<Self>) {
        self.start_thread("soloist-keeper", ThreadFor::Renewals, |keeper| &keeper.timer, Self::carry_out);
    }

    #[cold]
    fn start_thread<J: TimedJobs + 'static>(
        self: &Arc<Self>,
        name: &str,
        what_for: ThreadFor,
        timer: fn(&Self) -> &TimerThread<J>,
        carry_out: fn(&Arc<Self>, &J::Job) -> J::Answer,
    ) {
        let keeper = Arc::clone(self);
        // From here on time waits for the thread, where a test moves it.
        let waiting = self.clock.waiting(self);
        waiting.is_needed();
        let run = move || timer(&keeper).run(waiting, |job| carry_out(&keeper, job));
        if let Err(error) = threads::start(name, run) {
            timer(self).thread_failed();
            log(&Incident::NoThread(what_for, &error));
        }
    }

    /// Tells the runs whose marks are held to stop. Returns whether the store has answered.
    fn look(self: &Arc<Self>, StopRequestLook { replaceable, renewed }: &StopRequestLook) -> bool {
        let Some(mutex) = self.handles.any() else { return true };
        let requester = |mark: &MutexName| -> Option<Option<Held>> {
            match contain(|| mutex.held(Names::Exactly(mark))) {
                Ok(Ok(held)) => Some(held.into_iter().next()),
                Ok(Err(error)) if error.is_unsupported() => Some(None),
                _ => None,
            }
        };
        let any = if renewed.is_empty() { Some(None) } else { requester(MutexName::any_request_to_stop()) };
        let Some(any) = any else { return false };
        let looks = replaceable.iter().chain(renewed.iter().filter(|_| any.is_some()));
        // One that gives no answer gives none to the others either.
        looks.map(|(run, mark)| (run, requester(mark))).all(|(run, found)| {
            if let Some(Some(by)) = &found {
                run.give_way(by.holder().cloned());
                self.post_why_it_stops(run);
            }
            found.is_some()
        })
    }

    /// The answers to a renewal, one for each lease; nothing for another job.
    fn carry_out(self: &Arc<Self>, job: &KeeperJob) -> Vec<Result<bool, MutexError>> {
        match job {
            KeeperJob::Renew(due) => return self.renew(due),
            KeeperJob::ReleaseAtExit(release) => {
                if let Some(mutex) = self.handles.any() {
                    release.send_to(&*mutex, &self.clock);
                }
            }
            KeeperJob::LogOverdue(runs) => {
                for (holder, run) in runs.clone() {
                    self.delivery.post(self.clock.now(), move |posted| {
                        holder.held().observers().tell_as(About::from(&run), &Step::DoesNotStop, Some(posted));
                    });
                }
            }
            KeeperJob::WakeTimedOut(holders) => holders.iter().for_each(|holder| {
                holder.held().signal().wake();
                // Where nobody observes it, it is logged by its own thread, within its span.
                if holder.held().observers().is_any() {
                    self.post_why_it_stops(holder);
                }
            }),
            KeeperJob::TellLost(holders) => holders.iter().for_each(|holder| {
                holder.held().signal().wake();
                self.post_why_it_stops(holder);
            }),
        }
        Vec::new()
    }

    fn post_why_it_stops<H: HoldsLease + ?Sized + 'static>(&self, holder: &Arc<H>)
    where
        Arc<H>: Send,
    {
        let holder = Arc::clone(holder);
        self.delivery.post(self.clock.now(), move |posted| holder.tell_why_it_stops(Some(posted)));
    }

    fn renew(self: &Arc<Self>, due: &DueRenewals) -> Vec<Result<bool, MutexError>> {
        let mut slots: Vec<Slot<Lease, bool>> = due.leases().map(Slot::new).collect();
        // Whoever holds a lease has a handle; who has none is gone without giving it back.
        let Some(mutex) = self.handles.any() else { return slots.iter().map(|_| Ok(false)).collect() };
        let lasted: Vec<_> = due.held().map(|(_, lasted)| lasted).collect();
        let panic = contain(|| mutex.extend(&mut slots, due.term)).err();
        let no_answer = |lease: &Lease| no_answer(format!("extend {}", lease.name()), panic.as_ref());
        let answers: Vec<_> = slots.iter_mut().map(|slot| slot.take_answer(no_answer)).collect();
        for renewals in by_observers(due, &lasted, &answers) {
            self.delivery.post(self.clock.now(), move |posted| renewals.tell(posted));
        }
        let renewed = due.holders.iter().zip(&answers).filter(|(_, answer)| matches!(answer, Ok(true)));
        let renewed: Vec<_> =
            renewed.map(|(holder, _)| Arc::clone(holder)).filter(|holder| holder.has_work()).collect();
        if !renewed.is_empty() {
            self.look_for_requests(|requests, now| {
                requests.look_once(renewed, now);
                Some(now)
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
        self.requests_to_stop.wake();
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("store", &self.handles.any()).finish_non_exhaustive()
    }
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

    use std::sync::mpsc::{Sender, channel};
    use std::task::{self, Context, Poll, Waker};

    use super::*;
    use crate::hold::held_lease::HeldLease;
    use crate::hold::timer_thread::TimedStep;
    use crate::lease::{request::LeaseRequest, term::Term};
    use crate::observe::cancel::CancelReason;
    use crate::store::event_mutex::EventMutex;
    use crate::store::{event_mutex::admission::Grant, memory::MemoryMutex};
    use crate::time::clock::manual::ManualClock;

    struct Broken;

    impl TimedJobs for Broken {
        type Job = ();
        type Answer = ();

        fn next_step(&mut self, _: Moment) -> TimedStep<()> {
            panic!("it can't go on")
        }

        fn on_signal(&mut self, _: usize) {}

        fn heeds_signals(&self) -> bool {
            false
        }

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

    struct Told(Sender<()>);

    impl task::Wake for Told {
        fn wake(self: Arc<Self>) {
            self.0.send(()).expect("somebody listens");
        }
    }

    #[test]
    fn a_task_that_waits_is_woken_when_its_lease_is_found_lost() {
        let manual = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
        let store = Store::new(MemoryMutex::with_clock(&manual));
        let clock = store.mutex.clock();
        let (name, term) = (MutexName::lease("reports").unwrap(), Term::new(Duration::from_secs(60)).unwrap());
        let lease = store.mutex.create(&LeaseRequest::new(name, term, &clock)).unwrap().expect("it is free");
        let held = HeldLease::new(clock.clone(), Some(Grant::of(lease)), clock.moment(), None, Duration::ZERO);
        let run = Arc::new(Cancellation::new(held));
        let keeper = Keeper::of(&store, &clock);
        keeper.keep(&store, &run, Renewal::WhileItRuns).expect("nobody else holds it");
        let (tell, told) = channel();
        let waker = Waker::from(Arc::new(Told(tell)));
        let (mut context, mut cancelled) = (Context::from_waker(&waker), Box::pin(run.cancelled()));
        assert_eq!(cancelled.as_mut().poll(&mut context), Poll::Pending);
        manual.jump(term.get());
        told.recv_timeout(Duration::from_secs(30)).expect("it is woken");
        assert_eq!(cancelled.as_mut().poll(&mut context), Poll::Ready(CancelReason::LeaseLost));
    }
}
