//! The Lua scripts: their arguments, and the meaning of their answers.

use std::fmt::{self, Write};
use std::iter;
use std::sync::LazyLock;
use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::{Cmd, RedisWrite, Script, Value, cmd};

use super::keys::{Key, Prefix};
use super::server_error::{not_understood, refused, too_late};
use super::stored_holder::{self, HeldSince, OwnedBy};
use crate::base::escape::Quoted;
use crate::lease::{holder::Holder, request::LeaseRequest, term::Term, token::FencingToken};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::remote::server_clock::{ServerClock, instant};
use crate::store::remote::server_mutex::{Decided, Released};
use crate::store::{remote::failure::Failure, remote::owned_name::OwnedName};
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

/// How many bytes an owner takes as text.
const LONGEST_OWNER: usize = 64;

/// How many keys the server looks at for one answer about those that match.
const SCANNED_AT_ONCE: u32 = 1000;

impl Stored {
    fn new(text: &'static str) -> Self {
        Self { text, script: Script::new(text) }
    }

    pub(super) fn load(&self, call: &mut Cmd) {
        call.arg("SCRIPT").arg("LOAD").arg(self.text);
    }

    fn call<K: fmt::Display>(&self, call: &mut Cmd, keys: impl Iterator<Item = K> + Clone) {
        call.arg("EVALSHA").arg(self.script.get_hash()).arg(keys.clone().count());
        keys.for_each(|key| call.write_arg_fmt(key));
    }
}

fn owners(call: &mut Cmd, held: &[OwnedName]) {
    for OwnedName { owner, .. } in held {
        call.write_arg_fmt(OwnedBy(*owner));
    }
}

pub(super) fn release(call: &mut Cmd, held: &[OwnedName], prefix: &Prefix) {
    RELEASE.call(call, held.iter().map(|held| prefix.key(&held.name)));
    owners(call, held);
}

/// What `release` answers. `again`: the same was asked before, in a call that began so long ago, and may have gone back then.
/// So may a name that is free: what has gone leaves nothing behind.
pub(super) fn released(answer: Value, names: usize, again: Option<Duration>) -> Result<Vec<Released>, Failure> {
    let mut released = vec![Released { was_ours: true, went_before: false }; names];
    for exception in sequence(answer)? {
        let (at, taken_for) = not_ours(&exception, names).ok_or_else(|| not_understood(exception))?;
        released[at] = Released { was_ours: false, went_before: again.is_some_and(|ago| taken_for <= ago) };
    }
    Ok(released)
}

/// The place of a name that was somebody else's, and for how long; for no time if it is free.
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

/// The times of the server between which a call that is sent now counts.
fn window(call: &mut Cmd, clock: ServerClock, until: Moment) {
    for micros in [clock.at_least().max(0), clock.at(until)] {
        call.write_arg_fmt(format_args!("{micros:016}"));
    }
}

/// One call of the script for all of these; nobody waits for its answer from `until` on.
pub(super) fn extend(
    call: &mut Cmd,
    held: &[OwnedName],
    term: Term,
    prefix: &Prefix,
    clock: ServerClock,
    until: Moment,
) {
    EXTEND.call(call, held.iter().map(|held| prefix.key(&held.name)));
    window(call, clock, until);
    call.arg(millis(term));
    owners(call, held);
}

/// What `extend` answers: for each name whether it was the owner's, unless it was too late.
pub(super) fn extended(answer: Value, names: usize) -> Result<Vec<Released>, Failure> {
    if answer == Value::BulkString(b"late".to_vec()) {
        return Err(too_late());
    }
    let mut extended = vec![Released { was_ours: true, went_before: false }; names];
    for exception in sequence(answer)? {
        let at = number(&exception, names).ok_or_else(|| not_understood(exception))?;
        extended[at].was_ours = false;
    }
    Ok(extended)
}

