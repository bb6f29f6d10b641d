//! The lock of a mutex. A process holds the lock for microseconds, during a decision.
//!
//! A wait for the lock has a time limit: if a process is suspended while it holds the lock, the other processes must
//! not wait for ever. The kernel has no file lock with a time limit, so a waiting thread tries again and again.

use std::io;
use std::thread;
use std::time::Duration;

use crate::store::{file::error::FileError, file::open_file::OpenFile};
use crate::time::clock::{Clock, moment::Moment};

/// The longest time that one call waits for locks: the sum of all its waits.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The pause between two tries. It is short, because other processes may lock the file so often that it is free only for
/// moments.
const PAUSE: Duration = Duration::from_micros(50);

/// A locked file. The drop of this value unlocks the file.
pub(crate) struct MutexLock(OpenFile);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockKind {
    /// For a decision on this mutex.
    Exclusive,
    /// For a decision on an admission of another mutex: a name of this mutex can exclude that admission. The decision
    /// only reads this mutex, so several such decisions can have the lock together.
    Shared,
}

/// Returns the moment until which a call that begins now may wait for locks.
pub(crate) fn lock_deadline() -> Moment {
    Clock::system().moment().plus(TIMEOUT)
}

impl MutexLock {
    /// Waits for the lock of `file` until `deadline`. If the deadline has passed, tries once to lock the file, and does
    /// not wait.
    pub(crate) fn wait_for(file: OpenFile, kind: LockKind, deadline: Moment) -> Result<Self, FileError> {
        loop {
            let is_locked = match kind {
                LockKind::Exclusive => file.try_lock()?,
                LockKind::Shared => file.try_lock_shared()?,
            };
            if is_locked {
                return Ok(Self(file));
            }
            if deadline <= Clock::system().moment() {
                let why = format!(
                    "it is locked, and a call waits for a few seconds at most: find the process with `fuser '{}'`, and \
                     continue or end it",
                    file.path.display()
                );
                return Err(FileError::at(&file.path)(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for MutexLock {
    fn drop(&mut self) {
        // An error is ignored, because the file is closed anyway.
        let _ = self.0.file.unlock();
    }
}
