//! The builder of a `FileMutex`.

use std::io;
use std::path::{Path, PathBuf};

use super::directory::Directory;
use super::error::directory_error;
use super::network_filesystem::NetworkFilesystem;
use crate::base::error::MutexError;
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
    path: PathBuf,
    clock: Clock,
    network: NetworkFilesystem,
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

    /// Opens or makes the directory. Returns its absolute path, the directory, and the clock.
    pub(super) fn parts(self) -> Result<(PathBuf, Directory, Clock), MutexError> {
        let Self { path, clock, network } = self;
        let open = || {
            check_path(&path)?;
            let dir = std::path::absolute(&path)?;
            let directory = Directory::open_or_make(&dir, network)?;
            Ok((dir, directory))
        };
        let shown = if path.as_os_str().is_empty() { "of a store".into() } else { path.to_string_lossy() };
        let (dir, directory) = open().map_err(|error| directory_error(format!("open the directory {shown}"), error))?;
        Ok((dir, directory, clock))
    }
}

/// Refuses a path that is not absolute. Otherwise, processes with different working directories, such as those of cron
/// and of a shell, would use different directories.
fn check_path(path: &Path) -> io::Result<()> {
    let why = if path.is_absolute() {
        return Ok(());
    } else if path.as_os_str().is_empty() {
        "its path is empty: write one"
    } else if path.starts_with("~") {
        "its path begins with ~, but only a shell replaces ~: write the whole path,"
    } else {
        "its path is relative, and so depends on the working directory of each process: write the whole path,"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{why} such as /var/lib/myapp/locks")))
}
