//! Shows a service that runs a schedule and answers HTTP requests. On SIGTERM or SIGINT, it lets runs and requests end
//! before it exits. For Unix.
//!
//! ```text
//! cargo run --example service -- 127.0.0.1:8080
//! curl http://127.0.0.1:8080/      # when each event is due next
//! curl http://127.0.0.1:8080/slow  # takes ten seconds, even if the service gets a SIGTERM meanwhile
//! ```

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use chrono::Utc;
use signal_hook::consts::{SIGINT, SIGTERM};
use soloist::{Event, FileMutex, Schedule, Shutdown};

fn main() -> Result<(), Box<dyn Error>> {
    let address: SocketAddr = std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:0").parse()?;

    let store = FileMutex::in_dir(std::env::temp_dir().join("soloist-service"))?;
    let schedule = Schedule::new(store);
    schedule.add(
        Event::call("carts:remind", |run| {
            run.wait_cancelled(Duration::from_secs(1)); // a task that stops early if a shutdown cancels its run
        })
        .every_ten_seconds()
        .without_overlapping(),
    )?;

    let shutdown = Shutdown::new();
    let ticking = thread::spawn({
        let (schedule, shutdown) = (schedule.clone(), shutdown.clone());
        move || schedule.work(&shutdown)
    });
    let served = serve_until_a_signal(address, &schedule, || shutdown.trigger());
    shutdown.trigger(); // also if the address is in use
    ticking.join().map_err(|_| "the schedule panicked")?;
    served?;
    println!("all requests are answered, and all leases are released");
    Ok(())
}

/// Serves requests until SIGTERM or SIGINT, calls `on_signal`, and waits until all requests are answered.
fn serve_until_a_signal(address: SocketAddr, schedule: &Schedule, on_signal: impl Fn() + Send) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let (mut signalled, signal) = UnixStream::pair()?;
    for number in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(number, signal.try_clone()?)?;
    }
    println!("serving http://{address}");

    let stopping = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = &stopping;
        scope.spawn(move || {
            let heard = signalled.read_exact(&mut [0]);
            on_signal();
            stopping.store(true, Ordering::Release);
            // The loop below waits for the next connection. So this connection wakes the loop, and the loop ends.
            heard.and_then(|()| TcpStream::connect(address))
        });
        for connection in listener.incoming() {
            if stopping.load(Ordering::Acquire) {
                break;
            }
            let Ok(connection) = connection else {
                thread::sleep(Duration::from_millis(100)); // for example, too many files are open
                continue;
            };
            scope.spawn(move || {
                // An error is ignored, because it means that the client has closed the connection.
                let _ = answer(&connection, schedule);
            });
        }
        Ok(())
    })
}

fn answer(connection: &TcpStream, schedule: &Schedule) -> io::Result<()> {
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    // Reads the request up to the empty line. If a connection is closed with unread data, it is reset, and the answer
    // is lost.
    let head: io::Result<Vec<String>> = BufReader::new(connection.take(8 * 1024))
        .lines()
        .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
        .collect();
    if head?.first().is_some_and(|request| request.starts_with("GET /slow ")) {
        thread::sleep(Duration::from_secs(10));
    }
    let next = |name: &str| schedule.upcoming(name, Utc::now()).ok().and_then(|mut times| times.next());
    let line =
        |name: Arc<str>| format!("{name}: {}\n", next(&name).map_or("never".to_owned(), |next| next.to_rfc3339()));
    let page: String = schedule.names().map(line).collect();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}", page.len());
    let mut connection = connection;
    write!(connection, "{head}\r\nConnection: close\r\n\r\n{page}")
}
