//! The store on file, and faults of its directory, its files and its processes.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::store::{Admission, Admitted, Batch, Grant, Lease, LeaseRequest, MutexErrorKind, Names, Slot};
use soloist::time::{Clock, ManualClock};
use soloist::{Event, EventMutex, FencingToken, FileMutex, MutexError, MutexName, Schedule, Term};
use tempfile::TempDir;

use crate::support::holder;

mod child;
mod crash;
mod exclusion;
mod fault;
mod lifeline;
mod listing;
mod many;
mod modes;
mod overlay;
mod planted;
mod torn;
pub(crate) mod users;

/// A directory of its own, and a clock that stands still.
struct Store {
    dir: TempDir,
    clock: ManualClock,
    mutex: FileMutex,
}

impl Store {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Utc::now());
        let mutex = FileMutex::builder(dir.path()).clock(&clock).open().unwrap();
        Self { dir, clock, mutex }
    }

    /// Returns another handle, as another process has one.
    fn other(&self) -> FileMutex {
        FileMutex::builder(self.dir.path()).clock(&self.clock).open().unwrap()
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn request(&self, name: &MutexName) -> LeaseRequest {
        LeaseRequest::new(name.clone(), minute(), &Clock::from(&self.clock))
    }

    fn both(&self, name: &MutexName, claim: &MutexName) -> Admission {
        let lease = self.request(name);
        Admission::both(lease.clone(), lease.with(claim.clone(), minute()))
    }

    #[track_caller]
    fn take(&self, name: &MutexName) -> Lease {
        take(&self.mutex, &self.request(name))
    }

    #[track_caller]
    fn assert_free(&self, name: &MutexName) {
        let lease = self.take(name);
        assert!(self.mutex.forget(&lease).unwrap(), "{name} could not be given back");
    }

    #[track_caller]
    fn assert_held(&self, name: &MutexName) {
        assert!(self.mutex.exists(name).unwrap(), "{name} is not held");
        assert!(self.other().create(&self.request(name)).unwrap().is_none(), "{name} was granted");
    }

    /// Returns the only file with this ending.
    #[track_caller]
    fn file(&self, ending: &str) -> PathBuf {
        let mut files = files(self.path());
        files.retain(|path| path.to_str().unwrap().ends_with(ending));
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    fn state(&self) -> PathBuf {
        self.file(".state")
    }

    fn lock(&self) -> PathBuf {
        self.file(".lock")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.state()).unwrap().trim_end_matches('\0').to_owned()
    }
}

fn minute() -> Term {
    Term::new(Duration::from_secs(60)).unwrap()
}

fn reports() -> MutexName {
    MutexName::lease("reports").unwrap()
}

