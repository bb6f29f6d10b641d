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
use super::server::Server;
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
        self.server.ask(|connection, until| {
            let answer = self.converse(connection, std::slice::from_ref(command), until)?.pop();
            answer.map_or_else(|| Err(Failure::not_understood("nothing")), script::unless_refused)
        })
    }

    /// Asks a script about several names, in as many calls as it takes, and answers for each name.
    pub(super) fn ask_about<T>(
        self: &Arc<Self>,
        names: &[&MutexName],
        call: impl Fn(&[usize], ServerClock, Moment) -> Cmd,
        read: impl Fn(Value, usize, &mut ServerClock) -> Result<Vec<T>, Failure>,
    ) -> Vec<Result<T, Failure>> {
        let answers = self.server.ask(|connection, until| {
            let chunks = self.chunks(names);
            let calls: Vec<Cmd> = chunks.iter().map(|chunk| call(chunk, *connection.clock(), until)).collect();
            let answers = self.converse(connection, &calls, until)?;
            let read = |(chunk, answer): (&Vec<usize>, Value)| read(answer, chunk.len(), connection.clock());
            let answers: Vec<Result<Vec<T>, Failure>> = chunks.iter().zip(answers).map(read).collect();
            let mut failures = answers.iter().filter_map(|answer| answer.as_ref().err());
            if let Some(failure) = failures.find(|failure| failure.may_pass_on_another(connection.is_fresh())) {
                if failure.is_of_many_slots() {
                    self.slot_by_slot.store(true, Ordering::Relaxed);
                }
                return Err(failure.clone().beside_others(answers.iter().any(Result::is_ok)));
            }
            Ok(in_order(&chunks, answers, names.len()))
        });
        answers.unwrap_or_else(|failure| names.iter().map(|_| Err(failure.clone())).collect())
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
                let settled = answers.drain(..debts.len()).map(|answer| script::owned(answer, 1).is_ok());
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
