//! Servers that refuse to run as root, as which tests run in a container.

use std::env;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user without any file, `nobody`, by the kernel's number.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the command line of a server: root starts it as the user `nobody`, others as themselves.
pub(super) fn ordinary(command: impl IntoIterator<Item = String>) -> Vec<String> {
    let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
    let turn =
        if is_root() { vec!["setpriv".into(), user, group, "--clear-groups".into(), "--".into()] } else { vec![] };
    turn.into_iter().chain(command).collect()
}

/// Makes the server's user the owner of a path and of everything under it.
pub(super) fn give(path: &Path) {
    if !is_root() {
        return;
    }
    chown(path, Some(NOBODY), Some(NOBODY)).expect("root may give away");
    if path.is_dir() {
        for item in fs::read_dir(path).expect("root may look at everything") {
            give(&item.expect("root may look at everything").path());
        }
    }
}

/// Returns the path of a program in one of these folders, or else on the `PATH`.
pub(super) fn installed(name: &str, folders: &[PathBuf]) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut candidates = folders.iter().cloned().chain(env::split_paths(&path)).map(|folder| folder.join(name));
    candidates
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed; tests/run installs it, or says what to install"))
}

/// Runs a command line of [`ordinary`] to its end, with this on its input.
pub(super) fn run(directory: &Path, command: impl IntoIterator<Item = String>, input: &str) {
    let file = directory.join("input");
    fs::write(&file, input).expect("the directory takes a file");
    let input = fs::File::open(&file).expect("it was written");
    let words = ordinary(command);
    let output = Command::new(&words[0]).args(&words[1..]).current_dir(directory).stdin(input).output();
    let output = output.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success(), "{words:?}: {}\n{said}", output.status);
}
