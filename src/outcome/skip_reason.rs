//! Why an event that was due did not run.

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
/// let mut schedule = Schedule::in_process();
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
    /// A condition refused it: `when`, `skip`, `between 08:00 and 17:00` and the like, with its number where one method added
    /// several.
    Filtered(Arc<str>),
    /// A filter panicked with this message, so what it would have said is not known.
    FilterPanicked(Arc<str>),
    /// The previous run, or another event that shares the mutex, is still at work.
    Overlapping(Option<Holder>),
    /// The run that it met has been running for longer than the event [allows](crate::Event::stuck_after).
    #[non_exhaustive]
    Stuck {
        /// The run.
        holder: Holder,
        /// For how long it has been running.
        running_for: Duration,
    },
    /// Another server, or another tick, waits in the [queue](crate::Event::on_overlap) with this occurrence.
    Queued(Option<Holder>),
    /// A run of the event is still at work, and as many of its occurrences wait as may.
    QueueFull(Option<Holder>),
    /// It has waited for as long as [`within`](crate::Event::within) allows, and still has no turn.
    QueuedTooLong(Option<Holder>),
    /// It was to [replace](crate::Overlap::Replace) a run, and a later occurrence waits or runs.
    Replaced(Option<Holder>),
    /// Another server, or another tick, has this occurrence, or ran in the present period of
    /// [`once_per`](crate::Event::once_per).
    RanElsewhere(Option<Holder>),
    /// The store did not answer, or refused, to this event or to another one of this tick a moment ago; or what it keeps
    /// under this name can't be used. So whether the event may run is not known. The error's
    /// [kind](MutexError::kind) tells them apart.
    StoreUnavailable(MutexError),
    /// The events before it took so long that the claims on its occurrence or period may have expired: longer than its
    /// [window](crate::Event::on_one_server). Add it before those, or let them run
    /// [in the background](crate::Event::in_background).
    TooLate,
    /// The schedule is [paused](crate::Schedule::pause), or the [event](crate::Schedule::pause_event): by whom, until when, and
    /// [why](Holder::reason).
    Paused(Option<Holder>),
    /// The process is about to end, so that nothing new is started.
    ShuttingDown,
    /// The system had no thread for its tick: too many runs may be hanging in this process.
    NoThread(Arc<str>),
}

impl SkipReason {
    /// Returns the reason as one lower-case word, the same in every version: `filtered`, `filter_panicked`, `overlapping`,
    /// `queued`, `queue_full`, `queued_too_long`, `replaced`, `ran_elsewhere`, `store_unavailable`, `too_late`, `paused`,
    /// `shutting_down`, `no_thread`, `stuck`.
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

    /// The keywords of the reasons for which an occurrence runs nowhere, although it could have: a log counts them.
    pub(crate) const COUNTED: [&'static str; 6] =
        ["overlapping", "stuck", "queue_full", "queued_too_long", "replaced", "paused"];

    /// Returns the place of its keyword.
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

    /// Returns `Stuck` if the run that was met has been running for longer than `limit`, and otherwise this reason.
    pub(crate) fn or_stuck(self, limit: Duration, now: DateTime<Utc>) -> Self {
        let (Self::Overlapping(Some(holder)) | Self::QueuedTooLong(Some(holder))) = &self else { return self };
        let running_for = (now - holder.since()).to_std().unwrap_or_default();
        if running_for > limit { Self::Stuck { holder: holder.clone(), running_for } } else { self }
    }

    /// Returns whether this is a fault, and not the schedule doing its work. A lease held
    /// [since the future](Holder::clock_set_back_by) is a fault: its holder may be dead, and somebody must look at the
    /// store's clock. So is a run that is [stuck](crate::Event::stuck_after).
    pub fn is_failure(&self) -> bool {
        match self {
            Self::FilterPanicked(_) | Self::StoreUnavailable(_) | Self::NoThread(_) | Self::Stuck { .. } => true,
            Self::Overlapping(Some(holder)) => holder.clock_set_back_by().is_some(),
            _ => false,
        }
    }

    /// Returns the name of the other [application](crate::Schedule::named) whose run has the lease or the claim, if this and that
    /// schedule both have a name. The two have events of one name in one store, so that each takes the turns of the other: give each a
    /// prefix, a table or a folder of its own. A mutex that events [share](crate::Event::mutex_name) on purpose is left out.
    pub fn other_application(&self) -> Option<&str> {
        self.holder()?.other_application()
    }

    /// Returns this reason as the schedule of this name meets it.
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

    /// Returns who holds what the event asked for, or has paused its schedule, where that is the reason and the store knows it.
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

/// As `{"reason": "overlapping", "text": "still running: …", "holder": {…}}`.
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
        let taken = |f: &mut fmt::Formatter<'_>, what, holder: &Option<Holder>| match holder {
            None => f.write_str(what),
            Some(holder) => write!(f, "{what}: {}", Reading(holder, time)),
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
            SkipReason::Queued(holder) => taken(f, "waits elsewhere", holder),
            SkipReason::QueueFull(holder) => taken(f, "still running, and the queue is full", holder),
            SkipReason::QueuedTooLong(holder) => {
                taken(f, "waited as long as `within` allows, and it is still running", holder)
            }
            SkipReason::Replaced(holder) => taken(f, "a later occurrence takes its place", holder),
            SkipReason::RanElsewhere(None) => f.write_str("its occurrence or period is taken"),
            SkipReason::RanElsewhere(Some(holder)) => write!(f, "taken by {}", Reading(holder, time)),
            SkipReason::StoreUnavailable(error) => write!(f, "{}: {}", error.headline(), Chain(error)),
            SkipReason::TooLate => f.write_str("asked too late after its tick began"),
            SkipReason::Paused(holder) => write!(f, "{}", Reading(&Pause::by(holder.clone()), time)),
            SkipReason::ShuttingDown => f.write_str("the process is shutting down"),
            SkipReason::NoThread(error) => write!(f, "no thread for its tick: {error}"),
        }
    }
}
