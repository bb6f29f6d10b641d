//! Rows that another client's open transaction has locked. The call for that name fails in time, with advice;
//! other names are served.

use std::thread;
use std::time::{Duration, Instant};

use soloist::observe::SkipCount;
use soloist::store::{Admission, Admitted, Batch, Lease};
use soloist::{Event, EventMutex, MutexName, Schedule, Term};

use super::batches::{admit, extend, release};
use super::trouble::{
    IN_TIME, Trouble, assert_out, assert_ran, claim, minute, report, request, said, schedule, wait_until,
};
use super::{COLUMNS, GRANTED, HASTY, LONG, key, on_both};
use crate::servers::proxy::{Fault, Proxy};
use crate::support::{Diary, in_time, noon, ran, skipped};

on_both!(
    a_locked_table_is_an_error_until_it_is_free,
    who_gave_up_on_a_locked_table_leaves_nothing_waiting,
    no_gate_waits_for_a_log_of_runs_that_is_locked,
    all_skips_are_counted_or_none,
    an_uncommitted_insert_is_an_error_of_its_name_alone,
    an_uncommitted_update_is_an_error_of_its_name_alone,
    a_store_waits_for_a_locked_row_longer_than_the_settings_of_the_server_say,
    who_waits_in_a_queue_that_moves_is_not_told_of_an_open_transaction,
    an_event_in_the_background_runs_beside_one_whose_row_is_locked,
    a_locked_row_keeps_nobody_else_from_renewing_and_releasing,
    many_locked_rows_cost_a_batch_no_more_than_a_time_out_or_two,
    three_locked_rows_keep_no_other_lease_from_its_renewal,
    a_release_beside_a_rest_that_met_a_lock_is_known_of_each_name,
    a_release_that_met_a_lock_is_made_up_for,
    a_locked_row_keeps_no_other_pending_release,
    a_release_whose_answer_was_lost_before_it_met_a_lock_is_known_of_each_name
);

fn advice<S: Trouble>() -> &'static str {
    if S::NOW.starts_with("UTC") {
        "; an open transaction has locked the row of this name: look into information_schema.innodb_trx"
    } else {
        "; an open transaction has locked the row of this name: look into pg_stat_activity"
    }
}

/// Locks the row of a name by an uncommitted insert.
fn inserting<S: Trouble>(server: &S, name: &MutexName) -> S::Client {
    let (name, now) = (key(name), S::NOW);
    server.holding(&[
        S::BEGIN,
        &format!("INSERT INTO soloist_mutexes ({COLUMNS}) VALUES ({GRANTED}, '{name}', 'x', 1, 'x', 1, {now}, {now})"),
    ])
}

/// Locks the rows with this condition, and no others, by an uncommitted update.
fn updating<S: Trouble>(server: &S, condition: &str) -> S::Client {
    server.holding(&[S::BEGIN, &format!("UPDATE soloist_mutexes SET pid = 0 WHERE {condition}")])
}

#[track_caller]
fn granted(answers: &[Result<Admitted, soloist::MutexError>], at: usize) -> Lease {
    match &answers[at] {
        Ok(Admitted::Granted(grant)) => grant.lease().expect("it was asked for").clone(),
        other => panic!("{at} is not admitted: {other:?}"),
    }
}

fn a_locked_table_is_an_error_until_it_is_free<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    let schedule = schedule(server.hasty(), &diary);
    assert_ran(&schedule.run_due(noon()));
    let lock = server.holding(S::LOCK_TABLE);
    let said = assert_out(&schedule, minute(1), &diary);
    assert!(said.contains("could not admit lease/report in ") && said.ends_with(advice::<S>()), "{said}");
    drop(lock);
    assert_ran(&schedule.run_due(minute(1)));
    assert_eq!((server.held(), diary.lines().len()), (vec![claim(0), claim(1)], 2));
}

fn no_gate_waits_for_a_log_of_runs_that_is_locked<S: Trouble>() {
    let server = S::start();
    // With that, a lock is waited for fifteen seconds.
    let mutex = S::open(&server.url(), Duration::from_secs(60));
    let schedule = Schedule::new(mutex).with_run_log(3).expect("it keeps one");
    for name in ["a", "b", "c"] {
        schedule.add(Event::call(name, |_| {}).every_minute().on_one_server().without_overlapping()).expect("an event");
    }
    let lock: Vec<String> =
        S::LOCK_TABLE.iter().map(|sql| sql.replace("soloist_mutexes", "soloist_mutexes_runs")).collect();
    let lock = server.holding(&lock.iter().map(String::as_str).collect::<Vec<_>>());
    let began = Instant::now();
    for number in 0..2 {
        let report = schedule.run_due(minute(number));
        for name in ["a", "b", "c"] {
            assert!(ran(&report, name).is_success(), "{report}");
        }
    }
    let took = began.elapsed();
    assert!(took < IN_TIME, "{took:?}, of which the end of each tick waits three seconds for the log");
    assert_eq!(server.count("SELECT COUNT(*) FROM soloist_mutexes WHERE name LIKE 'claim/%'"), 6);
    drop(lock);
    wait_until("all is on record", || schedule.runs("c").is_ok_and(|runs| runs.len() == 2));
}

