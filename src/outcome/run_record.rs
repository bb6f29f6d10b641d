//! The record of a run in a run log: its occurrence, its process, its times and its result.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::base::escape::OneLine;
use crate::lease::label::{self, BACKFILL, LONGEST, Label, process_in_words, this_host, this_instance};
use crate::lease::{owner::Owner, token::FencingToken};
use crate::outcome::run_outcome::attempts_suffix;
use crate::time::clock::shown::{HumanDuration, for_people};

pub(crate) mod numbered_record;
pub(crate) mod run_line;
pub(crate) mod outcome_kind;
pub(crate) mod skip_count;

use outcome_kind::OutcomeKind;

/// The event and the occurrence of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunId {
    pub(crate) event: Arc<str>,
    pub(crate) occurrence: DateTime<Utc>,
    pub(crate) is_backfill: bool,
}

/// The highest number of runs of an event that a log keeps.
pub(crate) const MOST_KEPT: usize = 1_000;

/// The highest number of characters in the error, and in the host name, of a record.
const ERROR_MAX: usize = 200;
const HOST_MAX: usize = 64;

/// The record of a run in the [log of a store](crate::store::RunLog). `Display` begins with the occurrence:
/// `2026-03-01 12:00:00 UTC succeeded in 1.2 s on web-1, pid 4242`. If a backfill started the run:
/// `2026-03-01 12:00:00 UTC (backfill) succeeded in 1.2 s on web-1, pid 4242`.
///
/// A record is written when the run starts, and again when it has ended. If a record has no [`end`](Self::end), its run
/// is still running, or the process of the run was killed.
///
/// All times have the precision of a microsecond and lie in the years 1000 to 9999, because every store can keep such
/// times unchanged.
///
/// ```
/// use chrono::{TimeDelta, Utc};
/// use soloist::observe::{RunRecord, OutcomeKind};
/// use soloist::store::Owner;
///
/// let began = Utc::now();
/// let record = RunRecord::started("reports", Owner::unique(), began, None, began);
/// assert!(record.end().is_none() && record.pid() == std::process::id());
///
/// let record = record.ended(began + TimeDelta::milliseconds(1_200), OutcomeKind::Failed, Some("the disk is full"));
/// assert!(!record.is_success());
/// println!("{record}"); // 2026-03-01 12:00:00 UTC failed after 1.2 s on web-1, pid 4242: the disk is full
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    event: Arc<str>,
    id: Owner,
    occurrence: DateTime<Utc>,
    is_backfill: bool,
    host: Arc<str>,
    instance: Option<Arc<str>>,
    pid: u32,
    token: Option<FencingToken>,
    started: DateTime<Utc>,
    attempts: u32,
    end: Option<RunEnd>,
}

impl RunRecord {
    /// Returns the record of a run that has just started in this process. All records of the run have this `id`, and no
    /// other run has this `id`.
    pub fn started(
        event: impl Into<Arc<str>>,
        id: Owner,
        occurrence: DateTime<Utc>,
        token: Option<FencingToken>,
        started_at: DateTime<Utc>,
    ) -> Self {
        let record = Self {
            event: event.into(),
            id,
            occurrence: kept_time(occurrence),
            is_backfill: false,
            host: one_line(&this_host(), HOST_MAX),
            instance: None,
            pid: std::process::id(),
            token,
            started: kept_time(started_at),
            attempts: 1,
            end: None,
        };
        record.of_instance(this_instance())
    }

    /// Returns this record with the name of the instance that ran the event.
    pub(crate) fn of_instance(self, instance: Option<Arc<str>>) -> Self {
        let instance = instance.map(|instance| one_line(&instance, LONGEST));
        Self { instance: instance.filter(|instance| !instance.is_empty()), ..self }
    }

    /// Returns this record, with the note whether a backfill started the run.
    pub(crate) fn of_backfill(self, is_backfill: bool) -> Self {
        Self { is_backfill, ..self }
    }

    /// Returns this record with another host and another process id. A store calls this method when it reads a record
    /// back. `host` is a text of [`host_text`](Self::host_text), or only the name of a host. A host name is cut after
    /// 64 characters.
    ///
    /// ```
    /// use chrono::DateTime;
    /// use soloist::observe::RunRecord;
    /// use soloist::store::Owner;
    ///
    /// let noon = DateTime::UNIX_EPOCH;
    /// let record = RunRecord::started("reports", Owner::unique(), noon, None, noon).on("web-1", 4242);
    /// assert_eq!(record.to_string(), "1970-01-01 00:00:00 UTC started at 1970-01-01 00:00:00 UTC on web-1, pid 4242");
    /// let record = record.on("worker instance=web-1", 1);
    /// assert_eq!((record.host(), record.instance()), ("worker", Some("web-1")));
    /// ```
    #[must_use = "this returns a changed record; the original does not change"]
    pub fn on(self, host: &str, pid: u32) -> Self {
        let (host, label) = label::parse(host.into());
        let is_backfill = label.reason.as_deref() == Some(BACKFILL);
        Self { host: one_line(&host, HOST_MAX), pid, is_backfill, ..self }.of_instance(label.instance)
    }

