//! Compares settings with the time between occurrences: refuses a retry that could never begin, a minimum hold that is too
//! long, and a catch-up window that is too short.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Definition;
use crate::event::add_error::{AddErrorKind, Refusal};
use crate::event::catch_up::CatchUp;
use crate::lease::term::Renewal;
use crate::time::clock::{shown::ExactDuration, wall_plus};
use crate::time::zone::Zone;

/// The number of occurrences that the checks examine. If no retry could begin after any of these occurrences, the event
/// is refused.
const MOST_TRIED: usize = 1000;

impl Definition {
    /// Refuses retries that could never begin, because their delay is too long.
    pub(super) fn check_retry(&self) -> Result<(), Refusal> {
        let Some(retry) = &self.retry else { return Ok(()) };
        let delay = retry.checked_delay()?;
        let conflict = |why: &dyn fmt::Display, or_longer: &str| {
            let delay = ExactDuration(delay);
            Err(AddErrorKind::Conflict.because(format_args!(
                "`after({delay})`: no retry could ever begin, because {why}: use a shorter time{or_longer}"
            )))
        };
        if let Some(limit) = self.timeout.filter(|limit| *limit <= delay) {
            let limit = ExactDuration(limit);
            let why = format_args!("its `timeout({limit})` counts for all attempts and the waits between them");
            return conflict(&why, ", or a longer `timeout(..)`");
        }
        let fixed = self.protection.lease.filter(|lease| lease.renewal == Renewal::Never);
        if let Some(term) = fixed.map(|lease| lease.term.get()).filter(|term| *term <= delay) {
            let term = ExactDuration(term);
            let why = format_args!("its lease of `without_overlapping_for({term})` ends before that");
            return conflict(&why, ", or a longer `without_overlapping_for(..)`");
        }
        let starts = self.starts(DateTime::UNIX_EPOCH).take(MOST_TRIED);
        let mut refusals = starts.map(|start| self.refuses_attempt(wall_plus(start.at, delay), start.at, false));
        match refusals.next() {
            Some(Some(first)) if refusals.all(|refusal| refusal.is_some()) => conflict(&first, ""),
            _ => Ok(()),
        }
    }

    /// Refuses a minimum hold that lasts until the next occurrence, because that occurrence would be skipped even if
    /// the task is short. With several slots, refuses a minimum hold that lasts until an occurrence finds no free slot.
    /// A jitter can move the two starts closer together.
    pub(super) fn check_hold(&self) -> Result<(), Refusal> {
        let Some(hold) = self.protection.lease.and_then(|lease| lease.at_least) else { return Ok(()) };
        let until_next = self.shortest_time(self.protection.slots.len());
        let until_next = until_next.map(|time| time.saturating_sub(self.timetable.jitter.longest()));
        match until_next.filter(|until_next| hold.get() >= *until_next) {
            Some(until_next) => {
                let [hold, until_next] = [hold.get(), until_next].map(ExactDuration);
                Err(AddErrorKind::OutOfRange.because(format_args!(
                    "`hold_at_least({hold})`: use less than {until_next}, because a later occurrence can start then, and would be \
                     skipped while the lease is still held"
                )))
            }
            None => Ok(()),
        }
    }

    /// Refuses a `catch_up_all` whose window is shorter than the time between two occurrences, because it makes up for
    /// one occurrence at most.
    pub(super) fn check_catch_up(&self) -> Result<(), Refusal> {
        let Some(CatchUp { window, .. }) = self.catch_up.as_ref().filter(|catch_up| catch_up.most > 1) else {
            return Ok(());
        };
        match self.shortest_time(1).filter(|apart| window < apart) {
            Some(apart) => {
                let [window, apart] = [*window, apart].map(ExactDuration);
                Err(AddErrorKind::OutOfRange.because(format_args!(
                    "`catch_up_all({window})`: this window has one occurrence at most, because they are at least {apart} apart: use a \
                     longer window, or `catch_up({window})`"
                )))
            }
            None => Ok(()),
        }
    }

    /// Returns the shortest time between an occurrence and the occurrence that comes `later` occurrences after it.
    fn shortest_time(&self, later: usize) -> Option<Duration> {
        // The times are compared in UTC, because clock changes make some days shorter or longer in other zones. They do
        // not move an interval, but its windows are in the event's zone.
        let mut timetable = self.timetable.clone();
        if timetable.interval.is_none() {
            timetable.zone = Zone::UTC;
        }
        let times = timetable.upcoming(DateTime::UNIX_EPOCH);
        let times: Vec<DateTime<Utc>> = times.take(MOST_TRIED).collect();
        times.windows(later + 1).filter_map(|times| (times[later] - times[0]).to_std().ok()).min()
    }
}
