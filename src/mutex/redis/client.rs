//! What is asked of a server: in which calls, with what is owed before them, and what is owed after them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Cmd, Value, cmd};

use super::connection::{Commands, Connection, ServerClock};
use super::failure::Failure;
use super::keys::Prefix;
use super::owed::{Debt, Owed};
use super::script;
use super::server::{Attempt, Server};
use crate::clock::Moment;
use crate::lease::MutexName;

/// How many names one call of a script is about; it keeps the server for less than a millisecond.
const CHUNK: usize = 100;

pub(super) struct Client {
    pub(super) server: Server,
    pub(super) prefix: Prefix,
    owed: Arc<Owed>,
    /// The server is a node of a cluster, and takes the keys of one slot at a time.
    slot_by_slot: AtomicBool,
}

impl Client {
    pub(super) fn new(server: Server, prefix: Prefix) -> Self {
        Self { server, prefix, owed: Arc::default(), slot_by_slot: AtomicBool::new(false) }
    }

    /// Asks one command, which changes nothing or may be done twice.
    pub(super) fn ask(self: &Arc<Self>, command: &Cmd) -> Result<Value, Failure> {
        self.server.ask(|connection, attempt| {
            let answer = self.converse(connection, std::slice::from_ref(command), attempt.until)?.pop();
            answer.map_or_else(|| Err(Failure::not_understood("nothing")), script::unless_refused)
        })
    }

    /// Asks a script about several names, in as many calls as it takes, and answers for each name.
    pub(super) fn ask_about<T>(self: &Arc<Self>, inquiry: &Inquiry<'_, T>) -> Vec<Result<T, Failure>> {
        self.ask_in_turn(inquiry, &Inquiry::<()>::about_nothing()).first
    }

    /// Asks a script about several names, and then another about others, all at once.
    pub(super) fn ask_in_turn<A, B>(self: &Arc<Self>, first: &Inquiry<'_, A>, second: &Inquiry<'_, B>) -> Heard<A, B> {
        if first.names.is_empty() && second.names.is_empty() {
            return Heard { first: Vec::new(), second: Vec::new(), again: false };
        }
        let answers = self.server.ask(|connection, Attempt { until, again }| {
            let chunks = [self.chunks(&first.names), self.chunks(&second.names)];
            let clock = *connection.clock();
            let mut calls: Vec<Cmd> = chunks[0].iter().map(|chunk| (first.call)(chunk, clock, until)).collect();
            calls.extend(chunks[1].iter().map(|chunk| (second.call)(chunk, clock, until)));
            let mut answers = self.converse(connection, &calls, until)?.into_iter();
            let first_answers = first.read(&chunks[0], &mut answers, connection.clock());
            let second_answers = second.read(&chunks[1], &mut answers, connection.clock());
            let failures = first_answers.iter().filter_map(|answer| answer.as_ref().err());
            let mut failures = failures.chain(second_answers.iter().filter_map(|answer| answer.as_ref().err()));
            if let Some(failure) = failures.find(|failure| failure.may_pass_on_another(connection.is_fresh())) {
                if failure.is_of_many_slots() {
                    self.slot_by_slot.store(true, Ordering::Relaxed);
                }
                let done = first_answers.iter().any(Result::is_ok) || second_answers.iter().any(Result::is_ok);
                return Err(failure.clone().beside_others(done));
            }
            Ok(Heard {
                first: in_order(&chunks[0], first_answers, first.names.len()),
                second: in_order(&chunks[1], second_answers, second.names.len()),
                again,
            })
        });
        answers.unwrap_or_else(|failure| Heard {
            first: first.names.iter().map(|_| Err(failure.clone())).collect(),
            second: second.names.iter().map(|_| Err(failure.clone())).collect(),
            again: false,
        })
    }

    /// Remembers what may be ours, and sees to it that it is given back.
    pub(super) fn owe(self: &Arc<Self>, debts: Vec<Debt>) {
        if debts.is_empty() {
            return;
        }
        self.owed.add(debts);
        let client = Arc::clone(self);
        // What is owed goes before whatever is asked; the answer to that is of no interest.
        self.owed.attend(move || _ = client.ask(&cmd("PING")));
    }

    /// Sends the commands, what is owed before them, and hears the answers.
    fn converse(
        self: &Arc<Self>,
        connection: &mut Connection,
        calls: &[Cmd],
        until: Moment,
    ) -> Result<Vec<Value>, Failure> {
        let debts = self.owed.take();
        let mut commands = Commands::default();
        // One call each: they may lie on different slots.
        for debt in &debts {
            commands.push(&script::release([&debt.held].into_iter(), &self.prefix));
        }
        for call in calls {
            commands.push(call);
        }
        match connection.ask(&commands, until) {
            Err(error) => {
                self.owe(debts);
                Err(Failure::unanswered(error))
            }
            Ok(mut answers) => {
                let settled =
                    answers.drain(..debts.len()).map(|answer| script::owned(answer, 1, connection.clock()).is_ok());
                let left = debts.iter().zip(settled).filter(|(_, settled)| !settled);
                self.owe(left.map(|(debt, _)| debt.clone()).collect());
                Ok(answers)
            }
        }
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

impl<T> Inquiry<'_, T> {
    fn about_nothing() -> Self {
        let never = |_: &[usize], _, _| Cmd::new();
        Self { names: Vec::new(), call: Box::new(never), meaning: |_, _, _| Ok(Vec::new()) }
    }

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
    pub(super) first: Vec<Result<A, Failure>>,
    pub(super) second: Vec<Result<B, Failure>>,
    /// Whether all of it had been asked before, and may have been done then.
    pub(super) again: bool,
}

/// The answers to chunks, as answers to what was in them.
fn in_order<T>(chunks: &[Vec<usize>], answers: Vec<Result<Vec<T>, Failure>>, names: usize) -> Vec<Result<T, Failure>> {
    let mut told: Vec<Option<Result<T, Failure>>> = (0..names).map(|_| None).collect();
    for (chunk, answer) in chunks.iter().zip(answers) {
        match answer {
            Ok(answers) => chunk.iter().zip(answers).for_each(|(at, answer)| told[*at] = Some(Ok(answer))),
            Err(failure) => chunk.iter().for_each(|at| told[*at] = Some(Err(failure.clone()))),
        }
    }
    told.into_iter().map(|answer| answer.unwrap_or_else(|| Err(Failure::not_understood("nothing")))).collect()
}
