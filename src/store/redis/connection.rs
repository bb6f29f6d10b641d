//! One connection to a Redis server, in plain or over TLS. It uses the commands and the parser of the driver, but a
//! socket of its own.
//!
//! The driver's own connections have no limit for the time of a whole call, and none for the length of an answer. Here,
//! each read and write ends at a deadline, and the length of an answer is limited. The server sees the end of a
//! connection even if a forked child has it open, too.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, SocketAddr, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use redis::{Cmd, ConnectionAddr, Parser, RedisConnectionInfo, RedisError, Value, cmd, from_redis_value_ref};
use socket2::{Domain, SockAddr, Type};

use super::address::Address;
use super::server_error::{unexpected, unless_refused};
use crate::base::threads;
use crate::store::server::attempts::shares;
use crate::store::server::engine::ServerClock;
use crate::store::server::failure::{Failure, makes_no_sense};
use crate::store::server::server_builder::Target;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The longest reply that is accepted, in bytes. A thousand refusals need much less.
const LONGEST_ANSWER: usize = 8 * 1024 * 1024;

const PANICKED: &str = "the driver panicked while it handled an answer of the server";

/// A stream, the parser of its replies, and the clock of the server.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    parser: Parser,
    /// The clock of the server. Before the server's time was read, this clock shows 1970. No time is read from a
    /// Sentinel.
    pub(super) clock: ServerClock,
}

impl Connection {
    /// Connects to this server, logs in, and reads its clock. Also returns the reply to `question`, which may be an
    /// error. Without a question, the reply is `Value::Nil`.
    pub(super) fn to(
        target: &Target<Address>,
        server: &ConnectionAddr,
        question: Option<Cmd>,
        until: Moment,
    ) -> Result<(Self, Value), Failure> {
        let commands: Vec<Cmd> = question.into_iter().chain([cmd("TIME")]).collect();
        let (mut connection, mut replies) = Self::open(target, server, &target.address.login, &commands, until)?;
        let answer = replies.pop().unwrap_or(Value::Nil);
        connection.clock = ServerClock::read(micros(&answer)?);
        Ok((connection, replies.pop().unwrap_or(Value::Nil)))
    }

    /// Connects to this server, logs in, and sends these commands. Returns their replies, which may be errors.
    pub(super) fn open(
        target: &Target<Address>,
        server: &ConnectionAddr,
        login: &RedisConnectionInfo,
        commands: &[Cmd],
        until: Moment,
    ) -> Result<(Self, Vec<Value>), Failure> {
        let not_connected = |error| Failure::not_asked(error).while_connecting("maxclients");
        let stream = connect(target, server, until).map_err(not_connected)?;
        let mut connection = Self { stream, parser: Parser::new(), clock: ServerClock::read(0) };
        let auth = login.password().map(|password| cmd("AUTH").arg(login.username()).arg(password).take());
        let select = (login.db() != 0).then(|| cmd("SELECT").arg(login.db()).take());
        let mut all: Vec<Cmd> = auth.into_iter().chain(select).collect();
        let of_login = all.len();
        all.extend_from_slice(commands);
        let (mut replies, end) = connection.round_trip(until, &all);
        // If the connection has ended, any of the replies may be an error that says why: for example, a server without
        // room for another client sends an error, and then closes the connection.
        let may_refuse = if end.is_err() { replies.len() } else { of_login };
        replies[..may_refuse].iter().try_for_each(unless_refused)?;
        end.map_err(not_connected)?;
        Ok((connection, replies.split_off(of_login)))
    }

    /// Sends commands in one round trip. Returns the replies that arrived, and an error if the connection ended before
    /// the last reply.
    pub(super) fn round_trip(&mut self, until: Moment, commands: &[Cmd]) -> (Vec<Value>, io::Result<()>) {
        self.stream.socket().allow(until, LONGEST_ANSWER);
        let mut packed = Vec::new();
        for command in commands {
            command.write_packed_command(&mut packed);
        }
        let mut replies = Vec::with_capacity(commands.len());
        let sent = self.stream.write_all(&packed).and_then(|()| self.stream.flush());
        let end = sent.and_then(|()| {
            for _ in commands {
                replies.push(self.reply()?);
            }
            Ok(())
        });
        (replies, end)
    }

    /// Returns whether the server has closed the connection, or has sent data that no request has asked for. Such data
    /// must not be taken for the reply to the next request.
    pub(super) fn has_ended(&mut self) -> bool {
        let socket = self.stream.socket();
        let has_input = socket.has_input();
        socket.allow(Moment::BEGINNING, 0); // The parser gets no new bytes, only those that it has read already.
        has_input || !self.reply().is_err_and(|error| error.kind() == ErrorKind::TimedOut)
    }

    fn reply(&mut self) -> io::Result<Value> {
        // The connection is not used again after a panic, so its state does not matter.
        let reply = catch_unwind(AssertUnwindSafe(|| self.parser.parse_value(&mut self.stream)));
        reply.map_err(|_| io::Error::other(PANICKED))?.map_err(|error| not_heard(&error))
    }
}

/// Reads the reply to `TIME`, in microseconds.
pub(super) fn micros(answer: &Value) -> Result<i64, Failure> {
    let time: Result<(i64, i64), _> = from_redis_value_ref(answer);
    let (seconds, micros) = time.map_err(|_| unexpected(answer))?;
    Ok(seconds.saturating_mul(1_000_000).saturating_add(micros))
}

