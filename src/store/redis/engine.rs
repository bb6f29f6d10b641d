//! The requests to a Redis server on one connection. Scripts carry out the releases, the admissions and most reads.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::{Cmd, Value, cmd};

use super::address::Address;
use super::connection::{CARRY_OUT, Connection, LOOK};
use super::entry::{Prefix, beginning_of_entry, end_of_entry, held_for, holder, millis};
use super::server_error::{OUT_OF_MEMORY, code_of, not_understood, read, refused, unless_refused};
use super::topology;
use crate::base::error::InvalidOptions;
use crate::base::lock::lock;
use crate::lease::request::LeaseRequest;
use crate::lease::{name::MutexName, owner::Owner, token::FencingToken};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::{Held, Names};
use crate::store::server::engine::{Answers, Attempt, End, EndRequest, Engine, FoundEntry, Health, Request};
use crate::store::server::failure::Failure;
use crate::store::server::server_builder::Target;
use crate::store::server::server_clock::{ServerClock, instant};
use crate::time::clock::{Clock, moment::Moment};

/// The most names that one call of a script ends, and also the most admissions that it decides on. Such a call blocks
/// the server for less than a millisecond.
const CHUNK: usize = 100;

/// The most names that one call of the script `look` reads. Such a call takes about a millisecond.
const LOOKED_AT_ONCE: usize = 1000;

/// The longest time after the deadline of a call for which the server may still accept a copy of the request. The
/// server checks the deadline on its own clock, which drifts from the clock of this process.
const MARGIN: Duration = Duration::from_secs(1);

/// The time for which the server keeps the last token after a grant: 30 days.
pub(super) const TOKEN_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The number of keys that the server examines for one reply to `SCAN`.
const SCANNED_AT_ONCE: u32 = 1000;

pub(super) struct RedisEngine {
    pub(super) target: Target<Address>,
    pub(super) prefix: Prefix,
    /// The server that answered last, as its index in the list of the URL. This server is asked first.
    answered_last: AtomicUsize,
    /// The owners whose admissions were granted at a second attempt, each with a moment. Until this moment, the server
    /// may still accept the first copy of the admission. So a release before this moment also revokes the owner.
    to_revoke: Mutex<Vec<(Owner, Moment)>>,
}

impl RedisEngine {
    pub(super) fn new(target: Target<Address>) -> Result<Self, InvalidOptions> {
        let prefix = Prefix::new(&target.namespace)?;
        Ok(Self { target, prefix, answered_last: AtomicUsize::new(0), to_revoke: Mutex::default() })
    }

    /// Ends these leases and claims, and decides on these admissions. If there are many, the script is called several
    /// times: first to end the names, then to decide on the admissions. The last call that ends names also decides on
    /// the first admissions. So an ordinary request needs only one call.
    pub(super) fn call_script(
        &self,
        attempt: &mut Attempt<Connection>,
        request: Request<'_>,
    ) -> Result<Answers, Failure> {
        let mut parts = request.admissions.chunks(CHUNK);
        let mut calls: Vec<Request<'_>> = request.ends.chunks(CHUNK).map(Request::to_end).collect();
        if let Some(last) = calls.last_mut() {
            last.admissions = parts.next().unwrap_or_default();
        }
        calls.extend(parts.map(|admissions| Request { ends: &[], admissions }));
        let commands: Vec<Cmd> = calls.iter().map(|call| self.script_call(attempt, *call)).collect();
        let replies = attempt.connection.exchange(attempt.until, &commands)?;
        let asked_before = attempt.asked_since.map(|since| Clock::system().moment().since(since));
        let mut answers = Answers::default();
        for (call, reply) in calls.iter().zip(&replies) {
            match carried_out(*call, reply) {
                Ok((time, replies)) => {
                    attempt.connection.clock = ServerClock::read(time);
                    let (now, (of_ends, of_admissions)) = (instant(time), replies.split_at(call.ends.len()));
                    let ends = call.ends.iter().zip(of_ends);
                    answers.ends.extend(ends.map(|(end, reply)| read_end(reply, end, now, asked_before)));
                    let admissions = call.admissions.iter().zip(of_admissions);
                    answers.admissions.extend(admissions.map(|(asked, reply)| read_admission(reply, asked, now)));
                }
                Err(failure) => {
                    answers.ends.extend(call.ends.iter().map(|_| Err(failure.clone())));
                    answers.admissions.extend(call.admissions.iter().map(|_| Err(failure.clone())));
                }
            }
        }
        Ok(answers)
    }

