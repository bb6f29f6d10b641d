//! The way of a team from one server to several: the scenarios of the page `scenarios`. Each test draws its events
//! as the page does, and finds the drawing there.

#[cfg(any(feature = "redis", all(feature = "mysql", feature = "postgres")))]
use std::time::{Duration, Instant};

use soloist::{Event, EventMutex, MemoryMutex, MutexName, Run, Schedule};

use crate::fleet::Fleet;
#[cfg(feature = "redis")]
use crate::servers::redis::Redis;
use crate::support::{HOUR, noon, patient_url, until};
use crate::worker::Worker;

mod timeline;

use timeline::{Timeline, rows, skip};

const PAGE: &str = include_str!("../../docs/guide/scenarios.md");

const ON_ONE_SERVER: &[&str] = &["--on-one-server"];
const WITHOUT_OVERLAPPING: &[&str] = &["--without-overlapping"];
const BOTH: &[&str] = &["--on-one-server", "--without-overlapping"];

/// Returns the drawing next to the test's name on the page.
#[track_caller]
fn on_the_page(test: &str) -> &'static str {
    let (_, after) = PAGE.split_once(&format!("`{test}`")).unwrap_or_else(|| panic!("the page does not name {test}"));
    let (_, block) = after.split_once("```text\n").expect("a drawing follows");
    block.split_once("\n```").expect("it ends").0
}

#[track_caller]
fn is_on_the_page(seen: &str, test: &str) {
    let drawn = on_the_page(test);
    assert!(seen == drawn, "seen:\n\n{seen}\n\nand on the page:\n\n{drawn}\n");
}

#[test]
fn every_test_that_the_page_names_is_there() {
    let is_a_sentence = |text: &&str| text.matches('_').count() > 4 && !text.contains([' ', '(']);
    let names: Vec<&str> = PAGE.split('`').filter(is_a_sentence).collect();
    assert!(!names.is_empty());
    for name in names {
        assert!(include_str!("scenarios.rs").contains(&format!("\nfn {name}(")), "there is no {name}");
    }
}

#[track_caller]
fn rise(tokens: &[u64]) {
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "tokens rise: {tokens:?}");
}

fn a_short_task_on_one_server_runs_each_minute_once(fleet: &Fleet) {
    let mut timeline = Timeline::new(fleet, "short", ON_ONE_SERVER);
    timeline.ask("12:00", &["web-1", "web-2", "web-3"]);
    timeline.ask("12:01", &["web-3", "web-1", "web-2"]);
    timeline.ask("12:02", &["web-1", "web-3", "web-2"]);
    is_on_the_page(&timeline.draw(), "a_short_task_on_one_server_runs_each_minute_once");
    assert_eq!(["12:00", "12:01", "12:02"].map(|minute| timeline.starts(minute)), [1, 1, 1]);
}

fn a_task_longer_than_a_minute_overlaps_itself_on_one_server(fleet: &Fleet) {
    let mut timeline = Timeline::new(fleet, "long", ON_ONE_SERVER);
    timeline.ask_during_the_task("12:00", &["web-1", "web-2", "web-3"]);
    timeline.ask_during_the_task("12:01", &["web-2", "web-1", "web-3"]);
    timeline.end("12:00", "web-1");
    timeline.ask_during_the_task("12:02", &["web-1", "web-2", "web-3"]);
    timeline.end("12:01", "web-2");
    timeline.end("12:02", "web-1");
    is_on_the_page(&timeline.draw(), "a_task_longer_than_a_minute_overlaps_itself_on_one_server");
    let second = timeline.start_of("12:01", "web-2");
    assert!(second.at < timeline.end_of("12:00", "web-1"), "the second began before the first had ended");
    assert_eq!(["12:00", "12:01", "12:02"].map(|minute| timeline.starts(minute)), [1, 1, 1]);
}