    /// Returns this record with the end of the run. The error becomes one line of at most 200 characters: control
    /// characters are escaped, and a longer error ends in `…`. An error without text is dropped.
    #[must_use = "this returns a changed record; the original does not change"]
    pub fn ended(self, at: DateTime<Utc>, result: OutcomeKind, error: Option<&str>) -> Self {
        let error = error.map(|error| one_line(error, ERROR_MAX)).filter(|error| !error.is_empty());
        Self { end: Some(RunEnd { at: kept_time(at), result, error }), ..self }
    }

    /// Returns this record with the number of attempts. The default is 1.
    ///
    /// ```
    /// use chrono::DateTime;
    /// use soloist::observe::{OutcomeKind, RunRecord};
    /// use soloist::store::Owner;
    ///
    /// let noon = DateTime::UNIX_EPOCH;
    /// let record = RunRecord::started("reports", Owner::unique(), noon, None, noon).on("web-1", 4242);
    /// let record = record.ended(noon, OutcomeKind::Succeeded, None).with_attempts(3);
    /// assert_eq!(record.to_string(), "1970-01-01 00:00:00 UTC succeeded in 0 µs and 3 attempts on web-1, pid 4242");
    /// ```
    #[must_use = "this returns a changed record; the original does not change"]
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// Returns the name of the event.
    pub fn event(&self) -> &str {
        &self.event
    }

    /// Returns the id of the run. No other run has this id, on any host.
    pub fn id(&self) -> Owner {
        self.id
    }

    /// Returns the instant at which the event was due. For a run by hand, this is the instant that the caller passed.
    pub fn occurrence(&self) -> DateTime<Utc> {
        self.occurrence
    }

    /// Returns whether a [backfill](crate::Schedule::backfill) ran the occurrence.
    pub fn is_backfill(&self) -> bool {
        self.is_backfill
    }

    /// Returns the name of the run's host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the name of the [instance](crate::Schedule::with_instance) that ran the event. `None`: the instance has
    /// no name.
    pub fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// Returns the host, the instance, and whether a backfill started the run, as one text: `web-1`,
    /// `worker instance=web-1`, or `web-1 (backfill)`. A store keeps this text, and passes it to [`on`](Self::on) when
    /// it reads the record back.
    pub fn host_text(&self) -> String {
        let reason = self.is_backfill.then(|| BACKFILL.into());
        label::text(&self.host, &Label { instance: self.instance.clone(), reason, ..Label::default() })
    }

    /// Returns the process in words, as in `web-1, pid 4242`.
    pub(crate) fn process(&self) -> String {
        process_in_words(&self.host, self.pid, self.instance())
    }

    /// Returns the process id on the run's host.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the fencing token of the run. `None`: the event has no protection, or the run was unprotected.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.token
    }

    /// Returns the time at which the run started, on the clock of its host. Do not sort runs by these times, because
    /// the clocks of the hosts differ. A log already returns the runs in their order, the newest first.
    pub fn started_at(&self) -> DateTime<Utc> {
        self.started
    }

    /// Returns how often the task was started: more than once if the task [was retried](crate::Event::retry), and zero
    /// if the task was not called. While the run is running, the number is 1.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the end of the run. `None`: the run is still running, or its process was killed.
    pub fn end(&self) -> Option<&RunEnd> {
        self.end.as_ref()
    }

    /// Returns whether the run has ended, the task succeeded, and nothing else of the run failed.
    pub fn is_success(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.result == OutcomeKind::Succeeded && end.error.is_none())
    }
}

impl fmt::Display for RunRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backfilled = if self.is_backfill { " (backfill)" } else { "" };
        write!(f, "{}{backfilled} ", for_people(self.occurrence))?;
        let process = self.process();
        let Some(RunEnd { at, result, error }) = &self.end else {
            return write!(f, "started at {} on {process}", for_people(self.started));
        };
        // If the clock was set back during the run, the end is before the start. Zero is shown in this case.
        let took = HumanDuration((*at - self.started).to_std().unwrap_or_default());
        match result {
            OutcomeKind::NotStarted => write!(f, "{result}")?,
            OutcomeKind::Succeeded => write!(f, "{result} in {took}{}", attempts_suffix(self.attempts))?,
            _ => write!(f, "{result} after {took}{}", attempts_suffix(self.attempts))?,
        }
        write!(f, " on {process}")?;
        match error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// The end of a run: its time, its kind and its error.
///
/// ```
/// use soloist::observe::{RunEnd, RunRecord, OutcomeKind};
/// use soloist::store::Owner;
///
/// let now = chrono::Utc::now();
/// let record = RunRecord::started("reports", Owner::unique(), now, None, now);
/// let record = record.ended(now, OutcomeKind::Failed, Some("no space left\non the device"));
/// let end: &RunEnd = record.end().expect("it has ended");
/// assert_eq!((end.result(), end.error()), (OutcomeKind::Failed, Some(r"no space left\non the device")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    at: DateTime<Utc>,
    result: OutcomeKind,
    error: Option<Arc<str>>,
}

