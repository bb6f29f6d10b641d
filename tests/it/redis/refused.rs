//! Servers that refuse requests: their errors, and advice that can do no harm.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use chrono::TimeDelta;
use soloist::observe::{OutcomeKind, RunRecord};
use soloist::store::{Admission, Admitted, Batch, LeaseRequest, Names, Owner, StoreWarning};
use soloist::time::Clock;
use soloist::{Event, EventMutex, MutexError, MutexName, RedisMutex, Schedule, SkipReason, Term};

use super::contract::key;
use super::{entries, extend, patient, wait_until};
use crate::servers::redis::Redis;
use crate::support::{noon, ran, skipped};

fn request(name: &str) -> LeaseRequest {
    LeaseRequest::new(MutexName::lease(name).expect("a name"), Term::MAX, &Clock::system())
}

#[track_caller]
fn refused(url: &str) -> MutexError {
    let error = RedisMutex::new(url).unwrap().create(&request("report")).expect_err("it can't be");
    assert!(error.is_outage(), "{error}");
    error
}

#[test]
fn a_full_server_and_a_replica_say_what_to_do_and_tell_nobody_to_delete_anything() {
    let server = Redis::start();
    let replica = Redis::replica_of(&server);
    let error = refused(&replica.url());
    let text = error.to_string();
    assert!(error.is_refused() && text.contains("the server answered READONLY "), "{text}");
    assert!(
        text.ends_with("; it is a replica: connect to the primary, or wait if a failover is under way")
            && !text.contains("delete"),
        "{text}"
    );

    let mutex = patient(&server.url());
    let lease = mutex.create(&request("before")).unwrap().expect("it is free");
    let confirmed = patient(&(server.url() + "?wait=1"));
    let renewed = confirmed.create(&request("confirmed")).unwrap().expect("it is free");
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = refused(&server.url());
    let text = error.to_string();
    assert!(error.is_refused() && text.contains("the server answered OOM "), "{text}");
    let advice = "; its memory is full: free some, raise maxmemory, or keep the mutexes on a server of their own";
    assert!(text.ends_with(advice) && !text.contains("delete"), "{text}");
    assert!(mutex.forget(&lease).unwrap(), "what is given back takes no memory");
    assert!(extend(&confirmed, &renewed, Term::MAX).unwrap(), "nor does a renewal that waits for a replica");
    assert!(confirmed.forget(&renewed).unwrap(), "nor does such a release");
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(mutex.create(&request("report")).unwrap().is_some());
}

#[test]
fn a_minimum_hold_that_a_full_server_refuses_keeps_no_other_release() {
    let server = Redis::start();
    let mutex = patient(&server.url());
    let [first, held, last] = ["first", "held", "last"].map(|name| mutex.create(&request(name)).unwrap().unwrap());
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut batch = Batch::new();
    batch.release(first);
    batch.release_after(held, Term::new(Duration::from_secs(5)).unwrap());
    batch.release(last);
    mutex.carry_out(&mut batch);
    let [first, held, last] = batch.releases() else { panic!("three were asked for") };
    assert!(matches!((first.answer(), last.answer()), (Some(Ok(true)), Some(Ok(true)))), "{first:?}, {last:?}");
    let error = held.answer().expect("it is answered").as_ref().expect_err("a changed entry takes memory");
    let said = error.to_string();
    assert!(
        error.is_unusable() && said.contains("could not forget lease/held in ") && said.contains(" OOM "),
        "{said}"
    );
}

/// Writes entries that are together longer than the longest answer.
#[test]
fn many_leases_are_read_in_parts() {
    let server = Redis::start();
    let mutex = RedisMutex::builder(&server.url()).timeout(Duration::from_secs(60)).build().unwrap();
    let lease = mutex.create(&request("report")).unwrap().expect("it is free");
    let copies = "local entry = redis.call('GET', KEYS[1])
        for number = 1, 60000 do redis.call('SET', KEYS[1] .. number, entry, 'PX', 600000) end";
    server.ask(&["EVAL", copies, "1", &key(lease.name())]);
    assert_eq!(mutex.held(Names::LeasesWithPrefix("report")).unwrap().len(), 60_001);
}

