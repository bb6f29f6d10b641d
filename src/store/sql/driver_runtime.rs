//! The runtime of one connection: it drives an asynchronous driver on the calling thread, until a given moment.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;

use crate::time::{clock::Clock, clock::moment::Moment};

/// The longest time that the end of a connection can take.
const FAREWELL: Duration = Duration::from_millis(100);

/// A runtime that drives the futures of one connection on the calling thread.
pub(crate) struct DriverRuntime {
    /// The runtime, or `None` while this value is dropped.
    runtime: Option<Runtime>,
}

impl DriverRuntime {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Runs a future until it is done, its time is up, or the driver panics at a reply. The calling thread must not be
    /// in an asynchronous runtime: see [`outside_any_runtime`].
    pub(crate) fn until<T>(&self, until: Moment, future: impl Future<Output = T>) -> io::Result<T> {
        let runtime = self.runtime.as_ref().ok_or_else(|| io::Error::other("the connection was closed"))?;
        let wait = async { timeout(until.since(Clock::system().moment()), future).await.map_err(io::Error::from) };
        // The connection is not used again after a panic, so its state does not matter.
        catch_unwind(AssertUnwindSafe(|| runtime.block_on(wait)))
            .unwrap_or_else(|_| Err(io::Error::other("the driver panicked while it handled an answer of the server")))
    }

    /// Runs `goodbye`, which ends a connection, for a short time at most.
    pub(crate) fn leave<T>(&self, goodbye: impl Future<Output = T>) {
        let _ = self.until(Clock::system().moment().plus(FAREWELL), goodbye);
    }
}

/// Shuts the runtime down without waiting for its tasks, such as the look-up of a host's name, which has no time limit.
impl Drop for DriverRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs `call` on a thread that may block. This is the calling thread, or a new thread if the calling thread is in an
/// asynchronous runtime.
pub(crate) fn outside_any_runtime<T: Send>(call: impl FnOnce() -> T + Send) -> io::Result<T> {
    if Handle::try_current().is_err() {
        return Ok(call());
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("soloist-server".to_owned()).spawn_scoped(scope, call)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