fn noon() -> DateTime<Utc> {
    DateTime::from_timestamp(1_772_366_400, 0).unwrap()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[track_caller]
fn take(mutex: &FileMutex, request: &LeaseRequest) -> Lease {
    mutex.create(request).unwrap().unwrap_or_else(|| panic!("{} is held", request.name()))
}

#[track_caller]
fn admitted(mutex: &FileMutex, admission: &Admission) -> Grant {
    match admission.ask(mutex).unwrap() {
        Admitted::Granted(grant) => grant,
        refused => panic!("{refused:?}"),
    }
}

/// Repeats a call until it has got its locks. A busy machine may not give a thread its turn in the time of one call,
/// whose error says so.
fn patiently<T>(call: impl FnMut() -> Result<T, MutexError>) -> Result<T, MutexError> {
    let answer = iter::repeat_with(call).find(|answer| !answer.as_ref().is_err_and(waited_in_vain));
    answer.expect("it asks until it is told")
}

fn waited_in_vain(error: &MutexError) -> bool {
    error.to_string().contains("it is locked, and a call waits ")
}

/// Releases a lease, which ends also if the call has waited for its lock in vain.
#[track_caller]
fn release(mutex: &FileMutex, lease: &Lease) {
    match mutex.forget(lease) {
        Ok(was_ours) => assert!(was_ours, "{} was lost", lease.name()),
        Err(error) => assert!(waited_in_vain(&error), "{error}"),
    }
}

#[track_caller]
fn extended(mutex: &FileMutex, lease: &Lease) -> bool {
    renewed(mutex, lease, minute()).unwrap()
}

fn renewed(mutex: &FileMutex, lease: &Lease, term: Term) -> Result<bool, MutexError> {
    let mut slot = Slot::new(lease.clone());
    mutex.extend(std::slice::from_mut(&mut slot), term);
    slot.answer().cloned().unwrap()
}

/// Gives the lease back one minute from now.
#[track_caller]
fn rested(mutex: &FileMutex, lease: Lease) -> bool {
    let mut batch = Batch::new();
    batch.release_after(lease, minute());
    mutex.carry_out(&mut batch);
    batch.releases()[0].answer().cloned().unwrap().unwrap()
}

/// Asserts that every request for `name` fails with this error and names `path`, and none answers "held" or
/// "free".
#[track_caller]
fn assert_no_answer(kind: MutexErrorKind, mutex: &FileMutex, request: &LeaseRequest, path: &Path) -> MutexError {
    let answers = [
        mutex.exists(request.name()).map(|_| ()),
        mutex.held(Names::of(request.name())).map(|_| ()),
        mutex.break_lease(request.name()).map(|_| ()),
        Admission::lease_only(request.clone()).ask(mutex).map(|_| ()),
        renewed(mutex, &request.granted(FencingToken::new(1)), minute()).map(|_| ()),
        mutex.forget(&request.granted(FencingToken::new(1))).map(|_| ()),
        mutex.create(request).map(|_| ()),
    ];
    answers
        .map(|answer| assert_names(kind, answer.expect_err("it was answered"), path))
        .into_iter()
        .next_back()
        .unwrap()
}

#[track_caller]
fn assert_names(kind: MutexErrorKind, error: MutexError, path: &Path) -> MutexError {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error} does not name {}", path.display());
    let cause = error.get_ref().expect("the error has a cause");
    assert!(cause.is::<std::io::Error>());
    error
}

#[test]
fn what_was_never_asked_for_is_free_and_looking_makes_no_file() {
    let store = Store::new();
    let (name, claim) = (reports(), reports().claim("reports", noon()));
    for name in [&name, &claim] {
        assert!(!store.mutex.exists(name).unwrap());
        assert_eq!(holder(&store.mutex, name), None);
        assert!(store.mutex.break_lease(name).unwrap().is_none());
        assert!(!store.mutex.forget(&store.request(name).granted(FencingToken::new(1))).unwrap());
    }
    assert!(files(store.path()).is_empty());
}

#[test]
fn looking_writes_nothing() {
    let store = Store::new();
    let claim = reports().claim("reports", noon());
    admitted(&store.mutex, &store.both(&reports(), &claim));
    let before: Vec<_> = files(store.path()).iter().map(|file| fs::read(file).unwrap()).collect();
    for mutex in [&store.mutex, &store.other()] {
        assert!(mutex.exists(&reports()).unwrap() && mutex.exists(&claim).unwrap());
        assert!(holder(mutex, &reports()).is_some() && holder(mutex, &claim).is_some());
    }
    let after: Vec<_> = files(store.path()).iter().map(|file| fs::read(file).unwrap()).collect();
    assert_eq!(before, after);
}

#[test]
fn two_handles_in_one_process_exclude_each_other() {
    let store = Store::new();
    let (here, there) = (store.mutex.clone(), store.other());
    let lease = store.take(&reports());
    store.assert_held(&reports());
    assert!(here.create(&store.request(&reports())).unwrap().is_none());
    assert!(there.exists(&reports()).unwrap());
    assert_eq!(holder(&there, &reports()), holder(&here, &reports()));
    assert!(extended(&there, &lease));
    assert!(there.forget(&lease).unwrap(), "another handle knows the owner too");
    assert!(!here.forget(&lease).unwrap());
    store.assert_free(&reports());
}

