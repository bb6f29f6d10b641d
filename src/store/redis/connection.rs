//! One connection to a Redis server: set up in one round trip, and asked with several commands at once.

use std::io::{self, Write};

use redis::{Cmd, Parser, Value, cmd};

use super::address::Target;
use super::script;
use super::server_error::{is_a_sentinel, is_unknown, refused};
use super::stream::Stream;
use crate::store::remote::failure::{Failure, makes_no_sense};
use crate::store::{remote::server::Connect, remote::server_clock::ServerClock};
use crate::time::clock::moment::Moment;

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
        // A server without room says so, and goes.
        let (mut answers, end) = connection.hear_all(&commands, until);
        answers.truncate(needed);
        let errors = || {
            answers.iter().filter_map(|answer| match answer {
                Value::ServerError(error) => Some(error),
                _ => None,
            })
        };
        if errors().any(is_unknown) && connection.is_to_a_sentinel(until) {
            return Err(is_a_sentinel());
        }
        if let Some(error) = errors().next() {
            return Err(refused(error).undone());
        }
        if let Some(end) = end {
            return Err(Failure::not_asked(end).while_connecting("maxclients"));
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
        let (answers, end) = self.hear_all(commands, until);
        end.map_or(Ok(answers), Err)
    }

    /// The same; and what was answered before an error ended it.
    fn hear_all(&mut self, commands: &Commands, until: Moment) -> (Vec<Value>, Option<io::Error>) {
        self.stream.give_until(until);
        let mut end = self.stream.write_all(&commands.packed).and_then(|()| self.stream.flush()).err();
        // One for each question: what it has read beyond the last answer is no answer to the next.
        let mut parser = Parser::new();
        let mut answers = Vec::with_capacity(commands.count);
        while end.is_none() && answers.len() < commands.count {
            match hear(&mut parser, &mut self.stream) {
                Ok(answer) => answers.push(answer),
                Err(error) => end = Some(error),
            }
        }
        (answers, end)
    }

    fn is_to_a_sentinel(&mut self, until: Moment) -> bool {
        let mut commands = Commands::default();
        commands.push(&cmd("ROLE"));
        let (answers, _) = self.hear_all(&commands, until);
        let [Value::Array(role)] = &answers[..] else { return false };
        role.first().is_some_and(|role| *role == Value::BulkString(b"sentinel".to_vec()))
    }
}

fn hear(parser: &mut Parser, stream: &mut Stream) -> io::Result<Value> {
    parser.parse_value(stream).map_err(|error| {
        if error.is_timeout() {
            io::ErrorKind::TimedOut.into()
        } else if error.is_connection_dropped() {
            io::ErrorKind::UnexpectedEof.into()
        } else {
            let said = error.to_string().lines().collect::<Vec<_>>().join(", ");
            if error.is_io_error() {
                return io::Error::other(said);
            }
            io::Error::new(io::ErrorKind::InvalidData, makes_no_sense(&said, "redis"))
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
