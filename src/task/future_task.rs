//! A task that is a future. A runtime polls the future, but no poll begins after the time at which the task must have
//! ended.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::run::{ENDING_TAKES, Run};
use crate::base::catch_panic::contain;
use crate::base::error::BoxError;
use crate::base::lock::lock;
use crate::hold::change_signal::TaskWaiter;
use crate::observe::tell::trace::Span;
use crate::outcome::cancel::Cancelled;
use crate::outcome::fault::{Fault, TaskDropped};
use crate::time::clock::moment::Moment;

pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// A runtime, such as tokio, that drives the futures of tasks.
#[derive(Clone)]
pub(crate) struct Runtime {
    drive: Arc<dyn Fn(LeasedFuture) + Send + Sync>,
    id: RuntimeId,
}

/// The id of a runtime of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuntimeId(pub(crate) u64);

impl Runtime {
    #[cfg(any(feature = "tokio", test))]
    pub(crate) fn new(id: RuntimeId, drive: impl Fn(LeasedFuture) + Send + Sync + 'static) -> Self {
        Self { drive: Arc::new(drive), id }
    }
}

/// The task of an event, if it is a future.
pub(crate) struct FutureTask {
    /// Makes the future of a run. The closure of the user is called when the future is polled.
    begin: Box<dyn Fn(Run) -> TaskFuture + Send + Sync>,
    /// `None` until the event is added to a schedule.
    pub(crate) runtime: Option<Runtime>,
}

impl FutureTask {
    #[cfg(any(feature = "tokio", test))]
    pub(crate) fn new(begin: impl Fn(Run) -> TaskFuture + Send + Sync + 'static) -> Self {
        Self { begin: Box::new(begin), runtime: None }
    }

    pub(crate) fn is_driven_by(&self, runtime: RuntimeId) -> bool {
        self.runtime.as_ref().is_some_and(|of_this| of_this.id == runtime)
    }

    /// Starts the task of `run`. Until the task ends, each change of its run wakes `changed`. Call
    /// [`TaskControl::enforce`] each time `changed` is woken. `on_end` is called once, on the thread on which the task
    /// ends.
    pub(crate) fn start(
        &self,
        run: &Run,
        span: &Span,
        changed: &Waker,
        on_end: impl FnOnce(TaskEnd) + Send + 'static,
    ) -> Arc<TaskControl> {
        let runtime = self.runtime.as_ref().expect("an event that was added has a runtime");
        let awaited = TaskWaiter::new(run.held.signal());
        awaited.set(changed);
        let [was_polled, is_notified] = [(); 2].map(|()| AtomicBool::new(false));
        let control = Arc::new(TaskControl {
            run: run.clone(),
            phase: AtomicU8::new(WAITING),
            revoked: AtomicU64::new(Moment::NEVER.to_bits()),
            was_polled,
            is_notified,
            awaited: Mutex::new(Some((Box::new(on_end), awaited))),
        });
        let work = Some((self.begin)(run.clone()));
        let waiter = TaskWaiter::new(run.held.signal());
        let future = LeasedFuture { work, waiter, control: Arc::clone(&control), span: span.clone() };
        if let Err(message) = contain(|| (runtime.drive)(future)) {
            control.end(Some(Fault::Panicked(message)), false);
        }
        control
    }
}

/// The end of a task.
pub(crate) struct TaskEnd {
    pub(crate) fault: Option<Fault>,
    /// Whether the future was not dropped in time, because no thread drives its runtime any more. The future will not
    /// be polled again, but its resources may still be in use. So the lease is not released, and ends with its term.
    pub(crate) is_abandoned: bool,
}

type OnEnd = Box<dyn FnOnce(TaskEnd) + Send>;

