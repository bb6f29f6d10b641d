//! The calls of the scripts in `scripts/`: their keys, entries, arguments and replies. Other commands are sent from here,
//! too.
//!
//! The key of an entry is `{PREFIX}:NAME`, where `NAME` is the text of a [`MutexName`], as in `{soloist}:lease/reports`. Other keys
//! are `{PREFIX}:runs/EVENT` for the log of runs, `{PREFIX}:token` and `{PREFIX}:revoked`. The text in the
//! braces is the [hash tag](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags) of
//! all these keys. So they lie on one slot of a cluster, and one script can use them together.
//!
//! The value of an entry is `v1 OWNER token=N term=MS since=INSTANT for=OCCURRENCE host=TEXT`. Without an occurrence, `for=` is left
//! out. `TEXT` is the rest of the value, as in `web-1 instance=blue app=shop (the table is migrated)`.

use std::fmt::Display;
use std::io::ErrorKind;
use std::sync::OnceLock;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use redis::{Cmd, Script, Value, cmd, from_redis_value_ref};

use super::connection::Connection;
use super::server_error::{OUT_OF_MEMORY, code_of, refused, unexpected, unless_refused};
use crate::base::{error::InvalidOptions, escape::Quoted};
use crate::lease::holder::Holder;
use crate::lease::label::{Label, text_of_this_process};
use crate::lease::{name::MutexName, owner::Owner, request::LeaseRequest, term::Term, token::FencingToken};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::Held;
use crate::store::server::engine::{Answers, Attempt, End, EndRequest, FoundEntry, Request, ServerClock, instant};
use crate::store::server::failure::Failure;
use crate::time::clock::{Clock, wall_plus};

/// The most names that one call of a script ends, and also the most admissions that it decides on. Such a call blocks
/// the server for less than a millisecond.
const CHUNK: usize = 100;

/// The most by which the server's clock and this host's clock drift apart between two calls, in microseconds. A clock
/// that is set can jump further.
const CLOCKS_DRIFT: i64 = 1_000_000;

/// The time for which the server keeps the last token after a grant: 30 days.
pub(super) const TOKEN_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A script that is called by the hash of its text.
pub(super) struct StoredScript {
    text: &'static str,
    hashed: OnceLock<Script>,
}

static CARRY_OUT: StoredScript = StoredScript::new(include_str!("scripts/carry_out.lua"));
pub(super) static LOOK: StoredScript = StoredScript::new(include_str!("scripts/look.lua"));
pub(super) static LOG_RUNS: StoredScript = StoredScript::new(include_str!("scripts/log_runs.lua"));
pub(super) static COUNT_SKIPS: StoredScript = StoredScript::new(include_str!("scripts/count_skips.lua"));
pub(super) static DROP_RUNS: StoredScript = StoredScript::new(include_str!("scripts/drop_runs.lua"));

/// All scripts. If a server lacks one script, it has lost its scripts, and lacks the others, too.
pub(super) static SCRIPTS: [&StoredScript; 5] = [&CARRY_OUT, &LOOK, &LOG_RUNS, &COUNT_SKIPS, &DROP_RUNS];

impl StoredScript {
    const fn new(text: &'static str) -> Self {
        Self { text, hashed: OnceLock::new() }
    }

    /// Returns the beginning of a call of the script. The caller adds this number of keys, and then the other arguments.
    pub(super) fn call(&self, keys: usize) -> Cmd {
        let script = self.hashed.get_or_init(|| Script::new(self.text));
        cmd("EVALSHA").arg(script.get_hash()).arg(keys).take()
    }
}

/// Sends commands in one round trip. Returns their replies, or a failure if one of the replies is an error.
pub(super) fn replies(
    attempt: &mut Attempt<Connection>,
    commands: impl IntoIterator<Item = Cmd>,
) -> Result<Vec<Value>, Failure> {
    let replies = exchange(attempt, &Vec::from_iter(commands))?;
    replies.iter().try_for_each(unless_refused).map(|()| replies)
}

