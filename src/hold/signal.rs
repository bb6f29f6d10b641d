//! What wakes the threads and the tasks that wait for a change of a lease, or of the run that holds it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard};
use crate::base::catch_panic::contain;
use crate::time::clock::{Clock, Waiting, manual::Wake, moment::Moment};

/// One place to wait at. Whatever changes is changed while this is locked, so that no thread misses it that is about to sleep.
#[derive(Default)]
pub(crate) struct Signal {
    waiters: Mutex<Waiters>,
    /// Wakes the threads that wait.
    changed: Condvar,
}

/// The tasks that wait, each under the number of its [`TaskWaiter`], and how many threads do.
#[derive(Default)]
struct Waiters {
    tasks: BTreeMap<u64, Waker>,
    next: u64,
    threads: usize,
}

/// A task that waits at a signal: each change wakes it until this is dropped.
pub(crate) struct TaskWaiter {
    signal: Arc<Signal>,
    number: u64,
}

impl TaskWaiter {
    pub(crate) fn new(signal: &Arc<Signal>, waker: &Waker) -> Self {
        let mut waiters = signal.lock();
        let number = waiters.next;
        waiters.next += 1;
        waiters.tasks.insert(number, waker.clone());
        drop(waiters);
        Self { signal: Arc::clone(signal), number }
    }

    /// Lets changes wake `waker` from now on, in the place of the one that this waiter had, if it is there.
    pub(crate) fn set(waiter: &mut Option<Self>, signal: &Arc<Signal>, waker: &Waker) {
        let Some(Self { number, .. }) = waiter else {
            *waiter = Some(Self::new(signal, waker));
            return;
        };
        let mut waiters = signal.lock();
        let is_known = waiters.tasks.get(number).is_some_and(|known| known.will_wake(waker));
        let before = if is_known { None } else { waiters.tasks.insert(*number, waker.clone()) };
        drop(waiters);
        drop(before); // It may be the last handle of a task, whose destructors may come back here.
    }
}

impl Drop for TaskWaiter {
    fn drop(&mut self) {
        let waker = self.signal.lock().tasks.remove(&self.number);
        drop(waker); // As above, after the lock is released.
    }
}

impl Signal {
    /// Changes something that may be waited for, and wakes the threads that wait. It calls no code of others, so that it
    /// may be called while something is locked.
    pub(crate) fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let waiters = self.lock();
        let changed = change();
        self.wake_threads(waiters);
        changed
    }

    /// Changes something of which nobody needs to be told.
    pub(crate) fn change_silently<T>(&self, change: impl FnOnce() -> T) -> T {
        let _locked = self.lock();
        change()
    }

    /// Wakes all that wait, tasks too. A runtime's code wakes a task, so that nothing may be locked when this is called.
    pub(crate) fn wake(&self) {
        let waiters = self.lock();
        let wakers: Vec<Waker> = waiters.tasks.values().cloned().collect();
        self.wake_threads(waiters);
        for waker in wakers {
            let _ = contain(|| waker.wake());
        }
    }

    /// Ends the change, and wakes the threads that wait. To wake none costs a call of the system all the same, which a run would
    /// make at its end.
    fn wake_threads(&self, waiters: MutexGuard<'_, Waiters>) {
        let some_wait = waiters.threads > 0;
        drop(waiters);
        if some_wait {
            self.changed.notify_all();
        }
    }

    /// Lets this thread wait as long as `idle`, which is asked at every change, says for how long at most.
    pub(crate) fn wait_while(&self, waiting: &Waiting, idle: impl Fn(Moment, &Waiting) -> Option<Duration>) {
        let mut waiters = self.lock();
        while let Some(patience) = idle(waiting.clock().moment(), waiting) {
            waiters.threads += 1;
            (waiters, _) = self.changed.wait_timeout(waiters, patience).unwrap_or_else(PoisonError::into_inner);
            waiters.threads -= 1;
        }
    }

    /// Waits, as a task, until `look` finds something. A change wakes it; to find out that time has passed it needs a timer.
    pub(crate) fn wait_until<T, L>(self: &Arc<Self>, look: L) -> impl Future<Output = T> + Send + Unpin + use<T, L>
    where
        L: Fn() -> Option<T> + Send + Unpin,
    {
        let (signal, mut waiter) = (Arc::clone(self), None);
        poll_fn(move |context| {
            TaskWaiter::set(&mut waiter, &signal, context.waker()); // Before it looks, so that it misses no change.
            look().map_or(Poll::Pending, Poll::Ready)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        // No code that can panic runs while it is half-changed.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Signal {
    fn wake(&self) {
        Signal::wake(self);
    }
}

/// Lets this thread sleep until this moment of `clock`.
pub(crate) fn sleep_until(clock: &Clock, enough: Moment) {
    let signal = Arc::new(Signal::default());
    signal.wait_while(&clock.waiting(&signal), |now, waiting| (now < enough).then(|| waiting.patience(enough)));
}
