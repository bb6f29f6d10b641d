//! One server: the attempts of a call within its time limit, and the connections and releases that are kept for the
//! next call.

use std::iter;
use std::mem;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::engine::{Answers, Attempt, End, EndRequest, Engine, Request};
use super::failure::{AskAgain, Failure};
use crate::base::lock::lock;
use crate::base::{per_process::PerProcess, progress, threads};
use crate::lease::{name::MutexName, owner::Owner};
use crate::store::event_mutex::admission::Admitted;
use crate::time::clock::{Clock, moment::Moment, random_below};

/// The limit of the first pause before a retry, if the server has no room for another connection, or is starting.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The greatest limit of such a pause. The limit doubles with each retry until it reaches this value.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The greatest number of idle connections.
const MOST_IDLE: usize = 8;

/// The shortest time until an idle connection is closed.
const IDLE_FOR: Duration = Duration::from_millis(500);

/// The most releases that one call sends. A batch of a hundred admissions needs as many: a release for each claim, and
/// a release for each lease.
const MOST_RELEASES: usize = 200;

/// The time until a failed release is sent again.
const RELEASED_LATER: Duration = Duration::from_secs(5);

/// A server, which all clones of a store share.
pub(crate) struct Server<E: Engine> {
    pub(crate) engine: E,
    kept: PerProcess<Arc<Kept<E::Connection>>>,
}

/// The connections and the releases that a process keeps for the next call. A forked child process begins without idle
/// connections, because it would read its parent's replies on them. It also begins without pending releases: its parent
/// sends these.
pub(super) struct Kept<C> {
    idle: Mutex<Idle<C>>,
    pending: Mutex<Vec<PendingRelease>>,
}

/// The release of a name that this process may hold without knowing it, because an answer was lost. The release is sent
/// with a later call.
#[derive(Clone, Debug)]
struct PendingRelease {
    request: EndRequest,
    /// The earliest moment to send the release.
    from: Moment,
    /// The moment by which the name has expired by itself.
    until: Moment,
    /// Whether this release is sent in a request of its own, because it failed before, or got no answer in time. In a
    /// shared request, it could delay the other releases, for example if another transaction has locked the row of its
    /// name.
    goes_alone: bool,
    /// Whether this release has a minimum hold, which must not end early.
    holds: bool,
}

/// The idle connections. The calls of a tick follow one another closely, and share one connection. No connection is
/// kept while a task runs for minutes, because a server has room for a limited number of connections.
struct Idle<C> {
    /// The connections, each with the moment of its last use. The connection that was used last is at the end.
    connections: Vec<(Moment, C)>,
    has_thread: bool,
}

/// The answers to one part of a request: either its `ends` or its `admissions`.
pub(super) struct Part<T> {
    pub(super) answers: Vec<Result<T, Failure>>,
    /// Whether the answers come from a retry, and the server may have carried out an earlier attempt, too.
    pub(super) again: bool,
}

impl<T: Clone> Part<T> {
    const EMPTY: Self = Self { answers: Vec::new(), again: false };

    fn failed(failure: Failure, count: usize) -> Self {
        Self { answers: vec![Err(failure); count], again: false }
    }
}

impl<E: Engine> Server<E> {
    pub(crate) fn new(engine: E) -> Self {
        Self { engine, kept: PerProcess::default() }
    }