/// Sends commands, and returns their replies. If the server lacks a script, because it was restarted or its scripts were
/// flushed, all scripts are loaded. Then the first command without a script and the commands after it are sent again.
pub(super) fn exchange(attempt: &mut Attempt<Connection>, commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
    if attempt.connection.has_ended() {
        return Err(Failure::unanswered(ErrorKind::UnexpectedEof.into()).undone());
    }
    let mut round_trip = |commands: &[Cmd]| {
        let (replies, end) = attempt.connection.round_trip(attempt.until, commands);
        end.map_err(Failure::unanswered).map(|()| replies)
    };
    let mut replies = round_trip(commands)?;
    let is_missing = |reply: &Value| matches!(reply, Value::ServerError(error) if error.code() == "NOSCRIPT");
    let Some(missing) = replies.iter().position(is_missing) else { return Ok(replies) };
    let loads = SCRIPTS.iter().map(|script| cmd("SCRIPT").arg("LOAD").arg(script.text).take());
    let again: Vec<Cmd> = loads.chain(commands[missing..].iter().cloned()).collect();
    let mut loaded = round_trip(&again)?;
    replies.splice(missing.., loaded.drain(SCRIPTS.len()..));
    loaded.iter().try_for_each(unless_refused).map(|()| replies)
}

/// The prefix of all keys, with its braces and the colon.
pub(super) struct Prefix(String);

impl Prefix {
    pub(super) fn new(prefix: &str) -> Result<Self, InvalidOptions> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}');
        let is_valid = !prefix.is_empty() && prefix.len() <= 100 && prefix.bytes().all(plain);
        let what = "the prefix of keys in redis has to be 1 to 100 visible ASCII characters without braces, as in `prefix(\"shop\")` or ?prefix=shop";
        if is_valid { Ok(Self(format!("{{{prefix}}}:"))) } else { Err(InvalidOptions::new(what)) }
    }

    /// Returns the key of a name, such as a lease or a claim.
    pub(super) fn key(&self, name: &MutexName) -> String {
        name.key_text(&self.0)
    }

    /// Returns the key that has this text behind the prefix.
    pub(super) fn with(&self, text: impl Display) -> String {
        format!("{}{text}", self.0)
    }
}

/// Ends leases and claims, and decides on admissions. If there are many, the script is called several times: first to
/// end the names, then to decide on the admissions. The last call that ends names also decides on the first admissions.
/// So an ordinary request needs only one call. The server grants nothing to a revoked owner for the time `revoked_for`.
pub(super) fn carry_out(
    attempt: &mut Attempt<Connection>,
    prefix: &Prefix,
    revoked_for: Duration,
    request: Request<'_>,
) -> Result<Answers, Failure> {
    let mut parts = request.admissions.chunks(CHUNK);
    let mut calls: Vec<Request<'_>> = request.ends.chunks(CHUNK).map(Request::to_end).collect();
    if let Some(last) = calls.last_mut() {
        last.admissions = parts.next().unwrap_or_default();
    }
    calls.extend(parts.map(|admissions| Request { ends: &[], admissions }));
    let (clock, now) = (attempt.connection.clock, Clock::system().moment());
    let window = [(clock.at(now) - CLOCKS_DRIFT).max(0), clock.at(attempt.until)];
    let since = instant(clock.at(now));
    let is_again = attempt.asked_since.is_some();
    let command = |call: &Request<'_>| carry_out_call(prefix, window, since, is_again, revoked_for, *call);
    let commands: Vec<Cmd> = calls.iter().map(command).collect();
    let replies = exchange(attempt, &commands)?;
    let asked_before = attempt.asked_since.map(|asked| Clock::system().moment().since(asked));
    let mut answers = Answers::default();
    for (call, reply) in calls.iter().zip(&replies) {
        let failed = |failure: Failure| Answers {
            ends: vec![Err(failure.clone()); call.ends.len()],
            admissions: vec![Err(failure); call.admissions.len()],
        };
        let of_call = carried_out(*call, reply, asked_before, &mut attempt.connection.clock).unwrap_or_else(failed);
        answers.ends.extend(of_call.ends);
        answers.admissions.extend(of_call.admissions);
    }
    Ok(answers)
}

