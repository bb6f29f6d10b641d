//! What is said on one connection: the pending releases, then what is asked, split into calls; and what the answers mean.

use std::collections::HashSet;
use std::vec;

use redis::{Cmd, Value};

use super::connection::{Commands, Connection};
use super::keys::Prefix;
use super::script;
use super::server_error::is_of_many_slots;
use crate::lease::{name::MutexName, term::Term};
use crate::store::event_mutex::admission::Admission;
use crate::store::remote::failure::{Failure, Retry};
use crate::store::remote::owned_name::OwnedName;
use crate::store::remote::pending_release::{PendingRelease, PendingReleases};
use crate::store::remote::server::{Attempt, PooledConnection};
use crate::store::remote::server_mutex::{Decided, EachAnswer, Released};
use crate::time::{clock::Clock, clock::moment::Moment};

/// How many names one call of a script is about; it keeps the server for less than a millisecond.
pub(super) const CHUNK: usize = 100;

/// One call of the store, through all of its attempts.
pub(super) struct Conversation<'a> {
    prefix: &'a Prefix,
    pending: &'a PendingReleases,
    /// The server is a node of a cluster, and takes the keys of one slot at a time.
    pub(super) by_slot: bool,
    began: Moment,
    held: &'a [OwnedName],
    term: Option<Term>,
    admissions: &'a [&'a Admission],
    /// The answers to the releases. They are kept if only the admissions are asked again.
    ended: Option<EachAnswer<Released>>,
}

impl<'a> Conversation<'a> {
    /// About nothing but what is pending.
    pub(super) fn new(prefix: &'a Prefix, pending: &'a PendingReleases, by_slot: bool) -> Self {
        let began = Clock::system().moment();
        Self { prefix, pending, by_slot, began, held: &[], term: None, admissions: &[], ended: None }
    }

