//! The history of a round: the lines that each worker wrote down, and the faults.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use soloist::EventMutex;

use crate::plan::{Kind, OnOverlap, Protection, Retries};
use crate::worker_log::Line;

/// In nanoseconds since 1970, on the one clock of this machine.
pub(crate) type At = u64;

pub(crate) fn now() -> At {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    nanoseconds(since)
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("less than five centuries")
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its round")]
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) protection: Protection,
    pub(crate) on_overlap: OnOverlap,
    /// How many runs of an event there may be at a time.
    pub(crate) slots: usize,
    /// Whether all events share one mutex.
    pub(crate) shares_mutex: bool,
    /// Whether each event has a filter.
    pub(crate) is_filtered: bool,
    /// Their names.
    pub(crate) events: Vec<String>,
    pub(crate) minutes: u32,
    /// How long a minute takes.
    pub(crate) minute: Duration,
    pub(crate) term: Duration,
    /// Whether the leases of a killed process are free without waiting for the term.
    pub(crate) frees_at_once: bool,
    /// Whether the task is a command, which can live longer than its scheduler.
    pub(crate) outlives: bool,
    /// How often a failed task was to be started again.
    pub(crate) retries: Option<Retries>,
    /// Whether each answer of the store is under way for a while.
    pub(crate) is_slow: bool,
    /// For how long after a fault of the store others may wait. On a database, a client that lost a reply may keep its rows locked
    /// until it gives up.
    pub(crate) lingers: Duration,
    /// The shortest time limit in a call. A machine may be so late that a call exceeds it without any fault.
    pub(crate) limit: Duration,
    /// How late the machine was at most.
    pub(crate) late: Duration,
    pub(crate) lives: Vec<Life>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) pauses: Vec<Pause>,
    /// How many runs of an event the log of the store keeps, and its runs at the end.
    pub(crate) log: (usize, Vec<Logged>),
}

/// A run in the log of the store.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) event: String,
    pub(crate) occurrence: String,
    pub(crate) pid: u32,
    pub(crate) token: Option<u64>,
    pub(crate) attempts: u32,
    pub(crate) has_ended: bool,
}

/// A process, from its start to its end.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) began: At,
    /// Which minutes it was to tick, one after another.
    pub(crate) minutes: Range<u32>,
    /// The lines that it wrote down, in this order.
    pub(crate) lines: Vec<Line>,
    pub(crate) end: End,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// The process had ticked all its minutes.
    Done,
    /// At this moment it was still there.
    Killed(At),
    /// Not as it should have.
    Badly(String),
}

/// Something that was done to the fleet.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) from: At,
    pub(crate) until: At,
    /// The process that the fault was done to, if to one.
    pub(crate) pid: Option<u32>,
    /// To whose lease, where it was done to one.
    pub(crate) event: Option<String>,
    /// The tokens of the claims that a failover has lost.
    pub(crate) lost: Vec<u64>,
}

/// The pause of one event by an operator.
#[derive(Clone, Debug)]
pub(crate) struct Pause {
    pub(crate) event: String,
    /// The process of the operator.
    pub(crate) by: u32,
    /// When it was first asked for.
    pub(crate) from: At,
    /// When the store had confirmed it. `None`: the store did not answer, and may have begun it.
    pub(crate) confirmed: Option<At>,
    /// Before this it has not ended: its time was not over, and its operator had not asked for its end.
    pub(crate) until: At,
    /// After this it has ended.
    pub(crate) over: At,
}

impl Fault {
    /// Returns a fault that began at this moment and ends now.
    pub(crate) fn since(from: At, kind: Kind, pid: Option<u32>) -> Self {
        Self { kind, from, until: now(), pid, event: None, lost: Vec::new() }
    }

    pub(crate) fn touches(&self, from: At, until: At) -> bool {
        self.from <= until && from <= self.until
    }
}

impl Life {
    /// Returns a time before which this process does not tick the occurrence, if a minute takes this long.
    pub(crate) fn ticks_after(&self, occurrence: &str, minute: Duration) -> At {
        let past = self.minutes.clone().take_while(|minute| written(*minute) != occurrence).count();
        self.began + nanoseconds(minute) * u64::try_from(past).expect("a round is short")
    }

    pub(crate) fn was_killed(&self) -> bool {
        matches!(self.end, End::Killed(_))
    }
}

/// Returns the runs that the log of a store has of these events. The store is well, but the machine may be too busy for its first
/// answers.
pub(crate) fn logged(store: &impl EventMutex, events: &[String]) -> Vec<Logged> {
    const PATIENCE: Duration = Duration::from_secs(60);

    let log = store.run_log().expect("each store of ours keeps one");
    let began = Instant::now();
    let runs_of = |event: &String| loop {
        match log.runs(event) {
            Err(_) if began.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(20)),
            answer => return answer.expect("the store is well again"),
        }
    };
    let runs = events.iter().flat_map(runs_of);
    let logged = runs.map(|run| Logged {
        event: run.event().to_owned(),
        occurrence: run.occurrence().to_rfc3339_opts(SecondsFormat::AutoSi, true),
        pid: run.pid(),
        token: run.fencing_token().map(soloist::FencingToken::get),
        attempts: run.attempts(),
        has_ended: run.end().is_some(),
    });
    logged.collect()
}

/// Returns the occurrence in this minute of a round.
pub(crate) fn occurrence(minute: u32) -> DateTime<Utc> {
    // In the future: only an occurrence that a store has known for long enough can be missed.
    let midnight = DateTime::from_timestamp(3_981_398_400, 0).expect("2096-03-01 is a day");
    midnight + TimeDelta::minutes(minute.into())
}

/// Returns the occurrence in this minute, as the logs write it.
pub(crate) fn written(minute: u32) -> String {
    occurrence(minute).to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
