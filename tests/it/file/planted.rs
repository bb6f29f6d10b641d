//! Another user plants a file or a link at the path of a file of the store. The store refuses it, and neither
//! creates nor gives away its target.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::child::Order;
use super::users::{ALICE, BOB, Ground, TEAM, User, access, set_mode};
use super::{files, reports};
use soloist::{EventMutex, FileMutex};

/// A file that the store opens.
#[derive(Clone, Copy, Debug)]
enum Opened {
    Lock,
    State,
    Life,
    /// The next life file, for when the first one is locked.
    NextLife,
}

const ALL: [Opened; 4] = [Opened::Lock, Opened::State, Opened::Life, Opened::NextLife];

/// A directory that a victim has used, and into which Bob can write.
struct Field<'a> {
    victim: User<'a>,
    bob: User<'a>,
    dir: PathBuf,
    /// A file of the victim, the target of Bob's links.
    treasure: PathBuf,
    missing: PathBuf,
}

impl<'a> Field<'a> {
    /// Lets root use a directory of Bob's.
    fn of_root(ground: &'a Ground, name: &str) -> Self {
        let dir = ground.dir(name, BOB, BOB, 0o700);
        Self::of(ground, name, ground.root(), ground.user(BOB), dir, 0)
    }

    /// Lets Alice and Bob share a directory.
    fn of_alice(ground: &'a Ground, name: &str) -> Self {
        let dir = ground.dir(name, ALICE, TEAM, 0o2770);
        Self::of(ground, name, ground.in_team(ALICE), ground.in_team(BOB), dir, ALICE)
    }

    fn of(ground: &Ground, name: &str, victim: User<'a>, bob: User<'a>, dir: PathBuf, id: u32) -> Self {
        let home = ground.dir(&format!("{name}-home"), id, id, 0o755);
        let (treasure, missing) = (home.join("treasure"), home.join("missing"));
        File::create(&treasure).unwrap();
        std::os::unix::fs::chown(&treasure, Some(id), Some(id)).unwrap();
        set_mode(&treasure, 0o644);
        assert_eq!(victim.does(&Order::Use(&dir)), "granted");
        Self { victim, bob, dir, treasure, missing }
    }

    fn path(&self, file: Opened) -> PathBuf {
        let state = files(&self.dir).into_iter().find(|path| path.extension().is_some_and(|kind| kind == "state"));
        let state = state.expect("the victim made one");
        match file {
            Opened::Lock => state.with_extension("lock"),
            Opened::State => state,
            Opened::Life => state.with_extension("life"),
            Opened::NextLife => state.with_extension("life-1"),
        }
    }

    /// Asserts that the store refuses the object that `plant` has put in the place of the file, and names the
    /// reason.
    #[track_caller]
    fn refuses(&self, file: Opened, why: impl FnOnce(&Path) -> String, plant: impl FnOnce(&Path)) {
        let path = self.path(file);
        let first = File::options().read(true).write(true).open(self.path(Opened::Life)).unwrap();
        if matches!(file, Opened::NextLife) {
            first.lock().unwrap();
        }
        self.bob.succeeds("rm -f \"$1\"", &path);
        plant(&path);
        let before = (access(&self.treasure), access(&path));
        let said = self.victim.does(&Order::Use(&self.dir));
        assert_eq!(said, format!("could not admit lease/reports in {}: {}", path.display(), why(&path)), "{file:?}");
        assert_eq!((access(&self.treasure), access(&path)), before, "{file:?}");
        assert_eq!(fs::read(&self.treasure).unwrap(), b"", "{file:?}");
        assert!(!self.missing.exists(), "{file:?}: a file was made behind a link");
    }
}

#[test]
fn a_link_in_place_of_a_file_is_not_followed_by_root() {
    let Some(ground) = Ground::as_root("file::planted::a_link_in_place_of_a_file_is_not_followed_by_root") else {
        return;
    };
    for file in ALL {
        links_are_not_followed(&ground, file, Field::of_root);
    }
}

#[test]
fn a_link_in_place_of_a_file_is_not_followed_by_another_user() {
    let test = "file::planted::a_link_in_place_of_a_file_is_not_followed_by_another_user";
    let Some(ground) = Ground::as_root(test) else { return };
    for file in ALL {
        links_are_not_followed(&ground, file, Field::of_alice);
    }
}

/// Returns the message about the planted file at `path`.
fn planted(path: &Path) -> String {
    let found = fs::symlink_metadata(path).expect("it is there");
    format!(
        "it may have been planted: it is no regular file, or has several names (hard links), or belongs to another user; its \
         owner is user {}, its group {}, and it has {} names: stop all processes that use the directory, then remove it; if \
         several users share the store, its directory needs `chmod g+rwxs`",
        found.uid(),
        found.gid(),
        found.nlink()
    )
}

