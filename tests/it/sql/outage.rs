//! A server that ends, stands still, or ends connections: an error in time, no second run, and the next tick recovers.

use std::thread;
use std::time::Duration;

use soloist::EventMutex;

use super::trouble::{Trouble, assert_out, assert_ran, claim, minute, request, schedule, wait_until};
use super::{LONG, on_both};
use crate::support::{Diary, noon};

on_both!(
    a_killed_server_is_out_until_it_is_back,
    a_restart_between_two_ticks_costs_no_error,
    a_call_waits_for_a_server_that_is_restarted,
    a_call_that_a_restart_interrupts_is_made_again,
    what_a_stopped_server_finds_when_it_goes_on_grants_nothing,
    connections_that_the_server_ended_at_rest_cost_no_error,
    a_call_whose_connection_is_ended_in_the_middle_is_made_once_more,
    a_first_call_whose_connection_is_ended_in_the_middle_is_out_and_leaves_nothing
);

fn a_killed_server_is_out_until_it_is_back<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    let schedule = schedule(server.hasty(), &diary);
    assert_ran(&schedule.run_due(noon()));
    server.kill();
    for _ in 0..2 {
        let said = assert_out(&schedule, minute(1), &diary);
        assert!(said.contains("could not admit lease/report in ") && said.contains("refused"), "{said}");
    }
    server.start_again();
    assert_ran(&schedule.run_due(minute(1)));
    assert_eq!((server.held(), diary.lines().len()), (vec![claim(0), claim(1)], 2));
}

fn a_restart_between_two_ticks_costs_no_error<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    let schedule = schedule(server.mutex(), &diary);
    let mut last = None;
    for number in 0..3 {
        let report = schedule.run_due(minute(number));
        assert_ran(&report);
        let token = crate::support::ran(&report, "report").fencing_token();
        assert!(token > last, "{token:?} came after {last:?}");
        last = token;
        server.kill();
        server.start_again();
    }
    assert_eq!(server.held(), [claim(0), claim(1), claim(2)]);
}

fn a_call_waits_for_a_server_that_is_restarted<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    let patient = S::open(&server.url(), Duration::from_secs(40));
    let schedule = schedule(patient, &diary);
    for number in 0..2 {
        server.kill();
        thread::scope(|scope| {
            let tick = scope.spawn(|| schedule.run_due(minute(number)));
            thread::sleep(Duration::from_millis(300)); // it is refused meanwhile
            server.start_again();
            assert_ran(&tick.join().unwrap());
        });
    }
    assert_eq!(server.held(), [claim(0), claim(1)]);
}

fn a_call_that_a_restart_interrupts_is_made_again<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    let schedule = schedule(S::open(&server.url(), Duration::from_secs(40)), &diary);
    assert_ran(&schedule.run_due(noon()));
    server.pause();
    thread::scope(|scope| {
        let tick = scope.spawn(|| schedule.run_due(minute(1)));
        thread::sleep(Duration::from_millis(300)); // it waits for an answer by then
        server.kill();
        thread::sleep(Duration::from_millis(300)); // and is refused meanwhile
        server.start_again();
        assert_ran(&tick.join().unwrap());
    });
}

fn what_a_stopped_server_finds_when_it_goes_on_grants_nothing<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    let (ours, theirs) = (schedule(S::open(&server.url(), LONG), &diary), schedule(server.mutex(), &diary));
    assert_ran(&ours.run_due(noon()));
    server.pause();
    let said = assert_out(&ours, minute(1), &diary);
    assert!(said.contains("no answer within 4s"), "{said}");
    server.resume();
    // The server may find our request by now, but no caller waits for it.
    assert_ran(&theirs.run_due(minute(1)));
    assert_eq!(crate::support::skipped(&ours.run_due(minute(1)), "report").keyword(), "ran_elsewhere");
    assert_eq!((server.held(), diary.lines().len()), (vec![claim(0), claim(1)], 2));
}

fn connections_that_the_server_ended_at_rest_cost_no_error<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    let mutex = server.mutex();
    let schedule = schedule(mutex.clone(), &diary);
    // All idle connections, so that none is left for the second attempt.
    thread::scope(|scope| (0..8).for_each(|_| _ = scope.spawn(|| mutex.exists(request("report").name()).unwrap())));
    server.end_connections();
    assert_ran(&schedule.run_due(noon()));
    server.end_connections();
    assert!(!mutex.exists(request("report").name()).unwrap());
    assert_eq!(server.held(), [claim(0)]);
}

/// Returns a handle that waits ten seconds for a row.
fn slow<S: Trouble>(server: &S) -> S::Mutex {
    S::open(&server.url(), Duration::from_secs(40))
}

/// Ends the connection of a call while it waits for a lock, and then gives it the lock.
fn end_in_the_middle<S: Trouble>(server: &S, call: impl FnOnce() + Send) {
    let update = "UPDATE soloist_mutexes SET pid = 0 WHERE name = 'lease/report'";
    let lock = server.holding(&[S::BEGIN, update]);
    thread::scope(|scope| {
        let call = scope.spawn(call);
        wait_until("a call waits", || !server.ask(S::WAITING).is_empty());
        for row in server.ask(S::WAITING) {
            server.end_connection(row[0].as_deref().expect("a number"));
        }
        drop(lock);
        call.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn a_call_whose_connection_is_ended_in_the_middle_is_made_once_more<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    let schedule = schedule(slow(&server), &diary);
    assert_ran(&schedule.run_due(noon()));
    end_in_the_middle(&server, || assert_ran(&schedule.run_due(minute(1))));
    assert_eq!((server.held(), diary.lines().len()), (vec![claim(0), claim(1)], 2));
}

fn a_first_call_whose_connection_is_ended_in_the_middle_is_out_and_leaves_nothing<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    assert_ran(&schedule(server.mutex(), &diary).run_due(noon()));
    let schedule = schedule(slow(&server), &diary);
    end_in_the_middle(&server, || _ = schedule.run_due(minute(1)));
    // The entry has the outcome; in any case the minute runs once.
    let _ = schedule.run_due(minute(1));
    assert_eq!((server.held(), diary.lines().len()), (vec![claim(0), claim(1)], 2));
}
