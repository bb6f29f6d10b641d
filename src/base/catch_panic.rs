//! Contains the panics of callbacks, stores and error types.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Runs the code of a callback, a store or an error, and returns its result or the message of its panic.
pub(crate) fn contain<T>(code: impl FnOnce() -> T) -> Result<T, Arc<str>> {
    // Unwind safety: the code leaves only its own state half-changed, because it borrows nothing mutably from its caller.
    catch_unwind(AssertUnwindSafe(code)).map_err(message)
}

fn message(payload: Box<dyn Any + Send>) -> Arc<str> {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("with something that is not a text").into();
    // A payload may panic when it is dropped. The payload of that panic is leaked.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(payload);
    }
    message
}
