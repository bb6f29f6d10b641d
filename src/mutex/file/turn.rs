//! Whose turn it is at a record: a short wait for its lock, bounded so that a stopped process does not hang all others.

use std::fs::{File, TryLockError};
use std::io;
use std::thread;
use std::time::Duration;

use crate::clock::Clock;

/// A turn takes microseconds; one that takes this long will not end by waiting.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// The record's lock, held until this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a File);

impl<'a> Turn<'a> {
    /// Waits for the lock of `record`, on a handle that nobody else uses.
    pub(super) fn at(record: &'a File) -> io::Result<Self> {
        for _ in 0..32 {
            if taken(record)? {
                return Ok(Self(record));
            }
            thread::yield_now();
        }
        let clock = Clock::system();
        let over = clock.moment().plus(PATIENCE);
        let mut pause = Duration::from_micros(20);
        while clock.moment() < over {
            thread::sleep(pause);
            if taken(record)? {
                return Ok(Self(record));
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let who = who_locks(record).map_or(String::new(), |pid| format!(" by pid {pid}"));
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("it has been locked{who} for {} s", PATIENCE.as_secs())))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Closing alone would leave it locked while a child that another thread is just starting has a duplicate.
        // If unlocking fails, closing is all there is.
        let _ = self.0.unlock();
    }
}

fn taken(record: &File) -> io::Result<bool> {
    match record.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The process that has the file locked, if the kernel tells.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn who_locks(record: &File) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;

    let inode = format!(":{}", record.metadata().ok()?.ino());
    // 1: FLOCK  ADVISORY  WRITE 4242 fe:00:131074 0 EOF
    let pid = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (kind, pid, file) = (fields.next()?, fields.nth(2)?, fields.next()?);
        if kind == "FLOCK" && file.ends_with(&inode) { pid.parse().ok() } else { None }
    };
    // The list is read in pieces, and skips some where others come and go meanwhile.
    (0..10).find_map(|_| std::fs::read_to_string("/proc/locks").ok()?.lines().find_map(pid))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn who_locks(_record: &File) -> Option<u32> {
    None
}