fn all_skips_are_counted_or_none<S: Trouble>() {
    let server = S::start();
    let mutex = S::open(&server.url(), HASTY);
    let log = mutex.run_log().expect("it keeps one");
    let count = |count| {
        let skips = ["overlapping", "paused"].map(|reason| SkipCount::new(reason, count, noon()).expect("a reason"));
        log.count_skips("report", &skips)
    };
    count(2).expect("the rows are free");
    let lock = server.holding(&[
        S::BEGIN,
        "UPDATE soloist_mutexes_runs SET pid = 0 WHERE event = 'report' AND run = 'skipped/paused'",
    ]);
    count(3).expect_err("one row is locked");
    drop(lock);
    let counts: Vec<u64> = log.skips("report").expect("the rows are free").iter().map(SkipCount::count).collect();
    assert_eq!(counts, [2, 2]);
}

fn who_gave_up_on_a_locked_table_leaves_nothing_waiting<S: Trouble>() {
    let server = S::start();
    let lock = server.holding(S::LOCK_TABLE);
    thread::scope(|scope| {
        for number in 0..20 {
            let server = &server;
            scope.spawn(move || {
                let mutex = S::open(&server.url(), Duration::from_millis(200));
                mutex.create(&request(&number.to_string())).expect_err("the table is locked");
            });
        }
    });
    wait_until("nobody waits", || server.ask(S::WAITING).is_empty());
    wait_until("nobody is connected", || server.ask(S::CONNECTED).is_empty());
    drop(lock);
    assert!(server.held().is_empty());
}

/// Asserts that the first of a batch of two fails at the lock, and the second is admitted.
#[track_caller]
fn one_fault_stays_one_fault<S: Trouble>(server: &S, lock: S::Client) {
    let mutex = server.hasty();
    let batch = ["locked", "free"].map(|name| Admission::lease_only(request(name)));
    mutex.exists(request("free").name()).unwrap(); // A new connection would have half of the time.
    // The wait for the lock takes at most half of the timeout.
    let limit = HASTY * 3 / 4;
    in_time(limit, || {
        let began = Instant::now();
        let answers = admit(&mutex, &batch);
        let took = began.elapsed();
        let error = answers[0].as_ref().expect_err("its row is locked");
        assert!(!error.is_outage(), "{error:?}");
        let text = said(error);
        assert!(text.starts_with("could not admit lease/locked in ") && text.ends_with(advice::<S>()), "{text}");
        if took < limit || answers[1].is_ok() {
            let lease = granted(&answers, 1);
            assert_eq!(server.held(), ["lease/free"]);
            assert!(mutex.forget(&lease).unwrap());
        }
        took
    });
    drop(lock);
    let lease = granted(&admit(&mutex, &batch), 0);
    assert!(mutex.forget(&lease).unwrap());
}

fn an_uncommitted_insert_is_an_error_of_its_name_alone<S: Trouble>() {
    let server = S::start();
    let lock = inserting(&server, request("locked").name());
    one_fault_stays_one_fault(&server, lock);
}

fn an_uncommitted_update_is_an_error_of_its_name_alone<S: Trouble>() {
    let server = S::start();
    let lease = server.hasty().create(&request("locked")).unwrap().expect("it is free");
    assert!(server.hasty().forget(&lease).unwrap());
    let lock = updating(&server, "name = 'lease/locked'");
    one_fault_stays_one_fault(&server, lock);
}

fn a_store_waits_for_a_locked_row_longer_than_the_settings_of_the_server_say<S: Trouble>() {
    let server = S::start();
    server.ask(S::SHORT_WAITS);
    let mutex = S::open(&server.url(), Duration::from_secs(60)); // It waits for a row for a quarter of that.
    let lock = inserting(&server, request("locked").name());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| mutex.create(&request("locked")));
        wait_until("it waits for the lock", || !server.ask(S::WAITING).is_empty());
        thread::sleep(Duration::from_secs(3));
        assert!(!waiting.is_finished(), "{:?}", waiting.join());
        drop(lock);
        assert!(waiting.join().expect("it does not panic").unwrap().is_some());
    });
}

