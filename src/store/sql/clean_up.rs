//! The clean-up: a thread deletes rows that have ended, now and then. No gate waits for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::store::remote::failure::Failure;
use crate::time::{clock::Clock, clock::moment::Moment};

/// How many rows one statement deletes at most.
pub(crate) const BATCH: u64 = 500;

/// How often one process cleans up at most: 200 claims a second leave 2,000 rows between two clean-ups.
const EVERY: Duration = Duration::from_secs(10);

/// How long a row stays after it has ended, in seconds: longer than any call lasts, so that whoever has looked at it and
/// writes finds it, and is told if it was somebody else's in between.
pub(super) const KEPT_SECONDS: u64 = 90;

/// How long the last handle lets a clean-up end at most.
const FAREWELL: Duration = Duration::from_secs(2);

/// How often it is tried to find a connection that nobody needs, and how long after one another.
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// When it was cleaned up, and by whom.
#[derive(Default)]
pub(super) struct CleanUp {
    last: Mutex<Option<(Moment, Receiver<()>)>>,
    course: Arc<Course>,
}

/// What the thread that cleans up is told as it goes on.
#[derive(Default)]
struct Course {
    /// How many rows were written since it began.
    written: AtomicU64,
    /// Whether nobody is left for whom to go on.
    ends: AtomicBool,
}

impl CleanUp {
    /// Lets a thread call `delete`, which says how many rows that were, until it was less than a batch; unless that was
    /// done a while ago. `None` from it: there is no connection that nobody needs.
    pub(super) fn now_and_then(
        &self,
        written: usize,
        delete: impl Fn() -> Option<Result<u64, Failure>> + Send + 'static,
    ) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Clock::system().moment();
        let is_time = last.as_ref().is_none_or(|(began, _)| now.since(*began) >= EVERY);
        if is_time {
            self.course.written.store(0, Ordering::SeqCst);
        }
        self.course.written.fetch_add(written as u64, Ordering::SeqCst);
        if !is_time {
            return;
        }
        let (done, is_done) = mpsc::channel::<()>();
        let course = Arc::clone(&self.course);
        let clean = move || {
            let _done = done; // Gone when this ends.
            course.run(delete);
        };
        // Where no thread can be started now, one can later.
        if thread::Builder::new().name("soloist-clean-up".to_owned()).spawn(clean).is_ok() {
            *last = Some((now, is_done));
        }
    }

    /// Lets what has been begun end: a process that lives for less than a batch would never clean anything.
    pub(super) fn finish(&self) {
        self.course.ends.store(true, Ordering::SeqCst);
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((_, is_done)) = last {
            let _ = is_done.recv_timeout(FAREWELL); // An error either way: it is done, or it takes too long.
        }
    }
}

impl Course {
    fn run(&self, delete: impl Fn() -> Option<Result<u64, Failure>>) {
        let (mut deleted, mut tries) = (0, 0);
        loop {
            let began = Clock::system().moment();
            match delete() {
                Some(Ok(now)) if now >= BATCH => deleted += now,
                Some(_) => return,
                None if tries == TRIES => return,
                None => {
                    tries += 1;
                    thread::sleep(BETWEEN_TRIES); // nobody waits for this thread
                    continue;
                }
            }
            if !self.ends.load(Ordering::SeqCst) {
                // Half of the time is left to the gates; nobody waits for this thread.
                thread::sleep(Clock::system().moment().since(began));
            } else if deleted >= 2 * self.written.load(Ordering::SeqCst) {
                // Where all processes are short-lived, the table shrinks nevertheless.
                return;
            }
        }
    }
}
