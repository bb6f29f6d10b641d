//! The calls of the Lua scripts `carry_out` and `look`, and the meaning of their replies.

use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::{Cmd, FromRedisValue, Value, from_redis_value_ref};

use super::keys::Prefix;
use super::scripts::{CARRY_OUT, LOOK};
use super::server_error::{OUT_OF_MEMORY, not_understood, refused};
use super::stored_holder::{beginning_of_entry, held_for, held_since, holder};
use crate::lease::{name::MutexName, term::Term, token::FencingToken};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::Held;
use crate::store::server::engine::{Answers, End, EndRequest, FoundEntry, Request};
use crate::store::server::failure::Failure;
use crate::store::server::server_clock::{ServerClock, instant};
use crate::time::{clock::Clock, clock::moment::Moment};

/// Returns the call of the script that carries out `request`. `until` is the deadline of the call. `revoked_for` is the
/// time for which the server grants nothing more to an owner that `request` revokes.
pub(super) fn carry_out(
    prefix: &Prefix,
    request: Request<'_>,
    revoked_for: Duration,
    clock: ServerClock,
    until: Moment,
) -> Cmd {
    let Request { ends, admissions } = request;
    let mut keys = vec![prefix.with("token"), prefix.with("revoked")];
    let mut arguments = Vec::with_capacity(4 + 2 * ends.len() + 5 * admissions.len());
    arguments.extend(clock.window(until).map(|micros| format!("{micros:016}")));
    arguments.extend([ends.len().to_string(), revoked_for.as_millis().to_string()]);
    for EndRequest { name, owner, end } in ends {
        keys.push(prefix.key(name));
        arguments.push(beginning_of_entry(*owner));
        arguments.push(match end {
            End::Now => "now".to_owned(),
            End::NowAndRevoked => "revoke".to_owned(),
            End::After(term) => millis(*term),
        });
    }
    let now = instant(clock.at(Clock::system().moment()));
    for admission in admissions {
        let requests = [admission.claim(), admission.lease()];
        keys.extend(admission.excluded_by().iter().map(|name| prefix.key(name)));
        keys.extend(requests.into_iter().flatten().map(|request| prefix.key(request.name())));
        arguments.extend([beginning_of_entry(admission.owner()), admission.excluded_by().len().to_string()]);
        arguments.extend(requests.map(|request| request.map_or(String::new(), |request| millis(request.term()))));
        arguments.push(held_since(now, admission.occurrence(), admission.label().map(|label| &**label)));
    }
    CARRY_OUT.call(&keys).arg(arguments).take()
}

/// Reads the reply to a request, and stores the server's time in `clock`. If the server may have carried out an earlier
/// attempt, `asked_before` is the time since the call began; otherwise it is `None`.
pub(super) fn carried_out(
    request: Request<'_>,
    reply: &Value,
    asked_before: Option<Duration>,
    clock: &mut ServerClock,
) -> Answers {
    let Request { ends, admissions } = request;
    let read = || {
        unless_refused(reply)?;
        match reply.as_sequence() {
            Some([time, replies @ ..]) if replies.len() == ends.len() + admissions.len() => {
                Ok((digits(time)?, replies))
            }
            _ => Err(not_understood(reply)),
        }
    };
    let (time, replies) = match read() {
        Ok(read) => read,
        Err(failure) => {
            return Answers {
                ends: vec![Err(failure.clone()); ends.len()],
                admissions: vec![Err(failure); admissions.len()],
            };
        }
    };
    *clock = ServerClock::read(time);
    let (now, (of_ends, of_admissions)) = (instant(time), replies.split_at(ends.len()));
    Answers {
        ends: ends.iter().zip(of_ends).map(|(request, reply)| read_end(reply, request, now, asked_before)).collect(),
        admissions: admissions
            .iter()
            .zip(of_admissions)
            .map(|(asked, reply)| read_admission(reply, asked, now))
            .collect(),
    }
}

