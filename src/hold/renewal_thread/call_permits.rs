//! Permits for calls that block threads: those whose futures were dropped while their threads wait for the store, and those of
//! operators. Each has a thread, and mostly a connection.

use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many calls have a permit at a time.
pub(crate) const MOST_CALLS: usize = 16;

/// The permits of the calls of one schedule, or of the dropped calls that wait for one store.
#[derive(Clone)]
pub(crate) struct CallPermits(Arc<Semaphore>);

/// The side of the thread that makes a call, which drops this when it ends. It has a permit once the future was dropped.
type ThreadSide = OnceLock<OwnedSemaphorePermit>;

/// The side of the future that waits for a call.
pub(crate) struct FutureSide {
    calls: CallPermits,
    thread: Weak<ThreadSide>,
}

impl Default for CallPermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_CALLS)))
    }
}

impl CallPermits {
    /// Returns a permit, which lasts until it is dropped. `None`: the most calls have theirs.
    pub(crate) fn try_take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }

    /// Begins a call as soon as fewer than 16 dropped calls have a permit. Returns the sides of the future and the thread.
    pub(crate) async fn begin(&self) -> (FutureSide, Arc<ThreadSide>) {
        drop(self.0.acquire().await);
        let thread = Arc::new(ThreadSide::new());
        (FutureSide { calls: self.clone(), thread: Arc::downgrade(&thread) }, thread)
    }
}

impl Drop for FutureSide {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.upgrade()
            && let Some(permit) = self.calls.try_take()
        {
            let _ = thread.set(permit);
        }
    }
}
