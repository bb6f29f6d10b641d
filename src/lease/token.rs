//! Fencing tokens. They rise with each grant, so that a late holder has a lower token than the present holder.

use std::fmt;

use chrono::{DateTime, Utc};

/// A number that rises with every grant of a name.
///
/// Pass the token to the resource that the task writes to. The resource records the highest token, and refuses writes
/// with a lower token. For example, a task is suspended until its lease has ended, and then a later run writes with a
/// higher token. From then on, the resource refuses the writes of the first task, even if this task has not noticed the
/// end of its lease.
///
/// The lease of an event is one name, so the tokens of its runs rise. An event that has only
/// [`on_one_server`](crate::Event::on_one_server) has a separate name for each occurrence. Two such names that a server
/// grants at one moment, or in one request, may have equal tokens.
///
/// ```
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # fn write_report(_if_newer_than: u64) {}
/// let schedule = Schedule::in_process();
/// schedule.add(
///     Event::call("reports", |run| {
///         let token = run.fencing_token().expect("the event is protected");
///         write_report(token.get());
///     })
///     .every_minute()
///     .without_overlapping(),
/// )?;
/// schedule.run_event("reports", chrono::Utc::now())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FencingToken(u64);

impl FencingToken {
    /// Makes the token with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the next token after `last`: one more than `last`, or the Unix time of `now` in microseconds if that is
    /// higher. So tokens also rise in a store that has lost its data.
    ///
    /// ```
    /// use chrono::DateTime;
    /// use soloist::FencingToken;
    ///
    /// let now = DateTime::from_timestamp(1, 0).unwrap();
    /// assert_eq!(FencingToken::after(None, now).get(), 1_000_000);
    /// assert_eq!(FencingToken::after(Some(FencingToken::new(2_000_000)), now).get(), 2_000_001);
    /// ```
    pub fn after(last: Option<Self>, now: DateTime<Utc>) -> Self {
        let next = last.map_or(1, |last| last.0.saturating_add(1));
        Self(next.max(u64::try_from(now.timestamp_micros()).unwrap_or(0)))
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_rises_also_when_the_clock_went_back() {
        let now = DateTime::from_timestamp(1_000, 0).unwrap();
        let first = FencingToken::after(None, now);
        let second = FencingToken::after(Some(first), now);
        let third = FencingToken::after(Some(second), DateTime::from_timestamp(-5, 0).unwrap());
        assert!(first < second && second < third);
    }
}
