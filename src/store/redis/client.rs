//! The client of a Redis server: which calls a request is split into, and the pending releases that go before them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Cmd, Value};

use super::connection::{Commands, Connection};
use super::keys::Prefix;
use super::script;
use super::server_error::{is_of_many_slots, not_understood};
use crate::lease::name::MutexName;
use crate::store::remote::failure::{Failure, Retry};
use crate::store::remote::pending_release::{PendingRelease, PendingReleases};
use crate::store::remote::server::{Attempt, PooledConnection, Server};
use crate::store::remote::server_clock::ServerClock;
use crate::store::remote::server_mutex::{Backend, EachAnswer};
use crate::time::clock::moment::Moment;

/// How many names one call of a script is about; it keeps the server for less than a millisecond.
const CHUNK: usize = 100;

pub(super) struct Client {
    pub(super) server: Server<Connection>,
    pub(super) prefix: Prefix,
    pub(super) pending: PendingReleases,
    /// The server is a node of a cluster, and takes the keys of one slot at a time.
    slot_by_slot: AtomicBool,
}

impl Client {
    pub(super) fn new(server: Server<Connection>, prefix: Prefix) -> Self {
        Self { server, prefix, pending: PendingReleases::default(), slot_by_slot: AtomicBool::new(false) }
    }

    /// Asks one command, which changes nothing.
    pub(super) fn ask(self: &Arc<Self>, command: &Cmd) -> Result<Value, Failure> {
        let answer = self.ask_each(std::slice::from_ref(command))?.pop();
        answer.ok_or_else(|| not_understood("nothing"))
    }

    /// Asks commands that change nothing, all at once.
    pub(super) fn ask_each(self: &Arc<Self>, commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
        self.server.ask(|pooled, attempt| {
            let answers = self.converse(pooled, commands, attempt.until)?;
            answers.into_iter().map(script::unless_refused).collect()
        })
    }

    /// Asks a script about several names, and then another about others, all at once.
    pub(super) fn ask_in_turn<A, B>(self: &Arc<Self>, first: &Inquiry<'_, A>, second: &Inquiry<'_, B>) -> Heard<A, B> {
        if first.names.is_empty() && second.names.is_empty() {
            return Heard { first: Vec::new(), second: Vec::new(), again: false, second_again: false };
        }
        // What was answered to the first counts, also where the second has to be asked once more.
        let first_heard = RefCell::new(None);
        let second_heard = self.server.ask(|pooled, Attempt { until, again }| {
            let of_first = if first_heard.borrow().is_none() { self.chunks(&first.names) } else { Vec::new() };
            let of_second = self.chunks(&second.names);
            let clock = *pooled.connection.clock();
            let mut calls: Vec<Cmd> = of_first.iter().map(|chunk| (first.call)(chunk, clock, until)).collect();
            calls.extend(of_second.iter().map(|chunk| (second.call)(chunk, clock, until)));
            let mut answers = self.converse(pooled, &calls, until)?.into_iter();
            let to_first = first.read(&of_first, &mut answers, pooled.connection.clock());
            let to_second = second.read(&of_second, &mut answers, pooled.connection.clock());

            let was_fresh = pooled.is_fresh;
            let worth_another = |failure: &&Failure| failure.retry(was_fresh) != Retry::Never;
            let first_again = to_first.iter().filter_map(|answer| answer.as_ref().err()).find(worth_another).cloned();
            let second_again = to_second.iter().filter_map(|answer| answer.as_ref().err()).find(worth_another).cloned();
            let done = to_first.iter().any(Result::is_ok) || to_second.iter().any(Result::is_ok);
            if first_again.is_none() && first_heard.borrow().is_none() {
                first_heard.replace(Some((in_order(&of_first, to_first, first.names.len(), again), again)));
            }
            if let Some(failure) = first_again.or(second_again) {
                if is_of_many_slots(&failure) {
                    self.slot_by_slot.store(true, Ordering::Relaxed);
                }
                return Err(failure.perhaps_done(done));
            }
            Ok((in_order(&of_second, to_second, second.names.len(), again), again))
        });
        let failed = |names: usize, failure: &Failure| (0..names).map(|_| failure.clone()).collect::<Vec<_>>();
        let ((second_answers, second_again), failure) = match second_heard {
            Ok(heard) => (heard, None),
            Err(failure) => {
                ((failed(second.names.len(), &failure).into_iter().map(Err).collect(), false), Some(failure))
            }
        };
        let (first_answers, again) = first_heard.into_inner().unwrap_or_else(|| {
            let failure = failure.unwrap_or_else(|| not_understood("nothing"));
            (failed(first.names.len(), &failure).into_iter().map(Err).collect(), false)
        });
        Heard { first: first_answers, second: second_answers, again, second_again }
    }

    /// Sends the pending releases, the commands behind them, and hears the answers.
    fn converse(
        self: &Arc<Self>,
        pooled: &mut PooledConnection<Connection>,
        calls: &[Cmd],
        until: Moment,
    ) -> Result<Vec<Value>, Failure> {
        let releases = self.pending.take();
        match self.send(&mut pooled.connection, &releases, calls, until) {
            Ok((left, answers)) => {
                pooled.is_spoilt |= !left.is_empty();
                self.pending.add(left, self, Self::send_pending);
                Ok(answers)
            }
            Err(error) => {
                self.pending.add(releases, self, Self::send_pending);
                Err(Failure::unanswered(error))
            }
        }
    }

