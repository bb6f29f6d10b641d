//! What wakes the threads and the tasks that wait for a change of a lease, or of the run that holds it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard};
use crate::base::catch_panic::contain;
use crate::time::clock::{Clock, Waiting, manual::Wake, moment::Moment};

/// One place to wait at. Whatever changes is changed while this is locked, so that nobody who is about to sleep misses it.
#[derive(Default)]
pub(crate) struct Signal {
    tasks: Mutex<WaitingTasks>,
    /// Wakes the threads that wait.
    changed: Condvar,
}

/// The tasks that wait, each under the number of its [`TaskWaiter`].
#[derive(Default)]
struct WaitingTasks {
    wakers: BTreeMap<u64, Waker>,
    next: u64,
}

/// A task that waits at a signal: each change wakes it until this is dropped.
pub(crate) struct TaskWaiter {
    signal: Arc<Signal>,
    number: u64,
}

impl TaskWaiter {
    pub(crate) fn new(signal: &Arc<Signal>, waker: &Waker) -> Self {
        let mut tasks = signal.lock();
        let number = tasks.next;
        tasks.next += 1;
        tasks.wakers.insert(number, waker.clone());
        drop(tasks);
        Self { signal: Arc::clone(signal), number }
    }

    /// Lets changes wake `waker` from now on, in the place of the one that this waiter had, if it is there.
    pub(crate) fn set(waiter: &mut Option<Self>, signal: &Arc<Signal>, waker: &Waker) {
        let Some(Self { number, .. }) = waiter else {
            *waiter = Some(Self::new(signal, waker));
            return;
        };
        let mut tasks = signal.lock();
        let is_known = tasks.wakers.get(number).is_some_and(|known| known.will_wake(waker));
        let before = if is_known { None } else { tasks.wakers.insert(*number, waker.clone()) };
        drop(tasks);
        drop(before); // It may be the last handle of a task, whose destructors may come back here.
    }
}

impl Drop for TaskWaiter {
    fn drop(&mut self) {
        let waker = self.signal.lock().wakers.remove(&self.number);
        drop(waker); // As above, after the lock is released.
    }
}

impl Signal {
    /// Changes something that somebody may wait for, and wakes the threads that wait. It calls no code of others, so that it
    /// may be called while something is locked.
    pub(crate) fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let tasks = self.lock();
        let changed = change();
        drop(tasks);
        self.changed.notify_all();
        changed
    }

    /// Changes something of which nobody needs to be told.
    pub(crate) fn change_silently<T>(&self, change: impl FnOnce() -> T) -> T {
        let _locked = self.lock();
        change()
    }

    /// Wakes all that wait, tasks too. A runtime's code wakes a task, so nobody calls this while anything is locked.
    pub(crate) fn wake(&self) {
        let wakers: Vec<Waker> = self.lock().wakers.values().cloned().collect();
        self.changed.notify_all();
        for waker in wakers {
            let _ = contain(|| waker.wake());
        }
    }

    /// Lets this thread wait as long as `idle`, which is asked at every change, says for how long at most.
    pub(crate) fn wait_while(&self, waiting: &Waiting, idle: impl Fn(Moment, &Waiting) -> Option<Duration>) {
        let mut tasks = self.lock();
        while let Some(patience) = idle(waiting.clock().moment(), waiting) {
            (tasks, _) = self.changed.wait_timeout(tasks, patience).unwrap_or_else(PoisonError::into_inner);
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

    fn lock(&self) -> MutexGuard<'_, WaitingTasks> {
        // No code that can panic runs while it is half-changed.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
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
