//! The verdict on a history: violations and counts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// The broken promises, and the evidence.
    pub(crate) violations: Vec<String>,
    /// How long after a kill the event of the killed process ran again.
    pub(crate) recoveries: Vec<Duration>,
    /// By how much the token rose from the first start of an occurrence to the second. A token is a time in microseconds.
    pub(crate) risen: Vec<i64>,
    counts: BTreeMap<Count, usize>,
}

/// The counts, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Count {
    Runs,
    RunsUnderALease,
    /// Of these, nothing was done to them that a lease need not survive.
    UndisturbedRuns,
    /// Runs that went on when another had begun.
    Overlapped(Overlap),
    /// Runs whose tasks were futures; polls of these that began when the lease was over, and those that were under way then.
    Futures,
    LatePolls,
    PollsInFlight,
    /// Attempts after the first of their run; and waits for an attempt that something ended.
    Retries,
    WaitsEnded,
    /// Servers that came second with an occurrence that waits; and that found the queue full.
    Queued,
    QueueFull,
    /// Pauses that their operators saw confirmed; and servers that skipped an event while it was paused.
    Paused,
    SkippedWhilePaused,
    /// Runs that ended because a later occurrence took their place; and occurrences that waited, and left for a later one.
    GaveWay,
    Replaced,
    /// Occurrences of minutes while a worker was ticking.
    Due,
    Started,
    StartedUnderAClaim,
    StartedTwice(Double),
    NotStarted(Why),
    /// Runs in the log of the store; those that had to be there, where all are kept.
    Logged,
    LoggedForSure,
}

/// The reason why a run went on when another had begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Overlap {
    Unexplained,
    /// The run was stopped or cut off past its term: its lease had ended when the other began.
    PastItsTerm,
    /// The lease was taken away at the store, which the run could not know yet.
    TakenAway,
    /// During a failover two servers were the primary, and each granted one of the two.
    TwoPrimaries,
}

/// The reason why an occurrence started twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Double {
    Unexplained,
    /// The store had lost its data in between.
    Emptied,
    /// A failover had lost the claim of one of the two.
    FailedOver,
}

/// The reason why an occurrence never started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    Unexplained,
    /// Every reply named a live lease.
    Overlapping,
    /// The event was paused.
    Paused,
    /// A later occurrence waited, or ran.
    Replaced,
    /// The process with the grant was killed before the start.
    Killed,
    /// The process with the grant, or with an unknown reply, was stopped or cut off before the start.
    CutOff,
    /// The worker's request met a failover, which lost the reply or the claim; or no replica confirmed the grant
    /// in time.
    FailedOver,
    /// The store replied to no request.
    Unanswered,
    /// There was no request: no worker was ticking.
    Unasked,
}

impl Verdict {
    pub(crate) fn violation(&mut self, what: String) {
        self.violations.push(what);
    }

    pub(crate) fn count(&mut self, what: Count) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(crate) fn of(&self, what: Count) -> usize {
        self.counts.get(&what).copied().unwrap_or_default()
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.violations.extend(other.violations);
        self.recoveries.extend(other.recoveries);
        self.risen.extend(other.risen);
        for (what, count) in other.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }
}

impl Count {
    pub(crate) const ALL: [Self; 35] = [
        Self::Runs,
        Self::RunsUnderALease,
        Self::UndisturbedRuns,
        Self::Overlapped(Overlap::Unexplained),
        Self::Overlapped(Overlap::PastItsTerm),
        Self::Overlapped(Overlap::TakenAway),
        Self::Overlapped(Overlap::TwoPrimaries),
        Self::Futures,
        Self::LatePolls,
        Self::PollsInFlight,
        Self::Retries,
        Self::WaitsEnded,
        Self::Queued,
        Self::QueueFull,
        Self::Paused,
        Self::SkippedWhilePaused,
        Self::GaveWay,
        Self::Replaced,
        Self::Due,
        Self::Started,
        Self::StartedUnderAClaim,
        Self::StartedTwice(Double::Unexplained),
        Self::StartedTwice(Double::Emptied),
        Self::StartedTwice(Double::FailedOver),
        Self::NotStarted(Why::Unexplained),
        Self::NotStarted(Why::Overlapping),
        Self::NotStarted(Why::Paused),
        Self::NotStarted(Why::Replaced),
        Self::NotStarted(Why::Killed),
        Self::NotStarted(Why::CutOff),
        Self::NotStarted(Why::FailedOver),
        Self::NotStarted(Why::Unanswered),
        Self::NotStarted(Why::Unasked),
        Self::Logged,
        Self::LoggedForSure,
    ];
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Runs => "runs",
            Self::RunsUnderALease => "runs under a lease",
            Self::UndisturbedRuns => "runs under a lease that no fault could take",
            Self::Overlapped(Overlap::Unexplained) => "**overlaps, unexplained**",
            Self::Overlapped(Overlap::PastItsTerm) => {
                "overlaps: the first run was stopped or cut off for longer than its term"
            }
            Self::Overlapped(Overlap::TakenAway) => {
                "overlaps: the store lost the lease of the first run, or an operator broke it"
            }
            Self::Overlapped(Overlap::TwoPrimaries) => "overlaps: during a failover, two servers were the primary",
            Self::Futures => "runs of futures",
            Self::LatePolls => "**polls of futures that began when the lease was over**",
            Self::PollsInFlight => "polls of futures that were under way when the lease ended",
            Self::Retries => "attempts after the first attempt of a run",
            Self::WaitsEnded => "runs that were ended while they waited for another attempt",
            Self::Queued => "skips: another server waited with the occurrence",
            Self::QueueFull => "skips: the queue was full",
            Self::Paused => "pauses of an event, confirmed",
            Self::SkippedWhilePaused => "skips: the event was paused",
            Self::GaveWay => "runs that gave way to a later occurrence",
            Self::Replaced => "skips: a later occurrence waited or ran",
            Self::Due => "occurrences due",
            Self::Started => "occurrences started",
            Self::StartedUnderAClaim => "occurrences started under a claim",
            Self::StartedTwice(Double::Unexplained) => "**started twice, unexplained**",
            Self::StartedTwice(Double::Emptied) => "started twice: the store had lost its data",
            Self::StartedTwice(Double::FailedOver) => "started twice: a failover had lost one of the claims",
            Self::NotStarted(Why::Unexplained) => "**not started, unexplained**",
            Self::NotStarted(Why::Overlapping) => {
                "not started: every server that asked met a live lease, or a full queue"
            }
            Self::NotStarted(Why::Paused) => "not started: the event was paused",
            Self::NotStarted(Why::Replaced) => "not started: a later occurrence took its place",
            Self::NotStarted(Why::Killed) => "not started: its worker was killed between admission and start",
            Self::NotStarted(Why::CutOff) => {
                "not started: its worker was stopped or cut off between admission and start"
            }
            Self::NotStarted(Why::FailedOver) => "not started: its worker asked during a failover",
            Self::NotStarted(Why::Unanswered) => "not started: the store answered no server",
            Self::NotStarted(Why::Unasked) => "not started: no server asked",
            Self::Logged => "runs in the log of the store",
            Self::LoggedForSure => "runs that must be in this log, and are",
        })
    }
}
