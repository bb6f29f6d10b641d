//! A replica takes the place of a primary: a schedule goes on, and loses no more than the data without a copy.
//! Each case is tried with Sentinels and in a cluster.

use std::iter;
use std::thread;
use std::time::Duration;

use chrono::Utc;
use soloist::store::LeaseRequest;
use soloist::time::Clock;
use soloist::{CancelReason, Event, EventMutex, FencingToken, MutexName, Schedule, Term, Verdict};

use super::renewal::{LEASE, LongRun, assert_lost, assert_nothing_was_lost, store, store_with};
use super::{assert_ran, assert_unavailable, claim, entries, minute, schedule, schedule_within};
use crate::servers::proxy::{Fault, Proxy};
use crate::servers::redis::Redis;
use crate::servers::replication::Replicated;
use crate::support::{Diary, entry, ran, skipped, until};

/// The timeout of calls that wait for a replica. Half of it is for a replica of a busy machine to confirm.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(8);

/// Makes a test for each case.
macro_rules! cases {
    ($servers:path) => {
        $crate::redis::failover::cases! {
            $servers:
            a_schedule_goes_on_when_its_primary_was_killed
            a_schedule_goes_on_when_its_primary_was_stopped
            a_claim_that_no_replica_had_is_lost_and_the_second_run_has_the_higher_token
            a_run_keeps_its_lease
            the_lease_of_a_process_that_was_killed_ends_with_its_term
            a_run_whose_lease_no_replica_had_is_cancelled
            a_run_whose_renewals_no_replica_confirms_is_cancelled
            a_grant_that_no_replica_confirms_is_released_and_does_not_count
            a_run_in_order_and_one_in_background_wait_for_a_replica
            a_resumed_event_stays_resumed
        }
    };
    ($servers:path: $($case:ident)+) => {$(
        #[test]
        fn $case() {
            $crate::redis::failover::$case(&<$servers>::start());
        }
    )+};
}
pub(super) use cases;

/// Ticks this minute, and asserts that the event runs. Returns its fencing token.
#[track_caller]
fn token_of_run(schedule: &Schedule, number: i64) -> FencingToken {
    let report = schedule.run_due(minute(number));
    assert_ran(&report);
    ran(&report, "report").fencing_token().expect("it is protected")
}

#[track_caller]
fn assert_ran_elsewhere(schedule: &Schedule, number: i64) {
    assert_eq!(skipped(&schedule.run_due(minute(number)), "report").keyword(), "ran_elsewhere");
}

pub(super) fn a_schedule_goes_on_when_its_primary_was_killed(servers: &impl Replicated) {
    a_schedule_goes_on(servers, Redis::kill, Redis::start_again);
}

pub(super) fn a_schedule_goes_on_when_its_primary_was_stopped(servers: &impl Replicated) {
    a_schedule_goes_on(servers, Redis::pause, Redis::resume);
}

fn a_schedule_goes_on(servers: &impl Replicated, fail: fn(&Redis), come_back: fn(&Redis)) {
    let diary = Diary::default();
    let [ours, theirs] = [(), ()].map(|()| schedule(&servers.url(), &diary));
    let before = token_of_run(&ours, 0);
    servers.wait_until_copied(&claim(0));
    let old = servers.primary();
    fail(old);
    assert_unavailable(&ours.run_due(minute(1)));
    servers.fail_over(old);
    let after = token_of_run(&ours, 2);
    assert!(after > before, "{after:?} came after {before:?}");
    assert_ran_elsewhere(&theirs, 0);
    assert_ran_elsewhere(&theirs, 2);
    // The old server comes back as a primary, and learns from the others that it is a replica.
    let lost = servers.lost_in_failover(old, &|old| {
        come_back(old);
        assert!(token_of_run(&ours, 3) > after);
    });
    assert_eq!(lost, [0_u64; 0]);
    assert_ran_elsewhere(&theirs, 3);
    assert!(token_of_run(&theirs, 4) > after);
}

