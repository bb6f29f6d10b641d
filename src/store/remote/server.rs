//! One server: connections, attempts, the time limit of a call, and what is done beside the calls.

use std::iter;
use std::mem;
use std::slice;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::driver_runtime::outside_any_runtime;
use super::engine::{
    AddressOf, Asked, Attempt, Decision, EachAnswer, Engine, ReleaseRequest, Released, ServerConnection, ServerTurn,
};
use super::failure::{Failure, Retry};
use super::housekeeper::{Housekeeper, PendingRelease};
use super::server_builder::Target;
use crate::base::per_process::PerProcess;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::time::clock::moment::Moment;
use crate::time::clock::{Clock, random_below};

/// The first pause before a server is asked again that has no room, or is being started, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The time until a release of a name that somebody's transaction had locked is sent again.
const LATER: Duration = Duration::from_secs(5);

/// How long the last handle lets a clean-up end at most.
const FAREWELL: Duration = Duration::from_secs(2);

pub(crate) struct Server<E: Engine> {
    pub(crate) engine: E,
    pub(super) target: Target<AddressOf<E>>,
    /// A child made by `fork` has nothing to give back, and would read its parent's answers on the same connection.
    housekeeper: PerProcess<Arc<Housekeeper<E::Connection>>>,
}

/// The answer to one admission, and whether an earlier attempt of the same call may have been granted.
pub(super) type Decided = (Decision, bool);

impl<E: Engine> Server<E> {
    pub(super) fn new(engine: E, target: Target<AddressOf<E>>) -> Self {
        Self { engine, target, housekeeper: PerProcess::default() }
    }

    /// Answers all that is asked.
    pub(super) fn carry_out(self: &Arc<Self>, asked: Asked<'_>) -> (EachAnswer<Released>, EachAnswer<Decided>) {
        if asked.releases.is_empty() && asked.admissions.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let (ended, decided) = self.carry_out_by(self.first_attempt(), asked);
        let granted = decided.iter().filter(|decided| matches!(decided, Ok((Ok(Admitted::Granted(_)), _)))).count();
        if E::CLEANS_UP && granted > 0 {
            self.housekeeper.get().begin_clean_up(2 * granted); // Most write a lease and a claim.
            self.wake_housekeeper();
        }
        (ended, decided)
    }

    fn carry_out_by(self: &Arc<Self>, first: Attempt, asked: Asked<'_>) -> (EachAnswer<Released>, EachAnswer<Decided>) {
        // The answers to the releases. They are kept if only the admissions are asked again.
        let mut ended = None;
        let decided = self.ask(first, |turn| {
            let releases = if ended.is_none() { asked.releases } else { &[] };
            let (just_ended, decided) = self.engine.carry_out(turn, Asked { releases, ..asked })?;
            let done = just_ended.iter().any(Result::is_ok) || decided.iter().any(Result::is_ok);
            let in_vain = worth_another(&just_ended, turn.attempt);
            if in_vain.is_none() {
                ended.get_or_insert(just_ended);
            }
            match in_vain.or_else(|| worth_another(&decided, turn.attempt)) {
                Some(failure) => Err(failure.perhaps_done(done)),
                None => Ok((turn.attempt.again, decided)),
            }
        });
        let failure = match decided {
            Ok((again, decided)) => {
                // Whatever it says about this time: the time before, it may have been done.
                let decided = decided.into_iter().map(|decision: Result<Decision, Failure>| {
                    decision.map(|decision| (decision, again)).map_err(|failure| failure.perhaps_done(again))
                });
                return (ended.unwrap_or_default(), decided.collect());
            }
            Err(failure) => failure,
        };
        // What somebody's transaction has is no trouble of the others that were asked for at once, as long as there is time.
        let are_several = asked.releases.len() + asked.admissions.len() > 1;
        let again = first.again || failure.may_have_been_done();
        let alone = |releases: &[ReleaseRequest], admissions: &[&Admission]| {
            if failure.is_locked() && are_several && Clock::system().moment() < first.until {
                let next = Attempt { again, began: first.began, ..self.first_attempt() };
                return self.carry_out_by(next, Asked { releases, admissions });
            }
            (vec![Err(failure.clone()); releases.len()], admissions.iter().map(|_| Err(failure.clone())).collect())
        };
        let release = |one| alone(slice::from_ref(one), &[]).0;
        let ended = ended.unwrap_or_else(|| asked.releases.iter().flat_map(release).collect());
        let decided = asked.admissions.iter().flat_map(|one| alone(&[], slice::from_ref(one)).1).collect();
        (ended, decided)
    }