#[test]
fn the_holder_is_named_with_host_pid_and_since_and_a_person_reads_it_in_the_file() {
    let store = Store::new();
    let name = MutexName::lease("50 %\nreports").unwrap();
    let claim = name.claim("weekly\tplan", noon());
    let lease = admitted(&store.mutex, &store.both(&name, &claim)).lease().unwrap().clone();
    let now = Clock::from(&store.clock).now();
    for name in [&name, &claim] {
        let holder = holder(&store.other(), name).unwrap();
        assert_eq!((holder.owner(), holder.token()), (lease.owner(), lease.token()));
        assert_eq!(holder.pid(), std::process::id());
        assert_eq!(holder.host(), soloist::store::Holder::of(&lease, now).host());
        assert_eq!((holder.since(), holder.until()), (now, now + TimeDelta::seconds(60)));
    }
    let text = store.text();
    assert!(text.starts_with("soloist-state v1\nname 50 %25%0Areports\nlast "), "{text}");
    let until = (now + TimeDelta::seconds(60)).format("until %Y-%m-%dT%H:%M");
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    for (line, word) in
        [(line("\tlease/50 %2525%0Areports\t"), "alive"), (line("\tclaim/50 %2525%0Areports/"), "fixed")]
    {
        assert!(line.starts_with(&until.to_string()) && line[37..].starts_with(word), "{line}");
        assert!(line.contains(&format!("\tpid {} in ", std::process::id())), "{line}");
        assert!(line.contains(&format!("\tsince {}", now.format("%Y-%m-%dT"))), "{line}");
        assert!(line.contains(&format!("\ttoken {}\towner {}", lease.token(), lease.owner())), "{line}");
    }
    assert!(line("claim/").contains("/weekly%09plan/2026-03-01T12:00:00Z\thost "), "{text}");
    assert!(store.mutex.forget(&lease).unwrap());
    assert_eq!(store.text().lines().nth(3).unwrap()[37..42], *"ended");
    assert!(store.mutex.exists(&claim).unwrap(), "a claim outlives its lease");
}

#[test]
fn a_holder_that_outlived_its_term_is_taken_over_and_leaves_the_next_one_alone() {
    let store = Store::new();
    let old = store.take(&reports());
    store.clock.advance(Duration::from_secs(60));
    assert!(!store.mutex.exists(&reports()).unwrap());
    let other = store.other();
    let new = take(&other, &store.request(&reports()));
    assert!(new.token() > old.token());
    assert!(store.file(".life-1").exists(), "the old holder still has its life file");
    let alone = |what: &str| {
        assert_eq!(holder(&other, &reports()).unwrap().owner(), new.owner(), "after a late {what}");
        store.assert_held(&reports());
    };
    alone("nothing");
    assert!(!extended(&store.mutex, &old));
    alone("extend");
    assert!(!store.mutex.forget(&old).unwrap());
    alone("forget");
    assert!(!store.mutex.forget(&old).unwrap());
    alone("second forget");
    assert!(other.forget(&new).unwrap());
    store.assert_free(&reports());
}

#[test]
fn a_holder_whose_lease_was_broken_is_told_and_leaves_the_next_one_alone() {
    let store = Store::new();
    let old = store.take(&reports());
    assert!(store.other().break_lease(&reports()).unwrap().is_some());
    assert!(store.other().break_lease(&reports()).unwrap().is_none());
    assert!(!store.mutex.exists(&reports()).unwrap());
    let new = store.take(&reports());
    assert!(new.token() > old.token());
    assert!(!extended(&store.mutex, &old));
    assert!(!store.mutex.forget(&old).unwrap());
    store.assert_held(&reports());
    assert!(store.mutex.forget(&new).unwrap());
}

#[test]
fn life_files_are_used_again_and_do_not_pile_up() {
    let store = Store::new();
    for _ in 0..50 {
        let old = store.take(&reports());
        store.clock.advance(Duration::from_secs(60));
        let new = store.take(&reports());
        assert!(!store.mutex.forget(&old).unwrap());
        assert!(store.mutex.forget(&new).unwrap());
    }
    assert!(files(store.path()).len() <= 4, "{:?}", files(store.path()));
}

