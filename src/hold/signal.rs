//! What wakes the threads and the tasks that wait for a change of a lease, or of the run that holds it.

use std::mem;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard};
use crate::base::catch_panic::contain;
use crate::time::clock::{Clock, Waiting, manual::Wake, moment::Moment};

/// One place to wait at. Whatever changes is changed while this is locked, so that nobody who is about to sleep misses it.
#[derive(Default)]
pub(crate) struct Signal {
    /// The tasks that wait. Threads wait for `changed`.
    wakers: Mutex<Vec<Waker>>,
    changed: Condvar,
}

impl Signal {
    /// Changes something that somebody may wait for, and wakes the threads that wait. It calls no code of others, so that it
    /// may be called while something is locked.
    pub(crate) fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let wakers = self.lock();
        let changed = change();
        drop(wakers);
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
        let wakers = mem::take(&mut *self.lock());
        self.changed.notify_all();
        for waker in wakers {
            let _ = contain(|| waker.wake());
        }
    }

    /// Lets this thread wait as long as `idle`, which is asked at every change, says for how long at most.
    pub(crate) fn wait_while(&self, waiting: &Waiting, idle: impl Fn(Moment, &Waiting) -> Option<Duration>) {
        let mut wakers = self.lock();
        while let Some(patience) = idle(waiting.clock().moment(), waiting) {
            (wakers, _) = self.changed.wait_timeout(wakers, patience).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Looks at what may change, and lets the next [`wake`](Self::wake) wake `waker` if there is nothing yet.
    pub(crate) fn look_or_wake<T>(&self, waker: &Waker, look: impl FnOnce() -> Option<T>) -> Option<T> {
        let mut wakers = self.lock();
        let found = look();
        if found.is_none() && !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        found
    }

    /// The task of this waker does not wait any more.
    #[cfg(feature = "tokio")]
    pub(crate) fn forget(&self, waker: &Waker) {
        self.lock().retain(|known| !known.will_wake(waker));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waker>> {
        // No code that can panic runs while it is half-changed.
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
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