pub(super) fn a_claim_that_no_replica_had_is_lost_and_the_second_run_has_the_higher_token(servers: &impl Replicated) {
    let diary = Diary::default();
    let [ours, theirs] = [(), ()].map(|()| schedule(&servers.url(), &diary));
    token_of_run(&ours, 0);
    servers.wait_until_copied(&claim(0));
    let old = servers.primary();
    servers.cut_off_replicas();
    let lost = token_of_run(&ours, 1);
    servers.promote_a_replica(old);
    assert_eq!(servers.lost_in_failover(old, &|_| {}), [lost.get()]);
    assert_ran_elsewhere(&theirs, 0);
    let second = token_of_run(&theirs, 1);
    assert!(second > lost, "{second:?} came after {lost:?}");
    assert_ran_elsewhere(&ours, 1);
}

pub(super) fn a_run_keeps_its_lease(servers: &impl Replicated) {
    // A third of the term is longer than a failover, and two thirds are longer than one on a busy machine.
    let at_work = LongRun::with(store(&servers.url()), Duration::from_secs(24));
    servers.wait_until_copied(LEASE);
    let token = at_work.run.fencing_token();
    let old = servers.primary();
    old.kill();
    servers.fail_over(old);
    let theirs = schedule(&servers.url(), &Diary::default());
    let assert_overlaps = |number| {
        assert_eq!(skipped(&theirs.run_due(minute(number)), "report").keyword(), "overlapping");
    };
    assert_overlaps(1);
    at_work.wait_for_a_renewal();
    assert_eq!(at_work.run.fencing_token(), token);
    assert_overlaps(2);
    assert_nothing_was_lost(at_work);
    assert!(Some(token_of_run(&theirs, 3)) > token);
}

pub(super) fn the_lease_of_a_process_that_was_killed_ends_with_its_term(servers: &impl Replicated) {
    let name = MutexName::lease("report").expect("a name");
    let term = Term::new(Duration::from_secs(24)).expect("a term"); // longer than a failover on a busy machine
    let request = LeaseRequest::new(name, term, &Clock::system());
    let lease = store(&servers.url()).create(&request).unwrap().expect("it is free");
    servers.wait_until_copied(LEASE);
    let old = servers.primary();
    old.kill();
    servers.fail_over(old);
    let theirs = schedule(&servers.url(), &Diary::default());
    let mut numbers = 0..;
    let skips = iter::from_fn(|| {
        let report = theirs.run_due(minute(numbers.next()?));
        match entry(&report, "report").verdict() {
            Verdict::Skipped(reason) => Some(reason.keyword().to_owned()),
            Verdict::Ran(_) => None,
        }
    });
    let skips: Vec<String> = skips.inspect(|_| thread::sleep(Duration::from_millis(100))).collect(); // between two ticks
    assert!(!skips.is_empty() && skips.iter().all(|skip| skip == "overlapping"), "{skips:?}");
    assert!(lease.deadline() <= Clock::system().moment(), "it ended early");
}

pub(super) fn a_run_whose_lease_no_replica_had_is_cancelled(servers: &impl Replicated) {
    let old = servers.primary();
    servers.cut_off_replicas();
    let at_work = LongRun::on(store(&servers.url()));
    let token = at_work.run.fencing_token();
    servers.fail_over(old);
    servers.let_replicas_in();
    assert_eq!(at_work.wait_until_cancelled().reason, CancelReason::LeaseLost);
    assert_lost(&at_work.end());
    servers.mend();
    let theirs = schedule(&servers.url(), &Diary::default());
    assert!(Some(token_of_run(&theirs, 1)) > token);
}

/// Plays a primary that may have been replaced without knowing it.
pub(super) fn a_run_whose_renewals_no_replica_confirms_is_cancelled(servers: &impl Replicated) {
    let at_work = LongRun::on(store(&(servers.url() + "?wait=1")));
    servers.cut_off_replicas();
    assert_eq!(at_work.wait_until_cancelled().reason, CancelReason::LeaseLost);
    assert_lost(&at_work.end());
}

