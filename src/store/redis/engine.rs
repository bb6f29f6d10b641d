//! What a Redis server is asked on one connection: releases, admissions and looks, which the scripts carry out.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use super::connection::Connection;
use super::keys::Prefix;
use super::script::{self, Call, read};
use super::server_error::is_of_many_slots;
use super::stored_holder::behind_format;
use super::trip::Trip;
use super::{health, server_error};
use crate::base::error::MutexError;
use crate::lease::{name::MutexName, owner::Owner};
use crate::observe::run_record::{RunRecord, numbered_record::NumberedRecord, skip_count::SkipCount};
use crate::observe::skip_reason::SkipReason;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::remote::engine::{
    Answers, Attempt, DroppedRuns, Ending, Engine, FoundEntry, Health, ReleaseRequest, Request,
};
use crate::store::remote::{failure::Failure, server_clock::instant};
use crate::time::clock::{Clock, moment::Moment};

/// How many names one call of a script is about; it keeps the server for less than a millisecond.
const CHUNK: usize = 100;

/// How much later than a call ends the server may come to a copy of it, because clocks drift.
const MARGIN: Duration = Duration::from_secs(1);

/// How many keys the server looks at for one answer about those that match.
const SCANNED_AT_ONCE: u32 = 1000;

pub(super) struct RedisEngine {
    pub(super) prefix: Prefix,
    /// Whether the server was seen to be a node of a cluster, which takes the keys of one slot at a time.
    pub(super) by_slot: AtomicBool,
    /// The longest time that one call takes.
    pub(super) timeout: Duration,
    /// The owners that were granted something when they asked for it again, and until when the first copy of that may come.
    pub(super) asked_again: Mutex<Vec<(Owner, Moment)>>,
}

impl RedisEngine {
    /// Returns until when the server may come to a copy of what is asked now.
    fn latest_copy(&self) -> Moment {
        Clock::system().moment().plus(self.timeout).plus(MARGIN)
    }

    /// Remembers the owners of these admissions that were granted.
    fn remember(&self, admissions: &[&Admission], decided: &[Result<Admitted, Failure>]) {
        let (now, until) = (Clock::system().moment(), self.latest_copy());
        let is_granted = |decided: &Result<Admitted, Failure>| matches!(decided, Ok(Admitted::Granted(_)));
        let granted = admissions.iter().zip(decided).filter(|(_, decided)| is_granted(decided));
        let mut asked_again = self.asked_again.lock().unwrap_or_else(PoisonError::into_inner);
        asked_again.retain(|(_, until)| now < *until);
        asked_again.extend(granted.map(|(admission, _)| (admission.owner(), until)));
    }

    /// Returns this release, for good if a copy of the owner's admission may still be on its way.
    fn for_good(&self, release: &ReleaseRequest) -> ReleaseRequest {
        let now = Clock::system().moment();
        let asked_again = self.asked_again.lock().unwrap_or_else(PoisonError::into_inner);
        let may_come = asked_again.iter().any(|(owner, until)| *owner == release.owner && now < *until);
        let ending = if may_come && release.ending == Ending::Now { Ending::ForGood } else { release.ending };
        ReleaseRequest { ending, ..release.clone() }
    }
}

impl Engine for RedisEngine {
    const STORE: &'static str = "RedisMutex";
    /// The scripts do nothing after the deadline of a call.
    const COMMITS_LATE: bool = false;

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