/// Returns the call of `carry_out.lua` for a request with this window of the server's time. A granted name is held
/// `since` that time. If the request is sent again (`is_again`), the script revokes the owners that it grants.
fn carry_out_call(
    prefix: &Prefix,
    window: [i64; 2],
    since: DateTime<Utc>,
    is_again: bool,
    revoked_for: Duration,
    Request { ends, admissions }: Request<'_>,
) -> Cmd {
    let of_admissions = admissions
        .iter()
        .flat_map(|admission| admission.excluded_by().iter().chain(admission.requests().map(LeaseRequest::name)));
    let names = ends.iter().map(|end| &end.name).chain(of_admissions);
    let mut call = CARRY_OUT.call(2 + names.clone().count());
    call.arg(prefix.with("token")).arg(prefix.with("revoked"));
    for name in names {
        call.arg(prefix.key(name));
    }
    call.arg(window.map(|micros| format!("{micros:016}")).as_slice());
    call.arg(ends.len()).arg(revoked_for.as_millis()).arg(TOKEN_KEPT.as_millis()).arg(u8::from(is_again));
    for EndRequest { owner, end, .. } in ends {
        call.arg(beginning_of_entry(*owner));
        match end {
            End::Now => call.arg("now"),
            End::NowAndRevoked => call.arg("revoke"),
            End::After(term) => call.arg(millis(*term)),
        };
    }
    for admission in admissions {
        let request = admission.request();
        let terms = [admission.claim(), admission.lease()].map(|asked| asked.map_or(0, |asked| millis(asked.term())));
        call.arg(beginning_of_entry(request.owner())).arg(admission.excluded_by().len()).arg(terms.as_slice());
        call.arg(end_of_entry(since, request.occurrence(), request.label().map(|label| &**label)));
    }
    call
}

/// Reads the reply to the call of `carry_out.lua` for a request, and sets `clock` to the server's time in the reply.
/// `asked_before` is the time since the call began, if the server may have carried out an earlier attempt.
fn carried_out(
    Request { ends, admissions }: Request<'_>,
    reply: &Value,
    asked_before: Option<Duration>,
    clock: &mut ServerClock,
) -> Result<Answers, Failure> {
    let replies = reply.as_sequence().filter(|replies| replies.len() == 1 + ends.len() + admissions.len());
    let Some([time, replies @ ..]) = replies else { return Err(unexpected(reply)) };
    *clock = ServerClock::read(digits(time)?);
    let (now, (of_ends, of_admissions)) = (clock.time(), replies.split_at(ends.len()));
    let ends = ends.iter().zip(of_ends).map(|(end, reply)| read_end(reply, end, now, asked_before));
    let admissions = admissions.iter().zip(of_admissions).map(|(asked, reply)| read_admission(reply, asked, now));
    Ok(Answers { ends: ends.collect(), admissions: admissions.collect() })
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
        Value::ServerError(error) if code_of(error) == OUT_OF_MEMORY => Err(refused(error).of_one_name()),
        Value::BulkString(entry) => {
            // If the request renews the lease or sets a minimum hold, an earlier attempt did not free the name. If the
            // name is free now, the owner had lost the lease before.
            let asked_before = asked_before.filter(|_| !matches!(request.end, End::After(_)));
            let taken_for = if entry.is_empty() { Some(Duration::ZERO) } else { held_for(entry, now) };
            Ok(asked_before.zip(taken_for).is_some_and(|(ago, taken_for)| taken_for <= ago))
        }
        _ => Err(unexpected(reply)),
    }
}

