//! Catches panics of code that may be another crate's: callbacks, stores, and the `Display` of error types.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Runs `code`, which calls a callback, a store or an error type. Returns the result of `code`, or the message of its
/// panic.
pub(crate) fn contain<T>(code: impl FnOnce() -> T) -> Result<T, Arc<str>> {
    // Unwind safety: after a panic, the callers use no value that `code` may have left half-changed. They still use the
    // slots of a batch, but a panic leaves each slot either empty or with a whole answer.
    catch_unwind(AssertUnwindSafe(code)).map_err(message)
}

/// Drops a value that can hold a value of another crate, for example an error or an observer. That drop can panic.
pub(crate) fn discard<T>(unused: T) {
    let _ = contain(|| drop(unused));
}

fn message(payload: Box<dyn Any + Send>) -> Arc<str> {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("the value of the panic is not a text").into();
    // The drop of a payload can panic, too. The payload of this second panic is leaked, because its drop could panic
    // again.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(payload);
    }
    message
}