    fn carry_out(&self, turn: &mut Attempt<Connection>, request: Request<'_>) -> Result<Answers, Failure> {
        let Request { releases, admissions, stops_at_first_grant } = request;
        let (asked_before, until) = (turn.asked_before(), turn.until);
        let connection = &mut turn.connection;
        let (by_slot, clock) = (self.by_slot.load(Ordering::Relaxed), connection.clock);
        let releases: Vec<ReleaseRequest> = releases.iter().map(|release| self.for_good(release)).collect();
        let releases: Vec<&ReleaseRequest> = releases.iter().collect();
        // What is pending may lie on different slots.
        let end_together = |one: &ReleaseRequest, next: &ReleaseRequest| {
            !by_slot && one.ending == next.ending && one.ending != Ending::ForGood
        };
        let releases = calls(&releases, end_together, |release| (release.name.mutex(), &[]));
        let for_the_same = |one: &Admission, next: &Admission| {
            !by_slot && one.occurrence() == next.occurrence() && one.reason() == next.reason()
        };
        let admissions =
            calls(admissions, for_the_same, |admission| (admission.name().mutex(), admission.excluded_by()));
        // The next call does not know what this one grants.
        let sent = if stops_at_first_grant { admissions.len().min(1) } else { admissions.len() };
        let (sent, not_sent) = admissions.split_at(sent);
        let refused_for = (self.timeout + MARGIN).as_millis();
        let calls = together(releases, sent, stops_at_first_grant, by_slot, refused_for);
        let values = connection.ask(until, |trip| {
            for call in &calls {
                call.write(trip, by_slot, &self.prefix, clock, until);
            }
        })?;
        self.by_slot.fetch_or(values.iter().any(is_of_many_slots), Ordering::Relaxed);
        let mut answers = Answers::default();
        for (call, value) in calls.iter().zip(values) {
            call.read(value, asked_before, &mut connection.clock, &mut answers);
        }
        answers.admissions.extend(not_sent.iter().copied().flatten().map(|_| Ok(Admitted::NotDecided)));
        if asked_before.is_some() {
            self.remember(request.admissions, &answers.admissions);
        }
        Ok(answers)
    }