fn read_admission(reply: &Value, admission: &Admission, now: DateTime<Utc>) -> Result<Admitted, Failure> {
    match reply {
        Value::BulkString(_) => {
            return Ok(Admitted::Granted(admission.granted(FencingToken::new(digits(reply)?.unsigned_abs()))));
        }
        Value::ServerError(error) if code_of(error) == "WRONGTYPE" => return Err(refused(error).of_one_name()),
        _ => {}
    }
    let Some([Value::BulkString(kind), Value::BulkString(entry), Value::Int(left), which @ ..]) = reply.as_sequence()
    else {
        return Err(unexpected(reply));
    };
    let excluding = |which: &[Value]| {
        let [Value::Int(which)] = which else { return None };
        admission.excluded_by().get(usize::try_from(*which).ok()?.checked_sub(1)?)
    };
    match (&kind[..], holder(entry, *left, now)) {
        (b"excluded", holder) => {
            let name = excluding(which).ok_or_else(|| unexpected(reply))?;
            Ok(Admitted::Excluded(Held::new(name.clone(), holder.ok())))
        }
        (_, Err(foreign)) => Err(Failure::unreadable(&foreign)),
        (b"lease", Ok(holder)) => Ok(Admitted::LeaseTaken(Some(holder))),
        (b"claim", Ok(holder)) => Ok(Admitted::ClaimTaken(Some(holder))),
        _ => Err(unexpected(reply)),
    }
}

/// Reads a time or a token, which the script returns as text.
fn digits(value: &Value) -> Result<i64, Failure> {
    let number = from_redis_value_ref(value).ok().filter(|number: &i64| *number >= 0);
    number.ok_or_else(|| unexpected(value))
}

/// Reads the reply to `look`: the holders of the names that are held.
pub(super) fn looked(names: &[MutexName], answer: &Value) -> Result<Vec<FoundEntry>, Failure> {
    let Some([time, entries @ ..]) = answer.as_sequence() else { return Err(unexpected(answer)) };
    let time = instant(digits(time)?);
    let mut found = Vec::new();
    for (name, entry) in names.iter().zip(entries.chunks(2)) {
        match entry {
            [Value::Nil, _] => {}
            [Value::BulkString(entry), Value::Int(left)] => {
                let holder = holder(entry, *left, time).map_err(|foreign| Failure::unreadable(&foreign));
                found.push((name.clone(), holder));
            }
            _ => return Err(unexpected(answer)),
        }
    }
    Ok(found)
}

/// The format: the first word of each entry and of each line of a log.
const FORMAT: &str = "v1";

/// Returns the beginning of an entry: the format and the owner, with a space behind each.
fn beginning_of_entry(owner: Owner) -> String {
    format!("{FORMAT} {owner} ")
}

/// Returns the term of an entry in milliseconds, rounded up.
fn millis(term: Term) -> u128 {
    term.get().as_micros().div_ceil(1000)
}

/// Returns the end of an entry, behind the owner, the token and the term: the time of the grant, as this process
/// estimates the server's time; the occurrence; and the text about this process.
fn end_of_entry(since: DateTime<Utc>, occurrence: Option<DateTime<Utc>>, label: Option<&Label>) -> String {
    let since = since.to_rfc3339_opts(SecondsFormat::Millis, true);
    let occurrence = occurrence.map_or_else(String::new, |occurrence| format!(" for={occurrence:?}"));
    format!(" since={since}{occurrence} host={}", text_of_this_process(label))
}

/// Reads the holder from an entry, whose key expires `left_ms` milliseconds after `now`. Returns the reason as the
/// error if the entry can't be read.
fn holder(entry: &[u8], left_ms: i64, now: DateTime<Utc>) -> Result<Holder, String> {
    let entry = String::from_utf8_lossy(entry);
    parsed(behind_format(&entry)?, left_ms, now)
        .ok_or_else(|| format!("{} is not an entry that soloist wrote", Quoted::new(&entry)))
}

/// Returns the text behind the format, or the reason why the text can't be read.
pub(super) fn behind_format(text: &str) -> Result<&str, String> {
    text.strip_prefix(FORMAT).and_then(|rest| rest.strip_prefix(' ')).ok_or_else(|| {
        format!(
            "{} does not begin with {FORMAT}, the format that this version of soloist knows: update this program, or give it a \
             prefix of its own",
            Quoted::new(text)
        )
    })
}

