//! One server: its connections, the attempts of a call within one time limit, and the releases that are pending.

use std::iter;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::driver_runtime::outside_any_runtime;
use super::engine::{AddressOf, Answers, Attempt, Engine, ReleaseRequest, Request, ServerConnection};
use super::failure::{Failure, Retry};
use super::idle_connections::IdleConnections;
use super::server_builder::Target;
use crate::base::per_process::PerProcess;
use crate::time::clock::{Clock, moment::Moment, random_below};

/// The first pause before a server is asked again that has no room, or starts, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The most pending releases that go with one call: the claims and leases of a batch of a hundred admissions. And the time until one
/// that failed is tried again.
const MOST_RELEASES: usize = 200;
const RELEASED_LATER: Duration = Duration::from_secs(5);

/// A child made by `fork` has nothing to release, and would read its parent's answers on an idle connection.
pub(crate) struct Server<E: Engine> {
    pub(crate) engine: E,
    pub(super) target: Target<AddressOf<E>>,
    idle: PerProcess<Arc<IdleConnections<E::Connection>>>,
    pending: PerProcess<Mutex<Vec<PendingRelease>>>,
}

/// The release of a name that this process may hold without knowing it, because an answer was lost. It goes with a later call.
#[derive(Clone, Debug)]
pub(super) struct PendingRelease {
    pub(super) release: ReleaseRequest,
    /// It is not sent before.
    pub(super) from: Moment,
    /// By then the name has expired by itself.
    pub(super) until: Moment,
}

impl<E: Engine> Server<E> {
    pub(super) fn new(engine: E, target: Target<AddressOf<E>>) -> Self {
        Self { engine, target, idle: PerProcess::default(), pending: PerProcess::default() }
    }

    /// Releases and admits. Returns the answers, and whether an earlier attempt of the call may have been carried out.
    pub(super) fn carry_out(&self, request: Request<'_>) -> (Answers, bool) {
        if request.releases.is_empty() && request.admissions.is_empty() {
            return Default::default();
        }
        // The answers to the releases, which are not sent again with the admissions; and the last answers to the admissions.
        let (mut ended, mut decided, mut again) = (None, None, false);
        let outcome = self.ask(|attempt| {
            (decided, again) = (None, attempt.asked_before().is_some());
            let releases = if ended.is_some() { &[] } else { request.releases };
            let Answers { releases, admissions } = self.engine.carry_out(attempt, Request { releases, ..request })?;
            let is_begun = releases.iter().any(Result::is_ok) || admissions.iter().any(Result::is_ok);
            let mut failure = of_the_store(&releases);
            if failure.is_none() {
                ended.get_or_insert(releases);
                failure = of_the_store(&admissions);
            }
            decided = Some(admissions);
            failure.map_or(Ok(()), |failure| Err(failure.perhaps_done(is_begun)))
        });
        let failed = || outcome.clone().err().unwrap_or_else(|| Failure::unusable("the store gave no answer"));
        let releases = ended.unwrap_or_else(|| vec![Err(failed()); request.releases.len()]);
        let admissions = decided.unwrap_or_else(|| vec![Err(failed()); request.admissions.len()]);
        (Answers { releases, admissions }, again)
    }

    /// Runs `exchange` on a connection, after what is pending was released. In a runtime of the application's own, another thread
    /// does so.
    ///
    /// A failure on an idle connection is retried once on a new one, and so is a failure on a new one that this may help. While the
    /// server has no room, or starts, it is asked again until the deadline. So `exchange` may run several times: the owner of a
    /// request makes it idempotent.
    pub(crate) fn ask<T: Send>(
        &self,
        exchange: impl FnMut(&mut Attempt<E::Connection>) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let call = || {
            let began = Clock::system().moment();
            self.release_pending(began.plus(self.target.timeout / 4));
            self.attempts(began.plus(self.target.timeout), exchange)
        };
        outside_any_runtime(call).unwrap_or_else(|error| Err(Failure::not_asked(error)))
    }

