//! The open files of this process: those of leases in hand, and some that are kept for the next lease.

use std::collections::HashMap;
#[cfg(unix)]
use std::fs::File;
use std::sync::Arc;

use super::directory::Directory;
use super::error::FileError;
use super::life_file::{LifeFile, LifeLock};
use super::record::RecordFile;
use crate::lease::{name::MutexName, owner::Owner};
use crate::time::clock::moment::Moment;

/// How many mutexes have files open although no lease of theirs is in hand. There are two for each.
const IDLE_MAX: usize = 64;

/// The files of one mutex, which one thread uses at a time.
///
/// Both sides of a `fork` share the locks of what was open, so that these exclude neither: each process has its own.
pub(super) struct MutexFiles {
    pid: u32,
    pub(super) record: RecordFile,
    pub(super) spare: Option<LifeFile>,
}

/// What is kept for a lease that this process holds.
pub(super) struct LeaseFiles {
    pub(super) files: Box<MutexFiles>,
    pub(super) life: LifeLock,
}

/// The open files of this process.
#[derive(Default)]
pub(super) struct FilePool {
    /// Those of leases that it holds.
    held: HashMap<(Owner, MutexName), LeaseFiles>,
    /// Those of mutexes whose leases it gave back.
    idle: HashMap<MutexName, Box<MutexFiles>>,
}

impl MutexFiles {
    pub(super) fn open_or_make(
        directory: Arc<Directory>,
        name: &MutexName,
        pid: u32,
        now: Moment,
    ) -> Result<Box<Self>, FileError> {
        Ok(Box::new(Self { pid, record: RecordFile::open_or_make(directory, name, now)?, spare: None }))
    }
}

impl FilePool {
    /// The files that this process has ready for a lease. Others may have deleted them since.
    pub(super) fn idle(&mut self, name: &MutexName, pid: u32) -> Option<Box<MutexFiles>> {
        self.idle.remove(name).filter(|files| files.pid == pid)
    }

    /// Keeps the files ready for the next lease of this name. Nobody asks for the same claim again.
    pub(super) fn put_back(&mut self, name: &MutexName, files: Box<MutexFiles>) {
        if self.idle.len() < IDLE_MAX && !name.is_claim() {
            self.idle.insert(name.clone(), files);
        }
    }

    pub(super) fn hold(&mut self, owner: Owner, name: &MutexName, files: LeaseFiles) {
        self.held.insert((owner, name.clone()), files);
    }

    /// Takes out what is kept for a lease that is being given back, or that was found to be another's.
    pub(super) fn let_go(&mut self, owner: Owner, name: &MutexName) -> Option<LeaseFiles> {
        self.held.remove(&(owner, name.clone())).filter(|held| held.life.is_of_this_process())
    }

    /// A duplicate of the life file of a lease, if this process has it in hand.
    #[cfg(unix)]
    pub(super) fn lend(&mut self, owner: Owner, name: &MutexName) -> Result<Option<File>, FileError> {
        match self.held.get_mut(&(owner, name.clone())) {
            Some(held) if held.life.is_of_this_process() => held.life.lend(),
            _ => Ok(None),
        }
    }

    pub(super) fn held_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.held.keys().map(|(_, name)| name.to_string()).collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::super::paths::MutexPaths;
    use super::super::sharing::Sharing;
    use super::*;

    fn files_in(dir: &std::path::Path, name: &MutexName, pid: u32) -> Box<MutexFiles> {
        let directory = Directory::open_or_make(dir, Sharing::ByMode).unwrap();
        let now = crate::time::clock::Clock::system().moment();
        MutexFiles::open_or_make(Arc::new(directory), name, pid, now).unwrap()
    }

    #[test]
    fn the_other_side_of_a_fork_opens_its_own_files() {
        let dir = tempfile::tempdir().unwrap();
        let name = MutexName::lease("reports").unwrap();
        let files = |pid| files_in(dir.path(), &name, pid);
        let mut pool = FilePool::default();
        pool.put_back(&name, files(1));
        assert!(pool.idle(&name, 1).is_some());
        pool.put_back(&name, files(1));
        assert!(pool.idle(&name, 2).is_none());

        let owner = Owner::unique();
        let mut hold = |pid| {
            let life = LifeLock::take(&MutexPaths::in_dir(dir.path(), &name), pid, None).unwrap();
            pool.hold(owner, &name, LeaseFiles { files: files(pid), life });
            #[cfg(unix)]
            assert_eq!(pool.lend(owner, &name).unwrap().is_some(), pid == owner.pid());
            pool.let_go(owner, &name).is_some()
        };
        assert!(hold(owner.pid()));
        assert!(!hold(owner.pid() + 1));
    }

    #[test]
    fn a_claim_takes_no_room_from_the_leases() {
        let dir = tempfile::tempdir().unwrap();
        let claim = MutexName::lease("reports").unwrap().claim("reports", chrono::DateTime::UNIX_EPOCH);
        let mut pool = FilePool::default();
        pool.put_back(&claim, files_in(dir.path(), &claim, 1));
        assert!(pool.idle(&claim, 1).is_none());
    }
}
