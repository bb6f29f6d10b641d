//! The arguments of the Lua scripts, and the meaning of their replies.

use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::{Cmd, FromRedisValue, Value, from_redis_value_ref};

use super::keys::Prefix;
use super::server_error::{OUT_OF_MEMORY, not_understood, refused};
use super::stored_holder::{beginning_of_entry, held_for, held_since, holder};
use super::stored_script::{CARRY_OUT, LOOK};
use crate::lease::{name::MutexName, term::Term, token::FencingToken};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::Held;
use crate::store::server::engine::{Answers, End, EndRequest, FoundEntry};
use crate::store::server::failure::Failure;
use crate::store::server::server_clock::{ServerClock, instant};
use crate::time::{clock::Clock, clock::moment::Moment};

/// A call of the script that ends leases and then decides on admissions.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) ends: &'a [EndRequest],
    pub(super) admissions: &'a [&'a Admission],
    /// How long a revoked owner is granted nothing more.
    pub(super) revoked_for: Duration,
}

impl Call<'_> {
    /// Returns the command, whose caller waits for the reply until `until`.
    pub(super) fn command(&self, prefix: &Prefix, clock: ServerClock, until: Moment) -> Cmd {
        let mut keys = vec![prefix.key("token"), prefix.key("revoked")];
        let mut arguments = Vec::with_capacity(4 + 2 * self.ends.len() + 6 * self.admissions.len());
        arguments.extend(clock.window(until).map(|micros| format!("{micros:016}")));
        arguments.push(self.ends.len().to_string());
        arguments.push(self.revoked_for.as_millis().to_string());
        for EndRequest { name, owner, end } in self.ends {
            keys.push(prefix.key(name));
            arguments.push(beginning_of_entry(*owner));
            arguments.push(match end {
                End::Now => "now".to_owned(),
                End::NowAndRevoked => "revoke".to_owned(),
                End::After(term) => millis(*term),
            });
        }
        let now = instant(clock.at(Clock::system().moment()));
        let mut before = None;
        for admission in self.admissions {
            let requests = [admission.claim(), admission.lease()];
            let terms = requests.map(|request| request.map_or(String::new(), |request| millis(request.term())));
            let asked = (terms, admission.excluded_by(), admission.occurrence(), admission.label());
            arguments.push(beginning_of_entry(admission.owner()));
            if before.as_ref() == Some(&asked) {
                arguments.push("=".to_owned());
            } else {
                keys.extend(admission.excluded_by().iter().map(|name| prefix.key(name)));
                arguments.push(admission.excluded_by().len().to_string());
                arguments.extend(asked.0.clone());
                arguments.push(held_since(now, admission.occurrence(), admission.label().map(|label| &**label)));
                before = Some(asked);
            }
            keys.extend(requests.into_iter().flatten().map(|request| prefix.key(request.name())));
        }
        CARRY_OUT.call(&keys).arg(arguments).take()
    }

    /// Reads the server's reply, and notes its time in `clock`. `asked_before` is the time since an earlier attempt that may have been
    /// carried out: a name that is free now may have been released then, which leaves no trace.
    pub(super) fn read(&self, answer: Value, asked_before: Option<Duration>, clock: &mut ServerClock) -> Answers {
        self.read_parts(answer, asked_before, clock).unwrap_or_else(|failure| {
            let (ends, admissions) = (self.ends.len(), self.admissions.len());
            Answers { ends: vec![Err(failure.clone()); ends], admissions: vec![Err(failure); admissions] }
        })
    }

    fn read_parts(
        &self,
        answer: Value,
        asked_before: Option<Duration>,
        clock: &mut ServerClock,
    ) -> Result<Answers, Failure> {
        unless_refused(&answer)?;
        let Value::Array(parts) = &answer else { return Err(not_understood(answer)) };
        let [time, token, exceptions @ ..] = &parts[..] else { return Err(not_understood(answer)) };
        let time = digits(time)?;
        *clock = ServerClock::read(time);
        let (mut numbers, mut exceptions) = (1.., exceptions.iter().peekable());
        let mut next_exception = || {
            let number = numbers.next().map(Value::Int);
            exceptions.next_if(|exception| matches!(exception, Value::Array(parts) if parts.first() == number.as_ref()))
        };
        let mut answers = Answers::default();
        for request in self.ends {
            let answer = match next_exception() {
                None => Ok(true),
                Some(exception) => read_end(exception, request, time, asked_before)?,
            };
            answers.ends.push(answer);
        }
        for admission in self.admissions {
            let decision = match (next_exception(), token) {
                (Some(exception), _) => read_admission(exception, admission, time),
                (None, Value::ServerError(error)) => Err(refused(error)),
                (None, token) => {
                    let token = FencingToken::new(digits(token)?.unsigned_abs());
                    Ok(Admitted::Granted(admission.granted(token)))
                }
            };
            match decision {
                Err(failure) if !failure.is_of_one_name() && !matches!(token, Value::ServerError(_)) => {
                    return Err(failure);
                }
                decision => answers.admissions.push(decision),
            }
        }
        exceptions.next().map_or(Ok(answers), |left| Err(not_understood(left)))
    }
}

