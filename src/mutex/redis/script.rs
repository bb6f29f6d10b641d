//! The scripts: what is sent to each, and what its answer means.

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use redis::{Cmd, Script, Value, cmd};

use super::connection::{ServerClock, instant};
use super::entry;
use super::failure::Failure;
use super::keys::Prefix;
use crate::clock::Moment;
use crate::error::Quoted;
use crate::lease::{FencingToken, Holder, Lease, LeaseRequest, Owner, Term};
use crate::mutex::Admission;

/// A script, and the name under which servers keep it.
pub(super) struct Stored {
    text: &'static str,
    script: Script,
}

static ADMIT: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("admit.lua")));
static RELEASE: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("release.lua")));
static EXTEND: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("extend.lua")));

static LOOK: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("look.lua")));

pub(super) static ALL: [&LazyLock<Stored>; 4] = [&ADMIT, &RELEASE, &EXTEND, &LOOK];

/// How long a token outlives its grant. Later, it is the server's clock alone that lets tokens rise.
const TOKEN_KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

impl Stored {
    fn new(text: &'static str) -> Self {
        Self { text, script: Script::new(text) }
    }

    pub(super) fn load(&self) -> Cmd {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(self.text);
        load
    }

    fn call(&self, keys: usize) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(self.script.get_hash()).arg(keys);
        call
    }
}

/// One name that an owner holds, or may hold.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) key: String,
    pub(super) owner: Owner,
}

impl Held {
    pub(super) fn by(lease: &Lease, prefix: &Prefix) -> Self {
        Self { key: prefix.key(lease.name()), owner: lease.owner() }
    }
}

pub(super) fn release<'a>(held: impl ExactSizeIterator<Item = &'a Held> + Clone) -> Cmd {
    let mut call = RELEASE.call(held.len());
    held.clone().for_each(|held| _ = call.arg(&held.key));
    held.for_each(|held| _ = call.arg(held.owner.to_string()));
    call
}

pub(super) fn extend<'a>(held: impl ExactSizeIterator<Item = &'a Held> + Clone, term: Term) -> Cmd {
    let mut call = EXTEND.call(held.len());
    held.clone().for_each(|held| _ = call.arg(&held.key));
    call.arg(millis(term));
    held.for_each(|held| _ = call.arg(held.owner.to_string()));
    call
}

/// What `release` and `extend` answer: for each name whether it was the owner's.
pub(super) fn owned(answer: Value, names: usize) -> Result<Vec<bool>, Failure> {
    let answers = sequence(answer)?;
    if answers.len() != names {
        return Err(Failure::not_understood(answers));
    }
    let was = |answer| match answer {
        Value::Int(0) => Ok(false),
        Value::Int(1) => Ok(true),
        other => Err(Failure::not_understood(other)),
    };
    answers.into_iter().map(was).collect()
}

/// An admission, with its keys.
pub(super) struct Asked {
    claim: Option<Part>,
    lease: Option<Part>,
    token: String,
}

struct Part {
    held: Held,
    term: u64,
}

impl Asked {
    pub(super) fn new(admission: &Admission, prefix: &Prefix) -> Self {
        let part = |request: &LeaseRequest| Part {
            held: Held { key: prefix.key(request.name()), owner: request.owner() },
            term: millis(request.term()),
        };
        Self {
            claim: admission.claim().map(part),
            lease: admission.lease().map(part),
            token: prefix.token_key(admission.name()),
        }
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        [&self.claim, &self.lease].into_iter().flatten()
    }

    /// What may be ours if the answer is lost.
    pub(super) fn may_be_held(&self) -> impl Iterator<Item = &Held> {
        self.parts().map(|part| &part.held)
    }
}

/// One call of the script for all of these; nobody waits for its answer from `until` on.
pub(super) fn admit<'a>(asked: impl Iterator<Item = &'a Asked> + Clone, clock: ServerClock, until: Moment) -> Cmd {
    let mut call = ADMIT.call(asked.clone().map(|asked| asked.parts().count() + 1).sum());
    for asked in asked.clone() {
        asked.parts().for_each(|part| _ = call.arg(&part.held.key));
        call.arg(&asked.token);
    }
    call.arg(clock.at(until)).arg(entry::about(clock.now())).arg(TOKEN_KEPT_MS);
    for asked in asked {
        call.arg(match (&asked.claim, &asked.lease) {
            (Some(_), None) => "claim",
            (None, _) => "lease",
            (Some(_), Some(_)) => "both",
        });
        asked.parts().for_each(|part| _ = call.arg(part.held.owner.to_string()).arg(part.term));
    }
    call
}

