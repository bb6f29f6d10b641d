//! The Lua scripts: their arguments, and the meaning of their answers.

use std::iter;
use std::sync::LazyLock;
use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::{Cmd, FromRedisValue, RedisWrite, Script, Value, cmd, from_redis_value_ref};

use super::keys::{Key, Prefix};
use super::server_error::{not_understood, refused};
use super::stored_holder::{held_for, held_since, holder};
use crate::lease::{holder::Holder, request::LeaseRequest, term::Term, token::FencingToken};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::Held;
use crate::store::remote::engine::{Decision, Ending, ReleaseRequest, Released, Wanted};
use crate::store::remote::failure::Failure;
use crate::store::remote::server_clock::{ServerClock, instant};
use crate::time::{clock::Clock, clock::moment::Moment};

/// A script, and the name under which servers keep it.
pub(super) struct Stored {
    text: &'static str,
    script: Script,
}

static ADMIT: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("scripts/admit.lua")));
static RELEASE: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("scripts/release.lua")));
static EXTEND: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("scripts/extend.lua")));
static LOOK: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("scripts/look.lua")));

static DROP_RUNS: LazyLock<Stored> = LazyLock::new(|| Stored::new(include_str!("scripts/drop_runs.lua")));

/// Those that each connection loads when it begins.
pub(super) static ALL: [&LazyLock<Stored>; 4] = [&ADMIT, &RELEASE, &EXTEND, &LOOK];

/// How far two clocks drift apart between two calls at most, in microseconds, while neither is set.
const CLOCKS_DRIFT: i64 = 1_000_000;

/// How long a token outlives its grant. Later, it is the server's clock alone that lets tokens rise.
const TOKEN_KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

impl Stored {
    fn new(text: &'static str) -> Self {
        Self { text, script: Script::new(text) }
    }

    pub(super) fn load(&self) -> Cmd {
        cmd("SCRIPT").arg("LOAD").arg(self.text).take()
    }

    fn call<'a>(&self, keys: impl Iterator<Item = Key<'a>> + Clone) -> Cmd {
        let mut call = Cmd::with_capacity(16, 512);
        call.arg("EVALSHA").arg(self.script.get_hash()).arg(keys.clone().count());
        keys.for_each(|key| call.write_arg_fmt(key));
        call
    }
}

/// Says between which times of the server a call that is sent now counts, unless its clock was set back: nobody waits for the
/// answer from `until` on. It returns what that clock shows now.
fn write_window(call: &mut Cmd, clock: ServerClock, until: Moment) -> DateTime<Utc> {
    let now = clock.at(Clock::system().moment());
    for micros in [now.saturating_sub(CLOCKS_DRIFT).max(0), clock.at(until)] {
        call.write_arg_fmt(format_args!("{micros:016}"));
    }
    instant(now)
}

/// A call that gives all of these back, or lets them end one term from now: all of them the same.
pub(super) fn end(releases: &[&ReleaseRequest], prefix: &Prefix, clock: ServerClock, until: Moment) -> Cmd {
    let keys = releases.iter().map(|release| prefix.key(&release.name));
    let mut call = match releases[0].ending {
        Ending::Now | Ending::NowIfItBegan => RELEASE.call(keys),
        Ending::After(term) => {
            let mut call = EXTEND.call(keys);
            write_window(&mut call, clock, until);
            call.arg(millis(term)).take()
        }
    };
    for release in releases {
        call.write_arg_fmt(format_args!("{} ", release.owner));
    }
    call
}

/// What `end` answers. The same may have been done so long ago, when it was `asked_before`. Then a name that is free may have
/// gone back: that leaves nothing behind.
pub(super) fn ended(answer: Value, names: usize, asked_before: Option<Duration>) -> Result<Vec<Released>, Failure> {
    let answer = unless_refused(answer)?;
    let mut ended = vec![Released { was_ours: true, went_before: false }; names];
    for (number, entry, time) in read_something::<Vec<(usize, Vec<u8>, i64)>>(&answer)? {
        let at = number.checked_sub(1).filter(|at| *at < names).ok_or_else(|| not_understood(&answer))?;
        let taken_for = held_for(&entry, instant(time)).unwrap_or_default();
        ended[at] = Released { was_ours: false, went_before: asked_before.is_some_and(|ago| taken_for <= ago) };
    }
    Ok(ended)
}