/// The state that a started future shares with the thread that waits for its end.
pub(crate) struct TaskControl {
    run: Run,
    phase: AtomicU8,
    /// The time at which `enforce` forbade further polls. The runtime must drop the future within `ENDING_TAKES` after
    /// this time.
    revoked: AtomicU64,
    /// Whether the runtime has polled the future. If not, the task has not started.
    was_polled: AtomicBool,
    /// Whether the future was woken after its run was cancelled.
    is_notified: AtomicBool,
    /// The callback for the end, and the waker of the thread that waits for the end. `None` after the end.
    awaited: Mutex<Option<(OnEnd, TaskWaiter)>>,
}

/// The phases of a future: it waits for a poll, a poll is running, or no poll will follow.
const WAITING: u8 = 0;
const POLLED: u8 = 1;
const OVER: u8 = 2;

impl TaskControl {
    /// Enforces the end of a cancelled task: wakes the future, and forbids further polls when the grace is over.
    /// Returns the time at which the caller must call again. If the run changes, the caller must call again at once.
    pub(crate) fn enforce(&self) -> Moment {
        let held = &self.run.held;
        let now = held.now();
        let Some(over) = self.over_at(now) else { return held.end() };
        if now < over {
            if !self.is_notified.swap(true, Ordering::Relaxed) {
                held.change(|| ());
            }
            return over;
        }
        if self.revoke() {
            self.revoked.store(now.to_bits(), Ordering::Relaxed);
            held.change(|| ()); // Wakes the runtime, which then drops the future.
        }
        // A running poll can't be interrupted. When it ends, `LeasedFuture::poll` reads the clock.
        let is_polled = self.phase.load(Ordering::Acquire) == POLLED;
        let left_at = Moment::from_bits(self.revoked.load(Ordering::Relaxed)).plus(ENDING_TAKES);
        if now < left_at || is_polled {
            return if is_polled { Moment::NEVER } else { left_at };
        }
        self.end(self.cancelled(now), true);
        Moment::NEVER
    }

