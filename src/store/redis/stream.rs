//! The bytes between a Redis server and us, in plain or over TLS: each read and write ends at a deadline, the server may answer no
//! more bytes than it is allowed, and the end of a connection is seen although a forked child has it open, too.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
#[cfg(unix)]
use std::os::{fd::OwnedFd, unix::net::UnixStream};
use std::sync::mpsc;
use std::time::Duration;

use redis::ConnectionAddr;

use super::address::Address;
use crate::base::threads;
use crate::store::server::server_builder::Target;
use crate::time::{clock::Clock, clock::moment::Moment};

/// A connected stream, in plain or over TLS.
pub(super) trait Stream: Read + Write + Send {
    fn socket(&mut self) -> &mut Socket;
}

/// A socket with a deadline, and with a limit of the bytes that it reads. It is shut down when it is dropped.
pub(super) struct Socket {
    /// A socket of any kind.
    socket: TcpStream,
    until: Moment,
    allowance: usize,
}

impl Socket {
    /// Allows reads and writes until a moment, and so many bytes to be read.
    pub(super) fn allow(&mut self, until: Moment, bytes: usize) {
        (self.until, self.allowance) = (until, bytes);
    }

    /// Returns whether there is something to be read: the end of the connection, or an answer that nothing has asked for.
    pub(super) fn has_input(&self) -> io::Result<bool> {
        self.socket.set_nonblocking(true)?;
        let peeked = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false)?;
        Ok(!peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        left(self.until).map(Some)
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
            self.socket.set_read_timeout(self.left()?)?;
            self.socket.read(bytes)
        })?;
        let left = self.allowance.checked_sub(read);
        self.allowance = left.ok_or_else(|| io::Error::other("the answer has no end"))?;
        Ok(read)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        until_done(|| {
            self.socket.set_write_timeout(self.left()?)?;
            self.socket.write(bytes)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// To close the socket is not enough: a forked child may have it open, too.
impl Drop for Socket {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both); // The server may have closed it first.
    }
}

/// Connects to the server.
pub(super) fn connect(target: &Target<Address>, until: Moment) -> io::Result<Box<dyn Stream>> {
    let socket = match target.address.info.addr() {
        ConnectionAddr::Tcp(host, port) => connect_tcp(host, *port, until)?,
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let path = path.clone();
            let socket = on_a_thread(until, move || UnixStream::connect(path))?; // It waits where the server's queue is full.
            TcpStream::from(OwnedFd::from(socket))
        }
        _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no such sockets")),
    };
    let socket = Socket { socket, until, allowance: 0 };
    #[cfg(feature = "redis-tls")]
    if let (true, ConnectionAddr::Tcp(host, _)) = (target.address.is_encrypted, target.address.info.addr()) {
        let name = rustls::pki_types::ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        let tls = rustls::ClientConnection::new(target.tls.config()?, name).map_err(io::Error::other)?;
        return Ok(Box::new(rustls::StreamOwned::new(tls, socket)));
    }
    Ok(Box::new(socket))
}

fn connect_tcp(host: &str, port: u16, until: Moment) -> io::Result<TcpStream> {
    let host = host.to_owned();
    let look_up = move || (host, port).to_socket_addrs().map(Iterator::collect);
    let addresses: Vec<SocketAddr> = on_a_thread(until, look_up)?;
    let mut failed = io::Error::other("the name of the host has no address");
    for (at, address) in addresses.iter().enumerate() {
        // An address that swallows everything leaves time for the next.
        let share = left(until)? / u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        match TcpStream::connect_timeout(address, share.max(Duration::from_micros(1))) {
            Ok(socket) => return socket.set_nodelay(true).map(|()| socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Runs what has no time limit of its own on another thread, and waits for it until a moment.
fn on_a_thread<T: Send + 'static>(
    until: Moment,
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    threads::start("soloist-connect", move || drop(sender.send(call())))?; // Nobody may wait any more.
    receiver.recv_timeout(left(until)?).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// Returns the time that is left until a moment.
fn left(until: Moment) -> io::Result<Duration> {
    let left = until.since(Clock::system().moment());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads or writes, again after each signal.
fn until_done(mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
            done => return done,
        }
    }
}
