//! The users that can open a directory and its files.

use std::fs;
use std::path::{Path, PathBuf};

use soloist::{EventMutex, FileMutex};

use super::child::Order;
use super::users::{ALICE, BOB, Ground, TEAM, access, set_mode};
use super::{Store, files, reports};

const CAROL: u32 = 61_003;

fn mode(path: &Path) -> u32 {
    access(path).2
}

fn modes(dir: &Path) -> Vec<u32> {
    files(dir).iter().map(|file| mode(file)).collect()
}

#[track_caller]
fn refusal(dir: &Path) -> String {
    let error = FileMutex::in_dir(dir).expect_err("it was opened");
    assert!(error.is_refused());
    format!("{error:?}").replace(&dir.display().to_string(), "DIR")
}

#[test]
fn what_the_store_makes_is_its_owners_alone() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a/b");
    let store = Store { mutex: FileMutex::in_dir(&dir).unwrap(), ..Store::new() };
    store.assert_free(&reports());
    assert_eq!((mode(&dir), modes(&dir)), (0o700, vec![0o600; 3]));
    assert_eq!(mode(&parent.path().join("a")) & 0o022, 0, "others can replace it");
}

#[test]
fn wider_modes_are_narrowed_when_their_owner_opens_the_files() {
    let store = Store::new();
    let lease = store.take(&reports());
    for file in files(store.path()) {
        set_mode(&file, 0o666);
    }
    assert!(store.other().exists(&reports()).unwrap());
    assert_eq!(modes(store.path()), [0o600; 3]);
    assert!(store.mutex.forget(&lease).unwrap());
}

#[test]
fn a_directory_that_all_users_can_write_to_is_refused() {
    let store = Store::new();
    for mode in [0o777, 0o702, 0o2777, 0o1777] {
        set_mode(store.path(), mode);
        assert_eq!(
            refusal(store.path()),
            "could not open the directory DIR: all users can write to the directory, and could plant files: use a \
             subdirectory that only its owner can write to, the same for all processes; or, if nothing but this store uses \
             it, run `chmod o-w DIR`"
        );
    }
    set_mode(store.path(), 0o3770);
    assert!(refusal(store.path()).contains("run `chmod -t DIR`"));
    set_mode(store.path(), 0o700);
    store.assert_free(&reports());
}

#[test]
fn a_directory_that_is_opened_to_all_users_later_is_refused_from_then_on() {
    let store = Store::new();
    store.assert_free(&reports());
    set_mode(store.path(), 0o777);
    let error = store.mutex.exists(&reports()).unwrap_err();
    assert!(error.is_refused() && format!("{error:?}").contains("all users can write to the directory"), "{error:?}");
    assert!(store.mutex.check().unwrap_err().is_refused());
    set_mode(store.path(), 0o700);
    assert!(!store.mutex.exists(&reports()).unwrap());
}

#[test]
fn a_directory_of_somebody_else_is_refused_where_nobody_shares() {
    let Some(ground) = Ground::as_root("file::modes::a_directory_of_somebody_else_is_refused_where_nobody_shares")
    else {
        return;
    };
    let dir = ground.dir("locks", ALICE, TEAM, 0o770);
    let said = ground.in_team(BOB).does(&Order::Use(&dir));
    let why = format!(
        "the directory belongs to user {ALICE}, not to user {BOB} or root: use another directory; \
         or share this one with group {TEAM}, whose members can then block and end its leases: let user {ALICE} run \
         `chmod g+rwxs {}`",
        dir.display()
    );
    assert_eq!(said, format!("could not open the directory {}: {why}", dir.display()));
}

#[test]
fn a_user_who_may_only_look_at_the_directory_cannot_block_an_event() {
    let test = "file::modes::a_user_who_may_only_look_at_the_directory_cannot_block_an_event";
    let Some(ground) = Ground::as_root(test) else { return };
    for (name, mode) in [("private", 0o755), ("shared", 0o2775)] {
        let dir = ground.dir(name, ALICE, TEAM, mode);
        let alice = ground.in_team(ALICE);
        assert_eq!(alice.does(&Order::Use(&dir)), "granted");
        for file in files(&dir) {
            let locked = ground.user(BOB).tries("flock --shared --nonblock \"$1\" true", &file);
            assert!(!locked.status.success(), "Bob can lock {}", file.display());
        }
    }
}

/// Lets two services of the team use the directory by turns, and see each other. Carol, who is not in the team,
/// cannot.
#[track_caller]
fn two_services_share(ground: &Ground, dir: &Path) {
    let (alice, bob) = (ground.in_team(ALICE), ground.in_team(BOB));
    for user in [&alice, &bob, &ground.root(), &alice, &bob] {
        assert_eq!(user.does(&Order::Use(dir)), "granted");
    }
    for file in files(dir) {
        assert_eq!((access(&file).1, mode(&file)), (TEAM, 0o660), "{}", file.display());
    }
    let mut holder = alice.starts(&Order::Hold(dir, "reports"));
    holder.says().expect("Alice holds it");
    assert_eq!(bob.does(&Order::Use(dir)), "held");
    holder.finish();
    assert_eq!(bob.does(&Order::Use(dir)), "granted");
    let said = ground.user(CAROL).does(&Order::Use(dir));
    assert!(
        said.starts_with("could not open the directory ") && said.contains("share the directory with a group"),
        "{said}"
    );
}

