//! A queue of notices that a separate thread delivers. A thread that posts a notice does not wait for observers and
//! subscribers, because their code may hang.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};

use crate::base::lock::lock;
use crate::base::{catch_panic::contain, threads};

/// The largest number of waiting notices. A notice that is posted while so many are waiting is dropped.
const MOST: usize = 1_000;

/// A queue of posted notices. A thread delivers them one after another, and ends when the queue is empty.
#[derive(Default)]
pub(crate) struct NoticeQueue {
    waiting: Mutex<Undelivered>,
}

#[derive(Default)]
struct Undelivered {
    notices: VecDeque<(Posted, PostedNotice)>,
    has_thread: bool,
    /// The number of notices that were posted so far, including dropped notices.
    count: u64,
}

type PostedNotice = Box<dyn FnOnce(Posted) + Send>;

/// The number and the time of a posted notice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub(crate) sequence: u64,
    pub(crate) at: DateTime<Utc>,
}

impl NoticeQueue {
    /// Queues `deliver`, which delivers the notice of a step. `at` is the time of the step. Does not wait for the
    /// delivery.
    pub(crate) fn post(self: &Arc<Self>, at: DateTime<Utc>, deliver: impl FnOnce(Posted) + Send + 'static) {
        let mut waiting = lock(&self.waiting);
        waiting.count += 1;
        if waiting.notices.len() < MOST {
            let posted = Posted { sequence: waiting.count, at };
            waiting.notices.push_back((posted, Box::new(deliver)));
        }
        if !mem::replace(&mut waiting.has_thread, true) {
            let queue = Arc::clone(self);
            // If no thread can be started now, the notices wait until the next call of `post` starts one.
            waiting.has_thread = spawn_detached(move || queue.deliver_all());
        }
    }

    fn deliver_all(&self) {
        while let Some((posted, deliver)) = self.next() {
            let _ = contain(|| deliver(posted));
        }
    }

    fn next(&self) -> Option<(Posted, PostedNotice)> {
        let mut waiting = lock(&self.waiting);
        waiting.has_thread = !waiting.notices.is_empty();
        waiting.notices.pop_front()
    }
}

/// Starts a thread that is never joined. Returns whether the thread could be started.
pub(crate) fn spawn_detached(work: impl FnOnce() + Send + 'static) -> bool {
    threads::start("soloist-aside", work).is_ok()
}
