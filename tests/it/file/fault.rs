//! A directory that fails, and files of others.

use std::fs;
use std::path::Path;
use std::time::Duration;

use soloist::observe::RunRecord;
use soloist::store::MutexErrorKind::{Unavailable, Unusable};
use soloist::store::Owner;
use soloist::{EventMutex, FileMutex, MutexName};

use super::child::{Doing, Order, child_command};
use super::users::Ground;
use super::{Store, admitted, assert_names, assert_no_answer, extended, minute, noon, renewed, reports};

#[test]
fn a_directory_that_has_gone_is_an_error_and_is_not_made_again() {
    let store = Store::new();
    store.assert_free(&reports());
    let lease = store.take(&reports());
    fs::remove_dir_all(store.path()).unwrap();
    assert_no_answer(Unavailable, &store.mutex, &store.request(&reports()), store.path());
    assert_no_answer(Unavailable, &store.mutex, &store.request(&MutexName::lease("new").unwrap()), store.path());
    assert_names(Unavailable, renewed(&store.mutex, &lease, minute()).unwrap_err(), store.path());
    assert_names(Unavailable, store.mutex.forget(&lease).unwrap_err(), store.path());
    assert!(!store.path().exists());
}

#[test]
fn a_directory_that_was_replaced_is_noticed_by_all_who_used_the_old_one() {
    let store = Store::new();
    store.assert_free(&reports());
    let lease = store.take(&reports());
    for old in ["old", "older"] {
        fs::rename(store.path(), store.path().with_extension(old)).unwrap();
        fs::create_dir(store.path()).unwrap();
        store.assert_free(&reports());
        assert!(store.state().exists(), "the new directory is used");
        assert!(!extended(&store.mutex, &lease));
    }
    for old in ["old", "older"] {
        fs::remove_dir_all(store.path().with_extension(old)).unwrap();
    }
}

#[test]
fn a_state_that_was_deleted_while_it_was_held_is_told_to_its_holder() {
    let store = Store::new();
    let lease = store.take(&reports());
    let state = store.state();
    fs::remove_file(&state).unwrap();
    assert_names(Unusable, renewed(&store.mutex, &lease, minute()).unwrap_err(), &state);
    let error = assert_names(Unusable, store.mutex.forget(&lease).unwrap_err(), &state);
    assert!(error.to_string().contains("it is missing or damaged"), "{error}");
    store.assert_free(&reports());
}

#[test]
fn a_life_file_that_was_deleted_while_it_was_held_makes_no_second_winner() {
    let store = Store::new();
    let lease = store.take(&reports());
    fs::remove_file(store.file(".life")).unwrap();
    store.assert_held(&reports());
    fs::write(store.state().with_extension("life"), "").unwrap();
    store.assert_held(&reports());
    assert!(extended(&store.mutex, &lease));
    assert!(store.mutex.forget(&lease).unwrap());
    store.assert_free(&reports());
    let lease = store.take(&reports());
    store.clock.advance(Duration::from_secs(60));
    store.assert_free(&reports());
    assert!(!store.mutex.forget(&lease).unwrap());
}

#[test]
fn a_file_in_place_of_the_directory_is_an_error_that_names_the_path() {
    let store = Store::new();
    store.assert_free(&reports());
    fs::remove_dir_all(store.path()).unwrap();
    fs::write(store.path(), "").unwrap();
    let error = assert_no_answer(Unavailable, &store.mutex, &store.request(&reports()), store.path());
    assert_eq!(error.get_ref().unwrap().to_string(), "Not a directory (os error 20)");
    fs::remove_file(store.path()).unwrap();
}

#[test]
fn a_directory_that_takes_no_files_is_an_error_also_for_root() {
    // No user can create files there.
    let dir = Path::new("/sys/kernel");
    let mutex = FileMutex::in_dir(dir).unwrap();
    let store = Store::new();
    assert_names(Unusable, mutex.create(&store.request(&reports())).unwrap_err(), dir);
    assert!(!mutex.exists(&reports()).unwrap());
}

