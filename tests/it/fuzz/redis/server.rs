//! The server: it reads whole requests, and sends the next scripted reply for each.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use soloist::FencingToken;

use super::reply::{End, GRANTED, Manners, Turn, is_granted_in};
use crate::servers::resp;
use crate::support::{PATIENCE, until};

pub(super) struct Hostile {
    address: SocketAddr,
    play: Arc<Mutex<Play>>,
}

/// The replies, repeated from the beginning.
struct Play {
    manners: Manners,
    turns: Vec<Turn>,
    next: usize,
    /// The bytes on each connection, after the reply that lets a client in.
    said: Vec<Arc<Mutex<Vec<u8>>>>,
    /// The channels of connections that wait for their cue: each sends a grant then, and reports its arrival.
    cues: Vec<Sender<Sender<()>>>,
}

impl Play {
    fn of(manners: Manners, turns: &[Turn]) -> Self {
        Self { manners, turns: turns.to_vec(), next: 0, said: Vec::new(), cues: Vec::new() }
    }
}

impl Hostile {
    pub(super) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let play = Arc::new(Mutex::new(Play::of(Manners::Polite, &[])));
        let shared = Arc::clone(&play);
        // Until the process ends.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let play = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &play));
            }
        });
        Self { address, play }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(super) fn play(&self, manners: Manners, turns: &[Turn]) {
        *self.play.lock().expect("nothing panics while it is held") = Play::of(manners, turns);
    }

    /// Returns whether this token was granted since the play began.
    pub(super) fn has_granted(&self, token: FencingToken) -> bool {
        let play = self.play.lock().expect("nothing panics while it is held");
        play.said.iter().any(|said| is_granted_in(&said.lock().expect("nothing panics while it is held"), token))
    }

    /// Sends a grant on a connection without a request, and returns when it has arrived unread.
    #[track_caller]
    pub(super) fn grant_unasked(&self) {
        let cue = self.play.lock().expect("nothing panics while it is held").cues.pop().expect("it has answered");
        let (told, done) = mpsc::channel();
        cue.send(told).expect("it waits");
        done.recv_timeout(PATIENCE).expect("it arrives");
    }
}

fn serve(stream: TcpStream, play: &Mutex<Play>) -> Option<()> {
    let mut out = Out::new(&stream, play).ok()?;
    let mut requests = BufReader::new(stream);
    let mut is_set_up = false;
    loop {
        let request = resp::frame(&mut requests).ok()?;
        let words = resp::words(&request);
        let (turn, cue) = {
            let mut play = play.lock().expect("nothing panics while it is held");
            let polite = if play.manners == Manners::Polite && !is_set_up { set_up(&words) } else { None };
            if let Some(reply) = polite {
                is_set_up = true;
                drop(play);
                out.stream.write_all(reply).ok()?;
                continue;
            }
            let at = play.next % play.turns.len();
            play.next += 1;
            let turn = play.turns[at].clone();
            let (cue, awaited) = mpsc::channel();
            if turn.end == End::Granting {
                play.cues.push(cue); // before the first reply
            }
            (turn, awaited)
        };
        out.say(&turn.reply.0).ok()?;
        match turn.end {
            End::None => {}
            End::Close => return None,
            End::Granting => {
                let told: Sender<()> = cue.recv().ok()?;
                out.say(GRANTED).ok()?;
                until(|| has_arrived(&out.stream)).ok()?;
                told.send(()).ok()?;
            }
            End::Silence => while resp::frame(&mut requests).is_ok() {},
            End::Endless => {
                let piece = if turn.reply.0.is_empty() { b"*1\r\n" } else { &turn.reply.0[..] };
                let piece = piece.repeat(1 + 4_096 / piece.len());
                // Repetitions add no new grant.
                out.say(&piece).ok()?;
                loop {
                    out.stream.write_all(&piece).ok()?;
                }
            }
        }
    }
}

/// A connection to a client that records its replies.
struct Out {
    stream: TcpStream,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Out {
    fn new(stream: &TcpStream, play: &Mutex<Play>) -> io::Result<Self> {
        let stream = stream.try_clone()?;
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        let said = Arc::default();
        play.lock().expect("nothing panics while it is held").said.push(Arc::clone(&said));
        Ok(Self { stream, said })
    }

    fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.said.lock().expect("nothing panics while it is held").extend(bytes);
        self.stream.write_all(bytes)
    }
}

/// Returns whether the other end has unread bytes, by the kernel's table of connections, or has closed the connection,
/// as a store does with an idle one after a while.
fn has_arrived(stream: &TcpStream) -> bool {
    const ESTABLISHED: &str = "01";

    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let Ok(there) = stream.peer_addr().map(port) else { return true }; // The other end has reset the connection.
    let here = stream.local_addr().map(port).expect("it is connected");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("there is one");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut of_the_other = rows.filter(|row| row.len() > 4 && row[1].ends_with(&there) && row[2].ends_with(&here));
    of_the_other.next().is_none_or(|row| row[3] != ESTABLISHED || !row[4].ends_with(":00000000"))
}

/// Returns the reply to a command that sets up a connection.
fn set_up(words: &[String]) -> Option<&'static [u8]> {
    match &*words[0] {
        "TIME" => Some(b"*2\r\n$10\r\n1772366400\r\n$6\r\n000000\r\n"),
        _ => None,
    }
}
