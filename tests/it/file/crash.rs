//! Processes that are killed, or stopped, at any point.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::Mutex;
use std::time::Duration;

use soloist::store::MutexErrorKind::Unusable;
use soloist::store::{Admission, Batch, LeaseRequest, Names};
use soloist::time::Clock;
use soloist::{EventMutex, FileMutex, MutexName};

use super::child::{Doing, NAMES, Order, child_command, next_said};
use super::{Store, assert_names, files, minute, reports, take};
use crate::support::{holder, in_time, until};

#[test]
fn a_killed_process_frees_its_lease_at_once() {
    let store = Store::new();
    let mutex = FileMutex::in_dir(store.path()).unwrap();
    let ask = || LeaseRequest::new(reports(), minute(), &Clock::system());
    let mut child = Doing::start(child_command(&Order::Hold(store.path(), "reports"), &[]));
    let token: u64 = child.says().unwrap().parse().unwrap();
    assert!(mutex.create(&ask()).unwrap().is_none());
    assert_eq!(holder(&mutex, &reports()).unwrap().pid(), child.pid());
    child.kill();
    assert!(!mutex.exists(&reports()).unwrap());
    assert_eq!(holder(&mutex, &reports()), None);
    let lease = take(&mutex, &ask());
    assert!(lease.token().get() > token);
    assert!(mutex.forget(&lease).unwrap());
    assert_eq!(files(store.path()).len(), 3, "the life file of the dead is used again");
}

#[test]
fn a_call_waits_for_a_stopped_process_that_has_the_mutex_locked_and_says_how_to_find_it() {
    let store = Store::new();
    store.assert_free(&reports());
    let lock = store.lock();
    let mut child = Doing::start(child_command(&Order::Lock(&lock), &[]));
    assert_eq!(child.says().unwrap(), "locked");
    child.signal("-STOP");
    let error = assert_names(Unusable, store.mutex.create(&store.request(&reports())).unwrap_err(), &lock);
    let source = error.get_ref().unwrap().to_string();
    let advice = format!("find the process with `fuser '{}'`, and continue or end it", lock.display());
    assert_eq!(source, format!("it is locked, and a call waits for a few seconds at most: {advice}"));
    assert!(!store.mutex.exists(&reports()).unwrap(), "a read needs no lock of the stuck process");
    child.signal("-CONT");
    child.kill();
    store.assert_free(&reports());
}

#[test]
fn the_waits_of_one_call_are_bounded_together() {
    let store = Store::new();
    let names = ["a", "b", "c", "d", "e"].map(|name| MutexName::lease(name).unwrap());
    for name in &names {
        store.assert_free(name);
    }
    let locks = files(store.path()).into_iter().filter(|file| file.extension().is_some_and(|ending| ending == "lock"));
    let locks: Vec<fs::File> = locks.map(|lock| fs::File::options().write(true).open(lock).unwrap()).collect();
    assert_eq!(locks.len(), names.len());
    for lock in &locks {
        lock.lock().unwrap();
    }
    let began = Clock::system().moment();
    // Reading these needs no lock of the stuck process.
    assert!(store.mutex.held(Names::Each(&names)).unwrap().is_empty());
    let excluded = names[1..].iter().cloned().fold(Admission::lease_only(store.request(&names[0])), Admission::unless);
    assert!(excluded.ask(&store.mutex).is_err());
    let mut batch = Batch::new();
    for name in &names {
        batch.admit(Admission::lease_only(store.request(name)));
    }
    store.mutex.carry_out(&mut batch);
    assert!(batch.admissions().iter().all(|slot| matches!(slot.answer(), Some(Err(_)))));
    let took = Clock::system().moment().since(began);
    assert!(took < Duration::from_secs(6 * 3), "three calls wait for three seconds each: {took:?}");
}

