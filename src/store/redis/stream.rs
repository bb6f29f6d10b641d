//! The socket of a connection: it limits how many bytes a server may answer, and is shut down when it is dropped.

use std::io;
#[cfg(unix)]
use std::os::fd::AsFd as Socket;
#[cfg(windows)]
use std::os::windows::io::AsSocket as Socket;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use redis::ConnectionAddr;
use redis::aio::AsyncStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::address::Address;
use crate::store::server::server_builder::Target;
use crate::time::{clock::Clock, clock::moment::Moment};

/// A socket that reads no more bytes than it is allowed.
struct LimitedSocket<S: Socket> {
    socket: S,
    allowance: Arc<AtomicUsize>,
}

impl<S: Socket + AsyncRead + Unpin> AsyncRead for LimitedSocket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        let read = buf.filled().len() - before;
        let left = self.allowance.load(Ordering::Relaxed).checked_sub(read);
        self.allowance.store(left.unwrap_or(0), Ordering::Relaxed);
        Poll::Ready(left.map(drop).ok_or_else(|| io::Error::other("the answer has no end")))
    }
}

impl<S: Socket + AsyncWrite + Unpin> AsyncWrite for LimitedSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// To close the socket is not enough: a forked child may have it open, too.
impl<S: Socket> Drop for LimitedSocket<S> {
    fn drop(&mut self) {
        #[cfg(unix)]
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both); // The server may have closed it first.
    }
}

/// Connects to the server, and reads at most as many bytes as `allowance` says.
pub(super) async fn connect(
    target: &Target<Address>,
    until: Moment,
    allowance: &Arc<AtomicUsize>,
) -> io::Result<Pin<Box<dyn AsyncStream + Send>>> {
    let allowance = Arc::clone(allowance);
    match target.address.info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let socket = LimitedSocket { socket: connect_tcp(host, *port, until).await?, allowance };
            #[cfg(feature = "redis-tls")]
            if target.address.is_encrypted {
                let name = rustls::pki_types::ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let tls = tokio_rustls::TlsConnector::from(target.tls.config()?);
                return Ok(Box::pin(tls.connect(name, socket).await?));
            }
            Ok(Box::pin(socket))
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            Ok(Box::pin(LimitedSocket { socket: tokio::net::UnixStream::connect(path).await?, allowance }))
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
