//! The idle connections of one process: the next call uses the latest, and a thread closes the others.
//!
//! The calls of a tick follow one another closely, so that one connection serves them all. While a task runs, which can take
//! minutes, none is kept: a server has room for so many, and another process may need it.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::base::threads;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The most idle connections that are kept, and the shortest time for which each is.
const MOST_IDLE: usize = 8;
const IDLE_FOR: Duration = Duration::from_millis(500);

pub(super) struct IdleConnections<C>(Mutex<Idle<C>>);

struct Idle<C> {
    /// Each with the moment of its last use, the latest at the end.
    connections: Vec<(Moment, C)>,
    has_thread: bool,
}

impl<C> Default for IdleConnections<C> {
    fn default() -> Self {
        Self(Mutex::new(Idle { connections: Vec::new(), has_thread: false }))
    }
}

impl<C: Send + 'static> IdleConnections<C> {
    /// Takes the connection that was used last.
    pub(super) fn take(&self) -> Option<C> {
        Some(self.locked().connections.pop()?.1)
    }

    /// Keeps a connection for the next call, unless there are enough, or no thread can be started that would close it.
    pub(super) fn keep(self: &Arc<Self>, connection: C) {
        let mut idle = self.locked();
        if idle.connections.len() < MOST_IDLE {
            let this = Arc::clone(self);
            idle.has_thread =
                idle.has_thread || threads::start("soloist-housekeeper", move || this.close_unused()).is_ok();
            if idle.has_thread {
                return idle.connections.push((Clock::system().moment(), connection));
            }
        }
        drop(idle); // A goodbye to the server takes a moment.
    }

    pub(super) fn close_all(&self) {
        let closed = mem::take(&mut self.locked().connections);
        drop(closed);
    }

    /// Closes each connection that no call has used for a while, until there is none.
    fn close_unused(&self) {
        let mut has_work = true;
        while has_work {
            thread::sleep(IDLE_FOR);
            let (mut idle, now) = (self.locked(), Clock::system().moment());
            let unused = idle.connections.partition_point(|(since, _)| since.plus(IDLE_FOR) <= now);
            let closed: Vec<_> = idle.connections.drain(..unused).collect();
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
        for _ in 0..2 {
            idle.keep(Arc::clone(&connection));
            assert!(idle.take().is_some(), "the next call uses it");
            idle.keep(Arc::clone(&connection));
            while Arc::strong_count(&connection) > 1 || idle.locked().has_thread {
                thread::sleep(Duration::from_millis(10)); // between two looks at another thread
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