/// One call of the script for all of these, no two of one mutex, and each of one owner; nobody waits for its answer from
/// `until` on. Where the server takes the keys of one slot at a time, there is one of them.
pub(super) fn admit(
    call: &mut Cmd,
    admissions: &[&Admission],
    by_slot: bool,
    prefix: &Prefix,
    clock: ServerClock,
    until: Moment,
) {
    let token_key = if by_slot { prefix.token_key_of(admissions[0].name()) } else { prefix.token_key() };
    let names = admissions.iter().enumerate().flat_map(|(at, admission)| {
        let before = at.checked_sub(1).and_then(|before| admissions[before].excluded_by());
        let excluding = admission.excluded_by().filter(|name| Some(*name) != before);
        [excluding, admission.claim().map(LeaseRequest::name), admission.lease().map(LeaseRequest::name)]
    });
    ADMIT.call(call, iter::once(token_key).chain(names.flatten().map(|name| prefix.key(name))));
    window(call, clock, until);
    call.write_arg_fmt(HeldSince(clock.now()));
    call.arg(TOKEN_KEPT_MS);
    let (mut owner, mut process) = (String::with_capacity(LONGEST_OWNER), String::new());
    let (mut excluded_by, mut terms) = (None, [None; 2]);
    for admission in admissions {
        owner.clear();
        let _ = write!(owner, "{}", admission.owner()); // A text takes all that is written to it.
        let serial = owner.rfind('-').map_or(0, |dash| dash + 1);
        if owner[..serial] != process {
            owner[..serial].clone_into(&mut process);
            call.write_arg_fmt(format_args!("@{process}"));
        }
        if admission.excluded_by() != excluded_by {
            excluded_by = admission.excluded_by();
            call.arg(if excluded_by.is_some() { "u1" } else { "u" });
        }
        for (at, (kind, request)) in [("c", admission.claim()), ("l", admission.lease())].into_iter().enumerate() {
            let wanted = request.map(|request| millis(request.term()));
            if terms[at] != wanted {
                terms[at] = wanted;
                match wanted {
                    Some(wanted) => call.write_arg_fmt(format_args!("{kind}{wanted}")),
                    None => _ = call.arg(kind),
                }
            }
        }
        call.arg(&owner[serial..]);
    }
}

/// What `admit` answers; what the server's clock showed goes into `clock`. `again`: the same was asked before.
pub(super) fn decided(
    answer: Value,
    admissions: &[&Admission],
    again: bool,
    clock: &mut ServerClock,
) -> Result<Vec<Decided>, Failure> {
    let answers = sequence(answer)?;
    let (time, token, exceptions) = match &answers[..] {
        [_] => return Err(too_late()),
        [time, token, exceptions @ ..] => (digits(time)?, digits(token)?, exceptions),
        _ => return Err(not_understood(answers)),
    };
    let token = FencingToken::new(token.unsigned_abs());
    *clock = ServerClock::read(time);
    let mut exceptions = exceptions.iter();
    let mut exception = exceptions.next();
    let mut decided = Vec::with_capacity(admissions.len());
    for (at, admission) in admissions.iter().enumerate() {
        let decision = match exception {
            Some(Value::Array(parts))
                if parts.first().and_then(|first| number(first, admissions.len())) == Some(at) =>
            {
                exception = exceptions.next();
                exceptional(parts, admission, time)?
            }
            _ => Ok(Admitted::Granted(admission.granted(token))),
        };
        decided.push(Decided { decision, again });
    }
    exception.map_or(Ok(decided), |left| Err(not_understood(left)))
}

/// What is said about an admission that was not granted just now.
fn exceptional(exception: &[Value], admission: &Admission, time: i64) -> Result<Result<Admitted, String>, Failure> {
    let (what, text, left) = match exception {
        [_, Value::BulkString(what), Value::BulkString(text)] => (what, text, 0),
        [_, Value::BulkString(what), Value::BulkString(text), Value::Int(left)] => (what, text, *left),
        _ => return Err(not_understood(exception)),
    };
    Ok(match (&what[..], holder(text, left, time)) {
        (b"excluded", holder) => Ok(Admitted::Excluded(holder.ok())),
        (b"foreign", _) => {
            Err(format!("what is at the key {} is not ours", Quoted::new(&String::from_utf8_lossy(text))))
        }
        (_, Err(foreign)) => Err(foreign),
        (b"lease", Ok(holder)) => Ok(Admitted::LeaseTaken(Some(holder))),
        (b"claim", Ok(holder)) => Ok(Admitted::ClaimTaken(Some(holder))),
        (b"ours", Ok(holder)) if holder.owner() == admission.owner() => {
            Ok(Admitted::Granted(admission.granted(holder.token())))
        }
        _ => return Err(not_understood(exception)),
    })
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
    let mut call = Cmd::new();
    LOOK.call(&mut call, iter::once(key));
    call
}

/// A command about one key.
pub(super) fn of_key(command: &str, key: Key<'_>) -> Cmd {
    let mut command = cmd(command);
    command.write_arg_fmt(key);
    command
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

/// The command that reads on in the keys that match, from where the last answer said.
pub(super) fn scan(cursor: &str, pattern: &str) -> Cmd {
    let mut scan = cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCANNED_AT_ONCE);
    scan
}

/// What `SCAN` answers: where to read on, and keys, some of them twice. A key that is no text is none of ours.
pub(super) fn scanned(answer: Value) -> Result<(String, Vec<String>), Failure> {
    let parts = sequence(answer)?;
    let [Value::BulkString(cursor), Value::Array(keys)] = &parts[..] else { return Err(not_understood(parts)) };
    let text = |key: &Value| match key {
        Value::BulkString(key) => String::from_utf8(key.clone()).ok(),
        _ => None,
    };
    Ok((String::from_utf8_lossy(cursor).into_owned(), keys.iter().filter_map(text).collect()))
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
