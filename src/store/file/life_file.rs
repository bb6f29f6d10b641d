//! The life files of a mutex. A locked life file says that its holder still lives.
//!
//! Only a holder locks a life file exclusively. A read takes a shared lock for a moment, under the lock of the mutex,
//! so that the read disturbs neither another read nor a create.

#[cfg(unix)]
use std::fs::File;

use super::error::FileError;
use super::open_file::OpenFile;
use super::paths::{MutexPaths, STATE, life};
use crate::base::process_id;
use crate::lease::holder::Holder;
#[cfg(unix)]
use crate::lease::label::this_host;

/// The greatest number of holders of one mutex that may still live after the end of their leases.
const GENERATIONS: u32 = 1000;

/// The identity of a life file that a holder has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LifeId {
    /// The number in the file's name.
    pub(super) generation: u32,
    /// The inode, which tells the file from a later file of this name, or zero if the system has no inodes.
    pub(super) inode: u64,
}

/// A life file that this process has locked. As long as this value is kept, the file proves that the holder lives.
///
/// Each acquisition has a handle of its own, because one handle can be locked twice. No child process inherits the
/// descriptor by accident. A command that is to keep the lease when this process dies is [lent](Self::lend) a
/// duplicate. The descriptor and its duplicates share the lock: it stays until the last of them is closed, or until one
/// of them is unlocked.
#[derive(Debug)]
pub(super) struct LifeLock {
    file: OpenFile,
    generation: u32,
    /// Whether a command may have a duplicate.
    lent: bool,
    /// The process that locked the file. After a `fork`, the child has the lock, too, and must not end it.
    pid: u32,
}

impl LifeLock {
    /// Locks the first free life file.
    pub(super) fn take(paths: &MutexPaths) -> Result<Self, FileError> {
        for generation in 0..GENERATIONS {
            let file = paths.open_or_make(&life(generation))?;
            if file.try_lock()? {
                return Ok(Self { file, generation, lent: false, pid: process_id::current() });
            }
        }
        let all_live = format!("{GENERATIONS} holders outlived their leases and are still alive");
        Err(FileError::unusable(&paths.path(STATE), all_live))
    }

    pub(super) fn id(&self) -> LifeId {
        LifeId { generation: self.generation, inode: self.file.inode() }
    }

    pub(super) fn is_of_this_process(&self) -> bool {
        self.pid == process_id::current()
    }

    /// Makes a duplicate for a command that is to keep the lease when this process has gone.
    #[cfg(unix)]
    pub(super) fn lend(&mut self) -> Result<File, FileError> {
        let duplicate = self.file.duplicate()?;
        self.lent = true;
        Ok(duplicate)
    }

    /// Returns the lock for a release, which ends the lifelines, too: when the lock is dropped, the file is unlocked
    /// for all duplicates.
    pub(super) fn for_release(mut self) -> Self {
        self.lent = false;
        self
    }
}

impl Drop for LifeLock {
    fn drop(&mut self) {
        // A lease that was not released stays with the commands that have a duplicate.
        if !self.lent && self.is_of_this_process() {
            let _ = self.file.unlock();
        }
    }
}

/// Returns whether the holder that locked this life file lives, or a command with a duplicate. Returns `None` if the
/// file is gone.
pub(super) fn is_alive(paths: &MutexPaths, id: LifeId) -> Result<Option<bool>, FileError> {
    match paths.open_if_there(&life(id.generation))? {
        Some(file) if file.inode() == id.inode => is_locked(&file).map(Some),
        _ => Ok(None),
    }
}

/// Returns whether a holder of any generation lives.
pub(super) fn is_any_alive(paths: &MutexPaths) -> Result<bool, FileError> {
    for generation in 0..GENERATIONS {
        let Some(file) = paths.open_if_there(&life(generation))? else { break };
        if is_locked(&file)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_locked(file: &OpenFile) -> Result<bool, FileError> {
    let shared = file.try_lock_shared()?;
    if shared {
        let _ = file.unlock();
    }
    Ok(!shared)
}

/// Returns the holder of a lease with a lifeline, with a note if its process has ended. If its process group has ended,
/// too, the group is removed. Only a process of this host can be checked.
#[cfg(unix)]
pub(super) fn with_its_end(holder: Holder) -> Holder {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process, test_kill_process_group};

    let id = |number: u32| i32::try_from(number).ok().and_then(Pid::from_raw);
    let has_gone = |id: Option<Pid>| id.is_some_and(|id| test_kill_process(id) == Err(Errno::SRCH));
    if *holder.host() != *this_host() || !(has_gone(id(holder.pid())) || is_zombie(holder.pid())) {
        return holder;
    }
    // The number of a process group that has ended may be reused.
    let group = holder.process_group().and_then(id);
    let group_has_gone = group.is_some_and(|group| test_kill_process_group(group) == Err(Errno::SRCH));
    let holder = if group_has_gone { holder.without_process_group() } else { holder };
    holder.survived_by_its_command()
}

/// Returns whether a process has ended, and its parent has not collected it yet.
#[cfg(target_os = "linux")]
fn is_zombie(pid: u32) -> bool {
    crate::base::process_stat::ProcessStat::read(pid).is_some_and(|process| !process.lives)
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_zombie(_: u32) -> bool {
    false
}

#[cfg(not(unix))]
pub(super) fn with_its_end(holder: Holder) -> Holder {
    holder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_locked_a_life_file_unlocks_it() {
        let dir = tempfile::tempdir().unwrap();
        let paths = MutexPaths::in_dir(dir.path(), "reports");
        for (of_this_process, alive) in [(true, false), (false, true)] {
            let mut lock = LifeLock::take(&paths).unwrap();
            if !of_this_process {
                lock.pid += 1;
            }
            let id = lock.id();
            let on_the_other_side_of_a_fork = lock.file.duplicate().unwrap();
            drop(lock);
            assert_eq!(is_alive(&paths, id).unwrap(), Some(alive));
            drop(on_the_other_side_of_a_fork);
            assert_eq!(is_alive(&paths, id).unwrap(), Some(false));
        }
    }
}
