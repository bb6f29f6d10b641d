//! One connection to a Redis server: the driver's, on a runtime that the asking thread drives.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value, cmd};
use tokio::task::{JoinHandle, yield_now};

use super::address::Address;
use super::server_error::{is_missing_script, is_unknown};
use super::stream::connect;
use super::{script, stored_script};
use crate::store::server::driver_runtime::DriverRuntime;
use crate::store::server::failure::{Failure, makes_no_sense};
use crate::store::server::server_builder::Target;
use crate::store::server::server_clock::ServerClock;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The longest reply to one request, in bytes: many times the size of a thousand refusals.
const LONGEST_ANSWER: usize = 8 * 1024 * 1024;

pub(super) struct Connection {
    driver: MultiplexedConnection,
    /// The task that reads and writes the socket, until the server closes the connection.
    transport: JoinHandle<()>,
    /// The number of bytes that may still be read.
    allowance: Arc<AtomicUsize>,
    pub(super) clock: ServerClock,
    /// The runtime of the task; its end closes the socket.
    runtime: DriverRuntime,
}

impl Connection {
    /// Connects and logs in.
    pub(super) fn open(target: &Target<Address>, until: Moment) -> Result<Self, Failure> {
        let not_connected = |error| Failure::not_asked(error).while_connecting("maxclients");
        let runtime = DriverRuntime::new().map_err(Failure::not_asked)?;
        let allowance = Arc::new(AtomicUsize::new(LONGEST_ANSWER));
        let connect = async {
            let stream = connect(target, until, &allowance).await?;
            // `until` is the limit of all. The driver's own login hides the server's words, and takes a round trip.
            let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
            let no_login = RedisConnectionInfo::default().set_skip_set_lib_name();
            let connected = MultiplexedConnection::new_with_config(&no_login, stream, config).await;
            let (driver, transport) = connected.map_err(|error| not_heard(&error))?;
            Ok::<_, io::Error>((driver, tokio::spawn(transport)))
        };
        let (driver, transport) = runtime.until(until, connect).flatten().map_err(not_connected)?;
        let no_clock_yet = ServerClock::read(0);
        let mut connection = Self { driver, transport, allowance, clock: no_clock_yet, runtime };
        let login = target.address.info.redis_settings();
        let auth = login.password().map(|password| cmd("AUTH").arg(login.username()).arg(password).take());
        let select = (login.db() != 0).then(|| cmd("SELECT").arg(login.db()).take());
        let commands: Vec<Cmd> = auth.into_iter().chain(select).chain([cmd("TIME")]).collect();
        let (replies, end) = connection.exchange(until, &commands);
        if replies.iter().any(is_unknown) && connection.is_to_a_sentinel(until) {
            let what = "this is a Redis Sentinel: connect to the primary that it watches";
            return Err(Failure::not_asked(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        // A server without room says so before it closes the connection.
        let replies = replies.into_iter().map(script::unless_refused).collect::<Result<Vec<_>, _>>();
        let replies = replies.map_err(Failure::undone)?;
        end.map_err(not_connected)?;
        let time = script::time(replies.last().unwrap_or(&Value::Nil)).map_err(Failure::undone)?;
        connection.clock = ServerClock::read(time.timestamp_micros());
        Ok(connection)
    }

    /// Returns whether the server has closed the connection. It also discards what the server has sent since the last reply, which
    /// must not be taken for the reply to the next request.
    pub(super) fn is_closed(&mut self) -> bool {
        // In the first pause the runtime looks at the socket, and in the second the task reads it.
        let pauses = async {
            yield_now().await;
            yield_now().await;
        };
        let soon = Clock::system().moment().plus(Duration::from_secs(1));
        self.runtime.until(soon, pauses).is_err() || self.transport.is_finished()
    }

    /// Sends commands and returns their replies. Scripts that the server lacks are loaded, and called again.
    pub(super) fn ask(&mut self, until: Moment, commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
        let (mut replies, end) = self.exchange(until, commands);
        end.map_err(Failure::unanswered)?;
        let missing: Vec<usize> = (0..replies.len()).filter(|at| is_missing_script(&replies[*at])).collect();
        if missing.is_empty() {
            return Ok(replies);
        }
        let scripts = stored_script::ALL.iter().map(|script| script.load());
        let again: Vec<Cmd> = scripts.chain(missing.iter().map(|at| commands[*at].clone())).collect();
        let (mut loaded, end) = self.exchange(until, &again);
        end.map_err(Failure::unanswered)?;
        let called = loaded.split_off(stored_script::ALL.len());
        let refused = loaded.into_iter().find(|reply| matches!(reply, Value::ServerError(_)));
        for (at, reply) in missing.into_iter().zip(called) {
            replies[at] = refused.clone().unwrap_or(reply);
        }
        Ok(replies)
    }

    /// Sends commands in one round trip. Returns their replies, and the error if one ended the connection before the last reply.
    fn exchange(&mut self, until: Moment, commands: &[Cmd]) -> (Vec<Value>, io::Result<()>) {
        self.allowance.store(LONGEST_ANSWER, Ordering::Relaxed);
        let mut replies = Vec::with_capacity(commands.len());
        let driver = &self.driver;
        // Not the driver's pipeline, which forgets its replies, and the error, when it fails.
        let send = |command| async move { driver.clone().send_packed_command(command).await };
        let answered = self.runtime.until(until, join_all(commands.iter().map(send)));
        let end = answered.and_then(|answers| {
            answers.into_iter().try_for_each(|answer| {
                replies.push(answer.map_err(|error| not_heard(&error))?);
                Ok(())
            })
        });
        (replies, end)
    }

    fn is_to_a_sentinel(&mut self, until: Moment) -> bool {
        let (replies, _) = self.exchange(until, &[cmd("ROLE")]);
        let [Value::Array(role)] = &replies[..] else { return false };
        role.first().is_some_and(|role| *role == Value::BulkString(b"sentinel".to_vec()))
    }
}

fn not_heard(error: &RedisError) -> io::Error {
    if error.is_connection_dropped() {
        return io::ErrorKind::UnexpectedEof.into();
    }
    let said = error.to_string().lines().collect::<Vec<_>>().join(", ");
    if error.is_io_error() {
        return io::Error::other(said);
    }
    io::Error::new(io::ErrorKind::InvalidData, makes_no_sense(&said, "redis"))
}