impl RunEnd {
    /// Returns the time at which the run ended, on the clock of its host.
    pub fn at(&self) -> DateTime<Utc> {
        self.at
    }

    /// Returns the kind of the end.
    pub fn result(&self) -> OutcomeKind {
        self.result
    }

    /// Returns the error of the run, in one line of at most 200 characters. If the task succeeded, this is the reason why
    /// the run failed nevertheless, for example a lost lease.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}

/// Limits a time to the precision and the range that every store keeps.
fn kept_time(time: DateTime<Utc>) -> DateTime<Utc> {
    /// The first and the last instant that MySQL keeps, in microseconds since 1970.
    const FIRST: i64 = -30_610_224_000_000_000;
    const LAST: i64 = 253_402_300_799_999_999;
    DateTime::from_timestamp_micros(time.timestamp_micros().clamp(FIRST, LAST)).unwrap_or(time)
}

/// Returns `text` as one trimmed line of at most `most` characters. Does not change a text that is such a line already.
fn one_line(text: &str, most: usize) -> Arc<str> {
    // Cut a long text before the escaping, which would otherwise take time for text that is not kept.
    let text: String = text.trim().chars().take(most + 1).collect();
    let line = OneLine(text).to_string();
    match line.char_indices().nth(most) {
        None => line.into(),
        Some(_) => line.chars().take(most - 1).chain(['…']).collect::<String>().into(),
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn noon() -> DateTime<Utc> {
        DateTime::from_timestamp(1_772_366_400, 123_456_789).unwrap()
    }

    fn started() -> RunRecord {
        RunRecord::started("reports", Owner::unique(), noon(), Some(FencingToken::new(7)), noon()).on("web-1", 4242)
    }

    #[test]
    fn a_record_reads_as_one_line() {
        let ended = |result, error| started().ended(noon() + TimeDelta::milliseconds(1_250), result, error).to_string();
        assert_eq!(
            started().to_string(),
            "2026-03-01 12:00:00 UTC started at 2026-03-01 12:00:00 UTC on web-1, pid 4242"
        );
        assert_eq!(
            ended(OutcomeKind::Succeeded, None),
            "2026-03-01 12:00:00 UTC succeeded in 1.2 s on web-1, pid 4242"
        );
        assert_eq!(
            ended(OutcomeKind::TimedOut, Some(" too\nlong ")),
            "2026-03-01 12:00:00 UTC timed out after 1.2 s on web-1, pid 4242: too\\nlong"
        );
        assert_eq!(
            ended(OutcomeKind::NotStarted, Some("the program is not there")),
            "2026-03-01 12:00:00 UTC was not started on web-1, pid 4242: the program is not there"
        );
        let before = started().ended(noon() - TimeDelta::hours(1), OutcomeKind::Cancelled, None);
        assert_eq!(before.to_string(), "2026-03-01 12:00:00 UTC was cancelled after 0 µs on web-1, pid 4242");
    }

    #[test]
    fn times_are_kept_to_the_microsecond_and_in_four_digits_of_years() {
        assert_eq!(kept_time(noon()).to_rfc3339(), "2026-03-01T12:00:00.123456+00:00");
        assert_eq!(kept_time(DateTime::<Utc>::MIN_UTC).to_rfc3339(), "1000-01-01T00:00:00+00:00");
        assert_eq!(kept_time(DateTime::<Utc>::MAX_UTC).to_rfc3339(), "9999-12-31T23:59:59.999999+00:00");
        let leap_second = DateTime::from_timestamp(1_483_228_799, 1_500_000_000).unwrap();
        for time in [noon(), leap_second, DateTime::<Utc>::MAX_UTC] {
            assert_eq!(kept_time(kept_time(time)), kept_time(time));
        }
        let end = started().ended(noon(), OutcomeKind::Succeeded, None).end.unwrap();
        assert_eq!((end.at(), started().started_at()), (kept_time(noon()), kept_time(noon())));
    }

    #[test]
    fn an_error_is_one_line_that_stays_as_it_is() {
        let kept = |error: &str| started().ended(noon(), OutcomeKind::Failed, Some(error)).end.unwrap().error;
        assert_eq!(kept(" \n "), None);
        assert_eq!(kept("\u{1b}[2Ja \r\n\u{202e}").as_deref(), Some(r"\u{1b}[2Ja \r\n\u{202e}"));
        let longest = "é".repeat(200);
        assert_eq!(kept(&longest).as_deref(), Some(&*longest));
        assert_eq!(kept(&"é".repeat(201)), Some(format!("{}…", "é".repeat(199)).into()));
        let escaped = kept(&"\u{1b}".repeat(300)).unwrap();
        assert_eq!(escaped.chars().count(), 200);
        for error in [&escaped, &kept(&"é ".repeat(201)).unwrap()] {
            assert_eq!(kept(error).as_ref(), Some(error));
        }
    }

    #[test]
    fn only_a_success_is_one() {
        assert!(!started().is_success());
        for result in OutcomeKind::ALL {
            assert_eq!(started().ended(noon(), result, None).is_success(), result == OutcomeKind::Succeeded);
        }
    }
}
