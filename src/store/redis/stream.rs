//! The bytes between a Redis server and this process, in plain or over TLS. Each read and write ends at a deadline, and
//! the length of an answer is limited. The server sees the end of a connection even if a forked child has it open, too.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::Duration;

use redis::ConnectionAddr;
use socket2::{Domain, SockAddr, Type};

use super::address::Address;
use crate::base::threads;
use crate::store::server::server_builder::Target;
use crate::time::{clock::Clock, clock::moment::Moment};

/// A connected stream, in plain or over TLS.
pub(super) trait Stream: Read + Write + Send {
    fn socket(&mut self) -> &mut Socket;
}

/// A socket with a deadline, and with a limit for the bytes that it reads. The drop of the socket shuts the connection
/// down.
pub(super) struct Socket {
    connected: socket2::Socket,
    until: Moment,
    allowance: usize,
}

impl Socket {
    /// Allows reads and writes until a moment, and limits the number of bytes to read.
    pub(super) fn allow(&mut self, until: Moment, bytes: usize) {
        (self.until, self.allowance) = (until, bytes);
    }

    /// Returns whether something can be read: the end of the connection, or an answer that no request has asked for.
    pub(super) fn has_input(&self) -> io::Result<bool> {
        self.connected.set_nonblocking(true)?;
        let peeked = self.connected.peek(&mut [MaybeUninit::uninit()]);
        self.connected.set_nonblocking(false)?;
        Ok(!peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock))
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
pub(super) fn connect(target: &Target<Address>, server: &ConnectionAddr, until: Moment) -> io::Result<Box<dyn Stream>> {
    let connected = match server {
        ConnectionAddr::Tcp(host, port) => connect_tcp(host, *port, until)?,
        ConnectionAddr::Unix(path) => connect_unix(&SockAddr::unix(path)?)?,
        _ => return Err(io::Error::new(ErrorKind::Unsupported, "the url names no kind of socket that is known")),
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
    let addresses = look_up(host, port, until)?;
    let mut failed = io::Error::other("the name of the host has no address");
    for (address, until) in addresses.iter().zip(shares(addresses.len(), until)) {
        let connect = || {
            let socket = socket2::Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
            socket.connect_timeout(&SockAddr::from(*address), left(until)?)?;
            socket.set_tcp_nodelay(true).map(|()| socket)
        };
        match connect() {
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

/// Returns the deadlines of attempts that follow one another. Each attempt gets an equal share of the time that is
/// left.
pub(super) fn shares(attempts: usize, until: Moment) -> impl Iterator<Item = Moment> {
    (0..attempts).map(move |done| {
        let now = Clock::system().moment();
        now.plus(until.since(now) / u32::try_from(attempts - done).unwrap_or(u32::MAX))
    })
}

/// Returns the time that is left until a moment.
fn left(until: Moment) -> io::Result<Duration> {
    let left = until.since(Clock::system().moment());
    // To the system, a time limit of zero microseconds means no limit.
    if left.as_micros() == 0 { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
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