    /// The same, about what is given back, or ends one term from now, if there is one; and about admissions after that.
    pub(super) fn about(self, held: &'a [OwnedName], term: Option<Term>, admissions: &'a [&'a Admission]) -> Self {
        Self { held, term, admissions, ..self }
    }

    /// Asks commands that change nothing, all at once.
    pub(super) fn look(
        &self,
        commands: &[Cmd],
    ) -> impl FnMut(&mut PooledConnection<Connection>, Attempt) -> Result<Vec<Value>, Failure> {
        move |pooled, attempt| {
            let releases = self.send_pending(pooled.connection.commands());
            for command in commands {
                *pooled.connection.commands().next() = command.clone();
            }
            self.hear(pooled, releases, attempt.until)?.map(script::unless_refused).collect()
        }
    }

    /// Lets go of what is held, and asks for the admissions. Their answers are returned.
    pub(super) fn carry_out(
        &mut self,
        pooled: &mut PooledConnection<Connection>,
        Attempt { until, again }: Attempt,
    ) -> Result<EachAnswer<Decided>, Failure> {
        let held = if self.ended.is_none() { self.held } else { &[] };
        let in_one_step = self.admissions.iter().all(|admission| is_one_step(admission, self.by_slot));
        let admissions = if in_one_step { self.admissions } else { &[] };
        let held = calls(held, self.by_slot, |held| (held.name.mutex(), None));
        let admissions = calls(admissions, self.by_slot, |admission| {
            (admission.name().mutex(), admission.excluded_by().map(MutexName::mutex))
        });

        let clock = *pooled.connection.clock();
        let commands = pooled.connection.commands();
        let releases = self.send_pending(commands);
        for call in &held {
            match self.term {
                None => script::release(commands.next(), call, self.prefix),
                Some(term) => script::extend(commands.next(), call, term, self.prefix, clock, until),
            }
        }
        for call in &admissions {
            script::admit(commands.next(), call, self.by_slot, self.prefix, clock, until);
        }
        let mut answers = self.hear(pooled, releases, until)?;
        let ago = Clock::system().moment().since(self.began);
        let ended = each(&held, &mut answers, again, |answer, call| match self.term {
            None => script::released(answer, call.len(), again.then_some(ago)),
            Some(_) => script::extended(answer, call.len()),
        });
        let clock = pooled.connection.clock();
        let decided =
            each(&admissions, &mut answers, again, |answer, call| script::decided(answer, call, again, clock));

        let done = ended.iter().any(Result::is_ok) || decided.iter().any(Result::is_ok);
        let in_vain = worth_another_attempt(&ended, pooled.is_fresh);
        if in_vain.is_none() {
            self.ended.get_or_insert(ended);
        }
        match in_vain.or_else(|| worth_another_attempt(&decided, pooled.is_fresh)) {
            Some(failure) => {
                self.by_slot |= is_of_many_slots(&failure);
                Err(failure.perhaps_done(done))
            }
            None => Ok(decided),
        }
    }

    /// What was answered in all, if this was the answer to the admissions.
    pub(super) fn answers(
        self,
        decided: Result<EachAnswer<Decided>, Failure>,
    ) -> (EachAnswer<Released>, EachAnswer<Decided>) {
        match decided {
            Ok(decided) => (self.ended.unwrap_or_default(), decided),
            Err(failure) => {
                let ended = self.ended.unwrap_or_else(|| self.held.iter().map(|_| Err(failure.clone())).collect());
                (ended, self.admissions.iter().map(|_| Err(failure.clone())).collect())
            }
        }
    }

    /// Puts what is pending before everything else, one call each: they may lie on different slots.
    fn send_pending(&self, commands: &mut Commands) -> Vec<PendingRelease> {
        let releases = self.pending.take();
        for PendingRelease { held, .. } in &releases {
            script::release(commands.next(), std::slice::from_ref(held), self.prefix);
        }
        releases
    }

    /// Sends the commands and hears the answers to those behind the `releases`. What was not given back stays pending.
    fn hear(
        &self,
        pooled: &mut PooledConnection<Connection>,
        mut releases: Vec<PendingRelease>,
        until: Moment,
    ) -> Result<vec::IntoIter<Value>, Failure> {
        let heard = pooled.connection.ask(until);
        let answers = heard.map(Vec::into_iter).map_err(Failure::unanswered).map(|mut answers| {
            releases.retain(|_| !matches!(answers.next(), Some(Value::Array(_))));
            pooled.is_spoilt |= !releases.is_empty();
            answers
        });
        self.pending.put_back(releases);
        answers
    }
}

/// Whether the server can decide on it in one step: for one owner, and on a node of a cluster with the keys of one mutex.
pub(super) fn is_one_step(admission: &Admission, by_slot: bool) -> bool {
    let of_one = match (admission.lease(), admission.claim()) {
        (Some(lease), Some(claim)) => lease.name().mutex() == claim.name().mutex() && lease.owner() == claim.owner(),
        _ => true,
    };
    of_one && admission.excluded_by().is_none_or(|name| !by_slot || name.mutex() == admission.name().mutex())
}

/// Splits what is asked into calls: of a hundred at most, and of one on a node of a cluster. No two in a call are of one
/// mutex, so that none of them changes what the script knows about another; many may be excluded by the same.
fn calls<'a, T>(
    mut asked: &'a [T],
    by_slot: bool,
    mutexes: impl Fn(&'a T) -> (&'a str, Option<&'a str>),
) -> Vec<&'a [T]> {
    let most = if by_slot { 1 } else { CHUNK };
    let mut calls = Vec::new();
    while asked.len() > 1 {
        let (mut own, mut excluding) = (HashSet::new(), HashSet::new());
        let is_apart = |asked: &&'a T| {
            let (mutex, unless) = mutexes(asked);
            let is_apart = unless.is_none_or(|unless| !own.contains(unless)) && !excluding.contains(mutex);
            excluding.extend(unless);
            is_apart && own.insert(mutex)
        };
        let (call, rest) = asked.split_at(asked.iter().take(most).take_while(is_apart).count());
        calls.push(call);
        asked = rest;
    }
    calls.extend((!asked.is_empty()).then_some(asked));
    calls
}

/// The answers to calls, as answers to what was in them.
fn each<Q, A>(
    calls: &[&[Q]],
    answers: &mut impl Iterator<Item = Value>,
    again: bool,
    mut meaning: impl FnMut(Value, &[Q]) -> Result<Vec<A>, Failure>,
) -> EachAnswer<A> {
    let mut each = Vec::with_capacity(calls.iter().map(|call| call.len()).sum());
    for (call, answer) in calls.iter().zip(answers) {
        match meaning(answer, call) {
            Ok(answers) => each.extend(answers.into_iter().map(Ok)),
            // Whatever it says about this time: the time before, it may have been done.
            Err(failure) => each.extend(call.iter().map(|_| Err(failure.clone().perhaps_done(again)))),
        }
    }
    each
}

fn worth_another_attempt<T>(answers: &EachAnswer<T>, was_fresh: bool) -> Option<Failure> {
    let mut failures = answers.iter().filter_map(|answer| answer.as_ref().err());
    failures.find(|failure| failure.retry(was_fresh) != Retry::Never).cloned()
}
