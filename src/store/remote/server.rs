//! One server: connections, attempts, and the time limit of a call.

use std::fmt;
use std::iter;
use std::mem;
use std::time::Duration;

use super::backoff::Backoff;
use super::failure::{Failure, Retry};
use super::idle_connections::IdleConnections;
use super::per_process::PerProcess;
use crate::time::{clock::Clock, clock::moment::Moment};

/// A way to talk to one server. One on which something failed is not used again: its next answer might belong to the
/// question before.
pub(crate) trait Connect: Sized + Send + 'static {
    /// Where the server is, who we are to it, and how it is spoken to.
    type Target: fmt::Display;

    /// Connects and logs in. Whatever goes wrong, nothing was asked.
    fn open(target: &Self::Target, until: Moment) -> Result<Self, Failure>;

    /// Whether it ended while it was idle, or is not to be trusted any more. What is sent on one that has not may still
    /// be lost.
    fn is_closed(&mut self) -> bool;
}

pub(crate) struct Server<C: Connect> {
    pub(crate) target: C::Target,
    /// How long one call takes at most, all of it included.
    pub(crate) timeout: Duration,
    /// Parent and child would read each other's answers on the same connection.
    idle: PerProcess<IdleConnections<C>>,
}

/// A connection, for one call.
pub(crate) struct PooledConnection<C> {
    pub(crate) connection: C,
    /// Whether it was just made, and never idle.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "a script may be missing where it was idle"))]
    pub(crate) is_fresh: bool,
    /// Keeps it from being used again: another may lead to a server that is in a better state.
    pub(crate) is_spoilt: bool,
}

/// One of the attempts to get an answer.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    /// When nobody waits for it any more.
    pub(crate) until: Moment,
    /// Whether the same was asked before, and may have been done.
    pub(crate) again: bool,
}

impl<C: Connect> Server<C> {
    pub(crate) fn new(target: C::Target, timeout: Duration) -> Self {
        Self { target, timeout, idle: PerProcess::default() }
    }

    /// Lets `exchange` ask and hear the server: once more, on a connection that was just made, where that may help; and
    /// again and again, as long as the call may take, while the server has no room or is being started. So whatever it
    /// asks must be asked by an owner, who is known again.
    pub(crate) fn ask<T>(
        &self,
        mut exchange: impl FnMut(&mut PooledConnection<C>, Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let until = Clock::system().moment().plus(self.timeout);
        let (mut again, mut on_another) = (false, false);
        let (mut backoff, mut refused) = (Backoff::default(), None);
        loop {
            let idle = if on_another { None } else { self.idle_connection() };
            let was_fresh = idle.is_none();
            let answer = match idle {
                Some(connection) => self.attempt_on_idle(connection, Attempt { until, again }, &mut exchange),
                None => self.attempt_afresh(Attempt { until, again }, &mut exchange),
            };
            let failure = match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            again |= failure.may_have_been_done();
            let goes_on = match failure.retry(was_fresh) {
                Retry::AfterPause => {
                    refused = Some(failure.clone());
                    backoff.pauses_before(until)
                }
                Retry::OnNewConnection => !mem::replace(&mut on_another, true) && Clock::system().moment() < until,
                Retry::Never => false,
            };
            if !goes_on {
                // Why there was no room says more than that the last attempt had no time left.
                let why = refused.filter(|_| failure.is_timeout()).unwrap_or(failure);
                return Err(why.perhaps_done(again).within(self.timeout));
            }
        }
    }

    /// Lets `exchange` ask on an idle connection, once. `None`: there is none.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn ask_on_idle<T>(
        &self,
        mut exchange: impl FnMut(&mut PooledConnection<C>, Attempt) -> Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        let connection = self.idle_connection()?;
        let until = Clock::system().moment().plus(self.timeout);
        Some(self.attempt_on_idle(connection, Attempt { until, again: false }, &mut exchange))
    }

    /// The connection that was used last, unless it has ended meanwhile.
    fn idle_connection(&self) -> Option<C> {
        iter::from_fn(|| self.idle.get().pop())
            .find_map(|mut connection| (!connection.is_closed()).then_some(connection))
    }

    /// The idle connections, which nobody else gets from now on.
    pub(crate) fn take_idle(&self) -> Vec<C> {
        self.idle.get().take()
    }

    /// The connection may have died without a word, so that half of the time is kept for a fresh one.
    fn attempt_on_idle<T>(
        &self,
        connection: C,
        attempt: Attempt,
        exchange: &mut impl FnMut(&mut PooledConnection<C>, Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let now = Clock::system().moment();
        let attempt = Attempt { until: now.plus(attempt.until.since(now) / 2), ..attempt };
        let answer =
            self.attempt(PooledConnection { connection, is_fresh: false, is_spoilt: false }, attempt, exchange);
        if answer.as_ref().is_err_and(|failure| !failure.is_locked()) {
            drop(self.take_idle()); // What ended one connection has ended those beside it.
        }
        answer
    }

    fn attempt_afresh<T>(
        &self,
        attempt: Attempt,
        exchange: &mut impl FnMut(&mut PooledConnection<C>, Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let connection = C::open(&self.target, attempt.until)?;
        self.attempt(PooledConnection { connection, is_fresh: true, is_spoilt: false }, attempt, exchange)
    }

    fn attempt<T>(
        &self,
        mut pooled: PooledConnection<C>,
        attempt: Attempt,
        exchange: &mut impl FnMut(&mut PooledConnection<C>, Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let answer = exchange(&mut pooled, attempt);
        if answer.as_ref().err().is_none_or(Failure::is_locked) && !pooled.is_spoilt {
            self.idle.get().keep(pooled.connection);
        }
        answer
    }
}

impl<C: Connect> fmt::Display for Server<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}
