//! An open record, and what is remembered of it.

use std::fs::File;

use super::place::{Fault, FileId, Place, open_if_there, open_or_make};
use super::record::{STATE_LEN, State};
use super::section::Section;
use super::turn::Turn;

/// An open record. One thread uses it at a time, because a lock does not exclude those who share its handle.
pub(super) struct RecordFile {
    place: Place,
    file: File,
    id: FileId,
    seen: Option<Seen>,
}

/// The state as it was last read or written, so that one that nobody changed is not read letter by letter.
pub(super) struct Seen {
    pub(super) block: [u8; STATE_LEN],
    pub(super) state: State,
}

impl RecordFile {
    /// The record at this place, made if it is not there. The directory is not made: whoever holds the mutex may live
    /// in the one that is gone.
    pub(super) fn open_or_make(place: Place) -> Result<Self, Fault> {
        let file = open_or_make(place.record())?;
        Self::opened(place, file)
    }

    /// The record at this place, or `None` if this mutex was never asked for.
    pub(super) fn open(place: Place) -> Result<Option<Self>, Fault> {
        match open_if_there(place.record())? {
            Some(file) => Self::opened(place, file).map(Some),
            None => place.expect_directory().map(|()| None),
        }
    }

    fn opened(place: Place, file: File) -> Result<Self, Fault> {
        let metadata = file.metadata().map_err(Fault::at(place.record()))?;
        Ok(Self { id: FileId::of(&metadata), place, file, seen: None })
    }

    /// Whether others who open the record now meet this one: nobody has deleted or moved it, or its directory.
    pub(super) fn is_in_place(&self) -> bool {
        self.place.record().metadata().is_ok_and(|metadata| FileId::of(&metadata) == self.id)
    }

    /// Waits for the record's lock, and reads it.
    pub(super) fn enter(&mut self) -> Result<Section<'_>, Fault> {
        let Self { place, file, seen, .. } = self;
        let turn = Turn::at(file).map_err(Fault::at(place.record()))?;
        Section::read(turn, file, place, seen)
    }
}