    /// Calls the script for the names of one mutex at once, because they lie on one slot.
    fn look(&self, turn: &mut Attempt<Connection>, names: &[MutexName]) -> Result<Vec<FoundEntry>, Failure> {
        let calls = || names.chunk_by(|one, next| one.mutex() == next.mutex()).flat_map(|names| names.chunks(CHUNK));
        let answers = ask(turn, |trip| calls().for_each(|names| script::look(trip, &self.prefix, names)))?;
        let found = calls().zip(&answers).map(|(names, answer)| script::looked(names, answer));
        Ok(found.collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn leases(&self, turn: &mut Attempt<Connection>, prefix: &str) -> Result<Vec<FoundEntry>, Failure> {
        let pattern = self.prefix.pattern_of_leases(prefix);
        let (mut names, mut cursor) = (BTreeSet::new(), None);
        while cursor.as_deref() != Some("0") {
            let mut scan = cmd("SCAN");
            scan.arg(cursor.as_deref().unwrap_or("0")).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCANNED_AT_ONCE);
            let (next, keys): (String, Vec<Vec<u8>>) = read(&ask(turn, |trip| trip.push(&scan))?[0])?;
            // A key that is no text is none of ours.
            names.extend(keys.iter().filter_map(|key| self.prefix.lease_at(str::from_utf8(key).ok()?)));
            cursor = Some(next);
        }
        let mut found = Vec::new();
        for names in Vec::from_iter(names).chunks(CHUNK) {
            found.extend(self.look(turn, names)?);
        }
        Ok(found)
    }

    fn runs(&self, turn: &mut Attempt<Connection>, events: &[&str]) -> Result<Vec<NumberedRecord>, Failure> {
        let looks = |trip: &mut Trip| {
            for event in events {
                trip.push(&of_log("HGETALL", &self.prefix, event));
            }
        };
        let mut records = Vec::new();
        for (event, answer) in events.iter().zip(ask(turn, looks)?) {
            let lines: Vec<(Vec<u8>, Vec<u8>)> = read(&answer)?;
            for (id, line) in &lines {
                records.extend(record(event, &String::from_utf8_lossy(id), &String::from_utf8_lossy(line))?);
            }
        }
        Ok(records)
    }

    fn log_runs(&self, turn: &mut Attempt<Connection>, records: &[RunRecord]) -> Result<(), Failure> {
        let write = |trip: &mut Trip| {
            for of_event in records.chunk_by(|one, next| one.event() == next.event()) {
                script::log_runs(trip, &self.prefix.runs_key(of_event[0].event()), of_event);
            }
        };
        ask(turn, write).map(drop)
    }

    fn drop_runs(&self, turn: &mut Attempt<Connection>, dropped: &[DroppedRuns<'_>]) -> Result<(), Failure> {
        let write = |trip: &mut Trip| {
            for DroppedRuns { event, ended, not_ended } in dropped {
                if !ended.is_empty() {
                    trip.push(of_log("HDEL", &self.prefix, event).arg(ended));
                }
                if !not_ended.is_empty() {
                    script::drop_without_an_end(trip, &self.prefix.runs_key(event), not_ended);
                }
            }
        };
        ask(turn, write).map(drop)
    }

    fn count_skips(&self, turn: &mut Attempt<Connection>, event: &str, skips: &[SkipCount]) -> Result<(), Failure> {
        ask(turn, |trip| script::count_skips(trip, &self.prefix.runs_key(event), skips)).map(drop)
    }

    fn skips(&self, turn: &mut Attempt<Connection>, event: &str) -> Result<Vec<SkipCount>, Failure> {
        let looks = |trip: &mut Trip| {
            for reason in SkipReason::COUNTED {
                let fields = [format!("skipped:{reason}"), format!("latest:{reason}")];
                trip.push(of_log("HMGET", &self.prefix, event).arg(&fields));
            }
        };
        let mut skips = Vec::new();
        for (reason, answer) in SkipReason::COUNTED.into_iter().zip(ask(turn, looks)?) {
            let (count, latest): (Option<u64>, Option<i64>) = read(&answer)?;
            skips.extend(count.and_then(|count| SkipCount::new(reason, count, instant(latest?))));
        }
        Ok(skips)
    }

    fn health(&self, turn: &mut Attempt<Connection>) -> Result<Health, Failure> {
        let answers = ask(turn, |trip| [cmd("TIME"), cmd("INFO")].iter().for_each(|asked| trip.push(asked)))?;
        let (time, mut warnings) = (script::time(&answers[0])?, health::warnings(&answers[1])?);
        // On a cluster it has no such key, or another node has it.
        let last = cmd("GET").arg(self.prefix.token_key().to_string()).take();
        let write = cmd("SET").arg(self.prefix.check_key().to_string()).arg("").arg("PX").arg(1).take();
        let both = |trip: &mut Trip| [&last, &write].into_iter().for_each(|asked| trip.push(asked));
        let answers = turn.connection.ask(turn.until, both)?;
        warnings.extend(health::of_write(&answers[1], &warnings));
        // A token is the server's time of its grant, unless the clock was set back before that.
        let granted = read(&answers[0]).map(instant);
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

/// Reads the record of a run from a field of a log. `None`: the field is none of a run, or its line is damaged.
fn record(event: &str, field: &str, line: &str) -> Result<Option<NumberedRecord>, Failure> {
    if field.parse::<Owner>().is_err() {
        return Ok(None);
    }
    let line = behind_format(line).map_err(|why| Failure::unusable(&why))?;
    Ok(NumberedRecord::of_line(event, field, line))
}

/// Asks what may be asked twice, all at once.
fn ask(turn: &mut Attempt<Connection>, write: impl FnOnce(&mut Trip)) -> Result<Vec<Value>, Failure> {
    turn.connection.ask(turn.until, write)?.into_iter().map(script::unless_refused).collect()
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

/// All calls, of which the last with releases has the first admissions with it: that is one call for each run in order. What
/// gets a rest is another script's. On a node of a cluster, names are asked about one by one.
fn together<'c, 'a>(
    releases: Vec<&'c [&'a ReleaseRequest]>,
    admissions: &[&'c [&'a Admission]],
    stops_at_first_grant: bool,
    by_slot: bool,
    refused_for: u128,
) -> Vec<Call<'c, 'a>> {
    let mut calls = Vec::with_capacity(releases.len() + admissions.len());
    calls.extend(releases.into_iter().map(|releases| Call {
        releases,
        admissions: &[],
        stops_at_first_grant,
        refused_for,
    }));
    for admissions in admissions {
        match calls.last_mut() {
            Some(Call { releases: [.., last], admissions: none @ [], .. })
                if !by_slot && last.ending == Ending::Now =>
            {
                *none = admissions;
            }
            _ => calls.push(Call { releases: &[], admissions, stops_at_first_grant, refused_for }),
        }
    }
    calls
}
