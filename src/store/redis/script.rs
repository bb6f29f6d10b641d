//! The Lua scripts: their arguments, and the meaning of their answers.

use std::fmt::Write;
use std::sync::LazyLock;
use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::{Cmd, Script, Value, cmd};

use super::keys::{Key, Prefix};
use super::server_error::{not_understood, refused, too_late};
use super::stored_holder::{self, OwnedBy};
use crate::base::escape::Quoted;
use crate::lease::{holder::Holder, term::Term, token::FencingToken};
use crate::store::remote::server_clock::{ServerClock, instant};
use crate::store::remote::server_mutex::Released;
use crate::store::{event_mutex::admission::Admission, remote::failure::Failure, remote::owned_name::OwnedName};
use crate::time::clock::moment::Moment;

/// A script, and the name under which servers keep it.
pub(super) struct Stored {
    text: &'static str,
    script: Script,
}

static ADMIT: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("scripts/admit.lua")));
static RELEASE: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("scripts/release.lua")));
static EXTEND: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("scripts/extend.lua")));
static LOOK: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("scripts/look.lua")));

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

pub(super) fn release<'a>(held: impl ExactSizeIterator<Item = &'a OwnedName> + Clone, prefix: &Prefix) -> Cmd {
    let mut call = RELEASE.call(held.len());
    held.clone().for_each(|held| _ = call.arg(prefix.key(&held.name)));
    held.for_each(|held| _ = call.arg(OwnedBy(held.owner)));
    call
}

/// The times of the server between which a call that is sent now counts.
fn window(clock: ServerClock, until: Moment) -> [String; 2] {
    [clock.at_least().max(0), clock.at(until)].map(|micros| format!("{micros:016}"))
}

/// One call of the script for all of these; nobody waits for its answer from `until` on.
pub(super) fn extend<'a>(
    held: impl ExactSizeIterator<Item = &'a OwnedName> + Clone,
    term: Term,
    prefix: &Prefix,
    clock: ServerClock,
    until: Moment,
) -> Cmd {
    let mut call = EXTEND.call(held.len());
    held.clone().for_each(|held| _ = call.arg(prefix.key(&held.name)));
    call.arg(&window(clock, until)).arg(millis(term));
    held.for_each(|held| _ = call.arg(OwnedBy(held.owner)));
    call
}

/// What `extend` answers: for each name whether it was the owner's, unless it was too late.
pub(super) fn extended(answer: Value, names: usize, _: &mut ServerClock) -> Result<Vec<bool>, Failure> {
    if answer == Value::BulkString(b"late".to_vec()) {
        return Err(too_late());
    }
    let mut owned = vec![true; names];
    for exception in sequence(answer)? {
        let at = number(&exception, names).ok_or_else(|| not_understood(exception))?;
        owned[at] = false;
    }
    Ok(owned)
}

/// The answer about one name that was to be given back.
#[derive(Clone, Copy)]
pub(super) enum GivenBack {
    Ours,
    /// Somebody else has had it for so long; no time if it is free.
    NotOurs(Duration),
}

impl GivenBack {
    /// `again`: it was asked for before, in a call that began so long `ago`, and may have gone back then. So may a name that
    /// is free: what has gone leaves nothing behind.
    pub(super) fn released(self, again: bool, ago: Duration) -> Released {
        match self {
            Self::Ours => Released { was_ours: true, went_before: false },
            Self::NotOurs(taken_for) => Released { was_ours: false, went_before: again && taken_for <= ago },
        }
    }
}

/// What `release` answers.
pub(super) fn released(answer: Value, names: usize, _: &mut ServerClock) -> Result<Vec<GivenBack>, Failure> {
    let mut given_back = vec![GivenBack::Ours; names];
    for exception in sequence(answer)? {
        let (at, taken_for) = not_ours(&exception, names).ok_or_else(|| not_understood(exception))?;
        given_back[at] = GivenBack::NotOurs(taken_for);
    }
    Ok(given_back)
}

