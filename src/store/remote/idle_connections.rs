//! The connections that are kept open between two calls: a few, and for half a second.
//!
//! The calls of a tick follow one another closely, so that one connection serves them all. While a task is at work, which
//! can take minutes, none is kept: a server has room for so many, and another process may need it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::time::{clock::Clock, clock::moment::Moment};

/// The most connections that are kept.
const MOST: usize = 4;

/// How long a connection is kept that nobody uses.
const KEPT_FOR: Duration = Duration::from_millis(500);

pub(super) struct IdleConnections<C> {
    pool: Arc<Mutex<Pool<C>>>,
}

struct Pool<C> {
    /// The one that has been unused for longest comes first.
    connections: Vec<Idle<C>>,
    /// Whether a thread is there that closes what has been kept long enough.
    attended: bool,
}

struct Idle<C> {
    connection: C,
    until: Moment,
}

impl<C> Default for IdleConnections<C> {
    fn default() -> Self {
        Self { pool: Arc::new(Mutex::new(Pool { connections: Vec::new(), attended: false })) }
    }
}

impl<C: Send + 'static> IdleConnections<C> {
    /// The connection that was used last.
    pub(super) fn pop(&self) -> Option<C> {
        locked(&self.pool).connections.pop().map(|idle| idle.connection)
    }

    /// Keeps a connection for the next call.
    pub(super) fn keep(&self, connection: C) {
        let mut pool = locked(&self.pool);
        if pool.connections.len() < MOST && (pool.attended || self.attend()) {
            pool.attended = true;
            pool.connections.push(Idle { connection, until: Clock::system().moment().plus(KEPT_FOR) });
        }
    }

    /// All connections, which nobody else gets from now on.
    pub(super) fn take(&self) -> Vec<C> {
        locked(&self.pool).connections.drain(..).map(|idle| idle.connection).collect()
    }

    /// Starts the thread; `false`: there is none to be had.
    fn attend(&self) -> bool {
        let pool = Arc::downgrade(&self.pool);
        let attend = move || {
            let mut pause = Some(KEPT_FOR);
            while let Some(left) = pause {
                thread::sleep(left); // nobody waits for this thread
                pause = close_what_was_kept(&pool);
            }
        };
        thread::Builder::new().name("soloist-idle".to_owned()).spawn(attend).is_ok()
    }
}

/// Closes the connections whose time is up, and says when the next one's is, if there is one.
fn close_what_was_kept<C>(pool: &Weak<Mutex<Pool<C>>>) -> Option<Duration> {
    let pool = pool.upgrade()?;
    let now = Clock::system().moment();
    let mut locked = locked(&pool);
    let over = locked.connections.iter().take_while(|idle| idle.until <= now).count();
    let closed: Vec<Idle<C>> = locked.connections.drain(..over).collect();
    let next = locked.connections.first().map(|idle| idle.until.since(now));
    locked.attended = next.is_some();
    drop(locked);
    drop(closed); // A goodbye to the server takes a moment.
    next
}

fn locked<C>(pool: &Mutex<Pool<C>>) -> MutexGuard<'_, Pool<C>> {
    // No code that can panic runs while it is half-changed.
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}
