//! Many live claims, and many waiters for one mutex.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use chrono::TimeDelta;
use soloist::store::{Admitted, Names};
use soloist::{EventMutex, FileMutex, MutexName, Term};

use super::child::{Doing, Order, child_command, claims};
use super::{Store, admitted, noon, reports, take};

/// More than fit in a page.
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

/// Counts the bytes that this thread reads from files and writes to files while it does `work`, and the calls.
#[cfg(target_os = "linux")]
fn cost_of(work: impl FnOnce()) -> [u64; 2] {
    let so_far = || {
        let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
        let count =
            |name: &str| counts.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse::<u64>().unwrap();
        (["rchar: ", "wchar: "].map(count), counts.len() as u64)
    };
    let (before, looked) = so_far();
    work();
    let after = so_far().0;
    [after[0] - before[0] - looked, after[1] - before[1]]
}

#[test]
#[cfg(target_os = "linux")]
fn a_decision_among_ten_thousand_claims_reads_the_state_once_and_writes_it_once() {
    let store = Store::new();
    take_claims(&store, 0..1);
    let line = store.text().lines().find(|line| line.contains("\tclaim/")).unwrap().to_owned();
    let (first, second) = line.split_once("/2026-03-01T12:00:00Z\t").unwrap();
    let claims = (0..10_000).map(|at| claim(at).to_string().split_off("claim/reports/reports".len()));
    let lines: Vec<String> = claims.map(|occurrence| format!("{first}{occurrence}\t{second}\n")).collect();
    let lines = lines.concat();
    super::torn::put(&store.state(), format!("soloist-state v1\nname reports\nlast 1\n{lines}end\n").as_bytes());
    let size = fs::metadata(store.state()).unwrap().len();
    let is_once = |bytes: u64| (size..size + size / 20).contains(&bytes);
    let [read, written] = cost_of(|| take_claims(&store, 10_000..10_001));
    assert!(is_once(read) && is_once(written), "{read} and {written} of {size}");
    let refused = cost_of(|| assert!(store.mutex.create(&store.request(&claim(5_000))).unwrap().is_none()));
    let seen = cost_of(|| assert!(store.mutex.exists(&claim(3_333)).unwrap()));
    for [read, written] in [refused, seen] {
        assert!(is_once(read) && written == 0, "{read} and {written} of {size}");
    }
    assert_taken(&store, 9_950..10_001);
    assert!(size < 10_000 * 250, "{size}");
}

#[test]
fn claims_that_expire_leave_their_room_to_later_ones_also_among_many() {
    let store = Store::new();
    for at in 0..3 * MANY {
        take(&store.mutex, &store.request(&claim(at)));
        store.clock.advance(std::time::Duration::from_millis(300));
    }
    // A claim lasts for a minute. One has expired since the last claim was written.
    assert_eq!(store.text().matches("\tclaim/").count(), 200);
    let live: Vec<i64> = (0..3 * MANY).filter(|at| store.mutex.exists(&claim(*at)).unwrap()).collect();
    assert_eq!(live, (2 * MANY + 1..3 * MANY).collect::<Vec<_>>());
}

/// Kills a child with this order at this call, counted among those on the files of `reports`.
#[cfg(target_os = "linux")]
fn killed_at(call: u32, dir: &Path, what: &Order<'_>) -> Vec<String> {
    let example = Store::new();
    example.assert_free(&reports());
    let stem = example.state().file_stem().unwrap().to_str().unwrap().to_owned();
    let kinds = ["lock", "life", "state", "state.new"].map(|kind| dir.join(format!("{stem}.{kind}")));
    let paths: Vec<&str> = kinds.iter().map(PathBuf::as_path).chain([dir]).map(|path| path.to_str().unwrap()).collect();
    let calls = "openat,flock,lseek,write,renameat,renameat2,close";
    let inject = format!("inject={calls}:signal=SIGKILL:when={call}");
    let mut strace = vec!["strace", "-f", "-qq", "-e", &inject, "-o", "/dev/null"];
    for path in paths {
        strace.extend(["-P", path]);
    }
    let mut child = Doing::start(child_command(what, &strace));
    child.begin();
    std::iter::from_fn(|| child.says()).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_is_killed_at_any_call_hides_no_claim_and_leaves_none_that_was_not_granted() {
    // The state fits in one block, or does not.
    for many in [5, MANY] {
        kill_at_any_call(many);
    }
}

#[cfg(target_os = "linux")]
fn kill_at_any_call(many: i64) {
    let store = Store::new();
    take_claims(&store, 1..many);
    let mut granted = Vec::new();
    loop {
        let call = u32::try_from(granted.len()).unwrap() + 1;
        let said = killed_at(call, store.path(), &Order::Ask(store.path()));
        granted.push(store.mutex.exists(&claim(0)).unwrap());
        assert_taken(&store, 1..many);
        assert!(!store.mutex.exists(&reports()).unwrap(), "the process that held it has gone");
        let _ = store.mutex.break_lease(&claim(0)).unwrap();
        let grant = admitted(&store.mutex, &store.both(&reports(), &claim(0)));
        for lease in [grant.lease().unwrap(), grant.claim().unwrap()] {
            assert!(store.mutex.forget(lease).unwrap());
        }
        if said.len() == 4 {
            break;
        }
    }
    assert!(granted.len() > 20 && granted.is_sorted() && granted.contains(&false), "{granted:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_is_killed_at_any_call_in_a_new_directory_leaves_one_that_can_be_used() {
    for call in 1..=20 {
        let store = Store::new();
        assert_eq!(killed_at(call, store.path(), &Order::Claims(store.path(), "killed")), [""; 0], "it is killed");
        take_claims(&store, 0..1);
        store.assert_free(&reports());
    }
}

/// Makes 400 decisions compete. Each of them writes a marker, and none is lost.
#[test]
fn whoever_waits_for_a_mutex_gets_its_turn_among_many_processes_and_threads() {
    let store = Store::new();
    let mut children: Vec<Doing> = (0..30)
        .map(|number| Doing::start(child_command(&Order::Claims(store.path(), &format!("process {number}")), &[])))
        .collect();
    let mutex = FileMutex::in_dir(store.path()).unwrap();
    let together = Barrier::new(11);
    let said: Vec<String> = std::thread::scope(|scope| {
        let thread = |number| {
            let (mutex, together) = (mutex.clone(), &together);
            scope.spawn(move || {
                together.wait();
                claims(&mutex, &format!("thread {number}"))
            })
        };
        let threads: Vec<_> = (0..10).map(thread).collect();
        together.wait();
        children.iter_mut().for_each(Doing::begin);
        let of_children: Vec<String> = children.iter_mut().map(|child| child.says().unwrap()).collect();
        of_children.into_iter().chain(threads.into_iter().map(|thread| thread.join().unwrap())).collect()
    });
    assert_eq!(said, vec!["all granted"; 40]);
    assert_eq!(mutex.held(Names::MarksOf("reports")).unwrap().len(), 400);
    children.into_iter().for_each(Doing::finish);
}
