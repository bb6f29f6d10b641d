//! Calls whose futures were dropped while their threads wait for the store: each has a thread, and mostly a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::hold::signal::Signal;

/// How many dropped calls may wait for one store before the next call waits for one of them to end.
const MOST: usize = 16;

/// The dropped calls that wait for one store.
#[derive(Default)]
pub(crate) struct DroppedCalls {
    count: AtomicUsize,
    /// Locked for each change of the count, and wakes the calls that wait for a lower one.
    changed: Arc<Signal>,
}

/// A call that a future waits for and a thread makes.
struct DroppableCall {
    of: Arc<DroppedCalls>,
    /// Whether the future was dropped, or the thread has ended.
    is_half_over: AtomicBool,
}

/// The part of a call that its future has, and drops with itself.
pub(crate) struct FutureHalf(Arc<DroppableCall>);

/// The part of a call that its thread has until it ends.
pub(crate) struct ThreadHalf(Arc<DroppableCall>);

impl DroppedCalls {
    /// Begins a call as soon as fewer than 16 dropped calls wait for the store.
    pub(crate) async fn begin(self: &Arc<Self>) -> (FutureHalf, ThreadHalf) {
        let calls = Arc::clone(self);
        self.changed.wait_until(move || (calls.count.load(Ordering::Relaxed) < MOST).then_some(())).await;
        let call = Arc::new(DroppableCall { of: Arc::clone(self), is_half_over: AtomicBool::new(false) });
        (FutureHalf(Arc::clone(&call)), ThreadHalf(call))
    }
}

impl Drop for FutureHalf {
    fn drop(&mut self) {
        let DroppableCall { of, is_half_over } = &*self.0;
        of.changed.change_silently(|| {
            if !is_half_over.swap(true, Ordering::Relaxed) {
                of.count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

impl Drop for ThreadHalf {
    fn drop(&mut self) {
        let DroppableCall { of, is_half_over } = &*self.0;
        let was_dropped = of.changed.change_silently(|| {
            let was_dropped = is_half_over.swap(true, Ordering::Relaxed);
            if was_dropped {
                of.count.fetch_sub(1, Ordering::Relaxed);
            }
            was_dropped
        });
        if was_dropped {
            of.changed.wake();
        }
    }
}