/// Reads why a lease did not end. After an earlier attempt, so long ago, a name that its owner does not hold now counts as released
/// then, unless another owner has held it for longer.
fn read_end(
    exception: &Value,
    request: &EndRequest,
    time: i64,
    asked_before: Option<Duration>,
) -> Result<Result<bool, Failure>, Failure> {
    match exception.as_sequence() {
        Some([_, Value::BulkString(kind), ..]) if kind == b"late" => Ok(Err(Failure::too_late())),
        Some([_, Value::BulkString(kind), Value::ServerError(error), _]) if kind == b"refused" => {
            let failure = refused(error);
            // A server without memory has carried out the other releases of the call: they take none.
            Ok(Err(if error.code() == OUT_OF_MEMORY { failure.of_one_name() } else { failure }))
        }
        Some([_, Value::BulkString(kind), Value::BulkString(entry), _]) if kind == b"not ours" => {
            // A lease whose deadline was moved is still there.
            let asked_before = asked_before.filter(|_| !matches!(request.end, End::After(_)));
            let taken_for = if entry.is_empty() { Some(Duration::ZERO) } else { held_for(entry, instant(time)) };
            Ok(Ok(asked_before.zip(taken_for).is_some_and(|(ago, taken_for)| taken_for <= ago)))
        }
        _ => Err(not_understood(exception)),
    }
}

/// Reads why an admission was not granted by this call.
fn read_admission(exception: &Value, admission: &Admission, time: i64) -> Result<Admitted, Failure> {
    let parts = exception.as_sequence().unwrap_or_default();
    let [_, Value::BulkString(kind), Value::BulkString(entry), Value::Int(left), which @ ..] = parts else {
        return Err(not_understood(exception));
    };
    let excluding = |which: &[Value]| {
        let [Value::Int(which)] = which else { return None };
        admission.excluded_by().get(usize::try_from(*which).ok()?.checked_sub(1)?)
    };
    match (&kind[..], holder(entry, *left, instant(time))) {
        (b"excluded", holder) => {
            let name = excluding(which).ok_or_else(|| not_understood(exception))?;
            Ok(Admitted::Excluded(Held::new(name.clone(), holder.ok())))
        }
        (_, Err(foreign)) => Err(Failure::unreadable(&foreign)),
        (b"lease", Ok(holder)) => Ok(Admitted::LeaseTaken(Some(holder))),
        (b"claim", Ok(holder)) => Ok(Admitted::ClaimTaken(Some(holder))),
        (b"ours", Ok(holder)) if holder.owner() == admission.owner() => {
            Ok(Admitted::Granted(admission.granted(holder.token())))
        }
        _ => Err(not_understood(exception)),
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

/// Reads a time or a token, which is a text.
fn digits(value: &Value) -> Result<i64, Failure> {
    let Value::BulkString(digits) = value else { return Err(not_understood(value)) };
    let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.filter(|number| *number >= 0).ok_or_else(|| not_understood(value))
}

/// Reads a reply, if it makes sense.
pub(super) fn read<T: FromRedisValue>(answer: &Value) -> Result<T, Failure> {
    from_redis_value_ref(answer).map_err(|_| not_understood(answer))
}

/// Returns the failure if a reply is an error.
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
