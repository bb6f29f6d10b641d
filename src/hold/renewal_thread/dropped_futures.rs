//! Calls whose futures were dropped while their threads wait for the store: each has a thread, and mostly a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::hold::change_signal::Signal;

/// How many dropped calls may wait for one store before the next call waits for one of them to end.
const MOST: usize = 16;

/// The dropped calls that wait for one store.
#[derive(Default)]
pub(crate) struct DroppedFutures {
    count: AtomicUsize,
    /// Locked for each change of the count, and wakes the calls that wait for a lower one.
    changed: Arc<Signal>,
}

/// A side of a call that a future waits for and a thread makes: the future drops its side with itself, and the thread when it
/// ends.
pub(crate) struct CallSide {
    calls: Arc<DroppedFutures>,
    is_future: bool,
    /// Whether the other side was dropped.
    is_half_over: Arc<AtomicBool>,
}

impl DroppedFutures {
    /// Begins a call as soon as fewer than 16 dropped calls wait for the store. Returns the sides of the future and the thread.
    pub(crate) async fn begin(self: &Arc<Self>) -> [CallSide; 2] {
        let calls = Arc::clone(self);
        self.changed.wait_until(move || (calls.count.load(Ordering::Relaxed) < MOST).then_some(())).await;
        let is_half_over = Arc::new(AtomicBool::new(false));
        let side = |is_future| CallSide { calls: Arc::clone(self), is_future, is_half_over: Arc::clone(&is_half_over) };
        [true, false].map(side)
    }
}

impl Drop for CallSide {
    fn drop(&mut self) {
        let Self { calls, is_future, is_half_over } = self;
        let was_dropped = calls.changed.change_silently(|| {
            let is_over = is_half_over.swap(true, Ordering::Relaxed);
            if *is_future && !is_over {
                calls.count.fetch_add(1, Ordering::Relaxed);
            }
            let was_dropped = !*is_future && is_over;
            calls.count.fetch_sub(usize::from(was_dropped), Ordering::Relaxed);
            was_dropped
        });
        if was_dropped {
            calls.changed.wake();
        }
    }
}
