//! The atomics and locks for waiting threads. The loom tests replace them by those of loom.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
