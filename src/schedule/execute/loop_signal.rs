//! What wakes the thread of a loop: a worker, the end of a future, a change of a run.

use std::sync::PoisonError;
use std::time::Duration;

use super::waiting::{Condvar, Mutex};

/// Remembers a wake-up until the next wait, so that none is lost.
#[derive(Default)]
pub(super) struct LoopSignal {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl LoopSignal {
    pub(super) fn wake(&self) {
        *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    /// Waits until it is woken, or was since the last wait; for `patience` at most, if there is one. `false`: nobody did.
    pub(super) fn wait(&self, patience: Option<Duration>) -> bool {
        let mut is_woken = self.is_woken.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_woken {
            let Some(patience) = patience else {
                is_woken = self.changed.wait(is_woken).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (guard, look) = self.changed.wait_timeout(is_woken, patience).unwrap_or_else(PoisonError::into_inner);
            is_woken = guard;
            if look.timed_out() {
                break;
            }
        }
        std::mem::take(&mut *is_woken)
    }
}
