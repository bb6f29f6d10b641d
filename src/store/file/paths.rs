//! The paths of the files of one mutex, and opening them.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use super::directory::Directory;
use super::error::FileError;
use super::open_file::OpenFile;
use crate::lease::name::MutexName;

/// The files of one mutex, in a directory.
pub(super) struct MutexPaths {
    directory: Arc<Directory>,
    record: PathBuf,
}

impl MutexPaths {
    pub(super) fn of(directory: Arc<Directory>, name: &MutexName) -> Self {
        let record = record_in(directory.path(), name);
        Self { directory, record }
    }

    pub(super) fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory)
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

    /// The index of the claims, if there are many.
    pub(super) fn index(&self) -> PathBuf {
        self.record.with_extension("index")
    }

    /// Opens one of these files.
    pub(super) fn open_if_there(&self, path: &Path) -> Result<Option<OpenFile>, FileError> {
        self.directory.file(path).map_err(FileError::at(path))
    }

    pub(super) fn open_or_make(&self, path: &Path) -> Result<OpenFile, FileError> {
        self.directory.file_or_make(path).map_err(FileError::at(path))
    }
}

/// The path of the record of a name.
pub(super) fn record_in(dir: &Path, name: &MutexName) -> PathBuf {
    path_in(dir, name.mutex(), "record")
}

/// The path of the log of an event's runs.
pub(super) fn runs_in(dir: &Path, event: &str) -> PathBuf {
    path_in(dir, event, "runs")
}

fn path_in(dir: &Path, name: &str, kind: &str) -> PathBuf {
    dir.join(format!("{}-{}.{kind}", slug(name), hashed(name).hyphenated()))
}

/// The files of a directory whose kind, which is the end of their names, is one of these; in the order of their names.
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

/// The hash of a name, in files' names and in claims.
pub(super) fn hashed(name: &str) -> Uuid {
    const NAMESPACE: Uuid = Uuid::from_u128(0x2f4a_9f0e_8f0b_4b0c_9a57_0e7a_6f3d_51c8);
    Uuid::new_v5(&NAMESPACE, name.as_bytes())
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

    impl MutexPaths {
        pub(in crate::store::file) fn in_dir(path: &Path, name: &MutexName) -> Self {
            let directory = Directory::open_or_make(path, crate::store::file::sharing::Sharing::ByMode)
                .expect("the directory is ours");
            Self::of(Arc::new(directory), name)
        }
    }

    #[test]
    fn a_file_is_recognised_by_its_name_and_told_apart_by_its_hash() {
        let file = |name: &str| {
            let record = record_in(Path::new("/locks"), &MutexName::lease(name).unwrap());
            record.file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(file("db:backup"), "db-backup-8cb507b3-6fb7-5145-a68c-2f0aa5830fd9.record");
        assert_ne!(file("db:backup"), file("db-backup"));
        assert!(file("../../etc/passwd").starts_with("etc-passwd-"));
        assert!(file("é\0/").starts_with("mutex-"));
        assert!(file(&"x".repeat(512)).len() < 100);
    }

    #[test]
    fn each_generation_has_a_life_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let paths = MutexPaths::in_dir(dir.path(), &MutexName::lease("a.b").unwrap());
        let stem = paths.record().to_str().unwrap().strip_suffix(".record").unwrap().to_owned();
        assert_eq!(paths.life(0).to_str().unwrap(), format!("{stem}.life"));
        assert_eq!(paths.life(12).to_str().unwrap(), format!("{stem}.life-12"));
    }
}
