//! Calls whose futures were dropped while their threads wait for the store: each has a thread, and mostly a connection.

use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many dropped calls may wait for one store before the next call waits for one of them to end.
const MOST: usize = 16;

/// The dropped calls that wait for one store: each has a permit.
pub(crate) struct DroppedFutures(Arc<Semaphore>);

/// The side of the thread that makes a call, which drops this when it ends. It has a permit once the future was dropped.
type ThreadSide = OnceLock<OwnedSemaphorePermit>;

/// The side of the future that waits for a call.
pub(crate) struct FutureSide {
    calls: Arc<Semaphore>,
    thread: Weak<ThreadSide>,
}

impl Default for DroppedFutures {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl DroppedFutures {
    /// Begins a call as soon as fewer than 16 dropped calls wait for the store. Returns the sides of the future and the thread.
    pub(crate) async fn begin(&self) -> (FutureSide, Arc<ThreadSide>) {
        drop(self.0.acquire().await);
        let thread = Arc::new(ThreadSide::new());
        (FutureSide { calls: Arc::clone(&self.0), thread: Arc::downgrade(&thread) }, thread)
    }
}

impl Drop for FutureSide {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.upgrade()
            && let Ok(permit) = Arc::clone(&self.calls).try_acquire_owned()
        {
            let _ = thread.set(permit);
        }
    }
}
