//! The tokio runtimes of tasks that are futures.

use super::future_task::Runtime;
use super::future_task::RuntimeId;
#[cfg(feature = "tokio")]
use crate::base::catch_panic::contain;

/// Returns the runtime of this handle.
#[cfg(feature = "tokio")]
pub(crate) fn of(handle: tokio::runtime::Handle) -> Runtime {
    Runtime::new(id_of(&handle), move |future| drop(handle.spawn(future)))
}

/// Returns the runtime of this thread.
#[cfg(feature = "tokio")]
pub(crate) fn current() -> Option<Runtime> {
    tokio::runtime::Handle::try_current().ok().map(of)
}

#[cfg(not(feature = "tokio"))]
pub(crate) fn current() -> Option<Runtime> {
    None
}

/// Returns the id of the runtime of this thread. A blocking call on this thread would delay the tasks of that runtime.
#[cfg(feature = "tokio")]
pub(crate) fn here() -> Option<RuntimeId> {
    tokio::runtime::Handle::try_current().ok().as_ref().map(id_of)
}

#[cfg(not(feature = "tokio"))]
pub(crate) fn here() -> Option<RuntimeId> {
    None
}

/// Returns whether the runtime of this thread has threads of its own, which drive its tasks.
#[cfg(feature = "tokio")]
pub(crate) fn has_workers() -> bool {
    use tokio::runtime::{Handle, RuntimeFlavor};
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() != RuntimeFlavor::CurrentThread)
}

#[cfg(not(feature = "tokio"))]
pub(crate) fn has_workers() -> bool {
    false
}

/// Makes a call that blocks this thread. Meanwhile the other threads of the runtime drive the tasks. If the runtime has
/// no other thread, `call` gets the id of the runtime: no task is driven there before the call ends. On such a runtime,
/// `block_in_place` panics. So the function first tries `block_in_place` with an empty closure, and catches the panic.
#[cfg(feature = "tokio")]
pub(crate) fn block<T>(call: impl FnOnce(Option<RuntimeId>) -> T) -> T {
    use tokio::task::block_in_place;
    if contain(|| block_in_place(|| ())).is_ok() { block_in_place(|| call(None)) } else { call(here()) }
}

#[cfg(not(feature = "tokio"))]
pub(crate) fn block<T>(call: impl FnOnce(Option<RuntimeId>) -> T) -> T {
    call(None)
}

#[cfg(feature = "tokio")]
fn id_of(handle: &tokio::runtime::Handle) -> RuntimeId {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    RuntimeId(BuildHasherDefault::<DefaultHasher>::default().hash_one(handle.id()))
}
