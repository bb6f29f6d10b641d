//! Faults in protocols whose replies the proxy cannot tell apart: the bytes from the server after a message of the
//! client are the reply, until the client's next message.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use super::{Fault, State, dribble, flood};

/// A protocol that the proxy passes on as bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Protocol {
    /// As MariaDB and MySQL speak it: the server begins.
    Mysql,
    Postgres,
}

impl Protocol {
    /// Returns whether this request only sets up a connection.
    pub(super) fn is_set_up(self, request: &[u8]) -> bool {
        let (signs_in, statement) = match self {
            // A command begins a conversation, whose packets are numbered.
            Self::Mysql => (request.get(3) != Some(&0), request.get(5..)),
            // Only the first message is of no kind; the second is a password.
            Self::Postgres => (matches!(request.first(), Some(0 | b'p')), request.get(5..)),
        };
        let statement = String::from_utf8_lossy(statement.unwrap_or_default()).to_uppercase();
        let statement = statement.trim_start_matches('\0');
        // A setting for one transaction is part of a request.
        let sets = statement.starts_with("SET ") && !statement.starts_with("SET LOCAL ");
        let finds_the_schema = statement.contains("PG_CATALOG.CURRENT_SCHEMA()");
        signs_in || sets || finds_the_schema || statement.starts_with("SELECT @@")
    }

    /// Returns the beginning of a reply that is longer than any client waits for.
    fn endless(self, reply: &[u8]) -> Vec<u8> {
        match self {
            Self::Mysql => vec![0xff, 0xff, 0xff, reply.get(3).copied().unwrap_or(1)],
            Self::Postgres => vec![b'D', 0x1f, 0xff, 0xff, 0xff],
        }
    }
}

/// Since the client has last spoken.
#[derive(Default)]
struct Turn {
    fault: Option<Fault>,
    /// The client has spoken at all.
    has_asked: bool,
    is_answered: bool,
}

impl State {
    /// Ends when either of the two ends.
    pub(super) fn pass_on_bytes(&self, protocol: Protocol, client: &TcpStream, server: &TcpStream) -> io::Result<()> {
        let turn = Mutex::new(Turn::default());
        let end = |passed: io::Result<()>| {
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
            passed
        };
        thread::scope(|scope| {
            scope.spawn(|| end(self.pass_on_replies(protocol, client, server, &turn)));
            end(self.pass_on_requests(client, server, &turn))
        })
    }

    fn pass_on_requests(&self, client: &TcpStream, server: &TcpStream, turn: &Mutex<Turn>) -> io::Result<()> {
        while let Some(request) = read(client)? {
            let fault = self.fault_for(&request);
            match fault {
                Some(Fault::Silence) => continue,
                Some(Fault::Cut) => return Ok(()),
                Some(Fault::Answer(bytes)) => {
                    write(client, bytes)?;
                    continue;
                }
                Some(Fault::RequestHeld) => self.wait_until_mended(Fault::RequestHeld),
                _ => {}
            }
            let fault = fault.filter(|fault| !fault.is_before_the_server());
            *lock(turn) = Turn { fault, has_asked: true, is_answered: false };
            write(server, &request)?;
        }
        Ok(())
    }

    fn pass_on_replies(
        &self,
        protocol: Protocol,
        client: &TcpStream,
        server: &TcpStream,
        turn: &Mutex<Turn>,
    ) -> io::Result<()> {
        while let Some(reply) = read(server)? {
            let fault = self.fault_for_reply(&mut lock(turn));
            let half = &reply[..reply.len() / 2];
            match fault {
                Some(Fault::Silence | Fault::ReplyLost) => {}
                Some(Fault::Cut | Fault::ReplyCut) => return Ok(()),
                Some(Fault::Answer(bytes)) => write(client, bytes)?,
                Some(Fault::HalfAReply) => {
                    write(client, half)?;
                    lock(turn).fault = Some(Fault::ReplyLost);
                }
                Some(Fault::ReplyCutInHalf) => return write(client, half),
                Some(Fault::Dribble) => return dribble(client, &protocol.endless(&reply)),
                Some(Fault::Endless) => return flood(client, &protocol.endless(&reply)),
                Some(fault @ (Fault::ReplyHeld | Fault::RequestHeld)) => {
                    self.wait_until_mended(fault);
                    write(client, &reply)?;
                }
                Some(Fault::HalfClosed) => {
                    client.shutdown(Shutdown::Write)?;
                    // Replies to later requests are lost, too.
                    lock(turn).fault = Some(Fault::ReplyLost);
                }
                None => {
                    self.let_latency_pass();
                    write(client, &reply)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the fault of these bytes of a reply, or of a greeting, if the server begins.
    fn fault_for_reply(&self, turn: &mut Turn) -> Option<Fault> {
        let first = !std::mem::replace(&mut turn.is_answered, true);
        self.change(|inner| {
            if first && !turn.has_asked {
                turn.fault = inner.fault.filter(|_| inner.from_the_start);
            }
            inner.replies += usize::from(first);
            inner.met += usize::from(first && turn.fault.is_some());
        });
        turn.fault
    }
}

/// Reads the next bytes that arrive. `None`: the end.
fn read(mut from: &TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; 1 << 16];
    let count = from.read(&mut bytes)?;
    bytes.truncate(count);
    Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
}

fn write(mut to: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)
}

fn lock(turn: &Mutex<Turn>) -> MutexGuard<'_, Turn> {
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}
