//! How late the machine is. Tests allow for it, so that a loaded machine breaks no promise.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the machine is watched.
const EVERY: Duration = Duration::from_millis(10);

/// A thread that measures how late the machine wakes it.
pub(crate) struct Watch {
    end: Sender<()>,
    thread: JoinHandle<Duration>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut latest = Duration::ZERO;
            loop {
                let began = Instant::now();
                if ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                    return latest;
                }
                latest = latest.max(began.elapsed().saturating_sub(EVERY));
            }
        });
        Self { end, thread }
    }

    /// Returns the longest delay of the machine.
    pub(crate) fn end(self) -> Duration {
        drop(self.end);
        self.thread.join().expect("it only measures")
    }
}
