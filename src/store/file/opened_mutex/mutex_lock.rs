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

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// The length of the last part of a wait. In this part, the thread does not pause between its tries. Other processes
/// may lock the file so often that it is free only for moments, and a thread that pauses would miss these moments.
const WITHOUT_PAUSES: Duration = Duration::from_secs(1);

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
        let mut pause = Duration::from_micros(20);
        loop {
            let is_locked = match kind {
                LockKind::Exclusive => file.try_lock()?,
                LockKind::Shared => file.try_lock_shared()?,
            };
            if is_locked {
                return Ok(Self(file));
            }
            let left = deadline.since(Clock::system().moment());
            if left.is_zero() {
                let who = who_locks(&file).map_or(String::new(), |pid| format!(" by pid {pid}"));
                let why = format!("it is locked{who}, and a call waits at most {} s for locks", TIMEOUT.as_secs());
                return Err(FileError::at(&file.path)(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
            if left < WITHOUT_PAUSES {
                thread::yield_now();
            } else {
                thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

impl Drop for MutexLock {
    fn drop(&mut self) {
        // An error is ignored, because the file is closed anyway.
        let _ = self.0.file.unlock();
    }
}

/// Returns the id of the process that has locked the file, if the kernel lists it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn who_locks(file: &OpenFile) -> Option<u32> {
    use rustix::fs::{major, minor};
    use std::os::unix::fs::MetadataExt;

    let found = file.file.metadata().ok()?;
    // The inode alone does not name the file, because each device has its own inodes. On btrfs, the kernel lists another
    // device than the file's, so no process is found.
    let id = format!("{:02x}:{:02x}:{}", major(found.dev()), minor(found.dev()), found.ino());
    // The kernel returns the list in pieces. If other locks come and go between two pieces, a lock may be missing. So
    // the list is read several times.
    (0..10).find_map(|_| pid_in(&std::fs::read_to_string("/proc/locks").ok()?, &id))
}

/// Returns the id of the process that has locked the file `id`, from the text of `/proc/locks`. A line is, for example:
/// `1: FLOCK  ADVISORY  WRITE 4242 fe:00:131074 0 EOF`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn pid_in(locks: &str, id: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (kind, pid, file) = (fields.next()?, fields.nth(2)?, fields.next()?);
        if kind == "FLOCK" && file == id { pid.parse().ok() } else { None }
    })
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn who_locks(_file: &OpenFile) -> Option<u32> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_locks_a_file_is_found_by_device_and_inode() {
        let locks = "1: FLOCK  ADVISORY  WRITE 41 00:2a:17 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 42 fe:10:17 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 43 fe:10:17 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 44 fe:10:17 0 EOF\n";
        let found = ["00:2a:17", "fe:10:17", "00:2b:17", "fe:10:7"].map(|id| pid_in(locks, id));
        assert_eq!(found, [Some(41), Some(44), None, None]);
    }
}
