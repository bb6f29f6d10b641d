//! A signal for the threads and the tasks that wait for a change of a lease, or of the run that holds the lease.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard};
use crate::base::catch_panic::contain;
use crate::time::clock::{Clock, Waiting, manual::Wake, moment::Moment};

/// A signal that wakes threads and tasks after a change. The signal is locked during each change, so that a thread that
/// is about to sleep misses no change.
#[derive(Default)]
pub(crate) struct Signal {
    waiters: Mutex<Waiters>,
    /// Notified when waiting threads must wake up.
    changed: Condvar,
}

/// The waiting tasks, each under the number of its [`TaskWaiter`].
#[derive(Default)]
struct Waiters {
    tasks: BTreeMap<u64, Waker>,
    next: u64,
}

/// A task that waits for a signal. Until this value is dropped, each [`Signal::wake`] wakes the task.
pub(crate) struct TaskWaiter {
    signal: Arc<Signal>,
    number: u64,
}

impl TaskWaiter {
    pub(crate) fn new(signal: &Arc<Signal>) -> Self {
        let mut waiters = signal.lock();
        waiters.next += 1;
        Self { signal: Arc::clone(signal), number: waiters.next }
    }

    /// Registers `waker`: from now on, [`Signal::wake`] wakes this task.
    pub(crate) fn set(&self, waker: &Waker) {
        let mut waiters = self.signal.lock();
        let is_known = waiters.tasks.get(&self.number).is_some_and(|known| known.will_wake(waker));
        let before = if is_known { None } else { waiters.tasks.insert(self.number, waker.clone()) };
        drop(waiters);
        // The signal is unlocked here, because a drop of `before` can drop a task, and the task's destructors may lock
        // the signal.
        drop(before);
    }
}

impl Drop for TaskWaiter {
    fn drop(&mut self) {
        let waker = self.signal.lock().tasks.remove(&self.number);
        // The signal is unlocked here, because a drop of `waker` can drop a task, and the task's destructors may lock
        // the signal.
        drop(waker);
    }
}

impl Signal {
    /// Makes a change while the signal is locked, and wakes the waiting threads, but no tasks. The caller can hold
    /// locks, because no waker is called here: a waker runs code of its runtime.
    pub(crate) fn change(&self, change: impl FnOnce()) {
        let waiters = self.lock();
        change();
        drop(waiters);
        self.changed.notify_all();
    }

    /// Wakes all waiting threads and tasks. A waker runs code of its runtime, so the caller must not hold a lock.
    pub(crate) fn wake(&self) {
        let wakers: Vec<Waker> = self.lock().tasks.values().cloned().collect();
        self.changed.notify_all();
        for waker in wakers {
            let _ = contain(|| waker.wake());
        }
    }

    /// Blocks this thread until `idle` returns `None`. If `idle` returns a duration, `idle` is called again after each
    /// change, and at the latest when this duration is over.
    pub(crate) fn wait_while(&self, waiting: &Waiting, idle: impl Fn(Moment, &Waiting) -> Option<Duration>) {
        let mut waiters = self.lock();
        while let Some(patience) = idle(waiting.clock().moment(), waiting) {
            (waiters, _) = self.changed.wait_timeout(waiters, patience).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits, as a task, until `look` returns a value. `look` is called each time that [`Signal::wake`] wakes the task.
    /// If `look` depends on the time, a timer must wake the task.
    pub(crate) fn wait_until<T, L>(self: &Arc<Self>, look: L) -> impl Future<Output = T> + Send + Unpin + use<T, L>
    where
        L: Fn() -> Option<T> + Send + Unpin,
    {
        let waiter = TaskWaiter::new(self);
        poll_fn(move |context| {
            waiter.set(context.waker()); // Before the call of `look`, so that no change is missed.
            look().map_or(Poll::Pending, Poll::Ready)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        // A poisoned lock can still be used: after a panic, the value is never half-changed.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Signal {
    fn wake(&self) {
        Signal::wake(self);
    }
}

/// Blocks this thread until the moment `until` of `clock`.
pub(crate) fn sleep_until(clock: &Clock, until: Moment) {
    let signal = Arc::new(Signal::default());
    signal.wait_while(&clock.waiting(&signal), |now, waiting| (now < until).then(|| waiting.patience(until)));
}
