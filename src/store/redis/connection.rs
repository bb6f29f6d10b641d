//! One connection to a Redis server: set up in one round trip, and asked with several commands at once.

use std::io;
use std::mem;

use redis::{Cmd, Parser, RedisError, Value, cmd};

use super::address::Address;
use super::script;
use super::server_error::{is_missing_script, is_unknown};
use super::stored_script::CARRY_OUT;
use super::stream::{Stream, connect};
use super::trip::Trip;
use crate::store::remote::driver_runtime::DriverRuntime;
use crate::store::remote::engine::ServerConnection;
use crate::store::remote::failure::{Failure, makes_no_sense};
use crate::store::remote::server_builder::Target;
use crate::store::remote::server_clock::ServerClock;
use crate::time::clock::moment::Moment;

pub(super) struct Connection {
    stream: Box<dyn Stream>,
    /// The next request. Its memory is used again.
    trip: Trip,
    pub(super) clock: ServerClock,
}

impl ServerConnection for Connection {
    type Address = Address;

    /// Leaves the script that each run needs with the server, too.
    fn open(target: &Target<Address>, until: Moment) -> Result<Self, Failure> {
        let not_connected = |error| Failure::not_asked(error).while_connecting("maxclients");
        let runtime = DriverRuntime::new().map_err(Failure::not_asked)?;
        let stream = runtime.until(until, connect(target, until)).flatten().map_err(not_connected)?;
        let mut connection = Self { stream, trip: Trip::default(), clock: ServerClock::read(0) };
        let login = target.address.info.redis_settings();
        let auth = login.password().map(|password| cmd("AUTH").arg(login.username()).arg(password).take());
        let select = (login.db() != 0).then(|| cmd("SELECT").arg(login.db()).take());
        let mut commands: Vec<Cmd> = auth.into_iter().chain(select).chain([CARRY_OUT.load(), cmd("TIME")]).collect();
        let needed = commands.len();
        // Only for people who list the clients of their server; older ones refuse it.
        for (attribute, value) in [("LIB-NAME", "soloist"), ("LIB-VER", env!("CARGO_PKG_VERSION"))] {
            commands.push(cmd("CLIENT").arg("SETINFO").arg(attribute).arg(value).take());
        }
        // A server without room says so, and goes.
        let (mut answers, end) =
            connection.hear_all(until, |trip| commands.iter().for_each(|command| trip.push(command)));
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
    /// Sends what `write` writes, and hears the answers; `until` ends it, however little is missing. A script that the server
    /// does not have is loaded, in another trip.
    pub(super) fn ask(&mut self, until: Moment, write: impl FnOnce(&mut Trip)) -> Result<Vec<Value>, Failure> {
        let (mut answers, end) = self.hear_all(until, write);
        end.map_err(Failure::unanswered)?;
        let calls: Vec<usize> = (0..answers.len()).filter(|at| is_missing_script(&answers[*at])).collect();
        if !calls.is_empty() {
            let (again, scripts) = self.trip.with_scripts(&calls);
            let (mut loaded, end) = self.exchange(&again, until);
            end.map_err(Failure::unanswered)?;
            let called = loaded.split_off(scripts);
            let refused = loaded.into_iter().find(|answer| matches!(answer, Value::ServerError(_)));
            for (at, answer) in calls.into_iter().zip(called) {
                answers[at] = refused.clone().unwrap_or(answer);
            }
        }
        Ok(answers)
    }

    /// The answers, and the error if one ended it before all were there.
    fn hear_all(&mut self, until: Moment, write: impl FnOnce(&mut Trip)) -> (Vec<Value>, io::Result<()>) {
        let mut trip = mem::take(&mut self.trip);
        trip.clear();
        write(&mut trip);
        let heard = self.exchange(&trip, until);
        self.trip = trip;
        heard
    }

    fn exchange(&mut self, trip: &Trip, until: Moment) -> (Vec<Value>, io::Result<()>) {
        self.stream.socket().give_until(until);
        let sent = self.stream.write_all(trip.bytes()).and_then(|()| self.stream.flush());
        // One for each trip: what it has read beyond the last answer is no answer to the next question.
        let (mut parser, mut answers) = (Parser::new(), Vec::with_capacity(trip.len()));
        let mut parse = |_| parser.parse_value(&mut *self.stream).map(|answer| answers.push(answer));
        let end = sent.and_then(|()| (0..trip.len()).try_for_each(&mut parse).map_err(|error| not_heard(&error)));
        (answers, end)
    }

    fn is_to_a_sentinel(&mut self, until: Moment) -> bool {
        let (answers, _) = self.hear_all(until, |trip| trip.push(&cmd("ROLE")));
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
