//! Leases that last as long as a command, also when its scheduler dies.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use soloist::store::MutexErrorKind::Unusable;
use soloist::store::{Admission, Batch, Held, Holder, Lease};
use soloist::{Event, EventMutex, FileMutex, MutexError, MutexName, Schedule, SkipReason};

use super::child::{Doing, Order, child_command};
use super::users::set_mode;
use super::{Store, assert_names, extended, files, noon, reports, rested, take};
use crate::support::{holder, skipped, until};

const HOUR: Duration = Duration::from_secs(3600);

#[track_caller]
fn lifeline(mutex: &FileMutex, lease: &Lease) -> OwnedFd {
    mutex.lifeline(lease).unwrap().expect("this store gives lifelines").into()
}

/// A command that runs until this goes.
struct Running(Child);

impl Running {
    #[track_caller]
    fn start(stderr: impl Into<Stdio>) -> Self {
        let mut command = Command::new("cat");
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap())
    }

    #[track_caller]
    fn assert_alive(&mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "the command has ended");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asserts that this owner has the lease, also by another handle.
#[track_caller]
fn assert_held_by(store: &Store, lease: &Lease) {
    store.assert_held(lease.name());
    let holder = holder(&store.other(), lease.name()).expect("it has a holder");
    assert_eq!((holder.owner(), holder.token()), (lease.owner(), lease.token()));
}

/// Waits until the lease is free: a child of another test may inherit a duplicate until it starts its program.
#[track_caller]
fn assert_free_soon(store: &Store) {
    until(|| !store.mutex.exists(&reports()).unwrap()).unwrap();
    let other = store.other();
    let lease = take(&other, &store.request(&reports()));
    assert!(other.forget(&lease).unwrap());
}

#[test]
fn a_lease_whose_scheduler_was_killed_lasts_as_long_as_its_command_or_what_that_started() {
    // The second shell ends at once, and leaves its child behind.
    for script in ["exec cat", "exec 3<&0; cat <&3 &"] {
        let store = Store::new();
        let mut scheduler = Doing::start(child_command(&Order::Start(store.path(), script), &[]));
        let token: u64 = scheduler.says().unwrap().parse().unwrap();
        let pid = scheduler.pid();
        let input = scheduler.kill_alone();
        for _ in 0..2 {
            store.assert_held(&reports());
            let holder = holder(&store.other(), &reports()).unwrap();
            assert_eq!((holder.pid(), holder.token().get()), (pid, token), "{script}");
            store.clock.advance(HOUR);
        }
        drop(input);
        until(|| store.mutex.create(&store.request(&reports())).unwrap().is_some()).unwrap();
        assert!(holder(&store.mutex, &reports()).unwrap().token().get() > token, "{script}");
        assert_eq!(files(store.path()).len(), 3, "the life file of the dead is used again");
    }
}

#[test]
fn a_lease_that_is_given_back_is_free_at_once_although_a_command_has_its_lifeline() {
    let store = Store::new();
    let lease = store.take(&reports());
    let mut command = Running::start(lifeline(&store.mutex, &lease));
    store.clock.advance(HOUR);
    assert_held_by(&store, &lease);
    assert!(store.mutex.forget(&lease).unwrap());
    let next = take(&store.other(), &store.request(&reports()));
    assert!(next.token() > lease.token());
    assert_eq!(files(store.path()).len(), 3, "the life file is used again");
    command.assert_alive();
}

#[test]
fn a_lease_with_a_lifeline_stays_its_owners_past_its_term() {
    let store = Store::new();
    let (lease, claim) = (store.take(&reports()), reports().claim("reports", noon()));
    let _lifeline = lifeline(&store.mutex, &lease);
    for _ in 0..2 {
        store.clock.advance(HOUR);
        assert_held_by(&store, &lease);
        assert!(extended(&store.mutex, &lease));
        assert!(extended(&store.other(), &lease), "another handle knows the owner too");
        // A claim rewrites the state, and does not change the lease.
        take(&store.other(), &store.request(&claim));
    }
    store.clock.advance(HOUR);
    assert_held_by(&store, &lease);
    assert!(store.mutex.forget(&lease).unwrap());
    assert!(!store.mutex.forget(&lease).unwrap());
    store.assert_free(&reports());
}

