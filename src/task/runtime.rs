//! The runtime that drives the tasks that are futures.

use super::future_task::Runtime;
use super::future_task::RuntimeId;

/// The runtime that has this handle.
#[cfg(feature = "tokio")]
pub(crate) fn of(handle: tokio::runtime::Handle) -> Runtime {
    Runtime::new(id_of(&handle), move |future| drop(handle.spawn(future)))
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

/// The runtime that this thread is in, and may keep from driving anything while it waits; and how many threads drive it.
#[cfg(feature = "tokio")]
pub(crate) fn here() -> Option<(RuntimeId, usize)> {
    let handle = tokio::runtime::Handle::try_current().ok()?;
    Some((id_of(&handle), handle.metrics().num_workers()))
}

#[cfg(not(feature = "tokio"))]
pub(crate) fn here() -> Option<(RuntimeId, usize)> {
    None
}

#[cfg(feature = "tokio")]
fn id_of(handle: &tokio::runtime::Handle) -> RuntimeId {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    RuntimeId(BuildHasherDefault::<DefaultHasher>::default().hash_one(handle.id()))
}