fn without_overlapping_a_long_task_runs_one_at_a_time(fleet: &Fleet) {
    let mut timeline = Timeline::new(fleet, "long-alone", WITHOUT_OVERLAPPING);
    timeline.ask_during_the_task("12:00", &["web-1", "web-2", "web-3"]);
    timeline.ask("12:01", &["web-1", "web-2", "web-3"]);
    timeline.end("12:00", "web-1");
    timeline.ask_during_the_task("12:02", &["web-2", "web-1", "web-3"]);
    timeline.end("12:02", "web-2");
    is_on_the_page(&timeline.draw(), "without_overlapping_a_long_task_runs_one_at_a_time");
    rise(&timeline.tokens());
}

fn without_overlapping_a_short_task_runs_on_every_server(fleet: &Fleet) {
    let mut timeline = Timeline::new(fleet, "short-alone", WITHOUT_OVERLAPPING);
    timeline.ask("12:00", &["web-1", "web-2", "web-3"]);
    timeline.ask("12:01", &["web-3", "web-1", "web-2"]);
    is_on_the_page(&timeline.draw(), "without_overlapping_a_short_task_runs_on_every_server");
    assert_eq!(["12:00", "12:01"].map(|minute| timeline.starts(minute)), [3, 3]);
    rise(&timeline.tokens());
}

fn with_both_no_minute_runs_twice_and_no_two_runs_overlap(fleet: &Fleet) {
    let mut timeline = Timeline::new(fleet, "both", BOTH);
    timeline.ask_during_the_task("12:00", &["web-1", "web-2", "web-3"]);
    timeline.ask("12:01", &["web-1", "web-2", "web-3"]);
    timeline.ask("12:02", &["web-1", "web-2"]);
    timeline.end("12:00", "web-1");
    timeline.ask("12:02:30", &["web-3"]);
    timeline.ask("12:03", &["web-2", "web-1", "web-3"]);
    is_on_the_page(&timeline.draw(), "with_both_no_minute_runs_twice_and_no_two_runs_overlap");
    assert_eq!(["12:00", "12:01", "12:02", "12:03"].map(|minute| timeline.starts(minute)), [1, 0, 1, 1]);
    assert!(timeline.end_of("12:00", "web-1") < timeline.start_of("12:02:30", "web-3").at);
    rise(&timeline.tokens());
}

fn an_occurrence_is_called_after_its_minute_whenever_servers_ask(fleet: &Fleet) {
    let mut timeline = Timeline::new(fleet, "skew", ON_ONE_SERVER);
    timeline.ask("11:59:59.9", &["web-1"]);
    timeline.ask("12:00:00.1", &["web-2"]);
    timeline.ask("12:00:02.1", &["web-1", "web-3"]);
    is_on_the_page(&timeline.draw(), "an_occurrence_is_called_after_its_minute_whenever_servers_ask");
    assert_eq!(["11:59", "12:00"].map(|minute| timeline.starts(minute)), [1, 1]);
}

/// Kills a server on files, where the operating system tells that a process has gone.
fn a_crash_on_file_costs_no_more_than_its_own_minute(fleet: &Fleet) {
    let mut timeline = Timeline::new(fleet, "crash", BOTH);
    timeline.ask_during_the_task("12:00", &["web-1", "web-2"]);
    timeline.kill("12:00", "web-1");
    timeline.ask("12:00:45", &["web-3"]);
    timeline.ask("12:01", &["web-2", "web-3"]);
    is_on_the_page(&timeline.draw(), "a_crash_on_file_costs_no_more_than_its_own_minute");
    rise(&timeline.tokens());
}

