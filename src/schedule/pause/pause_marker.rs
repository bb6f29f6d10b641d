//! Begins, finds and ends the pause of a schedule or of one event. A pause is a marker in the store.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::pause_error::{LONGEST_REASON, PauseError};
use crate::base::error::{MutexError, if_supported};
use crate::lease::{name::MutexName, request::LeaseRequest, term::Term};
use crate::observe::notice::{About, Step};
use crate::outcome::paused::{EVENT_PAUSED, Pause};
use crate::schedule::schedule::Schedule;
use crate::store::described_store::Store;
use crate::store::event_mutex::held::{Held, Names};
use crate::store::event_mutex::{EventMutex, extend_one};

impl Schedule {
    /// Begins the pause with the marker `mark`. The pause lasts until `until`.
    pub(super) fn begin_pause(&self, mark: &MutexName, until: DateTime<Utc>, why: &str) -> Result<(), PauseError> {
        let why = Some(why).filter(|why| !why.is_empty());
        // The rules for a readable reason are those for a readable name.
        if let Some(Err(error)) = why.map(|why| MutexName::readable_up_to(why, LONGEST_REASON)) {
            return Err(PauseError::Reason(error.of("the reason for the pause")));
        }
        self.put_pause(mark, term_until(until, self.clock.now())?, why)?;
        let paused = Step::Paused { schedule: mark.mutex(), until, why, scope: &self.store.scope };
        self.observers.tell(about(mark), &paused);
        Ok(())
    }

    /// Ends the pause with this marker. `false`: there was no pause.
    pub(super) fn end_pause(&self, mark: &MutexName) -> Result<bool, PauseError> {
        let was_paused = match self.store.mutex.break_lease(mark) {
            Err(error) if error.is_unsupported() => match self.find_pause(mark)? {
                Some(_) => return Err(PauseError::CannotEnd),
                None => false,
            },
            held => held?.is_some(),
        };
        if was_paused {
            self.observers.tell(about(mark), &Step::Resumed { schedule: mark.mutex() });
        }
        Ok(was_paused)
    }

    /// Reads the pause with this marker. `None`: the store does not have the marker.
    pub(super) fn find_pause(&self, mark: &MutexName) -> Result<Option<Pause>, PauseError> {
        let held = self.store.held(Names::of(mark))?.pop();
        Ok(held.map(|held| Pause::by(held.into_holder())))
    }

    /// Writes a marker that ends one `term` from now, or moves the end of the present marker.
    fn put_pause(&self, mark: &MutexName, term: Term, why: Option<&str>) -> Result<(), MutexError> {
        if self.create_pause(mark, term, why)? {
            return Ok(());
        }
        match self.move_end_of_pause(mark, term)? {
            Some(true) => return Ok(()),
            // The earlier pause has just ended, so the marker is free.
            Some(false) => {}
            None => {
                let _ = self.store.mutex.break_lease(mark)?;
            }
        }
        // The marker was free a moment ago. If it is held again, a later call has written it. The last call wins, so
        // this call leaves the marker.
        self.create_pause(mark, term, why).map(|_| ())
    }

    fn create_pause(&self, mark: &MutexName, term: Term, why: Option<&str>) -> Result<bool, MutexError> {
        let request = LeaseRequest::new(mark.clone(), term, &self.clock).labelled(self.label.clone());
        let request = match why {
            Some(why) => request.because(why),
            None => request,
        };
        self.store.mutex.create(&request).map(|lease| lease.is_some())
    }

    /// Moves the end of the present pause to one `term` from now, without a gap. `None`: the store can't extend a
    /// lease, or does not say who holds the marker.
    fn move_end_of_pause(&self, mark: &MutexName, term: Term) -> Result<Option<bool>, MutexError> {
        let Store { mutex, can_extend, .. } = &self.store;
        if !can_extend {
            return Ok(None);
        }
        let held = if_supported(self.store.held(Names::of(mark)))?.pop();
        let Some(holder) = held.and_then(Held::into_holder) else { return Ok(None) };
        let lease = holder.as_lease(mark.clone(), term, self.clock.moment());
        extend_one(&**mutex, &lease, term).map(Some)
    }
}

/// Returns the paused event for notices. A pause of the whole schedule has no event.
fn about(mark: &MutexName) -> About<'_> {
    let event = mark.event().filter(|_| mark.marked() == Some(EVENT_PAUSED));
    About { event, ..About::default() }
}

/// Returns the term of a pause from `now` to `until`. The term is rounded up to a millisecond, so that the pause does
/// not end early.
fn term_until(until: DateTime<Utc>, now: DateTime<Utc>) -> Result<Term, PauseError> {
    let rest = (until - now).to_std().ok().filter(|rest| !rest.is_zero()).ok_or(PauseError::Over { until, now })?;
    let millis = u64::try_from(rest.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    Term::new(Duration::from_millis(millis)).map_err(|_| PauseError::TooLong { until })
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_pause_lasts_to_its_end_and_less_than_a_millisecond_longer() {
        let now = DateTime::UNIX_EPOCH;
        let term = |rest| term_until(now + rest, now).unwrap().get();
        assert_eq!(term(TimeDelta::nanoseconds(1)), Duration::from_millis(1));
        assert_eq!(term(TimeDelta::nanoseconds(1_000_001)), Duration::from_millis(2));
        assert_eq!(term(TimeDelta::days(3650)), Term::MAX.get());
    }

    #[test]
    fn an_end_that_is_past_or_too_far_away_is_refused_and_the_error_says_what_to_do() {
        let now = DateTime::UNIX_EPOCH;
        let error = |until: DateTime<Utc>| term_until(until, now).unwrap_err().to_string();
        assert_eq!(
            error(now),
            "a pause until 1970-01-01 00:00:00 UTC is over already, because now it is 1970-01-01 00:00:00 UTC: use a later end; \
             `resume` ends a pause"
        );
        assert!(error(now - TimeDelta::nanoseconds(1)).contains("is over already"));
        assert_eq!(
            error(now + TimeDelta::days(3650) + TimeDelta::milliseconds(1)),
            "a pause until 1979-12-30 00:00:00 UTC is longer than ten years: use an earlier end"
        );
        for until in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
            assert!(term_until(until, now).is_err());
        }
    }
}
