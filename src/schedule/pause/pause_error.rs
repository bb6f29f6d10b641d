//! The errors of pauses.

use chrono::{DateTime, Utc};

use crate::base::error::{MutexError, debug_as_display};
use crate::base::escape::Quoted;
use crate::lease::name::InvalidName;
use crate::schedule::schedule::registry::UnknownEvent;
use crate::time::clock::shown::for_people;

/// The largest number of characters in the reason for a pause.
pub(crate) const LONGEST_REASON: usize = 200;

/// The reason why a schedule or an event was not paused or resumed, or why its pause is not known.
///
/// ```
/// use chrono::DateTime;
/// use soloist::observe::PauseError;
/// use soloist::Schedule;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let error = Schedule::in_process().resume().unwrap_err();
/// assert!(matches!(error, PauseError::Unnamed));
/// let error = Schedule::in_process().named("shop")?.pause(DateTime::UNIX_EPOCH, "").unwrap_err();
/// assert!(error.to_string().starts_with("a pause until 1970-01-01 00:00:00 UTC is over already"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PauseError {
    /// The text can't be the name of a schedule or of an event.
    #[error(transparent)]
    Name(InvalidName),
    /// The schedule has no event of this name.
    #[error(transparent)]
    UnknownEvent(UnknownEvent),
    /// The event is never paused.
    #[error("the event {} can't be paused, because its definition has `even_when_paused()`", Quoted::new(event))]
    #[non_exhaustive]
    EvenWhenPaused {
        /// The name of the event.
        event: Box<str>,
    },
    /// The reason is not a readable line: it is too long, or it has a control character, an invisible character, or a
    /// space at its beginning or end.
    #[error(transparent)]
    Reason(InvalidName),
    /// The schedule has no name.
    #[error("a schedule without a name can't be paused: name it with `Schedule::named(..)`")]
    Unnamed,
    /// The end of the pause is not in the future.
    #[error("a pause until {} is over already, because now it is {}: use a later end; `resume` ends a pause", for_people(*until), for_people(*now))]
    #[non_exhaustive]
    Over {
        /// The end that the caller passed.
        until: DateTime<Utc>,
        /// The time on the clock of the schedule.
        now: DateTime<Utc>,
    },
    /// The end of the pause is more than ten years away.
    #[error("a pause until {} is longer than ten years: use an earlier end", for_people(*until))]
    #[non_exhaustive]
    TooLong {
        /// The end that the caller passed.
        until: DateTime<Utc>,
    },
    /// The store can't break a lease, so the pause can only end by itself.
    #[error(
        "this store can't break a lease, so a pause can't end early: to run events during the pause, run them by hand, \
         or give the schedule another name"
    )]
    CannotEnd,
    /// The store did not answer, or can't keep a pause.
    #[error(transparent)]
    Store(#[from] MutexError),
}

impl PauseError {
    /// Returns whether the store did not answer. A later attempt may succeed.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_unavailable())
    }
}

debug_as_display!(PauseError);
