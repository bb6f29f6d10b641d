//! Why a schedule refused an event.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{error::debug_as_display, escape::Quoted};
use crate::lease::term::Term;
use crate::time::clock::shown::ExactDuration;
use crate::time::zone::UnknownZone;

/// The reason why a schedule refused an event. The schedule is as it was before.
///
/// `Display` names the event and the method, says why the value is wrong, and what to write instead.
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
    /// The event's name, or the name of its mutex, is invalid.
    Name,
    /// Another event of the schedule has its name.
    Duplicate,
    /// The event has no timetable, or its timetable is malformed or never due.
    Timetable,
    /// The event's zone is unknown, or the zone is the local one of the machine and `TZ` is invalid.
    Zone,
    /// The event's command can't be run.
    Command,
    /// The event's task is a future (`Event::spawn`), and there is no runtime to drive it.
    Runtime,
    /// A number or a duration is too small or too large.
    OutOfRange,
    /// Two settings exclude each other, or a setting does not fit the task of the event.
    Conflict,
    /// A setting needs another one, of the event or of the schedule, that is missing.
    Missing,
    /// The event's store can't do what a setting needs.
    Store,
}

impl AddErrorKind {
    /// Makes a refusal of this kind. `message` continues "event `name`: ".
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

/// Checks that the value of a method is a length that a lease can have, from 1 ms to ten years.
pub(super) fn checked_term(method: &str, length: Duration) -> Result<Term, Refusal> {
    Term::new(length).map_err(|_| out_of_range(method, length, Term::MIN.get(), "ten years"))
}

/// Refuses the duration that a method was given.
pub(super) fn out_of_range(method: &str, value: Duration, least: Duration, most: &str) -> Refusal {
    let [value, least] = [value, least].map(ExactDuration);
    AddErrorKind::OutOfRange.because(format_args!("`{method}({value})`: use {least} to {most}"))
}

/// Refuses the zone that a method was given.
pub(crate) fn wrong_zone(method: &str, error: &UnknownZone) -> Refusal {
    AddErrorKind::Zone.because(format_args!("`{method}(..)`: {error}"))
}

/// Sets the option of the method `word`. A second, different value is an error.
pub(super) fn set_once<T: PartialEq>(word: &str, place: &mut Option<T>, value: T) -> Result<(), Refusal> {
    match place.replace(value) {
        Some(before) if place.as_ref() != Some(&before) => Err(AddErrorKind::Conflict
            .because(format_args!("`{word}(..)` is called twice with different values: remove one of the two"))),
        _ => Ok(()),
    }
}
