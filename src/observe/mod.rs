//! The types for observing a schedule: outcomes and faults, notices, the log of runs, the status, and pauses.
//!
//! | for | names |
//! | --- | --- |
//! | the details of an outcome | [`OutcomeKind`], [`Ended`], [`Fault`], [`NoRetry`], [`Cancelled`], [`Hook`], [`HookFailure`], [`KeptOutput`], [`Release`] |
//! | notices | [`Observer`], [`Notice`], [`Step`], `Metrics` with the feature `metrics` |
//! | the log of runs | [`LoggedRun`], [`RunState`], [`RunRecord`], [`RunEnd`], [`SkipCount`], [`RunLogError`] |
//! | the status | [`Status`], [`EventStatus`], [`RunningNow`], [`LastRun`], [`LastSkip`], [`OtherTimetable`] |
//! | a backfill: past occurrences run again | [`Backfill`], [`BackfillError`] |
//! | an event of a schedule | [`Definition`], [`UnknownEvent`] |
//! | pauses | [`Pause`], [`PauseError`]; as futures: `Operator`, with the feature `tokio` |

#[cfg(feature = "metrics")]
pub(crate) mod metrics;
pub(crate) mod notice;
pub(crate) mod tell;

pub use crate::event::definition::Definition;
pub use crate::outcome::cancel::Cancelled;
pub use crate::outcome::command_exit::KeptOutput;
pub use crate::outcome::fault::{Fault, Hook, HookFailure};
pub use crate::outcome::no_retry::NoRetry;
pub use crate::outcome::paused::Pause;
pub use crate::outcome::release::Release;
pub use crate::outcome::run_outcome::Ended;
pub use crate::outcome::run_record::outcome_kind::OutcomeKind;
pub use crate::outcome::run_record::skip_count::SkipCount;
pub use crate::outcome::run_record::{RunEnd, RunRecord};
pub use crate::schedule::history::differing_timetable::OtherTimetable;
pub use crate::schedule::history::logged_run::{LoggedRun, RunLogError, RunState};
pub use crate::schedule::history::status::{EventStatus, Status};
pub use crate::schedule::history::{LastRun, LastSkip, RunningNow};
pub use crate::schedule::pause::pause_error::PauseError;
pub use crate::schedule::run_due::backfill::{Backfill, BackfillError};
pub use crate::schedule::schedule::registry::UnknownEvent;
#[cfg(feature = "tokio")]
pub use crate::schedule::service::as_futures::operator::Operator;
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
pub use notice::{Notice, Step};
pub use tell::observers::Observer;