    /// Asks, after what is pending was sent. It may be asked twice.
    pub(super) fn ask<T: Send>(
        self: &Arc<Self>,
        first: Attempt,
        mut exchange: impl FnMut(&mut ServerTurn<E::Connection>) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        self.ask_this_alone(first, |turn| {
            let releases = self.housekeeper.get().take_pending();
            match self.give_back(turn, &releases) {
                Ok(()) => {}
                // It is in nobody's way for a while.
                Err(failure) if failure.is_locked() => self.add_pending(postponed(releases)),
                Err(failure) => {
                    self.add_pending(releases);
                    return Err(failure.undone());
                }
            }
            exchange(turn)
        })
    }

    /// Sends releases. What the server refuses stays pending.
    fn give_back(
        self: &Arc<Self>,
        turn: &mut ServerTurn<E::Connection>,
        releases: &[PendingRelease],
    ) -> Result<(), Failure> {
        if releases.is_empty() {
            return Ok(());
        }
        let asked: Vec<ReleaseRequest> = releases.iter().map(|pending| pending.release.clone()).collect();
        let (answers, _) = self.engine.carry_out(turn, Asked::releases(&asked))?;
        turn.is_spoilt |= answers.iter().any(Result::is_err);
        let refused = releases.iter().zip(answers).filter(|(_, answer)| answer.is_err());
        self.add_pending(refused.map(|(release, _)| release.clone()));
        Ok(())
    }

    /// Remembers these releases, and sees to it that they are sent.
    pub(super) fn add_pending(self: &Arc<Self>, releases: impl IntoIterator<Item = PendingRelease>) {
        self.housekeeper.get().add_pending(releases);
        self.wake_housekeeper(); // Where no thread can be started, the next call sends them; else the names expire.
    }

    /// Sees to it that what is due beside the calls is done. `false`: there is no thread to be had.
    fn wake_housekeeper(self: &Arc<Self>) -> bool {
        let server = Arc::clone(self);
        self.housekeeper.get().start_or_wake(move || {
            let housekeeper = server.housekeeper.get();
            housekeeper.clean_up(|| server.clean_up_on_idle());
            server.send_pending(housekeeper.take_pending_after_pause());
            housekeeper.close_old();
        })
    }

    /// Sends releases where nobody waits for it, so that there is time to ask for each name alone if one is locked.
    fn send_pending(self: &Arc<Self>, releases: Vec<PendingRelease>) {
        let (mut groups, first) = (vec![releases], self.first_attempt());
        while let Some(group) = groups.pop().filter(|group| !group.is_empty()) {
            if first.until <= Clock::system().moment() {
                return self.add_pending(postponed(groups.drain(..).flatten().chain(group).collect()));
            }
            match self.ask_this_alone(first, |turn| self.give_back(turn, &group)) {
                Ok(()) => {}
                Err(failure) if !failure.is_locked() => self.add_pending(groups.drain(..).flatten().chain(group)),
                Err(_) if group.len() == 1 => self.add_pending(postponed(group)),
                Err(_) => groups.extend(group.into_iter().map(|release| vec![release])),
            }
        }
    }

    /// Deletes what has ended, on a connection that nobody needs. `None`: there is none.
    fn clean_up_on_idle(self: &Arc<Self>) -> Option<Result<u64, Failure>> {
        let (connection, first) = (self.idle_connection()?, self.first_attempt());
        let attempt = Attempt { until: first.began.plus(FAREWELL).min(first.until), ..first };
        Some(self.attempt_on(connection, attempt, |turn| self.engine.clean_up(turn)))
    }

    pub(crate) fn first_attempt(&self) -> Attempt {
        let began = Clock::system().moment();
        Attempt { until: began.plus(self.target.timeout), is_fresh: false, again: false, began }
    }

