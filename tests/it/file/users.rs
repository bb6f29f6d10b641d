//! Other users of the machine. Only root can be another user, so these tests run as root, or run themselves again by
//! `sudo -n`; where neither can be done they fail and say so.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use super::child::{Doing, Order, copy_command};

/// No user of this machine has these numbers, nor a group.
pub(crate) const ALICE: u32 = 61_001;
pub(super) const BOB: u32 = 61_002;
/// A group that some of them share.
pub(super) const TEAM: u32 = 61_100;

/// A directory that all users can enter, and this test binary in it.
pub(crate) struct Ground {
    dir: TempDir,
    pub(crate) exe: PathBuf,
}

/// A user, by number.
pub(super) struct User<'a> {
    ground: &'a Ground,
    words: Vec<String>,
}

impl Ground {
    /// Restarts the test as root if needed. `None`: the test has passed, as root, in a process of its own.
    #[track_caller]
    pub(crate) fn as_root(test: &str) -> Option<Self> {
        let this = std::env::current_exe().unwrap();
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            let again = Command::new("sudo").arg("-n").arg(&this).args(["--exact", test, "--nocapture"]).output();
            let again =
                again.unwrap_or_else(|error| panic!("this test needs root, or sudo without a password: {error}"));
            let passed = again.status.success() && text(&again.stdout).contains("1 passed");
            let said = text(&again.stdout) + &text(&again.stderr);
            assert!(passed, "this test needs root, or sudo without a password, and as root it says:\n{said}");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o755);
        // The folder of the project may be closed to others.
        let exe = dir.path().join("it");
        // By another process: a child of another test may inherit a file that this process writes, and nothing can run
        // the file then.
        assert!(Command::new("cp").arg(this).arg(&exe).status().unwrap().success());
        set_mode(&exe, 0o755);
        Some(Self { dir, exe })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Makes a directory with this owner, group and mode.
    pub(super) fn dir(&self, name: &str, owner: u32, group: u32, mode: u32) -> PathBuf {
        let dir = self.path().join(name);
        fs::create_dir(&dir).unwrap();
        chown(&dir, Some(owner), Some(group)).unwrap();
        set_mode(&dir, mode);
        dir
    }

    pub(super) fn root(&self) -> User<'_> {
        User { ground: self, words: ["timeout", "30"].map(str::to_owned).into() }
    }

    /// Returns a user in a group of their own.
    pub(super) fn user(&self, id: u32) -> User<'_> {
        self.with(id, &["--clear-groups".to_owned()])
    }

    /// Returns a user who is in the team, too.
    pub(super) fn in_team(&self, id: u32) -> User<'_> {
        self.with(id, &[format!("--groups={TEAM}")])
    }

    fn with(&self, id: u32, groups: &[String]) -> User<'_> {
        let mut words = self.root().words;
        words.extend(["setpriv".to_owned(), format!("--reuid={id}"), format!("--regid={id}")]);
        words.extend_from_slice(groups);
        User { ground: self, words }
    }
}

impl User<'_> {
    /// Returns the first line of a child of this user that does this with the store.
    #[track_caller]
    pub(super) fn does(&self, what: &Order<'_>) -> String {
        let mut child = self.starts(what);
        let said = child.says().expect("it says something within 30 seconds");
        child.finish();
        said
    }

    pub(super) fn starts(&self, what: &Order<'_>) -> Doing {
        Doing::start(copy_command(&self.ground.exe, what, &self.words.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// Runs this shell line as the user. `$1` is the path.
    pub(super) fn tries(&self, line: &str, path: &Path) -> Output {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(["sh", "-c", line, "sh"]).arg(path).output().unwrap()
    }

    #[track_caller]
    pub(super) fn succeeds(&self, line: &str, path: &Path) {
        let output = self.tries(line, path);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns owner, group and mode of the file or link at this path.
pub(super) fn access(path: &Path) -> (u32, u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}
