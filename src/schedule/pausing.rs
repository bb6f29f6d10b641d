//! A schedule that starts nothing for a while: what puts the mark into its store, and takes it away.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::pause::{Pause, PauseError, look};
use super::registry::Schedule;
use crate::base::error::MutexError;
use crate::lease::name::MutexName;
use crate::lease::request::LeaseRequest;
use crate::lease::term::Term;
use crate::store::event_mutex::EventMutex;
use crate::store::handle::Store;
use crate::time::clock::Clock;
use crate::time::clock::shown::Rfc3339;

impl Schedule {
    /// The same schedule, which can be [paused](Self::pause) under `name`: together with every schedule that is pausable
    /// under this name on the same store, in this process, on this host or in the fleet, as far as the store reaches.
    ///
    /// A tick in which something is due looks whether it is paused, once, and again for each minute that it takes. One
    /// in which nothing is due asks nothing, nor does a schedule that is not pausable. While it is paused, what is due
    /// is skipped, before its filters are asked: [`Paused`](crate::SkipReason::Paused). What is at work goes on; what
    /// is started [by hand](Self::run) runs; and so does an event that says
    /// [`even_when_paused`](crate::Event::even_when_paused).
    ///
    /// A store that does not answer does not say that nothing is paused, so that all that is due is skipped then, and
    /// the report fails: [`StoreUnavailable`](crate::SkipReason::StoreUnavailable). That goes for an event without a
    /// protection, too, and for one that says [`OutagePolicy::RunUnprotected`](crate::OutagePolicy::RunUnprotected): whoever had
    /// better run twice than not at all has not said that he may run during a migration. Who says so is
    /// [`even_when_paused`](crate::Event::even_when_paused).
    ///
    /// # Errors
    ///
    /// The name is empty, or has more than [`MutexName::MAX_CHARS`] characters.
    ///
    /// ```
    /// use soloist::{Event, FileMutex, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path();
    /// let mut schedule = Schedule::new(FileMutex::in_dir(dir)?).pausable_as("shop")?;
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// assert!(Schedule::in_process().pausable_as("").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn pausable_as(mut self, name: impl Into<Arc<str>>) -> Result<Self, PauseError> {
        let name = name.into();
        let mark = MutexName::readable(Arc::clone(&name)).map_err(PauseError::Name)?.mark(name, "paused");
        self.paused_by = Some(mark);
        Ok(self)
    }

    /// Starts nothing that is due before `until`, wherever a schedule is [pausable](Self::pausable_as) under the same name
    /// on the same store. It ends by itself, or with [`resume`](Self::resume), and not with this process.
    ///
    /// If it is paused already, the pause gets this end instead, later or earlier than before; the last call wins, and
    /// there is no moment between the two pauses. (Where a store can't [extend](EventMutex::extend), or does not
    /// say who the [holder](EventMutex::holder) is, the one is ended before the other begins.)
    ///
    /// What is at work goes on. A tick that began before may go on to start what it found due, for a minute at most: so
    /// whoever pauses for a migration waits for that minute, and for what runs.
    ///
    /// How long it takes to `until` is read from this schedule's clock, and that time then passes on the store's.
    ///
    /// # Errors
    ///
    /// `until` is not in the future, or more than ten years away; the schedule is not pausable. Or the store did not
    /// answer: whether it is paused is not known, and another call is in order.
    ///
    /// ```
    /// use chrono::{TimeDelta, Utc};
    /// use soloist::{Event, Schedule, SkipReason, Verdict};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process().pausable_as("shop")?;
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// schedule.pause(Utc::now() + TimeDelta::hours(2))?;
    /// let report = schedule.run_due(Utc::now());
    /// assert!(matches!(report.entries()[0].verdict(), Verdict::Skipped(SkipReason::Paused(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause(&self, until: DateTime<Utc>) -> Result<(), PauseError> {
        let switch = self.switch()?;
        switch.put(term_until(until, self.clock.now())?).map_err(PauseError::Store)?;
        let (schedule, scope) = (switch.mark.mutex(), switch.store.scope);
        tracing::info!(target: "soloist", schedule, until = %Rfc3339(until), ?scope, "paused");
        Ok(())
    }

    /// Ends the pause, whoever paused. `false`: it was not paused.
    ///
    /// # Errors
    ///
    /// The schedule is not [pausable](Self::pausable_as), its store can't [break](EventMutex::break_lease) a mark, or did
    /// not answer.
    ///
    /// ```
    /// use chrono::{TimeDelta, Utc};
    /// use soloist::Schedule;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process().pausable_as("shop")?;
    /// schedule.pause(Utc::now() + TimeDelta::hours(2))?;
    /// assert!(schedule.resume()?);
    /// assert!(!schedule.resume()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume(&self) -> Result<bool, PauseError> {
        let Switch { store, mark, .. } = self.switch()?;
        let was_paused = store.mutex.break_lease(mark).map_err(PauseError::Store)?.is_freed();
        if was_paused {
            tracing::info!(target: "soloist", schedule = mark.mutex(), "resumed");
        }
        Ok(was_paused)
    }

    /// The pause that there is, for a page about the service's health. `None`: it is not paused.
    ///
    /// # Errors
    ///
    /// The schedule is not [pausable](Self::pausable_as), or its store did not answer.
    ///
    /// ```
    /// use chrono::{TimeDelta, Utc};
    /// use soloist::Schedule;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process().pausable_as("shop")?;
    /// assert!(schedule.paused()?.is_none());
    /// schedule.pause(Utc::now() + TimeDelta::hours(2))?;
    /// println!("{}", schedule.paused()?.expect("it was just paused"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn paused(&self) -> Result<Option<Pause>, PauseError> {
        let Switch { store, mark, .. } = self.switch()?;
        look(&*store.mutex, mark).map_err(PauseError::Store)
    }

    fn switch(&self) -> Result<Switch<'_>, PauseError> {
        let mark = self.paused_by.as_ref().ok_or(PauseError::NotPausable)?;
        Ok(Switch { store: &self.mutex, mark, clock: &self.clock })
    }
}

