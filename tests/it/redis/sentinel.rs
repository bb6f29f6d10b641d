//! Sentinels name the primary. A store asks them at each connect, and verifies the reply.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use soloist::store::LeaseRequest;
use soloist::time::Clock;
use soloist::{Event, EventMutex, MutexError, MutexName, RedisMutex, Schedule, Term};

use super::{
    assert_ran, assert_unavailable, claim, entries, hasty_schedule, minute, patient, schedule, schedule_within,
};
use crate::servers::redis::Redis;
use crate::servers::replication::Replicated;
use crate::servers::sentinel::Sentinels;
use crate::support::Diary;

mod failover {
    use crate::servers::sentinel::Sentinels;

    crate::redis::failover::cases!(Sentinels);
}

/// Returns the failure of an admission.
#[track_caller]
fn refused(url: &str) -> MutexError {
    let mutex = RedisMutex::builder(url).timeout(Duration::from_secs(8)).build().expect("a url");
    let request = LeaseRequest::new(MutexName::lease("report").expect("a name"), Term::MAX, &Clock::system());
    let error = mutex.create(&request).expect_err("it can't be");
    assert!(error.is_outage(), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    error
}

#[test]
fn sentinels_that_are_dead_or_stopped_are_passed_over() {
    let servers = Sentinels::start();
    let diary = Diary::default();
    let [dead, stopped, _] = servers.sentinels() else { panic!("there are three") };
    dead.kill();
    stopped.pause();
    // One schedule has asked before, the others ask for the first time.
    // The stopped one takes half of that at a first request.
    let schedule = || schedule_within(Duration::from_secs(8), &servers.url(), &diary);
    let known = schedule();
    for number in 0..3 {
        assert_ran(&known.run_due(minute(2 * number)));
        assert_ran(&schedule().run_due(minute(2 * number + 1)));
        thread::sleep(Duration::from_secs(1)); // longer than an idle connection is kept
    }
    stopped.resume();
    let last = &servers.sentinels()[2];
    last.pause();
    assert_ran(&known.run_due(minute(6)));
    last.resume();
    assert_eq!(diary.lines().len(), 7);
}

#[test]
fn a_primary_that_was_demoted_under_a_connection_is_left_within_the_call() {
    let servers = Sentinels::start();
    let diary = Diary::default();
    let ours = Schedule::new(patient(&servers.url()));
    // A lease whose release was not copied would keep the new primary from the next run.
    ours.add(Event::call("report", diary.task("ran")).every_minute().on_one_server()).expect("an event");
    let number = Cell::new(0);
    // A slow machine may have ended the idle connection, so that nothing was asked of the old primary.
    let has_refused = (0..5).any(|_| {
        let old = servers.primary();
        servers.promote_a_replica(old);
        // It asks so often that the connection to the old primary stays.
        let run = || assert_ran(&ours.run_due(minute(number.replace(number.get() + 1))));
        let new = servers.wait_for("another server is the primary", &|primary| {
            run();
            primary.port() != old.port()
        });
        old.ask(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
        run();
        assert!(entries(new).contains(&claim(number.get() - 1)));
        servers.mend();
        old.ask(&["INFO", "errorstats"]).text().contains("errorstat_READONLY:")
    });
    assert!(has_refused, "no connection was one to the old primary");
}

#[test]
fn a_replica_that_the_sentinels_name_is_asked_for_nothing() {
    let servers = Sentinels::start();
    let (primary, replica) = (&servers.servers()[0], &servers.servers()[1]);
    let diary = Diary::default();
    assert_ran(&schedule(&servers.url(), &diary).run_due(minute(0)));
    servers.wait_until_copied(&claim(0));
    servers.name_as_primary(replica);
    // The replica cannot write, but it could refuse an occurrence from its copy.
    for number in [0, 1] {
        assert_unavailable(&hasty_schedule(&servers.url(), &diary).run_due(minute(number)));
    }
    assert_eq!(entries(primary), [claim(0)]);
    servers.name_as_primary(primary);
    assert_ran(&schedule(&servers.url(), &diary).run_due(minute(1)));
}

#[test]
fn what_keeps_a_store_from_its_primary_is_said() {
    let servers = Sentinels::start();
    let primary = servers.primary();
    let said = refused(&Sentinels::url_of(servers.sentinels(), "other")).to_string();
    assert!(said.contains("primary of the name other"), "{said}");

    // The login of the Sentinels is not that of the servers.
    for sentinel in servers.sentinels() {
        sentinel.ask(&["ACL", "SETUSER", "scheduler", "on", ">of-sentinels", "~*", "&*", "+@all"]);
    }
    let diary = Diary::default();
    let login = "?sentinel_user=scheduler&sentinel_password=";
    assert_ran(&schedule(&format!("{}{login}of-sentinels", servers.url()), &diary).run_due(minute(0)));
    let said = refused(&format!("{}{login}secret-of-others", servers.url())).to_string();
    assert!(said.contains("WRONGPASS"), "{said}");
    let said = refused(&servers.url().replace(":secret@", ":secret-of-others@")).to_string();
    assert!(said.contains("WRONGPASS") && said.contains(&primary.port().to_string()), "{said}");

    // No Sentinel at all.
    let said = refused(&Sentinels::url_of(std::slice::from_ref(Redis::shared()), "main")).to_string();
    assert!(said.contains("Sentinel"), "{said}");

    let url = servers.url();
    servers.sentinels().iter().for_each(Redis::kill);
    let said = refused(&url).to_string();
    assert!(said.contains("refused"), "{said}");
}

#[test]
fn a_database_is_that_of_the_primary() {
    let servers = Sentinels::start();
    let diary = Diary::default();
    for url in [servers.url(), servers.url() + "/7"] {
        assert_ran(&schedule(&url, &diary).run_due(minute(0)));
    }
    let primary = servers.primary();
    for database in ["0", "7"] {
        let claims = format!("redis.call('SELECT', {database}) return #redis.call('KEYS', '{{soloist}}:claim/*')");
        assert_eq!(primary.ask(&["EVAL", &claims, "0"]).number(), 1, "database {database}");
    }
}

#[cfg(feature = "redis-tls")]
#[test]
fn a_sentinel_and_its_primary_are_reached_over_tls() {
    let primary = Redis::with_tls();
    let port = primary.tls_url().rsplit(':').next().expect("a port").to_owned();
    let lines = [
        format!("sentinel monitor main 127.0.0.1 {port} 1"),
        "tls-replication yes".to_owned(),
        "sentinel down-after-milliseconds main 600000".to_owned(),
    ];
    let sentinel = Redis::with_the_certificate_of(&primary, &lines.join("\n"));
    let url = format!("{}/main", sentinel.tls_url().replace("rediss://", "rediss+sentinel://"));
    let pem = std::fs::read(primary.ca()).expect("the authority has a certificate");
    let mutex = RedisMutex::builder(&url).root_certificates(pem).build().expect("all is well-formed");
    let request = LeaseRequest::new(MutexName::lease("report").expect("a name"), Term::MAX, &Clock::system());
    let lease = mutex.create(&request).unwrap().expect("it is free");
    assert_eq!(entries(&primary), ["{soloist}:lease/report"]);
    assert!(mutex.forget(&lease).unwrap());
}