/// Kills a server on a store where only the end of the term tells. On a slow machine the term may be over before
/// the next request: then the attempt is repeated with a longer term.
#[cfg(any(feature = "redis", all(feature = "mysql", feature = "postgres")))]
fn after_a_crash_a_server_frees_the_event_when_its_term_is_over(fleet: &Fleet) {
    for (event, seconds) in [("crash", 4), ("crash-2", 8), ("crash-3", 16)] {
        let (term, text) = (Duration::from_secs(seconds), seconds.to_string());
        let options = [BOTH, &["--term", &text]].concat();
        let mut timeline = Timeline::new(fleet, event, &options);
        let began = Instant::now(); // before the lease is granted
        timeline.ask_during_the_task("12:00", &["web-1", "web-2"]);
        timeline.kill("12:00", "web-1");
        timeline.ask("12:00:45", &["web-3"]);
        timeline.ask("12:01", &["web-2", "web-3"]);
        if began.elapsed() >= term {
            continue;
        }
        let store = soloist::connect(fleet.url()).expect("a url");
        let lease = MutexName::lease(event).expect("a name");
        until(|| !store.exists(&lease).expect("it answers")).expect("the term is over");
        assert!(began.elapsed() >= term, "and not before");
        timeline.ask("12:02", &["web-3", "web-2"]);
        is_on_the_page(&timeline.draw(), "after_a_crash_a_server_frees_the_event_when_its_term_is_over");
        return rise(&timeline.tokens());
    }
    panic!("this machine took longer than 16 s to start five processes");
}

/// Lets each server run one of six events while the next server requests all of them.
fn events_due_in_one_tick_spread_over_the_servers(fleet: &Fleet) {
    let events = ["mail", "mail-2", "mail-3", "mail-4", "mail-5", "mail-6"];
    let ends = fleet.log("ends").display().to_string();
    std::fs::create_dir(&ends).expect("it is new");
    let end = |event: &str| std::fs::write(format!("{ends}/{event}"), "").expect("the folder is there");
    let options = ["--event", "mail", "--events", "6", "--now", "2026-03-01T12:00:00Z", "--until", &ends];
    let options = [BOTH, &options].concat();
    let mut servers = Vec::new();
    for (server, first) in ["web-1", "web-2", "web-3"].into_iter().zip(&events) {
        let mut worker = Worker::with(fleet, server, &options);
        worker.wait_until(first, |line| line.what == "start" && line.event == *first);
        servers.push((server, worker));
    }
    // A server whose run has ended starts the next free event.
    for ((_, worker), (first, next)) in servers.iter_mut().zip(events.iter().zip(&events[3..])) {
        end(first);
        worker.wait_until(next, |line| line.what == "start" && line.event == *next);
    }
    events[3..].iter().for_each(|event| end(event));

    let names: Vec<(u32, &str)> = servers.iter().map(|(server, worker)| (worker.pid(), *server)).collect();
    let mut table = vec![("12:00", events.map(str::to_owned).to_vec())];
    for (server, worker) in servers {
        let lines = worker.succeeds();
        let cell = |event: &&str| {
            let line = lines.iter().find(|line| line.event == *event).expect("each event has its entry");
            if line.what == "start" { "runs".to_owned() } else { skip(line, &names) }
        };
        table.push((server, events.iter().map(cell).collect()));
    }
    is_on_the_page(&rows(&table).join("\n"), "events_due_in_one_tick_spread_over_the_servers");
}

/// Requests all events at once.
fn events_in_the_background_go_to_the_server_that_asks_first(fleet: &Fleet) {
    let ends = fleet.log("ends").display().to_string();
    std::fs::create_dir(&ends).expect("it is new");
    let options = ["--event", "letter", "--in-background", "6", "--now", "2026-03-01T12:00:00Z", "--until", &ends];
    let options = [BOTH, &options].concat();
    let first = Worker::with(fleet, "web-1", &options);
    let starts = || first.log().iter().filter(|line| line.what == "start").count();
    until(|| starts() == 6).expect("all of them start");
    let second = Worker::with(fleet, "web-2", &options).succeeds();
    let names = [(first.pid(), "web-1")];
    let skips: Vec<String> = second.iter().map(|line| skip(line, &names)).collect();
    assert_eq!(skips, ["taken by web-1"; 6]);
    for line in &second {
        std::fs::write(format!("{ends}/{}", line.event), "").expect("the folder is there");
    }
    assert_eq!(first.succeeds().len(), 12, "each started and ended");
}

