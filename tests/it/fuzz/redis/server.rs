//! The server: it reads whole requests, and answers each with the next of what it was told to.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::reply::{End, GRANTED, Manners, Turn};
use crate::servers::resp;

pub(super) struct Hostile {
    address: SocketAddr,
    play: Arc<Mutex<Play>>,
}

/// What is answered, from its beginning on whenever all has been.
struct Play {
    manners: Manners,
    turns: Vec<Turn>,
    next: usize,
}

impl Hostile {
    pub(super) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let play = Arc::new(Mutex::new(Play { manners: Manners::Polite, turns: Vec::new(), next: 0 }));
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
        *self.play.lock().expect("nothing panics while it is held") = Play { manners, turns: turns.to_vec(), next: 0 };
    }
}

fn serve(stream: TcpStream, play: &Mutex<Play>) -> Option<()> {
    let mut out = stream.try_clone().ok()?;
    out.set_write_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut requests = BufReader::new(stream);
    let mut is_set_up = false;
    loop {
        let request = resp::frame(&mut requests).ok()?;
        let words = resp::words(&request);
        let turn = {
            let mut play = play.lock().expect("nothing panics while it is held");
            let polite = if play.manners == Manners::Polite && !is_set_up { set_up(&words) } else { None };
            if let Some(reply) = polite {
                // The last of what a client says before it asks.
                is_set_up = words.iter().any(|word| word == "LIB-VER");
                drop(play);
                out.write_all(reply).ok()?;
                continue;
            }
            let at = play.next % play.turns.len();
            play.next += 1;
            play.turns[at].clone()
        };
        out.write_all(&turn.reply.0).ok()?;
        match turn.end {
            End::None => {}
            End::Close => return None,
            End::Granting => {
                thread::sleep(Duration::from_millis(20)); // until the answer has been read
                out.write_all(GRANTED).ok()?;
            }
            End::Silence => while resp::frame(&mut requests).is_ok() {},
            End::Endless => loop {
                let piece = if turn.reply.0.is_empty() { b"*1\r\n" } else { &turn.reply.0[..] };
                out.write_all(&piece.repeat(1 + 4_096 / piece.len())).ok()?;
            },
        }
    }
}

/// What a server answers that lets a client in.
fn set_up(words: &[String]) -> Option<&'static [u8]> {
    match &*words[0] {
        "SCRIPT" => Some(b"$40\r\n0123456789012345678901234567890123456789\r\n"),
        "TIME" => Some(b"*2\r\n$10\r\n1772366400\r\n$6\r\n000000\r\n"),
        "CLIENT" => Some(b"+OK\r\n"),
        _ => None,
    }
}