    /// Returns the call of the script that carries out `request`.
    fn script_call(&self, attempt: &Attempt<Connection>, Request { ends, admissions }: Request<'_>) -> Cmd {
        let of_admissions = admissions
            .iter()
            .flat_map(|admission| admission.excluded_by().iter().chain(admission.requests().map(LeaseRequest::name)));
        let names = ends.iter().map(|end| &end.name).chain(of_admissions);
        let mut call = CARRY_OUT.call(2 + names.clone().count());
        call.arg(self.prefix.with("token")).arg(self.prefix.with("revoked"));
        for name in names {
            call.arg(self.prefix.key(name));
        }
        let now = Clock::system().moment();
        let [asked, since, until] = attempt.connection.clock.window(now, attempt.until);
        call.arg([asked, until].map(|micros| format!("{micros:016}")).as_slice());
        call.arg(ends.len()).arg((self.target.timeout + MARGIN).as_millis()).arg(TOKEN_KEPT.as_millis());
        // A copy of the admissions of these owners may still arrive, so their releases revoke them.
        let to_revoke = lock(&self.to_revoke);
        let is_revoked = |owner: &Owner| to_revoke.iter().any(|(known, until)| known == owner && now < *until);
        for EndRequest { owner, end, .. } in ends {
            call.arg(beginning_of_entry(*owner));
            match end {
                End::Now if !is_revoked(owner) => call.arg("now"),
                End::Now | End::NowAndRevoked => call.arg("revoke"),
                End::After(term) => call.arg(millis(*term)),
            };
        }
        let mut before = None;
        for admission in admissions {
            let request = admission.request();
            call.arg(beginning_of_entry(request.owner()));
            let terms =
                [admission.claim(), admission.lease()].map(|asked| asked.map_or(0, |asked| millis(asked.term())));
            let (occurrence, label) = (request.occurrence(), request.label().map(|label| &**label));
            let details = (admission.excluded_by().len(), terms, occurrence, label);
            // Most admissions of a batch differ only in their names and owners.
            if before.replace(details) == Some(details) {
                call.arg("");
            } else {
                let end = end_of_entry(instant(since), occurrence, label);
                call.arg(admission.excluded_by().len()).arg(terms.as_slice()).arg(end);
            }
        }
        call
    }

    /// Notes the owners of the granted admissions. When such an owner releases its names, the owner is also revoked.
    fn revoke_later(&self, admissions: &[&Admission], decided: &[Result<Admitted, Failure>]) {
        let now = Clock::system().moment();
        let until = now.plus(self.target.timeout + MARGIN);
        let granted = admissions.iter().zip(decided).filter(|(_, decided)| is_granted(decided));
        let mut to_revoke = lock(&self.to_revoke);
        to_revoke.retain(|(_, until)| now < *until);
        to_revoke.extend(granted.map(|(admission, _)| (admission.request().owner(), until)));
    }

    /// Reads all keys that match the pattern, and returns the results of `parse`. A key is left out if its result is
    /// `None`.
    pub(super) fn scan<T: Ord>(
        &self,
        attempt: &mut Attempt<Connection>,
        pattern: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<BTreeSet<T>, Failure> {
        let (mut found, mut cursor) = (BTreeSet::new(), None);
        while cursor.as_deref() != Some("0") {
            let mut scan = cmd("SCAN");
            scan.arg(cursor.as_deref().unwrap_or("0")).arg("MATCH").arg(pattern).arg("COUNT").arg(SCANNED_AT_ONCE);
            // `SCAN` names no key, so a node of a cluster answers `SCAN` even if another node has the slot of the
            // prefix. The second command fails if this node does not have the slot.
            let answers = replies(attempt, [scan, topology::question_of_slot(&self.prefix)])?;
            let (next, keys): (String, Vec<Vec<u8>>) = read(&answers[0])?;
            // The store's keys are text. Other keys are left out.
            found.extend(keys.iter().filter_map(|key| parse(str::from_utf8(key).ok()?)));
            cursor = Some(next);
        }
        Ok(found)
    }
}

impl Engine for RedisEngine {
    /// After the deadline of a call, the scripts grant and extend nothing.
    const COMMITS_LATE: bool = false;