fn not_ours(exception: &Value, names: usize) -> Option<(usize, Duration)> {
    let Value::Array(parts) = exception else { return None };
    match &parts[..] {
        [at] => Some((number(at, names)?, Duration::ZERO)),
        [at, Value::BulkString(entry), time] => {
            let now = instant(digits(time).ok()?);
            let taken_for = stored_holder::held_for(&String::from_utf8_lossy(entry), now).unwrap_or_default();
            Some((number(at, names)?, taken_for))
        }
        _ => None,
    }
}

/// One call of the script for all of these, no two of one mutex, and each of one owner; nobody waits for its answer from
/// `until` on.
pub(super) fn admit<'a>(
    admissions: impl Iterator<Item = &'a Admission> + Clone,
    token_key: Key<'_>,
    prefix: &Prefix,
    clock: ServerClock,
    until: Moment,
) -> Cmd {
    let parts = |admission: &'a Admission| [admission.claim(), admission.lease()];
    let requests = admissions.clone().flat_map(parts).flatten();
    let mut call = ADMIT.call(1 + requests.clone().count());
    call.arg(token_key);
    requests.for_each(|request| _ = call.arg(prefix.key(request.name())));
    call.arg(&window(clock, until)).arg(stored_holder::about(clock.now())).arg(TOKEN_KEPT_MS);
    let (mut process, mut terms, mut owner) = (String::new(), [None; 2], String::new());
    for admission in admissions {
        owner.clear();
        let _ = write!(owner, "{}", admission.owner()); // A text takes all that is written to it.
        let serial = owner.rfind('-').map_or(0, |dash| dash + 1);
        if owner[..serial] != process {
            owner[..serial].clone_into(&mut process);
            call.arg(format!("@{process}"));
        }
        for (at, kind) in ["c", "l"].into_iter().enumerate() {
            let wanted = parts(admission)[at].map(|request| millis(request.term()));
            if terms[at] != wanted {
                terms[at] = wanted;
                call.arg(wanted.map_or_else(|| kind.to_owned(), |wanted| format!("{kind}{wanted}")));
            }
        }
        call.arg(&owner[serial..]);
    }
    call
}

/// What the server decided on one admission.
pub(super) enum Decision {
    Granted(FencingToken),
    /// It was granted before, if this is its owner.
    GrantedBefore(Holder),
    LeaseTaken(Holder),
    ClaimTaken(Holder),
    /// There is something else where the entry should be.
    Foreign(String),
}

/// What `admit` answers; what the server's clock showed goes into `clock`.
pub(super) fn decisions(answer: Value, admissions: usize, clock: &mut ServerClock) -> Result<Vec<Decision>, Failure> {
    let answers = sequence(answer)?;
    let (time, token, exceptions) = match &answers[..] {
        [_] => return Err(too_late()),
        [time, token, exceptions @ ..] => (digits(time)?, digits(token)?, exceptions),
        _ => return Err(not_understood(answers)),
    };
    let token = FencingToken::new(token.unsigned_abs());
    *clock = ServerClock::read(time);
    let mut decisions: Vec<Decision> = (0..admissions).map(|_| Decision::Granted(token)).collect();
    for exception in exceptions {
        let (at, decision) = exceptional(exception, admissions, time)?;
        decisions[at] = decision;
    }
    Ok(decisions)
}

