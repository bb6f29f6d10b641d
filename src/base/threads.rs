//! Starts threads with names, which a debugger shows. The work is boxed, so that the code that starts a thread is
//! compiled only once.

use std::io;
use std::thread::{Builder, Scope};

type ThreadWork<'scope> = Box<dyn FnOnce() + Send + 'scope>;

/// Starts a thread that is never joined.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    fn start(name: &str, work: ThreadWork<'static>) -> io::Result<()> {
        Builder::new().name(name.into()).spawn(work).map(drop)
    }
    start(name, Box::new(work))
}

/// Starts a thread in `scope`. The end of the scope waits for the end of the thread.
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
