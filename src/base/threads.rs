//! Starts threads, each with a name that a debugger shows. Their work is boxed: without that, the compiler would generate all
//! that it takes to start a thread once more for each kind of work.

use std::io;
use std::thread::{Builder, Scope};

type ThreadWork<'scope> = Box<dyn FnOnce() + Send + 'scope>;

/// Starts a thread that nobody joins.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    fn start(name: &str, work: ThreadWork<'static>) -> io::Result<()> {
        Builder::new().name(name.into()).spawn(work).map(drop)
    }
    start(name, Box::new(work))
}

/// Starts a thread in a scope, which waits for its end.
pub(crate) fn start_in<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> io::Result<()> {
    fn start<'scope>(scope: &'scope Scope<'scope, '_>, name: &str, work: ThreadWork<'scope>) -> io::Result<()> {
        Builder::new().name(name.into()).spawn_scoped(scope, work).map(drop)
    }
    start(scope, name, Box::new(work))
}
