//! One server: the attempts of a call within its time limit, the idle connections, and the pending releases.

use std::iter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::engine::{Answers, Attempt, EndRequest, Engine, Request};
use super::failure::{AskAgain, Failure};
use super::idle_connections::IdleConnections;
use crate::base::{per_process::PerProcess, progress};
use crate::store::event_mutex::admission::Admitted;
use crate::time::clock::{Clock, moment::Moment, random_below};

/// The limit of the first pause before a retry, if the server has no room for another connection, or is starting.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The greatest limit of such a pause. The limit doubles with each retry until it reaches this value.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The most pending releases that one call sends. A batch of a hundred admissions needs as many: a release for each
/// claim, and a release for each lease.
const MOST_RELEASES: usize = 200;

/// The time until a failed release is sent again.
const RELEASED_LATER: Duration = Duration::from_secs(5);

/// A server, which all clones of a store share. A forked child process begins without idle connections, because it
/// would read its parent's replies on them. It also begins without pending releases: its parent sends these.
pub(crate) struct Server<E: Engine> {
    pub(crate) engine: E,
    idle: PerProcess<Arc<IdleConnections<E::Connection>>>,
    pending: PerProcess<Mutex<Vec<PendingRelease>>>,
}

/// The release of a name that this process may hold without knowing it, because an answer was lost. The release is sent
/// with a later call.
#[derive(Clone, Debug)]
pub(super) struct PendingRelease {
    pub(super) request: EndRequest,
    /// The earliest moment to send the release.
    pub(super) from: Moment,
    /// The moment by which the name has expired by itself.
    pub(super) until: Moment,
    /// Whether this release is sent in a request of its own, because it failed before, or got no answer in time. In a
    /// shared request, it could delay the other releases, for example if another transaction has locked the row of its
    /// name.
    pub(super) goes_alone: bool,
}

/// The answers to one part of a request: either its `ends` or its `admissions`.
pub(super) struct Part<T> {
    pub(super) answers: Vec<Result<T, Failure>>,
    /// Whether the answers come from a retry, and the server may have carried out an earlier attempt, too.
    pub(super) again: bool,
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self { answers: Vec::new(), again: false }
    }
}

impl<T> Part<T> {
    fn failed(failure: &Failure, count: usize) -> Self {
        Self { answers: iter::repeat_with(|| Err(failure.clone())).take(count).collect(), again: false }
    }
}

impl<E: Engine> Server<E> {
    pub(crate) fn new(engine: E) -> Self {
        Self { engine, idle: PerProcess::default(), pending: PerProcess::default() }
    }

    /// Ends leases, and decides on admissions.
    pub(super) fn decide(&self, request: Request<'_>) -> (Part<bool>, Part<Admitted>) {
        if request.ends.is_empty() && request.admissions.is_empty() {
            return Default::default();
        }
        let (mut ended, mut decided) = (None, None);
        let outcome = self.call(|attempt| {
            let again = attempt.asked_since.is_some();
            // If an earlier attempt ended the leases, and only its admissions failed, the retry has only the
            // admissions.
            let ends = if ended.is_some() { &[] } else { request.ends };
            decided = None;
            let Answers { ends, admissions } = self.engine.carry_out(attempt, Request { ends, ..request })?;
            let is_begun = ends.iter().any(Result::is_ok) || admissions.iter().any(Result::is_ok);
            let mut failure = of_the_store(&ends);
            if failure.is_none() {
                ended.get_or_insert(Part { answers: ends, again });
                failure = of_the_store(&admissions);
            }
            decided = Some(Part { answers: admissions, again });
            failure.map_or(Ok(()), |failure| Err(failure.perhaps_done(is_begun)))
        });
        let failure = outcome.err().unwrap_or_else(|| Failure::unusable("the store gave no answer"));
        let ended = ended.unwrap_or_else(|| Part::failed(&failure, request.ends.len()));
        (ended, decided.unwrap_or_else(|| Part::failed(&failure, request.admissions.len())))
    }

