//! Rows that have ended are cleaned away, now and then, by a thread that no gate waits for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::clock::{Clock, Moment};

/// How many rows one statement deletes at most.
pub(in crate::mutex) const BATCH: u64 = 500;

/// How often one process cleans up at most.
const EVERY: Duration = Duration::from_secs(60);

/// How long a row stays after it has ended, in seconds: longer than any call lasts, so that whoever has looked at it and
/// writes finds it, and is told if it was somebody else's in between.
pub(super) const KEPT_SECONDS: u64 = 120;

/// When it was cleaned up, and by whom.
#[derive(Default)]
pub(super) struct CleanUp {
    last: Mutex<Option<(Moment, Receiver<()>)>>,
    /// Whether nobody is left for whom to go on.
    ends: Arc<AtomicBool>,
}

impl CleanUp {
    /// Lets a thread call `delete`, which says whether there may be more, until there is not; unless that was done a
    /// while ago.
    pub(super) fn now_and_then(&self, delete: impl Fn() -> bool + Send + 'static) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Clock::system().moment();
        if last.as_ref().is_some_and(|(began, _)| now.since(*began) < EVERY) {
            return;
        }
        let (done, is_done) = mpsc::channel::<()>();
        let ends = Arc::clone(&self.ends);
        let clean = move || {
            let _done = done; // Gone when this ends.
            loop {
                let began = Clock::system().moment();
                if !delete() || ends.load(Ordering::SeqCst) {
                    return;
                }
                // Half of the time is left to the gates.
                thread::sleep(Clock::system().moment().since(began));
            }
        };
        // Where no thread can be started now, one can later.
        if thread::Builder::new().name("soloist-clean-up".to_owned()).spawn(clean).is_ok() {
            *last = Some((now, is_done));
        }
    }

    /// Lets what has been begun end, for so long: a process that lives for less than a batch would never clean anything.
    pub(super) fn finish(&self, at_most: Duration) {
        self.ends.store(true, Ordering::SeqCst);
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((_, is_done)) = last {
            let _ = is_done.recv_timeout(at_most); // An error either way: it is done, or it takes too long.
        }
    }
}