    /// Sends releases, and `calls` behind them. Returns the releases that failed, and the answers to the calls.
    fn send(
        &self,
        connection: &mut Connection,
        releases: &[PendingRelease],
        calls: &[Cmd],
        until: Moment,
    ) -> io::Result<(Vec<PendingRelease>, Vec<Value>)> {
        let mut commands = Commands::default();
        // One call each: they may lie on different slots.
        for release in releases {
            commands.push(&script::release([&release.held].into_iter(), &self.prefix));
        }
        for call in calls {
            commands.push(call);
        }
        let mut answers = connection.ask(&commands, until)?;
        let done = answers.drain(..releases.len()).map(|answer| matches!(answer, Value::Array(_)));
        let left = releases.iter().zip(done).filter(|(_, done)| !done).map(|(release, _)| release.clone());
        Ok((left.collect(), answers))
    }

    /// Which names go into which call: about a hundred, no two of one mutex, and on a cluster one.
    fn chunks(&self, names: &[&MutexName]) -> Vec<Vec<usize>> {
        if let [_] = names {
            return vec![vec![0]];
        }
        let most = if self.is_cluster() { 1 } else { CHUNK };
        let mut chunks: Vec<Vec<usize>> = Vec::new();
        let mut mutexes = HashSet::with_capacity(names.len().min(most));
        for (at, name) in names.iter().enumerate() {
            match chunks.last_mut() {
                Some(chunk) if chunk.len() < most && mutexes.insert(name.mutex()) => chunk.push(at),
                _ => {
                    chunks.push(vec![at]);
                    mutexes.clear();
                    mutexes.insert(name.mutex());
                }
            }
        }
        chunks
    }

    /// Whether the server was seen to be a node of a cluster, which takes the keys of one slot at a time.
    pub(super) fn is_cluster(&self) -> bool {
        self.slot_by_slot.load(Ordering::Relaxed)
    }
}

type Call<'a> = dyn Fn(&[usize], ServerClock, Moment) -> Cmd + 'a;

/// A script, and the names that it is asked about.
pub(super) struct Inquiry<'a, T> {
    pub(super) names: Vec<&'a MutexName>,
    /// The call about some of them, which are given by their places.
    pub(super) call: Box<Call<'a>>,
    /// What the answer to a call about so many of them means.
    pub(super) meaning: fn(Value, usize, &mut ServerClock) -> Result<Vec<T>, Failure>,
}

impl Inquiry<'_, ()> {
    pub(super) fn about_nothing() -> Self {
        let never = |_: &[usize], _, _| Cmd::new();
        Self { names: Vec::new(), call: Box::new(never), meaning: |_, _, _| Ok(Vec::new()) }
    }
}

impl<T> Inquiry<'_, T> {
    fn read(
        &self,
        chunks: &[Vec<usize>],
        answers: &mut impl Iterator<Item = Value>,
        clock: &mut ServerClock,
    ) -> Vec<Result<Vec<T>, Failure>> {
        let meaning = |(chunk, answer): (&Vec<usize>, Value)| (self.meaning)(answer, chunk.len(), clock);
        chunks.iter().zip(answers).map(meaning).collect()
    }
}

/// What was answered on each name.
pub(super) struct Heard<A, B> {
    pub(super) first: EachAnswer<A>,
    pub(super) second: EachAnswer<B>,
    /// Whether the first was asked before as well, and may have been done then.
    pub(super) again: bool,
    /// The same for the second.
    pub(super) second_again: bool,
}

/// A process that ends goes through here, so that it tries once more to give back what it may hold.
impl Drop for Client {
    fn drop(&mut self) {
        let releases = self.pending.take();
        if !releases.is_empty() {
            // Nobody is left to be told how that goes: a name that stays expires.
            let _ = self.server.ask(|pooled, attempt| {
                self.send(&mut pooled.connection, &releases, &[], attempt.until).map_err(Failure::unanswered)
            });
        }
    }
}

/// The answers to chunks, as answers to what was in them.
fn in_order<T>(
    chunks: &[Vec<usize>],
    answers: Vec<Result<Vec<T>, Failure>>,
    names: usize,
    again: bool,
) -> EachAnswer<T> {
    let mut told: Vec<Option<Result<T, Failure>>> = (0..names).map(|_| None).collect();
    for (chunk, answer) in chunks.iter().zip(answers) {
        match answer {
            Ok(answers) => chunk.iter().zip(answers).for_each(|(at, answer)| told[*at] = Some(Ok(answer))),
            // Whatever it says about this time: the time before, it may have been done.
            Err(failure) => {
                let failure = failure.perhaps_done(again);
                for at in chunk {
                    told[*at] = Some(Err(failure.clone()));
                }
            }
        }
    }
    told.into_iter().map(|answer| answer.unwrap_or_else(|| Err(not_understood("nothing")))).collect()
}
