//! What a Redis server is asked on one connection: releases, admissions and looks, which the scripts carry out.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Cmd, Value, cmd};

use super::connection::Connection;
use super::keys::Prefix;
use super::script::{self, read};
use super::server_error::is_of_many_slots;
use super::{health, server_error};
use crate::base::error::MutexError;
use crate::lease::name::MutexName;
use crate::observe::run_record::{RunRecord, log_change::LogChange};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::remote::engine::{
    Answers, Asked, EachAnswer, Ending, Engine, FoundEntry, FoundHolder, Health, ReleaseRequest, ServerTurn, Wanted,
};
use crate::store::remote::{failure::Failure, server_clock::instant};

/// How many names one call of a script is about; it keeps the server for less than a millisecond.
const CHUNK: usize = 100;

/// How many keys the server looks at for one answer about those that match.
const SCANNED_AT_ONCE: u32 = 1000;

pub(super) struct RedisEngine {
    pub(super) prefix: Prefix,
    /// Whether the server was seen to be a node of a cluster, which takes the keys of one slot at a time.
    pub(super) by_slot: AtomicBool,
}

impl Engine for RedisEngine {
    const STORE: &'static str = "RedisMutex";
    const RELEASES_AND_ADMITS_AT_ONCE: bool = true;
    /// The scripts do nothing for those who don't wait any more.
    const ACTS_LATE: bool = false;
    const CLEANS_UP: bool = false;

    type Connection = Connection;

    fn namespace(&self) -> [&str; 2] {
        ["prefix", &self.prefix.0]
    }

    /// For one owner, and on a node of a cluster with the keys of one mutex.
    fn is_one_step(&self, admission: &Admission) -> bool {
        let of_one = admission.lease().zip(admission.claim()).is_none_or(|(lease, claim)| {
            lease.name().mutex() == claim.name().mutex() && lease.owner() == claim.owner()
        });
        let is_of_its_mutex = |unless: &MutexName| unless.mutex() == admission.name().mutex();
        of_one && (!self.by_slot.load(Ordering::Relaxed) || admission.excluded_by().iter().all(is_of_its_mutex))
    }

    fn carry_out(&self, turn: &mut ServerTurn<Connection>, asked: Asked<'_>) -> Result<Answers, Failure> {
        let (ServerTurn { connection, attempt, .. }, Asked { releases, admissions, wanted }) = (turn, asked);
        let (by_slot, clock, until) = (self.by_slot.load(Ordering::Relaxed), connection.clock, attempt.until);
        let releases: Vec<&ReleaseRequest> = releases.iter().collect();
        // What is pending may lie on different slots.
        let end_together = |one: &ReleaseRequest, next: &ReleaseRequest| {
            !by_slot && one.ending == next.ending && one.ending != Ending::NowIfItBegan
        };
        let releases = calls(&releases, end_together, |release| (release.name.mutex(), &[]));
        let for_the_same = |one: &Admission, next: &Admission| !by_slot && one.reason() == next.reason();
        let admissions =
            calls(admissions, for_the_same, |admission| (admission.name().mutex(), admission.excluded_by()));
        // The next call does not know what this one grants.
        let calls_sent = if wanted == Wanted::One { admissions.len().min(1) } else { admissions.len() };
        let (admissions, not_sent) = admissions.split_at(calls_sent);
        let end = |call: &&[&ReleaseRequest]| script::end(call, &self.prefix, clock, until);
        let admit = |call: &&[&Admission]| script::admit(call, wanted, by_slot, &self.prefix, clock, until);
        let commands: Vec<Cmd> = releases.iter().map(end).chain(admissions.iter().map(admit)).collect();
        let answers = connection.ask(&commands, until)?;
        self.by_slot.fetch_or(answers.iter().any(is_of_many_slots), Ordering::Relaxed);
        let (asked_before, clock, mut answers) = (attempt.asked_before(), &mut connection.clock, answers.into_iter());
        let ended = each(&releases, &mut answers, |answer, call| script::ended(answer, call.len(), asked_before));
        let mut decided = each(admissions, &mut answers, |answer, call| script::decided(answer, call, wanted, clock));
        decided.extend(not_sent.concat().iter().map(|_| Ok(Ok(Admitted::NotDecided))));
        Ok((ended, decided))
    }

    fn look(&self, turn: &mut ServerTurn<Connection>, name: &MutexName) -> Result<Option<FoundHolder>, Failure> {
        script::looked(&ask(turn, &[script::look(self.prefix.key(name))])?[0])
    }