/// A call that decides on all of these: no two are of one mutex, each is of one owner, and all are for the same reason. Where
/// the server takes the keys of one slot at a time, there is one of them.
pub(super) fn admit(
    admissions: &[&Admission],
    wanted: Wanted,
    by_slot: bool,
    prefix: &Prefix,
    clock: ServerClock,
    until: Moment,
) -> Cmd {
    let token_key = if by_slot { prefix.token_key_of(admissions[0].name()) } else { prefix.token_key() };
    // Whether the names that exclude an admission are those of the one before.
    let as_before = |at: usize| {
        let before = at.checked_sub(1).map_or(&[][..], |before| admissions[before].excluded_by());
        admissions[at].excluded_by() == before
    };
    let names = admissions.iter().enumerate().flat_map(|(at, admission)| {
        let excluding = if as_before(at) { &[] } else { admission.excluded_by() };
        let asked = [admission.claim(), admission.lease()].into_iter().flatten().map(LeaseRequest::name);
        excluding.iter().chain(asked)
    });
    let mut call = ADMIT.call(iter::once(token_key).chain(names.map(|name| prefix.key(name))));
    let now = write_window(&mut call, clock, until);
    call.arg(held_since(now, admissions[0].reason())).arg(TOKEN_KEPT_MS).arg(u8::from(wanted == Wanted::One));
    let mut before = String::new();
    for (at, admission) in admissions.iter().enumerate() {
        let ms = |request: Option<&LeaseRequest>| request.map_or(0, |request| millis(request.term()));
        let (claim_ms, lease_ms) = (ms(admission.claim()), ms(admission.lease()));
        let (is_another, owner) = (!as_before(at), admission.owner());
        let text = match admission.excluded_by().len() {
            excluding if is_another => format!("@{claim_ms} {lease_ms} {excluding} {owner}"),
            _ => format!("@{claim_ms} {lease_ms} = {owner}"),
        };
        let (attributes, serial) = text.split_at(text.rfind('-').map_or(0, |dash| dash + 1));
        if is_another || attributes != before {
            attributes.clone_into(&mut before);
            call.arg(attributes);
        }
        call.arg(serial);
    }
    call
}

/// What `admit` answers; what the server's clock showed goes into `clock`.
pub(super) fn decided(
    answer: Value,
    admissions: &[&Admission],
    wanted: Wanted,
    clock: &mut ServerClock,
) -> Result<Vec<Decision>, Failure> {
    let answer = unless_refused(answer)?;
    let Value::Array(parts) = &answer else { return Err(not_understood(answer)) };
    let [time, token, exceptions @ ..] = &parts[..] else { return Err(not_understood(answer)) };
    let (time, token) = (digits(time)?, FencingToken::new(digits(token)?.unsigned_abs()));
    *clock = ServerClock::read(time);
    let mut exceptions = exceptions.iter().peekable();
    let (mut decided, mut is_decided) = (Vec::with_capacity(admissions.len()), false);
    for (number, admission) in (1..).zip(admissions) {
        let is_about_this = |exception: &&Value| match exception {
            Value::Array(parts) => parts.first() == Some(&Value::Int(number)),
            _ => false,
        };
        let decision = match exceptions.next_if(is_about_this) {
            Some(exception) => exceptional(exception, admission, time)?,
            None if is_decided => Ok(Admitted::NotDecided),
            None => Ok(Admitted::Granted(admission.granted(token))),
        };
        is_decided |= wanted == Wanted::One && matches!(decision, Ok(Admitted::Granted(_)));
        decided.push(decision);
    }
    exceptions.next().map_or(Ok(decided), |left| Err(not_understood(left)))
}

/// What is said about an admission that was not granted just now.
fn exceptional(exception: &Value, admission: &Admission, time: i64) -> Result<Decision, Failure> {
    let parts = exception.as_sequence().unwrap_or_default();
    let [_, Value::BulkString(what), Value::BulkString(entry), Value::Int(left), which @ ..] = parts else {
        return Err(not_understood(exception));
    };
    let excluding = |which: &[Value]| {
        let [Value::Int(which)] = which else { return None };
        admission.excluded_by().get(usize::try_from(*which).ok()?.checked_sub(1)?)
    };
    Ok(match (&what[..], holder(entry, *left, instant(time))) {
        (b"excluded", holder) => {
            let name = excluding(which).ok_or_else(|| not_understood(exception))?;
            Ok(Admitted::Excluded(Held::new(name.clone(), holder.ok())))
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

/// A call of the script that looks at a name.
pub(super) fn look(key: Key<'_>) -> Cmd {
    LOOK.call(iter::once(key))
}

/// What `look` answers: nobody, the holder, or what else there is.
pub(super) fn looked(answer: &Value) -> Result<Option<Result<Holder, String>>, Failure> {
    let found: Option<(Vec<u8>, i64, i64)> = read(answer)?;
    Ok(found.map(|(entry, left, time)| holder(&entry, left, instant(time))))
}

/// Two commands that drop these records from a log of runs, unless they have an end by now. It is a rare thing to do, so that the
/// script is loaded each time.
pub(super) fn drop_without_an_end(log: &str, runs: &[String]) -> [Cmd; 2] {
    let call = cmd("EVALSHA").arg(DROP_RUNS.script.get_hash()).arg(1).arg(log).arg(runs).take();
    [DROP_RUNS.load(), call]
}

/// What `TIME` answers.
pub(super) fn time(answer: &Value) -> Result<DateTime<Utc>, Failure> {
    let (seconds, micros): (i64, i64) = read(answer)?;
    Ok(instant(seconds.saturating_mul(1_000_000).saturating_add(micros)))
}

/// A time or a token that `admit` gives as text.
fn digits(value: &Value) -> Result<i64, Failure> {
    let Value::BulkString(digits) = value else { return Err(not_understood(value)) };
    let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.filter(|number| *number >= 0).ok_or_else(|| not_understood(value))
}

/// What the server answered, if that makes sense.
pub(super) fn read<T: FromRedisValue>(answer: &Value) -> Result<T, Failure> {
    from_redis_value_ref(answer).map_err(|_| not_understood(answer))
}

/// The same where there must be something: to the driver, nothing is also an empty list, and `false`.
pub(super) fn read_something<T: FromRedisValue>(answer: &Value) -> Result<T, Failure> {
    if *answer == Value::Nil { Err(not_understood(answer)) } else { read(answer) }
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
