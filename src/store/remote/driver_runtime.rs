//! The runtime of one connection: it drives an asynchronous driver on the thread that asks, until a given moment.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;

use crate::time::{clock::Clock, clock::moment::Moment};

/// How long the end of a connection may take.
const FAREWELL: Duration = Duration::from_millis(100);

/// What a connection's future is waited for with, on the thread that asks.
pub(crate) struct DriverRuntime {
    /// Taken when it goes.
    runtime: Option<Runtime>,
}

impl DriverRuntime {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// What comes of it, or that time is up, or that the driver panicked at what it heard. Called [`outside_any_runtime`] of any
    /// runtime.
    pub(crate) fn until<T>(&self, until: Moment, future: impl Future<Output = T>) -> io::Result<T> {
        let runtime = self.runtime.as_ref().ok_or_else(|| io::Error::other("the connection was closed"))?;
        let wait = async { timeout(until.since(Clock::system().moment()), future).await.map_err(io::Error::from) };
        // Whoever it happens on does not ask on this connection again.
        catch_unwind(AssertUnwindSafe(|| runtime.block_on(wait)))
            .unwrap_or_else(|_| Err(io::Error::other("the driver panicked at what the server answered")))
    }

    /// Lets a connection say goodbye to its server. However that goes, it is closed.
    #[cfg_attr(not(feature = "sql"), expect(dead_code))]
    pub(crate) fn leave<T>(&self, goodbye: impl Future<Output = T>) {
        let _ = self.until(Clock::system().moment().plus(FAREWELL), goodbye);
    }
}

/// It does not wait for what still runs, such as a look-up of a host's name, which knows no time limit.
impl Drop for DriverRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Calls this where a runtime can be waited for: in a task of one of the application's own, that is another thread.
pub(crate) fn outside_any_runtime<T: Send>(call: impl FnOnce() -> T + Send) -> io::Result<T> {
    if Handle::try_current().is_err() {
        return Ok(call());
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("soloist-server".to_owned()).spawn_scoped(scope, call)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