/// Restarts the store without its data. The claim is lost with the lease, so that the minute starts again while
/// the first run goes on.
#[cfg(feature = "redis")]
#[test]
fn a_store_that_comes_back_empty_lets_a_minute_run_twice_and_tells_the_first_run() {
    let server = Redis::start();
    let fleet = Fleet::on(server.url());
    let options = [BOTH, &["--now", "2026-03-01T12:00:00Z"]].concat();
    let mut first = Worker::with(&fleet, "web-1", &[&options[..], &["--term", "3", "--work-ms", "600000"]].concat());
    let before = first.wait_for("start").token;
    server.restart();
    let second = Worker::with(&fleet, "web-2", &options).succeeds();
    assert_eq!(crate::worker::what(&second), ["start", "end"]);
    assert!(second[0].token > before, "the token rises all the same");
    first.wait_for("cancelled");
    let (lines, said) = first.fails();
    assert_eq!(crate::worker::what(&lines), ["start", "cancelled", "failed"]);
    assert_eq!(lines[1].reason.as_deref(), Some("lease_lost"));
    assert!(said.contains("; the lease was lost at 20"), "{said}");
}

/// Breaks a lease that is not renewed, so that only the release notices.
#[test]
fn a_fixed_lease_that_was_forgotten_is_told_of_when_the_run_ends() {
    let store = MemoryMutex::new();
    let schedule = Schedule::new(store.clone());
    let forgets = move |run: &Run| {
        let name = MutexName::lease(run.name()).expect("a name");
        assert!(store.break_lease(&name).expect("it answers").is_some());
    };
    let event = Event::call("reports", forgets).every_minute().without_overlapping_for(HOUR);
    schedule.add(event).expect("it is in order");
    let report = schedule.run_due(noon());
    assert!(report.is_failure());
    assert!(report.to_string().contains(", but the lease was lost while the task was running"), "{report}");
}

/// Makes a test of each scenario on each store. The names are this test's own; the last scenario depends on how a
/// store notices a crash.
macro_rules! on_every_store {
    ($($scenario:ident,)*) => {
        mod on_file {
            use super::*;

            $(#[test]
            fn $scenario() {
                super::$scenario(&Fleet::new());
            })*

            #[test]
            fn a_crash_on_file_costs_no_more_than_its_own_minute() {
                super::a_crash_on_file_costs_no_more_than_its_own_minute(&Fleet::new());
            }
        }

        #[cfg(feature = "redis")]
        mod on_redis {
            on_every_store!(on $crate::servers::redis::Redis::shared(); $($scenario,)*);
        }

        #[cfg(all(feature = "mysql", feature = "postgres"))]
        mod on_mariadb {
            on_every_store!(on <$crate::servers::mariadb::Mariadb as $crate::sql::SqlServer>::shared(); $($scenario,)*);
        }

        #[cfg(all(feature = "mysql", feature = "postgres"))]
        mod on_postgres {
            on_every_store!(on <$crate::servers::postgres::Postgres as $crate::sql::SqlServer>::shared(); $($scenario,)*);
        }
    };
    (on $server:expr; $($scenario:ident,)*) => {
        use super::*;

        $(#[test]
        fn $scenario() {
            super::$scenario(&Fleet::on(patient_url(&$server.url())));
        })*

        #[test]
        fn after_a_crash_a_server_frees_the_event_when_its_term_is_over() {
            let fleet = Fleet::on(patient_url(&$server.url()));
            super::after_a_crash_a_server_frees_the_event_when_its_term_is_over(&fleet);
        }
    };
}

on_every_store!(
    a_short_task_on_one_server_runs_each_minute_once,
    a_task_longer_than_a_minute_overlaps_itself_on_one_server,
    without_overlapping_a_long_task_runs_one_at_a_time,
    without_overlapping_a_short_task_runs_on_every_server,
    with_both_no_minute_runs_twice_and_no_two_runs_overlap,
    an_occurrence_is_called_after_its_minute_whenever_servers_ask,
    events_due_in_one_tick_spread_over_the_servers,
    events_in_the_background_go_to_the_server_that_asks_first,
);
