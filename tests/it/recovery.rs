//! Processes that are stopped or killed in the middle of a task, and the fate of their leases.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::fleet::Fleet;
#[cfg(feature = "redis")]
use crate::servers::redis::Redis;
use crate::support::patient_url;
use crate::worker::{Worker, skipped_because_of, what};

/// Returns a folder for `--until`: a file in it ends the task of a worker with this log.
#[track_caller]
fn folder(fleet: &Fleet, log: &str) -> String {
    let folder = fleet.log(&format!("{log}-ends"));
    fs::create_dir(&folder).expect("it is new");
    folder.display().to_string()
}

#[track_caller]
fn end(folder: &str) {
    fs::write(format!("{folder}/report"), "").expect("the folder is there");
}

/// Lets a process renew its lease while the other is skipped for as long as the task takes. No thread stalls for two
/// thirds of the term.
#[track_caller]
fn a_task_of_three_terms_runs_under_one_lease(fleet: &Fleet) {
    let ends = folder(fleet, "first");
    let mut first = Worker::start(fleet, "first", &format!("--term 9 --until {ends}"));
    let (start, pid) = (first.wait_for("start"), first.pid());
    let second = Worker::start(fleet, "second", "--ticks 11 --every-ms 2700").succeeds();
    assert_eq!(skipped_because_of(&second, pid), 11, "{:?}", what(&second));
    end(&ends);
    let first = first.succeeds();
    assert_eq!(what(&first), ["start", "end"]);
    assert_eq!(first[1].token, start.token, "under one lease");
    let third = Worker::start(fleet, "third", "--ticks 1").succeeds();
    assert_eq!(what(&third), ["start", "end"]);
    assert!(third[0].token > start.token);
}

/// Stops a process for so long that another takes over. The first process notices when it continues.
#[track_caller]
fn a_process_that_was_stopped_past_its_term_leaves_its_successor_alone(fleet: &Fleet) {
    let mut first = Worker::start(fleet, "first", "--term 3 --work-ms 600000");
    let start = first.wait_for("start");
    first.signal("-STOP");
    let ends = folder(fleet, "second");
    // Of a term whose renewals hide no harm that the first one does, and wait for no busy machine.
    let options = format!("--until {ends} --ticks 600 --every-ms 100");
    let mut second = Worker::start(fleet, "second", &options);
    let successor = second.wait_for("start");
    assert!(successor.token > start.token, "tokens rise");
    let pid = second.pid();

    first.signal("-CONT");
    let (lines, said) = first.fails();
    assert_eq!(what(&lines), ["start", "cancelled", "failed"], "cancelled before anything else");
    assert_eq!(lines[1].reason.as_deref(), Some("lease_lost"));
    assert_eq!(lines[1].token, start.token);
    assert!(said.contains("  cancelled after ") && said.contains("; the lease was lost at 20"), "{said}");

    // Neither the renewal nor the release by the first process changes its successor's lease, for longer than a
    // term.
    let third = Worker::start(fleet, "third", "--ticks 4 --every-ms 1100").succeeds();
    assert_eq!(skipped_because_of(&third, pid), 4, "{:?}", what(&third));
    end(&ends);
    assert_eq!(second.wait_for("end").token, successor.token, "under one lease");
    second.kill();
}

/// Lets two servers with different clocks tick the same minute one after the other, with a task of a millisecond.
/// Returns how often it runs.
#[track_caller]
fn runs_of_two_servers(fleet: &Fleet, log: &'static str, options: &str) -> usize {
    let options = format!("--event {log} --now 2026-03-01T12:00:00Z --work-ms 1{options}");
    Worker::start(fleet, log, &options).succeeds();
    thread::sleep(Duration::from_secs(2)); // the clocks of the two differ by so much
    let lines = Worker::start(fleet, log, &options).succeeds();
    lines.iter().filter(|line| line.what == "start").count()
}