    /// Prevents further polls. Returns `false` if a poll is running, or if no poll would follow anyway.
    fn revoke(&self) -> bool {
        self.phase.compare_exchange(WAITING, OVER, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Returns the time at which the task must have ended. `None`: the run is not cancelled.
    fn over_at(&self, now: Moment) -> Option<Moment> {
        self.run.held.over_at(now, self.run.grace(), ENDING_TAKES)
    }

    fn is_over(&self) -> bool {
        let now = self.run.held.now();
        self.over_at(now).is_some_and(|over| over <= now)
    }

    /// Begins a poll. Returns `false` if the future must not be polled.
    fn begin_poll(&self) -> bool {
        let begins = self.phase.compare_exchange(WAITING, POLLED, Ordering::AcqRel, Ordering::Acquire).is_ok();
        // The clock is read as late as possible. If this thread had to wait between this read and the poll, the poll
        // could begin after the end of the lease.
        let is_polled = begins && !self.is_over();
        self.was_polled.fetch_or(is_polled, Ordering::Relaxed);
        is_polled
    }

    fn cancelled(&self, now: Moment) -> Option<Fault> {
        let reason = self.run.held.reason_at(now)?;
        Some(self.failed(Cancelled::new(reason)))
    }

    /// Returns the fault of a task that its runtime has stopped polling, or has never polled.
    fn failed(&self, why: impl Into<BoxError>) -> Fault {
        if self.was_polled.load(Ordering::Relaxed) { Fault::Failed(why.into().into()) } else { Fault::not_started(why) }
    }

    fn end(&self, fault: Option<Fault>, is_abandoned: bool) {
        self.phase.store(OVER, Ordering::Release);
        let awaited = lock(&self.awaited).take();
        if let Some((on_end, waiter)) = awaited {
            drop(waiter);
            on_end(TaskEnd { fault, is_abandoned });
        }
    }
}

/// The future that the runtime polls. It reads the clock before each poll of the task's future, and drops the task's
/// future when the time of the task is over.
pub(crate) struct LeasedFuture {
    /// The task's future. `None` after the end or the drop of that future.
    work: Option<TaskFuture>,
    /// Wakes this future at each change of its run, from the first poll on.
    waiter: TaskWaiter,
    control: Arc<TaskControl>,
    span: Span,
}

impl LeasedFuture {
    /// Drops the task's future, and reports the end.
    fn end(&mut self, fault: Option<Fault>) -> Poll<()> {
        let work = self.work.take();
        let dropped = self.span.in_scope(|| contain(|| drop(work)));
        self.control.end(fault.or_else(|| dropped.err().map(Fault::Panicked)), false);
        Poll::Ready(())
    }
}

impl Future for LeasedFuture {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let held = Arc::clone(&this.control.run.held);
        let Some(work) = &mut this.work else { return Poll::Ready(()) };
        this.waiter.set(context.waker()); // Before `begin_poll` checks the run, so that no change is missed.
        if !this.control.begin_poll() {
            let fault = this.control.cancelled(held.now());
            return this.end(fault);
        }
        held.enter_thread();
        let polled = this.span.in_scope(|| contain(|| work.as_mut().poll(context)));
        held.leave_thread();
        match polled {
            Err(message) => this.end(Some(Fault::Panicked(message))),
            Ok(Poll::Ready(outcome)) => this.end(outcome.err().map(|error: BoxError| Fault::Failed(error.into()))),
            Ok(Poll::Pending) => {
                this.control.phase.store(WAITING, Ordering::SeqCst);
                // While the poll was running, `enforce` could not end the task, and `enforce` does not check the time
                // again. So the time is checked here, after the change of `phase`.
                if this.control.is_over() && this.control.revoke() {
                    let fault = this.control.cancelled(held.now());
                    return this.end(fault);
                }
                Poll::Pending
            }
        }
    }
}

/// Reports a task that its runtime dropped before its end, because the runtime ended or the task was aborted.
impl Drop for LeasedFuture {
    fn drop(&mut self) {
        if self.work.is_some() {
            let cancelled = self.control.cancelled(self.control.run.held.now());
            let _ = self.end(cancelled.or_else(|| Some(self.control.failed(TaskDropped))));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use chrono::DateTime;

    use super::*;
    use crate::hold::held_lease::HeldLease;
    use crate::lease::{name::MutexName, request::LeaseRequest, term::Term};
    use crate::outcome::{cancel::CancelReason, run_record::RunId};
    use crate::store::event_mutex::{EventMutex, admission::Grant};
    use crate::store::memory::MemoryMutex;
    use crate::time::clock::manual::ManualClock;

    /// Returns a task that never ends, the number of its polls, and its end. The task has a lease of a minute and a
    /// grace of five seconds.
    fn leased(manual: &ManualClock) -> (LeasedFuture, Arc<AtomicUsize>, Receiver<TaskEnd>) {
        let store = MemoryMutex::with_clock(manual);
        let (clock, name) = (store.clock(), MutexName::lease("reports").unwrap());
        let request = LeaseRequest::new(name, Term::new(Duration::from_secs(60)).unwrap(), &clock);
        let lease = store.create(&request).unwrap().expect("it is free");
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        let never_ending = move |_| -> TaskFuture {
            let polls = Arc::clone(&counted);
            Box::pin(poll_fn(move |_| {
                polls.fetch_add(1, Ordering::Relaxed);
                Poll::Pending
            }))
        };
        let (spawned, future) = channel();
        let mut task = FutureTask::new(never_ending);
        let spawn = move |future| spawned.send(future).expect("the receiver is there");
        task.runtime = Some(Runtime::new(RuntimeId(1), spawn));
        let stopping = Duration::from_secs(5) + ENDING_TAKES;
        let held = HeldLease::for_test(&clock, Some(Grant::of(lease)), None, stopping);
        let id = RunId { event: "reports".into(), occurrence: DateTime::UNIX_EPOCH, is_backfill: false };
        let run = Run { id, lateness: Duration::ZERO, attempt: 1, held };
        let (ended, end) = channel();
        let on_end = move |end| ended.send(end).expect("the receiver is there");
        task.start(&run, &Span::current(), Waker::noop(), on_end);
        (future.recv().expect("it was given to the runtime"), polls, end)
    }

    fn poll(future: &mut LeasedFuture) -> Poll<()> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn each_poll_begins_before_the_last_second_of_the_lease() {
        let manual = ManualClock::at(DateTime::UNIX_EPOCH);
        let (mut future, polls, end) = leased(&manual);
        assert_eq!(poll(&mut future), Poll::Pending);
        manual.jump(Duration::from_millis(58_999));
        assert_eq!(poll(&mut future), Poll::Pending);
        manual.jump(Duration::from_millis(1));
        assert_eq!(poll(&mut future), Poll::Ready(()), "it is dropped, and not polled");
        assert_eq!(polls.load(Ordering::Relaxed), 2);
        let end = end.try_recv().expect("it has ended");
        let reason = end.fault.and_then(|fault| fault.cancellation());
        assert_eq!((reason, end.is_abandoned), (Some(CancelReason::LeaseLost), false));
    }

    /// Checks that `enforce` asks for no further call while a poll is running, and that the end of this poll ends the
    /// task.
    #[test]
    fn a_poll_in_which_its_time_is_over_ends_it() {
        let manual = ManualClock::at(DateTime::UNIX_EPOCH);
        let (mut future, _, end) = leased(&manual);
        let (control, clock) = (Arc::clone(&future.control), manual.clone());
        let long_poll = Box::pin(poll_fn(move |_| {
            clock.jump(Duration::from_secs(59));
            assert_eq!(control.enforce(), Moment::NEVER);
            Poll::Pending
        }));
        future.work = Some(long_poll);
        assert_eq!(poll(&mut future), Poll::Ready(()));
        assert!(!end.try_recv().expect("it has ended").is_abandoned);
    }

    #[test]
    fn a_future_that_is_checked_late_still_has_its_second() {
        let manual = ManualClock::at(DateTime::UNIX_EPOCH);
        let (mut future, _, end) = leased(&manual);
        let control = Arc::clone(&future.control);
        assert_eq!(poll(&mut future), Poll::Pending);
        manual.jump(Duration::from_secs(90));
        control.enforce();
        assert!(end.try_recv().is_err(), "its runtime has a second to drop it");
        assert_eq!(poll(&mut future), Poll::Ready(()));
        assert!(!end.try_recv().expect("it has ended").is_abandoned);
    }

    #[test]
    fn a_future_that_was_never_polled_has_not_started() {
        let manual = ManualClock::at(DateTime::UNIX_EPOCH);
        let (future, _, end) = leased(&manual);
        drop(future);
        assert!(end.try_recv().expect("it has ended").fault.is_some_and(|fault| fault.is_not_started()));
        let (mut future, polls, end) = leased(&manual);
        manual.jump(Duration::from_secs(90));
        assert_eq!(poll(&mut future), Poll::Ready(()), "it is dropped, and not polled");
        let fault = end.try_recv().expect("it has ended").fault.expect("it failed");
        assert_eq!((fault.is_not_started(), fault.cancellation()), (true, Some(CancelReason::LeaseLost)));
        assert_eq!(polls.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_future_of_a_stalled_runtime_is_abandoned_after_a_second_and_never_polled_again() {
        let manual = ManualClock::at(DateTime::UNIX_EPOCH);
        let (mut future, polls, end) = leased(&manual);
        let control = Arc::clone(&future.control);
        assert_eq!(poll(&mut future), Poll::Pending);
        manual.jump(Duration::from_secs(59));
        control.enforce();
        assert!(end.try_recv().is_err(), "its runtime has a second to drop it");
        manual.jump(Duration::from_secs(1));
        control.enforce();
        assert!(end.try_recv().expect("it has ended").is_abandoned);
        assert_eq!(poll(&mut future), Poll::Ready(()));
        assert_eq!(polls.load(Ordering::Relaxed), 1);
    }
}
