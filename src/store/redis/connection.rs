//! One connection to a Redis server. It uses the commands and the parser of the driver, but the socket of `stream.rs`.
//!
//! The driver's own connections have no limit for the time of a whole call, and none for the length of an answer.

use std::io;

use redis::{Cmd, ConnectionAddr, Parser, RedisConnectionInfo, RedisError, Value, cmd};

use super::address::Address;
use super::calls_and_replies::{time, unless_refused};
use super::scripts;
use super::server_error::{is_missing_script, is_unknown};
use super::stream::{Stream, connect};
use crate::base::catch_panic::contain;
use crate::store::server::failure::{Failure, makes_no_sense};
use crate::store::server::server_builder::Target;
use crate::store::server::server_clock::ServerClock;
use crate::time::clock::moment::Moment;

/// The longest reply that is accepted, in bytes. A thousand refusals need much less.
const LONGEST_ANSWER: usize = 8 * 1024 * 1024;

const IS_A_SENTINEL: &str =
    "this is a Redis Sentinel: write redis+sentinel://HOST/NAME, with the name of the primary that it watches";

const PANICKED: &str = "the driver panicked while it handled an answer of the server";

/// A stream, the parser of its replies, and the clock of the server.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    parser: Parser,
    /// The clock of the server. Before the server's time was read, this clock shows 1970. No time is read from a
    /// Sentinel.
    pub(super) clock: ServerClock,
}

impl Connection {
    /// Connects to this server, logs in, and reads its clock. Also returns the reply to `question`, which may be an
    /// error. Without a question, the reply is `Value::Nil`.
    pub(super) fn to(
        target: &Target<Address>,
        server: &ConnectionAddr,
        question: Option<Cmd>,
        until: Moment,
    ) -> Result<(Self, Value), Failure> {
        let commands: Vec<Cmd> = question.into_iter().chain([cmd("TIME")]).collect();
        let (mut connection, mut replies) = Self::open(target, server, &target.address.login, &commands, until)?;
        let answer = replies.pop().unwrap_or(Value::Nil);
        let time = unless_refused(&answer).and_then(|()| time(&answer))?;
        connection.clock = ServerClock::read(time.timestamp_micros());
        Ok((connection, replies.pop().unwrap_or(Value::Nil)))
    }

    /// Connects to this server, logs in, and sends these commands. Returns their replies, which may be errors.
    pub(super) fn open(
        target: &Target<Address>,
        server: &ConnectionAddr,
        login: &RedisConnectionInfo,
        commands: &[Cmd],
        until: Moment,
    ) -> Result<(Self, Vec<Value>), Failure> {
        let not_connected = |error| Failure::not_asked(error).while_connecting("maxclients");
        let stream = connect(target, server, until).map_err(not_connected)?;
        let mut connection = Self { stream, parser: Parser::new(), clock: ServerClock::read(0) };
        let auth = login.password().map(|password| cmd("AUTH").arg(login.username()).arg(password).take());
        let select = (login.db() != 0).then(|| cmd("SELECT").arg(login.db()).take());
        let mut all: Vec<Cmd> = auth.into_iter().chain(select).collect();
        let of_login = all.len();
        all.extend_from_slice(commands);
        let (mut replies, end) = connection.round_trip(until, &all);
        if replies.iter().any(is_unknown) && connection.is_to_a_sentinel(until) {
            return Err(Failure::not_asked(io::Error::new(io::ErrorKind::InvalidData, IS_A_SENTINEL)));
        }
        // A server without room for a client sends an error before it closes the connection.
        let may_refuse = if end.is_err() { replies.len() } else { of_login };
        replies[..may_refuse].iter().try_for_each(unless_refused)?;
        end.map_err(not_connected)?;
        Ok((connection, replies.split_off(of_login)))
    }

    /// Returns whether the server has closed the connection, or has sent data that no request has asked for. Such data
    /// must not be taken for the reply to the next request.
    pub(super) fn is_closed(&mut self) -> bool {
        let socket = self.stream.socket();
        let has_input = socket.has_input().unwrap_or(true);
        socket.allow(Moment::BEGINNING, 0); // The parser gets no new bytes, only those that it has read already.
        has_input || !self.reply().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
    }

    /// Sends commands and returns their replies. If the server lacks a script, all scripts are loaded, and the commands
    /// with missing scripts are sent again.
    pub(super) fn exchange(&mut self, until: Moment, commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
        let (mut replies, end) = self.round_trip(until, commands);
        end.map_err(Failure::unanswered)?;
        let missing: Vec<usize> = (0..replies.len()).filter(|at| is_missing_script(&replies[*at])).collect();
        if missing.is_empty() {
            return Ok(replies);
        }
        let scripts = scripts::ALL.iter().map(|script| script.load());
        let again: Vec<Cmd> = scripts.chain(missing.iter().map(|at| commands[*at].clone())).collect();
        let (mut loaded, end) = self.round_trip(until, &again);
        end.map_err(Failure::unanswered)?;
        let called = loaded.split_off(scripts::ALL.len());
        let refused = loaded.into_iter().find(|reply| matches!(reply, Value::ServerError(_)));
        for (at, reply) in missing.into_iter().zip(called) {
            replies[at] = refused.clone().unwrap_or(reply);
        }
        Ok(replies)
    }

    /// Sends commands in one round trip. Returns the replies that arrived, and an error if the connection ended before
    /// the last reply.
    fn round_trip(&mut self, until: Moment, commands: &[Cmd]) -> (Vec<Value>, io::Result<()>) {
        self.stream.socket().allow(until, LONGEST_ANSWER);
        let mut replies = Vec::with_capacity(commands.len());
        let end = self.send(commands).and_then(|()| {
            for _ in commands {
                replies.push(self.reply()?);
            }
            Ok(())
        });
        (replies, end)
    }

    fn send(&mut self, commands: &[Cmd]) -> io::Result<()> {
        let mut packed = Vec::new();
        for command in commands {
            command.write_packed_command(&mut packed);
        }
        self.stream.write_all(&packed)?;
        self.stream.flush()
    }

    fn reply(&mut self) -> io::Result<Value> {
        let reply = contain(|| self.parser.parse_value(&mut self.stream)).map_err(|_| io::Error::other(PANICKED))?;
        reply.map_err(|error| not_heard(&error))
    }

    fn is_to_a_sentinel(&mut self, until: Moment) -> bool {
        let (replies, _) = self.round_trip(until, &[cmd("ROLE")]);
        let [Value::Array(role)] = &replies[..] else { return false };
        role.first().is_some_and(|role| *role == Value::BulkString(b"sentinel".to_vec()))
    }
}

fn not_heard(error: &RedisError) -> io::Error {
    if error.is_connection_dropped() {
        return io::ErrorKind::UnexpectedEof.into();
    }
    if error.is_timeout() {
        return io::ErrorKind::TimedOut.into();
    }
    let said = error.to_string().lines().collect::<Vec<_>>().join(", ");
    if error.is_io_error() {
        return io::Error::other(said);
    }
    io::Error::new(io::ErrorKind::InvalidData, makes_no_sense(&said, "redis"))
}
