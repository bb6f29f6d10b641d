//! The warnings of `check`: the directory takes no files, or other users can write to it or open its files.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::directory::Directory;
use super::filesystem::is_overlay;
use super::paths::{LIFE, LOCK, RUNS, RUNS_LOCK, STATE, files_of};
use crate::store::event_mutex::warning::StoreWarning;

/// Opens all files, so that those of ours get the mode that they should have.
pub(super) fn warnings(directory: &Directory) -> io::Result<Vec<StoreWarning>> {
    let mut warnings = Vec::from_iter(of_its_group(directory));
    warnings.extend(directory.try_write().err().map(|error| {
        let why = format!("could not write a file to {}: {error}", directory.path().display());
        StoreWarning::TakesNoWrites { why }
    }));
    if is_overlay(directory.path())? {
        warnings.push(StoreWarning::Overlay { path: directory.path().to_owned() });
    }
    let above = directory.path().canonicalize()?;
    warnings.extend(above.ancestors().skip(1).filter_map(|above| of_a_directory_above(above, directory)));
    let is_ours = |kind: &str| [LOCK, STATE, LIFE, RUNS, RUNS_LOCK].contains(&kind) || kind.starts_with("life-");
    for path in files_of(directory.path(), is_ours)? {
        warnings.extend(of_file(directory, &path)?.map(|what| StoreWarning::WrongFile { path, what }));
    }
    Ok(warnings)
}

fn of_its_group(directory: &Directory) -> Option<StoreWarning> {
    let path = directory.path();
    let excluded = directory.is_writable_by_group() && !directory.access().is_shared();
    let what = || {
        format!(
            "its group can write to it, and free what is held by removing files: run `chmod g+rwxs {0}` if its group \
             shares the store, else `chmod g-w {0}`",
            path.display()
        )
    };
    excluded.then(|| StoreWarning::WrongDirectory { path: path.to_owned(), what: what() })
}

fn of_a_directory_above(above: &Path, directory: &Directory) -> Option<StoreWarning> {
    // In a sticky directory only owners move their files.
    let is_open = above.metadata().is_ok_and(|above| above.mode() & 0o1002 == 0o002);
    let what = || {
        let (store, above) = (directory.path().display(), above.display());
        format!(
            "all users can write to it, and can put another directory in place of {store}: run `chmod +t {above}`, so \
             that only owners can rename and remove what is in it"
        )
    };
    is_open.then(|| StoreWarning::WrongDirectory { path: above.to_owned(), what: what() })
}

fn of_file(directory: &Directory, path: &Path) -> io::Result<Option<String>> {
    match directory.file(path) {
        Ok(None) => Ok(None),
        Ok(Some(file)) => Ok(directory.access().exposure(&file.file.metadata()?)),
        Err(refusal) => Ok(Some(refusal.to_string())),
    }
}
