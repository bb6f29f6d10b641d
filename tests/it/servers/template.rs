//! Data directories as a new server finds them: each kind is built once, and copied for each server.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::account;

/// Copies data that `build` makes into `directory`. `build` fills the empty directory `data` in the directory that
/// it gets.
///
/// The original lies in cargo's target directory. Later test runs use it again, with an equal `recipe` and for the
/// same user.
pub(super) fn copy(name: &str, recipe: impl Hash, build: impl FnOnce(&Path), directory: &Path) {
    static BUILDING: Mutex<()> = Mutex::new(());
    let template = template(name, recipe);
    let building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    if !template.is_dir() {
        // A temporary directory: the server's user may not write where cargo builds.
        let workshop = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(workshop.path().join("data")).expect("the directory takes one");
        account::give(workshop.path());
        build(workshop.path());
        keep(&workshop.path().join("data"), &template);
    }
    drop(building);
    copy_all(&template, &directory.join("data"));
}

fn template(name: &str, recipe: impl Hash) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    (recipe, rustix::process::geteuid().as_raw()).hash(&mut hasher);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{:016x}", hasher.finish()))
}

/// Keeps the whole directory, or nothing: this process may be killed meanwhile, and others may build the
/// directory.
fn keep(data: &Path, template: &Path) {
    let shelf = template.parent().expect("it has a name");
    fs::create_dir_all(shelf).expect("cargo builds there");
    let here = tempfile::tempdir_in(shelf).expect("cargo builds there");
    let copied = here.path().join("data");
    copy_all(data, &copied);
    let kept = fs::rename(&copied, template);
    assert!(template.is_dir(), "{}: {kept:?}", template.display());
}

/// Copies all files with their owners and permissions.
fn copy_all(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} is not copied to {}", from.display(), to.display());
}

/// Returns the version that a program prints. Each program runs once.
pub(super) fn version(program: &Path) -> Vec<u8> {
    static KNOWN: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let ask = || {
        let output = Command::new(program).arg("--version").output();
        output.unwrap_or_else(|error| panic!("{}: {error}", program.display())).stdout
    };
    known.entry(program.to_owned()).or_insert_with(ask).clone()
}