    fn attempts<T>(
        &self,
        until: Moment,
        mut exchange: impl FnMut(&mut Attempt<E::Connection>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let now = || Clock::system().moment();
        let (began, mut pause, mut no_room): (_, _, Option<Failure>) = (now(), FIRST_PAUSE, None);
        let (mut takes_idle, mut may_have_happened) = (true, false);
        loop {
            let idle = takes_idle.then(|| self.take_idle()).flatten();
            let was_idle = idle.is_some();
            let connection = idle.map_or_else(|| E::Connection::open(&self.target, until), Ok);
            let attempted = connection.and_then(|connection| {
                // An idle connection may have died without a word, so that half of the time is kept for a new one.
                let until_then = if was_idle { now().plus(until.since(now()) / 2) } else { until };
                let began_before = may_have_happened.then_some(began);
                let (until, call_until, is_broken) = (until_then, until, false);
                self.attempt(Attempt { connection, until, call_until, began_before, is_broken }, &mut exchange)
            });
            let failure = match attempted {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            may_have_happened |= failure.may_have_happened;
            let is_stale = was_idle && !failure.is_of_one_name();
            if is_stale {
                self.idle.get().close_all(); // What ended one connection has ended those beside it.
            }
            let goes_on = match failure.retry {
                Retry::Never if !is_stale => false,
                Retry::Never | Retry::Now => mem::replace(&mut takes_idle, false) && now() < until,
                Retry::Later => {
                    // Such a server says why, or closes the connection without a word.
                    no_room = no_room.filter(|before| before.code().is_some()).or_else(|| Some(failure.clone()));
                    pauses(&mut pause, until)
                }
            };
            if !goes_on {
                // Why there was no room says more than that the last attempt had no time left.
                let is_away = failure.is_timeout() || failure.retry == Retry::Later;
                let why = no_room.filter(|_| is_away).unwrap_or(failure);
                return Err(why.perhaps_done(may_have_happened).within(self.target.timeout));
            }
        }
    }

    /// Runs `exchange` once. The connection is kept, unless it broke or the store failed as a whole.
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

    /// Takes the connection that was used last, unless it has ended meanwhile.
    fn take_idle(&self) -> Option<E::Connection> {
        iter::from_fn(|| self.idle.get().take()).find_map(|mut idle| (!idle.is_closed()).then_some(idle))
    }

    /// Remembers releases for a later call.
    pub(super) fn release_later(&self, releases: impl IntoIterator<Item = PendingRelease>) {
        self.pending().extend(releases);
    }

    fn pending(&self) -> MutexGuard<'_, Vec<PendingRelease>> {
        self.pending.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases what is pending, and remembers what could not be released by `until`.
    fn release_pending(&self, until: Moment) {
        let (mut pending, now) = (self.pending(), Clock::system().moment());
        pending.retain(|release| now < release.until);
        let due: Vec<_> = pending.extract_if(.., |release| release.from <= now).take(MOST_RELEASES).collect();
        drop(pending);
        if due.is_empty() {
            return;
        }
        let releases: Vec<ReleaseRequest> = due.iter().map(|pending| pending.release.clone()).collect();
        let answers = self.attempts(until, |attempt| {
            let answers = self.engine.carry_out(attempt, Request::releases(&releases))?;
            attempt.is_broken |= of_the_store(&answers.releases).is_some();
            Ok(answers)
        });
        let mut answers = answers.map(|answers| answers.releases).unwrap_or_default().into_iter();
        let failed = due.into_iter().filter(|_| !matches!(answers.next(), Some(Ok(_))));
        let from = now.plus(RELEASED_LATER);
        self.release_later(failed.map(|release| PendingRelease { from, ..release }));
    }
}

/// The last handle tries once more to release what this process may hold, and closes its connections in words.
impl<E: Engine> Drop for Server<E> {
    fn drop(&mut self) {
        let end = || {
            let now = Clock::system().moment();
            self.pending().iter_mut().for_each(|release| release.from = now); // There is no later call.
            self.release_pending(now.plus(self.target.timeout));
            self.idle.get().close_all();
        };
        let _ = outside_any_runtime(end); // Where no thread can be started, it goes without a word.
    }
}

/// Returns the first failure that is not of one name.
fn of_the_store<T>(answers: &[Result<T, Failure>]) -> Option<Failure> {
    answers.iter().filter_map(|answer| answer.as_ref().err()).find(|failure| !failure.is_of_one_name()).cloned()
}

/// Pauses, if there is time for that and for another attempt. Each pause is twice as long as the one before, and of random
/// length within a factor of two: many processes that were refused at one moment come back at different ones.
fn pauses(longest: &mut Duration, until: Moment) -> bool {
    let pause = *longest / 2 + random_below(*longest / 2);
    *longest = (2 * *longest).min(LONGEST_PAUSE);
    let is_time = Clock::system().moment().plus(pause) < until;
    if is_time {
        thread::sleep(pause); // another client has to leave the server first, or it has to start
    }
    is_time
}