    /// Sends the pending releases, and then runs `exchange` on a connection. If the driver can't block inside an
    /// asynchronous runtime, another thread does both.
    ///
    /// After a failure on an idle connection, `exchange` is retried once on a new connection. After a failure that a
    /// new connection may cure, `exchange` is retried once, too. While the server has no room for another connection,
    /// or is starting, `exchange` is retried until the deadline. So `exchange` can run several times, and its requests
    /// must be idempotent: each request names its owner.
    pub(crate) fn call<T: Send>(
        &self,
        exchange: impl FnMut(&mut Attempt<E::Connection>) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let call = || {
            let (began, target) = (Clock::system().moment(), self.engine.target());
            progress::tell(&target.address);
            self.release_pending(began.plus(target.timeout / 4));
            self.attempts(began.plus(target.timeout), exchange)
        };
        E::blocking(call).unwrap_or_else(|error| Err(Failure::not_asked(error)))
    }

    /// Runs `exchange` until it succeeds, or must not be retried.
    ///
    /// | `Failure::retry` | after a failure on an idle connection | after a failure on a new connection |
    /// | --- | --- | --- |
    /// | `AskAgain::Never` | one retry, unless the failure concerns one name | no retry |
    /// | `AskAgain::Now` | one retry | one retry |
    /// | `AskAgain::Later` | retries after pauses, until the deadline | retries after pauses, until the deadline |
    fn attempts<T>(
        &self,
        until: Moment,
        mut exchange: impl FnMut(&mut Attempt<E::Connection>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (now, target) = (|| Clock::system().moment(), self.engine.target());
        let (began, mut pause, mut no_room): (_, _, Option<Failure>) = (now(), FIRST_PAUSE, None);
        let (mut may_retry, mut may_have_happened) = (true, false);
        loop {
            let idle = if may_retry { self.take_idle() } else { None };
            let was_idle = idle.is_some();
            let connection = idle.map_or_else(|| self.engine.open(until), Ok);
            let attempted = connection.and_then(|connection| {
                // An idle connection may be dead, so half of the time is kept for a new connection.
                let sooner = if was_idle { now().plus(until.since(now()) / 2) } else { until };
                let asked_since = may_have_happened.then_some(began);
                let attempt = Attempt { connection, until: sooner, call_until: until, asked_since, is_broken: false };
                self.attempt(attempt, &mut exchange)
            });
            let failure = match attempted {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            progress::tell(format_args!("{}; its last attempt failed: {failure}", target.address));
            may_have_happened |= failure.may_have_happened;
            let is_stale = was_idle && !failure.is_of_one_name();
            if is_stale {
                self.idle.get().expire(); // The other idle connections have probably ended, too.
            }
            let goes_on = match failure.retry {
                AskAgain::Later => {
                    // A server that has no room for another connection may send an error with a code, or may just
                    // close the connection. The failure with a code says more, so it is kept.
                    no_room = no_room.filter(|before| before.code().is_some()).or_else(|| Some(failure.clone()));
                    pauses(&mut pause, until)
                }
                AskAgain::Now => may_retry && now() < until,
                AskAgain::Never => may_retry && is_stale && now() < until,
            };
            may_retry &= failure.retry == AskAgain::Later;
            if !goes_on {
                // If the last attempt timed out, or failed for such a reason again, an earlier failure says more: that
                // the server had no room for another connection, or was starting.
                let is_away = failure.is_timeout() || failure.retry == AskAgain::Later;
                let why = no_room.filter(|_| is_away).unwrap_or(failure);
                return Err(why.perhaps_done(may_have_happened).within(target.timeout));
            }
        }
    }

    /// Runs `exchange` once. Keeps the connection, unless the connection broke or the store failed as a whole.
    fn attempt<T>(
        &self,
        mut attempt: Attempt<E::Connection>,
        exchange: impl FnOnce(&mut Attempt<E::Connection>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let answer = exchange(&mut attempt);
        if !attempt.is_broken && answer.as_ref().err().is_none_or(Failure::is_of_one_name) {
            self.idle.get().keep(attempt.connection);
        }
        answer
    }

    /// Takes the idle connection that was used last. Connections that have ended meanwhile are dropped.
    fn take_idle(&self) -> Option<E::Connection> {
        iter::from_fn(|| self.idle.get().take()).find_map(|mut idle| (!E::is_closed(&mut idle)).then_some(idle))
    }

    /// Remembers releases for a later call.
    pub(super) fn release_later(&self, releases: impl IntoIterator<Item = PendingRelease>) {
        self.pending().extend(releases);
    }

    fn pending(&self) -> MutexGuard<'_, Vec<PendingRelease>> {
        self.pending.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the pending releases that are due. A release that fails, or that can't be sent before `until`, is kept for
    /// a later call.
    fn release_pending(&self, until: Moment) {
        let (mut pending, now) = (self.pending(), Clock::system().moment());
        pending.retain(|release| now < release.until);
        let due: Vec<_> = pending.extract_if(.., |release| release.from <= now).take(MOST_RELEASES).collect();
        drop(pending);
        let (alone, together): (Vec<_>, Vec<_>) = due.into_iter().partition(|release| release.goes_alone);
        let requests = iter::once(&together[..]).filter(|together| !together.is_empty()).chain(alone.chunks(1));
        let (mut failed, mut not_sent, from) = (Vec::new(), Vec::new(), now.plus(RELEASED_LATER));
        let mut is_away = false;
        for releases in requests {
            if is_away || Clock::system().moment() >= until {
                not_sent.extend_from_slice(releases);
                continue;
            }
            let ends: Vec<EndRequest> = releases.iter().map(|release| release.request.clone()).collect();
            let answers = self.attempts(until, |attempt| {
                let answers = self.engine.carry_out(attempt, Request::to_end(&ends))?;
                attempt.is_broken |= of_the_store(&answers.ends).is_some();
                Ok(answers.ends)
            });
            let failure = answers.as_ref().map_or_else(|failure| Some(failure.clone()), |ends| of_the_store(ends));
            is_away = failure.is_some();
            let is_late = failure.is_some_and(|failure| failure.is_timeout());
            let mut answers = answers.unwrap_or_default().into_iter();
            for release in releases {
                let goes_alone = match answers.next() {
                    Some(Ok(_)) => continue,
                    Some(Err(failure)) if failure.is_of_one_name() => true,
                    _ => release.goes_alone || is_late,
                };
                failed.push(PendingRelease { from, goes_alone, ..release.clone() });
            }
        }
        self.release_later(not_sent.into_iter().chain(failed));
    }
}

/// Sends the pending releases once more, and closes the connections. The last handle of the store does this when it is
/// dropped.
impl<E: Engine> Drop for Server<E> {
    fn drop(&mut self) {
        let end = || {
            let now = Clock::system().moment();
            self.pending().iter_mut().for_each(|release| release.from = now); // There is no later call.
            self.release_pending(now.plus(self.engine.target().timeout));
            self.idle.get().close_all();
        };
        let _ = E::blocking(end); // If no thread can be started, the connections end without a goodbye.
    }
}

/// Returns the first failure that concerns the store as a whole, not only one name.
fn of_the_store<T>(answers: &[Result<T, Failure>]) -> Option<Failure> {
    answers.iter().filter_map(|answer| answer.as_ref().err()).find(|failure| !failure.is_of_one_name()).cloned()
}

/// Pauses if the pause ends before `until`, and returns whether it paused. The length of the pause is random, between
/// half of `longest` and `longest`, so that processes that were refused together do not retry together. Then doubles
/// `longest`.
fn pauses(longest: &mut Duration, until: Moment) -> bool {
    let pause = *longest / 2 + random_below(*longest / 2);
    *longest = (2 * *longest).min(LONGEST_PAUSE);
    let is_time = Clock::system().moment().plus(pause) < until;
    if is_time {
        thread::sleep(pause); // until another client has left the server, or the server has started
    }
    is_time
}