#[track_caller]
fn a_short_task_runs_once_on_two_servers_whose_clocks_differ_if_its_lease_is_held(fleet: &Fleet) {
    assert_eq!(runs_of_two_servers(fleet, "alone", ""), 2, "a lease alone");
    assert_eq!(runs_of_two_servers(fleet, "held", " --hold-at-least 59"), 1, "held for a minute");
}

/// Kills a process in its task, which the default term protects; its process id.
#[track_caller]
fn kill_one_at_work(fleet: &Fleet) -> u32 {
    let mut killed = Worker::start(fleet, "killed", "--work-ms 600000");
    killed.wait_for("start");
    let pid = killed.pid();
    killed.kill();
    pid
}

mod on_file {
    use super::*;

    #[test]
    fn a_task_of_three_terms_runs_under_one_lease() {
        super::a_task_of_three_terms_runs_under_one_lease(&Fleet::new());
    }

    #[test]
    fn a_process_that_was_stopped_past_its_term_leaves_its_successor_alone() {
        super::a_process_that_was_stopped_past_its_term_leaves_its_successor_alone(&Fleet::new());
    }

    #[test]
    fn a_short_task_runs_once_on_two_servers_whose_clocks_differ_if_its_lease_is_held() {
        super::a_short_task_runs_once_on_two_servers_whose_clocks_differ_if_its_lease_is_held(&Fleet::new());
    }

    #[test]
    fn the_event_of_a_killed_process_runs_at_the_next_tick() {
        let fleet = Fleet::new();
        kill_one_at_work(&fleet);
        assert_eq!(what(&Worker::start(&fleet, "next", "--work-ms 1").succeeds()), ["start", "end"]);
    }
}

/// The case on a server, where only the end of the term tells that a process has gone.
#[cfg(any(feature = "redis", all(feature = "mysql", feature = "postgres")))]
macro_rules! on_a_server {
    ($start:expr, $with_clock:expr) => {
        use super::*;

        #[test]
        fn a_task_of_three_terms_runs_under_one_lease() {
            let server = $start;
            super::a_task_of_three_terms_runs_under_one_lease(&Fleet::on(patient_url(&server.url())));
        }

        #[test]
        fn a_process_that_was_stopped_past_its_term_leaves_its_successor_alone() {
            let server = $start;
            super::a_process_that_was_stopped_past_its_term_leaves_its_successor_alone(&Fleet::on(patient_url(
                &server.url(),
            )));
        }

        #[test]
        fn a_short_task_runs_once_on_two_servers_whose_clocks_differ_if_its_lease_is_held() {
            let (server, held) =
                ($start, super::a_short_task_runs_once_on_two_servers_whose_clocks_differ_if_its_lease_is_held);
            held(&Fleet::on(patient_url(&server.url())));
        }

        #[test]
        fn the_event_of_a_killed_process_runs_within_the_default_term_and_a_tick() {
            let server = $with_clock;
            let fleet = Fleet::on(patient_url(&server.url()));
            let pid = kill_one_at_work(&fleet);
            let during = Worker::start(&fleet, "during", "--work-ms 1").succeeds();
            assert_eq!(skipped_because_of(&during, pid), 1, "{:?}", what(&during));
            server.clock().set_ahead(60);
            assert_eq!(what(&Worker::start(&fleet, "after", "--work-ms 1").succeeds()), ["start", "end"]);
        }
    };
}

#[cfg(feature = "redis")]
mod on_redis {
    on_a_server!(Redis::start(), Redis::with_clock());
}

#[cfg(all(feature = "mysql", feature = "postgres"))]
mod on_mariadb {
    use crate::server_clock::Clocked;
    use crate::servers::mariadb::Mariadb;
    use crate::sql::SqlServer;

    on_a_server!(<Mariadb as SqlServer>::start(), <Mariadb as Clocked>::start());
}

#[cfg(all(feature = "mysql", feature = "postgres"))]
mod on_postgres {
    use crate::server_clock::Clocked;
    use crate::servers::postgres::Postgres;
    use crate::sql::SqlServer;

    on_a_server!(<Postgres as SqlServer>::start(), <Postgres as Clocked>::start());
}
