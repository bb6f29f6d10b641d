//! One server: where it is, how it is met, and which of its connections are at rest.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::address::Address;
use super::connection::Connection;
use super::failure::Failure;
#[cfg(feature = "redis-tls")]
use super::tls::Tls;
use crate::clock::{Clock, Moment};

/// The most connections that are kept for later.
const AT_REST: usize = 4;

pub(super) struct Server {
    pub(super) address: Address,
    /// How long one call takes at most, all of it included.
    pub(super) timeout: Duration,
    #[cfg(feature = "redis-tls")]
    pub(super) tls: Tls,
    at_rest: Mutex<Vec<Connection>>,
}

/// One of at most two attempts to get an answer.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    /// When nobody waits for it any more.
    pub(super) until: Moment,
    /// Whether the same was asked before, and may have been done.
    pub(super) again: bool,
}

impl Server {
    pub(super) fn new(address: Address, timeout: Duration, #[cfg(feature = "redis-tls")] tls: Tls) -> Self {
        Self {
            address,
            timeout,
            #[cfg(feature = "redis-tls")]
            tls,
            at_rest: Mutex::default(),
        }
    }

    /// Lets `exchange` ask and hear the server; a second time, on a connection that was just made, where that may help.
    /// So whatever it asks must be asked by an owner, who is known again.
    pub(super) fn ask<T>(
        &self,
        exchange: impl Fn(&mut Connection, Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let now = Clock::system().moment();
        let until = now.plus(self.timeout);
        let first = match self.wake() {
            // A connection at rest may have died without a word, so that half of the time is kept for a fresh one.
            Some(connection) => {
                let attempt = Attempt { until: now.plus(self.timeout / 2), again: false };
                self.attempt(connection, attempt, &exchange).map_err(|failure| {
                    self.forget_those_at_rest();
                    (failure, false)
                })
            }
            None => self.attempt_afresh(Attempt { until, again: false }, &exchange).map_err(|failure| (failure, true)),
        };
        let answer = first.or_else(|(failure, was_fresh)| {
            if failure.may_pass_on_another(was_fresh) && Clock::system().moment() < until {
                let attempt = Attempt { until, again: failure.may_have_been_done() };
                self.attempt_afresh(attempt, &exchange).map_err(|second| second.after(&failure))
            } else {
                Err(failure)
            }
        });
        answer.map_err(|failure| failure.within(self.timeout))
    }

    fn attempt_afresh<T>(
        &self,
        attempt: Attempt,
        exchange: &impl Fn(&mut Connection, Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.attempt(Connection::open(self, attempt.until)?, attempt, exchange)
    }

    /// A connection on which something failed is not used again: its next answer might belong to this question.
    fn attempt<T>(
        &self,
        mut connection: Connection,
        attempt: Attempt,
        exchange: &impl Fn(&mut Connection, Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let answer = exchange(&mut connection, attempt)?;
        self.rest(connection);
        Ok(answer)
    }

    fn wake(&self) -> Option<Connection> {
        let mut at_rest = self.at_rest.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| at_rest.pop()).find(|connection| !connection.is_closed())
    }

    fn rest(&self, connection: Connection) {
        let mut at_rest = self.at_rest.lock().unwrap_or_else(PoisonError::into_inner);
        if at_rest.len() < AT_REST && !connection.is_spoilt() {
            at_rest.push(connection.rested());
        }
    }

    /// What ended one connection has ended those beside it.
    fn forget_those_at_rest(&self) {
        let ended = std::mem::take(&mut *self.at_rest.lock().unwrap_or_else(PoisonError::into_inner));
        drop(ended); // Closed when nobody waits for the list.
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
