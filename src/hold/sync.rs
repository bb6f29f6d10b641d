//! The atomics and locks on which threads wait. The tests with `loom` replace them by the types of `loom`.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