#[test]
fn another_handle_gives_back_a_lease_with_a_lifeline_too() {
    let store = Store::new();
    let lease = store.take(&reports());
    let _lifeline = lifeline(&store.mutex, &lease);
    store.clock.advance(HOUR);
    assert!(store.other().forget(&lease).unwrap());
    store.assert_free(&reports());
    assert!(!store.mutex.forget(&lease).unwrap());
}

#[test]
fn a_person_reads_in_the_state_that_the_term_does_not_count() {
    let store = Store::new();
    let lease = store.take(&reports());
    let word = || store.text().lines().find(|line| line.contains("\tlease/")).unwrap()[37..42].to_owned();
    assert_eq!(word(), "alive");
    let _lifeline = lifeline(&store.mutex, &lease);
    assert_eq!(word(), "bound");
    store.clock.advance(HOUR);
    assert!(extended(&store.mutex, &lease));
    assert_eq!(word(), "bound");
    assert!(rested(&store.mutex, lease));
    assert_eq!(word(), "fixed");
}

#[test]
fn a_later_release_is_the_end_of_a_lease_whoever_has_its_lifeline() {
    let store = Store::new();
    let lease = store.take(&reports());
    let _lifeline = lifeline(&store.mutex, &lease);
    store.clock.advance(HOUR);
    assert!(rested(&store.mutex, lease.clone()));
    store.clock.advance(Duration::from_secs(59));
    assert_held_by(&store, &lease);
    store.clock.advance(Duration::from_secs(1));
    assert!(!store.mutex.exists(&reports()).unwrap());
    store.assert_free(&reports());
}

#[test]
fn a_broken_lease_is_free_whoever_has_its_lifeline_and_leaves_the_next_one_alone() {
    let store = Store::new();
    let old = store.take(&reports());
    let _lifeline = lifeline(&store.mutex, &old);
    store.clock.advance(HOUR);
    assert!(store.other().break_lease(&reports()).unwrap().is_some());
    let new = store.take(&reports());
    assert!(store.file(".life-1").exists(), "the old command still has its life file");
    assert!(!extended(&store.mutex, &old));
    assert!(!store.mutex.forget(&old).unwrap());
    assert_held_by(&store, &new);
    assert!(store.mutex.forget(&new).unwrap());
    store.assert_free(&reports());
}

#[test]
fn what_is_not_in_hand_any_more_gets_no_lifeline_and_a_claim_never() {
    let store = Store::new();
    let refused = |mutex: &FileMutex, lease: &Lease, why: &str| {
        let error = assert_names(Unusable, mutex.lifeline(lease).unwrap_err(), &store.state());
        assert!(error.to_string().starts_with("could not make a lifeline for lease/reports in /"), "{error}");
        assert_eq!(error.get_ref().unwrap().to_string(), why);
    };
    let (gone, lost) = ("this process does not hold the lease", "its owner does not hold the lease any more");

    let lease = store.take(&reports());
    refused(&store.other(), &lease, gone);
    assert!(store.mutex.forget(&lease).unwrap());
    refused(&store.mutex, &lease, gone);

    let lease = store.take(&reports());
    store.clock.advance(Duration::from_secs(60));
    refused(&store.mutex, &lease, lost);
    store.assert_free(&reports());

    let lease = store.take(&reports());
    assert!(store.other().break_lease(&reports()).unwrap().is_some());
    let other = store.other();
    let holder = take(&other, &store.request(&reports()));
    refused(&store.mutex, &lease, lost);
    refused(&store.mutex, &lease, gone);
    assert_held_by(&store, &holder);
    store.clock.advance(Duration::from_secs(60));
    assert!(!store.mutex.exists(&reports()).unwrap(), "the holder's lease still has its term");

    let claim = store.take(&reports().claim("reports", noon()));
    assert!(store.mutex.lifeline(&claim).unwrap().is_none());
    store.clock.advance(Duration::from_secs(60));
    assert!(!store.mutex.exists(claim.name()).unwrap());
}