/// Writes logs that are together longer than the longest answer.
#[test]
fn the_logs_of_many_events_are_read_in_parts() {
    let server = Redis::start();
    let mutex = RedisMutex::builder(&server.url()).timeout(Duration::from_secs(60)).build().unwrap();
    let log = mutex.run_log().expect("it keeps one");
    let record = |event: &str, number: i64| {
        let at = noon() + TimeDelta::seconds(number);
        let started = RunRecord::started(event, Owner::unique(), at, None, at);
        started.ended(at, OutcomeKind::Failed, Some(&"\u{1F6D1}".repeat(200)))
    };
    let events: Vec<String> = (0..11).map(|number| format!("event {number}")).collect();
    for event in &events {
        log.write(&(0..1000).map(|number| record(event, number)).collect::<Vec<_>>(), 1000).unwrap();
    }
    log.write(&events.iter().map(|event| record(event, 1000)).collect::<Vec<_>>(), 1000).unwrap();
    for event in &events {
        let runs = log.runs(event).unwrap();
        assert_eq!((runs.len(), runs[0].occurrence()), (1000, noon() + TimeDelta::seconds(1000)));
    }
}

#[test]
fn an_unreadable_pause_of_one_event_stops_no_other() {
    let server = Redis::start();
    server.ask(&["SET", "{soloist}:mark/shop/filtered%20and%20paused/event%20paused", "v2 a newer format"]);
    let schedule = Schedule::new(patient(&server.url())).named("shop").unwrap();
    let filtered = |name: &str| Event::call(name, |_| {}).every_minute().without_overlapping().when(|_| true);
    schedule.add(filtered("filtered and paused")).unwrap();
    schedule.add(filtered("filtered")).unwrap();
    schedule.add(Event::call("unprotected", |_| {}).every_minute()).unwrap();
    let report = schedule.run_due(noon());
    assert!(matches!(skipped(&report, "filtered and paused"), SkipReason::StoreUnavailable(_)), "{report}");
    assert!(ran(&report, "filtered").is_success() && ran(&report, "unprotected").is_success(), "{report}");
}

#[test]
fn a_check_warns_of_each_missing_right_and_leaves_nothing() {
    const NEEDED: [&str; 7] = ["evalsha", "mget", "set", "del", "pttl", "pexpire", "info"];
    let server = Redis::start();
    patient(&server.url()).check().unwrap(); // It gives the server the scripts.
    for missing in NEEDED.map(Some).into_iter().chain([None]) {
        let given = NEEDED.into_iter().filter(|right| missing != Some(*right)).map(|right| format!("+{right}"));
        let rights =
            ["+@connection", "+script|load", "+time", "~{soloist}:*"].map(str::to_owned).into_iter().chain(given);
        let rights: Vec<String> = rights.collect();
        let user = ["ACL", "SETUSER", "worker", "reset", "on", ">secret"].into_iter();
        server.ask(&user.chain(rights.iter().map(String::as_str)).collect::<Vec<_>>());
        let mutex = patient(&format!("redis://worker:secret@127.0.0.1:{}", server.port()));
        let said = match mutex.check() {
            Ok(warnings) => warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            Err(error) => error.to_string(),
        };
        match missing {
            None => assert_eq!(said, ""),
            Some(right) => assert!(
                said.contains("; give the user these rights: `ACL SETUSER USER ") && said.matches('\n').count() == 0,
                "{right}: {said}"
            ),
        }
        let left: Vec<_> = entries(&server).iter().map(|key| server.ask(&["PTTL", key]).number()).collect();
        assert!(left.iter().all(|left| (1..=60_000).contains(left)), "{missing:?}: {left:?}");
    }
    server.ask(&["FLUSHALL"]);
    assert_eq!(patient(&server.url()).check().unwrap(), []);
    assert!(entries(&server).is_empty());
}

#[test]
fn a_check_whose_trial_no_replica_confirms_is_an_error() {
    let server = Redis::shared();
    let confirmed = RedisMutex::builder(&(server.url() + "?wait=1")).timeout(Duration::from_secs(8)).build().unwrap();
    let error = confirmed.check().expect_err("there is no replica");
    assert!(error.is_unavailable() && error.to_string().starts_with("could not check redis://"), "{error}");
    let advice = ": only 0 of 1 replicas confirmed the change in time: check the replicas, or lower `wait` in the url";
    assert!(error.to_string().ends_with(advice), "{error}");
}