/// Returns whether the owner held the name. If the server may have carried out an earlier attempt, that attempt may
/// have released the name. Then the result is also `true` if the name is free now, or if another owner acquired the
/// name after the call began.
fn read_end(
    reply: &Value,
    request: &EndRequest,
    now: DateTime<Utc>,
    asked_before: Option<Duration>,
) -> Result<bool, Failure> {
    match reply {
        Value::Int(1) => Ok(true),
        // The server's memory is full. Releases need no memory, so the server has carried out the other releases of the
        // call. So this failure concerns only one name.
        Value::ServerError(error) if error.code() == OUT_OF_MEMORY => Err(refused(error).of_one_name()),
        Value::ServerError(error) => Err(refused(error)),
        Value::BulkString(entry) => {
            // If the request renews the lease or sets a minimum hold, an earlier attempt did not free the name. If the
            // name is free now, the owner had lost the lease before.
            let asked_before = asked_before.filter(|_| !matches!(request.end, End::After(_)));
            let taken_for = if entry.is_empty() { Some(Duration::ZERO) } else { held_for(entry, now) };
            Ok(asked_before.zip(taken_for).is_some_and(|(ago, taken_for)| taken_for <= ago))
        }
        _ => Err(not_understood(reply)),
    }
}

fn read_admission(reply: &Value, admission: &Admission, now: DateTime<Utc>) -> Result<Admitted, Failure> {
    if let Value::BulkString(_) = reply {
        return Ok(Admitted::Granted(admission.granted(FencingToken::new(digits(reply)?.unsigned_abs()))));
    }
    unless_refused(reply)?;
    let Some([Value::BulkString(kind), Value::BulkString(entry), Value::Int(left), which @ ..]) = reply.as_sequence()
    else {
        return Err(not_understood(reply));
    };
    let excluding = |which: &[Value]| {
        let [Value::Int(which)] = which else { return None };
        admission.excluded_by().get(usize::try_from(*which).ok()?.checked_sub(1)?)
    };
    match (&kind[..], holder(entry, *left, now)) {
        (b"excluded", holder) => {
            let name = excluding(which).ok_or_else(|| not_understood(reply))?;
            Ok(Admitted::Excluded(Held::new(name.clone(), holder.ok())))
        }
        (_, Err(foreign)) => Err(Failure::unreadable(&foreign)),
        (b"lease", Ok(holder)) => Ok(Admitted::LeaseTaken(Some(holder))),
        (b"claim", Ok(holder)) => Ok(Admitted::ClaimTaken(Some(holder))),
        _ => Err(not_understood(reply)),
    }
}

/// Returns the command that reads these names.
pub(super) fn look(prefix: &Prefix, names: &[MutexName]) -> Cmd {
    LOOK.call(&names.iter().map(|name| prefix.key(name)).collect::<Vec<_>>())
}

/// Reads the reply to `look`: the holders of the names that are held.
pub(super) fn looked(names: &[MutexName], answer: &Value) -> Result<Vec<FoundEntry>, Failure> {
    let Some([time, entries @ ..]) = answer.as_sequence() else { return Err(not_understood(answer)) };
    let (time, mut found) = (instant(read(time)?), Vec::new());
    for (name, entry) in names.iter().zip(entries.chunks(2)) {
        match entry {
            [Value::Nil, _] => {}
            [Value::BulkString(entry), Value::Int(left)] => {
                let holder = holder(entry, *left, time).map_err(|foreign| Failure::unreadable(&foreign));
                found.push((name.clone(), holder));
            }
            _ => return Err(not_understood(answer)),
        }
    }
    Ok(found)
}

/// Reads the reply to `TIME`.
pub(super) fn time(answer: &Value) -> Result<DateTime<Utc>, Failure> {
    let (seconds, micros): (i64, i64) = read(answer)?;
    Ok(instant(seconds.saturating_mul(1_000_000).saturating_add(micros)))
}

/// Reads a time or a token, which the script returns as text.
fn digits(value: &Value) -> Result<i64, Failure> {
    let Value::BulkString(digits) = value else { return Err(not_understood(value)) };
    let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.filter(|number| *number >= 0).ok_or_else(|| not_understood(value))
}

/// Converts a reply, or returns the failure of a reply that makes no sense.
pub(super) fn read<T: FromRedisValue>(answer: &Value) -> Result<T, Failure> {
    from_redis_value_ref(answer).map_err(|_| not_understood(answer))
}

/// Returns a failure if the reply is an error.
pub(super) fn unless_refused(answer: &Value) -> Result<(), Failure> {
    match answer {
        Value::ServerError(error) => Err(refused(error)),
        _ => Ok(()),
    }
}

/// Returns a term in milliseconds, rounded up.
fn millis(term: Term) -> String {
    term.get().as_micros().div_ceil(1000).to_string()
}
