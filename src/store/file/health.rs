//! The warnings of `check`: the directory takes no writes, or other users can write to it or open its files.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::directory::Directory;
use super::network_filesystem::is_overlay;
use super::paths::{LIFE, LOCK, RUNS, RUNS_LOCK, STATE, files_of};
use crate::store::event_mutex::warning::StoreWarning;

/// Returns the warnings. Opens all files of the store: if a file belongs to this user and its mode is too wide, the
/// opening also narrows the mode.
pub(super) fn warnings(directory: &Directory) -> io::Result<Vec<StoreWarning>> {
    let path = &directory.path;
    let mut warnings = Vec::from_iter(of_its_group(directory));
    warnings.extend(directory.try_write().err().map(|error| {
        StoreWarning::new(format_args!(
            "the store takes no writes, so that no protected event runs: could not write a file to {}: {error}",
            path.display()
        ))
    }));
    if is_overlay(path)? {
        warnings.push(StoreWarning::new(format_args!(
            "the directory {} is on overlayfs: other containers do not see it, and it is lost when this container is created \
             again; put it on a volume that all containers mount",
            path.display()
        )));
    }
    let above = path.canonicalize()?;
    warnings.extend(above.ancestors().skip(1).filter_map(|above| of_a_directory_above(above, path)));
    let is_ours = |kind: &str| [LOCK, STATE, LIFE, RUNS, RUNS_LOCK].contains(&kind) || kind.starts_with("life-");
    for file in files_of(path, is_ours)? {
        warnings.extend(of_file(directory, &file)?);
    }
    Ok(warnings)
}

fn of_its_group(directory: &Directory) -> Option<StoreWarning> {
    let text = format_args!(
        "the directory {0} is not safe: its group can write to it, and can remove files to free held names: run `chmod g+rwxs {0}` \
         if its group shares the store, else `chmod g-w {0}`",
        directory.path.display()
    );
    (directory.found.mode() & 0o020 != 0 && !directory.access.shared).then(|| StoreWarning::new(text))
}

fn of_a_directory_above(above: &Path, store: &Path) -> Option<StoreWarning> {
    // A directory that all users can write to is safe if it is sticky: then only the owner of an entry can rename or
    // remove the entry.
    let is_open = above.metadata().is_ok_and(|above| above.mode() & 0o1002 == 0o002);
    let text = format_args!(
        "the directory {0} is not safe: all users can write to it, and can put another directory in place of {1}: run `chmod +t {0}`, \
          so that only the owner of {1} can rename or remove it",
        above.display(),
        store.display()
    );
    is_open.then(|| StoreWarning::new(text))
}

/// Returns a warning if the store can't use the file, or if other users can lock the file and so block its event.
fn of_file(directory: &Directory, path: &Path) -> io::Result<Option<StoreWarning>> {
    let fault = match directory.file(path) {
        Ok(None) => None,
        Ok(Some(file)) => directory.access.exposure(&file.file.metadata()?),
        Err(refusal) => Some(refusal.to_string()),
    };
    let warning = |fault| StoreWarning::new(format_args!("the file {} is not safe: {fault}", path.display()));
    Ok(fault.map(warning))
}
