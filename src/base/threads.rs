//! Starts threads with names, which a debugger shows.

use std::io;
use std::thread::{Builder, Scope};

/// Starts a thread that is never joined.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Builder::new().name(name.into()).spawn(work).map(drop)
}

/// Starts a thread in `scope`. The end of the scope waits for the end of the thread.
pub(crate) fn start_in<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> io::Result<()> {
    Builder::new().name(name.into()).spawn_scoped(scope, work).map(drop)
}
