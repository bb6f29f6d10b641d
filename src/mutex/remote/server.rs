//! One server: how it is met, and which of its connections are at rest.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::failure::Failure;
use crate::clock::{Clock, Moment};

/// The most connections that are kept for later.
const AT_REST: usize = 4;

/// A way to talk to one server. One on which something failed is not used again: its next answer might belong to the
/// question before.
pub(in crate::mutex) trait Connect: Sized {
    /// Where the server is, who we are to it, and how it is spoken to.
    type Target: fmt::Display;

    /// Connects and logs in. Whatever goes wrong, nothing was asked.
    fn open(target: &Self::Target, until: Moment) -> Result<Self, Failure>;

    /// Whether it ended while it was at rest, or is not to be trusted any more. What is sent on one that has not may still
    /// be lost.
    fn is_closed(&mut self) -> bool;
}

pub(in crate::mutex) struct Server<C: Connect> {
    pub(in crate::mutex) target: C::Target,
    /// How long one call takes at most, all of it included.
    pub(in crate::mutex) timeout: Duration,
    at_rest: Mutex<Vec<C>>,
}

/// A connection, for one call.
pub(in crate::mutex) struct Line<C> {
    pub(in crate::mutex) connection: C,
    /// Whether it was just made, and never at rest.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "a script may be missing where it was at rest"))]
    pub(in crate::mutex) is_fresh: bool,
    /// Keeps it from being used again: another may lead to a server that is in a better state.
    pub(in crate::mutex) is_spoilt: bool,
}

/// One of at most two attempts to get an answer.
#[derive(Clone, Copy)]
pub(in crate::mutex) struct Attempt {
    /// When nobody waits for it any more.
    pub(in crate::mutex) until: Moment,
    /// Whether the same was asked before, and may have been done.
    pub(in crate::mutex) again: bool,
}

impl<C: Connect> Server<C> {
    pub(in crate::mutex) fn new(target: C::Target, timeout: Duration) -> Self {
        Self { target, timeout, at_rest: Mutex::default() }
    }

    /// Lets `exchange` ask and hear the server; a second time, on a connection that was just made, where that may help.
    /// So whatever it asks must be asked by an owner, who is known again.
    pub(in crate::mutex) fn ask<T>(
        &self,
        exchange: impl Fn(&mut Line<C>, Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let now = Clock::system().moment();
        let until = now.plus(self.timeout);
        let first = match self.wake() {
            // A connection at rest may have died without a word, so that half of the time is kept for a fresh one.
            Some(connection) => {
                let attempt = Attempt { until: now.plus(self.timeout / 2), again: false };
                let line = Line { connection, is_fresh: false, is_spoilt: false };
                self.attempt(line, attempt, &exchange).map_err(|failure| {
                    if !failure.is_locked() {
                        drop(self.take_those_at_rest()); // What ended one connection has ended those beside it.
                    }
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

    /// The connections at rest, which nobody else gets from now on.
    pub(in crate::mutex) fn take_those_at_rest(&self) -> Vec<C> {
        std::mem::take(&mut *self.at_rest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn attempt_afresh<T>(
        &self,
        attempt: Attempt,
        exchange: &impl Fn(&mut Line<C>, Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let connection = C::open(&self.target, attempt.until)?;
        self.attempt(Line { connection, is_fresh: true, is_spoilt: false }, attempt, exchange)
    }

    fn attempt<T>(
        &self,
        mut line: Line<C>,
        attempt: Attempt,
        exchange: &impl Fn(&mut Line<C>, Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let answer = exchange(&mut line, attempt);
        if answer.as_ref().err().is_none_or(Failure::is_locked) {
            self.rest(line);
        }
        answer
    }

    fn wake(&self) -> Option<C> {
        let mut at_rest = self.at_rest.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut connection) = at_rest.pop() {
            if !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    fn rest(&self, line: Line<C>) {
        let mut at_rest = self.at_rest.lock().unwrap_or_else(PoisonError::into_inner);
        if at_rest.len() < AT_REST && !line.is_spoilt {
            at_rest.push(line.connection);
        }
    }
}

impl<C: Connect> fmt::Display for Server<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}
