//! The thread that delivers the notices of a loop, so that the loop does not wait for observers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Scope;

use crate::base::{catch_panic::contain, threads};
use crate::observe::notice::{About, Step};
use crate::observe::tell::{observers::Observers, trace};

/// The notices of a loop. A thread delivers them one after another. This thread starts with the loop. So if the system
/// later has no thread for a tick, this thread can still report it. The default value has no thread: the caller
/// delivers the notices.
#[derive(Default)]
pub(super) struct LoopNotices<'env> {
    posted: Option<Sender<Telling<'env>>>,
    /// Whether the last `LoopAlive` still waits to be delivered.
    is_telling_alive: Arc<AtomicBool>,
}

type Telling<'env> = Box<dyn FnOnce() + Send + 'env>;

impl<'env> LoopNotices<'env> {
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, 'env>) -> Self {
        let (posted, told) = channel::<Telling<'env>>();
        let tell = move || told.into_iter().for_each(|tell| _ = contain(tell));
        match threads::start_in(scope, "soloist-notices", tell) {
            Ok(()) => Self { posted: Some(posted), ..Self::default() },
            Err(error) => {
                trace::no_thread("notices", "the loop waits for observers", &error);
                Self::default()
            }
        }
    }

    /// Calls `tell` on the thread of the notices. Without that thread, calls `tell` on the caller's thread.
    pub(super) fn tell(&self, tell: impl FnOnce() + Send + 'env) {
        match &self.posted {
            // The receiver exists, because the thread ends only after this sender was dropped.
            Some(posted) => _ = posted.send(Box::new(tell)),
            None => _ = contain(tell),
        }
    }

    /// Notifies the observers that the loop is awake. Does nothing while the last such notice still waits to be
    /// delivered.
    pub(super) fn tell_alive(&self, observers: &'env Observers) {
        if observers.receive_all_steps() && !self.is_telling_alive.swap(true, Ordering::Relaxed) {
            let is_telling = Arc::clone(&self.is_telling_alive);
            self.tell(move || {
                observers.tell(About::default(), &Step::LoopAlive);
                is_telling.store(false, Ordering::Relaxed);
            });
        }
    }
}
