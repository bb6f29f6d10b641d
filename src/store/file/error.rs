//! The errors of files, and their conversion to a `MutexError`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::{error::MutexError, escape::Quoted};

/// An error, and the file that it is about.
#[derive(Debug)]
pub(super) struct FileError {
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
    /// Whether the directory of the file can't be used. Then requests for other names fail, too.
    is_of_directory: bool,
}

impl FileError {
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self { path: path.to_owned(), source, is_of_directory: false }
    }

    /// Makes the error for a directory that can't be used. `path` is the directory, or a file in it.
    pub(super) fn of_directory(path: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self { path: path.to_owned(), source, is_of_directory: true }
    }

    pub(super) fn unusable(path: &Path, why: impl Into<String>) -> Self {
        Self::at(path)(io::Error::new(io::ErrorKind::InvalidData, why.into()))
    }

    /// Makes the error for a file that does not begin with the format `known`. `beginning` is the beginning of the
    /// file.
    pub(super) fn of_another_format(path: &Path, beginning: &[u8], known: &str) -> Self {
        let first_line = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let why = format!(
            "it begins with {} and not with `{}`, the format that this version of soloist knows, and was not changed: update \
             this program, or use another directory; if the file is damaged, remove it while no process uses the directory",
            Quoted::new(&String::from_utf8_lossy(first_line)),
            known.trim_end()
        );
        Self::unusable(path, why)
    }

    /// Returns the `MutexError` for an attempt that failed. `attempted` continues "could not …". The error concerns the
    /// whole store if the disk takes no writes, or if the directory can't be used or entered; otherwise it concerns one
    /// name.
    pub(super) fn while_trying_to(self, attempted: impl fmt::Display) -> MutexError {
        use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};

        let attempted = format!("{attempted} in {}", self.path.display());
        let of_the_disk = matches!(self.source.kind(), QuotaExceeded | ReadOnlyFilesystem | StorageFull);
        let can_enter = || self.path.parent().is_none_or(|dir| dir.join(".").metadata().is_ok());
        if self.is_of_directory || of_the_disk || !can_enter() {
            return directory_error(attempted, self.source);
        }
        MutexError::unusable(attempted, self.source)
    }
}

/// Returns an error that concerns the whole store. If the directory can't be entered or takes no writes, the store has
/// refused the request; otherwise the store is unavailable.
pub(super) fn directory_error(attempted: String, error: io::Error) -> MutexError {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull, Unsupported};

    match error.kind() {
        PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull | Unsupported => {
            MutexError::refused(attempted, error)
        }
        _ => MutexError::unavailable(attempted, error),
    }
}
