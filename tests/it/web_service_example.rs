//! The example of an async service: under load, SIGTERM loses no request and no run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;
use soloist::store::Names;
use soloist::{EventMutex, FileMutex};

use crate::support::{PATIENCE, example, until};

const SIGTERM: i32 = 15;

/// Sends a request. `None`: the connection is refused.
fn request(address: &str, path: &str) -> Option<TcpStream> {
    let mut request = TcpStream::connect(address).ok()?;
    request.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(request, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    Some(request)
}

/// Returns the reply, which is empty if the service closed its port before it read the request.
fn answer(mut request: TcpStream) -> String {
    let mut answer = String::new();
    let _ = request.read_to_string(&mut answer);
    answer
}

fn started(store: &str) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut service = Command::new("env");
    service.arg("--default-signal=INT,TERM").arg(example("web_service")).args(["127.0.0.1:0", store]);
    let mut service = service.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(service.stdout.take().expect("it is piped"));
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    let address = first.trim().strip_prefix("serving http://").expect(&first).to_owned();
    (service, said, address)
}

/// Returns the status of the event that takes two seconds.
fn slow_event(address: &str) -> Value {
    let answer = answer(request(address, "/status").expect("it serves"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head and a body");
    assert!(head.contains("content-type: application/json"), "{head}");
    let mut status: Value = serde_json::from_str(body).expect(body);
    status["events"].as_array_mut().expect("it has events").remove(0)
}

#[test]
fn a_deploy_by_sigterm_under_load_loses_no_request_and_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let locks = folder.path().join("locks");
    let (mut service, said, address) = started(&format!("file:{}", locks.display()));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let read = Arc::clone(&lines);
    let reader = thread::spawn(move || said.lines().for_each(|line| read.lock().unwrap().push(line.unwrap())));
    let said = |what: &str| lines.lock().unwrap().iter().any(|line: &String| line.starts_with(what));

    let schedule = answer(request(&address, "/schedule").expect("it serves"));
    assert!(schedule.starts_with("HTTP/1.1 200 OK\r\n") && schedule.contains("carts:remind: 2"), "{schedule:?}");
    // A second is its limit, which a busy machine may exceed.
    let is_healthy = || answer(request(&address, "/health").expect("it serves")).starts_with("HTTP/1.1 200 OK\r\n");
    until(is_healthy).expect("its store answers");

    let is_at_work = || !slow_event(&address)["running"].as_array().expect("a list").is_empty();
    let slow = request(&address, "/slow").expect("it serves");
    let (stops, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let is_over = || stops.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // After the signal connections may be refused; but each reply is complete.
                while let Some(request) = request(&address, "/schedule") {
                    let answer = answer(request);
                    let is_whole = answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with('\n');
                    assert!(
                        is_whole && answer.contains("prices:import: ") || is_over() && answer.is_empty(),
                        "{answer:?}"
                    );
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until(|| served.load(Ordering::Relaxed) > 200).expect("it serves");
        until(|| said("prices:import: ") && (is_at_work() || said("carts:remind: "))).expect("both tick");
        stops.store(true, Ordering::Relaxed);
        let killed = Command::new("kill").args(["-TERM", &service.id().to_string()]).status().unwrap();
        assert!(killed.success());
    });
    let slow = answer(slow);
    assert!(slow.starts_with("HTTP/1.1 200 OK\r\n") && slow.ends_with("done\n"), "{slow:?}");

    let status = service.wait().unwrap();
    assert_eq!(status.signal(), Some(SIGTERM), "{status}");
    reader.join().unwrap();
    // The task takes two seconds, and the drain twenty.
    assert!(said("carts:remind: reminded") && !said("carts:remind: stopped early: "));
    let last = lines.lock().unwrap().pop();
    assert_eq!(last.as_deref(), Some("all requests are answered, and all leases are released"));
    let held = FileMutex::in_dir(&locks).unwrap().held(Names::LeasesWithPrefix("")).unwrap();
    assert!(held.is_empty(), "{held:?}");
}

#[test]
#[cfg(feature = "redis")]
fn a_store_that_is_out_costs_the_health_check_its_limit() {
    // The system accepts the connections, and no process replies.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = silent.local_addr().unwrap();
    let (mut service, _said, address) = started(&format!("redis://{place}"));
    let said = format!("no answer within 1s from redis://{place}/0");
    let health = answer(request(&address, "/health").expect("it serves"));
    assert!(health.starts_with("HTTP/1.1 503 ") && health.contains(&said), "{health:?}");
    assert!(answer(request(&address, "/schedule").expect("it serves")).starts_with("HTTP/1.1 200 OK\r\n"));
    service.kill().unwrap();
    service.wait().unwrap();
}

/// A service that serves, until it is dropped.
#[cfg(feature = "redis")]
struct Served {
    service: Child,
    address: String,
    /// The rest of its output: the pipe must stay open.
    _said: BufReader<std::process::ChildStdout>,
}

#[cfg(feature = "redis")]
impl Served {
    fn on(store: &str) -> Self {
        let (service, said, address) = started(store);
        Self { service, address, _said: said }
    }

    fn slow_event(&self) -> Value {
        slow_event(&self.address)
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.service.id().to_string()]).status();
        assert!(sent.expect("there is kill").success());
    }
}

