//! The error of a schedule that refuses an event.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{error::debug_as_display, escape::Quoted};
use crate::lease::term::Term;
use crate::time::clock::shown::ExactDuration;
use crate::time::zone::zone_text::UnknownZone;

/// The reason why a schedule refused an event. The refusal does not change the schedule.
///
/// `Display` shows the event, the method, the mistake, and how to correct the mistake.
///
/// ```
/// use soloist::{AddErrorKind, Event, Schedule};
///
/// let schedule = Schedule::in_process();
/// let error = schedule.add(Event::call("reports", |_| {})).unwrap_err();
/// assert_eq!(error.event(), "reports");
/// assert_eq!(error.kind(), AddErrorKind::Timetable);
/// assert!(error.to_string().starts_with("event `reports`: it has no timetable: say when it runs, with `every_minute()`"));
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {}: {}", Quoted::new(event), refusal.message)]
pub struct AddError {
    event: Arc<str>,
    refusal: Refusal,
}

impl AddError {
    pub(crate) fn new(event: &Arc<str>, refusal: Refusal) -> Self {
        Self { event: Arc::clone(event), refusal }
    }

    /// Returns the name of the event.
    pub fn event(&self) -> &str {
        &self.event
    }

    /// Returns the kind of the error. The message has the details.
    pub fn kind(&self) -> AddErrorKind {
        self.refusal.kind
    }
}

debug_as_display!(AddError);

/// The kinds of an [`AddError`].
///
/// ```
/// use std::time::Duration;
/// use soloist::{AddErrorKind, Event, Schedule};
///
/// let event = Event::call("reports", |_| {}).daily().without_overlapping_for(Duration::ZERO);
/// let error = Schedule::in_process().add(event).unwrap_err();
/// assert_eq!(error.kind(), AddErrorKind::OutOfRange);
/// assert_eq!(error.to_string(), "event `reports`: `without_overlapping_for(0s)`: use 1ms to ten years");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddErrorKind {
    /// The name of the event, the name in its `mutex_name`, or a name in its `environments` is invalid.
    Name,
    /// The schedule already has an event with this name.
    Duplicate,
    /// The event has no timetable, or its timetable is malformed or never due.
    Timetable,
    /// The event's zone is unknown. Or the event uses the local zone of the machine, and the variable `TZ` is invalid.
    Zone,
    /// The event's command is invalid, for example empty.
    Command,
    /// The event's task is a future (`Event::spawn`), but there is no `tokio` runtime that could drive the future.
    Runtime,
    /// A number or a duration is too small or too large.
    OutOfRange,
    /// Two settings exclude each other, or a setting does not fit the task of the event.
    Conflict,
    /// A setting needs another setting of the event or of the schedule, and that other setting is missing.
    Missing,
    /// A setting needs an ability that the event's store does not have.
    Store,
}

impl AddErrorKind {
    /// Makes a refusal of this kind. [`AddError`] shows `message` after the name of the event.
    pub(crate) fn because(self, message: impl fmt::Display) -> Refusal {
        Refusal { kind: self, message: message.to_string().into() }
    }
}

/// An [`AddError`] without the name of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    kind: AddErrorKind,
    message: Box<str>,
}

/// Checks that `length`, the argument of `method`, is from 1 ms to ten years, and returns it as a term.
pub(super) fn checked_term(method: &str, length: Duration) -> Result<Term, Refusal> {
    Term::new(length).map_err(|_| out_of_range(method, length, Term::MIN.get(), "ten years"))
}

/// Returns the refusal of `value`, the argument of `method`. The message shows the range of the allowed values, from
/// `least` to `most`.
pub(super) fn out_of_range(method: &str, value: Duration, least: Duration, most: &str) -> Refusal {
    let is_of_no_limit =
        [Duration::MAX, Duration::ZERO].contains(&value) && ["timeout", "stuck_after"].contains(&method);
    let no_limit = if is_of_no_limit { "; for no limit, leave it out" } else { "" };
    let [value, least] = [value, least].map(ExactDuration);
    AddErrorKind::OutOfRange.because(format_args!("`{method}({value})`: use {least} to {most}{no_limit}"))
}

/// Returns the refusal of the zone that was passed to `method`.
pub(crate) fn wrong_zone(method: &str, error: &UnknownZone) -> Refusal {
    AddErrorKind::Zone.because(format_args!("`{method}(..)`: {error}"))
}

/// Sets the option in `place` to `value`. If the option already has a different value, the error names `method`.
pub(super) fn set_once<T>(method: &str, place: &mut Option<T>, value: T) -> Result<(), Refusal>
where
    T: PartialEq + fmt::Debug,
{
    match (place.replace(value), place) {
        (Some(before), Some(after)) if before != *after => {
            // The text of a store is long.
            let values = Some(format!("`{before:?}` and `{after:?}`")).filter(|values| values.len() <= 80);
            let values = values.as_deref().unwrap_or("different values");
            Err(AddErrorKind::Conflict
                .because(format_args!("`{method}(..)` is called twice, with {values}: remove one of the two")))
        }
        _ => Ok(()),
    }
}
