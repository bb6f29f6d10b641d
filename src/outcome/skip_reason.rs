//! The reasons why a due event did not run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::paused::Pause;
use crate::base::error::MutexError;
use crate::base::escape::{Chain, Lines, Quoted};
use crate::lease::holder::Holder;
use crate::time::clock::shown::{HumanDuration, Reading, to_the_second};

/// A reason why a due event did not run here.
///
/// ```
/// use soloist::{Event, Schedule, SkipReason, Verdict};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process();
/// schedule.add(Event::call("reports", |_| {}).every_minute().skip(|_| true))?;
/// let entry = schedule.run_event("reports", chrono::Utc::now())?;
/// assert!(matches!(entry.verdict(), Verdict::Skipped(SkipReason::Filtered(_))));
/// assert!(entry.to_string().ends_with("skipped, filtered out by `skip`"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// A condition refused the run: `when`, `skip`, `between 08:00 and 17:00` and the like, with a number if one method
    /// added several conditions.
    Filtered(Arc<str>),
    /// A filter panicked with this message, so that its answer is not known.
    FilterPanicked(Arc<str>),
    /// The previous run is still running, or a run of another event with the same mutex is running.
    Overlapping(Option<Holder>),
    /// The run that holds the lease has been running for longer than the event [allows](crate::Event::stuck_after).
    #[non_exhaustive]
    Stuck {
        /// The holder of the lease.
        holder: Holder,
        /// How long the run has been running.
        running_for: Duration,
    },
    /// Another server, or another tick, waits in the [queue](crate::Event::on_overlap) with this occurrence.
    Queued(Option<Holder>),
    /// As many occurrences wait as may wait. The holder is the run that they wait for; between two runs, and while the event
    /// is paused, there is none.
    QueueFull(Option<Holder>),
    /// The occurrence waited for as long as [`within`](crate::Event::within) allows, and could not start.
    QueuedTooLong(Option<Holder>),
    /// The occurrence was to [replace](crate::Overlap::Replace) a run, but a later occurrence waits or runs.
    Replaced(Option<Holder>),
    /// Another server, or another tick, has taken this occurrence or the present period of
    /// [`once_per`](crate::Event::once_per).
    RanElsewhere(Option<Holder>),
    /// The store is unavailable: it did not answer or refused, just now or a moment ago for another event of this tick. Or its
    /// entry of this name can't be used. Whether the event may run is not known. The error's [kind](MutexError::kind) tells
    /// these cases apart.
    StoreUnavailable(MutexError),
    /// The events before this one took longer than its [claim window](crate::Event::on_one_server), so that claims on its
    /// occurrence or period may have expired. Add this event before them, or run them
    /// [in the background](crate::Event::in_background).
    TooLate,
    /// The schedule is [paused](crate::Schedule::pause), or the [event](crate::Schedule::pause_event). The holder names the
    /// process that paused it, until when, and [why](Holder::reason).
    Paused(Option<Holder>),
    /// The process is shutting down, and starts no run.
    ShuttingDown,
    /// The system had no thread for the tick of the event: too many runs may hang in this process.
    NoThread(Arc<str>),
}

impl SkipReason {
    /// Returns the keyword of the reason, which no version changes: `filtered`, `filter_panicked`, `overlapping`, `queued`,
    /// `queue_full`, `queued_too_long`, `replaced`, `ran_elsewhere`, `store_unavailable`, `too_late`, `paused`,
    /// `shutting_down`, `no_thread` or `stuck`.
    pub fn keyword(&self) -> &'static str {
        Self::KEYWORDS[self.number()]
    }

    pub(crate) const KEYWORDS: [&'static str; 14] = [
        "filtered",
        "filter_panicked",
        "overlapping",
        "queued",
        "queue_full",
        "queued_too_long",
        "replaced",
        "ran_elsewhere",
        "store_unavailable",
        "too_late",
        "paused",
        "shutting_down",
        "no_thread",
        "stuck",
    ];

    /// The keywords that a log counts: the occurrence could have run, but ran on no server.
    pub(crate) const COUNTED: [&'static str; 6] =
        ["overlapping", "stuck", "queue_full", "queued_too_long", "replaced", "paused"];

    /// Returns the index of the keyword.
    pub(crate) fn number(&self) -> usize {
        match self {
            Self::Filtered(_) => 0,
            Self::FilterPanicked(_) => 1,
            Self::Overlapping(_) => 2,
            Self::Queued(_) => 3,
            Self::QueueFull(_) => 4,
            Self::QueuedTooLong(_) => 5,
            Self::Replaced(_) => 6,
            Self::RanElsewhere(_) => 7,
            Self::StoreUnavailable(_) => 8,
            Self::TooLate => 9,
            Self::Paused(_) => 10,
            Self::ShuttingDown => 11,
            Self::NoThread(_) => 12,
            Self::Stuck { .. } => 13,
        }
    }

    /// Returns `Stuck` if the holder has been running for longer than `limit`, and otherwise this reason.
    pub(crate) fn or_stuck(self, limit: Duration, now: DateTime<Utc>) -> Self {
        let (Self::Overlapping(Some(holder)) | Self::QueuedTooLong(Some(holder))) = &self else { return self };
        let running_for = (now - holder.since()).to_std().unwrap_or_default();
        if running_for > limit { Self::Stuck { holder: holder.clone(), running_for } } else { self }
    }

    /// Returns whether the reason is a fault, and not normal operation. A lease that is held
    /// [since the future](Holder::clock_set_back_by) is a fault: its holder may be dead, and an operator must check the store's
    /// clock. A [stuck](crate::Event::stuck_after) run is a fault, too.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::FilterPanicked(_) | Self::StoreUnavailable(_) | Self::NoThread(_) | Self::Stuck { .. } => true,
            Self::Overlapping(Some(holder)) => holder.clock_set_back_by().is_some(),
            _ => false,
        }
    }

    /// Returns the name of the other [application](crate::Schedule::named) that has the lease or the claim, if both schedules have
    /// a name. Both have an event of this name in one store, so that each takes occurrences of the other: give each a prefix, a
    /// table or a folder of its own. A mutex that events [share](crate::Event::mutex_name) on purpose does not count.
    pub fn other_application(&self) -> Option<&str> {
        self.holder()?.other_application()
    }

    /// Returns this reason for a skip by this application, so that a holder of another application is noticed.
    pub(crate) fn met_by(mut self, application: Option<&str>) -> Self {
        match &mut self {
            Self::Overlapping(Some(holder))
            | Self::Queued(Some(holder))
            | Self::QueueFull(Some(holder))
            | Self::QueuedTooLong(Some(holder))
            | Self::Replaced(Some(holder))
            | Self::RanElsewhere(Some(holder))
            | Self::Stuck { holder, .. } => holder.meet(application),
            _ => {}
        }
        self
    }

    /// Returns the holder of the lease, the claim or the pause. `None`: the reason has no holder, or the store keeps none.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Overlapping(holder)
            | Self::Queued(holder)
            | Self::QueueFull(holder)
            | Self::QueuedTooLong(holder)
            | Self::Replaced(holder)
            | Self::RanElsewhere(holder)
            | Self::Paused(holder) => holder.as_ref(),
            Self::Stuck { holder, .. } => Some(holder),
            _ => None,
        }
    }
}

