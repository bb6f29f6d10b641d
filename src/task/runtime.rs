//! The runtime that drives the tasks that are futures.

#[cfg(feature = "tokio")]
use std::sync::Arc;

use super::future_task::Runtime;

/// The runtime that has this handle.
#[cfg(feature = "tokio")]
pub(crate) fn of(handle: tokio::runtime::Handle) -> Runtime {
    Arc::new(move |future| drop(handle.spawn(future)))
}

/// The runtime that this thread is in.
#[cfg(feature = "tokio")]
pub(crate) fn current() -> Option<Runtime> {
    tokio::runtime::Handle::try_current().ok().map(of)
}

#[cfg(not(feature = "tokio"))]
pub(crate) fn current() -> Option<Runtime> {
    None
}

/// Whether this thread is in a runtime, which may be kept from driving anything while it waits.
pub(crate) fn is_here() -> bool {
    current().is_some()
}
