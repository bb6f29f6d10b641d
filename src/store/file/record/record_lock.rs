//! The lock of a record: a short wait for it, bounded so that a stopped process does not hang all others.
//!
//! The kernel has no lock that waits in a queue and gives up after a time. So the threads of a process queue up, and
//! the first of them looks for a free moment, as does the first of each other process. A process has the lock
//! for microseconds, and all look equally often, so that each finds a free moment soon. A wait fails if one process has had the lock for too
//! long, not because many have had it in turn, or many threads of one process.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::store::{file::error::FileError, file::open_file::OpenFile};
use crate::time::clock::Clock;

mod queue;

use queue::QueueHead;

/// A process has the lock for microseconds. One that has had it for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a thread waits in the queue of its process, and then as long again among processes.
const LIMIT: Duration = Duration::from_secs(20);
/// How often a waiting thread looks which process has the lock.
const LOOK: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// The record's lock, held until this is dropped.
#[derive(Debug)]
pub(super) struct RecordLock<'a> {
    record: &'a OpenFile,
    /// Goes when the lock has gone.
    _head: QueueHead,
}

impl<'a> RecordLock<'a> {
    /// Waits for the lock of `record`, on a handle that nobody else uses.
    pub(super) fn wait_for(record: &'a OpenFile) -> Result<Self, FileError> {
        let timed_out = |why: Arc<str>| FileError::at(record.path())(io::Error::new(io::ErrorKind::TimedOut, &*why));
        let head = QueueHead::wait_for(record.id(), LIMIT).map_err(timed_out)?;
        match try_for_long(record)? {
            None => Ok(Self { record, _head: head }),
            Some(why) => {
                head.give_up(&why);
                Err(timed_out(why))
            }
        }
    }
}

/// Waits among other processes for the lock, or returns why it was given up.
fn try_for_long(record: &OpenFile) -> Result<Option<Arc<str>>, FileError> {
    for _ in 0..32 {
        if record.try_lock()? {
            return Ok(None);
        }
        thread::yield_now();
    }
    let clock = Clock::system();
    let began = clock.moment();
    let (mut holder, mut written, mut since, mut looked) = (None, record.written_at(), began, began);
    let mut pause = Duration::from_micros(20);
    loop {
        thread::sleep(pause);
        if record.try_lock()? {
            return Ok(None);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        let now = clock.moment();
        if now.since(looked) >= LOOK {
            let (present, last_written) = (who_locks(record), record.written_at());
            // A process that is stuck writes nothing.
            if (holder.is_some() && present.is_some() && present != holder) || last_written != written {
                since = now;
            }
            (holder, written, looked) = (present.or(holder), last_written, now);
        }
        if now.since(since) >= PATIENCE {
            let who = holder.map_or(String::new(), |pid| format!(" by pid {pid}"));
            return Ok(Some(format!("it has been locked{who} for {} s", PATIENCE.as_secs()).into()));
        }
        if now.since(began) >= LIMIT {
            return Ok(Some(format!("other processes have locked it in turn for {} s", LIMIT.as_secs()).into()));
        }
    }
}

impl Drop for RecordLock<'_> {
    fn drop(&mut self) {
        // If unlocking fails, closing is all there is.
        let _ = self.record.unlock();
    }
}

/// Returns the process that has the file locked, if the kernel tells.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn who_locks(record: &OpenFile) -> Option<u32> {
    let inode = format!(":{}", record.id().inode);
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
fn who_locks(_record: &OpenFile) -> Option<u32> {
    None
}
