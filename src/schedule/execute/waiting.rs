//! What threads wait with, which the loom tests replace by what `loom` has.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