#[test]
fn a_directory_in_place_of_a_file_is_an_error_that_names_it() {
    let store = Store::new();
    store.assert_free(&reports());
    let life = store.file(".life");
    fs::remove_file(&life).unwrap();
    fs::create_dir(&life).unwrap();
    assert_names(Unusable, store.other().create(&store.request(&reports())).unwrap_err(), &life);
    fs::remove_dir(&life).unwrap();
    store.assert_free(&reports());
    for path in [store.state(), store.lock()] {
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_no_answer(Unusable, &store.mutex, &store.request(&reports()), &path);
        fs::remove_dir(&path).unwrap();
    }
}

#[test]
fn a_file_of_another_format_is_an_error_that_names_both_formats_and_is_left_as_it_is() {
    let store = Store::new();
    store.assert_free(&reports());
    let (state, claim) = (store.state(), reports().claim("reports", noon()));
    let spaces = " ".repeat(5000);
    for (foreign, first_line) in [
        ("hello\n", "hello"),
        ("soloist-state v2\n", "soloist-state v2"),
        ("soloist-state 1\nname reports\n", "soloist-state 1"),
        (&*format!("{}x", "\0".repeat(767)), r"\0\0"),
        (&*spaces, &spaces[..60]),
    ] {
        fs::write(&state, foreign).unwrap();
        let error = assert_no_answer(Unusable, &store.mutex, &store.request(&reports()), &state);
        assert_no_answer(Unusable, &store.mutex, &store.request(&claim), &state);
        assert_says_formats(&error.get_ref().unwrap().to_string(), first_line, "soloist-state v1");
        let warnings = store.mutex.check().unwrap();
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(
            warning.to_string().starts_with(&format!("the file {} can't be used: it begins with", state.display())),
            "{warning}"
        );
        assert_eq!(fs::read_to_string(&state).unwrap(), foreign);
    }
}

#[track_caller]
fn assert_says_formats(said: &str, found: &str, known: &str) {
    assert!(said.contains(&format!("it begins with `{found}")), "{said}");
    let what_to_do = format!(
        " and not with `{known}`, the format that this version of soloist knows, and was not changed: update this program, \
          or use another directory; if the file is damaged, remove it while no process uses the directory"
    );
    assert!(said.contains(&what_to_do), "{said}");
}

#[test]
fn a_log_of_another_format_is_an_error_that_names_both_formats_and_is_left_as_it_is() {
    let store = Store::new();
    let log = store.mutex.run_log().expect("it keeps one");
    let run = RunRecord::started("reports", Owner::unique(), noon(), None, noon());
    log.write(std::slice::from_ref(&run), 5).unwrap();
    let file = store.file(".runs");
    let later = fs::read_to_string(&file).unwrap().replacen("soloist-runs v1", "soloist-runs v2", 1);
    fs::write(&file, &later).unwrap();
    for error in [log.runs("reports").unwrap_err(), log.write(&[run], 5).unwrap_err()] {
        assert_says_formats(&format!("{error:?}"), "soloist-runs v2", "soloist-runs v1");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), later);
}

#[test]
fn one_call_writes_the_logs_of_the_other_events_beside_one_that_is_damaged() {
    let store = Store::new();
    let log = store.mutex.run_log().expect("it keeps one");
    let [first, last] = ["a", "b"].map(|event| RunRecord::started(event, Owner::unique(), noon(), None, noon()));
    log.write(std::slice::from_ref(&first), 5).unwrap();
    let file = store.file(".runs");
    fs::write(&file, "soloist-runs v2\n").unwrap();
    let error = assert_names(Unusable, log.write(&[first, last.clone()], 5).unwrap_err(), &file);
    assert!(!error.is_outage(), "{error}");
    assert_eq!(log.runs("b").unwrap(), [last]);
}

#[test]
fn the_state_of_another_name_is_an_error_that_names_it() {
    let store = Store::new();
    store.assert_free(&reports());
    let state = store.state();
    let others = [MutexName::lease("bills").unwrap(), MutexName::lease("b".repeat(512)).unwrap()];
    for other in &others {
        let elsewhere = Store::new();
        elsewhere.assert_free(other);
        fs::copy(elsewhere.state(), &state).unwrap();
        let before = fs::read(&state).unwrap();
        let error = assert_no_answer(Unusable, &store.mutex, &store.request(&reports()), &state);
        let said = format!("it is the state of another name, {}", other.mutex());
        assert_eq!(error.get_ref().unwrap().to_string(), said);
        assert_eq!(fs::read(&state).unwrap(), before);
    }
}

