//! What went wrong, with which file of a store, and which error the caller gets.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::error::MutexError;
use crate::lease::name::MutexName;

/// What went wrong, and with which file.
#[derive(Debug)]
pub(super) struct FileError {
    path: PathBuf,
    source: io::Error,
    reach: Reach,
}

/// Which names it is about.
#[derive(Debug)]
enum Reach {
    This,
    /// All of the directory.
    All,
}

impl FileError {
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self { path: path.to_path_buf(), source, reach: Reach::This }
    }

    /// The directory in which this path is can't be used.
    pub(super) fn of_directory(path: PathBuf) -> impl FnOnce(io::Error) -> Self {
        |source| Self { path, source, reach: Reach::All }
    }

    pub(super) fn unusable(path: &Path, why: String) -> Self {
        Self::at(path)(io::Error::new(io::ErrorKind::InvalidData, why))
    }

    /// What goes wrong with one file says nothing of the other names, unless their directory can't be entered either.
    pub(super) fn while_trying_to(self, verb: &str, name: &MutexName) -> MutexError {
        let attempted = format!("{verb} {name} in {}", self.path.display());
        let directory = self.path.parent().map_or(Ok(()), |dir| dir.join(".").metadata().map(drop));
        match (self.reach, directory) {
            (Reach::This, Ok(())) => MutexError::unusable(attempted, self.source),
            _ => of_directory(attempted, self.source),
        }
    }
}

/// A directory that lets nobody in, or takes no more, has answered.
pub(super) fn of_directory(attempted: String, error: io::Error) -> MutexError {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull, Unsupported};

    match error.kind() {
        PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull | Unsupported => {
            MutexError::refused(attempted, error)
        }
        _ => MutexError::unavailable(attempted, error),
    }
}
