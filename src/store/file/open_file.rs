//! An open file, and which one it is.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// A file of the store, as it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) id: FileId,
}

/// Which file it is, whatever it is called: its device and inode, or zeros where the system does not tell.
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

    #[cfg(not(unix))]
    pub(super) fn of(_metadata: &Metadata) -> Self {
        Self { device: 0, inode: 0 }
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
        path.symlink_metadata().map(|metadata| Self::of(&metadata))
    }
}

/// Whether nobody can open this file any more, because it was unlinked, alone or with its directory.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn is_deleted(file: &File) -> bool {
    use rustix::fs::{AtFlags, StatxFlags, statx};

    // Again without the times. A kernel that can't tell says nothing of the file.
    statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK).is_ok_and(|found| found.stx_nlink == 0)
}

/// An open file can't be unlinked everywhere, and its links are not counted everywhere.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn is_deleted(_file: &File) -> bool {
    false
}