    fn leases(&self, turn: &mut ServerTurn<Connection>, prefix: &str) -> Result<Vec<FoundEntry>, Failure> {
        let pattern = self.prefix.pattern_of_leases(prefix);
        let (mut names, mut cursor) = (BTreeSet::new(), None);
        while cursor.as_deref() != Some("0") {
            let mut scan = cmd("SCAN");
            scan.arg(cursor.as_deref().unwrap_or("0")).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCANNED_AT_ONCE);
            let (next, keys): (String, Vec<Vec<u8>>) = read(&ask(turn, &[scan])?[0])?;
            // A key that is no text is none of ours.
            names.extend(keys.iter().filter_map(|key| self.prefix.lease_at(str::from_utf8(key).ok()?)));
            cursor = Some(next);
        }
        let mut found = Vec::new();
        for names in Vec::from_iter(names).chunks(CHUNK) {
            let looks: Vec<Cmd> = names.iter().map(|name| script::look(self.prefix.key(name))).collect();
            for (name, answer) in names.iter().zip(ask(turn, &looks)?) {
                found.extend(script::looked(&answer)?.map(|holder| (name.clone(), holder)));
            }
        }
        Ok(found)
    }

    fn runs(&self, turn: &mut ServerTurn<Connection>, events: &[&str]) -> Result<Vec<RunRecord>, Failure> {
        let looks: Vec<Cmd> = events.iter().map(|event| of_log("HGETALL", &self.prefix, event)).collect();
        let mut records = Vec::new();
        for (event, answer) in events.iter().zip(ask(turn, &looks)?) {
            let lines: Vec<(Vec<u8>, Vec<u8>)> = read(&answer)?;
            let record = |(id, line): &(Vec<u8>, Vec<u8>)| {
                RunRecord::of_line(event, str::from_utf8(id).ok()?.parse().ok()?, str::from_utf8(line).ok()?)
            };
            records.extend(lines.iter().filter_map(record));
        }
        Ok(records)
    }

    fn log_runs(&self, turn: &mut ServerTurn<Connection>, changes: &[LogChange<'_>]) -> Result<(), Failure> {
        let mut commands = Vec::new();
        for change in changes {
            let event = change.event;
            for record in &change.written {
                // A start that comes late undoes no end.
                let verb = if record.end().is_some() { "HSET" } else { "HSETNX" };
                commands
                    .push(of_log(verb, &self.prefix, event).arg(record.id().to_string()).arg(record.to_line()).take());
            }
            let ended = change.dropped_ids(true);
            if !ended.is_empty() {
                commands.push(of_log("HDEL", &self.prefix, event).arg(ended).take());
            }
            let not_ended = change.dropped_ids(false);
            if !not_ended.is_empty() {
                commands.extend(script::drop_without_an_end(&self.prefix.runs_key(event), &not_ended));
            }
        }
        ask(turn, &commands).map(drop)
    }

    fn health(&self, turn: &mut ServerTurn<Connection>) -> Result<Health, Failure> {
        let answers = ask(turn, &[cmd("TIME"), cmd("INFO")])?;
        let (time, warnings) = (script::time(&answers[0])?, health::warnings(&answers[1])?);
        // On a cluster it has no such key, or another node has it.
        let last = cmd("GET").arg(self.prefix.token_key().to_string()).take();
        let last = turn.connection.ask(&[last], turn.attempt.until)?;
        // A token is the server's time of its grant, unless the clock was set back before that.
        let granted = read(&last[0]).map(instant);
        Ok(Health { time: Some(time), ahead: granted.ok().and_then(|last| (last - time).to_std().ok()), warnings })
    }

    fn error(&self, attempted: String, failure: Failure) -> MutexError {
        server_error::error(attempted, failure)
    }
}

/// A command about the log of an event's runs.
fn of_log(verb: &str, prefix: &Prefix, event: &str) -> Cmd {
    cmd(verb).arg(prefix.runs_key(event)).take()
}

/// Asks commands that may be asked twice, all at once.
fn ask(turn: &mut ServerTurn<Connection>, commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
    turn.connection.ask(commands, turn.attempt.until)?.into_iter().map(script::unless_refused).collect()
}

/// Splits what is asked into calls: each of a hundred at most that go together. No two in a call are of one mutex, so that none
/// of them changes what the script knows about another; many may be excluded by the same.
fn calls<'c, 'a, T>(
    asked: &'c [&'a T],
    go_together: impl Fn(&T, &T) -> bool,
    mutexes: impl Fn(&'a T) -> (&'a str, &'a [MutexName]),
) -> Vec<&'c [&'a T]> {
    let (mut own, mut excluding) = (HashSet::new(), HashSet::new());
    let in_one_call = |one: &&'a T, next: &&'a T| {
        let (mutex, unless) = mutexes(one);
        own.insert(mutex);
        excluding.extend(unless.iter().map(MutexName::mutex));
        let (mutex, unless) = mutexes(next);
        let is_apart =
            !own.contains(mutex) && !excluding.contains(mutex) && !unless.iter().any(|name| own.contains(name.mutex()));
        let is_one_call = is_apart && own.len() < CHUNK && go_together(one, next);
        if !is_one_call {
            (own, excluding) = Default::default();
        }
        is_one_call
    };
    asked.chunk_by(in_one_call).collect()
}

/// The answers to calls, as answers to what was in them.
fn each<Q, A: Clone>(
    calls: &[&[Q]],
    answers: &mut impl Iterator<Item = Value>,
    mut meaning: impl FnMut(Value, &[Q]) -> Result<Vec<A>, Failure>,
) -> EachAnswer<A> {
    let of_each = |(call, answer): (&&[Q], Value)| match meaning(answer, call) {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(failure) => vec![Err(failure); call.len()],
    };
    calls.iter().zip(answers).flat_map(of_each).collect()
}
