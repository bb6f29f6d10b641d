//! The example of an async service: under load, SIGTERM loses no request and no run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use soloist::{EventMutex, FileMutex, Names};

use crate::support::{PATIENCE, example, until};

const SIGTERM: i32 = 15;

/// Sends a request. `None`: nobody accepts it.
fn request(address: &str, path: &str) -> Option<TcpStream> {
    let mut request = TcpStream::connect(address).ok()?;
    request.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(request, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    Some(request)
}

/// What was answered, which is nothing where the service had closed its port before it read the request.
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
    assert!(answer(request(&address, "/health").expect("it serves")).starts_with("HTTP/1.1 200 OK\r\n"));

    let slow = request(&address, "/slow").expect("it serves");
    let (stops, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let is_over = || stops.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // From the signal on, nobody need accept it; but what is answered is answered whole.
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
        until(|| said("prices:import: ")).expect("it ticks, and so does the other");
        stops.store(true, Ordering::Relaxed);
        let killed = Command::new("kill").args(["-TERM", &service.id().to_string()]).status().unwrap();
        assert!(killed.success());
    });
    let slow = answer(slow);
    assert!(slow.starts_with("HTTP/1.1 200 OK\r\n") && slow.ends_with("done\n"), "{slow:?}");

    let status = service.wait().unwrap();
    assert_eq!(status.signal(), Some(SIGTERM), "{status}");
    reader.join().unwrap();
    // It takes two seconds, and the drain twenty.
    assert!(said("carts:remind: reminded") && !said("carts:remind: the rest is for the next run: "));
    let last = lines.lock().unwrap().pop();
    assert_eq!(last.as_deref(), Some("all requests are answered, and nothing is held any more"));
    let held = FileMutex::in_dir(&locks).unwrap().held(Names::LeasesWithPrefix("")).unwrap();
    assert!(held.is_empty(), "{held:?}");
}

#[test]
#[cfg(feature = "redis")]
fn a_store_that_is_out_costs_the_health_check_its_limit() {
    // The system accepts its connections, and nobody answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut service, _said, address) = started(&format!("redis://{}", silent.local_addr().unwrap()));
    let health = answer(request(&address, "/health").expect("it serves"));
    assert!(health.starts_with("HTTP/1.1 503 ") && health.ends_with("no answer within 1s\n"), "{health:?}");
    assert!(answer(request(&address, "/schedule").expect("it serves")).starts_with("HTTP/1.1 200 OK\r\n"));
    service.kill().unwrap();
    service.wait().unwrap();
}