pub(super) fn a_grant_that_no_replica_confirms_is_released_and_does_not_count(servers: &impl Replicated) {
    let diary = Diary::default();
    let url = servers.url() + "?wait=1";
    let ours = schedule_within(CONFIRMED_WITHIN, &url, &diary);
    token_of_run(&ours, 0);
    servers.cut_off_replicas();
    for _ in 0..2 {
        assert_unavailable(&ours.run_due(minute(1)));
        assert_eq!(diary.lines().len(), 1, "a task ran");
    }
    servers.mend();
    token_of_run(&ours, 1);
    assert_eq!(entries(servers.primary()), [claim(0), claim(1)], "all else was released");
    // A failover does not lose a claim that the replicas have.
    servers.wait_until_copied(&claim(1));
    let old = servers.primary();
    old.kill();
    servers.fail_over(old);
    old.start_again();
    servers.mend();
    for schedule in [ours, schedule(&url, &diary)] {
        assert_ran_elsewhere(&schedule, 1);
    }
}

pub(super) fn a_run_in_order_and_one_in_background_wait_for_a_replica(servers: &impl Replicated) {
    let diary = Diary::default();
    let open = || store_with(&(servers.url() + "?wait=1"), CONFIRMED_WITHIN);
    let mixed = Schedule::new(open());
    for (name, is_in_background) in [("one", false), ("two", false), ("three", true), ("four", true)] {
        let event = Event::call(name, diary.task(name)).every_minute().on_one_server().without_overlapping();
        mixed.add(if is_in_background { event.in_background() } else { event }).expect("an event");
    }
    let slots = Schedule::new(open());
    slots.add(Event::call("slots", |_| {}).every_minute().on_one_server().at_most(2)).expect("an event");
    servers.cut_off_replicas();
    let report = mixed.run_due(minute(0));
    for name in ["one", "two", "three", "four"] {
        assert_eq!(skipped(&report, name).keyword(), "store_unavailable", "{report}");
    }
    // The first slot's request has the claim, which refuses the second.
    let report = slots.run_due(minute(0));
    assert_eq!(skipped(&report, "slots").keyword(), "store_unavailable", "{report}");
    servers.mend();
    let report = mixed.run_due(minute(0));
    assert!(!report.is_failure(), "{report}");
    assert_eq!(diary.lines().len(), 4, "{report}");
    assert!(!slots.run_due(minute(0)).is_failure());
}

pub(super) fn a_resumed_event_stays_resumed(servers: &impl Replicated) {
    let url = servers.url() + "?wait=1";
    let shop = || schedule_within(CONFIRMED_WITHIN, &url, &Diary::default()).named("shop").expect("a name");
    let pause = || shop().pause_event("report", Utc::now() + Duration::from_secs(600), "a test").expect("it answers");
    pause();
    servers.cut_off_replicas();
    let why = "only 0 of 1 replicas confirmed the change in time: check the replicas, or lower `wait` in the url";
    for again in [false, true] {
        // On a machine that stands still for seconds, no time is left for the wait.
        let is_named = until(|| {
            let error = shop().resume_event("report").expect_err("no replica has it");
            assert!(error.is_unavailable(), "{error}");
            error.to_string().ends_with(why)
        });
        assert!(is_named.is_ok(), "again: {again}: the error does not name the replicas");
    }
    servers.mend();
    pause();
    assert!(shop().resume_event("report").expect("it answers"));
    let old = servers.primary();
    old.kill();
    servers.fail_over(old);
    old.start_again();
    servers.mend();
    token_of_run(&shop(), 0);
}

#[test]
fn a_grant_whose_answer_was_lost_counts_only_when_a_replica_has_it() {
    let primary = Redis::start();
    let replica = Redis::replica_of(&primary);
    let proxy = Proxy::of(&primary);
    let diary = Diary::default();
    let ours = schedule_within(CONFIRMED_WITHIN, &(proxy.url() + "?wait=1"), &diary);
    token_of_run(&ours, 0);
    replica.pause();
    // A second connection finds the grant of the first.
    proxy.fault_once(Fault::ReplyCut);
    assert_unavailable(&ours.run_due(minute(1)));
    assert_eq!(diary.lines().len(), 1, "a task ran");
    replica.resume();
    token_of_run(&ours, 1);
}
