//! The reasons why a due event did not run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::paused::Pause;
use crate::base::error::MutexError;
use crate::base::escape::{Chain, Lines, Quoted};
use crate::lease::holder::Holder;
use crate::time::clock::shown::{HumanDuration, for_people};

/// A reason why this process did not run a due event.
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
    /// A filter refused the run. The text names the filter: `when`, `skip` or `between 08:00 and 17:00`. If the event
    /// has several filters with equal texts, a number is added: `when 2 of 3`.
    Filtered(Arc<str>),
    /// A filter panicked with this message, so the event did not run.
    FilterPanicked(Arc<str>),
    /// The previous run of the event is still running, or a run of another event with this [mutex
    /// name](crate::Event::mutex_name) is running.
    Overlapping(Option<Holder>),
    /// The run that holds the lease has been running for longer than the event [allows](crate::Event::stuck_after), or
    /// the command of a killed process has been running for longer than its [`timeout`](crate::Event::timeout).
    #[non_exhaustive]
    Stuck {
        /// The holder of the lease.
        holder: Holder,
        /// How long the run has been running.
        running_for: Duration,
    },
    /// Another server, or another tick, already waits with this occurrence in the [queue](crate::Event::on_overlap).
    Queued(Option<Holder>),
    /// The queue has no room. The holder is the run that the waiting occurrences wait for. There is no holder between
    /// two runs, and while the event is paused.
    QueueFull(Option<Holder>),
    /// The occurrence waited for as long as [`within`](crate::Event::within) allows, and could not start.
    QueuedTooLong(Option<Holder>),
    /// The occurrence waited to [replace](crate::Overlap::Replace) a run, but now a later occurrence waits or runs.
    Replaced(Option<Holder>),
    /// Another server, or another tick, has taken this occurrence or the present period of
    /// [`once_per`](crate::Event::once_per).
    RanElsewhere(Option<Holder>),
    /// The store failed with this error, so it is not known whether the event may run. Either the store is unavailable:
    /// it did not answer a request of this tick, or refused the request. Or the store's entry for this name can't be
    /// used. The [kind](MutexError::kind) of the error tells these two cases apart.
    StoreUnavailable(MutexError),
    /// The earlier events of the tick took longer than the [claim window](crate::Event::on_one_server) of this event.
    /// Another server may have run the occurrence, and the claim of that server may have expired by now. So this
    /// process can't know whether the occurrence has run, and skips it. To prevent this, add this event before the
    /// other events, or run the other events [in the background](crate::Event::in_background).
    TooLate,
    /// The [schedule](crate::Schedule::pause) or the [event](crate::Schedule::pause_event) is paused. The holder is the
    /// process that paused it, with the end and the [reason](Holder::reason) of the pause.
    Paused(Option<Holder>),
    /// The process is shutting down, so it starts no run.
    ShuttingDown,
    /// No thread could be started for the event's tick, or for its wait in a [queue](crate::Event::on_overlap), because of
    /// this error. Perhaps too many runs hang in this process.
    NoThread(Arc<str>),
}

impl SkipReason {
    /// Returns the keyword of the reason: `filtered`, `filter_panicked`, `overlapping`, `queued`, `queue_full`,
    /// `queued_too_long`, `replaced`, `ran_elsewhere`, `store_unavailable`, `too_late`, `paused`, `shutting_down`,
    /// `no_thread` or `stuck`. No version of this library changes a keyword.
    pub fn keyword(&self) -> &'static str {
        Self::KEYWORDS[match self {
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
        }]
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

