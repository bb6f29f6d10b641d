//! The requests to a Redis server on one connection. Scripts carry out the releases, the admissions and most reads.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use super::address::Address;
use super::calls_and_replies::{self, read, unless_refused};
use super::connection::Connection;
use super::keys::Prefix;
use super::scripts::{COUNT_SKIPS, DROP_RUNS, LOG_RUNS};
use super::stored_holder::behind_format;
use super::{health, server_error, topology};
use crate::base::error::{InvalidOptions, MutexError};
use crate::lease::{name::MutexName, owner::Owner};
use crate::outcome::skip_reason::SkipReason;
use crate::outcome::{
    run_record::RunRecord, run_record::numbered_record::NumberedRecord, run_record::skip_count::SkipCount,
};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::Names;
use crate::store::server::engine::{
    Answers, Attempt, DroppedRuns, End, EndRequest, Engine, FoundEntry, Health, Request,
};
use crate::store::server::failure::{AskAgain, Failure};
use crate::store::server::{server_builder::Target, server_clock::instant};
use crate::time::clock::{Clock, moment::Moment};

/// The most names that one call of a script ends, and also the most admissions that it decides on. Such a call blocks
/// the server for less than a millisecond.
const CHUNK: usize = 100;

/// The most names that one call of the script `look` reads. Such a call takes about a millisecond.
const LOOKED_AT_ONCE: usize = 1000;

/// The longest time after the deadline of a call for which the server may still accept a copy of the request. The
/// server checks the deadline on its own clock, which drifts from the clock of this process.
const MARGIN: Duration = Duration::from_secs(1);

/// The number of keys that the server examines for one reply to `SCAN`.
const SCANNED_AT_ONCE: u32 = 1000;

/// The number of logs that one request reads. With a thousand runs in each log, the reply is still short enough to be
/// accepted.
const LOGS_AT_ONCE: usize = 4;

pub(super) struct RedisEngine {
    target: Target<Address>,
    prefix: Prefix,
    /// The server that answered last, as its index in the list of the URL. This server is asked first.
    answered_last: AtomicUsize,
    /// The owners whose admissions were granted at a second attempt, each with a moment. Until this moment, the server
    /// may still accept the first copy of the admission. So a release before this moment also revokes the owner.
    to_revoke: Mutex<Vec<(Owner, Moment)>>,
}

impl RedisEngine {
    pub(super) fn new(target: Target<Address>) -> Result<Self, InvalidOptions> {
        let prefix = Prefix::new(target.namespace.clone())?;
        Ok(Self { target, prefix, answered_last: AtomicUsize::new(0), to_revoke: Mutex::default() })
    }

    /// Notes the owners of the granted admissions. When such an owner releases its names, the owner is also revoked.
    fn revoke_later(&self, admissions: &[&Admission], decided: &[Result<Admitted, Failure>]) {
        let now = Clock::system().moment();
        let until = now.plus(self.target.timeout + MARGIN);
        let granted = admissions.iter().zip(decided).filter(|(_, decided)| is_granted(decided));
        let mut to_revoke = self.to_revoke.lock().unwrap_or_else(PoisonError::into_inner);
        to_revoke.retain(|(_, until)| now < *until);
        to_revoke.extend(granted.map(|(admission, _)| (admission.owner(), until)));
    }

