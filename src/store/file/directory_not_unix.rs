//! The directory of a store on systems other than Unix. Files are opened by their paths, and no owners or modes are
//! checked.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::network_filesystem::NetworkFilesystem;
use super::open_file::OpenFile;

pub(super) struct Directory {
    pub(super) path: PathBuf,
}

impl Directory {
    /// Opens the directory at `path`, and makes it if it does not exist.
    pub(super) fn open_or_make(path: &Path, network: NetworkFilesystem) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Self::open(path, network)
    }

    /// Checks that the path exists.
    pub(super) fn open(path: &Path, _: NetworkFilesystem) -> io::Result<Self> {
        path.metadata()?;
        Ok(Self { path: path.to_owned() })
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<Option<OpenFile>> {
        match open(path, &mut File::options()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Replaces a file by a new file with these bytes.
    pub(super) fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let beside = path.with_file_name(format!("{}.new", path.file_name().unwrap_or_default().display()));
        fs::write(&beside, bytes)?;
        fs::rename(&beside, path)
    }

    pub(super) fn file_or_make(&self, path: &Path) -> io::Result<OpenFile> {
        open(path, File::options().create(true).truncate(false))
    }
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<OpenFile> {
    let file = options.read(true).write(true).open(path)?;
    let found = file.metadata()?;
    Ok(OpenFile::new(file, path, &found))
}