#[test]
fn a_store_that_is_shared_gives_lifelines_as_its_own_does() {
    let store = Store::new();
    let lease = store.take(&reports());
    let handles: [Box<dyn EventMutex>; 3] = [
        Box::new(store.mutex.clone()),
        Box::new(Box::new(store.mutex.clone())),
        Box::new(Arc::new(store.mutex.clone())),
    ];
    for handle in &handles {
        assert!(handle.lifeline(&lease).unwrap().is_some());
        assert!((&handle).lifeline(&lease).unwrap().is_some());
    }
}

#[test]
fn each_of_several_lifelines_keeps_the_lease() {
    let store = Store::new();
    let handle = store.other();
    let lease = take(&handle, &store.request(&reports()));
    let (first, second) = (lifeline(&handle, &lease), lifeline(&handle, &lease));
    assert_ne!(first.as_raw_fd(), second.as_raw_fd());
    drop(handle);
    store.clock.advance(HOUR);
    assert_held_by(&store, &lease);
    drop(first);
    assert_held_by(&store, &lease);
    drop(second);
    assert_free_soon(&store);
}

#[test]
fn a_lifeline_is_inherited_by_the_command_it_was_made_for_and_by_no_other() {
    let store = Store::new();
    let bills = MutexName::lease("bills").unwrap();
    let handle = store.other();
    let (one, two) = (take(&handle, &store.request(&reports())), take(&handle, &store.request(&bills)));
    let (ours, theirs) = (lifeline(&handle, &one), lifeline(&handle, &two));
    let mut other = Running::start(theirs);
    let command = Running::start(ours);
    drop(handle);
    store.clock.advance(HOUR);
    assert_held_by(&store, &one);
    drop(command);
    assert_free_soon(&store);
    other.assert_alive();
    assert_held_by(&store, &two);
}

#[test]
fn what_an_earlier_command_left_behind_does_not_keep_the_next_lease() {
    let store = Store::new();
    let handle = store.other();
    let earlier = take(&handle, &store.request(&reports()));
    let mut left_behind = Running::start(lifeline(&handle, &earlier));
    assert!(handle.forget(&earlier).unwrap());
    let next = take(&handle, &store.request(&reports()));
    drop(lifeline(&handle, &next));
    assert_held_by(&store, &next);
    drop(handle);
    assert_free_soon(&store);
    left_behind.assert_alive();
}

#[test]
fn a_life_file_that_was_deleted_leaves_a_lease_with_a_lifeline_its_term() {
    // The number of an open file cannot be reused.
    let replace = |store: &Store| {
        let life = store.file(".life");
        fs::remove_file(&life).unwrap();
        fs::write(&life, "").unwrap();
    };
    let delete = |store: &Store| fs::remove_file(store.file(".life")).unwrap();
    for lose in [&delete as &dyn Fn(&Store), &replace] {
        let store = Store::new();
        let lease = store.take(&reports());
        let _lifeline = lifeline(&store.mutex, &lease);
        lose(&store);
        assert_held_by(&store, &lease);
        store.clock.advance(Duration::from_secs(59));
        assert!(extended(&store.mutex, &lease));
        store.clock.advance(Duration::from_secs(59));
        assert_held_by(&store, &lease);
        store.clock.advance(Duration::from_secs(1));
        assert!(!store.mutex.exists(&reports()).unwrap(), "nobody can tell who lives");
        assert!(!store.mutex.forget(&lease).unwrap());
        store.assert_free(&reports());
    }
}

