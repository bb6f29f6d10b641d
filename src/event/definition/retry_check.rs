//! Decides whether an attempt of a run may begin at a given time, and refuses retries that could never begin.

use std::fmt;

use chrono::{DateTime, Utc};

use super::Definition;
use crate::event::add_error::{AddErrorKind, Refusal};
use crate::lease::term::Renewal;
use crate::outcome::no_retry::NoRetry;
use crate::time::clock::{shown::ExactDuration, wall_plus};

/// The number of occurrences that the checks of retries and minimum holds examine. If no retry could begin after any of
/// these occurrences, the event is refused.
pub(super) const MOST_TRIED: usize = 1000;

impl Definition {
    /// Returns why no attempt may begin at the time `at`. `since` is the time of the run's tick. `None`: an attempt may
    /// begin.
    pub(crate) fn refuses_attempt(
        &self,
        at: DateTime<Utc>,
        since: DateTime<Utc>,
        ignores_windows: bool,
    ) -> Option<NoRetry> {
        let shown = self.timetable.zone.at(at).time();
        if self.timetable.span.is_over_at(at.timestamp()) {
            Some(NoRetry::Over)
        } else if self.starts(since).next().is_some_and(|next| next.at <= at) {
            Some(NoRetry::NextOccurrence)
        } else if !ignores_windows && !self.timetable.windows.are_open_at(shown) {
            Some(NoRetry::OutsideWindow)
        } else {
            None
        }
    }

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
}
