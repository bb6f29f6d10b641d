//! What threads wait with, under one name, so that a test can put in its place what tries every order of their steps.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
