//! Connections without encryption that send no password in plain text.
//!
//! The driver sends the password to any server that asks for it. Only a connector for TLS can read the server's first
//! message before the driver does. So this module has such a connector, but the connector encrypts nothing. With the
//! negotiation "direct", the driver does not first ask whether the server supports TLS: it calls the connector as soon
//! as the socket is open.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready as when_ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// The first message of a server that asks for the password in plain text: its kind, its length and the request.
/// (<https://www.postgresql.org/docs/current/protocol-message-formats.html>)
const WANTS_PLAIN_TEXT: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];

const REFUSED: &str = "the server wants the password in plain text, and the connection is not encrypted: use \
                       sslmode=require in the url (feature postgres-tls), or scram-sha-256 in the server's pg_hba.conf";

/// The connector. The driver calls it if the configuration requires TLS with a direct negotiation.
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl<S: AsyncRead + AsyncWrite + Unpin> MakeTlsConnect<S> for Plain {
    type Stream = PasswordGuard<S>;
    type TlsConnect = Self;
    type Error = io::Error;

    fn make_tls_connect(&mut self, _host: &str) -> io::Result<Self> {
        Ok(Self)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsConnect<S> for Plain {
    type Stream = PasswordGuard<S>;
    type Error = io::Error;
    type Future = Ready<io::Result<PasswordGuard<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        ready(Ok(PasswordGuard { stream, as_expected: Some(0) }))
    }
}

/// A stream that fails if the server's first message asks for the password in plain text.
pub(super) struct PasswordGuard<S> {
    stream: S,
    /// The number of bytes read so far that match the request for a password, or `None` after a byte that differs.
    as_expected: Option<usize>,
}

impl<S: AsyncRead + Unpin> AsyncRead for PasswordGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        when_ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        if let Some(heard) = self.as_expected {
            let (new, expected) = (&into.filled()[before..], &WANTS_PLAIN_TEXT[heard..]);
            let common = new.len().min(expected.len());
            self.as_expected = (new[..common] == expected[..common]).then_some(heard + common);
            if self.as_expected == Some(WANTS_PLAIN_TEXT.len()) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::PermissionDenied, REFUSED)));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PasswordGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for PasswordGuard<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::runtime::Builder;

    use super::*;

    /// Sends these pieces one after another, and returns the bytes that pass the guard.
    fn heard(pieces: &[&[u8]]) -> io::Result<Vec<u8>> {
        Builder::new_current_thread().build()?.block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(64);
            let mut guarded = Plain.connect(ours).await?;
            let mut heard = Vec::new();
            for piece in pieces {
                theirs.write_all(piece).await?;
                let mut into = [0; 64];
                let count = guarded.read(&mut into).await?;
                heard.extend_from_slice(&into[..count]);
            }
            Ok(heard)
        })
    }

    #[test]
    fn the_request_for_a_plain_password_is_not_heard() {
        let request = WANTS_PLAIN_TEXT;
        let one_by_one: Vec<&[u8]> = request.chunks(1).collect();
        for pieces in [&[&request[..]][..], &[&request[..5], &request[5..]], &one_by_one] {
            let refusal = heard(pieces).unwrap_err();
            assert_eq!((refusal.kind(), refusal.to_string()), (io::ErrorKind::PermissionDenied, REFUSED.to_owned()));
        }
    }

    #[test]
    fn all_else_is_passed_on() {
        let scram = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
        assert_eq!(heard(&[scram]).unwrap(), scram);
        // A later message with the bytes of the request is passed on, because only the server's first message can ask
        // for the password.
        let later = [b"R\0\0\0\x08\0\0\0\0", &WANTS_PLAIN_TEXT[..]].concat();
        assert_eq!(heard(&[&later[..4], &later[4..]]).unwrap(), later);
    }
}