/// For how long a pause is to be put, at `now`. It never ends a fraction of a millisecond early.
fn term_until(until: DateTime<Utc>, now: DateTime<Utc>) -> Result<Term, PauseError> {
    let rest = (until - now).to_std().ok().filter(|rest| !rest.is_zero()).ok_or(PauseError::Over { until, now })?;
    let millis = u64::try_from(rest.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    Term::new(Duration::from_millis(millis)).map_err(|_| PauseError::TooLong { until })
}

/// What pauses a schedule and resumes it.
struct Switch<'a> {
    store: &'a Store,
    mark: &'a MutexName,
    clock: &'a Clock,
}

impl Switch<'_> {
    fn put(&self, term: Term) -> Result<(), MutexError> {
        if self.create(term)? {
            return Ok(());
        }
        match self.move_end(term)? {
            Some(true) => return Ok(()),
            // It has ended meanwhile.
            Some(false) => {}
            None => {
                let _ = self.store.mutex.break_lease(self.mark)?;
            }
        }
        // The mark was free a moment ago: whoever is refused now was overtaken by another call, which is the later one.
        self.create(term).map(|_| ())
    }

    fn create(&self, term: Term) -> Result<bool, MutexError> {
        let request = LeaseRequest::new(self.mark.clone(), term, self.clock);
        self.store.mutex.create(&request).map(|lease| lease.is_some())
    }

    /// Lets the pause that there is end one `term` from now, so that there is no moment without one. `None`: the store has
    /// no way of doing so.
    fn move_end(&self, term: Term) -> Result<Option<bool>, MutexError> {
        let Self { store, mark, clock } = self;
        if !store.mutex.can_extend() {
            return Ok(None);
        }
        let Some(holder) = store.mutex.holder(mark)? else { return Ok(None) };
        let lease = holder.as_lease((*mark).clone(), term, clock.moment());
        let mut answers = store.mutex.extend(slice::from_ref(&lease), term);
        answers.pop().transpose()
    }
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
            "a pause until 1970-01-01T00:00:00Z would be over already, since it is 1970-01-01T00:00:00Z; \
             `Schedule::resume()` ends one"
        );
        assert!(error(now - TimeDelta::nanoseconds(1)).contains("would be over already"));
        assert_eq!(
            error(now + TimeDelta::days(3650) + TimeDelta::milliseconds(1)),
            "a pause until 1979-12-30T00:00:00.001Z is longer than ten years: let it end sooner, and pause again before that"
        );
        for until in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
            assert!(term_until(until, now).is_err());
        }
    }
}
