//! The open record of a mutex: whether it is still in place, what is remembered of it, and its lock.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::directory::Directory;
use super::error::FileError;
use super::open_file::OpenFile;
use super::paths::MutexPaths;
use crate::lease::name::MutexName;
use crate::time::{clock::Clock, clock::moment::Moment};

mod claim_index;
mod claim_line;
mod claims;
pub(super) mod locked_record;
mod name_block;
mod record_lock;
pub(super) mod runs_file;
mod sealed_block;
mod state;

use locked_record::LockedRecord;
use name_block::{HEADER_MAX, name_block, name_in};
use record_lock::RecordLock;
use state::KnownState;

/// How long a record counts as being where it was found, unless it is deleted. Looking for it costs as much as half of
/// all else at a gate, and whoever moves a directory away under a lease ends its protection either way.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// An open record. One thread uses it at a time, because a lock does not exclude those who share its handle.
pub(super) struct RecordFile {
    paths: MutexPaths,
    file: OpenFile,
    /// How the record must begin.
    name_block: Vec<u8>,
    found_at: Moment,
    known: KnownState,
    /// That of its claims, once it was needed.
    index: Option<OpenFile>,
}

impl RecordFile {
    /// The record of `name`, made if it is not there. The directory is not made: whoever holds the mutex may live in the
    /// one that is gone.
    pub(super) fn open_or_make(directory: Arc<Directory>, name: &MutexName, now: Moment) -> Result<Self, FileError> {
        let paths = MutexPaths::of(directory, name);
        let file = paths.open_or_make(paths.record())?;
        Ok(Self::opened(paths, file, name, now))
    }

    /// The record of `name`, or `None` if this mutex was never asked for.
    pub(super) fn open(directory: Arc<Directory>, name: &MutexName, now: Moment) -> Result<Option<Self>, FileError> {
        let paths = MutexPaths::of(directory, name);
        let file = paths.open_if_there(paths.record())?;
        Ok(file.map(|file| Self::opened(paths, file, name, now)))
    }

    /// The record at this path, and the mutex's name as the record says it. `None`: the store refuses the file, or it is not
    /// where the record of that name belongs.
    pub(super) fn with_its_name(
        directory: &Arc<Directory>,
        path: &Path,
        now: Moment,
    ) -> Result<Option<(MutexName, Self)>, FileError> {
        let file = match directory.file(path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory) => None,
            opened => opened.map_err(FileError::at(path))?,
        };
        let Some(file) = file else { return Ok(None) };
        let Some(name) = name_in(file.read_at(&mut [0; HEADER_MAX], 0)?) else { return Ok(None) };
        let paths = MutexPaths::of(Arc::clone(directory), &name);
        let is_its_own = paths.record() == path;
        Ok(is_its_own.then(|| (name.clone(), Self::opened(paths, file, &name, now))))
    }

    fn opened(paths: MutexPaths, file: OpenFile, name: &MutexName, found_at: Moment) -> Self {
        let name_block = name_block(name.mutex());
        Self { paths, file, name_block, found_at, known: KnownState::nothing(), index: None }
    }

    /// Whether others who open the record meet this one: nobody has deleted it, nor, as far as was looked within the
    /// last second, moved it or its directory.
    pub(super) fn is_in_place(&mut self, now: Moment) -> bool {
        if self.was_just_found(now) {
            return !self.file.is_deleted();
        }
        self.found_at = now;
        self.file.is_in_place()
    }

    /// An error if somebody has deleted the record, so that others who took the mutex since did not meet its holder.
    pub(super) fn expect_not_deleted(&self, now: Moment) -> Result<(), FileError> {
        if !self.was_just_found(now) && self.file.is_deleted() {
            let gone = io::Error::new(io::ErrorKind::NotFound, "it was deleted while it was held");
            return Err(FileError::at(self.file.path())(gone));
        }
        Ok(())
    }

    fn was_just_found(&self, now: Moment) -> bool {
        now.since(self.found_at) < LOOK_AGAIN
    }

    /// Waits for the record's lock, and reads it.
    pub(super) fn lock(&mut self, clock: &Clock) -> Result<LockedRecord<'_>, FileError> {
        let lock = RecordLock::wait_for(&self.file)?;
        LockedRecord {
            file: &self.file,
            paths: &self.paths,
            name_block: &self.name_block,
            known: &mut self.known,
            index: &mut self.index,
            now: clock.now(),
            is_unnamed: false,
            _lock: lock,
        }
        .read()
    }
}
