//! Where a mutex lives: its files, and what is said when one of them fails.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::record::{hashed, name_block};
use crate::error::MutexError;
use crate::lease::MutexName;

/// The files of one mutex, and the name block that its record must begin with.
pub(super) struct Place {
    record: PathBuf,
    name_block: Vec<u8>,
}

impl Place {
    pub(super) fn of(dir: &Path, name: &MutexName) -> Self {
        let file = format!("{}-{}.record", slug(name.mutex()), hashed(name.mutex()).hyphenated());
        Self { record: dir.join(file), name_block: name_block(name.mutex()) }
    }

    pub(super) fn record(&self) -> &Path {
        &self.record
    }

    /// The life file of a generation; the first is the only one as long as no lease outlives its term.
    pub(super) fn life(&self, generation: u32) -> PathBuf {
        match generation {
            0 => self.record.with_extension("life"),
            _ => self.record.with_extension(format!("life-{generation}")),
        }
    }

    pub(super) fn name_block(&self) -> &[u8] {
        &self.name_block
    }

    /// A file that is not there means something only while its directory is.
    pub(super) fn expect_directory(&self) -> Result<(), Fault> {
        let Some(dir) = self.record.parent() else { return Ok(()) };
        dir.metadata().map(drop).map_err(Fault::at(&self.record))
    }
}

pub(super) fn open_or_make(path: &Path) -> Result<File, Fault> {
    let file = open(File::options().create(true).truncate(false), path).map_err(Fault::at(path))?;
    #[cfg(unix)]
    hand_to_the_directorys_owner(&file, path);
    Ok(file)
}

/// What root makes, who pauses a schedule say, is for those whose directory it is: they could not open it otherwise.
#[cfg(unix)]
fn hand_to_the_directorys_owner(file: &File, path: &Path) {
    use std::os::unix::fs::{MetadataExt, fchown};

    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (Ok(made), Some(Ok(dir))) = (file.metadata(), path.parent().map(Path::metadata)) else { return };
    if made.len() == 0 && made.uid() == 0 && dir.uid() != 0 {
        // Where it can't be done, whoever opens it is told so.
        let _ = fchown(file, Some(dir.uid()), Some(dir.gid()));
    }
}

pub(super) fn open_if_there(path: &Path) -> Result<Option<File>, Fault> {
    match open(&mut File::options(), path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Fault::at(path)(error)),
    }
}

/// Opens for reading and writing, as locks need on some systems.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.read(true).write(true).open(path)
}

/// Opens for reading and writing, as locks need on some systems, and without noting on the disk when it was read, which
/// costs more than the reading. Only the file's owner may ask for that.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    let quiet = rustix::fs::OFlags::NOATIME.bits().cast_signed();
    match options.read(true).write(true).custom_flags(quiet).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => options.custom_flags(0).open(path),
        opened => opened,
    }
}

/// Which file it is, whatever it is called: its device and inode, or zeros where the system does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    pub(super) inode: u64,
}

impl FileId {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::from(&metadata))
    }

    /// The file that others meet who open this path now.
    ///
    /// The times are not asked for: once somebody has read them, the next write notes its own more exactly, which
    /// costs more than the writing.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};

        let found = statx(CWD, path, AtFlags::empty(), StatxFlags::INO)?;
        Ok(Self { device: makedev(found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino })
    }

    /// The file that others meet who open this path now.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        path.metadata().map(|metadata| Self::from(&metadata))
    }

    #[cfg(unix)]
    fn from(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;

        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    #[cfg(not(unix))]
    fn from(_metadata: &Metadata) -> Self {
        Self { device: 0, inode: 0 }
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

/// What went wrong, and with which file.
#[derive(Debug)]
pub(super) struct Fault {
    path: PathBuf,
    source: io::Error,
}

impl Fault {
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self { path: path.to_path_buf(), source }
    }

    pub(super) fn unusable(path: &Path, why: String) -> Self {
        Self::at(path)(io::Error::new(io::ErrorKind::InvalidData, why))
    }

    /// What goes wrong with one file says nothing of the other names, unless their directory can't be entered either.
    pub(super) fn while_trying_to(self, verb: &str, name: &MutexName) -> MutexError {
        let attempted = format!("{verb} {name} in {}", self.path.display());
        let directory = self.path.parent().map_or(Ok(()), |dir| dir.join(".").metadata().map(drop));
        match directory {
            Ok(()) => MutexError::unusable(attempted, self.source),
            Err(_) => MutexError::unavailable(attempted, self.source),
        }
    }
}

/// What a person recognises the name by in a list of files.
fn slug(name: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() || matches!(char, '.' | '_') { char } else { '-' };
    let slug: String = name.chars().take(40).map(plain).collect();
    // A leading dot hides a file, a leading dash looks like an option.
    let slug = slug.trim_matches(['.', '-']);
    if slug.is_empty() { "mutex".into() } else { slug.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_recognised_by_its_name_and_told_apart_by_its_hash() {
        let file = |name: &str| {
            let place = Place::of(Path::new("/locks"), &MutexName::lease(name).unwrap());
            place.record().file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(file("db:backup"), "db-backup-8cb507b3-6fb7-5145-a68c-2f0aa5830fd9.record");
        assert_ne!(file("db:backup"), file("db-backup"));
        assert!(file("../../etc/passwd").starts_with("etc-passwd-"));
        assert!(file("é\0/").starts_with("mutex-"));
        assert!(file(&"x".repeat(512)).len() < 100);
    }

    #[test]
    fn each_generation_has_a_life_file_of_its_own() {
        let place = Place::of(Path::new("/locks"), &MutexName::lease("a.b").unwrap());
        let stem = place.record().to_str().unwrap().strip_suffix(".record").unwrap().to_owned();
        assert_eq!(place.life(0).to_str().unwrap(), format!("{stem}.life"));
        assert_eq!(place.life(12).to_str().unwrap(), format!("{stem}.life-12"));
    }
}
