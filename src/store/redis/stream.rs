//! A socket on which everything ends in time: the look-up of the name, the connecting, the handshake, each read and
//! each write. The driver's own connection leaves the first and the third without a limit, and starts the others anew
//! with every byte that arrives.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use socket2::Socket;

use super::address::{Endpoint, Target};
use crate::store::remote::server_url::Encryption;
use crate::time::{clock::Clock, clock::moment::Moment};

/// How many bytes are read for one question: many times what a thousand refusals take.
const LONGEST_ANSWER: usize = 8 * 1024 * 1024;

pub(super) enum Stream {
    Plain(TimedSocket),
    #[cfg(feature = "redis-tls")]
    Encrypted(Box<rustls::StreamOwned<rustls::ClientConnection, TimedSocket>>),
}

impl Stream {
    pub(super) fn open(target: &Target, until: Moment) -> io::Result<Self> {
        match &target.address.endpoint {
            #[cfg(unix)]
            Endpoint::Unix(path) => Ok(Self::Plain(TimedSocket::new(connect_unix(path, until)?, until))),
            #[cfg(not(unix))]
            Endpoint::Unix(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no such sockets")),
            Endpoint::Tcp { host, port, encryption } => {
                let socket = connect_tcp(host, *port, until)?;
                socket.set_nodelay(true)?;
                let timed = TimedSocket::new(socket.into(), until);
                match encryption {
                    Encryption::None => Ok(Self::Plain(timed)),
                    #[cfg(feature = "redis-tls")]
                    Encryption::Tls => Ok(Self::Encrypted(Box::new(encrypt(target, host, timed)?))),
                    #[cfg(not(feature = "redis-tls"))]
                    Encryption::Tls => Err(io::Error::new(io::ErrorKind::Unsupported, "there is no TLS in this build")),
                }
            }
        }
    }

    /// Whether nobody should ask here again, as far as this end has heard: the other end has closed it, or said what
    /// nobody asked for, which the next question would get for its answer.
    pub(super) fn is_spoilt(&self) -> bool {
        match self {
            Self::Plain(timed) => timed.readable() != Readable::Nothing,
            // The encryption itself may be told something at any time.
            #[cfg(feature = "redis-tls")]
            Self::Encrypted(stream) => stream.sock.readable() == Readable::End,
        }
    }

    /// Nothing waits beyond `until` from now on, and what is heard until then is not without end.
    pub(super) fn give_until(&mut self, until: Moment) {
        let timed = match self {
            Self::Plain(timed) => timed,
            #[cfg(feature = "redis-tls")]
            Self::Encrypted(stream) => &mut stream.sock,
        };
        (timed.until, timed.allowance) = (until, LONGEST_ANSWER);
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(timed) => timed.read(into),
            #[cfg(feature = "redis-tls")]
            Self::Encrypted(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(timed) => timed.write(bytes),
            #[cfg(feature = "redis-tls")]
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(timed) => timed.flush(),
            #[cfg(feature = "redis-tls")]
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}

/// The handshake takes place with the first byte that is sent.
#[cfg(feature = "redis-tls")]
fn encrypt(
    target: &Target,
    host: &str,
    socket: TimedSocket,
) -> io::Result<rustls::StreamOwned<rustls::ClientConnection, TimedSocket>> {
    let host = rustls::pki_types::ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connection = rustls::ClientConnection::new(target.tls.config()?, host).map_err(io::Error::other)?;
    Ok(rustls::StreamOwned::new(connection, socket))
}

/// A socket and the moment at which whoever uses it stops waiting.
pub(super) struct TimedSocket {
    socket: Socket,
    until: Moment,
    /// How many bytes may still be read.
    allowance: usize,
    /// How long the socket itself waits, for a read and for a write.
    waits: [Option<Duration>; 2],
}

/// What could be read at once.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(unix), expect(dead_code, reason = "this system is not asked"))]
enum Readable {
    Nothing,
    Bytes,
    End,
}

#[derive(Clone, Copy)]
enum Direction {
    In = 0,
    Out = 1,
}

impl TimedSocket {
    fn new(socket: Socket, until: Moment) -> Self {
        Self { socket, until, allowance: LONGEST_ANSWER, waits: [None; 2] }
    }

    #[cfg(unix)]
    fn readable(&self) -> Readable {
        use rustix::io::Errno;
        use rustix::net::{RecvFlags, recv};

        let seen = recv(&self.socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        match seen {
            Ok((1.., _)) => Readable::Bytes,
            Err(Errno::WOULDBLOCK | Errno::INTR) => Readable::Nothing,
            _ => Readable::End,
        }
    }

    #[cfg(not(unix))]
    fn readable(&self) -> Readable {
        Readable::Nothing
    }

    /// Lets the socket wait for as long as is left. That costs a system call, so it is not told of less than a hundredth.
    fn set_wait(&mut self, direction: Direction) -> io::Result<()> {
        let left = left(self.until)?;
        let wait = &mut self.waits[direction as usize];
        if wait.is_some_and(|wait| left <= wait && wait.saturating_sub(left) <= wait / 100) {
            return Ok(());
        }
        *wait = Some(left);
        match direction {
            Direction::In => self.socket.set_read_timeout(*wait),
            Direction::Out => self.socket.set_write_timeout(*wait),
        }
    }
}

/// The server is told at once, although a child process of ours may have the same socket open.
impl Drop for TimedSocket {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both); // One that is closed already is as well.
    }
}

impl Read for TimedSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.set_wait(Direction::In)?;
            let most = into.len().min(self.allowance);
            if most == 0 && !into.is_empty() {
                return Err(io::Error::other("the answer has no end"));
            }
            match self.socket.read(&mut into[..most]) {
                Err(error) if is_pause(&error) => {}
                read => return read.inspect(|read| self.allowance -= read),
            }
        }
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.set_wait(Direction::Out)?;
            match self.socket.write(bytes) {
                Err(error) if is_pause(&error) => {}
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // Nothing is kept here.
    }
}

/// Whether to look at the clock again: a signal, or a system that calls its time-out so.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// How long is left, if anything.
fn left(until: Moment) -> io::Result<Duration> {
    match until.since(Clock::system().moment()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        // A socket counts in microseconds, and takes none of them for "for ever".
        left => Ok(left.max(Duration::from_micros(1))),
    }
}

fn connect_tcp(host: &str, port: u16, until: Moment) -> io::Result<TcpStream> {
    let addresses = look_up(host, port, until)?;
    let mut failed = io::Error::other("the name of the host has no address");
    for (at, address) in addresses.iter().enumerate() {
        // An address that swallows everything leaves time for the next.
        let share = left(until)? / u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        match TcpStream::connect_timeout(address, share.max(Duration::from_micros(1))) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// The system's own look-up knows no time limit, so it is left to a thread that ends whenever it does.
fn look_up(host: &str, port: u16, until: Moment) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let (tell, told) = mpsc::channel();
    let name = host.to_owned();
    thread::Builder::new().name("soloist-look-up".to_owned()).spawn(move || {
        // Nobody listens any more if it took too long.
        let _ = tell.send((&*name, port).to_socket_addrs().map(Iterator::collect));
    })?;
    told.recv_timeout(left(until)?).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(unix)]
fn connect_unix(path: &std::path::Path, until: Moment) -> io::Result<Socket> {
    let socket = Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    socket.connect_timeout(&socket2::SockAddr::unix(path)?, left(until)?)?;
    Ok(socket)
}
