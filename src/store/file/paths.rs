//! The paths of the files of one mutex, and the functions that open them.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use super::directory::Directory;
use super::error::FileError;
use super::open_file::OpenFile;

/// The kinds of files. The name of a file ends with its kind.
pub(super) const LOCK: &str = "lock";
pub(super) const STATE: &str = "state";
pub(super) const LIFE: &str = "life";
pub(super) const RUNS: &str = "runs";
pub(super) const RUNS_LOCK: &str = "runs-lock";

/// The files of one mutex, in a directory.
pub(super) struct MutexPaths {
    directory: Arc<Directory>,
    stem: String,
}

impl MutexPaths {
    pub(super) fn of(directory: Arc<Directory>, mutex: &str) -> Self {
        Self { directory, stem: stem_of(mutex) }
    }

    /// Returns the files of the mutex whose state is at `state`.
    pub(super) fn beside(directory: Arc<Directory>, state: &Path) -> Self {
        let stem = state.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self { directory, stem }
    }

    /// Returns whether these files belong to the mutex with the name `mutex`.
    pub(super) fn belong_to(&self, mutex: &str) -> bool {
        self.stem == stem_of(mutex)
    }

    /// Returns the path of the file of this kind.
    pub(super) fn path(&self, kind: &str) -> PathBuf {
        self.directory.path.join(format!("{}.{kind}", self.stem))
    }

    /// Opens the file of this kind. Returns `None` if the file does not exist.
    pub(super) fn open_if_there(&self, kind: &str) -> Result<Option<OpenFile>, FileError> {
        let path = self.path(kind);
        self.directory.file(&path).map_err(FileError::at(&path))
    }

    pub(super) fn open_or_make(&self, kind: &str) -> Result<OpenFile, FileError> {
        let path = self.path(kind);
        self.directory.file_or_make(&path).map_err(FileError::at(&path))
    }

    /// Replaces the file of this kind by a new file with this text.
    pub(super) fn replace(&self, kind: &str, text: &str) -> Result<(), FileError> {
        let path = self.path(kind);
        self.directory.replace(&path, text.as_bytes()).map_err(FileError::at(&path))
    }
}

pub(super) fn state_in(dir: &Path, mutex: &str) -> PathBuf {
    dir.join(format!("{}.{STATE}", stem_of(mutex)))
}

/// Returns the kind of the life file with the number `generation`. A holder normally uses the life file with the number
/// 0. If this file is still locked for an earlier holder, the new holder uses the number 1, and so on.
pub(super) fn life(generation: u32) -> String {
    if generation == 0 { LIFE.to_owned() } else { format!("{LIFE}-{generation}") }
}

/// Returns the files of a directory whose kind passes `is_kind`, in the order of their names.
pub(super) fn files_of(directory: &Path, is_kind: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in directory.read_dir()? {
        let path = entry?.path();
        if path.extension().and_then(OsStr::to_str).is_some_and(&is_kind) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the beginning of the names of a mutex's files: a readable part of the mutex's name, and a hash of the whole
/// name.
fn stem_of(name: &str) -> String {
    const NAMESPACE: Uuid = Uuid::from_u128(0x2f4a_9f0e_8f0b_4b0c_9a57_0e7a_6f3d_51c8);
    let plain = |char: char| if char.is_ascii_alphanumeric() || matches!(char, '.' | '_') { char } else { '-' };
    let slug: String = name.chars().take(40).map(plain).collect();
    // A leading dot would hide the file, and a leading dash would look like an option of a command.
    let slug = slug.trim_matches(['.', '-']);
    let slug = if slug.is_empty() { "mutex" } else { slug };
    format!("{slug}-{}", Uuid::new_v5(&NAMESPACE, name.as_bytes()).hyphenated())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file::network_filesystem::NetworkFilesystem;

    impl MutexPaths {
        pub(in crate::store::file) fn in_dir(path: &Path, mutex: &str) -> Self {
            let directory = Directory::open_or_make(path, NetworkFilesystem::Refuse).expect("the directory is ours");
            Self::of(Arc::new(directory), mutex)
        }
    }

    #[test]
    fn a_file_is_recognised_by_its_name_and_told_apart_by_its_hash() {
        let file = |name: &str| {
            let state = state_in(Path::new("/locks"), name);
            state.file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(file("db:backup"), "db-backup-8cb507b3-6fb7-5145-a68c-2f0aa5830fd9.state");
        assert_ne!(file("db:backup"), file("db-backup"));
        assert!(file("../../etc/passwd").starts_with("etc-passwd-"));
        assert!(file("é\0/").starts_with("mutex-"));
        assert!(file(&"x".repeat(512)).len() < 100);
    }

    #[test]
    fn each_generation_has_a_life_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let paths = MutexPaths::in_dir(dir.path(), "a.b");
        let stem = paths.path(STATE).to_str().unwrap().strip_suffix(".state").unwrap().to_owned();
        assert_eq!(paths.path(&life(0)).to_str().unwrap(), format!("{stem}.life"));
        assert_eq!(paths.path(&life(12)).to_str().unwrap(), format!("{stem}.life-12"));
        assert_eq!(MutexPaths::beside(Arc::clone(&paths.directory), &paths.path(STATE)).path(LOCK), paths.path(LOCK));
    }
}
