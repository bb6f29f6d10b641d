//! The directory of a store. Its files are opened relative to one descriptor of the directory.
//!
//! Other users may have planted files in the directory. So three rules hold:
//!
//! - Links are not followed.
//! - A file is locked, read or changed only if it is a regular file of a permitted owner.
//! - The owner of a file is changed only by the call that has made the file.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::network_filesystem::{NetworkFilesystem, magic_of, named};
use super::open_file::OpenFile;
use crate::lease::owner::Owner;

mod access;

use access::{Access, Origin, accept_link, our_user, refused, why_closed};

/// The flags to open a file. Some systems need `RDWR` for locks. `NOFOLLOW` refuses links, and `NONBLOCK` prevents a
/// wait for the other end of a planted pipe.
const FLAGS: OFlags =
    OFlags::RDWR.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// The pauses between attempts to open a file. A process that makes a file sets the group and the mode of the file a
/// moment later. So the first attempts of other processes may fail.
const PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(2), Duration::from_millis(4)];

/// The open directory of a store.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    opened: File,
    pub(super) found: Metadata,
    pub(super) access: Access,
}

impl Directory {
    /// Opens the directory at `path`, and makes it if it does not exist.
    pub(super) fn open_or_make(path: &Path, network: NetworkFilesystem) -> io::Result<Self> {
        match Self::open(path, network) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(path).map_err(|error| {
                    let why =
                        format!("it is not there, and could not be made: {error}; make it, and give it to this user");
                    io::Error::new(error.kind(), why)
                })?;
                Self::open(path, network)
            }
            opened => opened,
        }
    }

    pub(super) fn open(path: &Path, network: NetworkFilesystem) -> io::Result<Self> {
        let directory = OFlags::DIRECTORY.bits().cast_signed();
        let opened = File::options().read(true).custom_flags(directory).open(path);
        let opened = opened.map_err(|error| match fs::metadata(path) {
            Ok(found) if is_closed(&error) => why_closed(&found),
            _ => error,
        })?;
        let found = opened.metadata()?;
        expect_at(path, &found)?;
        let access = Access::in_directory(path, &found)?;
        network.accept(named(magic_of(path)?))?;
        Ok(Self { path: path.to_owned(), opened, found, access })
    }

    /// Opens the file at `path`, which is in this directory. Returns `None` if the file does not exist.
    pub(super) fn file(&self, path: &Path) -> io::Result<Option<OpenFile>> {
        patiently(|| self.open_file(path)).map_err(|error| self.explained(path, error))
    }

    pub(super) fn file_or_make(&self, path: &Path) -> io::Result<OpenFile> {
        let open_or_make = || match self.open_file(path)? {
            Some(file) => Ok(file),
            None => self.make_file(path),
        };
        patiently(open_or_make).map_err(|error| self.explained(path, error))
    }

    /// Replaces a file by a new file with these bytes. Each process sees the old file or the new file, even if this
    /// process is killed.
    pub(super) fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let beside = path.with_file_name(format!("{}.new", file_name(path).display()));
        let made = match self.make_file(&beside) {
            // The file was left by a process that was killed before the rename, or a user has planted it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(&beside)?;
                self.make_file(&beside)
            }
            made => made,
        };
        let written = (&made?.file)
            .write_all(bytes)
            .and_then(|()| Ok(renameat(&self.opened, file_name(&beside), &self.opened, file_name(path))?));
        written.inspect_err(|_| drop(self.remove(&beside)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Ok(unlinkat(&self.opened, file_name(path), AtFlags::empty())?)
    }

    /// Checks that the directory takes writes: writes a file that is as long as the state of a new event, and removes
    /// it.
    pub(super) fn try_write(&self) -> io::Result<()> {
        let path = self.path.join(format!("check-{}", Owner::unique()));
        let made = self.make_file(&path).map_err(|error| self.explained(&path, error))?;
        let written = (&made.file).write_all(&[b'\n'; 4096]);
        let removed = self.remove(&path);
        written.and(removed)
    }

    fn open_file(&self, path: &Path) -> io::Result<Option<OpenFile>> {
        match openat(&self.opened, file_name(path), FLAGS, Mode::empty()) {
            Ok(file) => self.accepted(file, path, Origin::Found).map(Some),
            Err(Errno::NOENT) => Ok(None),
            // For a symbolic link, most systems return `ELOOP`, and some BSDs return `EMLINK`.
            Err(Errno::LOOP | Errno::MLINK) => Err(refused(
                "it is a symbolic link, and links are not followed: stop all processes that use the directory, \
                     then remove it",
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a file. Until its group and its mode are set, only its owner can open it, whatever the umask is.
    fn make_file(&self, path: &Path) -> io::Result<OpenFile> {
        let file =
            openat(&self.opened, file_name(path), FLAGS | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR)?;
        self.accepted(file, path, Origin::Made)
    }

    fn accepted(&self, file: OwnedFd, path: &Path, origin: Origin) -> io::Result<OpenFile> {
        let file = File::from(file);
        let (found, us) = (file.metadata()?, our_user());
        self.access.accept(&found, us)?;
        self.access.settle(&file, &found, origin, us);
        Ok(OpenFile::new(file, path, &found))
    }

    /// Returns an error that names owner and mode, if the system refused to open the file because of them. Otherwise
    /// returns `error`.
    fn explained(&self, path: &Path, error: io::Error) -> io::Error {
        if !is_closed(&error) {
            return error;
        }
        match (fs::symlink_metadata(path), fs::metadata(&self.path)) {
            (Ok(file), _) => self.access.accept(&file, our_user()).err().unwrap_or_else(|| why_closed(&file)),
            (Err(_), Ok(directory)) => why_closed(&directory),
            _ => error,
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ACCESS.raw_os_error())
}

fn file_name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// Checks that `path` is this directory, or a link to it that a trusted user made.
fn expect_at(path: &Path, directory: &Metadata) -> io::Result<()> {
    let named = fs::symlink_metadata(path)?;
    if named.is_symlink() {
        return accept_link(&named, directory);
    }
    if (named.dev(), named.ino()) == (directory.dev(), directory.ino()) {
        return Ok(());
    }
    Err(refused("the directory was replaced while it was opened"))
}

/// Makes a directory with mode 0700. Missing directories above it get mode 0755: if users share the new directory
/// later, they must be able to enter the directories above it.
fn make(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(above)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Returns whether another process may be making the file at this moment: the file exists, but this process can't open
/// it yet.
fn is_being_made(error: &io::Error) -> bool {
    let errors = [Errno::ACCESS, Errno::EXIST].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|error| errors.contains(&error))
}

/// Runs `attempt`, and retries for a few milliseconds while another process may be making the file.
fn patiently<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for pause in PAUSES {
        match attempt() {
            Err(error) if is_being_made(&error) => thread::sleep(pause),
            answer => return answer,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_about_to_be_opened_to_us_is_waited_for_and_what_stays_closed_is_an_error() {
        for closed_for in 0..10 {
            let attempts = Cell::new(0);
            let attempt = || {
                attempts.set(attempts.get() + 1);
                if attempts.get() > closed_for { Ok(()) } else { Err(io::Error::from(Errno::ACCESS)) }
            };
            let answer = patiently(attempt);
            assert_eq!(answer.is_ok(), closed_for <= PAUSES.len(), "{closed_for}");
        }
        let attempts = Cell::new(0);
        let refuse = || -> io::Result<()> {
            attempts.set(attempts.get() + 1);
            Err(refused("it is a symbolic link"))
        };
        let refused = patiently(refuse).unwrap_err();
        assert_eq!((refused.kind(), attempts.get()), (io::ErrorKind::PermissionDenied, 1));
    }
}