#[cfg(feature = "redis")]
impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

/// Asks an operator's six questions: what runs, who holds it, which runs ended, when did it last succeed, why was
/// it skipped, when is it next due. A slow event runs meanwhile.
#[test]
#[cfg(feature = "redis")]
fn the_status_answers_all_questions_while_a_slow_event_is_at_work() {
    let server = crate::servers::redis::Redis::start();
    let services = [(); 2].map(|()| Served::on(&server.url()));
    let both = || services.each_ref().map(Served::slow_event);
    let at_work = |event: &Value| event["running"].as_array().is_some_and(|runs| !runs.is_empty());
    let has_succeeded = |event: &Value| event["last_success"].is_object();
    until(|| both().iter().any(has_succeeded)).expect("a run every ten seconds");
    let seen = Mutex::new(None);
    let is_live = || {
        let now = both();
        // One of the two runs it, and the other was too late.
        let is_live = now.iter().any(at_work) && now.iter().any(|event| event["last_skip"].is_object());
        // If only one of them names the holder, the run began or ended between the two questions.
        let is_live = is_live && now.iter().all(|event| event["held_by"][0].is_object() && event["log"].is_array());
        *seen.lock().unwrap() = Some(now);
        is_live
    };
    until(is_live).expect("the next run, ten seconds later");
    let now = seen.into_inner().unwrap().expect("it was seen");
    let here = now.iter().find(|event| at_work(event)).expect("it is at work");
    let holder = &here["held_by"][0];
    assert_eq!(holder["token"], here["running"][0]["token"], "{here}");
    let ran = now.iter().find(|event| has_succeeded(event)).expect("it has run");
    assert_eq!((&ran["last_run"]["result"], &ran["consecutive_failures"]), (&"succeeded".into(), &0.into()));
    assert!(here["next_due"].is_string() && here["timetable"] == "every 10 seconds", "{here}");
    let elsewhere = now.iter().find(|event| event["last_skip"].is_object()).expect("it was skipped");
    let reason = elsewhere["last_skip"]["reason"].as_str().expect("it is a word");
    assert!(["ran_elsewhere", "overlapping"].contains(&reason), "{elsewhere}");
    for event in &now {
        assert_eq!(event["held_by"][0]["pid"], holder["pid"], "both say who holds it: {event}");
        let log = event["log"].as_array().expect("it is kept");
        assert!(log.iter().any(|run| run["result"] == "succeeded"), "both know the last success: {event}");
    }
}

#[test]
#[cfg(feature = "redis")]
fn the_others_tell_who_had_a_run_that_a_killed_server_left_behind() {
    let server = crate::servers::redis::Redis::start();
    let mut services = Vec::from([(); 3].map(|()| Served::on(&server.url())));
    let runs = |seen_by: &Served, pid: u32| {
        let event = seen_by.slow_event();
        event["log"].as_array().is_some_and(|log| log.iter().any(|run| run["pid"] == pid && run["state"] == "running"))
    };
    let found = Mutex::new(None);
    let is_found = || {
        let at_work = services.iter().position(|service| runs(service, service.service.id()));
        // It is stopped first: on a busy machine, its run may end before it is killed.
        let is_stopped = |at: &usize| {
            let (stopped, another) = (&services[*at], &services[(at + 1) % services.len()]);
            stopped.signal("-STOP");
            let is_stopped_in_time = runs(another, stopped.service.id());
            if !is_stopped_in_time {
                stopped.signal("-CONT");
            }
            is_stopped_in_time
        };
        *found.lock().unwrap() = at_work.filter(is_stopped);
        found.lock().unwrap().is_some()
    };
    until(is_found).expect("one of them runs it every ten seconds");
    let killed = services.swap_remove(found.into_inner().unwrap().expect("it was found"));
    let pid = killed.service.id();
    drop(killed);
    for survivor in &services {
        let run_in = |states: &[&str]| {
            let found = Mutex::new(None);
            until(|| {
                let event = survivor.slow_event();
                let is_it = |run: &&Value| {
                    let state = run["state"].as_str().unwrap_or_default();
                    run["pid"] == pid && run["ended"].is_null() && states.contains(&state)
                };
                let mut found = found.lock().unwrap();
                *found = event["log"].as_array().and_then(|log| log.iter().find(is_it).cloned());
                found.is_some()
            })
            .map(|()| found.into_inner().unwrap().expect("it was found"))
        };
        let at_first = run_in(&["running", "presumed_dead"]).expect("the run has no end");
        let dead = run_in(&["presumed_dead"]).expect("its lease is over");
        assert_eq!(
            (&dead["started"], &dead["host"]),
            (&at_first["started"], &at_first["host"]),
            "since when, and where"
        );
        assert!(dead["started"].is_string() && dead["occurrence"].is_string() && dead["result"].is_null(), "{dead}");
    }
}
