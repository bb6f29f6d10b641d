//! The addresses of a server, and the permissions that its user needs.

use std::fs;
use std::time::Duration;

use chrono::Utc;
use soloist::observe::{OutcomeKind, RunRecord};
use soloist::store::{Admission, Admitted, LeaseRequest, Names, Owner};
use soloist::time::Clock;
use soloist::{EventMutex, MutexName, RedisMutex, Term};
use tokio::runtime::Builder;

use super::{assert_ran, extend, patient};
use crate::servers::redis::Redis;
use crate::support::{Diary, holder, noon, until};

#[test]
fn a_server_is_reached_by_its_socket_by_its_database_and_with_its_password() {
    let server = Redis::with("requirepass secret");
    let (port, socket) = (server.port(), server.socket());
    let urls = [
        format!("redis://:secret@127.0.0.1:{port}"),
        format!("redis://default:secret@localhost:{port}/7"),
        format!("redis+unix://{}?db=8&pass=secret", socket.display()),
    ];
    let diary = Diary::default();
    for url in &urls {
        // Each database has an occurrence of its own.
        assert_ran(&super::schedule(url, &diary).run_due(noon()));
    }
    assert_eq!(diary.lines().len(), urls.len());
    for database in ["0", "7", "8"] {
        let claims = "return #redis.call('KEYS', '{soloist}:claim/*')";
        let counted = server.ask(&["EVAL", &format!("redis.call('SELECT', {database}) {claims}"), "0"]);
        assert_eq!(counted.number(), 1, "database {database}");
    }
}

#[test]
fn a_path_whose_server_takes_no_more_connections_is_an_outage_that_says_so() {
    let server = Redis::with("tcp-backlog 1");
    let url = format!("redis+unix://{}", server.socket().display());
    let mutex = RedisMutex::builder(&url).timeout(Duration::from_millis(100)).build().expect("a url");
    let name = MutexName::lease("report").unwrap();
    server.pause();
    // Each call gives a connection up that the server has not taken, until there is no room for another.
    let says_so = || {
        let error = mutex.exists(&name).expect_err("it is stopped");
        assert!(error.is_outage(), "{error:?}");
        error.to_string().contains("the server's queue of new connections is full")
    };
    until(says_so).expect("there is no room any more");
}

#[test]
fn a_server_is_asked_from_a_task_of_any_runtime() {
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
        let (server, diary) = (Redis::start(), Diary::default());
        let (name, mutex) = (MutexName::lease("report").unwrap(), patient(&server.url()));
        assert!(!mutex.exists(&name).unwrap(), "its connection is made outside");
        let schedule = super::schedule(&server.url(), &diary);
        runtime.block_on(async move {
            let lease = mutex.create(&LeaseRequest::new(name.clone(), Term::MAX, &Clock::system())).unwrap();
            let lease = lease.expect("it is free");
            assert!(holder(&mutex, &name).is_some() && extend(&mutex, &lease, Term::MAX).unwrap());
            assert!(mutex.forget(&lease).unwrap() && mutex.held(Names::LeasesWithPrefix("")).unwrap().is_empty());
            mutex.check().unwrap();
            assert_ran(&schedule.run_due(noon()));
        });
        assert_eq!(diary.lines().len(), 1);
    }
}

#[cfg(feature = "redis-tls")]
#[test]
fn a_server_is_reached_over_tls_if_its_authority_is_known() {
    let server = Redis::with_tls();
    let mutex = |authority: &Redis| {
        let pem = fs::read(authority.ca()).expect("the authority has a certificate");
        RedisMutex::builder(&server.tls_url()).root_certificates(pem).build().expect("all is well-formed")
    };
    let name = MutexName::lease("report").unwrap();
    let request = LeaseRequest::new(name.clone(), Term::MAX, &Clock::system());
    let lease = mutex(&server).create(&request).unwrap().expect("it is free");
    assert!(mutex(&server).exists(&name).unwrap());
    assert!(mutex(&server).forget(&lease).unwrap());

    let error = mutex(&Redis::with_tls()).create(&request).expect_err("another authority does not vouch for it");
    assert!(error.is_outage(), "{error}");
    let advice = "; the authority that signed the server's certificate is not trusted here: pass the authority's certificate \
                  to `root_certificates(..)` of the builder, or install it on this machine";
    assert!(error.to_string().ends_with(advice), "{error}");
    let error = RedisMutex::new(&server.tls_url()).unwrap().create(&request).expect_err("nor does the system's");
    assert!(error.is_outage(), "{error}");
}

#[test]
fn a_user_needs_no_more_than_the_documentation_says() {
    let server = Redis::start();
    let documentation = include_str!("../../../src/store/redis.rs").replace("\n///", "");
    let rights = documentation.split(['`', ' ']).filter(|word| word.starts_with('+') || word.starts_with("~{soloist}"));
    let user = [&["ACL", "SETUSER", "scheduler", "on", ">secret"], &*rights.collect::<Vec<_>>()];
    server.ask(&user.concat());
    let mutex = patient(&format!("redis://scheduler:secret@127.0.0.1:{}", server.port()));

    let name = MutexName::lease("report").unwrap();
    let term = Term::MAX;
    let lease = LeaseRequest::new(name.clone(), term, &Clock::system());
    let claim = lease.with(name.claim("report", Utc::now()), term);
    let admission = Admission::both(lease, claim).unless(MutexName::lease("migration").unwrap());
    let Admitted::Granted(grant) = admission.ask(&mutex).unwrap() else { panic!("it is free") };
    let (lease, claim) = (grant.lease().unwrap().clone(), grant.claim().unwrap().clone());
    assert!(mutex.exists(&name).unwrap());
    assert!(holder(&mutex, claim.name()).is_some());
    assert_eq!(mutex.held(Names::LeasesWithPrefix("")).unwrap().len(), 1);
    assert!(extend(&mutex, &lease, term).unwrap());
    assert!(mutex.forget(&lease).unwrap());
    assert!(mutex.break_lease(claim.name()).unwrap().is_some());
    mutex.check().unwrap();
    let log = mutex.run_log().unwrap();
    let started = || RunRecord::started("report", Owner::unique(), Utc::now(), None, Utc::now());
    log.write(&[started(), started().ended(Utc::now(), OutcomeKind::Succeeded, None)], 1).unwrap();
    assert_eq!(log.runs("report").unwrap().len(), 1);
    assert_eq!(server.ask(&["ACL", "LOG"]), crate::servers::resp::Reply::Many(vec![]), "something was refused");
}