fn parsed(entry: &str, left_ms: i64, now: DateTime<Utc>) -> Option<Holder> {
    let (owner, rest) = entry.split_once(' ')?;
    let (rest, host) = rest.split_once(" host=")?;
    let field = |name: &str| rest.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let token = FencingToken::new(field("token")?.parse().ok()?);
    let instant = |name| DateTime::parse_from_rfc3339(field(name)?).ok().map(|instant| instant.to_utc());
    let since = instant("since")?;
    // If the key does not expire, the holder's deadline is the longest term after `now`.
    let left = u64::try_from(left_ms).map_or(Term::MAX.get(), Duration::from_millis);
    let holder = Holder::new(owner.parse().ok()?, token, host, since, wall_plus(now, left));
    Some(holder.with_occurrence(instant("for")).seen_at(now))
}

/// Returns the time from the grant of an entry until `now`, or `None` if the entry can't be read. The token is the time
/// of the grant in microseconds. If the clock was set back, the token may be later than `now`. In this case, the time
/// of the grant is taken from the entry's `since=`.
fn held_for(entry: &[u8], now: DateTime<Utc>) -> Option<Duration> {
    let holder = holder(entry, 0, now).ok()?;
    let granted = i64::try_from(holder.token().get()).map_or(DateTime::<Utc>::MAX_UTC, instant);
    let since = if granted <= now { granted } else { holder.since() };
    Some((now - since).to_std().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::label::this_host;

    #[test]
    fn an_entry_is_read_back_and_nothing_else_is() {
        let now = DateTime::from_timestamp(1_772_366_400, 0).unwrap();
        let owner = Owner::unique();
        let (application, reason) = (Some("my shop".into()), Some("host=a b".into()));
        let label = Label { application, reason, ..Label::default() };
        let entry = format!("v1 {owner} token=17 term=2000{}", end_of_entry(now, Some(now), Some(&label)));
        let holder_of = |entry: &str| holder(entry.as_bytes(), 1_500, now).ok();
        let read = holder_of(&entry).unwrap();
        assert_eq!((read.owner(), read.token().get(), read.since()), (owner, 17, now));
        assert_eq!(read.occurrence(), Some(now));
        assert_eq!((read.host(), read.until()), (&*this_host(), now + Duration::from_millis(1_500)));
        assert_eq!((read.application(), read.reason()), (Some("my shop"), Some("host=a b")));
        assert_eq!(holder(entry.as_bytes(), -1, now).unwrap().until(), now + Term::MAX.get());
        for wrong in ["", "1", "v1", &entry[4..], &entry.replace("token", "t"), &entry.replace("since=", "since=x")] {
            assert_eq!(holder_of(wrong), None, "{wrong}");
        }
        let later = entry.replacen("v1", "v10", 1);
        let why = holder(later.as_bytes(), 1_500, now).unwrap_err();
        assert!(why.contains("does not begin with v1, the format that this version of soloist knows"), "{why}");
    }

    #[test]
    fn a_token_that_is_ahead_of_the_clock_does_not_say_for_how_long_a_name_was_taken() {
        let now = DateTime::from_timestamp(1_772_366_400, 0).unwrap();
        let end = end_of_entry(now - Duration::from_secs(5), None, None);
        let held_for =
            |token: i64| super::held_for(format!("v1 {} token={token} term=9{end}", Owner::unique()).as_bytes(), now);
        assert_eq!(held_for(now.timestamp_micros() - 7_000_001), Some(Duration::from_micros(7_000_001)));
        assert_eq!(held_for(now.timestamp_micros() + 1), Some(Duration::from_secs(5)));
        assert_eq!(super::held_for(b"1", now), None);
    }

    #[test]
    fn all_keys_of_a_prefix_share_a_hash_tag() {
        let prefix = Prefix::new(r"a*[b]?\:").unwrap();
        let lease = MutexName::lease("100% ü}*?[x]\\:{%41").unwrap();
        assert_eq!(prefix.key(&lease), r"{a*[b]?\:}:lease/100%25%20%C3%BC%7D*?[x]%5C:%7B%2541");
        assert_eq!(prefix.with("token"), r"{a*[b]?\:}:token");
    }

    #[test]
    fn a_prefix_leaves_the_braces_to_the_hash_tag() {
        for wrong in ["", "{app}:", "a b", "ü", &"x".repeat(101)] {
            assert!(Prefix::new(wrong).is_err(), "{wrong}");
        }
    }
}