    type Address = Address;
    type Connection = Connection;

    fn target(&self) -> &Target<Address> {
        &self.target
    }

    fn open(&self, until: Moment) -> Result<Connection, Failure> {
        let (target, Address { topology, servers, .. }) = (&self.target, &self.target.address);
        let connected = match topology {
            None => Connection::to(target, &servers[0], None, until).map(|(connection, _)| connection),
            Some(topology) => topology::connect(target, topology, &self.prefix, &self.answered_last, until),
        };
        connected.map_err(Failure::undone)
    }

    fn carry_out(&self, attempt: &mut Attempt<Connection>, request: Request<'_>) -> Result<Answers, Failure> {
        let mut answers = self.call_script(attempt, request)?;
        if self.target.address.replicas > 0 {
            self.wait_for_replicas(attempt, request.admissions, &mut answers);
        }
        if attempt.asked_since.is_some() {
            self.revoke_later(request.admissions, &answers.admissions);
        }
        Ok(answers)
    }

    fn held(&self, attempt: &mut Attempt<Connection>, names: Names<'_>) -> Result<Vec<FoundEntry>, Failure> {
        let listed: Vec<MutexName>;
        let each = if let Names::Each(each) = names {
            each
        } else {
            let listed_at = |key: &str| self.prefix.name_at(key).filter(|name| names.contain(name));
            listed = Vec::from_iter(self.scan(attempt, &self.prefix.pattern_of(names), listed_at)?);
            &listed
        };
        let mut found = Vec::new();
        // Each part is read in its own round trip, because the length of the replies in one round trip is limited.
        for names in each.chunks(LOOKED_AT_ONCE) {
            let keys: Vec<String> = names.iter().map(|name| self.prefix.key(name)).collect();
            let answers = replies(attempt, [LOOK.call(names.len()).arg(keys).take()])?;
            found.extend(looked(names, &answers[0])?);
        }
        Ok(found)
    }

    fn health(&self, attempt: &mut Attempt<Connection>) -> Result<Health, Failure> {
        self.read_health(attempt)
    }
}

pub(super) fn is_granted(decided: &Result<Admitted, Failure>) -> bool {
    matches!(decided, Ok(Admitted::Granted(_)))
}

/// Reads the reply to a request: the server's time, and a reply to each lease to end and to each admission.
fn carried_out<'a>(Request { ends, admissions }: Request<'_>, reply: &'a Value) -> Result<(i64, &'a [Value]), Failure> {
    match (reply, reply.as_sequence()) {
        (Value::ServerError(error), _) => Err(refused(error)),
        (_, Some([time, replies @ ..])) if replies.len() == ends.len() + admissions.len() => {
            Ok((digits(time)?, replies))
        }
        _ => Err(not_understood(reply)),
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
        Value::ServerError(error) if code_of(error) == OUT_OF_MEMORY => Err(refused(error).of_one_name()),
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

/// Reads a time or a token, which the script returns as text.
fn digits(value: &Value) -> Result<i64, Failure> {
    let Value::BulkString(digits) = value else { return Err(not_understood(value)) };
    let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.filter(|number| *number >= 0).ok_or_else(|| not_understood(value))
}

/// Sends commands in one round trip. Returns their replies, or a failure if one of the replies is an error.
pub(super) fn replies(
    attempt: &mut Attempt<Connection>,
    commands: impl IntoIterator<Item = Cmd>,
) -> Result<Vec<Value>, Failure> {
    let replies = attempt.connection.exchange(attempt.until, &Vec::from_iter(commands))?;
    replies.iter().try_for_each(unless_refused).map(|()| replies)
}
