//! Many claims that are live at once, and many who wait for one record.

use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;

use chrono::TimeDelta;
use soloist::{Admitted, EventMutex, FileMutex, MutexName, Term};

use super::child::{Doing, Told, claims, told};
use super::{Store, admitted, noon, reports, take};

/// More than are read one after another.
const MANY: i64 = 200;

fn claim(at: i64) -> MutexName {
    reports().claim("reports", noon() + TimeDelta::seconds(at))
}

#[track_caller]
fn take_claims(store: &Store, numbers: std::ops::Range<i64>) {
    for at in numbers {
        take(&store.mutex, &store.request(&reports()).with(claim(at), Term::MAX));
    }
}

/// Asserts that these are taken, for another handle too, and that the next one is not.
#[track_caller]
fn assert_taken(store: &Store, numbers: std::ops::Range<i64>) {
    let other = store.other();
    for at in numbers.clone() {
        assert!(other.exists(&claim(at)).unwrap(), "{at}");
        let answer = store.both(&reports(), &claim(at)).ask(&other).unwrap();
        assert!(matches!(answer, Admitted::ClaimTaken(Some(_))), "{at}: {answer:?}");
    }
    assert!(!other.exists(&claim(numbers.end)).unwrap());
}

/// Counts the bytes that this thread reads from files while it does `work`.
#[cfg(target_os = "linux")]
fn bytes_read(work: impl FnOnce()) -> u64 {
    let so_far = || {
        let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
        (line.parse::<u64>().unwrap(), counts.len() as u64)
    };
    let (before, looked) = so_far();
    work();
    so_far().0 - before - looked
}

#[test]
#[cfg(target_os = "linux")]
fn a_decision_reads_no_more_with_ten_thousand_claims_than_with_ten() {
    let store = Store::new();
    let mut taken = 0;
    let mut cost_with = |count: i64| {
        take_claims(&store, taken..count);
        taken = count + 20;
        let granted = (count..taken).map(|at| bytes_read(|| take_claims(&store, at..at + 1)));
        let granted: Vec<u64> = granted.collect();
        let refused = bytes_read(|| {
            let refused = store.mutex.create(&store.request(&claim(count / 2))).unwrap();
            assert!(refused.is_none());
        });
        let seen = bytes_read(|| assert!(store.mutex.exists(&claim(count / 3)).unwrap()));
        (granted.into_iter().max().unwrap(), refused, seen)
    };
    let (few, many) = (cost_with(10), cost_with(10_000));
    assert!(many.0 < 10_000 && many.1 < 5_000 && many.2 < 5_000, "with 10: {few:?}, with 10,000: {many:?}");
    assert_taken(&store, 0..10_020);
}

#[test]
fn claims_that_expire_leave_their_room_to_later_ones_also_among_many() {
    let store = Store::new();
    for at in 0..3_000 {
        take(&store.mutex, &store.request(&claim(at)));
        store.clock.advance(std::time::Duration::from_millis(100));
    }
    let live: Vec<i64> = (0..3_000).filter(|at| store.mutex.exists(&claim(*at)).unwrap()).collect();
    assert_eq!((live.len(), live.first()), (599, Some(&2_401)));
    let slots = (fs::metadata(store.record()).unwrap().len() - 768) / 384;
    assert!(slots < 700, "{slots} slots for 600 claims");
}

#[test]
fn an_index_that_is_torn_or_older_than_its_record_hides_no_claim() {
    let store = Store::new();
    take_claims(&store, 0..MANY);
    let index = store.file(".index");
    let older = fs::read(&index).unwrap();
    take_claims(&store, MANY..MANY + 10);
    let mut end = MANY + 10;
    let whole = fs::read(&index).unwrap();
    let cut = (0..whole.len()).step_by(600).map(|len| whole[..len].to_vec());
    let changed = (0..whole.len()).step_by(241).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        bytes
    });
    for bytes in [older.clone()].into_iter().chain(cut).chain(changed) {
        fs::write(&index, &bytes).unwrap();
        assert_taken(&store, 0..end);
        take_claims(&store, end..end + 1);
        end += 1;
        assert_taken(&store, end - 2..end);
    }
    fs::remove_file(&index).unwrap();
    take_claims(&store, end..end + 1);
    assert_taken(&store, 0..end + 1);
}

/// Processes that can't open the index, and put a claim where the first one has expired.
struct WithoutAnIndex<'a> {
    store: &'a Store,
    index: PathBuf,
}

