//! Catches the panics of somebody else's code.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Runs somebody's code and goes on, with its result or with the message of its panic.
pub(crate) fn contain<T>(code: impl FnOnce() -> T) -> Result<T, Arc<str>> {
    // Unwind safety: what the code left half-done is its own; nothing of ours is borrowed mutably by it.
    catch_unwind(AssertUnwindSafe(code)).map_err(message)
}

fn message(payload: Box<dyn Any + Send>) -> Arc<str> {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("with something that is not a text").into();
    // A payload may panic when it is dropped: what comes of that is leaked, so that it ends here.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(payload);
    }
    message
}
