//! The life files of a mutex. A locked life file shows that its holder still lives.
//!
//! Only a holder locks a life file exclusively. To learn whether the life file is locked, other code takes a shared
//! lock on it for a moment; several threads can have a shared lock together. Normally, such a thread also holds the
//! lock of the mutex, so no grant happens meanwhile. But if a call of `held` does not get the lock of the mutex in
//! time, it checks the life file without the lock of the mutex. A grant in this moment may find the life file locked;
//! the grant then uses the life file with the next number.

#[cfg(unix)]
use std::fs::File;
#[cfg(unix)]
use std::sync::OnceLock;

use super::error::FileError;
use super::open_file::OpenFile;
use super::paths::{MutexPaths, STATE, life};
use crate::lease::holder::Holder;
#[cfg(unix)]
use crate::lease::label::this_host;

/// The largest number of life files of one mutex. It limits how many holders may still live after their leases have
/// ended.
const GENERATIONS: u32 = 1000;

/// The identity of a life file that a holder has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LifeId {
    /// The number in the file's name.
    pub(super) generation: u32,
    /// The inode, which differs for a later file with this name; zero if the system has no inodes.
    pub(super) inode: u64,
}

/// A life file that this process has locked. Until this value is dropped, the lock shows that the holder lives.
///
/// Each acquisition opens the file anew: on a handle that already has the lock, a second acquisition would get the
/// lock, too. No child process inherits the descriptor by accident. If a command must keep the lease when this process
/// dies, [`lend`](Self::lend) makes a duplicate for the command. The descriptor and its duplicates share the lock. The
/// lock ends when the last of them is closed, or when the file is unlocked through one of them.
#[derive(Debug)]
pub(super) struct LifeLock {
    file: OpenFile,
    generation: u32,
    /// Whether the drop of this value leaves the file locked, because a command may still have a duplicate.
    lent: bool,
    /// The process that locked the file. After a `fork`, the child shares the lock, and must not unlock the file.
    pid: u32,
}

impl LifeLock {
    /// Locks the first life file that is not locked.
    pub(super) fn take(paths: &MutexPaths) -> Result<Self, FileError> {
        for generation in 0..GENERATIONS {
            let file = paths.open_or_make(&life(generation))?;
            if file.try_lock()? {
                return Ok(Self { file, generation, lent: false, pid: std::process::id() });
            }
        }
        let all_live = format!("{GENERATIONS} holders outlived their leases and are still alive");
        Err(FileError::unusable(&paths.path(STATE), all_live))
    }

    pub(super) fn id(&self) -> LifeId {
        LifeId { generation: self.generation, inode: self.file.inode }
    }

    pub(super) fn is_of_this_process(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Makes a duplicate for a command, so that the command keeps the lease after this process has ended.
    #[cfg(unix)]
    pub(super) fn lend(&mut self) -> Result<File, FileError> {
        let duplicate = self.file.duplicate()?;
        self.lent = true;
        Ok(duplicate)
    }

    /// Makes the drop of the lock release the lease: the drop unlocks the file, even if commands have duplicates of its
    /// descriptor. So the lifelines end, too.
    pub(super) fn for_release(mut self) -> Self {
        self.lent = false;
        self
    }
}

impl Drop for LifeLock {
    fn drop(&mut self) {
        // If a command has a duplicate, the file stays locked: a lease that was not released lasts as long as the
        // command.
        if !self.lent && self.is_of_this_process() {
            let _ = self.file.file.unlock();
        }
    }
}

/// Returns whether the life file `id` is locked, because its holder lives, or because a command that has a duplicate
/// lives. Returns `None` if the file does not exist any more.
pub(super) fn is_alive(paths: &MutexPaths, id: LifeId) -> Result<Option<bool>, FileError> {
    match paths.open_if_there(&life(id.generation))? {
        Some(file) if file.inode == id.inode => is_locked(&file).map(Some),
        _ => Ok(None),
    }
}

/// Returns whether any life file of the mutex is locked.
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
        let _ = file.file.unlock();
    }
    Ok(!shared)
}

/// Checks the process of `holder`, whose lease has a lifeline. If the process has ended, the returned holder says so.
/// If the process group has ended, too, the returned holder has no process group. Only processes of this host and of
/// this process's PID namespace are checked: in another container, the number may be that of another process.
#[cfg(unix)]
pub(super) fn with_its_end(holder: Holder, namespace: u64) -> Holder {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process, test_kill_process_group};

    let id = |number: u32| i32::try_from(number).ok().and_then(Pid::from_raw);
    let has_gone = |id: Option<Pid>| id.is_some_and(|id| test_kill_process(id) == Err(Errno::SRCH));
    let is_visible = *holder.host() == *this_host() && namespace == pid_namespace();
    if !is_visible || !(has_gone(id(holder.pid())) || is_zombie(holder.pid())) {
        return holder;
    }
    // The number of an ended process group may be reused. If it were shown, an operator could kill the wrong processes.
    let group = holder.process_group().and_then(id);
    let group_has_gone = group.is_some_and(|group| test_kill_process_group(group) == Err(Errno::SRCH));
    let holder = if group_has_gone { holder.without_process_group() } else { holder };
    holder.survived_by_its_command()
}

/// Returns the number of this process's PID namespace, or 0 on a system without such namespaces. The number of a process
/// is unique only within a namespace, such as a container. The number is read once.
#[cfg(unix)]
pub(super) fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;

    static NAMESPACE: OnceLock<u64> = OnceLock::new();
    *NAMESPACE.get_or_init(|| std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino()))
}

/// Returns whether the process is a zombie: it has ended, but its parent has not collected its exit status yet.
#[cfg(target_os = "linux")]
fn is_zombie(pid: u32) -> bool {
    crate::base::process_stat::ProcessStat::read(pid).is_some_and(|process| !process.lives)
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_zombie(_: u32) -> bool {
    false
}

#[cfg(not(unix))]
pub(super) fn with_its_end(holder: Holder, _: u64) -> Holder {
    holder
}

#[cfg(not(unix))]
pub(super) fn pid_namespace() -> u64 {
    0
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
