//! The lock of a mutex, which a process holds during a decision: for microseconds.
//!
//! A wait for the lock is bounded, so that a stopped process does not hang all others. The kernel has no file lock with
//! a timeout, so a waiting thread tries again and again.

use std::io;
use std::thread;
use std::time::Duration;

use crate::store::{file::error::FileError, file::open_file::OpenFile};
use crate::time::clock::{Clock, moment::Moment};

/// The longest wait of one call for all its locks.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// The last part of the wait has no pauses, because other processes may lock the file again and again, and leave it
/// free only for moments.
const WITHOUT_PAUSES: Duration = Duration::from_secs(1);

/// A locked file. It is unlocked when this is dropped.
pub(crate) struct MutexLock(OpenFile);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockKind {
    /// For a decision on this mutex.
    Exclusive,
    /// For a decision on another mutex, which is excluded while this mutex is held.
    Shared,
}

/// Returns the moment at which a call that begins now gives up its waits for locks.
pub(crate) fn lock_deadline() -> Moment {
    Clock::system().moment().plus(TIMEOUT)
}

impl MutexLock {
    /// Waits for the lock of `file` until `deadline`. After the deadline, the lock is still taken if it is free.
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
                let why = format!("it is locked{who}, and a call waits {} s for all its locks", TIMEOUT.as_secs());
                return Err(FileError::at(file.path())(io::Error::new(io::ErrorKind::TimedOut, why)));
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
        // If unlocking fails, nothing is left but to close the file.
        let _ = self.0.unlock();
    }
}

/// Returns the process that has the file locked, if the kernel names it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn who_locks(file: &OpenFile) -> Option<u32> {
    let inode = format!(":{}", file.inode());
    // 1: FLOCK  ADVISORY  WRITE 4242 fe:00:131074 0 EOF
    let pid = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (kind, pid, file) = (fields.next()?, fields.nth(2)?, fields.next()?);
        if kind == "FLOCK" && file.ends_with(&inode) { pid.parse().ok() } else { None }
    };
    // The kernel gives out the list in pieces. A lock may be missing if other locks come and go meanwhile, so the list
    // is read several times.
    (0..10).find_map(|_| std::fs::read_to_string("/proc/locks").ok()?.lines().find_map(pid))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn who_locks(_file: &OpenFile) -> Option<u32> {
    None
}
