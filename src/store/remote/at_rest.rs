//! The connections that are kept open between two calls: a few, and for a moment.
//!
//! The calls of a tick follow one another closely, so that one connection serves them all. While a task is at work, which
//! can take minutes, none is kept: a server has room for so many, and another process may need it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::server::Connect;
use crate::time::clock::Clock;
use crate::time::clock::moment::Moment;

/// The most connections that are kept.
const MOST: usize = 4;

/// How long a connection is kept that nobody uses.
const KEPT_FOR: Duration = Duration::from_millis(500);

pub(super) struct AtRest<C> {
    state: Arc<Mutex<State<C>>>,
}

struct State<C> {
    /// The one that has been unused for longest comes first.
    connections: Vec<Resting<C>>,
    /// Whether a thread is there that closes what has been kept long enough.
    attended: bool,
}

struct Resting<C> {
    connection: C,
    until: Moment,
}

impl<C> Default for AtRest<C> {
    fn default() -> Self {
        Self { state: Arc::new(Mutex::new(State { connections: Vec::new(), attended: false })) }
    }
}

impl<C: Connect> AtRest<C> {
    /// The connection that was used last, unless it has ended meanwhile.
    pub(super) fn wake(&self) -> Option<C> {
        let mut state = locked(&self.state);
        while let Some(mut resting) = state.connections.pop() {
            if !resting.connection.is_closed() {
                return Some(resting.connection);
            }
        }
        None
    }

    /// Keeps a connection for the next call.
    pub(super) fn keep(&self, connection: C) {
        let mut state = locked(&self.state);
        if state.connections.len() < MOST && (state.attended || self.attend()) {
            state.attended = true;
            state.connections.push(Resting { connection, until: Clock::system().moment().plus(KEPT_FOR) });
        }
    }

    /// All connections, which nobody else gets from now on.
    pub(super) fn take(&self) -> Vec<C> {
        locked(&self.state).connections.drain(..).map(|resting| resting.connection).collect()
    }

    /// Starts the thread; `false`: there is none to be had.
    fn attend(&self) -> bool {
        let state = Arc::downgrade(&self.state);
        let attend = move || {
            let mut pause = Some(KEPT_FOR);
            while let Some(left) = pause {
                thread::sleep(left); // nobody waits for this thread
                pause = close_what_was_kept(&state);
            }
        };
        thread::Builder::new().name("soloist-at-rest".to_owned()).spawn(attend).is_ok()
    }
}

/// Closes the connections whose time is up, and says when the next one's is, if there is one.
fn close_what_was_kept<C>(state: &Weak<Mutex<State<C>>>) -> Option<Duration> {
    let state = state.upgrade()?;
    let now = Clock::system().moment();
    let mut locked = locked(&state);
    let over = locked.connections.iter().take_while(|resting| resting.until <= now).count();
    let closed: Vec<Resting<C>> = locked.connections.drain(..over).collect();
    let next = locked.connections.first().map(|resting| resting.until.since(now));
    locked.attended = next.is_some();
    drop(locked);
    drop(closed); // A goodbye to the server takes a moment.
    next
}

fn locked<C>(state: &Mutex<State<C>>) -> MutexGuard<'_, State<C>> {
    // No code that can panic runs while it is half-changed.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
