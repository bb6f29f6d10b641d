//! Locks a mutex, also after another thread has panicked while it held the lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. In this crate, no code that can panic runs while the value of a mutex is half-changed. So the value
/// is complete even if the lock is poisoned.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
