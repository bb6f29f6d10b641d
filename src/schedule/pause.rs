//! A schedule that starts nothing for a while: a mark in its store, for which every server that shares it looks.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, SubsecRound, Utc};

use super::outages::Outages;
use crate::base::error::{MutexError, debug_as_display};
use crate::lease::holder::Holder;
use crate::lease::name::{InvalidName, MutexName};
use crate::observe::skip_reason::SkipReason;
use crate::store::event_mutex::EventMutex;
use crate::store::handle::Store;
use crate::time::clock::Clock;
use crate::time::clock::moment::Moment;

/// A tick that takes longer looks again: what was due before the pause starts no later than this after it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Whether the mark is there, and who put it, if the store keeps that.
pub(crate) fn look(mutex: &dyn EventMutex, mark: &MutexName) -> Result<Option<Pause>, MutexError> {
    // Only this is every store's answer: the holder of what is free, and one that the store does not keep, look the same.
    if !mutex.exists(mark)? {
        return Ok(None);
    }
    match mutex.holder(mark) {
        Err(error) if error.is_outage() => Err(error),
        holder => Ok(Some(Pause::by(holder.unwrap_or_default()))),
    }
}

/// What a tick knows of the pause of its schedule: what it found when it looked.
pub(crate) struct Lookout<'a> {
    store: &'a Store,
    mark: &'a MutexName,
    found: Mutex<Option<(Moment, Found)>>,
}

type Found = Result<Option<Pause>, MutexError>;

impl<'a> Lookout<'a> {
    pub(crate) fn new(store: &'a Store, mark: &'a MutexName) -> Self {
        Self { store, mark, found: Mutex::default() }
    }

    /// Whether an event that minds a pause may start. Whoever asks first waits for the store, and the others for that.
    pub(crate) fn lets_start(&self, outages: &Outages, clock: &Clock) -> Result<(), SkipReason> {
        // Code of the store that panics does so within `contain`.
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |(at, _): &&(Moment, Found)| clock.moment().since(*at) < LOOK_AGAIN;
        let known = match found.as_ref().filter(is_fresh) {
            Some((_, known)) => known,
            None => &found.insert((clock.moment(), self.look(outages, clock))).1,
        };
        match known {
            Ok(None) => Ok(()),
            Ok(Some(pause)) => Err(SkipReason::Paused(pause.holder.clone())),
            Err(error) => Err(SkipReason::StoreUnavailable(error.clone())),
        }
    }

    fn look(&self, outages: &Outages, clock: &Clock) -> Found {
        let Self { store, mark, .. } = self;
        outages.ask(store, clock, || format!("look at {mark}"), |mutex| look(mutex, mark))
    }
}

/// A pause of a schedule, see [`Schedule::paused`](crate::Schedule::paused). `Display`:
/// `paused by web-1, pid 4242, since 2026-03-01T12:00:00Z, until 2026-03-01T14:00:00Z`.
///
/// ```
/// use chrono::{TimeDelta, Utc};
/// use soloist::Schedule;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process().pausable_as("shop")?;
/// schedule.pause(Utc::now() + TimeDelta::hours(2))?;
/// let pause = schedule.paused()?.expect("it was just paused");
/// assert!(pause.to_string().starts_with("paused by "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    holder: Option<Holder>,
}

impl Pause {
    pub(crate) fn by(holder: Option<Holder>) -> Self {
        Self { holder }
    }

    /// Who paused first, since when, and until when it is paused; `None` if the store does not keep it.
    ///
    /// ```
    /// # use chrono::{TimeDelta, Utc};
    /// # use soloist::Schedule;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let schedule = Schedule::in_process().pausable_as("shop")?;
    /// # schedule.pause(Utc::now() + TimeDelta::hours(2))?;
    /// # let pause = schedule.paused()?.expect("it was just paused");
    /// let holder = pause.holder().expect("a store in memory keeps it");
    /// assert_eq!(holder.pid(), std::process::id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            None => f.write_str("paused"),
            Some(holder) => write!(f, "paused by {holder}, until {}", rfc3339(end_of(holder))),
        }
    }
}

/// When the pause ends, to the second: a clock that is read twice is off by a little.
pub(crate) fn end_of(holder: &Holder) -> DateTime<Utc> {
    holder.until().round_subsecs(0)
}

fn rfc3339(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Why a schedule was not paused or resumed, or why that is not known.
///
/// ```
/// use chrono::DateTime;
/// use soloist::{PauseError, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let error = Schedule::in_process().resume().unwrap_err();
/// assert!(matches!(error, PauseError::NotPausable));
/// let error = Schedule::in_process().pausable_as("shop")?.pause(DateTime::UNIX_EPOCH).unwrap_err();
/// assert!(error.to_string().starts_with("a pause until 1970-01-01T00:00:00Z would be over already"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PauseError {
    /// Nothing can be paused under this name.
    #[error("a schedule can't be pausable under this name: {0}")]
    Name(InvalidName),
    /// The schedule has no name that it is paused under.
    #[error("this schedule can't be paused: say under which name it can, with `Schedule::pausable_as(..)`")]
    NotPausable,
    /// The end of the pause is not in the future.
    #[error("a pause until {} would be over already, since it is {}; `Schedule::resume()` ends one", rfc3339(*until), rfc3339(*now))]
    #[non_exhaustive]
    Over {
        /// When it was to end.
        until: DateTime<Utc>,
        /// What the clock of the schedule showed.
        now: DateTime<Utc>,
    },
    /// The end of the pause is more than ten years away.
    #[error("a pause until {} is longer than ten years: let it end sooner, and pause again before that", rfc3339(*until))]
    #[non_exhaustive]
    TooLong {
        /// When it was to end.
        until: DateTime<Utc>,
    },
    /// The store gave no answer, or has no way of doing this.
    #[error(transparent)]
    Store(MutexError),
}

impl PauseError {
    /// Whether the store gave no answer. Asking again later may help.
    ///
    /// ```
    /// use soloist::{MutexError, PauseError};
    ///
    /// assert!(PauseError::Store(MutexError::unavailable("ask", "no answer")).is_unavailable());
    /// assert!(!PauseError::NotPausable.is_unavailable());
    /// ```
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_unavailable())
    }
}

debug_as_display!(PauseError);