#[test]
fn what_is_closed_to_this_user_is_told_with_its_owner_its_mode_and_the_way_out() {
    let test = "file::modes::what_is_closed_to_this_user_is_told_with_its_owner_its_mode_and_the_way_out";
    let Some(ground) = Ground::as_root(test) else { return };
    let closed = |mode: u32| {
        format!(
            ": it belongs to user 0 and has mode {mode:o}, and this process runs as user {ALICE}: use a directory of this \
             user; or let user 0 give it away (`chown {ALICE}`); or share the directory with a group of this user (`chmod \
             g+rwxs`), and its files, too (`chgrp` and `chmod 660`)"
        )
    };
    for (name, mode) in [("closed", 0o700), ("to-look-at", 0o755)] {
        let dir = ground.dir(name, 0, 0, mode);
        let said = ground.user(ALICE).does(&Order::Use(&dir));
        assert!(said.ends_with(&closed(mode)), "{said}");
    }
    let dir = ground.dir("of-a-group", 0, TEAM, 0o770);
    assert_eq!(ground.root().does(&Order::Use(&dir)), "granted");
    let said = ground.in_team(ALICE).does(&Order::Use(&dir));
    assert!(said.ends_with(&closed(0o600)), "{said}");
    set_mode(&dir, 0o2770);
    let said = ground.in_team(ALICE).does(&Order::Use(&dir));
    assert!(said.ends_with(&closed(0o600)), "{said}");
    // As it says.
    ground.root().succeeds(&format!("chgrp {TEAM} \"$1\"/* && chmod 660 \"$1\"/*"), &dir);
    assert_eq!(ground.in_team(ALICE).does(&Order::Use(&dir)), "granted");
}

#[test]
fn two_services_of_one_group_share_a_setgid_directory() {
    let Some(ground) = Ground::as_root("file::modes::two_services_of_one_group_share_a_setgid_directory") else {
        return;
    };
    two_services_share(&ground, &ground.dir("of-root", 0, TEAM, 0o2770));
    two_services_share(&ground, &ground.dir("of-alice", ALICE, TEAM, 0o2770));
}

#[test]
fn a_directory_that_one_service_has_used_is_shared_after_a_change_of_its_mode() {
    let test = "file::modes::a_directory_that_one_service_has_used_is_shared_after_a_change_of_its_mode";
    let Some(ground) = Ground::as_root(test) else { return };
    let dir = ground.dir("there", ALICE, TEAM, 0o750);
    assert_eq!(ground.in_team(ALICE).does(&Order::Use(&dir)), "granted", "these files are hers alone, for now");
    let said = ground.in_team(BOB).does(&Order::Use(&dir));
    let advice = format!("let user {ALICE} run `chmod g+rwxs {}`", dir.display());
    assert!(said.ends_with(&advice), "{said}");
    ground.in_team(ALICE).succeeds("chmod g+rwxs \"$1\"", &dir);
    two_services_share(&ground, &dir);
}

/// Returns the warnings of `mutex` about `dir`, which is written as DIR.
fn warnings(mutex: &FileMutex) -> Vec<String> {
    let dir = mutex.dir().display().to_string();
    let stem = |path: PathBuf| path.with_extension("").display().to_string();
    let state = files(mutex.dir()).into_iter().next().map_or_else(|| "none".to_owned(), stem);
    let warnings = mutex.check().unwrap();
    warnings.iter().map(|warning| warning.to_string().replace(&state, "FILE").replace(&dir, "DIR")).collect()
}

#[test]
fn checking_narrows_what_is_ours_and_warns_of_what_is_not() {
    let Some(ground) = Ground::as_root("file::modes::checking_narrows_what_is_ours_and_warns_of_what_is_not") else {
        return;
    };
    let dir = ground.dir("locks", ALICE, ALICE, 0o700);
    assert_eq!(ground.user(ALICE).does(&Order::Use(&dir)), "granted");
    let mutex = FileMutex::in_dir(&dir).unwrap();
    assert_eq!(warnings(&mutex), [""; 0]);

    let [life, _, state] = files(&dir).try_into().unwrap();
    set_mode(&life, 0o644);
    assert_eq!(
        warnings(&mutex),
        [format!(
            "the file FILE.life is not safe: users other than its owner can open it, \
             and block the event by locking it: let its owner, user {ALICE}, run `chmod 600` on it"
        )]
    );
    set_mode(&life, 0o600);
    fs::remove_file(&state).unwrap();
    ground.user(ALICE).succeeds("ln -s /etc/passwd \"$1\"", &state);
    assert_eq!(
        warnings(&mutex),
        ["the file FILE.state is not safe: it is a symbolic link, and links are not followed: stop all \
          processes that use the directory, then remove it"]
    );

    let store = Store::new();
    store.assert_free(&reports());
    set_mode(&store.state(), 0o644);
    assert_eq!(warnings(&store.mutex), [""; 0]);
    assert_eq!(mode(&store.state()), 0o600);
}

#[test]
fn checking_warns_of_a_directory_that_others_can_replace_or_empty() {
    let store = Store::new();
    set_mode(store.path(), 0o770);
    store.assert_free(&reports());
    assert_eq!(
        warnings(&store.mutex),
        ["the directory DIR is not safe: its group can write to it, and can remove files to free \
          held names: run `chmod g+rwxs DIR` if its group shares the store, else `chmod g-w DIR`"]
    );
    set_mode(store.path(), 0o2770);
    assert_eq!(warnings(&store.mutex), [""; 0]);

    let inner = FileMutex::in_dir(store.path().join("a/b")).unwrap();
    set_mode(store.path(), 0o777);
    assert_eq!(
        warnings(&inner),
        [format!(
            "the directory {dir} is not safe: all users can write to it, \
             and can put another directory in place of DIR: run `chmod +t {dir}`, so that only the owner of DIR can \
              rename or remove it",
            dir = store.path().display()
        )]
    );
    set_mode(store.path(), 0o1777);
    assert_eq!(warnings(&inner), [""; 0]);
}
