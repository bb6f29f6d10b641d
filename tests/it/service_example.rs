//! The example of a service: requests and schedule end in order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{PATIENCE, example};

#[test]
fn a_request_that_takes_longer_than_the_grace_is_answered_although_the_service_is_told_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = Command::new("env");
    service.arg("--default-signal=INT,TERM").arg(example("service")).env("TMPDIR", folder.path());
    let mut service = service.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(service.stdout.take().expect("it is piped"));
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    let address = first.trim().strip_prefix("serving http://").expect(&first);

    let get = |path: &str| {
        let mut request = TcpStream::connect(address).expect("it serves");
        request.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(request, "GET {path} HTTP/1.1\r\n").unwrap();
        thread::sleep(Duration::from_millis(200)); // a reply to the first line alone would be reset by the next
        write!(request, "Host: {address}\r\n\r\n").unwrap();
        request
    };
    let answer = |mut request: TcpStream| {
        let mut answer = String::new();
        request.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer:?}");
        assert!(answer.contains("\r\n\r\ncarts:remind: 2"), "{answer:?}");
    };
    let slow = get("/slow"); // for ten seconds, where a schedule that ends a process does so after six
    answer(get("/"));

    let killed = Command::new("kill").args(["-TERM", &service.id().to_string()]).status().unwrap();
    assert!(killed.success());
    answer(slow);
    let status = service.wait().unwrap();
    assert!(status.success(), "{status}");
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "all requests are answered, and all leases are released\n");
}
