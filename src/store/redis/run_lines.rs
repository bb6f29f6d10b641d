//! The log of runs in Redis: a hash for each event, with a line for each run and two fields for each reason of a skip.

use redis::{Cmd, Value, cmd};

use super::connection::Connection;
use super::engine::RedisEngine;
use super::scripts::{COUNT_SKIPS, DROP_RUNS, LOG_RUNS, Prefix, behind_format, replies};
use super::server_error::read;
use crate::lease::{name::text::event_key_text, name::text::read_event_key_text, owner::Owner};
use crate::outcome::run_record::RunRecord;
use crate::outcome::run_record::{numbered_record::NumberedRecord, skip_count::SkipCount};
use crate::outcome::skip_reason::SkipReason;
use crate::store::server::engine::{Attempt, instant};
use crate::store::server::failure::Failure;
use crate::store::server::server_run_log::{DroppedRuns, LogEngine};

/// The number of logs that one request reads. With a thousand runs in each log, the reply is still short enough to be
/// accepted.
const LOGS_AT_ONCE: usize = 4;

impl Prefix {
    /// Returns the key of the log of an event's runs.
    fn runs_key(&self, event: &str) -> String {
        self.with(format_args!("runs/{}", event_key_text(event)))
    }
}

impl LogEngine for RedisEngine {
    fn runs(&self, attempt: &mut Attempt<Self::Connection>, events: &[&str]) -> Result<Vec<NumberedRecord>, Failure> {
        let mut records = Vec::new();
        for events in events.chunks(LOGS_AT_ONCE) {
            let reads = events.iter().map(|event| cmd("HGETALL").arg(self.prefix.runs_key(event)).take());
            for (event, reply) in events.iter().zip(log_replies(attempt, reads)?) {
                let lines: Vec<(Vec<u8>, Vec<u8>)> = read(&reply)?;
                for (id, line) in &lines {
                    records.extend(record(event, &String::from_utf8_lossy(id), &String::from_utf8_lossy(line))?);
                }
            }
        }
        Ok(records)
    }

    fn log_runs(&self, attempt: &mut Attempt<Self::Connection>, records: &[RunRecord]) -> Result<(), Failure> {
        let write = |records: &[RunRecord]| {
            let lines = records.iter().flat_map(|record| [record.id().to_string(), record.to_line()]);
            let log = self.prefix.runs_key(records[0].event());
            LOG_RUNS.call(1).arg(log).arg(lines.collect::<Vec<_>>()).take()
        };
        log_replies(attempt, records.chunk_by(|one, next| one.event() == next.event()).map(write)).map(drop)
    }

    fn drop_runs(&self, attempt: &mut Attempt<Self::Connection>, dropped: &[DroppedRuns<'_>]) -> Result<(), Failure> {
        let drops = dropped.iter().flat_map(|DroppedRuns { event, ended, not_ended }| {
            let log = self.prefix.runs_key(event);
            let ended = (!ended.is_empty()).then(|| cmd("HDEL").arg(&log).arg(ended).take());
            ended.into_iter().chain((!not_ended.is_empty()).then(|| DROP_RUNS.call(1).arg(log).arg(not_ended).take()))
        });
        log_replies(attempt, drops).map(drop)
    }

    fn count_skips(
        &self,
        attempt: &mut Attempt<Self::Connection>,
        event: &str,
        skips: &[SkipCount],
    ) -> Result<(), Failure> {
        let counts = skips.iter().map(|skip| (skip.reason(), skip.count(), skip.latest().timestamp_micros()));
        let call = COUNT_SKIPS.call(1).arg(self.prefix.runs_key(event)).arg(counts.collect::<Vec<_>>()).take();
        log_replies(attempt, [call]).map(drop)
    }

    fn skips(&self, attempt: &mut Attempt<Self::Connection>, event: &str) -> Result<Vec<SkipCount>, Failure> {
        let looks = SkipReason::COUNTED.into_iter().map(|reason| {
            let fields = [format!("skipped:{reason}"), format!("latest:{reason}")];
            cmd("HMGET").arg(self.prefix.runs_key(event)).arg(&fields).take()
        });
        let mut skips = Vec::new();
        for (reason, answer) in SkipReason::COUNTED.into_iter().zip(log_replies(attempt, looks)?) {
            let (count, latest): (Option<u64>, Option<i64>) = read(&answer)?;
            skips.extend(count.and_then(|count| SkipCount::new(reason, count, instant(latest?))));
        }
        Ok(skips)
    }

    fn logged_events(&self, attempt: &mut Attempt<Self::Connection>) -> Result<Vec<String>, Failure> {
        let events = self.scan(attempt, "runs/", |text| read_event_key_text(text.strip_prefix("runs/")?))?;
        Ok(events.into_iter().collect())
    }
}

/// The texts in errors about the value of one key: the key has no hash, or a field of its hash has no number.
const OF_ONE_KEY: [&str; 2] = ["WRONGTYPE", "hash value is not an integer"];

/// Sends commands for logs, as [`replies`] does. A failure because of the value of a log concerns only its event.
fn log_replies(
    attempt: &mut Attempt<Connection>,
    commands: impl IntoIterator<Item = Cmd>,
) -> Result<Vec<Value>, Failure> {
    replies(attempt, commands).map_err(|failure| {
        let said = failure.to_string();
        let is_of_one_key = OF_ONE_KEY.iter().any(|text| said.contains(text));
        if is_of_one_key {
            failure.of_one_name().advised("delete the key of this log, or only its field that has no number")
        } else {
            failure
        }
    })
}

/// Reads the record of a run from a field of a log. Returns `None` if the field does not belong to a run, or if its
/// line is damaged.
fn record(event: &str, field: &str, line: &str) -> Result<Option<NumberedRecord>, Failure> {
    if field.parse::<Owner>().is_err() {
        return Ok(None);
    }
    let line = behind_format(line).map_err(|why| Failure::unreadable(&why))?;
    Ok(NumberedRecord::of_line(event, field, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_event_is_escaped_in_the_key_of_its_log() {
        assert_eq!(Prefix::new("shop").unwrap().runs_key("a/b"), "{shop}:runs/a%2Fb");
    }
}
