//! Whose turn it is at a record: a short wait for its lock, bounded so that a stopped process does not hang all others.
//!
//! The kernel has no lock that waits in a queue and gives up after a time. So the threads of a process queue up, and
//! the first of them looks for a free moment, as does the first of each other process. A turn takes microseconds, and
//! all look equally often, so that each finds one soon. A wait fails if one process has had the lock for too
//! long, not because many have had it in turn.

use std::fs::{File, TryLockError};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::store::file::open_file::FileId;
use crate::time::clock::Clock;

mod queue;

use queue::First;

/// A turn takes microseconds; one that takes this long will not end by waiting.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a thread waits in the line of its process, and then as long again among processes.
const LIMIT: Duration = Duration::from_secs(20);
/// How often those who wait look who has the lock.
const LOOK: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// The record's lock, held until this is dropped.
#[derive(Debug)]
pub(in crate::store::file) struct RecordLock<'a> {
    record: &'a File,
    /// Goes when the lock has gone.
    _first: First,
}

impl<'a> RecordLock<'a> {
    /// Waits for the lock of `record`, which is this file, on a handle that nobody else uses.
    pub(in crate::store::file) fn at(record: &'a File, id: FileId) -> io::Result<Self> {
        let timed_out = |why: Arc<str>| io::Error::new(io::ErrorKind::TimedOut, &*why);
        let first = First::in_line(id, LIMIT).map_err(timed_out)?;
        match wait_for(record)? {
            Ok(()) => Ok(Self { record, _first: first }),
            Err(why) => {
                first.give_up(&why);
                Err(timed_out(why))
            }
        }
    }
}

/// Waits among other processes. The inner error says who has the lock.
fn wait_for(record: &File) -> io::Result<Result<(), Arc<str>>> {
    for _ in 0..32 {
        if taken(record)? {
            return Ok(Ok(()));
        }
        thread::yield_now();
    }
    let clock = Clock::system();
    let began = clock.moment();
    let (mut holder, mut since, mut looked) = (None, began, began);
    let mut pause = Duration::from_micros(20);
    loop {
        thread::sleep(pause);
        if taken(record)? {
            return Ok(Ok(()));
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        let now = clock.moment();
        if now.since(looked) >= LOOK {
            let present = who_locks(record);
            if holder.is_some() && present.is_some() && present != holder {
                since = now;
            }
            (holder, looked) = (present.or(holder), now);
        }
        if now.since(since) >= PATIENCE {
            let who = holder.map_or(String::new(), |pid| format!(" by pid {pid}"));
            return Ok(Err(format!("it has been locked{who} for {} s", PATIENCE.as_secs()).into()));
        }
        if now.since(began) >= LIMIT {
            return Ok(Err(format!("other processes have locked it in turn for {} s", LIMIT.as_secs()).into()));
        }
    }
}

impl Drop for RecordLock<'_> {
    fn drop(&mut self) {
        // Closing alone would leave it locked while a child that another thread is just starting has a duplicate.
        // If unlocking fails, closing is all there is.
        let _ = self.record.unlock();
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