    /// Ends these leases and claims, and decides on these admissions. If there are many, the script is called several
    /// times: first to end the names, then to decide on the admissions. The last call that ends names also decides on
    /// the first admissions. So an ordinary request needs only one call.
    fn call_script(&self, attempt: &mut Attempt<Connection>, request: Request<'_>) -> Result<Answers, Failure> {
        let mut parts = request.admissions.chunks(CHUNK);
        let mut calls: Vec<Request<'_>> = request.ends.chunks(CHUNK).map(Request::to_end).collect();
        if let Some(last) = calls.last_mut() {
            last.admissions = parts.next().unwrap_or_default();
        }
        calls.extend(parts.map(|admissions| Request { ends: &[], admissions }));
        let (until, clock, revoked_for) = (attempt.until, attempt.connection.clock, self.target.timeout + MARGIN);
        let command = |call: &Request<'_>| calls_and_replies::carry_out(&self.prefix, *call, revoked_for, clock, until);
        let replies = attempt.connection.exchange(until, &calls.iter().map(command).collect::<Vec<_>>())?;
        let asked_before = attempt.asked_since.map(|since| Clock::system().moment().since(since));
        let mut answers = Answers::default();
        for (call, reply) in calls.iter().zip(&replies) {
            let of_call = calls_and_replies::carried_out(*call, reply, asked_before, &mut attempt.connection.clock);
            answers.ends.extend(of_call.ends);
            answers.admissions.extend(of_call.admissions);
        }
        Ok(answers)
    }

    /// Waits until enough replicas have the changes. If too few replicas confirm in time:
    ///
    /// - All requests to end a name fail. A request to end a name that was not held also fails, because an earlier
    ///   request may have released the name without a confirmation.
    /// - The granted admissions fail, and their leases and claims are released. The refused admissions of the request
    ///   also fail, because a released lease or claim may have been the reason of the refusal.
    fn wait_for_replicas(&self, attempt: &mut Attempt<Connection>, admissions: &[&Admission], answers: &mut Answers) {
        let granted = admissions.iter().zip(&answers.admissions).filter(|(_, decided)| is_granted(decided));
        let granted: Vec<&Admission> = granted.map(|(admission, _)| *admission).collect();
        if answers.ends.is_empty() && granted.is_empty() {
            return;
        }
        let Err(failure) = self.confirm(attempt) else { return };
        let end = if attempt.asked_since.is_some() { End::NowAndRevoked } else { End::Now };
        let requests = granted.iter().flat_map(|admission| [admission.claim(), admission.lease()]).flatten();
        let given_up = requests.map(|request| EndRequest { name: request.name().clone(), owner: request.owner(), end });
        let released = self.call_script(attempt, Request::to_end(&given_up.collect::<Vec<_>>()));
        let is_released = released.is_ok_and(|answers| answers.ends.iter().all(Result::is_ok));
        for was_ours in answers.ends.iter_mut().filter(|was_ours| was_ours.is_ok()) {
            *was_ours = Err(failure.clone().perhaps_done(true));
        }
        if !granted.is_empty() {
            answers.admissions.fill(Err(failure.perhaps_done(!is_released || attempt.asked_since.is_some())));
        }
    }

    /// Waits until enough replicas have all writes of the server. The wait takes at most half of the time that is left.
    fn confirm(&self, attempt: &mut Attempt<Connection>) -> Result<(), Failure> {
        let (left, needed) = (attempt.until.since(Clock::system().moment()), self.target.address.replicas);
        let wait = cmd("WAIT").arg(needed).arg((left.as_millis() / 2).max(1)).take();
        // `WAIT` waits only for the writes of this connection, but an earlier attempt may have written the grant on
        // another connection. So a harmless write on this connection comes first: a replica that has this write has all
        // earlier writes, too.
        let answers = replies(attempt, [self.harmless_write(), wait])?;
        let count: u32 = read(&answers[1])?;
        if count < needed {
            let what = format!(
                "only {count} of {needed} replicas confirmed the change in time: check the replicas, or lower `wait` in the url"
            );
            return Err(Failure::unavailable(what, AskAgain::Never));
        }
        Ok(())
    }

    fn harmless_write(&self) -> Cmd {
        cmd("SET").arg(self.prefix.with("check")).arg("").arg("PX").arg(1).take()
    }

    /// Returns this request. If it is a release, and a copy of the owner's admission may still arrive, the returned
    /// request also revokes the owner.
    fn with_revocation(&self, request: &EndRequest) -> EndRequest {
        let now = Clock::system().moment();
        let to_revoke = self.to_revoke.lock().unwrap_or_else(PoisonError::into_inner);
        let may_come = to_revoke.iter().any(|(owner, until)| *owner == request.owner && now < *until);
        let end = if may_come && request.end == End::Now { End::NowAndRevoked } else { request.end };
        EndRequest { end, ..request.clone() }
    }

