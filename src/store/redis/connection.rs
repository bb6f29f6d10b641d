//! One connection to a Redis server: set up in one round trip, and asked with several commands at once.

use std::io::{self, Write};
use std::mem;

use redis::{Cmd, Parser, Value};

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
    /// Empty between two questions.
    commands: Commands,
}

impl Connect for Connection {
    type Target = Target;

    /// Leaves the scripts with the server, too.
    fn open(target: &Target, until: Moment) -> Result<Self, Failure> {
        let stream = Stream::open(target, until).map_err(Failure::not_asked)?;
        let (clock, mut commands) = (ServerClock::read(0), Commands::default());
        let address = &target.address;
        if let Some(password) = &address.password {
            commands.next().arg("AUTH").arg(address.user.as_deref()).arg(&**password);
        }
        if address.database != 0 {
            commands.next().arg("SELECT").arg(address.database);
        }
        for script in script::ALL {
            script.load(commands.next());
        }
        commands.next().arg("TIME");
        let needed = commands.count + 1;
        // Only for people who list the clients of their server; older ones refuse it.
        commands.next().arg("CLIENT").arg("SETINFO").arg("LIB-NAME").arg("soloist");
        commands.next().arg("CLIENT").arg("SETINFO").arg("LIB-VER").arg(env!("CARGO_PKG_VERSION"));
        let mut connection = Self { stream, clock, commands };
        // A server without room says so, and goes.
        let (mut answers, end) = connection.hear_all(until);
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

    /// What is asked next.
    pub(super) fn commands(&mut self) -> &mut Commands {
        &mut self.commands
    }

    /// Sends all commands and hears all answers; `until` ends it, however little is missing.
    pub(super) fn ask(&mut self, until: Moment) -> io::Result<Vec<Value>> {
        let (answers, end) = self.hear_all(until);
        end.map_or(Ok(answers), Err)
    }

    /// The same; and what was answered before an error ended it.
    fn hear_all(&mut self, until: Moment) -> (Vec<Value>, Option<io::Error>) {
        self.stream.give_until(until);
        self.commands.pack();
        let count = mem::take(&mut self.commands.count);
        let mut end = self.stream.write_all(&self.commands.packed).and_then(|()| self.stream.flush()).err();
        self.commands.packed.clear();
        // One for each question: what it has read beyond the last answer is no answer to the next.
        let mut parser = Parser::new();
        let mut answers = Vec::with_capacity(count);
        while end.is_none() && answers.len() < count {
            match hear(&mut parser, &mut self.stream) {
                Ok(answer) => answers.push(answer),
                Err(error) => end = Some(error),
            }
        }
        (answers, end)
    }

    fn is_to_a_sentinel(&mut self, until: Moment) -> bool {
        self.commands.next().arg("ROLE");
        let (answers, _) = self.hear_all(until);
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

/// Commands that are sent one behind the other. Their memory serves all questions on a connection.
#[derive(Default)]
pub(super) struct Commands {
    packed: Vec<u8>,
    count: usize,
    last: Cmd,
}

impl Commands {
    /// One more, to be written.
    pub(super) fn next(&mut self) -> &mut Cmd {
        self.pack();
        &mut self.last
    }

    fn pack(&mut self) {
        if self.last.args_iter().len() > 0 {
            self.last.write_packed_command(&mut self.packed);
            self.last.clear();
            self.count += 1;
        }
    }
}
