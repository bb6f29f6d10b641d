//! An open record, and what is remembered of it.

use std::fs::File;
use std::io;
use std::time::Duration;

use super::error::FileError;
use super::open_file::{FileId, OpenFile, is_deleted};
use super::paths::MutexPaths;
use crate::time::clock::moment::Moment;

mod claim_index;
mod claim_line;
mod claims;
pub(super) mod locked_record;
pub(super) mod name_block;
mod parse_cache;
mod record_lock;
mod sealed_block;
pub(super) mod state;

use locked_record::LockedRecord;
use parse_cache::ParseCache;
use record_lock::RecordLock;

/// How long a record counts as being where it was found, unless it is deleted. Looking for it costs as much as half of
/// all else at a gate, and whoever moves a directory away under a lease ends its protection either way.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// An open record. One thread uses it at a time, because a lock does not exclude those who share its handle.
pub(super) struct RecordFile {
    paths: MutexPaths,
    file: File,
    id: FileId,
    found_at: Moment,
    seen: ParseCache,
    /// That of its claims, once it was needed.
    index: Option<File>,
}

impl RecordFile {
    /// The record at this place, made if it is not there. The directory is not made: whoever holds the mutex may live
    /// in the one that is gone.
    pub(super) fn open_or_make(paths: MutexPaths, now: Moment) -> Result<Self, FileError> {
        let file = paths.open_or_make(paths.record())?;
        Ok(Self::opened(paths, file, now))
    }

    /// The record at this place, or `None` if this mutex was never asked for.
    pub(super) fn open(paths: MutexPaths, now: Moment) -> Result<Option<Self>, FileError> {
        let file = paths.open_if_there(paths.record())?;
        Ok(file.map(|file| Self::opened(paths, file, now)))
    }

    fn opened(paths: MutexPaths, opened: OpenFile, found_at: Moment) -> Self {
        let OpenFile { file, id } = opened;
        Self { id, paths, file, found_at, seen: ParseCache::nothing(), index: None }
    }

    /// Whether others who open the record meet this one: nobody has deleted it, nor, as far as was looked within the
    /// last second, moved it or its directory.
    pub(super) fn is_in_place(&mut self, now: Moment) -> bool {
        if self.was_just_found(now) {
            return !is_deleted(&self.file);
        }
        self.found_at = now;
        FileId::at(self.paths.record()).is_ok_and(|id| id == self.id)
    }

    /// An error if somebody has deleted the record, so that others who took the mutex since did not meet its holder.
    pub(super) fn expect_not_deleted(&self, now: Moment) -> Result<(), FileError> {
        if !self.was_just_found(now) && is_deleted(&self.file) {
            let gone = io::Error::new(io::ErrorKind::NotFound, "it was deleted while it was held");
            return Err(FileError::at(self.paths.record())(gone));
        }
        Ok(())
    }

    fn was_just_found(&self, now: Moment) -> bool {
        now.since(self.found_at) < LOOK_AGAIN
    }

    /// Waits for the record's lock, and reads it.
    pub(super) fn enter(&mut self) -> Result<LockedRecord<'_>, FileError> {
        let Self { paths, file, id, seen, index, .. } = self;
        let turn = RecordLock::at(file, *id).map_err(FileError::at(paths.record()))?;
        LockedRecord::read(turn, file, paths, seen, index)
    }
}