/// Changes the row during the wait for its lock, as many clients of one name do.
fn who_waits_in_a_queue_that_moves_is_not_told_of_an_open_transaction<S: Trouble>() {
    let server = S::start();
    let both = || {
        let lease = request("report");
        [Admission::both(lease.clone(), lease.with(lease.name().claim("report", noon()), Term::MAX))]
    };
    let give_back = |answer: &Admitted| match answer {
        Admitted::Granted(grant) => {
            let leases = [grant.claim(), grant.lease()].map(|lease| lease.expect("it was asked for").clone());
            assert!(release(&server.hasty(), &leases).into_iter().all(|answer| answer.unwrap()));
        }
        other => panic!("not admitted: {other:?}"),
    };
    give_back(admit(&server.hasty(), &both())[0].as_ref().unwrap());
    let mut other = server.holding(&[]);
    // Half of the time is kept for another connection, but only until the first answer.
    for at_rest in [true, false] {
        // The row must move within a quarter of that.
        let ours = S::open(&server.url(), 4 * HASTY);
        if at_rest {
            assert!(!ours.exists(request("report").name()).unwrap());
        }
        let mut lock = updating(&server, &format!("name = '{}'", claim(0)));
        let answer = thread::scope(|scope| {
            let ours = scope.spawn(|| admit(&ours, &both()).remove(0));
            let (mut last, mut waits) = (Vec::new(), 0);
            wait_until("it gives up, or waits a second time", || {
                let waiting = server.ask(S::WAITING);
                if !waiting.is_empty() && waiting != last {
                    let moved =
                        format!("UPDATE soloist_mutexes SET host = 'moved-{waits}' WHERE name = 'lease/report'");
                    S::execute(&mut other, &moved);
                    (last, waits) = (waiting, waits + 1);
                }
                if at_rest { ours.is_finished() } else { waits == 2 }
            });
            assert!(waits > 1, "there was time for more than one wait");
            S::execute(&mut lock, "COMMIT");
            ours.join().expect("it does not panic")
        });
        if at_rest {
            let text = said(&answer.expect_err("there was no time left"));
            let why = "; too many processes ask for this name at the same moment, and this one lost each race until its timeout";
            assert!(text.ends_with(why), "{text}");
        } else {
            give_back(&answer.unwrap());
        }
    }
}

fn an_event_in_the_background_runs_beside_one_whose_row_is_locked<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    let schedule = Schedule::new(server.hasty());
    let event = |name: &str| Event::call(name, diary.task(name)).every_minute().on_one_server().in_background();
    for name in ["a", "b", "c"] {
        schedule.add(event(name).without_overlapping()).unwrap();
    }
    let claim = MutexName::lease("b").unwrap().claim("b", noon());
    let lock = inserting(&server, &claim);
    let tick = schedule.run_due(noon());
    ran(&tick, "a");
    ran(&tick, "c");
    let reason = skipped(&tick, "b").to_string();
    assert!(reason.ends_with(advice::<S>()), "{reason}");
    drop(lock);
    ran(&schedule.run_due(noon()), "b");
    let mut lines = diary.lines();
    lines.sort();
    assert_eq!(lines, ["a", "b", "c"], "each once");
}

fn a_locked_row_keeps_nobody_else_from_renewing_and_releasing<S: Trouble>() {
    let server = S::start();
    let mutex = server.hasty();
    let leases = ["a", "b", "c"].map(|name| mutex.create(&request(name)).unwrap().expect("it is free"));
    // Nearly all of a small table, which a server reads whole rather than row by row.
    let others = (0..20).map(|number| mutex.create(&request(&format!("b:{number}"))).unwrap().expect("it is free"));
    let ours: Vec<Lease> = [leases[0].clone(), leases[2].clone()].into_iter().chain(others).collect();
    let _lock = updating(&server, "name = 'lease/b'");
    // With that, a row is waited for fifteen seconds.
    let slow = S::open(&server.url(), Duration::from_secs(60));
    let began = Instant::now();
    assert!(extend(&slow, &ours, Term::MAX).into_iter().all(|answer| answer.unwrap()));
    assert!(began.elapsed() < Duration::from_secs(14), "it waited for the row of another");
    let all = extend(&mutex, &leases, Term::MAX);
    assert_eq!(all.iter().map(|answer| answer.as_ref().ok()).collect::<Vec<_>>(), [Some(&true), None, Some(&true)]);
    let text = said(all[1].as_ref().unwrap_err());
    assert!(text.starts_with("could not extend lease/b in ") && text.ends_with(advice::<S>()), "{text}");
    assert!(release(&mutex, &ours).into_iter().all(|answer| answer.unwrap()));
    assert_eq!(server.held(), ["lease/b"]);
}

