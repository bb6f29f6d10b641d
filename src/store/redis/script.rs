//! The Lua scripts: their arguments, and the meaning of their answers.

use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::{Cmd, FromRedisValue, RedisWrite, Value, from_redis_value_ref};

use super::keys::{Key, Prefix};
use super::server_error::{not_understood, refused};
use super::stored_holder::{FORMAT, held_for, held_since, holder};
use super::stored_script::{CARRY_OUT, COUNT_SKIPS, DROP_RUNS, EXTEND, LOG_RUNS, LOOK};
use super::trip::Trip;
use crate::lease::{name::MutexName, request::LeaseRequest, term::Term, token::FencingToken};
use crate::observe::run_record::{RunRecord, skip_count::SkipCount};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::Held;
use crate::store::remote::engine::{Answers, Ending, FoundEntry, ReleaseRequest};
use crate::store::remote::failure::Failure;
use crate::store::remote::server_clock::{ServerClock, instant};
use crate::time::{clock::Clock, clock::moment::Moment};

/// One call: it ends all releases in the same way, and then decides on each admission.
pub(super) struct Call<'c, 'a> {
    pub(super) releases: &'c [&'a ReleaseRequest],
    pub(super) admissions: &'c [&'a Admission],
    pub(super) stops_at_first_grant: bool,
    /// The milliseconds for which an owner whose release is for good is granted nothing more.
    pub(super) refused_for: u128,
}

fn write_keys<'a>(call: &mut Cmd, keys: impl Iterator<Item = Key<'a>> + Clone) {
    call.arg(keys.clone().count());
    keys.for_each(|key| call.write_arg_fmt(key));
}

/// Says between which times of the server a call that is sent now counts, unless its clock was set back: nobody waits for the
/// answer from `until` on. It returns what that clock shows now.
fn write_window(call: &mut Cmd, clock: ServerClock, until: Moment) -> DateTime<Utc> {
    for micros in clock.window(until) {
        call.write_arg_fmt(format_args!("{micros:016}"));
    }
    instant(clock.at(Clock::system().moment()))
}

impl Call<'_, '_> {
    /// No two admissions are of one mutex, each is of one owner, and all are for one occurrence and reason. Where the server takes the
    /// keys of one slot at a time, it is about one name.
    pub(super) fn write(&self, trip: &mut Trip, by_slot: bool, prefix: &Prefix, clock: ServerClock, until: Moment) {
        match self.releases.first().map(|release| release.ending) {
            Some(Ending::After(term)) => self.write_extension(trip, term, prefix, clock, until),
            None | Some(Ending::Now | Ending::ForGood) => {
                trip.call(&CARRY_OUT, |call| self.write_arguments(call, by_slot, prefix, clock, until));
            }
        }
    }

    fn write_extension(&self, trip: &mut Trip, term: Term, prefix: &Prefix, clock: ServerClock, until: Moment) {
        trip.call(&EXTEND, |call| {
            write_keys(call, self.releases.iter().map(|release| prefix.key(&release.name)));
            write_window(call, clock, until);
            call.arg(millis(term));
            self.write_owners(call);
        });
    }

    fn write_owners(&self, call: &mut Cmd) {
        self.releases.iter().for_each(|release| call.write_arg_fmt(format_args!("{FORMAT} {} ", release.owner)));
    }

    fn write_arguments(&self, call: &mut Cmd, by_slot: bool, prefix: &Prefix, clock: ServerClock, until: Moment) {
        let Self { releases, admissions, stops_at_first_grant, refused_for } = *self;
        // Names that exclude several in a row are written once.
        let excluding = |at: usize| {
            let before = at.checked_sub(1).map_or(&[][..], |before| admissions[before].excluded_by());
            Some(admissions[at].excluded_by()).filter(|excluding| *excluding != before)
        };
        let asked = admissions.iter().enumerate().flat_map(|(at, admission)| {
            let asked = [admission.claim(), admission.lease()].into_iter().flatten().map(LeaseRequest::name);
            excluding(at).unwrap_or_default().iter().chain(asked)
        });
        let for_good = releases.first().filter(|release| release.ending == Ending::ForGood);
        let token_of = admissions.first().map(|first| first.name()).or(for_good.map(|release| &release.name));
        let token_key = token_of.map(|name| if by_slot { prefix.token_key_of(name) } else { prefix.token_key() });
        let released = releases.iter().map(|release| prefix.key(&release.name));
        write_keys(call, released.chain(token_key).chain(asked.map(|name| prefix.key(name))));
        call.arg(releases.len()).arg(for_good.map_or(String::new(), |_| refused_for.to_string()));
        self.write_owners(call);
        let Some(first) = admissions.first() else { return };
        let now = write_window(call, clock, until);
        call.arg(held_since(now, first.occurrence(), first.reason())).arg(u8::from(stops_at_first_grant));
        let mut at = 0;
        for group in admissions.chunk_by(|one, next| are_alike(one, next)) {
            call.arg(group.len());
            for request in [group[0].claim(), group[0].lease()] {
                match request {
                    Some(request) => call.arg(millis(request.term())),
                    None => call.arg(""),
                };
            }
            match excluding(at) {
                Some(names) => call.arg(names.len()),
                None => call.arg("="),
            };
            call.write_arg_fmt(format_args!("{FORMAT} {}", group[0].owner().process()));
            for admission in group {
                call.arg(admission.owner().serial());
            }
            at += group.len();
        }
    }

