//! What this process may hold without knowing it, because an answer was lost: given back as soon as the server answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::held::Held;
use crate::time::clock::Clock;
use crate::time::clock::moment::Moment;

/// How long after a failure the server is asked for the first time, and how long at most later on.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Whether there is anybody left for whom to settle.
#[derive(PartialEq, Eq)]
pub(crate) enum Attended {
    Tried,
    NobodyLeft,
}

#[derive(Default)]
pub(crate) struct Owed {
    entries: Mutex<Vec<Debt>>,
    /// Whether a thread is at work on them.
    attended: AtomicBool,
}

#[derive(Clone, Debug)]
pub(crate) struct Debt {
    pub(crate) held: Held,
    /// From when on it is given back.
    pub(crate) from: Moment,
    /// When it has expired by itself.
    pub(crate) until: Moment,
}

impl Owed {
    pub(crate) fn is_empty(&self) -> bool {
        self.live_entries().is_empty()
    }

    /// All that is to be given back by now. Who takes it gives it back, or adds it again.
    pub(crate) fn take(&self) -> Vec<Debt> {
        let mut entries = self.live_entries();
        if entries.is_empty() {
            return Vec::new();
        }
        let now = Clock::system().moment();
        entries.extract_if(.., |debt| debt.from <= now).collect()
    }

    pub(crate) fn add(&self, debts: impl IntoIterator<Item = Debt>) {
        self.entries().extend(debts);
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Debt>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live_entries(&self) -> MutexGuard<'_, Vec<Debt>> {
        let mut entries = self.entries();
        if !entries.is_empty() {
            let now = Clock::system().moment();
            entries.retain(|debt| now < debt.until);
        }
        entries
    }

    /// Lets a thread call `settle` until nothing is owed or nobody is left, if there is none that does.
    pub(crate) fn attend(self: &Arc<Self>, settle: impl Fn() -> Attended + Send + 'static) {
        if self.attended.swap(true, Ordering::SeqCst) {
            return;
        }
        let owed = Arc::clone(self);
        let attend = move || {
            let mut pause = FIRST_PAUSE;
            loop {
                thread::sleep(pause); // between two questions to a server that was out; nobody waits for this thread
                if settle() == Attended::NobodyLeft {
                    return;
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                if owed.is_empty() {
                    owed.attended.store(false, Ordering::SeqCst);
                    // Somebody may have added to it in between, and have left it to this thread.
                    if owed.is_empty() || owed.attended.swap(true, Ordering::SeqCst) {
                        return;
                    }
                }
            }
        };
        if thread::Builder::new().name("soloist-give-back".to_owned()).spawn(attend).is_err() {
            // The next call that the server answers gives it back; else it expires.
            self.attended.store(false, Ordering::SeqCst);
        }
    }
}