#[test]
fn a_state_that_is_not_whole_frees_no_lease_that_a_command_keeps() {
    let store = Store::new();
    let handle = store.other();
    let lease = take(&handle, &store.request(&reports()));
    let before = fs::read(store.state()).unwrap();
    let command = lifeline(&handle, &lease);
    let bound = fs::read(store.state()).unwrap();
    // Behind the text, there are only zeros.
    let text = store.text().len();
    let cuts = || (0..=text).chain([text + 1, bound.len() - 1]);
    drop(handle);
    let is_granted = |bytes: &[u8]| {
        super::torn::put(&store.state(), bytes);
        matches!(store.mutex.create(&store.request(&reports())), Ok(Some(_)))
    };
    for len in cuts() {
        let half_written = [&bound[..len], &before[len..]].concat();
        assert!(!is_granted(&half_written), "the first {len} bytes were written");
    }
    store.clock.advance(HOUR);
    for at in cuts() {
        assert!(!is_granted(&bound[..at]), "cut at {at}");
    }
    super::torn::put(&store.state(), &bound);
    assert_held_by(&store, &lease);
    drop(command);
    assert_free_soon(&store);
}

#[test]
fn a_lifeline_that_can_not_be_put_on_record_is_not_given() {
    let store = Store::new();
    let lease = store.take(&reports());
    let mut child = Doing::start(child_command(&Order::Lock(&store.lock()), &[]));
    assert_eq!(child.says().unwrap(), "locked");
    assert_names(Unusable, store.mutex.lifeline(&lease).unwrap_err(), &store.lock());
    child.kill();
    assert_held_by(&store, &lease);
    store.clock.advance(Duration::from_secs(60));
    store.assert_free(&reports());
}

#[test]
fn a_lease_with_a_lifeline_ends_also_when_its_release_can_not_be_put_on_record() {
    let store = Store::new();
    let lease = store.take(&reports());
    let mut command = Running::start(lifeline(&store.mutex, &lease));
    let mut child = Doing::start(child_command(&Order::Lock(&store.lock()), &[]));
    assert_eq!(child.says().unwrap(), "locked");
    assert_names(Unusable, store.mutex.forget(&lease).unwrap_err(), &store.lock());
    child.kill();
    store.assert_free(&reports());
    command.assert_alive();
}

#[test]
fn all_leases_with_lifelines_end_also_when_the_directory_is_refused_at_their_release() {
    let store = Store::new();
    let names = ["bills", "reports"].map(|name| MutexName::lease(name).unwrap());
    let leases = names.each_ref().map(|name| store.take(name));
    let mut commands = leases.each_ref().map(|lease| Running::start(lifeline(&store.mutex, lease)));
    let mut batch = Batch::new();
    for lease in leases {
        batch.release(lease);
    }
    batch.admit(Admission::lease_only(store.request(&MutexName::lease("next").unwrap())));
    set_mode(store.path(), 0o777);
    store.mutex.carry_out(&mut batch);
    set_mode(store.path(), 0o700);
    let refused = |error: &MutexError| error.is_refused() && error.is_outage();
    assert!(batch.releases().iter().all(|slot| slot.answer().unwrap().as_ref().is_err_and(refused)), "{batch:?}");
    let next = batch.admissions()[0].answer().unwrap().as_ref().unwrap_err();
    assert!(next.to_string().contains("the store was not asked again"), "{next}");
    for (name, command) in names.iter().zip(&mut commands) {
        store.assert_free(name);
        command.assert_alive();
    }
}

/// Starts a scheduler that runs a command. Returns it with the number of the command's process group. The command
/// ends when the file `end` exists, or the directory has gone.
fn run_a_command(store: &Store) -> (Doing, u32) {
    let dir = store.path().display();
    let waits = format!("until [ -e {dir}/end ] || ! [ -e {dir}/group ]; do sleep 0.02; done");
    run(store, &format!("echo $$ >{dir}/began; mv {dir}/began {dir}/group; {waits}"))
}

fn run(store: &Store, line: &str) -> (Doing, u32) {
    let scheduler = Doing::start(child_command(&Order::Run(store.path(), line), &[]));
    let group = store.path().join("group");
    until(|| group.exists()).unwrap();
    (scheduler, fs::read_to_string(group).unwrap().trim().parse().unwrap())
}