#[test]
fn leases_that_nobody_gave_back_leave_no_open_file_behind() {
    let open = |dir: &Path| {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap();
        descriptors.flatten().filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to.starts_with(dir))).count()
    };
    let store = Store::new();
    for round in 0..20 {
        store.take(&reports());
        store.clock.advance(Duration::from_secs(60));
        assert!(open(store.path()) <= 4, "{} in round {round}", open(store.path()));
    }
    for at in 0..200 {
        store.assert_free(&MutexName::lease(format!("event {at}")).unwrap());
    }
    assert!(open(store.path()) <= 4, "{}", open(store.path()));
}

#[test]
fn a_lease_ends_with_the_last_handle_that_has_it_in_hand() {
    let store = Store::new();
    let handle = store.other();
    let lease = take(&handle, &store.request(&reports()));
    drop(handle.clone());
    store.assert_held(&reports());
    drop(handle);
    assert!(!store.mutex.exists(&reports()).unwrap());
    assert!(!extended(&store.mutex, &lease));
    assert!(!store.mutex.forget(&lease).unwrap());
    store.assert_free(&reports());
}

#[test]
fn extending_moves_the_end_either_way() {
    let store = Store::new();
    let claim = reports().claim("reports", noon());
    let grant = admitted(&store.mutex, &store.both(&reports(), &claim));
    let both = [grant.lease().unwrap().clone(), grant.claim().unwrap().clone()];
    store.clock.advance(Duration::from_secs(59));
    assert!(both.iter().all(|lease| extended(&store.mutex, lease)));
    store.clock.advance(Duration::from_secs(59));
    assert!(store.mutex.exists(&reports()).unwrap() && store.mutex.exists(&claim).unwrap());
    assert!(both.iter().all(|lease| renewed(&store.mutex, lease, Term::MIN).unwrap()));
    store.clock.advance(Duration::from_millis(1));
    assert!(!store.mutex.exists(&reports()).unwrap() && !store.mutex.exists(&claim).unwrap());
    assert!(!both.iter().any(|lease| extended(&store.mutex, lease)));
}

#[test]
fn a_refused_admission_takes_nothing_and_says_which_part_was_taken() {
    let store = Store::new();
    let (first, second) = (reports().claim("reports", noon()), reports().claim("other", noon()));
    let held = admitted(&store.mutex, &store.both(&reports(), &first));
    let answers = [&second, &first].map(|claim| store.both(&reports(), claim).ask(&store.other()));
    let holder = |answer: &Result<Admitted, MutexError>| match answer {
        Ok(Admitted::LeaseTaken(Some(holder)) | Admitted::ClaimTaken(Some(holder))) => holder.owner(),
        other => panic!("{other:?}"),
    };
    assert!(matches!(answers[0], Ok(Admitted::LeaseTaken(_))));
    assert!(matches!(answers[1], Ok(Admitted::ClaimTaken(_))));
    assert!(answers.iter().all(|answer| holder(answer) == held.lease().unwrap().owner()));
    assert!(!store.mutex.exists(&second).unwrap(), "a refusal consumed an occurrence");
    assert!(store.mutex.forget(held.lease().unwrap()).unwrap());
    admitted(&store.mutex, &store.both(&reports(), &second));
}

#[test]
#[should_panic(expected = "claim/other/reports/2026-03-01T12:00:00Z is no claim under lease/reports")]
fn a_lease_and_a_claim_of_two_mutexes_are_no_admission() {
    let store = Store::new();
    store.both(&reports(), &MutexName::lease("other").unwrap().claim("reports", noon()));
}