fn exceptional(exception: &Value, admissions: usize, time: i64) -> Result<(usize, Decision), Failure> {
    let Value::Array(parts) = exception else { return Err(not_understood(exception)) };
    let (at, what, text, left) = match &parts[..] {
        [at, Value::BulkString(what), Value::BulkString(text)] => (at, what, text, 0),
        [at, Value::BulkString(what), Value::BulkString(text), Value::Int(left)] => (at, what, text, *left),
        _ => return Err(not_understood(exception)),
    };
    let at = number(at, admissions).ok_or_else(|| not_understood(exception))?;
    let decision = match (&what[..], holder(text, left, time)) {
        (b"foreign", _) => {
            Decision::Foreign(format!("what is at the key {} is not ours", Quoted::new(&String::from_utf8_lossy(text))))
        }
        (_, Err(foreign)) => Decision::Foreign(foreign),
        (b"lease", Ok(holder)) => Decision::LeaseTaken(holder),
        (b"claim", Ok(holder)) => Decision::ClaimTaken(holder),
        (b"ours", Ok(holder)) => Decision::GrantedBefore(holder),
        _ => return Err(not_understood(exception)),
    };
    Ok((at, decision))
}

/// A place from 0 on, of `of`, that a script counts from 1 on.
fn number(value: &Value, of: usize) -> Option<usize> {
    let Value::Int(number) = value else { return None };
    usize::try_from(*number).ok()?.checked_sub(1).filter(|at| *at < of)
}

/// A time or a token that a script gives as text.
fn digits(value: &Value) -> Result<i64, Failure> {
    let Value::BulkString(digits) = value else { return Err(not_understood(value)) };
    let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.filter(|number| *number >= 0).ok_or_else(|| not_understood(value))
}

/// A call of the script that looks at a name.
pub(super) fn look(key: Key<'_>) -> Cmd {
    let mut call = LOOK.call(1);
    call.arg(key);
    call
}

/// What `look` answers: nobody, the holder, or what else there is.
pub(super) fn looked(answer: Value) -> Result<Option<Result<Holder, String>>, Failure> {
    if answer == Value::Nil {
        return Ok(None);
    }
    if answer == Value::BulkString(b"foreign".to_vec()) {
        return Ok(Some(Err("what is at its key is not ours".to_owned())));
    }
    let parts = sequence(answer)?;
    match &parts[..] {
        [Value::BulkString(entry), Value::Int(left), time] => Ok(Some(holder(entry, *left, digits(time)?))),
        _ => Err(not_understood(parts)),
    }
}

fn holder(entry: &[u8], left_ms: i64, time: i64) -> Result<Holder, String> {
    let entry = String::from_utf8_lossy(entry);
    stored_holder::holder(&entry, left_ms, instant(time))
        .ok_or_else(|| format!("{} is no entry of ours", Quoted::new(&entry)))
}

/// When the last token was granted, by what is at its key: a token is the server's time of its grant, unless the clock was set
/// back before that.
pub(super) fn last_grant(answer: &Value) -> Option<DateTime<Utc>> {
    Some(instant(digits(answer).ok()?))
}

/// What `EXISTS` answers for one key.
pub(super) fn flag(answer: Value) -> Result<bool, Failure> {
    match answer {
        Value::Int(number @ 0..=1) => Ok(number == 1),
        other => Err(not_understood(other)),
    }
}

/// What `TIME` answers.
pub(super) fn time(answer: Value) -> Result<DateTime<Utc>, Failure> {
    let shown = format!("{answer:?}");
    let (seconds, micros): (i64, i64) = redis::from_redis_value(answer).map_err(|_| not_understood(shown))?;
    Ok(instant(seconds.saturating_mul(1_000_000).saturating_add(micros)))
}

fn sequence(answer: Value) -> Result<Vec<Value>, Failure> {
    match unless_refused(answer)? {
        Value::Array(values) => Ok(values),
        other => Err(not_understood(other)),
    }
}

pub(super) fn unless_refused(answer: Value) -> Result<Value, Failure> {
    match answer {
        Value::ServerError(error) => Err(refused(&error)),
        answer => Ok(answer),
    }
}

/// Redis counts terms in whole milliseconds; none is shorter than one, and a fraction is not taken from anybody.
fn millis(term: Term) -> u64 {
    u64::try_from(term.get().as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
