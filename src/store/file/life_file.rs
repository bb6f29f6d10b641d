//! The life files: which of them is locked says whose holder still lives.
//!
//! They are looked at only while the record is locked, so that a look never stands in the way of a create.

use std::fs::{File, TryLockError};

use super::error::FileError;
use super::open_file::OpenFile;
use super::paths::MutexPaths;
use super::record::state::LeaseEnd;
use crate::base::process;
use crate::lease::holder::Holder;
#[cfg(unix)]
use crate::lease::holder::this_host;

/// More holders of one mutex than this do not outlive their lease at once.
const GENERATIONS: u32 = 1000;

/// Which life file a holder has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LifeId {
    /// Which of the mutex's life files it is by name.
    pub(super) generation: u32,
    /// Which file it is, also after another one took its name; zero where the system does not tell.
    pub(super) inode: u64,
}

/// A life file that this process has locked: proof that the holder lives, for as long as this is kept.
///
/// Each acquisition has a handle of its own, because one handle can be locked twice. No child process inherits the
/// descriptor; one that is to keep the lease when this process dies is [lent](Self::lend) a duplicate. The lock belongs
/// to them all: it stays until the last is closed, or until one of them is unlocked.
#[derive(Debug)]
pub(super) struct LifeLock {
    /// Gone when it was unlocked.
    locked: Option<LifeFile>,
    /// Somebody else may have it open.
    lent: bool,
    /// The other side of a `fork` has the lock too, and must not end it.
    pid: u32,
}

/// An open life file that is not locked, kept for the next lease.
#[derive(Debug)]
pub(super) struct LifeFile {
    file: File,
    id: LifeId,
}

impl LifeLock {
    /// Locks the `spare` one, or the first life file that nobody has locked, for this process.
    pub(super) fn take(paths: &MutexPaths, pid: u32, spare: Option<LifeFile>) -> Result<Self, FileError> {
        if let Some(spare) = spare
            && spare.file.try_lock().is_ok()
        {
            return Ok(Self::locked(spare, pid));
        }
        for generation in 0..GENERATIONS {
            let path = paths.life(generation);
            let OpenFile { file, id } = paths.open_or_make(&path)?;
            match file.try_lock() {
                Ok(()) => return Ok(Self::locked(LifeFile { file, id: LifeId { generation, inode: id.inode } }, pid)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(FileError::at(&path)(error)),
            }
        }
        Err(FileError::unusable(
            paths.record(),
            format!("{GENERATIONS} holders outlived their leases and are still alive"),
        ))
    }

    fn locked(life: LifeFile, pid: u32) -> Self {
        Self { locked: Some(life), lent: false, pid }
    }

    pub(super) fn id(&self) -> Option<LifeId> {
        self.locked.as_ref().map(|life| life.id)
    }

    pub(super) fn is_of_this_process(&self) -> bool {
        self.pid == process::id()
    }

    /// A duplicate for a process that is to keep the lease when this one has gone.
    #[cfg(unix)]
    pub(super) fn lend(&mut self) -> std::io::Result<Option<File>> {
        let duplicate = self.locked.as_ref().map(|life| life.file.try_clone()).transpose()?;
        self.lent |= duplicate.is_some();
        Ok(duplicate)
    }

    /// Unlocks it, whoever has it open, and leaves it open for the next lease. Nothing is left to do the second time.
    pub(super) fn end(&mut self) -> Option<LifeFile> {
        // Who was lent a duplicate would share the next lock, and keep a lease that is not theirs.
        self.unlock().filter(|_| !self.lent)
    }

    fn unlock(&mut self) -> Option<LifeFile> {
        // Closing alone would leave it locked while a child that another thread is just starting has a duplicate.
        self.locked.take().filter(|life| life.file.unlock().is_ok())
    }
}

impl Drop for LifeLock {
    fn drop(&mut self) {
        // Nobody gave the lease back, so it stays with whoever was lent a duplicate.
        if self.locked.is_some() && !self.lent && self.is_of_this_process() {
            self.unlock();
        }
    }
}

/// Whether the holder who locked this life file lives. If the file has gone, nobody can tell, and the answer is yes: its
/// lease ends with its term.
pub(super) fn is_alive(paths: &MutexPaths, life: LifeId) -> Result<bool, FileError> {
    let Some(opened) = paths.open_if_there(&paths.life(life.generation))? else { return Ok(true) };
    Ok(is_locked(paths, life.generation, &opened.file)? || opened.id.inode != life.inode)
}

/// Whether the holder lives, or anybody who was lent a duplicate of this life file. `None`: the file has gone, and nobody
/// can tell.
pub(super) fn is_locked_still(paths: &MutexPaths, life: LifeId) -> Result<Option<bool>, FileError> {
    let Some(opened) = paths.open_if_there(&paths.life(life.generation))? else { return Ok(None) };
    if opened.id.inode != life.inode {
        return Ok(None);
    }
    is_locked(paths, life.generation, &opened.file).map(Some)
}

/// Whether a holder of any generation lives.
pub(super) fn is_any_alive(paths: &MutexPaths) -> Result<bool, FileError> {
    for generation in 0..GENERATIONS {
        let Some(opened) = paths.open_if_there(&paths.life(generation))? else { break };
        if is_locked(paths, generation, &opened.file)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The holder of a lease that lasts, as it is now. One with a lifeline may have ended, and its command, too, but for what
/// has left its group. That can be asked only where the process is one of this host.
#[cfg(unix)]
pub(super) fn as_it_lives(holder: Holder, bond: LeaseEnd) -> Holder {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process, test_kill_process_group};

    let id = |number: u32| i32::try_from(number).ok().and_then(Pid::from_raw);
    let has_gone = |id: Option<Pid>| id.is_some_and(|id| test_kill_process(id) == Err(Errno::SRCH));
    let is_here = *holder.host() == *this_host();
    if !matches!(bond, LeaseEnd::Life(_)) || !is_here || !has_gone(id(holder.pid())) {
        return holder;
    }
    // By now its number may be another's.
    let group = holder.process_group().and_then(id);
    let group_has_gone = group.is_some_and(|group| test_kill_process_group(group) == Err(Errno::SRCH));
    let holder = if group_has_gone { holder.without_process_group() } else { holder };
    holder.survived_by_its_command()
}

#[cfg(not(unix))]
pub(super) fn as_it_lives(holder: Holder, _: LeaseEnd) -> Holder {
    holder
}

fn is_locked(paths: &MutexPaths, generation: u32, life: &File) -> Result<bool, FileError> {
    match life.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(FileError::at(&paths.life(generation))(error)),
        Ok(()) => {
            let _ = life.unlock();
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::name::MutexName;

    #[test]
    fn only_the_process_that_locked_a_life_file_unlocks_it() {
        let dir = tempfile::tempdir().unwrap();
        let paths = MutexPaths::in_dir(dir.path(), &MutexName::lease("reports").unwrap());
        for (pid, alive) in [(std::process::id(), false), (std::process::id() + 1, true)] {
            let life = LifeLock::take(&paths, pid, None).unwrap();
            let id = life.id().unwrap();
            let on_the_other_side_of_a_fork = life.locked.as_ref().unwrap().file.try_clone().unwrap();
            drop(life);
            assert_eq!(is_alive(&paths, id).unwrap(), alive, "{pid}");
            drop(on_the_other_side_of_a_fork);
            assert!(!is_alive(&paths, id).unwrap());
        }
    }
}
