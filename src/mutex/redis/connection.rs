//! One connection: set up in one round trip, and asked with several commands at once.

use std::io::{self, Write};

use chrono::{DateTime, Utc};
use redis::{Cmd, Parser, Value, cmd};

use super::failure::Failure;
use super::script;
use super::server::Server;
use super::stream::Stream;
use crate::clock::{Clock, Moment};

pub(super) struct Connection {
    stream: Stream,
    parser: Parser,
    clock: ServerClock,
    /// Whether it was just made, and never at rest.
    fresh: bool,
    /// Whether it is not to be used again.
    spoilt: bool,
}

impl Connection {
    /// Connects, logs in, and leaves the scripts with the server. Whatever goes wrong, nothing was asked.
    pub(super) fn open(server: &Server, until: Moment) -> Result<Self, Failure> {
        let stream = Stream::open(server, until).map_err(Failure::not_asked)?;
        let mut connection =
            Self { stream, parser: Parser::new(), clock: ServerClock::read(0), fresh: true, spoilt: false };
        let address = &server.address;
        let mut commands = Commands::default();
        if let Some(password) = &address.password {
            commands.push(cmd("AUTH").arg(address.user.as_deref()).arg(&**password));
        }
        if address.database != 0 {
            commands.push(cmd("SELECT").arg(address.database));
        }
        for script in script::ALL {
            commands.push(&script.load());
        }
        commands.push(&cmd("TIME"));
        let needed = commands.count;
        // Only for people who list the clients of their server; older ones refuse it.
        commands.push(cmd("CLIENT").arg("SETINFO").arg("LIB-NAME").arg("soloist"));
        commands.push(cmd("CLIENT").arg("SETINFO").arg("LIB-VER").arg(env!("CARGO_PKG_VERSION")));
        let mut answers = connection.ask(&commands, until).map_err(Failure::not_asked)?;
        answers.truncate(needed);
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                return Err(Failure::refused(error.clone()).while_connecting());
            }
        }
        let time = script::time(answers.pop().unwrap_or_default())?;
        connection.clock = ServerClock::read(time.timestamp_micros());
        Ok(connection)
    }

    pub(super) fn clock(&mut self) -> &mut ServerClock {
        &mut self.clock
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Keeps it from being used again: another may lead to a server that is in a better state.
    pub(super) fn spoil(&mut self) {
        self.spoilt = true;
    }

    pub(super) fn is_spoilt(&self) -> bool {
        self.spoilt
    }

    /// Whether it ended while it was at rest. What is sent on one that has not may still be lost.
    pub(super) fn is_closed(&self) -> bool {
        self.stream.is_closed()
    }

    /// The same, from now on at rest.
    pub(super) fn rested(self) -> Self {
        Self { fresh: false, ..self }
    }

    /// Sends all commands and hears all answers; `until` ends it, however little is missing.
    pub(super) fn ask(&mut self, commands: &Commands, until: Moment) -> io::Result<Vec<Value>> {
        self.stream.give_until(until);
        self.stream.write_all(&commands.packed)?;
        self.stream.flush()?;
        (0..commands.count).map(|_| self.hear()).collect()
    }

    fn hear(&mut self) -> io::Result<Value> {
        self.parser.parse_value(&mut self.stream).map_err(|error| {
            if error.is_timeout() {
                io::ErrorKind::TimedOut.into()
            } else if error.is_connection_dropped() {
                io::ErrorKind::UnexpectedEof.into()
            } else {
                let what = if error.is_io_error() { "" } else { "the answer makes no sense; is it a redis server? " };
                io::Error::other(format!("{what}{error}"))
            }
        })
    }
}

/// Commands that are sent one behind the other.
#[derive(Default)]
pub(super) struct Commands {
    packed: Vec<u8>,
    count: usize,
}

impl Commands {
    pub(super) fn push(&mut self, command: &Cmd) {
        command.write_packed_command(&mut self.packed);
        self.count += 1;
    }
}

/// What a server's clock showed, and when it had been heard: later than it was read, so that its time is never taken
/// for later than it is.
#[derive(Clone, Copy)]
pub(super) struct ServerClock {
    micros: i64,
    heard: Moment,
}

impl ServerClock {
    pub(super) fn read(micros: i64) -> Self {
        Self { micros, heard: Clock::system().moment() }
    }

    /// The server's time at a moment of ours, in microseconds.
    pub(super) fn at(self, moment: Moment) -> i64 {
        let later = i64::try_from(moment.since(self.heard).as_micros()).unwrap_or(i64::MAX);
        self.micros.saturating_add(later)
    }

    pub(super) fn now(self) -> DateTime<Utc> {
        instant(self.at(Clock::system().moment()))
    }
}

pub(super) fn instant(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or(DateTime::UNIX_EPOCH)
}
