//! A proxy between a store and its server that causes faults.

mod bytes;

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::mariadb::Mariadb;
use super::postgres::Postgres;
use super::process::PATIENCE;
use super::redis::Redis;
use super::resp::{frame, is_set_up, words};

use bytes::Protocol;

/// The URL of a port that refuses connections.
pub(crate) const REFUSING: &str = "redis://127.0.0.1:1";

/// A server that a proxy can stand in front of.
pub(crate) trait Behind {
    /// The protocol, if the proxy passes it on as bytes.
    const PROTOCOL: Option<Protocol>;

    fn address(&self) -> (String, u16);
}

impl Behind for Redis {
    const PROTOCOL: Option<Protocol> = None;

    fn address(&self) -> (String, u16) {
        (self.url(), self.port())
    }
}

impl Behind for Mariadb {
    const PROTOCOL: Option<Protocol> = Some(Protocol::Mysql);

    fn address(&self) -> (String, u16) {
        (self.url(), self.port())
    }
}

impl Behind for Postgres {
    const PROTOCOL: Option<Protocol> = Some(Protocol::Postgres);

    fn address(&self) -> (String, u16) {
        (self.url(), self.port())
    }
}

/// A fault of a command or its reply. Commands that set up a connection pass, except with `fault_from_the_start`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The server does not get the request, and there is no reply.
    Silence,
    /// The server does not get the request, and the connection ends.
    Cut,
    /// The server does not get the request; these bytes are the reply: an error, or not a reply at all.
    Answer(&'static [u8]),
    /// The server gets the request when the fault is mended, also if no client waits any more.
    RequestHeld,
    /// The server acts, and nothing is answered.
    ReplyLost,
    /// The server acts, and the connection ends.
    ReplyCut,
    /// The server acts, half of its reply arrives, and nothing more.
    HalfAReply,
    /// The server acts, half of its reply arrives, and the connection ends.
    ReplyCutInHalf,
    /// The server acts, and its reply arrives when this fault is mended.
    ReplyHeld,
    /// The server acts, and the connection ends in the client's direction. The client's requests still arrive.
    HalfClosed,
    /// The server acts, and a reply begins that goes on by a byte now and then, without end.
    Dribble,
    /// The server acts, and a reply begins that goes on by thousands of bytes without a pause to speak of, and without
    /// end.
    Endless,
}

/// The fault after this one.
#[derive(Clone, Copy, Default)]
enum Then {
    #[default]
    TheSame,
    Nothing,
    Another(Fault),
}

/// A proxy that passes on requests and replies, one after another.
pub(crate) struct Proxy {
    url: String,
    port: u16,
    state: Arc<State>,
}

struct State {
    server: u16,
    /// Where it is passed on as bytes.
    protocol: Option<Protocol>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    fault: Option<Fault>,
    /// How long each reply is under way that meets no fault.
    latency: Duration,
    /// The fault meets a client that sets up its connection, too.
    from_the_start: bool,
    then: Then,
    /// How many commands the fault lets pass before.
    passed_over: usize,
    /// How many commands the fault has met. If the fault lets requests pass, the server has acted on them.
    met: usize,
    /// How many replies the server has given.
    replies: usize,
    /// How many connections there were.
    opened: usize,
    /// The two ends of each open connection, by its number.
    connections: BTreeMap<usize, [TcpStream; 2]>,
    closed: bool,
}

