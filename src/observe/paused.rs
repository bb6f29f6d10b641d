//! A pause of a schedule, in words: who paused it, since when and until when.

use std::fmt;

use chrono::SubsecRound;

use crate::lease::holder::Holder;
use crate::time::clock::shown::{Reading, to_the_second};

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
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Reading(self, &to_the_second).fmt(f)
    }
}

impl fmt::Display for Reading<'_, Pause> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Pause { holder }, time) = self;
        let Some(holder) = holder else { return f.write_str("paused") };
        // Rounded, because its end was computed from two readings of a clock.
        let until = holder.until().round_subsecs(0);
        write!(f, "paused by {}, until {}", Reading(holder, time), time(until))
    }
}
