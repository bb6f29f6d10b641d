//! Notices of threads that must not wait for subscribers, which may be stuck: another thread tells of them.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};

use crate::base::{catch_panic::contain, threads};

/// How many notices wait at most; what is posted then is told to nobody.
const MOST: usize = 1_000;

/// Where notices are posted. They are told one after another, by a thread that is there as long as there are any.
#[derive(Default)]
pub(crate) struct Delivery {
    waiting: Mutex<Undelivered>,
}

#[derive(Default)]
struct Undelivered {
    notices: VecDeque<(Posted, PostedNotice)>,
    has_thread: bool,
    /// How many were posted so far, those that were dropped included.
    count: u64,
}

type PostedNotice = Box<dyn FnOnce(Posted) + Send>;

/// As which number a notice was posted, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub(crate) sequence: u64,
    pub(crate) at: DateTime<Utc>,
}

impl Delivery {
    /// Lets the thread call this, which tells of a step taken `at` this time. It waits for nothing.
    pub(crate) fn post(self: &Arc<Self>, at: DateTime<Utc>, tell: impl FnOnce(Posted) + Send + 'static) {
        let mut waiting = self.waiting();
        waiting.count += 1;
        if waiting.notices.len() < MOST {
            let posted = Posted { sequence: waiting.count, at };
            waiting.notices.push_back((posted, Box::new(tell)));
        }
        if !mem::replace(&mut waiting.has_thread, true) {
            let delivery = Arc::clone(self);
            // Without a thread, the notices wait for the next attempt.
            waiting.has_thread = spawn_detached(move || delivery.deliver());
        }
    }

    fn deliver(&self) {
        while let Some((posted, tell)) = self.next() {
            let _ = contain(|| tell(posted));
        }
    }

    fn next(&self) -> Option<(Posted, PostedNotice)> {
        let mut waiting = self.waiting();
        waiting.has_thread = !waiting.notices.is_empty();
        waiting.notices.pop_front()
    }

    fn waiting(&self) -> MutexGuard<'_, Undelivered> {
        // No code that can panic runs while it is half-changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does the work on a thread that nobody waits for. `false`: there is no thread for it.
pub(crate) fn spawn_detached(work: impl FnOnce() + Send + 'static) -> bool {
    threads::start("soloist-aside", work).is_ok()
}
