//! Admissions with an excluding name: a name that is taken between a read and a write excludes, too.

use std::thread;
use std::time::Duration;

use soloist::store::{Admission, Admitted};
use soloist::{EventMutex, MutexName, Term};

use super::batches::admit;
use super::trouble::{Trouble, request, wait_until};
use super::{COLUMNS, GRANTED, on_both};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::support::noon;

on_both!(
    a_name_that_is_taken_between_the_look_and_the_write_excludes,
    of_two_batches_that_exclude_each_other_one_is_granted_however_many_names_they_have
);

/// Blocks the write of `lease/report`, until the transaction is rolled back.
trait Blocking: Trouble {
    const BLOCK: &'static str;
}

impl Blocking for Mariadb {
    const BLOCK: &'static str = "INSERT INTO soloist_mutexes \
         (released, term_us, name, owner, token, host, pid, acquired_at, expires_at) \
         VALUES (FALSE, 0, 'lease/report', 'x', 1, 'x', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))";
}

impl Blocking for Postgres {
    const BLOCK: &'static str = "SELECT pg_advisory_xact_lock(hashtextextended(owner || 'lease/report', 0)) \
                                 FROM soloist_mutexes WHERE name = 'advisory-key'";
}

fn a_name_that_is_taken_between_the_look_and_the_write_excludes<S: Blocking>() {
    let server = S::start();
    let (mutex, lease) = (server.mutex(), request("report"));
    let claim = lease.with(lease.name().claim("report", noon()), Term::MAX);
    let both = Admission::both(lease, claim).unless(MutexName::lease("service").expect("a name"));
    let first = mutex.create(&request("first")).expect("an answer").expect("it is free");
    assert!(mutex.forget(&first).expect("an answer"), "and the secret of the locks is there");
    // The first time, the excluding name has no row; the second time its row has ended.
    for time in 0..2 {
        let mut blocking = server.holding(&[S::BEGIN, S::BLOCK]);
        let (answer, service) = thread::scope(|scope| {
            let ours = scope.spawn(|| both.ask(&mutex));
            wait_until("it waits to write", || !server.ask(S::WAITING).is_empty());
            let add_lease = format!(
                "INSERT INTO soloist_mutexes ({COLUMNS}) SELECT {GRANTED}, 'lease/service', '{}', 7, 'x', 1, {now}, {now} + {} WHERE NOT EXISTS \
                 (SELECT 1 FROM soloist_mutexes WHERE name = 'lease/service')",
                soloist::store::Owner::unique(),
                if S::NOW.starts_with("UTC") { "INTERVAL 1 HOUR" } else { "INTERVAL '1 hour'" },
                now = S::NOW,
            );
            server.ask(&add_lease);
            server.ask("UPDATE soloist_mutexes SET released = FALSE WHERE name = 'lease/service'");
            S::execute(&mut blocking, "ROLLBACK");
            (ours.join().expect("it does not panic"), server.held())
        });
        assert!(matches!(answer, Ok(Admitted::Excluded(_))), "{time}: {answer:?}");
        assert_eq!(service, ["lease/service"], "{time}: nothing was written");
        server.ask("UPDATE soloist_mutexes SET released = TRUE WHERE name = 'lease/service'");
    }
    assert!(matches!(both.ask(&mutex), Ok(Admitted::Granted(_))));
}

/// Delays the commit of the first batch until the second one is asked for: no other connection sees its rows yet.
fn of_two_batches_that_exclude_each_other_one_is_granted_however_many_names_they_have<S: Trouble>() {
    let server = S::start();
    let name = |side: &str, number: usize| MutexName::lease(format!("{side}{number}")).expect("a name");
    // On PostgreSQL, names up to 50 have locks of their own: each pair has two.
    for pairs in [20, 26, 60] {
        let batch = |own: &str, other: &str| -> Vec<Admission> {
            let (own, other) = (format!("{own}{pairs}-"), format!("{other}{pairs}-"));
            let lease = |number| Admission::lease_only(request(name(&own, number).mutex()));
            (0..pairs).map(|number| lease(number).unless(name(&other, number))).collect()
        };
        let (first, second) = (batch("a", "b"), batch("b", "a"));
        // A lock is waited for ten seconds.
        let ask = |batch| admit(&S::open(&server.url(), Duration::from_secs(40)), batch);
        let commits = server.block_commits();
        let answers = thread::scope(|scope| {
            let answers = [&first, &second].map(|batch| {
                let waiting = server.ask(S::WAITING).len();
                let call = scope.spawn(move || ask(batch));
                wait_until("it waits", || server.ask(S::WAITING).len() > waiting);
                call
            });
            server.let_commit(commits);
            answers.map(|call| call.join().expect("it does not panic"))
        });
        let mut granted =
            answers.map(|answers| answers.iter().filter(|answer| matches!(answer, Ok(Admitted::Granted(_)))).count());
        granted.sort_unstable(); // The server may end the first one of two transactions that wait for each other.
        assert_eq!(granted, [0, pairs], "{pairs} pairs");
    }
}
