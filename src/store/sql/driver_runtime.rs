//! The runtime of one connection: it drives an asynchronous driver until a given moment, while the caller waits.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::{self, Builder};
use std::time::Duration;

use tokio::runtime::{self, Handle, Runtime};
use tokio::time::timeout;

use crate::time::{clock::Clock, clock::moment::Moment};

/// The longest time that the end of a connection can take.
const FAREWELL: Duration = Duration::from_millis(100);

/// A runtime that drives the futures of one connection while the caller waits.
pub(crate) struct DriverRuntime {
    /// The runtime, or `None` while this value is dropped.
    runtime: Option<Runtime>,
}

impl DriverRuntime {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Runs a future until it is done, its time is up, or the driver panics at a reply. If the calling thread is in an
    /// asynchronous runtime, where it must not block, another thread runs the future.
    pub(crate) fn until<T: Send>(&self, until: Moment, future: impl Future<Output = T> + Send) -> io::Result<T> {
        let runtime = self.runtime.as_ref().ok_or_else(|| io::Error::other("the connection was closed"))?;
        let wait = async { timeout(until.since(Clock::system().moment()), future).await.map_err(io::Error::from) };
        // The connection is not used again after a panic, so its state does not matter.
        let run = || {
            catch_unwind(AssertUnwindSafe(|| runtime.block_on(wait))).unwrap_or_else(|_| {
                Err(io::Error::other("the driver panicked while it handled an answer of the server"))
            })
        };
        if Handle::try_current().is_err() {
            return run();
        }
        thread::scope(|scope| {
            let thread = Builder::new().name("soloist-server".to_owned()).spawn_scoped(scope, run)?;
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Runs `goodbye`, which ends a connection, for a short time at most.
    pub(crate) fn leave<T: Send>(&self, goodbye: impl Future<Output = T> + Send) {
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