#[test]
fn a_damaged_token_is_told_by_its_key() {
    let server = Redis::start();
    let mutex = patient(&server.url());
    for damage in [
        &["SET", "{soloist}:token", "a shopping list"][..],
        &["SET", "{soloist}:token", ""],
        &["SET", "{soloist}:token", "-1"],
        &["SET", "{soloist}:token", "1e5"],
        &["HSET", "{soloist}:token", "1", "2"],
        &["RPUSH", "{soloist}:token", "1"],
    ] {
        server.ask(&["DEL", "{soloist}:token"]);
        server.ask(damage);
        let error = refused(&server.url());
        assert!(error.is_unusable(), "{error}");
        let advice = "the value at the key {soloist}:token is no token: delete that key";
        assert!(error.to_string().contains(advice), "{error}");
        let [warning] = &mutex.check().expect("it answers")[..] else { panic!("{:?}", mutex.check()) };
        assert!(warning.to_string().contains(advice), "{warning}");
    }
    assert_eq!(server.ask(&["TYPE", "{soloist}:token"]).text(), "list", "it was left as it was");
    server.ask(&["DEL", "{soloist}:token"]);
    assert!(mutex.create(&request("report")).unwrap().is_some());
}

#[track_caller]
fn assert_says_formats(error: &MutexError, found: &str) {
    let text = error.to_string();
    assert!(error.is_unusable() && text.contains(&format!(": `{found}")), "{text}");
    let what_to_do = "` does not begin with v1, the format that this version of soloist knows: update this program, or give \
                      it a prefix of its own";
    assert!(text.contains(what_to_do), "{text}");
}

#[test]
fn an_entry_of_another_format_is_an_error_that_names_both_formats_and_is_left_as_it_is() {
    let server = Redis::start();
    let mutex = patient(&server.url());
    let minute = Term::new(Duration::from_secs(60)).expect("a term");
    let report = LeaseRequest::new(MutexName::lease("report").expect("a name"), minute, &Clock::system());
    let (lease, key) = (mutex.create(&report).unwrap().expect("it is free"), "{soloist}:lease/report");
    let entry = server.ask(&["GET", key]).text().to_owned();
    assert!(entry.starts_with(&format!("v1 {} token={} term=60000 ", lease.owner(), lease.token())), "{entry}");

    // Without its format; and of a later one, and for longer than its term.
    for foreign in [entry.replacen("v1 ", "", 1), entry.replacen("v1", "v2", 1)] {
        server.ask(&["SET", key, &foreign, "PX", "600000"]);
        let other = LeaseRequest::new(report.name().clone(), minute, &Clock::system());
        assert_says_formats(&mutex.create(&other).unwrap_err(), &foreign[..20]);
        assert_says_formats(&mutex.held(Names::of(report.name())).unwrap_err(), &foreign[..20]);
        assert!(mutex.exists(report.name()).unwrap(), "nobody may take it");
        assert!(!extend(&mutex, &lease, minute).unwrap() && !mutex.forget(&lease).unwrap());
        let excluded = Admission::lease_only(request("other")).unless(report.name().clone());
        assert!(matches!(excluded.ask(&mutex), Ok(Admitted::Excluded(_))));
        assert_eq!(server.ask(&["GET", key]).text(), foreign);
        assert!(server.ask(&["PTTL", key]).number() > 60_000, "nobody shortens it");
    }
    assert!(mutex.create(&request("other")).unwrap().is_some());
}

#[test]
fn a_log_of_another_format_is_an_error_that_names_both_formats() {
    let server = Redis::start();
    let mutex = patient(&server.url());
    let log = mutex.run_log().expect("it keeps one");
    let run = RunRecord::started("report", Owner::unique(), noon(), None, noon());
    log.write(std::slice::from_ref(&run), 5).unwrap();
    let (key, id) = ("{soloist}:runs/report", run.id().to_string());
    let line = server.ask(&["HGET", key, &id]).text().to_owned();
    assert!(line.starts_with("v1 number=1 "), "{line}");
    server.ask(&["HSET", key, &id, &line.replacen("v1", "v2", 1)]);
    assert_says_formats(&log.runs("report").unwrap_err(), "v2 number=1 ");
}

#[test]
fn a_server_without_room_for_a_client_says_so() {
    let server = Redis::start();
    let holder = server.monitor();
    server.ask(&["CONFIG", "SET", "maxclients", "1"]);
    let error = refused(&server.url());
    let text = error.to_string();
    assert!(error.is_refused() && text.contains("max number of clients reached"), "{text}");
    assert!(text.ends_with("; raise maxclients, or let fewer clients connect"), "{text}");
    drop(holder);
    wait_until("there is room", || patient(&server.url()).create(&request("report")).is_ok());
}