impl Proxy {
    /// Starts a proxy in front of this server, without a fault.
    pub(crate) fn of<Server: Behind>(server: &Server) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let port = listener.local_addr().expect("it listens").port();
        let (url, server) = server.address();
        let url = url.replace(&format!(":{server}"), &format!(":{port}"));
        let (inner, changed) = (Mutex::default(), Condvar::new());
        let state = Arc::new(State { server, protocol: Server::PROTOCOL, inner, changed });
        thread::spawn({
            let state = Arc::clone(&state);
            move || {
                for client in listener.incoming().map_while(Result::ok) {
                    if state.inner().closed {
                        break;
                    }
                    let state = Arc::clone(&state);
                    thread::spawn(move || state.serve(&client));
                }
            }
        });
        Self { url, port, state }
    }

    /// Returns the server's URL through the proxy.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Applies this fault to each command from now on.
    pub(crate) fn fault(&self, fault: Fault) {
        self.begin(fault, false, Then::TheSame, 0);
    }

    /// Applies this fault to each command after the next `passed_over`.
    pub(crate) fn fault_after(&self, fault: Fault, passed_over: usize) {
        self.begin(fault, false, Then::TheSame, passed_over);
    }

    /// Applies this fault to the next command only.
    pub(crate) fn fault_once(&self, fault: Fault) {
        self.begin(fault, false, Then::Nothing, 0);
    }

    /// Applies this fault to one command, after the next `passed_over`.
    pub(crate) fn fault_once_after(&self, fault: Fault, passed_over: usize) {
        self.begin(fault, false, Then::Nothing, passed_over);
    }

    /// Applies this fault to one command, after the next `passed_over`, and another fault to each later command.
    pub(crate) fn fault_once_after_then(&self, fault: Fault, passed_over: usize, then: Fault) {
        self.begin(fault, false, Then::Another(then), passed_over);
    }

    /// Applies this fault to every message of a client from now on, also those that set up its connection.
    pub(crate) fn fault_from_the_start(&self, fault: Fault) {
        self.begin(fault, true, Then::TheSame, 0);
    }

    fn begin(&self, fault: Fault, from_the_start: bool, then: Then, passed_over: usize) {
        self.state.change(|inner| {
            inner.fault = Some(fault);
            (inner.from_the_start, inner.then, inner.met) = (from_the_start, then, 0);
            inner.passed_over = passed_over;
        });
    }

    /// Delays each reply by this latency from now on.
    pub(crate) fn delay_replies(&self, latency: Duration) {
        self.state.change(|inner| inner.latency = latency);
    }

    /// Ends the fault.
    pub(crate) fn mend(&self) {
        self.state.change(|inner| inner.fault = None);
    }

    /// Returns how many connections clients have opened.
    pub(crate) fn connections(&self) -> usize {
        self.state.inner().opened
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        for stream in self.state.inner().connections.values().flatten() {
            // The connection may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns how many replies the server has given.
    pub(crate) fn replies(&self) -> usize {
        self.state.inner().replies
    }

    /// Returns how many commands the last fault has met.
    pub(crate) fn met(&self) -> usize {
        self.state.inner().met
    }

    /// Waits until the fault has met a command. If the fault lets requests pass, the server has acted.
    #[track_caller]
    pub(crate) fn wait_until_met(&self) {
        self.wait_until("the fault has met a command", |inner| inner.met > 0);
    }

    /// Waits until the server has given so many replies.
    #[track_caller]
    pub(crate) fn wait_for_replies(&self, count: usize) {
        self.wait_until("the server has replied", |inner| inner.replies >= count);
    }

    #[track_caller]
    fn wait_until(&self, what: &str, happens: impl Fn(&Inner) -> bool) {
        let inner = self.state.inner();
        let waited = self.state.changed.wait_timeout_while(inner, PATIENCE, |inner| !happens(inner));
        let (inner, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.timed_out(), "waited for {PATIENCE:?} until {what}; the fault is {:?}", inner.fault);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.change(|inner| (inner.fault, inner.closed) = (None, true));
        self.cut();
        // Wakes the accepting thread.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl State {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.inner());
        self.changed.notify_all();
    }

    /// Serves a connection until either end closes it.
    fn serve(&self, client: &TcpStream) {
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server)).and_then(|server| {
            let connection = self.opened([client.try_clone()?, server.try_clone()?]);
            let served = match self.protocol {
                None => self.pass_on(client, &server),
                Some(protocol) => self.pass_on_bytes(protocol, client, &server),
            };
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
            self.inner().connections.remove(&connection);
            served
        });
    }

    fn opened(&self, ends: [TcpStream; 2]) -> usize {
        let mut inner = self.inner();
        inner.opened += 1;
        let connection = inner.opened;
        inner.connections.insert(connection, ends);
        connection
    }

    fn pass_on(&self, mut client: &TcpStream, mut server: &TcpStream) -> io::Result<()> {
        let (mut requests, mut replies) = (BufReader::new(client), BufReader::new(server));
        loop {
            let request = frame(&mut requests)?;
            let fault = self.fault_for(&request);
            match fault {
                Some(Fault::Silence) => continue,
                Some(Fault::Cut) => return Ok(()),
                Some(Fault::Answer(bytes)) => {
                    client.write_all(bytes)?;
                    continue;
                }
                Some(Fault::RequestHeld) => self.wait_until_mended(Fault::RequestHeld),
                _ => {}
            }
            server.write_all(&request)?;
            let reply = frame(&mut replies)?;
            self.change(|inner| {
                inner.replies += 1;
                inner.met += usize::from(fault.is_some_and(|fault| !fault.is_before_the_server()));
            });
            match fault {
                Some(Fault::ReplyLost) => {}
                Some(Fault::ReplyCut) => return Ok(()),
                Some(Fault::HalfAReply) => client.write_all(&reply[..reply.len() / 2])?,
                Some(Fault::ReplyCutInHalf) => return client.write_all(&reply[..reply.len() / 2]),
                Some(Fault::Dribble) => return dribble(client, b"$500000000\r\n"),
                Some(Fault::Endless) => return flood(client, b"$500000000\r\n"),
                Some(Fault::ReplyHeld) => {
                    self.wait_until_mended(Fault::ReplyHeld);
                    client.write_all(&reply)?;
                }
                Some(Fault::HalfClosed) => client.shutdown(Shutdown::Write)?,
                _ => {
                    // Requests that were sent together are delayed once.
                    if requests.buffer().is_empty() {
                        self.let_latency_pass();
                    }
                    client.write_all(&reply)?;
                }
            }
        }
    }

    fn let_latency_pass(&self) {
        let latency = self.inner().latency;
        thread::sleep(latency); // it is the fault to be slow
    }

    /// Returns the fault of this request. A fault that keeps the request from the server is counted here.
    fn fault_for(&self, request: &[u8]) -> Option<Fault> {
        let mut inner = self.inner();
        let is_set_up = match self.protocol {
            None => words(request).first().is_some_and(|command| is_set_up(command)),
            Some(protocol) => protocol.is_set_up(request),
        };
        let fault = inner.fault.filter(|_| inner.from_the_start || !is_set_up)?;
        if inner.passed_over > 0 {
            inner.passed_over -= 1;
            return None;
        }
        match std::mem::take(&mut inner.then) {
            Then::TheSame => {}
            Then::Nothing => inner.fault = None,
            Then::Another(fault) => inner.fault = Some(fault),
        }
        inner.met += usize::from(fault.is_before_the_server());
        self.changed.notify_all();
        Some(fault)
    }

    fn wait_until_mended(&self, fault: Fault) {
        let waited = self.changed.wait_while(self.inner(), |inner| inner.fault == Some(fault));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Fault {
    fn is_before_the_server(self) -> bool {
        matches!(self, Self::Silence | Self::Cut | Self::Answer(_) | Self::RequestHeld)
    }
}

/// Sends this beginning, and then a byte now and then.
fn dribble(client: &TcpStream, head: &[u8]) -> io::Result<()> {
    without_end(client, head, b"1", Duration::from_millis(100))
}

/// Sends this beginning, and then thousands of bytes at a time.
fn flood(client: &TcpStream, head: &[u8]) -> io::Result<()> {
    without_end(client, head, &[b'1'; 4096], Duration::from_millis(1))
}

fn without_end(mut client: &TcpStream, head: &[u8], bytes: &[u8], pause: Duration) -> io::Result<()> {
    client.write_all(head)?;
    loop {
        client.write_all(bytes)?;
        thread::sleep(pause); // it is the fault to be slow
    }
}