#[test]
fn a_command_that_outlives_its_scheduler_is_named_by_its_process_group() {
    let store = Store::new();
    let (scheduler, group) = run_a_command(&store);
    let pid = scheduler.pid();
    let head = format!(" bound group {group:<10}\tlease/reports\t");
    until(|| store.text().contains(&head)).unwrap();
    let holder = holder(&store.other(), &reports()).expect("it is held");
    assert_eq!((holder.pid(), holder.process_group(), holder.has_ended()), (pid, Some(group), false));

    drop(scheduler.kill_alone());
    store.clock.advance(HOUR);
    let holder = crate::support::holder(&store.other(), &reports()).expect("it is held");
    assert_eq!((holder.pid(), holder.process_group(), holder.has_ended()), (pid, Some(group), true));
    // A claim rewrites the state, and does not change the lease.
    take(&store.mutex, &store.request(&reports().claim("reports", noon())));
    let schedule = Schedule::new(store.other()).with_clock(&store.clock);
    schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping()).unwrap();
    let report = schedule.run_due(noon()).to_string();
    let said = format!("; this process has ended, but its command still runs as process group {group}");
    assert!(report.contains(&format!("still running: {}, pid {pid}, since ", holder.host())), "{report}");
    assert!(report.contains(&said), "{report}");
    // A scheduler that was killed can't end it at its timeout.
    let schedule = Schedule::new(store.other()).with_clock(&store.clock);
    let event = Event::call("reports", |_| {}).every_minute().without_overlapping();
    schedule.add(event.timeout(Duration::from_secs(10))).unwrap();
    let short = Event::call("shares it", |_| {}).every_minute().without_overlapping().mutex_name("reports");
    schedule.add(short.timeout(Duration::from_secs(10))).unwrap();
    let report = schedule.run_due(noon());
    assert!(matches!(skipped(&report, "reports"), SkipReason::Stuck { .. }) && report.is_failure(), "{report}");
    // The timeout of another event says nothing of this command.
    assert!(matches!(skipped(&report, "shares it"), SkipReason::Overlapping(_)), "{report}");

    let broken = store.mutex.break_lease(&reports()).unwrap().and_then(Held::into_holder).expect("it is held");
    assert_eq!((broken.has_ended(), broken.process_group()), (true, Some(group)));
    assert_eq!(store.mutex.break_lease(&reports()).unwrap(), None);
    store.assert_free(&reports());
    fs::write(store.path().join("end"), "").unwrap();
}

#[test]
fn a_lease_whose_scheduler_lives_is_broken_without_a_word_of_its_command() {
    let store = Store::new();
    let (scheduler, group) = run_a_command(&store);
    let holder = until_known(&store, group);
    assert!(!holder.to_string().contains("ended"), "{holder}");
    let broken = store.mutex.break_lease(&reports()).unwrap().and_then(Held::into_holder);
    assert!(!broken.expect("it is held").has_ended());
    fs::write(store.path().join("end"), "").unwrap();
    scheduler.finish();
}

/// Leaves a process outside the dead group: it keeps the lease, but the number of the group may be another's by
/// now.
#[test]
fn a_process_group_of_which_nothing_is_left_is_not_named() {
    let store = Store::new();
    let dir = store.path().display();
    let waits = format!("until [ -e {dir}/end ] || ! [ -e {dir}/group ]; do sleep 0.02; done");
    let line = format!("echo $$ >{dir}/began; setsid sh -c 'mv {dir}/began {dir}/group; {waits}' & wait");
    let (scheduler, group) = run(&store, &line);
    until_known(&store, group);
    drop(scheduler.kill_alone());
    assert!(Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status().unwrap().success());
    let told = || holder(&store.other(), &reports()).expect("it is held").to_string();
    until(|| told().ends_with("; this process has ended, but a process that it started still runs")).unwrap();
    fs::write(store.path().join("end"), "").unwrap();
    assert_free_soon(&store);
}

#[track_caller]
fn until_known(store: &Store, group: u32) -> Holder {
    let holder = || holder(&store.other(), &reports()).expect("it is held");
    until(|| holder().process_group() == Some(group)).unwrap();
    holder()
}
