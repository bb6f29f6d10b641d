//! The Lua scripts: their arguments, and the meaning of their answers.

use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::{Cmd, FromRedisValue, Value, from_redis_value_ref};

use super::keys::Prefix;
use super::server_error::{not_understood, refused};
use super::stored_holder::{beginning_of_entry, held_for, held_since, holder};
use super::stored_script::{CARRY_OUT, LOOK};
use crate::lease::{name::MutexName, term::Term, token::FencingToken};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::Held;
use crate::store::remote::engine::{Answers, Ending, FoundEntry, ReleaseRequest};
use crate::store::remote::failure::Failure;
use crate::store::remote::server_clock::{ServerClock, instant};
use crate::time::{clock::Clock, clock::moment::Moment};

/// A call of the script that ends names and then decides on admissions.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) releases: &'a [ReleaseRequest],
    pub(super) admissions: &'a [&'a Admission],
    /// For how long an owner that ends for good is granted nothing more.
    pub(super) refused_for: Duration,
}

impl Call<'_> {
    /// Returns the command. Nobody waits for its answer from `until` on.
    pub(super) fn command(&self, prefix: &Prefix, clock: ServerClock, until: Moment) -> Cmd {
        let mut keys = vec![prefix.key("token"), prefix.key("spent")];
        let mut arguments: Vec<String> = clock.window(until).map(|micros| format!("{micros:016}")).into();
        arguments.push(self.releases.len().to_string());
        arguments.push(self.refused_for.as_millis().to_string());
        for release in self.releases {
            keys.push(prefix.key(&release.name));
            arguments.push(beginning_of_entry(release.owner));
            arguments.push(match release.ending {
                Ending::Now => "now".to_owned(),
                Ending::ForGood => "for good".to_owned(),
                Ending::After(term) => millis(term),
            });
        }
        let now = instant(clock.at(Clock::system().moment()));
        let mut before = None;
        for admission in self.admissions {
            let requests = [admission.claim(), admission.lease()];
            let terms = requests.map(|request| request.map_or(String::new(), |request| millis(request.term())));
            let asked = (terms, admission.excluded_by(), admission.occurrence(), admission.reason());
            arguments.push(beginning_of_entry(admission.owner()));
            if before.as_ref() == Some(&asked) {
                arguments.push("=".to_owned());
            } else {
                keys.extend(admission.excluded_by().iter().map(|name| prefix.key(name)));
                arguments.push(admission.excluded_by().len().to_string());
                arguments.extend(asked.0.clone());
                arguments.push(held_since(now, admission.occurrence(), admission.reason()));
                before = Some(asked);
            }
            keys.extend(requests.into_iter().flatten().map(|request| prefix.key(request.name())));
        }
        CARRY_OUT.call(&keys).arg(arguments).take()
    }

    /// Reads the server's answer, and notes its time in `clock`. If the call was `asked_before`, so long ago, it may have been
    /// carried out then: a name that is free now may have been released, which leaves nothing behind.
    pub(super) fn read(&self, answer: Value, asked_before: Option<Duration>, clock: &mut ServerClock) -> Answers {
        self.read_parts(answer, asked_before, clock).unwrap_or_else(|failure| {
            let (releases, admissions) = (self.releases.len(), self.admissions.len());
            Answers { releases: vec![Err(failure.clone()); releases], admissions: vec![Err(failure); admissions] }
        })
    }

    fn read_parts(
        &self,
        answer: Value,
        asked_before: Option<Duration>,
        clock: &mut ServerClock,
    ) -> Result<Answers, Failure> {
        let answer = unless_refused(answer)?;
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
        for release in self.releases {
            // A lease that was to be extended is still there after an attempt that was carried out.
            let asked_before = asked_before.filter(|_| !matches!(release.ending, Ending::After(_)));
            answers.releases.push(match next_exception() {
                None => Ok(true),
                Some(exception) if is_late(exception) => Err(Failure::too_late()),
                Some(exception) => Ok(went_before(exception, time, asked_before)?),
            });
        }
        for admission in self.admissions {
            let decision = match (next_exception(), token) {
                (Some(exception), _) => exceptional(exception, admission, time),
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

fn is_late(exception: &Value) -> bool {
    exception.as_sequence().and_then(|parts| parts.get(1)) == Some(&Value::BulkString(b"late".to_vec()))
}

/// Returns whether the first attempt, so long ago, may have released a name that is not its owner's now.
fn went_before(exception: &Value, time: i64, asked_before: Option<Duration>) -> Result<bool, Failure> {
    match exception.as_sequence() {
        Some([_, Value::BulkString(kind), Value::BulkString(entry), _]) if kind == b"not ours" => {
            let taken_for = held_for(entry, instant(time)).unwrap_or_default();
            Ok(asked_before.is_some_and(|ago| taken_for <= ago))
        }
        _ => Err(not_understood(exception)),
    }
}

/// Reads why an admission was not granted just now.
fn exceptional(exception: &Value, admission: &Admission, time: i64) -> Result<Admitted, Failure> {
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

/// Returns the command that looks at these names.
pub(super) fn look(prefix: &Prefix, names: &[MutexName]) -> Cmd {
    LOOK.call(&names.iter().map(|name| prefix.key(name)).collect::<Vec<_>>())
}

/// Reads what `look` answers about these names: of those that are taken, the holder or what else there is.
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

/// Reads the answer to `TIME`.
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

/// Reads an answer, if it makes sense.
pub(super) fn read<T: FromRedisValue>(answer: &Value) -> Result<T, Failure> {
    from_redis_value_ref(answer).map_err(|_| not_understood(answer))
}

pub(super) fn unless_refused(answer: Value) -> Result<Value, Failure> {
    match answer {
        Value::ServerError(error) => Err(refused(&error)),
        answer => Ok(answer),
    }
}

/// Returns a term in whole milliseconds, as Redis counts; a fraction is not taken from anybody.
fn millis(term: Term) -> String {
    term.get().as_micros().div_ceil(1000).to_string()
}