#[test]
fn what_closes_a_connection_before_it_answers_may_be_a_proxy() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it listens").port();
    thread::spawn(move || listener.incoming().for_each(drop));
    let error = refused(&format!("redis://127.0.0.1:{port}"));
    let why = ": the server closed the connection before it answered: it has no room for another client (maxclients), or \
               is a proxy without a server behind it, or another kind of server: check the port";
    assert!(error.is_unavailable() && error.to_string().ends_with(why), "{error}");
}

#[cfg(feature = "redis-tls")]
#[test]
fn a_url_that_asks_a_silent_server_for_tls_may_be_wrong() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = silent.local_addr().expect("it listens").port();
    let why = "no answer within 300ms while connecting: check the host, the port, and whether the server uses TLS";
    for scheme in ["redis", "rediss"] {
        let error = refused(&format!("{scheme}://127.0.0.1:{port}?timeout=300ms"));
        assert!(error.to_string().ends_with(why), "{error}");
    }
}

#[test]
fn a_sentinel_is_told_by_its_name_and_not_by_a_page_of_lua() {
    let server = Redis::start();
    let sentinel = Redis::with(&format!("sentinel monitor primary 127.0.0.1 {} 1", server.port()));
    let error = refused(&sentinel.url());
    let text = error.to_string();
    assert!(error.is_outage(), "{text}");
    let advice = "is it a redis server, 6.2 or newer? a Sentinel needs redis+sentinel://HOST/NAME; a proxy that refuses commands can't be used";
    assert!(text.ends_with(advice), "{text}");
    assert!(!text.contains("redis.call"), "{text}");
}

/// Returns a cluster of two nodes. The second serves the slot of the prefix.
fn cluster() -> (Redis, Redis) {
    let (all, none) = (Redis::cluster_node(), Redis::with("cluster-enabled yes "));
    all.ask(&["CLUSTER", "MEET", "127.0.0.1", &none.port().to_string()]);
    let id = none.ask(&["CLUSTER", "MYID"]).text().to_owned();
    let knows = || all.ask(&["CLUSTER", "NODES"]).text().lines().any(|line| line.starts_with(&id));
    wait_until("they have met", || knows() && none.ask(&["CLUSTER", "NODES"]).text().lines().count() == 2);
    let slot = all.ask(&["CLUSTER", "KEYSLOT", "{soloist}"]).number().to_string();
    all.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
    (all, none)
}

#[test]
fn a_node_of_a_cluster_that_does_not_serve_the_slot_is_out_for_each_event_of_the_prefix() {
    let (here, _there) = cluster();
    let mutex = RedisMutex::new(&here.url()).unwrap();
    let text = "the server is a node of a Redis Cluster, and no event runs while another node has the slot of the keys: write \
                redis+cluster:// in the url";
    assert_eq!(mutex.check().unwrap(), [StoreWarning::new(text)]);
    for place in [|event: Event| event, Event::in_background] {
        let run = |mutex: &RedisMutex| {
            let schedule = Schedule::new(mutex.clone());
            for name in ["one", "two"] {
                schedule.add(Event::call(name, |_| {}).every_minute().without_overlapping().apply(place)).unwrap();
            }
            schedule.run_due(noon())
        };
        let report = run(&mutex);
        for name in ["one", "two"] {
            let why = skipped(&report, name).to_string();
            assert!(why.starts_with(&format!("the store refused: could not admit lease/{name}")), "{why}");
            let advice = "; another node of a Redis Cluster has the keys: redis+cluster:// in the url finds it";
            assert!(why.contains("the server answered MOVED ") && why.ends_with(advice), "{why}");
        }
        let report = run(&RedisMutex::builder(&here.url()).prefix("here").build().unwrap());
        assert!(["one", "two"].iter().all(|name| ran(&report, name).is_success()), "{report}");
    }
}

#[test]
fn a_plain_connection_that_leaves_this_host_is_warned_of() {
    let server = Redis::shared();
    assert_eq!(patient(&server.url()).check().unwrap(), []);
    // A number that leads here, and is not known to be here.
    let url = server.url().replace("127.0.0.1", "127.1");
    let warnings = RedisMutex::new(&url).unwrap().check().unwrap();
    let text = "the connection to another host is not encrypted: others on the network can read the password and change answers; use \
                TLS, with rediss:// in the url";
    assert_eq!(warnings, [StoreWarning::new(text)]);
}
