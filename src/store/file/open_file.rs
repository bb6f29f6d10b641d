//! An open file of the store, with methods to lock, read and write it.

use std::fs::{File, Metadata, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::error::FileError;

/// The largest length of a file that is read, in bytes. A state of this length has room for fifty thousand claims with
/// long reasons.
const LEN_MAX: u64 = 1 << 26;

/// An open file of the store, with the length that it had when it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// `File::unlock` unlocks the file for every process that has a duplicate of this handle. It is not enough to close
    /// the handle: if another thread is just starting a child process, the child has a duplicate, which would keep the
    /// file locked.
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) len: u64,
    /// The inode, which differs for a later file with this name, or zero if the system has no inodes.
    pub(super) inode: u64,
}

impl OpenFile {
    pub(super) fn new(file: File, path: &Path, found: &Metadata) -> Self {
        Self { file, path: path.to_owned(), len: found.len(), inode: inode(found) }
    }

    /// Makes a second descriptor of this open file. The two descriptors share one lock.
    #[cfg(any(unix, test))]
    pub(super) fn duplicate(&self) -> Result<File, FileError> {
        self.file.try_clone().map_err(FileError::at(&self.path))
    }

    /// Locks the file, unless it is locked through another handle. Returns whether this handle has the lock now.
    pub(super) fn try_lock(&self) -> Result<bool, FileError> {
        self.is_locked(self.file.try_lock())
    }

    /// Takes a shared lock, unless the file is locked exclusively. Returns whether this handle has the lock now.
    pub(super) fn try_lock_shared(&self) -> Result<bool, FileError> {
        self.is_locked(self.file.try_lock_shared())
    }

    fn is_locked(&self, answer: Result<(), TryLockError>) -> Result<bool, FileError> {
        match answer {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(FileError::at(&self.path)(error)),
        }
    }

    /// Reads the file, up to the length that it had when it was opened.
    pub(super) fn read(&self) -> Result<Vec<u8>, FileError> {
        if self.len > LEN_MAX {
            return Err(FileError::unusable(&self.path, format!("it is longer than {LEN_MAX} bytes")));
        }
        let mut bytes = vec![0; usize::try_from(self.len).unwrap_or_default()];
        (&self.file).read_exact(&mut bytes).map_err(FileError::at(&self.path))?;
        Ok(bytes)
    }

    /// Overwrites the bytes at `offset` with `bytes`.
    pub(super) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        let mut file = &self.file;
        let written = file.seek(SeekFrom::Start(offset)).and_then(|_| file.write_all(bytes));
        written.map_err(FileError::at(&self.path))
    }
}

#[cfg(unix)]
fn inode(found: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(found)
}

#[cfg(not(unix))]
fn inode(_found: &Metadata) -> u64 {
    0
}
