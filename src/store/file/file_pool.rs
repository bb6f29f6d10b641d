//! The files that are kept open: those of leases in hand, and some for the next time.

use std::collections::BTreeMap;
#[cfg(unix)]
use std::{fs::File, io};

use super::error::FileError;
use super::life_file::{LifeFile, LifeLock};
use super::paths::MutexPaths;
use super::record::RecordFile;
use crate::lease::name::MutexName;
use crate::lease::owner::Owner;
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

#[derive(Default)]
pub(super) struct FilePool {
    in_hand: BTreeMap<(Owner, MutexName), LeaseFiles>,
    idle: BTreeMap<MutexName, Box<MutexFiles>>,
}

impl MutexFiles {
    pub(super) fn open_or_make(paths: MutexPaths, pid: u32, now: Moment) -> Result<Box<Self>, FileError> {
        Ok(Box::new(Self { pid, record: RecordFile::open_or_make(paths, now)?, spare: None }))
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

    pub(super) fn hold(&mut self, owner: Owner, name: &MutexName, in_hand: LeaseFiles) {
        self.in_hand.insert((owner, name.clone()), in_hand);
    }

    /// Takes out what is kept for a lease that is being given back, or that was found to be another's.
    pub(super) fn let_go(&mut self, owner: Owner, name: &MutexName) -> Option<LeaseFiles> {
        self.in_hand.remove(&(owner, name.clone())).filter(|in_hand| in_hand.life.is_of_this_process())
    }

    /// A duplicate of the life file of a lease, if this process has it in hand.
    #[cfg(unix)]
    pub(super) fn lend(&mut self, owner: Owner, name: &MutexName) -> io::Result<Option<File>> {
        let in_hand = self.in_hand.get_mut(&(owner, name.clone()));
        let in_hand = in_hand.filter(|in_hand| in_hand.life.is_of_this_process());
        in_hand.map_or(Ok(None), |in_hand| in_hand.life.lend())
    }

    pub(super) fn names_in_hand(&self) -> Vec<String> {
        self.in_hand.keys().map(|(_, name)| name.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Moment {
        crate::time::clock::Clock::system().moment()
    }

    #[test]
    fn the_other_side_of_a_fork_opens_its_own_files() {
        let dir = tempfile::tempdir().unwrap();
        let name = MutexName::lease("reports").unwrap();
        let files = |pid| MutexFiles::open_or_make(MutexPaths::in_dir(dir.path(), &name), pid, now()).unwrap();
        let mut handles = FilePool::default();
        handles.put_back(&name, files(1));
        assert!(handles.idle(&name, 1).is_some());
        handles.put_back(&name, files(1));
        assert!(handles.idle(&name, 2).is_none());

        let owner = Owner::unique();
        let mut hold = |pid| {
            let life = LifeLock::take(&MutexPaths::in_dir(dir.path(), &name), pid, None).unwrap();
            handles.hold(owner, &name, LeaseFiles { files: files(pid), life });
            #[cfg(unix)]
            assert_eq!(handles.lend(owner, &name).unwrap().is_some(), pid == owner.pid());
            handles.let_go(owner, &name).is_some()
        };
        assert!(hold(owner.pid()));
        assert!(!hold(owner.pid() + 1));
    }

    #[test]
    fn a_claim_takes_no_room_from_the_leases() {
        let dir = tempfile::tempdir().unwrap();
        let claim = MutexName::lease("reports").unwrap().claim("reports", chrono::DateTime::UNIX_EPOCH);
        let mut handles = FilePool::default();
        handles.put_back(&claim, MutexFiles::open_or_make(MutexPaths::in_dir(dir.path(), &claim), 1, now()).unwrap());
        assert!(handles.idle(&claim, 1).is_none());
    }
}
