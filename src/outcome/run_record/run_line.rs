//! The format of a record as a line of text. Some stores keep records in this format.
//!
//! `occurrence=T started=T token=N pid=N ended=T result=WORD attempts=N host=NAME instance=NAME (backfill) error=TEXT`.
//! Fields without a value are left out: `ended` and `result` if the run has not ended, and `token`, `instance` and
//! `error` if the run has none. `attempts=1` is left out, too. The line has `(backfill)` only if a backfill started the
//! run. The error is the rest of the line.

use std::fmt::Write;

use chrono::{DateTime, SecondsFormat, Utc};

use super::{RunEnd, RunRecord, outcome_kind::OutcomeKind};
use crate::lease::{owner::Owner, token::FencingToken};

impl RunRecord {
    /// Returns the line of the record, without the event and the id.
    pub(crate) fn to_line(&self) -> String {
        let mut line = format!("occurrence={} started={}", stamp(self.occurrence), stamp(self.started));
        // Writing to a `String` can't fail.
        if let Some(token) = self.token {
            let _ = write!(line, " token={token}");
        }
        let _ = write!(line, " pid={}", self.pid);
        if let Some(RunEnd { at, result, .. }) = &self.end {
            let _ = write!(line, " ended={} result={}", stamp(*at), result.keyword());
        }
        if self.attempts != 1 {
            let _ = write!(line, " attempts={}", self.attempts);
        }
        let _ = write!(line, " host={}", self.host_text());
        if let Some(error) = self.end.as_ref().and_then(RunEnd::error) {
            let _ = write!(line, " error={error}");
        }
        line
    }

    /// Returns the record in `line`. `None`: the line is damaged.
    pub(crate) fn of_line(event: &str, id: Owner, line: &str) -> Option<Self> {
        let (fields, error) = line.split_once(" error=").map_or((line, None), |(line, error)| (line, Some(error)));
        let (fields, host) = fields.split_once(" host=")?;
        let field = |name: &str| fields.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let time = |name: &str| field(name).map(parse_stamp);
        let token = field("token").map(|token| token.parse().map(FencingToken::new)).transpose().ok()?;
        let attempts = field("attempts").map_or(Ok(1), str::parse).ok()?;
        let record = Self::started(event, id, time("occurrence")??, token, time("started")??)
            .on(host, field("pid")?.parse().ok()?)
            .with_attempts(attempts);
        match (time("ended"), field("result")) {
            (None, None) => Some(record),
            (Some(at), Some(result)) => Some(record.ended(at?, OutcomeKind::of_keyword(result)?, error)),
            _ => None,
        }
    }
}

fn stamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

fn parse_stamp(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> DateTime<Utc> {
        DateTime::from_timestamp(1_772_366_400, 123_456_000).unwrap()
    }

    fn started() -> RunRecord {
        let token = Some(FencingToken::new(u64::MAX));
        RunRecord::started("reports", Owner::unique(), noon(), token, noon()).on("web 1 instance=a%20b", u32::MAX)
    }

    fn read(record: &RunRecord, line: &str) -> Option<RunRecord> {
        RunRecord::of_line(record.event(), record.id(), line)
    }

    #[test]
    fn a_record_is_read_back_from_its_line_which_a_person_can_read() {
        let failed = |error| started().ended(noon(), OutcomeKind::Failed, Some(error));
        let unprotected = RunRecord::started("reports", Owner::unique(), noon(), None, noon());
        let confusing = failed("it said host=a error=b ended=c");
        let (backfilled, retried) = (started().of_backfill(true), failed("it broke").with_attempts(3));
        let odd = failed("%20 50 % é");
        for record in [started(), unprotected, backfilled, retried, failed("it broke"), odd, confusing] {
            assert_eq!(read(&record, &record.to_line()), Some(record));
        }
        assert_eq!(
            failed("it broke").to_line(),
            "occurrence=2026-03-01T12:00:00.123456Z started=2026-03-01T12:00:00.123456Z token=18446744073709551615 \
             pid=4294967295 ended=2026-03-01T12:00:00.123456Z result=failed host=web%201 instance=a%20b error=it broke"
        );
    }

    #[test]
    fn a_damaged_line_is_no_record() {
        let record = started().ended(noon(), OutcomeKind::Panicked, Some("it broke"));
        let line = record.to_line();
        for wrong in [
            String::new(),
            line[..40].to_owned(),
            line.replace("result=panicked", "result=vanished"),
            line.replace(" result=panicked", ""),
            line.replace(" ended=", " over="),
            line.replace("started=2026", "started=x"),
            line.replace("pid=", "pid=-"),
            line.replace("token=", "token=x"),
            line.replace(" host=", " attempts=x host="),
            line.replace(" host=", " where="),
        ] {
            assert_eq!(read(&record, &wrong), None, "{wrong}");
        }
    }
}
