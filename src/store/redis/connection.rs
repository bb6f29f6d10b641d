//! One connection to a Redis server: set up in one round trip, and asked with several commands at once.

use std::io;

use redis::{Cmd, Parser, RedisError, Value, cmd};

use super::address::Address;
use super::script;
use super::server_error::is_unknown;
use super::stream::{Stream, connect};
use crate::store::remote::driver_runtime::DriverRuntime;
use crate::store::remote::engine::ServerConnection;
use crate::store::remote::failure::{Failure, makes_no_sense};
use crate::store::remote::server_builder::Target;
use crate::store::remote::server_clock::ServerClock;
use crate::time::clock::moment::Moment;

pub(super) struct Connection {
    stream: Box<dyn Stream>,
    pub(super) clock: ServerClock,
}

impl ServerConnection for Connection {
    type Address = Address;

    /// Leaves the scripts with the server, too.
    fn open(target: &Target<Address>, until: Moment) -> Result<Self, Failure> {
        let not_connected = |error| Failure::not_asked(error).while_connecting("maxclients");
        let runtime = DriverRuntime::new().map_err(Failure::not_asked)?;
        let stream = runtime.until(until, connect(target, until)).flatten().map_err(not_connected)?;
        let mut connection = Self { stream, clock: ServerClock::read(0) };
        let login = target.address.info.redis_settings();
        let auth = login.password().map(|password| cmd("AUTH").arg(login.username()).arg(password).take());
        let select = (login.db() != 0).then(|| cmd("SELECT").arg(login.db()).take());
        let scripts = script::ALL.iter().map(|script| script.load());
        let mut commands: Vec<Cmd> = auth.into_iter().chain(select).chain(scripts).chain([cmd("TIME")]).collect();
        let needed = commands.len();
        // Only for people who list the clients of their server; older ones refuse it.
        for (attribute, value) in [("LIB-NAME", "soloist"), ("LIB-VER", env!("CARGO_PKG_VERSION"))] {
            commands.push(cmd("CLIENT").arg("SETINFO").arg(attribute).arg(value).take());
        }
        // A server without room says so, and goes.
        let (mut answers, end) = connection.hear_all(&commands, until);
        answers.truncate(needed);
        if answers.iter().any(is_unknown) && connection.is_to_a_sentinel(until) {
            let what = "this is a Redis Sentinel: connect to the primary that it watches";
            return Err(Failure::not_asked(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        let answers = answers.into_iter().map(script::unless_refused).collect::<Result<Vec<_>, _>>();
        let mut answers = answers.map_err(Failure::undone)?;
        end.map_err(not_connected)?;
        let time = script::time(&answers.pop().unwrap_or_default())?;
        connection.clock = ServerClock::read(time.timestamp_micros());
        Ok(connection)
    }

    fn is_closed(&mut self) -> bool {
        self.stream.socket().is_spoilt()
    }
}

impl Connection {
    /// Sends all commands and hears all answers; `until` ends it, however little is missing.
    pub(super) fn ask(&mut self, commands: &[Cmd], until: Moment) -> Result<Vec<Value>, Failure> {
        let (answers, end) = self.hear_all(commands, until);
        end.map(|()| answers).map_err(Failure::unanswered)
    }

    /// The same; and what was answered before an error ended it.
    fn hear_all(&mut self, commands: &[Cmd], until: Moment) -> (Vec<Value>, io::Result<()>) {
        self.stream.socket().give_until(until);
        let packed = commands.iter().map(Cmd::get_packed_command).collect::<Vec<_>>().concat();
        let sent = self.stream.write_all(&packed).and_then(|()| self.stream.flush());
        // One for each question: what it has read beyond the last answer is no answer to the next.
        let (mut parser, mut answers) = (Parser::new(), Vec::with_capacity(commands.len()));
        let parse = |_| parser.parse_value(&mut *self.stream).map(|answer| answers.push(answer));
        let end = sent.and_then(|()| commands.iter().try_for_each(parse).map_err(|error| not_heard(&error)));
        (answers, end)
    }

    fn is_to_a_sentinel(&mut self, until: Moment) -> bool {
        let (answers, _) = self.hear_all(&[cmd("ROLE")], until);
        let [Value::Array(role)] = &answers[..] else { return false };
        role.first().is_some_and(|role| *role == Value::BulkString(b"sentinel".to_vec()))
    }
}

fn not_heard(error: &RedisError) -> io::Error {
    if error.is_timeout() {
        return io::ErrorKind::TimedOut.into();
    }
    if error.is_connection_dropped() {
        return io::ErrorKind::UnexpectedEof.into();
    }
    let said = error.to_string().lines().collect::<Vec<_>>().join(", ");
    if error.is_io_error() {
        return io::Error::other(said);
    }
    io::Error::new(io::ErrorKind::InvalidData, makes_no_sense(&said, "redis"))
}