/// What the server decided on one admission.
pub(super) enum Decision {
    Granted(FencingToken),
    LeaseTaken(Holder),
    ClaimTaken(Holder),
    /// There is something else where the entry or the token should be.
    Foreign(String),
}

/// What `admit` answers; what the server's clock showed goes into `clock`.
pub(super) fn decisions(answer: Value, admissions: usize, clock: &mut ServerClock) -> Result<Vec<Decision>, Failure> {
    let mut answers = sequence(answer)?.into_iter();
    let time = match answers.next() {
        Some(Value::Int(micros)) => micros,
        other => return Err(Failure::not_understood(other)),
    };
    if answers.len() == 0 && admissions > 0 {
        return Err(Failure::too_late());
    }
    if answers.len() != admissions {
        return Err(Failure::not_understood(format!("{} decisions on {admissions}", answers.len())));
    }
    *clock = ServerClock::read(time);
    answers.map(|answer| decision(answer, time)).collect()
}

fn decision(answer: Value, time: i64) -> Result<Decision, Failure> {
    if let Value::Int(token) = answer {
        let token = u64::try_from(token).map_err(|_| Failure::not_understood(token))?;
        return Ok(Decision::Granted(FencingToken::new(token)));
    }
    let parts = sequence(answer)?;
    match &parts[..] {
        [Value::BulkString(what), Value::BulkString(key), Value::BulkString(error)] if what == b"error" => {
            Ok(Decision::Foreign(format!("{}: {}", String::from_utf8_lossy(key), String::from_utf8_lossy(error))))
        }
        [Value::BulkString(what), Value::BulkString(entry), Value::Int(left)] => {
            Ok(match (holder(entry, *left, time), &what[..]) {
                (Ok(holder), b"lease") => Decision::LeaseTaken(holder),
                (Ok(holder), b"claim") => Decision::ClaimTaken(holder),
                (Ok(_), _) => return Err(Failure::not_understood(parts)),
                (Err(foreign), _) => Decision::Foreign(foreign),
            })
        }
        _ => Err(Failure::not_understood(parts)),
    }
}

/// A call of the script that looks at a name.
pub(super) fn look(key: &str) -> Cmd {
    let mut call = LOOK.call(1);
    call.arg(key);
    call
}

/// What `look` answers: nobody, the holder, or what else there is.
pub(super) fn looked(answer: Value) -> Result<Option<Result<Holder, String>>, Failure> {
    if answer == Value::Nil {
        return Ok(None);
    }
    let parts = sequence(answer)?;
    match &parts[..] {
        [Value::BulkString(entry), Value::Int(left), Value::Int(time)] => Ok(Some(holder(entry, *left, *time))),
        _ => Err(Failure::not_understood(parts)),
    }
}

fn holder(entry: &[u8], left_ms: i64, time: i64) -> Result<Holder, String> {
    let entry = String::from_utf8_lossy(entry);
    entry::holder(&entry, left_ms, instant(time)).ok_or_else(|| format!("{} is no entry of ours", Quoted::new(&entry)))
}

/// What `EXISTS` and `DEL` answer for one key.
pub(super) fn flag(answer: Value) -> Result<bool, Failure> {
    match answer {
        Value::Int(number @ 0..=1) => Ok(number == 1),
        other => Err(Failure::not_understood(other)),
    }
}

/// What `TIME` answers.
pub(super) fn time(answer: Value) -> Result<DateTime<Utc>, Failure> {
    let shown = format!("{answer:?}");
    let (seconds, micros): (i64, i64) = redis::from_redis_value(answer).map_err(|_| Failure::not_understood(shown))?;
    Ok(instant(seconds.saturating_mul(1_000_000).saturating_add(micros)))
}

fn sequence(answer: Value) -> Result<Vec<Value>, Failure> {
    match unless_refused(answer)? {
        Value::Array(values) => Ok(values),
        other => Err(Failure::not_understood(other)),
    }
}

pub(super) fn unless_refused(answer: Value) -> Result<Value, Failure> {
    match answer {
        Value::ServerError(error) => Err(Failure::refused(error)),
        answer => Ok(answer),
    }
}

/// Redis counts terms in whole milliseconds; none is shorter than one, and a fraction is not taken from anybody.
fn millis(term: Term) -> u64 {
    u64::try_from(term.get().as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
