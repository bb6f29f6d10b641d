//! A table with a hundred thousand expired claims: no call reads more rows because of them.

use std::time::{Duration, Instant};

use soloist::store::{Admission, Names};
use soloist::{EventMutex, MutexName};

use super::batches::{admit, extend, release};
use super::clean_up::{BesideTheStore, clean_up, hold};
use super::cost::{admission, granted, is_lost, term};
use super::{SqlServer, on_both};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::support::{holder, until};

on_both!(
    no_more_rows_are_looked_at_because_there_are_many,
    a_clean_up_looks_at_what_it_deletes,
    a_batch_locks_no_rows_but_its_own,
);

const MANY: u64 = 100_000;

/// A server that counts the rows that it reads.
trait Looks: SqlServer {
    /// Starts a server with memory for many rows.
    fn large() -> Self;
    /// Returns how many rows and index entries it has read so far. No store is connected any more.
    fn looked_at(&self) -> u64;
}

impl Looks for Mariadb {
    fn large() -> Self {
        Self::with(&["--innodb-buffer-pool-size=128M", "--innodb-log-file-size=128M"])
    }

    fn looked_at(&self) -> u64 {
        let kinds = ["first", "key", "last", "next", "prev", "rnd", "rnd_next"];
        kinds.map(|kind| self.status(&format!("Handler_read_{kind}"))).iter().sum()
    }
}

impl Looks for Postgres {
    fn large() -> Self {
        Self::with(&["--shared-buffers=256MB", "-c", "max_wal_size=4GB"])
    }

    /// Waits for the ends of the connections, which are counted then.
    fn looked_at(&self) -> u64 {
        let connected = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'soloist'";
        until(|| self.count(connected) == 0).expect("the connections end");
        let tables = self.table_status("soloist_mutexes", "seq_tup_read + idx_tup_fetch");
        tables + self.count("SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'soloist_mutexes'")
    }
}

/// Returns as many admissions of lease and claim, each with an owner of its own, unless the schedule is paused.
fn admissions(count: usize, minute: i64) -> Vec<Admission> {
    let paused = MutexName::lease("shop").expect("a name").mark("shop", "paused");
    (0..count).map(|number| admission(number, minute).unless(paused.clone())).collect()
}

/// Returns the reads of each call, with its clean-up. Each call is the only one of its handle.
fn looks<S: Looks>(server: &S, minute: i64, count: usize) -> Vec<(&'static str, u64)> {
    let mut all = Vec::new();
    let mut looks = |what: &'static str, call: &mut dyn FnMut(&S::Mutex)| {
        let before = server.looked_at();
        call(&server.mutex());
        all.push((what, server.looked_at() - before));
    };
    let mut leases = Vec::new();
    looks("gate", &mut |mutex| leases = admit(&mutex, &admissions(count, minute)).into_iter().map(granted).collect());
    looks("loser", &mut |mutex| assert!(admit(&mutex, &admissions(count, minute)).iter().all(is_lost)));
    looks("holder", &mut |mutex| assert!(holder(&mutex, leases[0].name()).is_some()));
    let leases_of = Names::LeasesWithPrefix(leases[0].name().mutex());
    looks("list", &mut |mutex| assert!(!mutex.held(leases_of).expect("the server answers").is_empty()));
    looks("renewal", &mut |mutex| assert!(extend(&mutex, &leases, term()).into_iter().all(Result::unwrap)));
    looks("release", &mut |mutex| assert!(release(&mutex, &leases).into_iter().all(Result::unwrap)));
    all
}

fn no_more_rows_are_looked_at_because_there_are_many<S: Looks>() {
    let server = S::large();
    S::create_table(&server.mutex()).expect("the table is made");
    let both = |minute| [looks(&server, minute, 1), looks(&server, minute + 1, 100)].concat();
    both(0); // Creates the rows of the leases.
    let few = both(10);
    server.add_ended(MANY, 0);
    let many = both(20);
    // In a small table, a server may read all rows instead of searching. A busy server may need several attempts.
    let more: Vec<_> = few.iter().zip(&many).filter(|((_, few), (_, many))| many > &(few + 10_000)).collect();
    assert!(more.is_empty(), "{more:?} of {few:?} and {many:?}");
}

fn a_clean_up_looks_at_what_it_deletes<S: Looks>() {
    let server = S::large();
    S::create_table(&server.mutex()).expect("the table is made");
    server.add_ended(40_000, 300);
    let before = server.looked_at();
    clean_up(&server.mutex(), 0);
    let looked_at = server.looked_at() - before;
    assert!(looked_at < 400, "{looked_at} are looked at, and less than thirty deleted");
    let before = server.looked_at();
    S::purge(&S::open(&server.url(), Duration::from_secs(60))).expect("an answer");
    let looked_at = server.looked_at() - before;
    assert_eq!(
        server.count("SELECT COUNT(*) FROM soloist_mutexes WHERE token > 0"),
        8,
        "all are deleted but the leases and claims"
    );
    assert!(looked_at < 400_000, "{looked_at} are looked at, and a tenth deleted");
}

/// Searches rows by their key, also in a table so small that a server would rather read all of it.
fn a_batch_locks_no_rows_but_its_own<S: BesideTheStore>() {
    let server = S::start();
    // With that, a row is waited for fifteen seconds.
    let mutex = S::open(&server.url(), Duration::from_secs(60));
    hold(&mutex, "m");
    let _held = server.hold("SELECT * FROM soloist_mutexes WHERE name = 'lease/m' FOR UPDATE");
    let began = Instant::now();
    for (count, minute) in [(1, 0), (100, 1), (100, 2)] {
        let leases: Vec<_> = admit(&mutex, &admissions(count, minute)).into_iter().map(granted).collect();
        assert!(extend(&mutex, &leases, term()).into_iter().all(Result::unwrap));
        assert!(release(&mutex, &leases).into_iter().all(Result::unwrap));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(14), "{took:?}");
}