#[test]
fn a_mutex_that_is_locked_for_a_second_is_waited_for() {
    let store = Store::new();
    store.assert_free(&reports());
    let lock = fs::File::options().write(true).open(store.lock()).unwrap();
    // A call waits for three seconds. Where the machine takes longer, the call is right to fail.
    in_time(Duration::from_secs(3), || {
        lock.lock().unwrap();
        std::thread::scope(|scope| {
            let began = Clock::system().moment();
            let waits = scope.spawn(|| store.other().create(&store.request(&reports())).map(|lease| lease.is_some()));
            std::thread::sleep(Duration::from_secs(1));
            lock.unlock().unwrap();
            let answer = waits.join().unwrap();
            let took = Clock::system().moment().since(began);
            assert!(took >= Duration::from_secs(3) || answer.unwrap());
            took
        })
    });
}

#[test]
fn a_lease_that_cannot_be_given_back_because_the_mutex_stays_locked_ends_all_the_same() {
    let store = Store::new();
    let lease = store.take(&reports());
    let mut child = Doing::start(child_command(&Order::Lock(&store.lock()), &[]));
    assert_eq!(child.says().unwrap(), "locked");
    assert_names(Unusable, store.mutex.forget(&lease).unwrap_err(), &store.lock());
    child.kill();
    store.assert_free(&reports());
}

#[test]
fn ten_processes_that_are_killed_one_after_another_leave_the_directory_whole() {
    let store = Store::new();
    let dir = store.path().join("locks");
    let mutex = FileMutex::in_dir(&dir).unwrap();
    let said = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let start = || {
            let mut child = Doing::start(child_command(&Order::Churn(&dir), &[]));
            let mut words = child.listen();
            let said = &said;
            scope.spawn(move || {
                while let Some(word) = next_said(&mut words) {
                    said.lock().unwrap().push(word);
                }
            });
            child
        };
        let mut children: Vec<_> = (0..10).map(|_| start()).collect();
        for round in 0..60_usize {
            // Each was taken over from a dead one often enough for this to mean something.
            until(|| said.lock().unwrap().len() > 6 * round).expect("they go on");
            // Real processes do real work meanwhile; there is no clock of theirs to move.
            std::thread::sleep(Duration::from_millis(20 + (round as u64 * 7919) % 17));
            // Each in its turn; where each of them stands just then is chance enough.
            std::mem::replace(&mut children[round % 10], start()).kill();
        }
        children.into_iter().for_each(Doing::kill);
    });
    let said = said.into_inner().unwrap();
    assert!(!said.iter().any(|word| word == "overlap"), "two were in at once");
    let mut tokens: HashMap<&str, HashSet<u64>> = HashMap::new();
    for word in &said {
        let (name, token) = word.split_once(' ').unwrap();
        assert!(tokens.entry(name).or_default().insert(token.parse().unwrap()), "{word} was given twice");
    }
    for name in NAMES {
        let request = LeaseRequest::new(MutexName::lease(name).unwrap(), minute(), &Clock::system());
        let lease = take(&mutex, &request);
        let highest = tokens[name].iter().max().unwrap();
        assert!(lease.token().get() > *highest, "the tokens of {name} fell");
        assert!(mutex.forget(&lease).unwrap());
    }
    assert!(files(&dir).iter().all(|file| file.extension().is_some_and(|ending| ending != "new")), "{:?}", files(&dir));
    for state in files(&dir).into_iter().filter(|file| file.extension().is_some_and(|ending| ending == "state")) {
        let text = fs::read_to_string(&state).unwrap();
        assert!(text.lines().count() <= 3 + 1 + 16 + 2 && text.trim_end_matches('\0').ends_with("\nend\n"), "{text}");
    }
}

#[test]
fn a_hundred_gates_and_releases_unlink_and_truncate_nothing() {
    let store = Store::new();
    let trace = store.path().join("trace");
    let calls = "trace=/^(open|creat|unlink|rename|link|truncate|ftruncate|fallocate|flock)";
    let strace = ["strace", "-f", "-e", calls, "-o", trace.to_str().unwrap()];
    Doing::start(child_command(&Order::Gates(&store.path().join("locks")), &strace)).finish();
    let text = fs::read_to_string(trace).unwrap();
    let count = |call: &str| text.matches(call).count();
    assert_eq!([count(" rename"), count("O_CREAT"), count("LOCK_EX|LOCK_NB")], [1, 3, 300], "{text}");
    for call in [" unlink", " link", "truncate", "O_TRUNC", " creat", "fallocate"] {
        assert_eq!(count(call), 0, "{call}");
    }
}
