//! Starts threads, each with a name that a debugger shows. Their work is boxed, so that all of this is compiled once.

use std::io;
use std::thread::{Builder, Scope};

type ThreadWork<'scope> = Box<dyn FnOnce() + Send + 'scope>;

/// A thread that nobody joins.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    fn start(name: &str, work: ThreadWork<'static>) -> io::Result<()> {
        Builder::new().name(name.into()).spawn(work).map(drop)
    }
    start(name, Box::new(work))
}

/// A thread that ends before its scope does.
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
