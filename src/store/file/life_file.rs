//! The life files of a mutex: the one that is locked says whose holder still lives.
//!
//! They are looked at only while the record is locked, so that a look never stands in the way of a create.

#[cfg(unix)]
use std::fs::File;

use super::error::FileError;
use super::open_file::OpenFile;
use super::paths::MutexPaths;
use crate::base::process_id;
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

/// An open life file.
#[derive(Debug)]
pub(super) struct LifeFile {
    file: OpenFile,
    generation: u32,
}

impl LifeLock {
    /// Locks the `spare` one, or the first life file that nobody has locked, for this process.
    pub(super) fn take(paths: &MutexPaths, pid: u32, spare: Option<LifeFile>) -> Result<Self, FileError> {
        if let Some(spare) = spare
            && matches!(spare.file.try_lock(), Ok(true))
        {
            return Ok(Self::of(spare, pid));
        }
        for generation in 0..GENERATIONS {
            let file = paths.open_or_make(&paths.life(generation))?;
            if file.try_lock()? {
                return Ok(Self::of(LifeFile { file, generation }, pid));
            }
        }
        let all_live = format!("{GENERATIONS} holders outlived their leases and are still alive");
        Err(FileError::unusable(paths.record(), all_live))
    }

    fn of(life: LifeFile, pid: u32) -> Self {
        Self { locked: Some(life), lent: false, pid }
    }

    pub(super) fn id(&self) -> Option<LifeId> {
        let LifeFile { file, generation } = self.locked.as_ref()?;
        Some(LifeId { generation: *generation, inode: file.id().inode })
    }

    pub(super) fn is_of_this_process(&self) -> bool {
        self.pid == process_id::current()
    }

    /// A duplicate for a process that is to keep the lease when this one has gone.
    #[cfg(unix)]
    pub(super) fn lend(&mut self) -> Result<Option<File>, FileError> {
        let duplicate = self.locked.as_ref().map(|life| life.file.duplicate()).transpose()?;
        self.lent |= duplicate.is_some();
        Ok(duplicate)
    }

    /// Unlocks it, whoever has it open, and leaves it open for the next lease. Nothing is left to do the second time.
    pub(super) fn end(&mut self) -> Option<LifeFile> {
        // A process with a duplicate would share the next lock, and keep a lease that is not its own.
        self.unlock().filter(|_| !self.lent)
    }

    fn unlock(&mut self) -> Option<LifeFile> {
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

/// Whether the holder who locked this life file lives, or anybody who was lent a duplicate. `None`: the file has gone, and
/// nobody can tell.
pub(super) fn is_alive(paths: &MutexPaths, life: LifeId) -> Result<Option<bool>, FileError> {
    match paths.open_if_there(&paths.life(life.generation))? {
        Some(file) if file.id().inode == life.inode => is_locked(&file).map(Some),
        _ => Ok(None),
    }
}

/// Whether a holder of any generation lives.
pub(super) fn is_any_alive(paths: &MutexPaths) -> Result<bool, FileError> {
    for generation in 0..GENERATIONS {
        let Some(file) = paths.open_if_there(&paths.life(generation))? else { break };
        if is_locked(&file)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_locked(file: &OpenFile) -> Result<bool, FileError> {
    let locked = !file.try_lock()?;
    if !locked {
        let _ = file.unlock();
    }
    Ok(locked)
}

/// The holder of a lease that has a lifeline, as it is now. It may have ended, and its command, too, but for processes that
/// left the command's group. That can be asked only where the process is one of this host.
#[cfg(unix)]
pub(super) fn noting_if_ended(holder: Holder) -> Holder {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process, test_kill_process_group};

    let id = |number: u32| i32::try_from(number).ok().and_then(Pid::from_raw);
    let has_gone = |id: Option<Pid>| id.is_some_and(|id| test_kill_process(id) == Err(Errno::SRCH));
    if *holder.host() != *this_host() || !(has_gone(id(holder.pid())) || is_zombie(holder.pid())) {
        return holder;
    }
    // By now its number may be another's.
    let group = holder.process_group().and_then(id);
    let group_has_gone = group.is_some_and(|group| test_kill_process_group(group) == Err(Errno::SRCH));
    let holder = if group_has_gone { holder.without_process_group() } else { holder };
    holder.survived_by_its_command()
}

/// Whether it has ended, and its parent has not noticed that yet.
#[cfg(target_os = "linux")]
fn is_zombie(pid: u32) -> bool {
    crate::base::process_stat::ProcessStat::read(pid).is_some_and(|process| !process.lives)
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_zombie(_: u32) -> bool {
    false
}

#[cfg(not(unix))]
pub(super) fn noting_if_ended(holder: Holder) -> Holder {
    holder
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
            let on_the_other_side_of_a_fork = life.locked.as_ref().unwrap().file.duplicate().unwrap();
            drop(life);
            assert_eq!(is_alive(&paths, id).unwrap(), Some(alive), "{pid}");
            drop(on_the_other_side_of_a_fork);
            assert_eq!(is_alive(&paths, id).unwrap(), Some(false));
        }
    }
}