fn many_locked_rows_cost_a_batch_no_more_than_a_time_out_or_two<S: Trouble>() {
    let server = S::start();
    let mutex = server.hasty();
    let names: Vec<String> = (0..40).map(|number| format!("many:{number}")).collect();
    let batch = || names.iter().map(|name| Admission::lease_only(request(name))).collect::<Vec<_>>();
    let leases: Vec<Lease> = batch().chunks(1).map(|one| granted(&admit(&mutex, one), 0)).collect();
    assert!(release(&mutex, &leases).into_iter().all(|answer| answer.unwrap()));
    let lock = updating(&server, "name LIKE 'lease/many:%'");
    in_time(2 * HASTY, || {
        let began = Instant::now();
        assert!(admit(&mutex, &batch()).iter().all(Result::is_err));
        began.elapsed()
    });
    drop(lock);
    assert!(server.held().is_empty());
}

fn three_locked_rows_keep_no_other_lease_from_its_renewal<S: Trouble>() {
    let server = S::start();
    let mutex = server.hasty();
    let leases = ["a", "b", "c", "free"].map(|name| mutex.create(&request(name)).unwrap().expect("nobody holds it"));
    let locks = [0, 1, 2].map(|at| updating(&server, &format!("name = '{}'", key(leases[at].name()))));
    // A call has time for two or three of them. The next call begins with the first that the last did not reach.
    assert!((0..20).any(|_| matches!(extend(&mutex, &leases, Term::MAX)[3], Ok(true))));
    drop(locks);
}

fn a_release_beside_a_rest_that_met_a_lock_is_known_of_each_name<S: Trouble>() {
    let server = S::start();
    let mutex = server.hasty();
    let [free, locked] = ["free", "locked"].map(|name| mutex.create(&request(name)).unwrap().expect("it is free"));
    let _lock = updating(&server, "name = 'lease/locked'");
    let mut batch = Batch::new();
    batch.release_after(locked, Term::MIN);
    batch.release(free);
    mutex.carry_out(&mut batch);
    let [rested, released] = batch.releases() else { panic!("two were asked for") };
    let text = said(rested.answer().expect("it is answered").as_ref().expect_err("it is locked"));
    assert!(text.starts_with("could not forget lease/locked in ") && text.ends_with(advice::<S>()), "{text}");
    assert!(*released.answer().expect("it is answered").as_ref().expect("nobody has locked it"), "it was ours");
    assert_eq!(server.held(), ["lease/locked"]);
}

fn a_release_that_met_a_lock_is_made_up_for<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    let mutex = server.hasty();
    let lease = mutex.create(&request("report")).unwrap().expect("it is free");
    let lock = updating(&server, "name = 'lease/report'");
    let text = said(&mutex.forget(&lease).expect_err("it is locked"));
    assert!(text.ends_with(advice::<S>()), "{text}");
    // The lock does not block other names.
    assert!(mutex.create(&request("other")).unwrap().is_some());
    drop(lock);
    wait_until("the lease is given back", || {
        mutex.exists(request("other").name()).expect("the server answers");
        server.held() == ["lease/other"]
    });
    let schedule = Schedule::new(mutex);
    schedule.add(report(&diary)).unwrap();
    assert_ran(&schedule.run_due(noon()));
}

fn a_locked_row_keeps_no_other_pending_release<S: Trouble>() {
    let server = S::start();
    let mutex = server.hasty();
    let names = ["a locked one", "behind it", "last"];
    let leases = names.map(|name| mutex.create(&request(name)).unwrap().expect("it is free"));
    let locked = leases.each_ref().map(|lease| format!("'{}'", key(lease.name()))).join(", ");
    let lock = updating(&server, &format!("name IN ({locked})"));
    assert!(release(&mutex, &leases).iter().all(Result::is_err), "all rows are locked");
    drop(lock);
    let lock = updating(&server, &format!("name = '{}'", key(leases[0].name())));
    wait_until("the others are released", || {
        mutex.exists(request("other").name()).expect("the server answers");
        server.held() == [key(leases[0].name())]
    });
    drop(lock);
}

fn a_release_whose_answer_was_lost_before_it_met_a_lock_is_known_of_each_name<S: Trouble>() {
    let server = S::start();
    let proxy = Proxy::of(&server);
    // The store asks again after half of that.
    let mutex = S::open_at_rest(&proxy, 2 * LONG);
    let leases = ["free", "locked"].map(|name| mutex.create(&request(name)).unwrap().expect("it is free"));
    proxy.fault_once(Fault::ReplyLost);
    let (answers, lock) = thread::scope(|scope| {
        let call = scope.spawn(|| release(&mutex, &leases));
        wait_until("the server has given them back", || server.held().is_empty());
        let lock = updating(&server, "name = 'lease/locked'");
        (call.join().unwrap(), lock)
    });
    drop(lock);
    assert!(*answers[0].as_ref().expect("it is not locked"), "it was ours until then");
    // PostgreSQL waits for no row that has ended.
    assert!(!matches!(answers[1], Ok(false)), "nor was this one lost");
}