    /// The keywords of the reasons that a log of runs counts. An occurrence that was skipped for one of these reasons
    /// ran on no server.
    pub(crate) const COUNTED: [&'static str; 6] =
        ["overlapping", "stuck", "queue_full", "queued_too_long", "replaced", "paused"];

    /// Returns `Stuck` if the holder's run has been running for longer than `limit`, and otherwise this reason.
    pub(crate) fn or_stuck(self, limit: Option<Duration>, now: DateTime<Utc>) -> Self {
        let (Self::Overlapping(Some(holder)) | Self::QueuedTooLong(Some(holder))) = &self else { return self };
        let running_for = (now - holder.since()).to_std().unwrap_or_default();
        let is_stuck = limit.is_some_and(|limit| running_for > limit);
        if is_stuck { Self::Stuck { holder: holder.clone(), running_for } } else { self }
    }

    /// Returns whether the reason is a fault, and not a part of normal operation. For example, a
    /// [stuck](crate::Event::stuck_after) run is a fault. A lease whose start lies [in the
    /// future](Holder::clock_set_back_by) is a fault, too: the store's clock was set back after the grant. The lease
    /// may then last too long, even if its holder is dead, so an operator must check the clock.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::FilterPanicked(_) | Self::StoreUnavailable(_) | Self::NoThread(_) | Self::Stuck { .. } => true,
            Self::Overlapping(Some(holder)) => holder.clock_set_back_by().is_some(),
            _ => false,
        }
    }

    /// Returns the name of the other [application](crate::Schedule::named) that holds the lease or the claim. `None`:
    /// no other application holds it, one of the two schedules has no name, or the lease has a [mutex
    /// name](crate::Event::mutex_name) that applications may share on purpose. If two applications have events with
    /// equal names in one store, each application takes occurrences of the other application. To prevent this, give
    /// each application its own prefix, table or folder.
    pub fn other_application(&self) -> Option<&str> {
        self.holder()?.other_application()
    }

    /// Returns this reason, with a note whether its holder belongs to another application than `application`.
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

    /// Returns the holder of the lease, the claim or the pause. `None`: the reason has no holder, or the store does not
    /// record holders.
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
        self.write_reason(f)?;
        if self.other_application().is_some() {
            f.write_str("; two applications share this name: give each a prefix, a table or a folder of its own")?;
        }
        Ok(())
    }
}

impl SkipReason {
    fn write_reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_holder = |f: &mut fmt::Formatter<'_>, fact, holder: &Option<Holder>| match holder {
            None => f.write_str(fact),
            Some(holder) => write!(f, "{fact}: {holder}"),
        };
        match self {
            Self::Filtered(by) => write!(f, "filtered out by {}", Quoted::new(by)),
            Self::FilterPanicked(message) => write!(f, "a filter panicked: {}", Lines(message)),
            Self::Overlapping(None) => f.write_str("still running"),
            Self::Overlapping(Some(holder)) => {
                write!(f, "still running: {holder}")?;
                let Some(by) = holder.clock_set_back_by() else { return Ok(()) };
                write!(
                    f,
                    ", which is {} in the future: the store's clock was set back; the lease ends at {} by that clock, \
                     unless its holder renews it",
                    HumanDuration(by),
                    for_people(holder.until())
                )
            }
            Self::Stuck { holder, running_for } => {
                write!(f, "still running after {}: {holder}", HumanDuration(*running_for))
            }
            Self::Queued(holder) => {
                with_holder(f, "another process or tick already waits to run this occurrence", holder)
            }
            Self::QueueFull(None) => f.write_str("the queue is full"),
            Self::QueueFull(holder) => with_holder(f, "still running, and the queue is full", holder),
            Self::QueuedTooLong(holder) => {
                with_holder(f, "waited as long as `within` allows, and the previous run is still running", holder)
            }
            Self::Replaced(holder) => with_holder(f, "a later occurrence takes its place", holder),
            Self::RanElsewhere(None) => {
                f.write_str("another server, or an earlier tick, has taken this occurrence or period")
            }
            Self::RanElsewhere(Some(holder)) => write!(f, "taken by {holder}"),
            Self::StoreUnavailable(error) => {
                write!(f, "{}: {}{}", error.headline(), Chain(error), error.next_step())
            }
            Self::TooLate => f.write_str("too late: its claim window was over before it could be admitted"),
            Self::Paused(holder) => write!(f, "{}", Pause::by(holder.clone())),
            Self::ShuttingDown => f.write_str("the process is shutting down"),
            Self::NoThread(error) => write!(f, "could not start a thread: {error}"),
        }
    }
}