    /// Reads the server's answer, and notes its time in `clock`. If the same was `asked_before`, so long ago, it may have been done
    /// then: a name that is free now may have gone back, which leaves nothing behind.
    pub(super) fn read(
        &self,
        answer: Value,
        asked_before: Option<Duration>,
        clock: &mut ServerClock,
        answers: &mut Answers,
    ) {
        let heard = (answers.releases.len(), answers.admissions.len());
        if let Err(failure) = self.read_parts(answer, asked_before, clock, answers) {
            answers.releases.splice(heard.0.., self.releases.iter().map(|_| Err(failure.clone())));
            answers.admissions.splice(heard.1.., self.admissions.iter().map(|_| Err(failure.clone())));
        }
    }

    fn read_parts(
        &self,
        answer: Value,
        asked_before: Option<Duration>,
        clock: &mut ServerClock,
        Answers { releases: ended, admissions: decided }: &mut Answers,
    ) -> Result<(), Failure> {
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
        for release in self.releases {
            // A lease that was to be extended is still there after an attempt that was carried out.
            let asked_before = asked_before.filter(|_| !matches!(release.ending, Ending::After(_)));
            ended.push(Ok(match next_exception() {
                Some(exception) => went_before(exception, time, asked_before)?,
                None => true,
            }));
        }
        match token {
            Value::ServerError(error) => {
                let failure = refused(error);
                decided.extend(self.admissions.iter().map(|_| Err(failure.clone())));
            }
            token if !self.admissions.is_empty() => {
                let token = FencingToken::new(digits(token)?.unsigned_abs());
                let mut is_over = false;
                for admission in self.admissions {
                    let decision = match next_exception() {
                        Some(exception) => exceptional(exception, admission, time),
                        None if is_over => Ok(Admitted::NotDecided),
                        None => Ok(Admitted::Granted(admission.granted(token))),
                    };
                    is_over |= self.stops_at_first_grant && matches!(decision, Ok(Admitted::Granted(_)));
                    if let Err(failure) = &decision
                        && !failure.is_of_one_name()
                    {
                        return Err(failure.clone());
                    }
                    decided.push(decision);
                }
            }
            _ => {}
        }
        exceptions.next().map_or(Ok(()), |left| Err(not_understood(left)))
    }
}

/// Whether two in a row differ by their names and the ends of their owners alone.
fn are_alike(one: &Admission, next: &Admission) -> bool {
    let terms = |of: &Admission| [of.claim(), of.lease()].map(|request| request.map(LeaseRequest::term));
    terms(one) == terms(next) && one.excluded_by() == next.excluded_by() && one.owner().is_of_process_of(next.owner())
}

/// Returns whether the first attempt, so long ago, may have released what is not its owner's now.
fn went_before(exception: &Value, time: i64, asked_before: Option<Duration>) -> Result<bool, Failure> {
    let parts = exception.as_sequence().unwrap_or_default();
    let [_, Value::BulkString(what), Value::BulkString(entry), _] = parts else {
        return Err(not_understood(exception));
    };
    if what != b"not ours" {
        return Err(not_understood(exception));
    }
    let taken_for = held_for(entry, instant(time)).unwrap_or_default();
    Ok(asked_before.is_some_and(|ago| taken_for <= ago))
}

/// What is said about an admission that was not granted just now.
fn exceptional(exception: &Value, admission: &Admission, time: i64) -> Result<Admitted, Failure> {
    let parts = exception.as_sequence().unwrap_or_default();
    let [_, Value::BulkString(what), Value::BulkString(entry), Value::Int(left), which @ ..] = parts else {
        return Err(not_understood(exception));
    };
    let excluding = |which: &[Value]| {
        let [Value::Int(which)] = which else { return None };
        admission.excluded_by().get(usize::try_from(*which).ok()?.checked_sub(1)?)
    };
    match (&what[..], holder(entry, *left, instant(time))) {
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

/// Calls the script that looks at these names, which lie on one slot.
pub(super) fn look(trip: &mut Trip, prefix: &Prefix, names: &[MutexName]) {
    trip.call(&LOOK, |call| write_keys(call, names.iter().map(|name| prefix.key(name))));
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

/// Calls the script that writes these records into a log of runs.
pub(super) fn log_runs(trip: &mut Trip, log: &str, records: &[RunRecord]) {
    trip.call(&LOG_RUNS, |call| {
        call.arg(1).arg(log);
        for record in records {
            call.arg(record.id().to_string()).arg(record.to_line());
        }
    });
}

/// Calls the script that adds to the numbers of skipped occurrences in a log of runs.
pub(super) fn count_skips(trip: &mut Trip, log: &str, skips: &[SkipCount]) {
    trip.call(&COUNT_SKIPS, |call| {
        call.arg(1).arg(log);
        for skip in skips {
            call.arg(skip.reason()).arg(skip.count()).arg(skip.latest().timestamp_micros());
        }
    });
}

/// Calls the script that drops these records from a log of runs, unless they have an end by now.
pub(super) fn drop_without_an_end(trip: &mut Trip, log: &str, runs: &[String]) {
    trip.call(&DROP_RUNS, |call| _ = call.arg(1).arg(log).arg(runs));
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
