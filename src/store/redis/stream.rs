//! A socket on which everything ends in time: the look-up of the host, the connecting, the handshake, each read and each
//! write. The driver's own connection starts its time limit anew with every byte that arrives.
//!
//! The driver can speak through a stream of ours, too: its asynchronous connection, which the thread that asks drives. On
//! loopback, call by call and in turns, that took 1.12 times as long as a plain socket (26.5 against 23.7 µs), which is as fast
//! as the driver's blocking client.

use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use redis::ConnectionAddr;
use socket2::Socket;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::address::Address;
use crate::store::remote::server_builder::Target;
use crate::time::{clock::Clock, clock::moment::Moment};

/// How many bytes are read for one question: many times what a thousand refusals take.
const LONGEST_ANSWER: usize = 8 * 1024 * 1024;

/// A socket, with or without TLS.
pub(super) trait Stream: Read + Write + Send {
    fn socket(&mut self) -> &mut TimedSocket;
}

impl Stream for TimedSocket {
    fn socket(&mut self) -> &mut TimedSocket {
        self
    }
}

#[cfg(feature = "redis-tls")]
impl Stream for rustls::StreamOwned<rustls::ClientConnection, TimedSocket> {
    fn socket(&mut self) -> &mut TimedSocket {
        &mut self.sock
    }
}

/// A socket, and the moment at which whoever uses it stops waiting.
pub(super) struct TimedSocket {
    socket: Socket,
    is_encrypted: bool,
    until: Moment,
    /// How long the system lets one read or write wait. To change that costs more than to look at a clock.
    waits: Duration,
    /// How many bytes may still be read.
    allowance: usize,
}

impl TimedSocket {
    /// Nothing waits beyond `until` from now on, and what is heard until then is not without end.
    pub(super) fn give_until(&mut self, until: Moment) {
        (self.until, self.allowance) = (until, LONGEST_ANSWER);
        let left = until.since(Clock::system().moment());
        if self.waits < left / 16 {
            self.waits = Duration::MAX; // It is set by the first read or write.
        }
    }

    /// Whether nobody should ask here again, as far as this end has heard: the other end has closed it, or said what nobody
    /// asked for, which the next question would get for its answer. The encryption itself may be told something at any time.
    #[cfg(unix)]
    pub(super) fn is_spoilt(&self) -> bool {
        use rustix::io::Errno;
        use rustix::net::{RecvFlags, recv};

        match recv(&self.socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((1.., _)) => !self.is_encrypted,
            seen => !matches!(seen, Err(Errno::WOULDBLOCK | Errno::INTR)),
        }
    }

    #[cfg(not(unix))]
    pub(super) fn is_spoilt(&self) -> bool {
        false
    }

    /// Reads or writes, for as long as is left. A wait is shorter than that, so that one length of it serves many calls: whoever
    /// wakes up too early waits again.
    fn in_time(&mut self, mut step: impl FnMut(&Socket) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            let left = self.until.since(Clock::system().moment());
            if left.is_zero() {
                return Err(TimedOut.into());
            }
            if self.waits > left {
                self.waits = if self.waits == Duration::MAX { left / 4 } else { left };
                // A socket counts in microseconds, and takes none of them for "for ever".
                let waits = Some(self.waits.max(Duration::from_micros(1)));
                self.socket.set_read_timeout(waits)?;
                self.socket.set_write_timeout(waits)?;
            }
            match step(&self.socket) {
                // A signal, or a system that calls its time-out so.
                Err(error) if matches!(error.kind(), Interrupted | WouldBlock | TimedOut) => {}
                done => return done,
            }
        }
    }
}

impl Read for TimedSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.allowance);
        if most == 0 && !into.is_empty() {
            return Err(io::Error::other("the answer has no end"));
        }
        let read = self.in_time(|mut socket| socket.read(&mut into[..most]))?;
        self.allowance -= read;
        Ok(read)
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.in_time(|mut socket| socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // Nothing is kept here.
    }
}

/// The server is told at once, although a child process of ours may have the same socket open.
impl Drop for TimedSocket {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both); // One that is closed already is as well.
    }
}

/// Connects; the handshake of TLS takes place with the first byte that is sent. The system has such a socket only where it
/// has the address.
pub(super) async fn connect(target: &Target<Address>, until: Moment) -> io::Result<Box<dyn Stream>> {
    let timed = |socket: Socket| {
        socket.set_nonblocking(false)?;
        let is_encrypted = target.address.is_encrypted;
        Ok::<_, io::Error>(TimedSocket { socket, is_encrypted, until, waits: Duration::MAX, allowance: LONGEST_ANSWER })
    };
    match target.address.info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let socket = timed(connect_tcp(host, *port, until).await?.into_std()?.into())?;
            #[cfg(feature = "redis-tls")]
            if target.address.is_encrypted {
                let name = rustls::pki_types::ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let tls = rustls::ClientConnection::new(target.tls.config()?, name).map_err(io::Error::other)?;
                return Ok(Box::new(rustls::StreamOwned::new(tls, socket)));
            }
            Ok(Box::new(socket))
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let socket = tokio::net::UnixStream::connect(path).await?.into_std()?;
            Ok(Box::new(timed(socket.into())?))
        }
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no such sockets")),
    }
}

async fn connect_tcp(host: &str, port: u16, until: Moment) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    let mut failed = io::Error::other("the name of the host has no address");
    for (at, address) in addresses.iter().enumerate() {
        // An address that swallows everything leaves time for the next.
        let left = until.since(Clock::system().moment());
        let share = left / u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        match timeout(share, TcpStream::connect(address)).await.map_err(io::Error::from).flatten() {
            Ok(socket) => return socket.set_nodelay(true).map(|()| socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
