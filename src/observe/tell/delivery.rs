//! Notices of threads that must not wait for subscribers, which may be stuck: another thread tells of them.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use crate::base::catch_panic::contain;

/// How many notices wait at most; what is posted then is told to nobody.
const MOST: usize = 1_000;

/// Where notices are posted. They are told one after another, by a thread that is there as long as there are any.
#[derive(Default)]
pub(crate) struct Delivery {
    posted: Mutex<Posted>,
}

#[derive(Default)]
struct Posted {
    notices: VecDeque<Box<dyn FnOnce() + Send>>,
    has_thread: bool,
}

impl Delivery {
    /// Lets the thread call this, which tells of a step. It waits for nothing.
    pub(crate) fn post(self: &Arc<Self>, tell: impl FnOnce() + Send + 'static) {
        let mut posted = self.posted();
        if posted.notices.len() < MOST {
            posted.notices.push_back(Box::new(tell));
        }
        if !mem::replace(&mut posted.has_thread, true) {
            let delivery = Arc::clone(self);
            // Without a thread, the notices wait for the next attempt.
            posted.has_thread = spawn_detached(move || delivery.deliver());
        }
    }

    fn deliver(&self) {
        while let Some(tell) = self.next() {
            let _ = contain(tell);
        }
    }

    fn next(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let mut posted = self.posted();
        posted.has_thread = !posted.notices.is_empty();
        posted.notices.pop_front()
    }

    fn posted(&self) -> MutexGuard<'_, Posted> {
        // No code that can panic runs while it is half-changed.
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does the work on a thread that nobody waits for. `false`: there is no thread for it.
pub(crate) fn spawn_detached(work: impl FnOnce() + Send + 'static) -> bool {
    Builder::new().name("soloist-aside".into()).spawn(work).is_ok()
}
