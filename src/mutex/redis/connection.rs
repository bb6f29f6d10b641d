//! One connection: set up in one round trip, and asked with several commands at once.

use std::io::{self, Write};

use redis::{Cmd, Parser, Value, cmd};

use super::address::Target;
use super::failure::refused;
use super::script;
use super::stream::Stream;
use crate::clock::Moment;
use crate::mutex::remote::{Connect, Failure, ServerClock};

pub(super) struct Connection {
    stream: Stream,
    clock: ServerClock,
}

impl Connect for Connection {
    type Target = Target;

    /// Leaves the scripts with the server, too.
    fn open(target: &Target, until: Moment) -> Result<Self, Failure> {
        let stream = Stream::open(target, until).map_err(Failure::not_asked)?;
        let mut connection = Self { stream, clock: ServerClock::read(0) };
        let address = &target.address;
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
                return Err(refused(error).undone());
            }
        }
        let time = script::time(answers.pop().unwrap_or_default())?;
        connection.clock = ServerClock::read(time.timestamp_micros());
        Ok(connection)
    }

    fn is_closed(&mut self) -> bool {
        self.stream.is_spoilt()
    }
}

impl Connection {
    pub(super) fn clock(&mut self) -> &mut ServerClock {
        &mut self.clock
    }

    /// Sends all commands and hears all answers; `until` ends it, however little is missing.
    pub(super) fn ask(&mut self, commands: &Commands, until: Moment) -> io::Result<Vec<Value>> {
        self.stream.give_until(until);
        self.stream.write_all(&commands.packed)?;
        self.stream.flush()?;
        // One for each question: what it has read beyond the last answer is no answer to the next.
        let mut parser = Parser::new();
        (0..commands.count).map(|_| hear(&mut parser, &mut self.stream)).collect()
    }
}

fn hear(parser: &mut Parser, stream: &mut Stream) -> io::Result<Value> {
    parser.parse_value(stream).map_err(|error| {
        if error.is_timeout() {
            io::ErrorKind::TimedOut.into()
        } else if error.is_connection_dropped() {
            io::ErrorKind::UnexpectedEof.into()
        } else {
            let what = if error.is_io_error() { "" } else { "the answer makes no sense; is it a redis server? " };
            let error = error.to_string().lines().collect::<Vec<_>>().join(", ");
            io::Error::other(format!("{what}{error}"))
        }
    })
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
