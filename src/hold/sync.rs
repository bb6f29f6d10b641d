//! The atomics and locks of the code that is tested with `loom`. These tests use the types of `loom` instead.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
