//! A directory in the layer of one container, which other containers don't see.

use std::env;
use std::process::Command;

use soloist::store::StoreWarning;
use soloist::{EventMutex, FileMutex};

/// With this variable, the process has mounts of its own, and an overlay at this path.
const MOUNTED: &str = "SOLOIST_TEST_OVERLAY";

#[test]
fn a_directory_on_overlayfs_is_warned_of() {
    if let Some(mounted) = env::var_os(MOUNTED) {
        let path = std::path::Path::new(&mounted).join("locks");
        let warnings = FileMutex::in_dir(&path).unwrap().check().unwrap();
        let [text] = &warnings.iter().map(StoreWarning::to_string).collect::<Vec<String>>()[..] else {
            panic!("{warnings:?}")
        };
        assert!(text.starts_with(&format!("the directory {} is on overlayfs: ", path.display())), "{text}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    let mount =
        "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged || exit 77; exec \"$0\" \"$@\"";
    let mut child = Command::new("unshare");
    child.args(if rustix::process::geteuid().is_root() { &["--mount"][..] } else { &["--map-root-user", "--mount"] });
    child.args(["sh", "-c", mount]).arg(env::current_exe().expect("a running program has a path"));
    child.args(["file::overlay::a_directory_on_overlayfs_is_warned_of", "--exact", "--nocapture"]);
    child.env(MOUNTED, dir.path().join("merged")).current_dir(dir.path());
    let output = child.output().expect("util-linux is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(77) || said.is_empty() {
        eprintln!("not tested: this machine lets us mount nothing: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