/// Starts a child whose files may have `bytes` at most. It requests a lease, and a lease with a claim, and asks
/// whether the lease is held.
#[track_caller]
fn ask_with_room_for(bytes: u64, store: &Store) -> [String; 3] {
    let limited = format!("trap '' XFSZ; exec prlimit --fsize={bytes} \"$0\" \"$@\"");
    let mut child = Doing::start(child_command(&Order::Ask(store.path()), &["sh", "-c", &limited]));
    let [lease, claim, held, check] = [(); 4].map(|()| child.says().unwrap());
    child.finish();
    assert_eq!(check.contains("the store takes no writes"), bytes < 4096, "{check}");
    [lease, claim, held]
}

#[test]
fn a_file_that_may_not_grow_is_an_error_that_grants_nothing_and_heals() {
    let store = Store::new();
    let full = |said: &str| {
        assert!(said.starts_with("could not admit lease/reports in /"), "{said}");
        assert!(said.ends_with(".state: File too large (os error 27)"), "{said}");
    };
    for room in [0, 1, 300, 4095] {
        let [lease, claim, held] = ask_with_room_for(room, &store);
        full(&lease);
        full(&claim);
        assert_eq!(held, "Ok(false)");
    }
    let [lease, claim, held] = ask_with_room_for(4096, &store);
    assert_eq!([&*lease, &*claim, &*held], ["granted", "granted", "Ok(false)"]);
    assert!(store.mutex.exists(&reports().claim("reports", noon())).unwrap());
    admitted(&store.mutex, &store.both(&reports(), &reports().claim("other", noon())));
}

/// Starts this binary where a disk of 64 KiB is mounted at `dir`, after `fill`.
#[cfg(target_os = "linux")]
fn on_a_small_disk(dir: &Path, fill: &str, what: &Order<'_>) -> Doing {
    let mount = format!("mount -t tmpfs -o size=64k,mode=700 none {}", dir.display());
    let script = format!("{mount} && {fill} && exec \"$0\" \"$@\"");
    Doing::start(child_command(what, &["unshare", "--mount", "sh", "-c", &script]))
}

#[test]
#[cfg(target_os = "linux")]
fn a_disk_without_any_room_is_an_error_of_the_whole_store() {
    let test = "file::fault::a_disk_without_any_room_is_an_error_of_the_whole_store";
    let Some(ground) = Ground::as_root(test) else { return };
    let dir = ground.dir("full", 0, 0, 0o700);
    let fill = format!("head -c 65536 /dev/zero > {}/all", dir.display());
    let mut child = on_a_small_disk(&dir, &fill, &Order::Ask(&dir));
    let [lease, claim, held, check] = [(); 4].map(|()| child.says().unwrap());
    child.finish();
    assert!(
        check.contains("the store takes no writes, so that no protected event runs: could not write a file to /"),
        "{check}"
    );
    assert!(check.contains(": No space left on device (os error 28)"), "{check}");
    for said in [lease, claim] {
        assert!(said.ends_with(".state: No space left on device (os error 28)"), "{said}");
    }
    assert_eq!(held, "Ok(false)");
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_outlasts_three_terms_on_a_full_disk_and_is_released_and_the_next_admission_is_an_outage() {
    let test =
        "file::fault::a_run_outlasts_three_terms_on_a_full_disk_and_is_released_and_the_next_admission_is_an_outage";
    let Some(ground) = Ground::as_root(test) else { return };
    let dir = ground.dir("full", 0, 0, 0o700);
    let mut child = on_a_small_disk(&dir, "true", &Order::Fill(&dir));
    let said: Vec<String> = std::iter::from_fn(|| child.says()).collect();
    child.finish();
    let [filled, slot, first, next, held] = &said[..] else { panic!("{said:?}") };
    assert!(filled.contains("No space left on device"), "{filled}");
    assert_eq!([&**slot, &**first], ["the slot is renewed", "succeeded, not cancelled, and released"]);
    assert!(next.contains("No space left on device") && next.contains("the store was not asked again"), "{next}");
    assert_eq!(held, "free");
}
