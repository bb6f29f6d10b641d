//! A call to a store blocks its thread, and a blocked thread usually has a connection. Call permits limit how many
//! threads are blocked. There are two kinds. An operator's call has a permit of its schedule until it ends. The call of
//! another future takes a permit of its store if the future is dropped, because the thread of the call still waits.

use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest number of calls that have a permit at once.
pub(crate) const MOST_CALLS: usize = 16;

/// The permits for operators' calls on one schedule, or for dropped calls that wait for one store.
#[derive(Clone)]
pub(crate) struct CallPermits(Arc<Semaphore>);

/// The thread's part of a call. The thread drops this part when the call has ended. The part gets a permit if the
/// future is dropped earlier, and a permit is free.
type ThreadSide = OnceLock<OwnedSemaphorePermit>;

/// The future's part of a call. If this part is dropped before the call has ended, the thread's part gets a permit, if
/// a permit is free.
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
    /// Returns a permit, which lasts until it is dropped. `None`: [`MOST_CALLS`] calls have a permit.
    pub(crate) fn try_take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }

    /// Waits until fewer than [`MOST_CALLS`] dropped calls have a permit. Returns the two parts of a new call.
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