/// Serializes the reason as `{"reason": "overlapping", "text": "still running: …", "holder": {…}}`.
#[cfg(feature = "serde")]
impl serde::Serialize for SkipReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;

        let mut fields = serializer.serialize_struct("SkipReason", 3)?;
        fields.serialize_field("reason", self.keyword())?;
        fields.serialize_field("text", &self.to_string())?;
        fields.serialize_field("holder", &self.holder())?;
        fields.end()
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Reading(self, &to_the_second).fmt(f)
    }
}

impl fmt::Display for Reading<'_, SkipReason> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_reason(f)?;
        self.0.other_application().map_or(Ok(()), |_| {
            f.write_str("; two applications share this name: give each a prefix, a table or a folder of its own")
        })
    }
}

impl Reading<'_, SkipReason> {
    fn write_reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(reason, time) = self;
        let with_holder = |f: &mut fmt::Formatter<'_>, fact, holder: &Option<Holder>| match holder {
            None => f.write_str(fact),
            Some(holder) => write!(f, "{fact}: {}", Reading(holder, time)),
        };
        match reason {
            SkipReason::Filtered(by) => write!(f, "filtered out by {}", Quoted::new(by)),
            SkipReason::FilterPanicked(message) => write!(f, "a filter panicked: {}", Lines(message)),
            SkipReason::Overlapping(None) => f.write_str("still running"),
            SkipReason::Overlapping(Some(holder)) => {
                write!(f, "still running: {}", Reading(holder, time))?;
                let Some(by) = holder.clock_set_back_by() else { return Ok(()) };
                write!(
                    f,
                    ", which is {} in the future: the store's clock was set back; the lease ends at {} by that clock, \
                     unless its holder renews it",
                    HumanDuration(by),
                    time(holder.until())
                )
            }
            SkipReason::Stuck { holder, running_for } => {
                write!(f, "still running after {}: {}", HumanDuration(*running_for), Reading(holder, time))
            }
            SkipReason::Queued(holder) => with_holder(f, "queued elsewhere", holder),
            SkipReason::QueueFull(None) => f.write_str("the queue is full"),
            SkipReason::QueueFull(holder) => with_holder(f, "still running, and the queue is full", holder),
            SkipReason::QueuedTooLong(holder) => {
                with_holder(f, "waited as long as `within` allows, and the run before it is still running", holder)
            }
            SkipReason::Replaced(holder) => with_holder(f, "a later occurrence takes its place", holder),
            SkipReason::RanElsewhere(None) => f.write_str("another process has run or runs this occurrence or period"),
            SkipReason::RanElsewhere(Some(holder)) => write!(f, "taken by {}", Reading(holder, time)),
            SkipReason::StoreUnavailable(error) => write!(f, "{}: {}", error.headline(), Chain(error)),
            SkipReason::TooLate => f.write_str("too late: its claim window was over before it could be admitted"),
            SkipReason::Paused(holder) => write!(f, "{}", Reading(&Pause::by(holder.clone()), time)),
            SkipReason::ShuttingDown => f.write_str("the process is shutting down"),
            SkipReason::NoThread(error) => write!(f, "no thread for its tick: {error}"),
        }
    }
}