#[track_caller]
fn links_are_not_followed<'a>(ground: &'a Ground, file: Opened, field: impl Fn(&'a Ground, &str) -> Field<'a>) {
    let symbolic = "it is a symbolic link, and links are not followed: \
                    stop all processes that use the directory, then remove it";
    for (name, there) in [("link", true), ("dangling", false)] {
        let field = field(ground, &format!("{file:?}-{name}"));
        let target = if there { &field.treasure } else { &field.missing }.display().to_string();
        field.refuses(
            file,
            |_| symbolic.to_owned(),
            |path| field.bob.succeeds(&format!("ln -s {target} \"$1\""), path),
        );
    }
    let field = field(ground, &format!("{file:?}-hard"));
    // Some systems let Bob do this.
    field.refuses(file, planted, |path| fs::hard_link(&field.treasure, path).unwrap());
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let Some(ground) = Ground::as_root("file::planted::what_is_no_regular_file_is_refused_at_once") else { return };
    for file in ALL {
        let field = Field::of_alice(&ground, &format!("{file:?}-pipe"));
        field.refuses(file, planted, |path| field.bob.succeeds("mkfifo -m 666 \"$1\"", path));
        let field = Field::of_alice(&ground, &format!("{file:?}-folder"));
        let folder = "Is a directory (os error 21)";
        field.refuses(file, |_| folder.to_owned(), |path| field.bob.succeeds("mkdir -m 777 \"$1\"", path));
    }
}

#[test]
fn a_link_where_the_next_state_is_written_is_replaced_and_not_followed() {
    let test = "file::planted::a_link_where_the_next_state_is_written_is_replaced_and_not_followed";
    let Some(ground) = Ground::as_root(test) else { return };
    for (name, field) in [("root", Field::of_root(&ground, "root")), ("alice", Field::of_alice(&ground, "alice"))] {
        let state = field.path(Opened::State);
        let beside = state.with_extension("state.new");
        for target in [&field.treasure, &field.missing] {
            field.bob.succeeds(&format!("ln -s {} \"$1\"", target.display()), &beside);
            let before = access(&field.treasure);
            fs::remove_file(&state).unwrap();
            assert_eq!(field.victim.does(&Order::Use(&field.dir)), "granted", "{name}");
            assert!(!beside.exists() && !field.missing.exists(), "{name}");
            assert_eq!((access(&field.treasure), &*fs::read(&field.treasure).unwrap()), (before, &b""[..]), "{name}");
        }
    }
}

#[test]
fn a_file_of_somebody_else_is_refused_where_nobody_shares() {
    let Some(ground) = Ground::as_root("file::planted::a_file_of_somebody_else_is_refused_where_nobody_shares") else {
        return;
    };
    let dir = ground.dir("locks", 0, TEAM, 0o770);
    assert_eq!(ground.in_team(ALICE).does(&Order::Use(&dir)), "granted");
    for (name, user) in [("Bob", ground.in_team(BOB)), ("root", ground.root())] {
        let said = user.does(&Order::Use(&dir));
        let mut locks = files(&dir).into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "lock"));
        let why = planted(&locks.next_back().expect("she made one"));
        assert!(said.ends_with(&format!(".lock: {why}")), "{name}: {said}");
    }
}

#[test]
fn a_file_of_roots_that_was_there_before_keeps_its_owner() {
    let Some(ground) = Ground::as_root("file::planted::a_file_of_roots_that_was_there_before_keeps_its_owner") else {
        return;
    };
    // The state is another file after each grant.
    for file in [Opened::Lock, Opened::Life, Opened::NextLife] {
        let field = Field::of_root(&ground, &format!("{file:?}"));
        let path = field.path(file);
        let first = File::options().read(true).write(true).open(field.path(Opened::Life)).unwrap();
        if matches!(file, Opened::NextLife) {
            first.lock().unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        File::create(&path).unwrap();
        assert_eq!(field.victim.does(&Order::Use(&field.dir)), "granted");
        assert_eq!(access(&path).0, 0, "{file:?} was given away");
    }
}

#[test]
fn a_directory_behind_a_link_that_somebody_else_planted_is_refused() {
    let test = "file::planted::a_directory_behind_a_link_that_somebody_else_planted_is_refused";
    let Some(ground) = Ground::as_root(test) else { return };
    let (open, target) = (ground.dir("tmp", 0, 0, 0o1777), ground.dir("target", 0, 0, 0o755));
    let link = open.join("locks");
    ground.user(BOB).succeeds(&format!("ln -s {} \"$1\"", target.display()), &link);
    let why = format!(
        "the path is a symbolic link of user {BOB}, who can let it lead elsewhere: check where it leads now, and give \
         the path of that directory"
    );
    for path in [link.clone(), link.join(""), link.join("."), link.join("./")] {
        let said = ground.root().does(&Order::Use(&path));
        assert_eq!(said, format!("could not open the directory {}: {why}", link.display()), "{path:?}");
    }
    assert!(files(&target).is_empty());

    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert_eq!(ground.root().does(&Order::Use(&link)), "granted");
    assert!(!FileMutex::in_dir(&target).unwrap().exists(&reports()).unwrap());
}
