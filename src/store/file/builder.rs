//! The builder of a `FileMutex`.

use std::path::PathBuf;

use super::network_filesystem::NetworkFilesystem;
use crate::time::clock::Clock;

/// The options of a [`FileMutex`](crate::FileMutex).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let mutex = soloist::FileMutex::builder(dir).open()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before `open()`"]
pub struct FileMutexBuilder {
    pub(super) path: PathBuf,
    pub(super) clock: Clock,
    pub(super) network: NetworkFilesystem,
}

impl FileMutexBuilder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, clock: Clock::system(), network: NetworkFilesystem::Refuse }
    }

    /// Sets the clock of the store. The default is the machine's clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::store::LeaseRequest;
    /// use soloist::time::{Clock, ManualClock};
    /// use soloist::{EventMutex, FileMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path();
    /// let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
    /// let mutex = FileMutex::builder(dir).clock(&clock).open()?;
    /// let name = MutexName::lease("reports")?;
    /// mutex.create(&LeaseRequest::new(name.clone(), Term::new(Duration::from_secs(60))?, &Clock::from(&clock)))?;
    /// clock.advance(Duration::from_secs(60));
    /// assert!(!mutex.exists(&name)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        Self { clock: clock.into(), ..self }
    }

    /// Sets whether a directory on a network filesystem is refused or used. The default is to refuse it. Network
    /// filesystems are recognised only on Linux.
    pub fn on_network_filesystem(self, network: NetworkFilesystem) -> Self {
        Self { network, ..self }
    }
}