#[test]
fn only_the_owner_gives_a_claim_back() {
    let store = Store::new();
    let claim = reports().claim("reports", noon());
    let old = store.take(&claim);
    store.clock.advance(Duration::from_secs(60));
    let new = store.take(&claim);
    assert!(!store.other().forget(&old).unwrap());
    assert!(!extended(&store.other(), &old));
    assert!(store.mutex.exists(&claim).unwrap());
    assert!(store.other().forget(&new).unwrap());
    assert!(!store.mutex.exists(&claim).unwrap());
    store.take(&claim);
    assert!(store.mutex.break_lease(&claim).unwrap().is_some());
    assert!(!store.mutex.exists(&claim).unwrap());
}

#[test]
fn of_many_threads_one_wins() {
    let store = Store::new();
    for round in 0..50 {
        let claim = reports().claim("reports", noon() + TimeDelta::seconds(round));
        let gate = Barrier::new(4);
        // A handle is kept with its answer, because it would take the lease with it.
        let ask = |mutex: FileMutex| {
            let admission = store.both(&reports(), &claim);
            gate.wait();
            (admission.ask(&mutex), mutex)
        };
        let answers = std::thread::scope(|scope| {
            let handles = [store.other(), store.other(), store.mutex.clone(), store.mutex.clone()];
            let threads = handles.map(|mutex| scope.spawn(|| ask(mutex)));
            threads.map(|thread| thread.join().unwrap())
        });
        let won: Vec<_> = answers.iter().filter(|(answer, _)| matches!(answer, Ok(Admitted::Granted(_)))).collect();
        assert_eq!(won.len(), 1, "in round {round}: {answers:?}");
        store.clock.advance(Duration::from_secs(60));
    }
}

#[test]
fn a_clock_that_is_set_back_holds_nothing_that_is_free_and_a_holder_from_the_future_is_told_of() {
    let store = Store::new();
    let schedule = Schedule::new(store.other()).with_clock(&store.clock);
    schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping()).unwrap();
    let (lease, now) = (store.take(&reports()), Clock::from(&store.clock).now());
    store.clock.set(now - TimeDelta::minutes(90));
    let report = schedule.run_due(noon());
    let until = (now + TimeDelta::minutes(1)).format("%F %H:%M");
    let said = report.to_string();
    assert!(
        said.contains("which is 1 h 30 min in the future: the store's clock was set back; ")
            && said.contains(&format!("the lease ends at {until}"))
            && said.contains(" by that clock, unless its holder renews it"),
        "{said}"
    );
    assert!(report.is_failure());
    let skipped = crate::support::skipped(&report, "reports");
    assert_eq!(skipped.holder().unwrap().clock_set_back_by(), Some(Duration::from_secs(90 * 60)));
    assert!(skipped.to_string().contains("which is 1 h 30 min in the future"), "{skipped}");
    // A name is free after its release, or after the death of its holder.
    assert!(store.mutex.forget(&lease).unwrap());
    store.clock.set(now - TimeDelta::days(1));
    assert!(!schedule.run_due(noon()).is_failure());
    drop(store.other().create(&store.request(&reports())).unwrap().unwrap());
    store.clock.set(now - TimeDelta::days(2));
    store.assert_free(&reports());
}

/// Pauses another user's schedule as root.
#[test]
#[cfg(unix)]
fn what_is_made_belongs_to_the_owner_of_the_directory() {
    use std::os::unix::fs::{MetadataExt, chown};

    let dir = tempfile::tempdir().unwrap();
    // For any user but root the change fails, and the directory stays theirs.
    let _ = chown(dir.path(), Some(65_534), Some(65_534));
    let schedule = Schedule::new(FileMutex::in_dir(dir.path()).unwrap()).named("shop").unwrap();
    schedule.pause(chrono::Utc::now() + chrono::TimeDelta::hours(1), "").unwrap();
    let owner = dir.path().metadata().unwrap().uid();
    let files: Vec<_> = dir.path().read_dir().unwrap().map(|file| file.unwrap().metadata().unwrap().uid()).collect();
    assert!(!files.is_empty() && files.iter().all(|file| *file == owner), "{files:?} of {owner}");
}