    /// Ends leases, and decides on admissions.
    pub(super) fn decide(&self, request: Request<'_>) -> (Part<bool>, Part<Admitted>) {
        if request.ends.is_empty() && request.admissions.is_empty() {
            return (Part::EMPTY, Part::EMPTY);
        }
        let mut ended = None;
        let mut decided = None;
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
                failure = of_the_store(&admissions);
                ended.get_or_insert(Part { answers: ends, again });
                decided = Some(Part { answers: admissions, again });
            }
            failure.map_or(Ok(()), |failure| Err(failure.perhaps_done(is_begun)))
        });
        let failure = || outcome.clone().err().unwrap_or_else(|| Failure::unusable("the store gave no answer"));
        let ended = ended.unwrap_or_else(|| Part::failed(failure(), request.ends.len()));
        (ended, decided.unwrap_or_else(|| Part::failed(failure(), request.admissions.len())))
    }

    /// Sends the pending releases, and then runs `exchange` on a connection.
    ///
    /// After a failure on an idle connection, `exchange` is retried once on a new connection. After a failure that a
    /// new connection may cure, `exchange` is retried once, too. While the server has no room for another connection,
    /// or is starting, `exchange` is retried until the deadline. So `exchange` can run several times, and its requests
    /// must be idempotent: each request names its owner.
    pub(crate) fn call<T>(
        &self,
        exchange: impl FnMut(&mut Attempt<E::Connection>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let kept = self.kept.get();
        let target = self.engine.target();
        let began = Clock::system().moment();
        progress::tell(&target.address);
        self.release_pending(kept, began, began.plus(target.timeout / 4));
        self.attempts(kept, began.plus(target.timeout), exchange)
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
        kept: &Arc<Kept<E::Connection>>,
        until: Moment,
        mut exchange: impl FnMut(&mut Attempt<E::Connection>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (now, target) = (|| Clock::system().moment(), self.engine.target());
        let (began, mut pause, mut no_room): (_, _, Option<Failure>) = (now(), FIRST_PAUSE, None);
        let mut may_retry = true;
        let mut may_have_happened = false;
        loop {
            let idle = if may_retry { kept.take() } else { None };
            let was_idle = idle.is_some();
            let connection = idle.map_or_else(|| self.engine.open(until), Ok);
            let attempted = connection.and_then(|connection| {
                // An idle connection may be dead, so half of the time is kept for a new connection.
                let sooner = if was_idle { until.minus(until.since(now()) / 2) } else { until };
                let asked_since = may_have_happened.then_some(began);
                let mut attempt =
                    Attempt { connection, until: sooner, call_until: until, asked_since, is_broken: false };
                let answer = exchange(&mut attempt);
                // The connection is kept, unless it broke or the store failed as a whole.
                if !attempt.is_broken && answer.as_ref().err().is_none_or(Failure::is_of_one_name) {
                    kept.keep(attempt.connection);
                }
                answer
            });
            let failure = match attempted {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            progress::tell(format_args!("{}; its last attempt failed: {failure}", target.address));
            may_have_happened |= failure.may_have_happened;
            let is_stale = was_idle && !failure.is_of_one_name();
            if is_stale {
                kept.close_all(); // The other idle connections have probably ended, too.
            }
            let goes_on = match failure.retry {
                AskAgain::Later => {
                    no_room = Some(Failure::more_telling(no_room, failure.clone()));
                    pauses(&mut pause, until)
                }
                AskAgain::Now => may_retry && now() < until,
                AskAgain::Never => may_retry && is_stale && now() < until,
            };
            // An idle connection that was not asked anything costs no retry.
            may_retry &= failure.retry == AskAgain::Later || (is_stale && !failure.may_have_happened);
            if !goes_on {
                // If the last attempt timed out, or failed for such a reason again, an earlier failure says more: that
                // the server had no room for another connection, or was starting.
                let is_away = failure.is_timeout() || failure.retry == AskAgain::Later;
                let why = no_room.filter(|_| is_away).unwrap_or(failure);
                return Err(why.perhaps_done(may_have_happened).within(target.timeout));
            }
        }
    }

    /// Plans releases of a name that `owner` may hold: one after each moment in `from`. Later calls send them. If the
    /// release has a minimum hold (`holds`), it is never sent earlier.
    pub(super) fn release_after(&self, name: &MutexName, owner: Owner, from: &[Moment], until: Moment, holds: bool) {
        let request = EndRequest { name: name.clone(), owner, end: End::NowAndRevoked };
        let pending =
            |from: &Moment| PendingRelease { request: request.clone(), from: *from, until, goes_alone: false, holds };
        lock(&self.kept.get().pending).extend(from.iter().map(pending));
    }

    /// Sends the pending releases that are due. A release that fails, or that can't be sent before `until`, is kept for
    /// a later call.
    fn release_pending(&self, kept: &Arc<Kept<E::Connection>>, now: Moment, until: Moment) {
        let mut pending = lock(&kept.pending);
        pending.retain(|release| now < release.until);
        let due: Vec<_> = pending.extract_if(.., |release| release.from <= now).take(MOST_RELEASES).collect();
        drop(pending);
        let (alone, together): (Vec<_>, Vec<_>) = due.into_iter().partition(|release| release.goes_alone);
        let requests = iter::once(&together[..]).filter(|together| !together.is_empty()).chain(alone.chunks(1));
        let mut is_away = false;
        for releases in requests {
            if is_away || Clock::system().moment() >= until {
                lock(&kept.pending).extend_from_slice(releases);
                continue;
            }
            let ends: Vec<EndRequest> = releases.iter().map(|release| release.request.clone()).collect();
            let answers = self.attempts(kept, until, |attempt| {
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
                let from = now.plus(RELEASED_LATER);
                lock(&kept.pending).push(PendingRelease { from, goes_alone, ..release.clone() });
            }
        }
    }
}

/// Sends the pending releases once more, and closes the connections. The last handle of the store does this when it is
/// dropped. A lease with a minimum hold is not released early: it ends with its term.
impl<E: Engine> Drop for Server<E> {
    fn drop(&mut self) {
        let (kept, now) = (self.kept.get(), Clock::system().moment());
        // There is no later call.
        lock(&kept.pending).iter_mut().filter(|release| !release.holds).for_each(|release| release.from = now);
        // An admission without an answer has up to two releases for each name, so a large batch needs two calls.
        for _ in 0..2 {
            self.release_pending(kept, now, now.plus(self.engine.target().timeout));
        }
        kept.close_all();
    }
}

impl<C> Default for Kept<C> {
    fn default() -> Self {
        let idle = Idle { connections: Vec::new(), has_thread: false };
        Self { idle: Mutex::new(idle), pending: Mutex::default() }
    }
}

impl<C: Send + 'static> Kept<C> {
    /// Takes the idle connection that was used last. The server may have closed it meanwhile.
    fn take(&self) -> Option<C> {
        lock(&self.idle).connections.pop().map(|(_, connection)| connection)
    }

    /// Keeps a connection for the next call. If `MOST_IDLE` connections are idle already, or if no thread can be
    /// started to close this connection later, the connection is closed now.
    fn keep(self: &Arc<Self>, connection: C) {
        let mut idle = lock(&self.idle);
        if idle.connections.len() < MOST_IDLE {
            let this = Arc::clone(self);
            idle.has_thread = idle.has_thread || threads::start("soloist-idle", move || this.close_unused()).is_ok();
            if idle.has_thread {
                return idle.connections.push((Clock::system().moment(), connection));
            }
        }
        drop(idle); // Closing the connection takes a moment, so the lock is released first.
    }

    /// Closes all idle connections.
    fn close_all(&self) {
        let closed = mem::take(&mut lock(&self.idle).connections);
        drop(closed); // Closing the connections takes a moment, so the lock was released first.
    }

    /// Closes the connections that no call has used for a while, and returns when none is left.
    fn close_unused(&self) {
        let mut has_work = true;
        while has_work {
            thread::sleep(IDLE_FOR);
            let mut idle = lock(&self.idle);
            let now = Clock::system().moment();
            let unused = idle.connections.partition_point(|(since, _)| since.plus(IDLE_FOR) <= now);
            let closed: Vec<_> = idle.connections.drain(..unused).collect();
            has_work = !idle.connections.is_empty();
            idle.has_thread = has_work;
            drop(idle);
            drop(closed);
        }
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

/// Returns the deadlines of attempts that follow one another. Each attempt gets an equal share of the time that is
/// left.
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) fn shares(attempts: usize, until: Moment) -> impl Iterator<Item = Moment> {
    (0..attempts).map(move |done| {
        let now = Clock::system().moment();
        now.plus(until.since(now) / u32::try_from(attempts - done).unwrap_or(u32::MAX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_closed_that_no_call_uses_and_the_thread_ends() {
        let (kept, connection) = (Arc::new(Kept::default()), Arc::new(()));
        kept.keep(Arc::clone(&connection));
        assert!(kept.take().is_some(), "the next call uses it");
        kept.keep(Arc::clone(&connection));
        while Arc::strong_count(&connection) > 1 || lock(&kept.idle).has_thread {
            thread::sleep(Duration::from_millis(10)); // between two checks of the other thread
        }
    }

    #[test]
    fn no_more_than_eight_are_kept() {
        let kept = Arc::new(Kept::default());
        (0..20).for_each(|connection| kept.keep(connection));
        assert_eq!(lock(&kept.idle).connections.len(), MOST_IDLE);
        kept.close_all();
        assert!(kept.take().is_none());
    }
}
