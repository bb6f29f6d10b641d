//! An open file of the store: which file it is, its lock, and reading and writing at a position.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::FileError;

/// A file of the store, as it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    path: PathBuf,
    id: FileId,
}

impl OpenFile {
    pub(super) fn new(file: File, path: &Path, metadata: &Metadata) -> Self {
        Self { file, path: path.to_owned(), id: FileId::opened(path, metadata) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// A second descriptor of this open file. They share one lock.
    #[cfg(any(unix, test))]
    pub(super) fn duplicate(&self) -> Result<File, FileError> {
        self.file.try_clone().map_err(FileError::at(&self.path))
    }

    /// Locks it, unless it is locked through another handle.
    pub(super) fn try_lock(&self) -> Result<bool, FileError> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(FileError::at(&self.path)(error)),
        }
    }

    /// Unlocks it for all who have a duplicate of this handle. Closing alone would leave it locked while a child process
    /// that another thread is just starting has one.
    pub(super) fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    /// Whether others who open its path meet this file.
    pub(super) fn is_in_place(&self) -> bool {
        FileId::at(&self.path).is_ok_and(|id| id == self.id)
    }

    /// Whether nobody can open this file any more, because it was unlinked, alone or with its directory.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn is_deleted(&self) -> bool {
        use rustix::fs::{AtFlags, StatxFlags, statx};

        // Without the times, as in `FileId::at`. A kernel that can't tell says nothing of the file.
        statx(&self.file, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK).is_ok_and(|found| found.stx_nlink == 0)
    }

    /// An open file can't be unlinked everywhere, and its links are not counted everywhere.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    #[allow(clippy::unused_self)]
    pub(super) fn is_deleted(&self) -> bool {
        false
    }

    /// Returns when it was written to last, by the clock of the file system, if that can be known.
    pub(super) fn written_at(&self) -> Option<SystemTime> {
        self.file.metadata().and_then(|metadata| metadata.modified()).ok()
    }

    /// Returns how long the file is. Its times are not asked for, see [`FileId::at`].
    pub(super) fn len(&self) -> Result<u64, FileError> {
        // Nobody reads or writes at the position that this moves.
        io::Seek::seek(&mut &self.file, io::SeekFrom::End(0)).map_err(FileError::at(&self.path))
    }

    /// Reads from `offset` until `buffer` is full or the file ends.
    pub(super) fn read_at<'b>(&self, buffer: &'b mut [u8], offset: u64) -> Result<&'b [u8], FileError> {
        let mut len = 0;
        while len < buffer.len() {
            match read_some(&self.file, &mut buffer[len..], offset + len as u64) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FileError::at(&self.path)(error)),
            }
        }
        Ok(&buffer[..len])
    }

    /// Writes all of `bytes` at `offset`.
    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        write_all(&self.file, bytes, offset).map_err(FileError::at(&self.path))
    }

    /// Lets it end there.
    pub(super) fn cut(&self, len: u64) -> Result<(), FileError> {
        self.file.set_len(len).map_err(FileError::at(&self.path))
    }
}

#[cfg(unix)]
use std::os::unix::fs::FileExt;

#[cfg(unix)]
fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

#[cfg(unix)]
fn write_all(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

// Elsewhere the position is the handle's own. No handle is shared while its file is locked.

#[cfg(not(unix))]
fn read_some(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    io::Read::read(&mut file, buffer)
}

#[cfg(not(unix))]
fn write_all(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    io::Write::write_all(&mut file, bytes)
}

/// Which file it is, whatever its name: its device and inode. Where the system does not tell, it is told by its path, and the
/// inode is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId {
    device: u64,
    pub(super) inode: u64,
}

impl FileId {
    #[cfg(unix)]
    pub(super) fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;

        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    #[cfg(unix)]
    fn opened(_path: &Path, metadata: &Metadata) -> Self {
        Self::of(metadata)
    }

    #[cfg(not(unix))]
    fn opened(path: &Path, _metadata: &Metadata) -> Self {
        use std::hash::{DefaultHasher, Hash, Hasher};

        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        Self { device: hasher.finish(), inode: 0 }
    }

    /// The file that others meet who open this path now.
    ///
    /// The times are not asked for: once somebody has read them, the next write notes its own more exactly, which
    /// costs more than the writing.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};

        let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO)?;
        Ok(Self { device: makedev(found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino })
    }

    /// The file that others meet who open this path now.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        path.symlink_metadata().map(|metadata| Self::opened(path, &metadata))
    }
}
