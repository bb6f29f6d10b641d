//! The idle connections of one process. The next call uses the connection that was used last. A thread closes
//! connections that no call uses.
//!
//! The calls of a tick follow one another closely, and share one connection. No connection is kept while a task runs
//! for minutes, because a server has room for a limited number of connections.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::base::threads;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The greatest number of idle connections.
const MOST_IDLE: usize = 8;

/// The shortest time until an idle connection is closed.
const IDLE_FOR: Duration = Duration::from_millis(500);

pub(super) struct IdleConnections<C>(Mutex<Idle<C>>);

struct Idle<C> {
    /// The connections, each with the moment of its last use. The connection that was used last is at the end.
    connections: Vec<(Moment, C)>,
    /// The connections that no call uses any more. The thread closes them.
    expired: Vec<C>,
    has_thread: bool,
}

impl<C> Default for IdleConnections<C> {
    fn default() -> Self {
        Self(Mutex::new(Idle { connections: Vec::new(), expired: Vec::new(), has_thread: false }))
    }
}

impl<C: Send + 'static> IdleConnections<C> {
    /// Takes the connection that was used last.
    pub(super) fn take(&self) -> Option<C> {
        Some(self.locked().connections.pop()?.1)
    }

    /// Keeps a connection for the next call. If `MOST_IDLE` connections are idle already, or if no thread can be
    /// started to close this connection later, the connection is closed now.
    pub(super) fn keep(self: &Arc<Self>, connection: C) {
        let mut idle = self.locked();
        if idle.connections.len() < MOST_IDLE {
            let this = Arc::clone(self);
            idle.has_thread = idle.has_thread || threads::start("soloist-idle", move || this.close_unused()).is_ok();
            if idle.has_thread {
                return idle.connections.push((Clock::system().moment(), connection));
            }
        }
        drop(idle); // Closing the connection takes a moment, so the lock is released first.
    }

    /// Gives all idle connections to the thread that closes connections, so that the caller need not wait.
    pub(super) fn expire(&self) {
        let mut idle = self.locked();
        let connections = mem::take(&mut idle.connections);
        idle.expired.extend(connections.into_iter().map(|(_, connection)| connection));
    }

    /// Closes all connections.
    pub(super) fn close_all(&self) {
        let mut idle = self.locked();
        let closed = (mem::take(&mut idle.connections), mem::take(&mut idle.expired));
        drop(idle);
        drop(closed);
    }

    /// Closes the connections that no call has used for a while, and returns when none is left.
    fn close_unused(&self) {
        let mut has_work = true;
        while has_work {
            thread::sleep(IDLE_FOR);
            let (mut idle, now) = (self.locked(), Clock::system().moment());
            let unused = idle.connections.partition_point(|(since, _)| since.plus(IDLE_FOR) <= now);
            let closed: (Vec<_>, Vec<C>) = (idle.connections.drain(..unused).collect(), mem::take(&mut idle.expired));
            has_work = !idle.connections.is_empty();
            idle.has_thread = has_work;
            drop(idle);
            drop(closed);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Idle<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_closed_that_no_call_uses_and_the_thread_ends() {
        let (idle, connection) = (Arc::new(IdleConnections::default()), Arc::new(()));
        for is_expired in [false, true] {
            idle.keep(Arc::clone(&connection));
            assert!(idle.take().is_some(), "the next call uses it");
            idle.keep(Arc::clone(&connection));
            if is_expired {
                idle.expire();
                assert!(idle.take().is_none(), "no call uses it any more");
            }
            while Arc::strong_count(&connection) > 1 || idle.locked().has_thread {
                thread::sleep(Duration::from_millis(10)); // between two checks of the other thread
            }
        }
    }

    #[test]
    fn no_more_than_eight_are_kept() {
        let idle = Arc::new(IdleConnections::default());
        (0..20).for_each(|number| idle.keep(number));
        assert_eq!(idle.locked().connections.len(), MOST_IDLE);
        idle.close_all();
        assert!(idle.take().is_none());
    }
}