fn not_heard(error: &RedisError) -> io::Error {
    if error.is_connection_dropped() {
        return ErrorKind::UnexpectedEof.into();
    }
    if error.is_timeout() {
        return ErrorKind::TimedOut.into();
    }
    let said = error.to_string().lines().collect::<Vec<_>>().join(", ");
    if error.is_io_error() {
        return io::Error::other(said);
    }
    io::Error::new(ErrorKind::InvalidData, makes_no_sense(&said, "redis"))
}

/// A connected stream, in plain or over TLS.
trait Stream: Read + Write + Send {
    fn socket(&mut self) -> &mut Socket;
}

/// A socket with a deadline, and with a limit for the bytes that it reads. The drop of the socket shuts the connection
/// down.
struct Socket {
    connected: socket2::Socket,
    until: Moment,
    allowance: usize,
}

impl Socket {
    /// Allows reads and writes until a moment, and limits the number of bytes to read.
    fn allow(&mut self, until: Moment, bytes: usize) {
        (self.until, self.allowance) = (until, bytes);
    }

    /// Returns whether something can be read: the end of the connection, or an answer that no request has asked for.
    fn has_input(&self) -> bool {
        let peeked = self.connected.set_nonblocking(true).and_then(|()| {
            let peeked = self.connected.peek(&mut [MaybeUninit::uninit()]);
            self.connected.set_nonblocking(false).and(peeked)
        });
        !peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

impl Stream for Socket {
    fn socket(&mut self) -> &mut Socket {
        self
    }
}

#[cfg(feature = "redis-tls")]
impl Stream for rustls::StreamOwned<rustls::ClientConnection, Socket> {
    fn socket(&mut self) -> &mut Socket {
        &mut self.sock
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = until_done(|| {
            self.connected.set_read_timeout(Some(left(self.until)?))?;
            self.connected.read(bytes)
        })?;
        let left = self.allowance.checked_sub(read);
        self.allowance = left.ok_or_else(|| io::Error::other("the answer is longer than any reply to this store"))?;
        Ok(read)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        until_done(|| {
            self.connected.set_write_timeout(Some(left(self.until)?))?;
            self.connected.write(bytes)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Shuts the connection down. To close the socket is not enough, because a forked child may have it open, too.
impl Drop for Socket {
    fn drop(&mut self) {
        let _ = self.connected.shutdown(Shutdown::Both); // An error means that the server has closed it first.
    }
}

/// Connects to a server.
#[cfg_attr(not(feature = "redis-tls"), expect(unused_variables, reason = "TLS alone needs the target"))]
fn connect(target: &Target<Address>, server: &ConnectionAddr, until: Moment) -> io::Result<Box<dyn Stream>> {
    let connected = match server {
        ConnectionAddr::Tcp(host, port) => connect_tcp(host, *port, until)?,
        ConnectionAddr::Unix(path) => connect_unix(&SockAddr::unix(path)?)?,
        _ => return Err(io::Error::new(ErrorKind::Unsupported, "the url names an unknown kind of socket")),
    };
    let socket = Socket { connected, until, allowance: 0 };
    #[cfg(feature = "redis-tls")]
    if let (true, ConnectionAddr::Tcp(host, _)) = (target.address.is_encrypted, server) {
        let name = rustls::pki_types::ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        let tls = rustls::ClientConnection::new(target.tls.config()?, name).map_err(io::Error::other)?;
        return Ok(Box::new(rustls::StreamOwned::new(tls, socket)));
    }
    Ok(Box::new(socket))
}

fn connect_tcp(host: &str, port: u16, until: Moment) -> io::Result<socket2::Socket> {
    let connect = |address: SocketAddr, until| {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.connect_timeout(&SockAddr::from(address), left(until)?)?;
        socket.set_tcp_nodelay(true).map(|()| socket)
    };
    let addresses = look_up(host, port, until)?;
    let mut failed = io::Error::other("the name of the host has no address");
    for (address, until) in addresses.iter().zip(shares(addresses.len(), until)) {
        match connect(*address, until) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Connects to a Unix socket of this host without waiting. A `connect` that waits has no time limit, so it would hang
/// while the server is stuck.
fn connect_unix(address: &SockAddr) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(address).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => {
            io::Error::new(ErrorKind::ConnectionRefused, "the server's queue of new connections is full")
        }
        _ => error,
    })?;
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Returns the addresses of a host. The look-up of a name has no time limit of its own, so another thread does it.
fn look_up(host: &str, port: u16, until: Moment) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let (sender, receiver) = mpsc::channel();
    let name = host.to_owned();
    let look_up = move || drop(sender.send((name, port).to_socket_addrs().map(Vec::from_iter))); // An error: the caller timed out.
    threads::start("soloist-look-up", look_up).map_err(|error| {
        io::Error::new(error.kind(), format!("no thread could be started to look up the host: {error}"))
    })?;
    receiver.recv_timeout(left(until)?).map_err(|_| io::Error::from(ErrorKind::TimedOut))?
}

/// Returns the time that is left until a moment.
fn left(until: Moment) -> io::Result<Duration> {
    let left = until.since(Clock::system().moment());
    // To the system, a time limit of less than a microsecond means no limit.
    if left < Duration::from_micros(1) { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Runs `attempt`, and runs it again if a signal has interrupted it.
fn until_done(mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_without_another_thread_and_without_time() {
        for address in ["127.0.0.1", "::1"] {
            let found = look_up(address, 6379, Moment::BEGINNING).unwrap();
            assert_eq!(found, [SocketAddr::from((address.parse::<IpAddr>().unwrap(), 6379))]);
        }
        assert_eq!(look_up("localhost", 6379, Moment::BEGINNING).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