    /// Reads all keys that match the pattern, and returns the results of `parse`. A key is left out if its result is
    /// `None`.
    fn scan<T: Ord>(
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
        topology::connect(&self.target, &self.prefix, &self.answered_last, until).map_err(Failure::undone)
    }

    fn is_closed(connection: &mut Connection) -> bool {
        connection.is_closed()
    }

    fn carry_out(&self, attempt: &mut Attempt<Connection>, request: Request<'_>) -> Result<Answers, Failure> {
        let ends: Vec<EndRequest> = request.ends.iter().map(|end| self.with_revocation(end)).collect();
        let mut answers = self.call_script(attempt, Request { ends: &ends, ..request })?;
        if self.target.address.replicas > 0 {
            self.wait_for_replicas(attempt, request.admissions, &mut answers);
        }
        if attempt.asked_since.is_some() {
            self.revoke_later(request.admissions, &answers.admissions);
        }
        Ok(answers)
    }

    fn look(&self, attempt: &mut Attempt<Connection>, names: &[MutexName]) -> Result<Vec<FoundEntry>, Failure> {
        let parts = || names.chunks(LOOKED_AT_ONCE);
        let answers = replies(attempt, parts().map(|names| calls_and_replies::look(&self.prefix, names)))?;
        let found = parts().zip(&answers).map(|(names, answer)| calls_and_replies::looked(names, answer));
        Ok(found.collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn list(&self, attempt: &mut Attempt<Connection>, listed: Names<'_>) -> Result<Vec<FoundEntry>, Failure> {
        let mut names = self.scan(attempt, &self.prefix.pattern_of(listed), |key| self.prefix.name_at(key))?;
        names.retain(|name| listed.contain(name));
        self.look(attempt, &Vec::from_iter(names))
    }

    fn runs(&self, attempt: &mut Attempt<Connection>, events: &[&str]) -> Result<Vec<NumberedRecord>, Failure> {
        let mut records = Vec::new();
        for events in events.chunks(LOGS_AT_ONCE) {
            let reads = events.iter().map(|event| cmd("HGETALL").arg(self.prefix.runs_key(event)).take());
            for (event, reply) in events.iter().zip(replies(attempt, reads)?) {
                let lines: Vec<(Vec<u8>, Vec<u8>)> = read(&reply)?;
                for (id, line) in &lines {
                    records.extend(record(event, &String::from_utf8_lossy(id), &String::from_utf8_lossy(line))?);
                }
            }
        }
        Ok(records)
    }

    fn log_runs(&self, attempt: &mut Attempt<Connection>, records: &[RunRecord]) -> Result<(), Failure> {
        let write = |records: &[RunRecord]| {
            let lines = records.iter().map(|record| [record.id().to_string(), record.to_line()]);
            LOG_RUNS.call(&[self.prefix.runs_key(records[0].event())]).arg(lines.flatten().collect::<Vec<_>>()).take()
        };
        replies(attempt, records.chunk_by(|one, next| one.event() == next.event()).map(write)).map(drop)
    }

    fn drop_runs(&self, attempt: &mut Attempt<Connection>, dropped: &[DroppedRuns<'_>]) -> Result<(), Failure> {
        let drops = dropped.iter().flat_map(|DroppedRuns { event, ended, not_ended }| {
            let log = self.prefix.runs_key(event);
            let ended = (!ended.is_empty()).then(|| cmd("HDEL").arg(&log).arg(ended).take());
            ended.into_iter().chain((!not_ended.is_empty()).then(|| DROP_RUNS.call(&[log]).arg(not_ended).take()))
        });
        replies(attempt, drops).map(drop)
    }

    fn count_skips(&self, attempt: &mut Attempt<Connection>, event: &str, skips: &[SkipCount]) -> Result<(), Failure> {
        let counts = skips.iter().map(|skip| (skip.reason(), skip.count(), skip.latest().timestamp_micros()));
        let call = COUNT_SKIPS.call(&[self.prefix.runs_key(event)]).arg(counts.collect::<Vec<_>>()).take();
        replies(attempt, [call]).map(drop)
    }

    fn skips(&self, attempt: &mut Attempt<Connection>, event: &str) -> Result<Vec<SkipCount>, Failure> {
        let looks = SkipReason::COUNTED.into_iter().map(|reason| {
            let fields = [format!("skipped:{reason}"), format!("latest:{reason}")];
            cmd("HMGET").arg(self.prefix.runs_key(event)).arg(&fields).take()
        });
        let mut skips = Vec::new();
        for (reason, answer) in SkipReason::COUNTED.into_iter().zip(replies(attempt, looks)?) {
            let (count, latest): (Option<u64>, Option<i64>) = read(&answer)?;
            skips.extend(count.and_then(|count| SkipCount::new(reason, count, instant(latest?))));
        }
        Ok(skips)
    }

    fn logged_events(&self, attempt: &mut Attempt<Connection>) -> Result<Vec<String>, Failure> {
        let events = self.scan(attempt, &self.prefix.pattern_of_runs(), |key| self.prefix.event_at(key))?;
        Ok(events.into_iter().collect())
    }

    fn health(&self, attempt: &mut Attempt<Connection>) -> Result<Health, Failure> {
        let last = cmd("GET").arg(self.prefix.with("token")).take();
        // The first two commands have a key. If another node of a cluster has the slot of the key, the server answers
        // them with an error. This error becomes a warning, except after a failover.
        let commands = [last, self.harmless_write(), cmd("TIME"), cmd("INFO")];
        let answers = attempt.connection.exchange(attempt.until, &commands)?;
        answers[2..].iter().try_for_each(unless_refused)?;
        let address = &self.target.address;
        match unless_refused(&answers[1]) {
            // The server was the primary when the connection was made, but is not any more. The call is retried on a
            // new connection.
            Err(failure) if address.fails_over() && failure.retry == AskAgain::Now => return Err(failure),
            _ => {}
        }
        let time = calls_and_replies::time(&answers[2])?;
        let mut warnings = health::warnings(&answers[3], address.replicas, address.fails_over())?;
        warnings.extend(health::of_write(&answers[1], &warnings));
        // A token is the server's time of its grant, or a later time if the clock was set back before the grant. So a
        // last token that is later than `time` shows that the clock was set back.
        let granted = read(&answers[0]).map(instant);
        Ok(Health { time: Some(time), ahead: granted.ok().and_then(|last| (last - time).to_std().ok()), warnings })
    }

    fn error(&self, attempted: String, failure: Failure) -> MutexError {
        server_error::error(attempted, failure)
    }
}

fn is_granted(decided: &Result<Admitted, Failure>) -> bool {
    matches!(decided, Ok(Admitted::Granted(_)))
}

/// Reads the record of a run from a field of a log. Returns `None` if the field does not belong to a run, or if its
/// line is damaged.
fn record(event: &str, field: &str, line: &str) -> Result<Option<NumberedRecord>, Failure> {
    if field.parse::<Owner>().is_err() {
        return Ok(None);
    }
    let line = behind_format(line).map_err(|why| Failure::unusable(&why))?;
    Ok(NumberedRecord::of_line(event, field, line))
}

/// Sends commands in one round trip. Returns their replies, or a failure if one of the replies is an error.
fn replies(attempt: &mut Attempt<Connection>, commands: impl IntoIterator<Item = Cmd>) -> Result<Vec<Value>, Failure> {
    let replies = attempt.connection.exchange(attempt.until, &Vec::from_iter(commands))?;
    replies.iter().try_for_each(unless_refused).map(|()| replies)
}