impl WithoutAnIndex<'_> {
    fn does<T>(&self, what: impl FnOnce(&FileMutex) -> T) -> T {
        let aside = self.index.with_extension("aside");
        fs::rename(&self.index, &aside).unwrap();
        fs::create_dir(&self.index).unwrap();
        let done = what(&self.store.other());
        fs::remove_dir(&self.index).unwrap();
        fs::rename(&aside, &self.index).unwrap();
        done
    }
}

#[test]
fn what_is_claimed_and_given_back_without_an_index_is_seen() {
    let store = Store::new();
    take_claims(&store, 0..MANY);
    let others = WithoutAnIndex { store: &store, index: store.file(".index") };
    for at in MANY..MANY + 50 {
        let lease = others.does(|mutex| take(mutex, &store.request(&claim(at))));
        assert_taken(&store, 0..at + 1);
        assert!(others.does(|mutex| mutex.forget(&lease).unwrap()));
        assert!(!store.mutex.exists(&claim(at)).unwrap());
        take_claims(&store, at..at + 1);
        others.does(|mutex| assert!(mutex.create(&store.request(&claim(at))).unwrap().is_none()));
    }
}

#[test]
fn an_index_that_can_not_be_had_is_done_without() {
    let store = Store::new();
    take_claims(&store, 0..MANY);
    let index = store.file(".index");
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    take_claims(&store, MANY..MANY + 10);
    assert_taken(&store, 0..MANY + 10);
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_is_killed_at_any_write_hides_no_claim_and_leaves_none_that_was_not_granted() {
    let store = Store::new();
    take_claims(&store, 1..MANY);
    let mut granted = Vec::new();
    for write in 1..=10 {
        let inject = format!("inject=pwrite64:signal=SIGKILL:when={write}");
        let strace = ["strace", "-f", "-qq", "-e", "trace=pwrite64", "-e", &inject, "-o", "/dev/null"];
        let mut child = Doing::start(told(&Told::Ask(store.path()), &strace));
        while child.says().is_some() {}
        drop(child);
        let taken = store.mutex.exists(&claim(0)).unwrap();
        granted.push(taken);
        assert_taken(&store, 1..MANY);
        if taken {
            assert!(store.mutex.break_lease(&claim(0)).unwrap().is_freed());
        }
        // Were it granted by the token of the next one, it would be taken now.
        take_claims(&store, MANY..MANY + 1);
        let grant = admitted(&store.mutex, &store.both(&reports(), &claim(0)));
        for lease in [grant.lease().unwrap(), grant.claim().unwrap()] {
            assert!(store.mutex.forget(lease).unwrap());
        }
        assert!(store.mutex.break_lease(&claim(MANY)).unwrap().is_freed());
    }
    assert!(granted.is_sorted() && granted.contains(&false) && granted.contains(&true), "{granted:?}");
}

#[test]
fn a_process_that_is_killed_at_any_write_to_a_new_record_leaves_one_that_can_be_used() {
    for write in 1..=5 {
        let store = Store::new();
        let inject = format!("inject=pwrite64:signal=SIGKILL:when={write}");
        let strace = ["strace", "-f", "-qq", "-e", "trace=pwrite64", "-e", &inject, "-o", "/dev/null"];
        let mut child = Doing::start(told(&Told::Claims(store.path(), "killed"), &strace));
        child.begin();
        assert_eq!(child.says(), None, "it is killed");
        drop(child);
        take_claims(&store, 0..1);
    }
}

/// 12,000 decisions that all want to be next.
#[test]
fn whoever_waits_for_a_record_gets_its_turn_among_a_hundred_processes_and_twenty_threads() {
    let store = Store::new();
    let mut children: Vec<Doing> = (0..100)
        .map(|number| Doing::start(told(&Told::Claims(store.path(), &format!("process {number}")), &[])))
        .collect();
    let mutex = FileMutex::in_dir(store.path()).unwrap();
    let together = Barrier::new(21);
    let said: Vec<String> = std::thread::scope(|scope| {
        let thread = |number| {
            let (mutex, together) = (mutex.clone(), &together);
            scope.spawn(move || {
                together.wait();
                claims(&mutex, &format!("thread {number}"))
            })
        };
        let threads: Vec<_> = (0..20).map(thread).collect();
        together.wait();
        children.iter_mut().for_each(Doing::begin);
        let of_children: Vec<String> = children.iter_mut().map(|child| child.says().unwrap()).collect();
        of_children.into_iter().chain(threads.into_iter().map(|thread| thread.join().unwrap())).collect()
    });
    assert_eq!(said, vec!["all granted"; 120]);
    children.into_iter().for_each(Doing::finish);
}
