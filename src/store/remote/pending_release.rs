//! Releases of names that this process may hold without knowing it, because an answer was lost. They are sent as soon as the
//! server answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::owned_name::OwnedName;
use super::per_process::PerProcess;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The pause between a failure and the first attempt, and the longest later on.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct PendingRelease {
    pub(crate) held: OwnedName,
    /// It is not sent before.
    pub(crate) from: Moment,
    /// By then the name has expired by itself.
    pub(crate) until: Moment,
}

/// The pending releases of one store. A child process that `fork` makes has none.
#[derive(Default)]
pub(crate) struct PendingReleases(PerProcess<Arc<Queue>>);

#[derive(Default)]
struct Queue {
    entries: Mutex<Vec<PendingRelease>>,
    /// Whether a thread sends them.
    has_thread: AtomicBool,
}

impl PendingReleases {
    /// All that are to be sent by now. The caller sends them, or adds them again.
    pub(crate) fn take(&self) -> Vec<PendingRelease> {
        let mut entries = self.0.get().live_entries();
        if entries.is_empty() {
            return Vec::new();
        }
        let now = Clock::system().moment();
        entries.extract_if(.., |release| release.from <= now).collect()
    }

    /// Whether any is to be sent by now.
    #[cfg(feature = "redis")]
    pub(crate) fn is_due(&self) -> bool {
        let now = Clock::system().moment();
        self.0.get().live_entries().iter().any(|release| release.from <= now)
    }

    /// Remembers them for the next call.
    pub(crate) fn put_back(&self, releases: Vec<PendingRelease>) {
        self.0.get().entries().extend(releases);
    }

    /// Remembers them, and sees to it that they are sent.
    pub(crate) fn add<S>(&self, releases: Vec<PendingRelease>, store: &Arc<S>, send: impl Fn(&Arc<S>) + Send + 'static)
    where
        S: Send + Sync + 'static,
    {
        self.put_back(releases);
        self.attend(store, send);
    }

    /// While something is pending, a thread calls `send`, until the last handle of the store is gone.
    pub(crate) fn attend<S>(&self, store: &Arc<S>, send: impl Fn(&Arc<S>) + Send + 'static)
    where
        S: Send + Sync + 'static,
    {
        let queue = self.0.get();
        if queue.entries().is_empty() || queue.has_thread.swap(true, Ordering::SeqCst) {
            return;
        }
        let (store, of_thread) = (Arc::downgrade(store), Arc::clone(queue));
        let retry = move || {
            let mut pause = FIRST_PAUSE;
            loop {
                thread::sleep(pause); // between two questions to a server that was out; nobody waits for this thread
                let Some(store) = store.upgrade() else { return };
                send(&store);
                drop(store);
                pause = (pause * 2).min(LONGEST_PAUSE);
                if of_thread.is_done() {
                    return;
                }
            }
        };
        if thread::Builder::new().name("soloist-give-back".to_owned()).spawn(retry).is_err() {
            // The next call that the server answers sends them; else the names expire.
            queue.has_thread.store(false, Ordering::SeqCst);
        }
    }
}

impl Queue {
    /// Whether the thread may end.
    fn is_done(&self) -> bool {
        if !self.live_entries().is_empty() {
            return false;
        }
        self.has_thread.store(false, Ordering::SeqCst);
        // Another thread may have added an entry in between, and have left it to this one.
        self.live_entries().is_empty() || self.has_thread.swap(true, Ordering::SeqCst)
    }

    fn entries(&self) -> MutexGuard<'_, Vec<PendingRelease>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live_entries(&self) -> MutexGuard<'_, Vec<PendingRelease>> {
        let mut entries = self.entries();
        if !entries.is_empty() {
            let now = Clock::system().moment();
            entries.retain(|release| now < release.until);
        }
        entries
    }
}
