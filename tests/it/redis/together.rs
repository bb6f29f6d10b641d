//! Many events that are due at once, on one server.

use std::thread;
use std::time::{Duration, Instant};

use soloist::{Entry, Event, RedisMutex, Report, Schedule, SkipReason, Verdict};

use super::{entries, minute, patient};
use crate::servers::proxy::{Fault, Proxy};
use crate::servers::redis::Redis;
use crate::support::{Diary, in_time, noon};

/// Returns a schedule of protected events, `0` to `count - 1`, that write their names into the diary.
fn schedule(store: RedisMutex, count: usize, diary: &Diary, shape: impl Fn(Event, usize) -> Event) -> Schedule {
    let schedule = Schedule::new(store);
    for number in 0..count {
        let event = Event::call(number.to_string(), diary.task(&number.to_string()));
        schedule.add(shape(event.every_minute().on_one_server().without_overlapping(), number)).expect("an event");
    }
    schedule
}

fn in_background(event: Event, _: usize) -> Event {
    event.in_background()
}

#[track_caller]
fn assert_all_ran(report: &Report, count: usize) {
    assert!(!report.is_failure(), "{report}");
    let ran = report.entries().iter().filter(|entry| matches!(entry.verdict(), Verdict::Ran(_))).count();
    assert_eq!(ran, count, "{report}");
}

/// Returns how many entries say that the store did not answer.
fn unavailable(report: &Report) -> usize {
    let is_out = |verdict: &Verdict| matches!(verdict, Verdict::Skipped(SkipReason::StoreUnavailable(_)));
    report.entries().iter().filter(|entry| is_out(entry.verdict())).count()
}

#[test]
fn a_thousand_background_events_cost_twenty_commands_and_their_losers_eleven() {
    let (server, diary) = (Redis::start(), Diary::default());
    let schedule = schedule(patient(&server.url()), 1000, &diary, in_background);
    let mut monitor = server.monitor();
    let mut fewest = usize::MAX;
    for number in 0..5 {
        assert_all_ran(&schedule.run_due(minute(number)), 1000);
        // A busy machine may split a batch of releases.
        fewest = fewest.min(monitor.commands().len());

        let report = schedule.run_due(minute(number));
        let lost = |entry: &Entry| matches!(entry.verdict(), Verdict::Skipped(SkipReason::RanElsewhere(Some(_))));
        assert!(report.entries().iter().all(lost), "{report}");
        let commands = monitor.commands().len();
        assert!(commands <= 11, "{commands} commands of losers"); // Both loops may share the last hundred.
    }
    assert!(fewest <= 20, "{fewest} commands");
    assert_eq!(diary.lines().len(), 5000);
}

#[test]
fn a_hundred_due_events_wait_for_a_silent_server_once() {
    let shapes: [fn(Event, usize) -> Event; 3] =
        [in_background, |event, _| event, |event, number| if number % 2 == 0 { event } else { event.in_background() }];
    // In parallel: the time is spent on waiting.
    thread::scope(|scope| {
        for shape in shapes {
            scope.spawn(move || {
                wait_once(shape, Proxy::fault_from_the_start);
                wait_once(shape, Proxy::fault);
            });
        }
    });
}

#[track_caller]
fn wait_once(shape: impl Fn(Event, usize) -> Event, silence: impl Fn(&Proxy, Fault)) {
    let server = Redis::start();
    let (proxy, diary) = (Proxy::of(&server), Diary::default());
    let schedule = schedule(RedisMutex::new(&proxy.url()).expect("a url"), 100, &diary, shape);
    assert_all_ran(&schedule.run_due(noon()), 100);
    silence(&proxy, Fault::Silence);
    // The time-out is two seconds.
    in_time(Duration::from_secs(4), || {
        let began = Instant::now();
        let report = schedule.run_due(minute(1));
        let took = began.elapsed();
        assert_eq!(unavailable(&report), 100, "{report}");
        took
    });
    proxy.mend();
    assert_all_ran(&schedule.run_due(minute(1)), 100);
    assert_eq!(diary.lines().len(), 200);
}

#[test]
fn a_hundred_admissions_whose_answer_was_lost_are_all_given_back() {
    for fault in [Fault::ReplyLost, Fault::HalfAReply] {
        let server = Redis::start();
        let (proxy, diary) = (Proxy::of(&server), Diary::default());
        let schedule = schedule(RedisMutex::new(&proxy.url()).expect("a url"), 100, &diary, in_background);
        proxy.fault_once_after_then(fault, 0, Fault::Cut);
        assert_eq!(unavailable(&schedule.run_due(noon())), 100);
        assert!(!entries(&server).is_empty(), "the server has granted what nobody knows of");
        proxy.mend();
        // The unknown leases are released before the admissions.
        assert_all_ran(&schedule.run_due(noon()), 100);
        assert_eq!(diary.lines().len(), 100);
    }
}

/// Asserts that one of the events runs, and the others are refused before they start.
#[track_caller]
fn events_that_share_a_mutex_exclude_each_other(server: &Redis, diary: &Diary) {
    let share = |event: Event, number: usize| {
        if number < 2 { event.mutex_name("shared").in_background() } else { event.in_background() }
    };
    let schedule = schedule(patient(&server.url()), 10, diary, share);
    for number in 0..5 {
        let before = diary.lines().len();
        let report = schedule.run_due(minute(number));
        let overlapping: Vec<&str> = report
            .entries()
            .iter()
            .filter(|entry| matches!(entry.verdict(), Verdict::Skipped(SkipReason::Overlapping(Some(_)))))
            .map(Entry::event)
            .collect();
        assert!(matches!(overlapping[..], ["0" | "1"]), "{report}");
        assert!(!report.is_failure(), "{report}");
        assert_eq!(diary.lines().len(), before + 9);
    }
}

#[test]
fn of_two_events_that_share_a_mutex_and_are_due_together_one_runs() {
    events_that_share_a_mutex_exclude_each_other(&Redis::start(), &Diary::default());
}

#[test]
fn of_two_events_that_share_a_mutex_on_the_node_of_a_cluster_one_runs() {
    events_that_share_a_mutex_exclude_each_other(&Redis::cluster_node(), &Diary::default());
}

#[test]
fn many_events_run_on_the_node_of_a_cluster() {
    let (server, diary) = (Redis::cluster_node(), Diary::default());
    let in_order: fn(Event, usize) -> Event = |event, _| event;
    for (shape, most) in [(in_background as _, 20), (in_order, 101)] {
        let schedule = schedule(patient(&server.url()), 100, &diary, shape);
        let mut monitor = server.monitor();
        assert_all_ran(&schedule.run_due(noon()), 100);
        let commands = monitor.commands().len();
        assert!(commands <= most, "{commands} commands, as if they lay on several slots");
        drop(monitor);
        server.restart();
        assert_all_ran(&schedule.run_due(noon()), 100);
        server.ask(&["FLUSHALL"]);
    }
}
