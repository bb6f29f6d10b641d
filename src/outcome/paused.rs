//! The pause of a schedule or of an event.

use std::fmt;

use chrono::SubsecRound;

use crate::base::escape::OneLine;
use crate::lease::holder::Holder;
use crate::time::clock::shown::for_people;

/// The texts that identify two markers: the marker of a paused schedule, and the marker of a paused event.
pub(crate) const PAUSED: &str = "paused";
pub(crate) const EVENT_PAUSED: &str = "event paused";

/// A pause of a schedule or of an event; see [`Schedule::paused`](crate::Schedule::paused). `Display` shows it as in
/// `paused by web-1, pid 4242, since 2026-03-01 12:00:00 UTC, until 2026-03-01 14:00:00 UTC: the orders are migrated`.
///
/// ```
/// use chrono::{TimeDelta, Utc};
/// use soloist::Schedule;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process().named("shop")?;
/// schedule.pause(Utc::now() + TimeDelta::hours(2), "the orders are migrated")?;
/// let pause = schedule.paused()?.expect("it was just paused");
/// assert_eq!(pause.why(), Some("the orders are migrated"));
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

    /// Returns the process that began the pause, with the start and the end of the pause. A later call that moves the
    /// end does not change the process. `None`: the store does not record holders.
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// Returns the reason that was given when the pause began. `None`: no reason was given, or the store does not
    /// record reasons.
    pub fn why(&self) -> Option<&str> {
        self.holder.as_ref()?.reason()
    }
}

/// Serializes the pause as `{"by": {…}, "why": "…"}`, where `by` is the [`holder`](Pause::holder).
#[cfg(feature = "serde")]
impl serde::Serialize for Pause {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;

        let mut fields = serializer.serialize_struct("Pause", 2)?;
        fields.serialize_field("by", &self.holder)?;
        fields.serialize_field("why", &self.why())?;
        fields.end()
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(holder) = &self.holder else { return f.write_str("paused") };
        // The end was computed from two reads of a clock, so it can differ a little from the time that the user gave.
        let until = holder.until().round_subsecs(0);
        write!(f, "paused by {}, since {}, until {}", holder.process(), for_people(holder.since()), for_people(until))?;
        match holder.reason() {
            Some(why) => write!(f, ": {}", OneLine(why)),
            None => Ok(()),
        }
    }
}
