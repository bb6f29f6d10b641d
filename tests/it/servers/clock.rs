//! A wall clock of a process, which a test sets while the process runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The clock of one process: the machine's time, plus the seconds that it was set ahead.
pub(crate) struct WallClock {
    file: PathBuf,
}

impl WallClock {
    /// Returns the clock of the process that was started by the words of [`settable`] for this directory.
    pub(crate) fn of(directory: &Path) -> Self {
        Self { file: directory.join("clock") }
    }

    /// Sets the clock that many seconds ahead of the machine's, or behind it.
    #[track_caller]
    pub(crate) fn set_ahead(&self, seconds: i64) {
        // In place: the process has mapped the file, and reads these eight bytes at once.
        let file = fs::OpenOptions::new().write(true).open(&self.file).expect("the clock can be set");
        std::os::unix::fs::FileExt::write_all_at(&file, &seconds.to_ne_bytes(), 0).expect("it is a file");
    }
}

/// Returns the words before a command line that let a test set the clock of its process.
pub(crate) fn settable(directory: &Path) -> Vec<String> {
    let (library, file) = (directory.join("clock.so"), directory.join("clock"));
    fs::write(&library, preloaded()).expect("the directory takes a file");
    fs::write(&file, 0_i64.to_ne_bytes()).expect("the directory takes a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let preload = format!("LD_PRELOAD={}", library.display());
    vec!["env".into(), preload, format!("SOLOIST_TEST_CLOCK={}", file.display())]
}

/// Returns the library that moves a server's clock, compiled once for all servers of this process.
fn preloaded() -> &'static [u8] {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let workshop = tempfile::tempdir().expect("a temporary directory");
        let library = workshop.path().join("clock.so");
        let source = workshop.path().join("clock.c");
        fs::write(&source, include_str!("clock.c")).expect("the directory takes a file");
        let mut command = Command::new("cc");
        let built = command.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        let built = built.output().expect("cc is installed; tests/run installs it, or says what to install");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        fs::read(&library).expect("it was built")
    })
}