    /// Lets `exchange` ask and hear the server, without what is pending: once more, on a connection that was just made,
    /// where that may help; and again and again, as long as the call may take, while the server has no room or is being
    /// started. So whatever it asks must be asked by an owner, who is known again. In a runtime of the application's own,
    /// it is asked from another thread.
    pub(crate) fn ask_this_alone<T: Send>(
        self: &Arc<Self>,
        first: Attempt,
        mut exchange: impl FnMut(&mut ServerTurn<E::Connection>) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let attempts = || {
            let Attempt { until, mut again, .. } = first;
            let (mut on_another, mut pause, mut refused) = (false, FIRST_PAUSE, None);
            loop {
                let idle = if on_another { None } else { self.idle_connection() };
                let is_fresh = idle.is_none();
                // It may have died without a word, so that half of the time is kept for a fresh one.
                let now = Clock::system().moment();
                let by = if is_fresh { until } else { now.plus(until.since(now) / 2) };
                let attempt = Attempt { until: by, is_fresh, again, ..first };
                let connection = idle.map_or_else(|| E::Connection::open(&self.target, until), Ok);
                let failure = match connection.and_then(|it| self.attempt_on(it, attempt, &mut exchange)) {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => failure,
                };
                again |= failure.may_have_been_done();
                let goes_on = match failure.retry(is_fresh) {
                    Retry::AfterPause => {
                        refused = Some(failure.clone());
                        pauses(&mut pause, until)
                    }
                    Retry::OnNewConnection => !mem::replace(&mut on_another, true) && Clock::system().moment() < until,
                    Retry::Never => false,
                };
                if !goes_on {
                    // Why there was no room says more than that the last attempt had no time left.
                    let why = refused.filter(|_| failure.is_timeout()).unwrap_or(failure);
                    return Err(why.perhaps_done(again).within(self.target.timeout));
                }
            }
        };
        outside_any_runtime(attempts).unwrap_or_else(|error| Err(Failure::not_asked(error).perhaps_done(first.again)))
    }

    fn attempt_on<T>(
        self: &Arc<Self>,
        connection: E::Connection,
        attempt: Attempt,
        exchange: impl FnOnce(&mut ServerTurn<E::Connection>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut turn = ServerTurn { connection, attempt, is_spoilt: false };
        let answer = exchange(&mut turn);
        let housekeeper = self.housekeeper.get();
        if answer.as_ref().is_err_and(|failure| !failure.is_locked()) {
            if !attempt.is_fresh {
                housekeeper.close_idle(); // What ended one connection has ended those beside it.
            }
        } else if !turn.is_spoilt {
            housekeeper.keep(turn.connection);
            if !self.wake_housekeeper() {
                housekeeper.close_idle(); // Nobody else would close it.
            }
        }
        answer
    }

    /// The connection that was used last, unless it has ended meanwhile.
    fn idle_connection(&self) -> Option<E::Connection> {
        iter::from_fn(|| self.housekeeper.get().pop_idle())
            .find_map(|mut connection| (!connection.is_closed()).then_some(connection))
    }

    /// A process that ends goes through here, so that it cleans up, tries once more to give back what it may hold, and leaves
    /// its connections in words.
    pub(super) fn end(self: &Arc<Self>) {
        let end = || {
            let housekeeper = self.housekeeper.get();
            housekeeper.finish(FAREWELL, || self.clean_up_on_idle());
            let releases = housekeeper.take_pending();
            if !releases.is_empty() {
                // Nobody is left to be told how that goes: a name that stays expires.
                let _ = self.ask_this_alone(self.first_attempt(), |turn| self.give_back(turn, &releases));
            }
            housekeeper.close_idle();
        };
        let _ = outside_any_runtime(end); // Where no thread can be started, it goes without a word.
    }
}

/// Pauses, if there is time for that and for another attempt. Each pause is twice as long as the one before, and of random
/// length within a factor of two: many processes that were refused at one moment come back at different ones.
fn pauses(longest: &mut Duration, until: Moment) -> bool {
    let pause = *longest / 2 + random_below(*longest / 2);
    *longest = (2 * *longest).min(LONGEST_PAUSE);
    let is_time = Clock::system().moment().plus(pause) < until;
    if is_time {
        thread::sleep(pause); // somebody else has to leave the server first, or it has to start
    }
    is_time
}

fn postponed(releases: Vec<PendingRelease>) -> Vec<PendingRelease> {
    let from = Clock::system().moment().plus(LATER);
    releases.into_iter().map(|release| PendingRelease { from, ..release }).collect()
}

/// The failure of one of the answers that another attempt may change.
fn worth_another<T>(answers: &EachAnswer<T>, attempt: Attempt) -> Option<Failure> {
    let mut failures = answers.iter().filter_map(|answer| answer.as_ref().err());
    failures.find(|failure| failure.retry(attempt.is_fresh) != Retry::Never).cloned()
}
