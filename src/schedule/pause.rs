//! Pausing and resuming a schedule, or one of its events: a mark in the store that every server sees.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::registry::{Schedule, UnknownEvent};
use super::tick_context::pause_check::find_pause;
use crate::base::error::{MutexError, debug_as_display};
use crate::lease::name::{InvalidName, MutexName};
use crate::lease::{request::LeaseRequest, term::Term};
use crate::observe::notice::{About, Step};
use crate::observe::paused::{AN_EVENT_PAUSED, EVENT_PAUSED, PAUSED, Pause};
use crate::store::event_mutex::held::{Held, Names};
use crate::store::event_mutex::{EventMutex, extend_one};
use crate::store::handle::Store;
use crate::time::clock::shown::Rfc3339;

impl Schedule {
    /// The same schedule, which can be [paused](Self::pause) under `name`: together with every schedule that is pausable
    /// under this name on the same store, in this process, on this host or in the fleet, as far as the store reaches.
    ///
    /// While it is paused, due events are skipped as [`Paused`](crate::SkipReason::Paused), before their filters are asked.
    /// Runs under way go on; runs [by hand](Self::run) and events that are
    /// [`even_when_paused`](crate::Event::even_when_paused) start as always.
    ///
    /// The store refuses a protected event without filters while the pause lasts, if that store is the schedule's: a pause
    /// takes effect at once. So does the [pause of one event](Self::pause_event). This costs no request of its own on the stores
    /// of this crate, except on a node of a Redis Cluster. For other events, a tick asks the store whether the schedule is
    /// paused, and whether any of its events is: once, and again for each minute that it takes. A tick in which nothing is due
    /// asks nothing.
    ///
    /// If the store does not answer, the schedule may be paused. So all due events are skipped as
    /// [`StoreUnavailable`](crate::SkipReason::StoreUnavailable), and the report fails. That goes for an event without
    /// a protection, too, and for one that says [`OutagePolicy::RunUnprotected`](crate::OutagePolicy::RunUnprotected):
    /// an event that would rather run twice than not at all may still have to wait for a migration. One that need not
    /// says [`even_when_paused`](crate::Event::even_when_paused).
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
        let mark = MutexName::readable(Arc::clone(&name)).map_err(PauseError::Name)?.mark(name, PAUSED);
        self.pause_mark = Some(mark);
        Ok(self)
    }

    /// Starts nothing that is due before `until`, for the reason `why`, wherever a schedule is [pausable](Self::pausable_as)
    /// under the same name on the same store. It ends at that time, or with [`resume`](Self::resume), and not with this process.
    ///
    /// If it is paused already, the pause gets this end instead, later or earlier than before; the last call wins, and
    /// there is no moment between the two pauses. Who paused it, and why, stays as the first call said. (Where a store can't
    /// [extend](EventMutex::extend), or does not say who [holds](EventMutex::held) it, the one is ended before the other begins.)
    ///
    /// What is at work goes on. A tick that began before may go on to start events that have filters, no protection or a
    /// store of their own, for a minute at most: so whoever pauses for a migration waits for that minute, and for what runs.
    ///
    /// How long it takes to `until` is read from this schedule's clock, and that time then passes on the store's.
    ///
    /// `why` is for people, who read it in [reports](crate::SkipReason::Paused) and in [`paused`](Self::paused): a line of 200
    /// characters at most, of which the file store keeps about a hundred. An empty text says nothing.
    ///
    /// # Errors
    ///
    /// `until` is not in the future, or more than ten years away; `why` is no such line; the schedule is not pausable. Or the
    /// store did not answer: whether it is paused is not known, and another call is in order.
    ///
    /// ```
    /// use chrono::{TimeDelta, Utc};
    /// use soloist::{Event, Schedule, SkipReason, Verdict};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process().pausable_as("shop")?;
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// schedule.pause(Utc::now() + TimeDelta::hours(2), "the orders are migrated")?;
    /// let report = schedule.run_due(Utc::now());
    /// assert!(matches!(report.entries()[0].verdict(), Verdict::Skipped(SkipReason::Paused(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause(&self, until: DateTime<Utc>, why: &str) -> Result<(), PauseError> {
        self.begin_pause(self.pause_mark()?, until, why)
    }

    /// Ends the pause, whoever began it. `false`: it was not paused.
    ///
    /// # Errors
    ///
    /// The schedule is not [pausable](Self::pausable_as), its store can't [break](EventMutex::break_lease) a mark, or did
    /// not answer.
    pub fn resume(&self) -> Result<bool, PauseError> {
        self.end_pause(self.pause_mark()?)
    }

    /// The present pause, for a page about the service's health. `None`: it is not paused.
    ///
    /// # Errors
    ///
    /// The schedule is not [pausable](Self::pausable_as), or its store did not answer.
    pub fn paused(&self) -> Result<Option<Pause>, PauseError> {
        find_pause(&*self.mutex.mutex, self.pause_mark()?).map_err(PauseError::Store)
    }

    /// Starts no due occurrence of one event before `until`, for the reason `why`: wherever a schedule is
    /// [pausable](Self::pausable_as) under the same name on the same store. Otherwise it is like [`pause`](Self::pause), and both
    /// may last at a time.
    ///
    /// While any event is paused, a tick asks the store for each due event that has filters, no protection or a store of its own
    /// whether it is that one.
    ///
    /// What waits in a [queue](crate::Event::on_overlap) leaves it. After the pause, [`catch_up`](crate::Event::catch_up) makes up
    /// for the latest occurrence, if its window is not over, and for no other.
    ///
    /// A schedule without events is an operator's, and takes any name.
    ///
    /// # Errors
    ///
    /// Those of [`pause`](Self::pause); the schedule has events, and none of this name, or that one runs
    /// [even when it is paused](crate::Event::even_when_paused).
    ///
    /// ```
    /// use chrono::{TimeDelta, Utc};
    /// use soloist::{Event, Schedule, SkipReason, Verdict};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process().pausable_as("shop")?;
    /// schedule.add(Event::call("import", |_| {}).every_minute())?;
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// schedule.pause_event("import", Utc::now() + TimeDelta::hours(2), "the supplier is out")?;
    /// let report = schedule.run_due(Utc::now());
    /// assert!(matches!(report.entries()[0].verdict(), Verdict::Skipped(SkipReason::Paused(_))));
    /// assert!(matches!(report.entries()[1].verdict(), Verdict::Ran(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause_event(&self, event: &str, until: DateTime<Utc>, why: &str) -> Result<(), PauseError> {
        let mark = self.event_pause_mark(event)?;
        self.begin_pause(&mark, until, why)?;
        self.announce(&mark, until)
    }

    /// Ends the pause of one event, whoever began it. `false`: it was not paused by itself.
    ///
    /// # Errors
    ///
    /// Those of [`resume`](Self::resume); the schedule has events, and none of this name.
    pub fn resume_event(&self, event: &str) -> Result<bool, PauseError> {
        self.end_pause(&self.event_pause_mark(event)?)
    }

    /// The present pause of one event. `None`: it is not paused by itself; its schedule may be.
    ///
    /// # Errors
    ///
    /// Those of [`paused`](Self::paused); the schedule has events, and none of this name.
    pub fn paused_event(&self, event: &str) -> Result<Option<Pause>, PauseError> {
        find_pause(&*self.mutex.mutex, &self.event_pause_mark(event)?).map_err(PauseError::Store)
    }

    fn pause_mark(&self) -> Result<&MutexName, PauseError> {
        self.pause_mark.as_ref().ok_or(PauseError::NotPausable)
    }

    fn event_pause_mark(&self, event: &str) -> Result<MutexName, PauseError> {
        let mark = self.pause_mark()?;
        MutexName::readable(event).map_err(PauseError::Name)?;
        if !self.events.is_empty() && self.event(event).map_err(PauseError::UnknownEvent)?.even_when_paused {
            return Err(PauseError::EvenWhenPaused);
        }
        Ok(mark.mark(event, EVENT_PAUSED))
    }

    /// Says that an event is paused, at least as long as it is: whoever has no gate looks for that first. What was announced for
    /// another event is not shortened.
    fn announce(&self, paused: &MutexName, until: DateTime<Utc>) -> Result<(), PauseError> {
        let announcement = paused.mark(paused.mutex(), AN_EVENT_PAUSED);
        // Both on the store's clock.
        let end = |mark| find_pause(&*self.mutex.mutex, mark).map(|pause| Some(pause?.holder()?.until()));
        let paused_until = end(paused).map_err(PauseError::Store)?;
        for _ in 0..ATTEMPTS {
            let announced = end(&announcement).map_err(PauseError::Store)?;
            if announced.is_some() && paused_until <= announced {
                break;
            }
            let term = term_until(until, self.clock.now())?.get() + AFTER_ITS_END;
            self.put_mark(&announcement, Term::new(term).unwrap_or(Term::MAX), None).map_err(PauseError::Store)?;
            if paused_until.is_none() {
                break; // It has ended, or the store does not say when it will.
            }
        }
        Ok(())
    }

    fn begin_pause(&self, mark: &MutexName, until: DateTime<Utc>, why: &str) -> Result<(), PauseError> {
        let why = Some(why).filter(|why| !why.is_empty());
        // What people can read as a name they can read as a reason.
        let is_line = |why: &str| MutexName::readable(why).is_ok() && why.chars().count() <= LONGEST_REASON;
        if !why.is_none_or(is_line) {
            return Err(PauseError::Reason);
        }
        self.put_mark(mark, term_until(until, self.clock.now())?, why).map_err(PauseError::Store)?;
        let paused = Step::Paused { schedule: mark.mutex(), until, why, scope: &self.mutex.scope };
        self.observers.tell(paused_by(mark), &paused);
        Ok(())
    }

    fn end_pause(&self, mark: &MutexName) -> Result<bool, PauseError> {
        let was_paused = self.mutex.mutex.break_lease(mark).map_err(PauseError::Store)?.is_freed();
        if was_paused {
            self.observers.tell(paused_by(mark), &Step::Resumed { schedule: mark.mutex() });
        }
        Ok(was_paused)
    }

    fn put_mark(&self, mark: &MutexName, term: Term, why: Option<&str>) -> Result<(), MutexError> {
        if self.create_mark(mark, term, why)? {
            return Ok(());
        }
        match self.move_end(mark, term)? {
            Some(true) => return Ok(()),
            // The pause has ended in between.
            Some(false) => {}
            None => {
                let _ = self.mutex.mutex.break_lease(mark)?;
            }
        }
        // The mark was free a moment ago. If it is taken again, another call came later than this one, and wins.
        self.create_mark(mark, term, why).map(|_| ())
    }

    fn create_mark(&self, mark: &MutexName, term: Term, why: Option<&str>) -> Result<bool, MutexError> {
        let request = LeaseRequest::new(mark.clone(), term, &self.clock);
        let request = match why {
            Some(why) => request.because(why),
            None => request,
        };
        self.mutex.mutex.create(&request).map(|lease| lease.is_some())
    }

    /// Moves the end of the present pause to one `term` from now, without a gap. `None`: the store can't.
    fn move_end(&self, mark: &MutexName, term: Term) -> Result<Option<bool>, MutexError> {
        let Store { mutex, can_extend, .. } = &self.mutex;
        if !can_extend {
            return Ok(None);
        }
        let held = match mutex.held(Names::Exactly(mark)) {
            Err(error) if error.is_unsupported() => return Ok(None),
            held => held?.pop(),
        };
        let Some(holder) = held.and_then(Held::into_holder) else { return Ok(None) };
        let lease = holder.as_lease(mark.clone(), term, self.clock.moment());
        extend_one(&**mutex, &lease, term).map(Some)
    }
}

/// How long a reason may be.
const LONGEST_REASON: usize = 200;

/// How often it is announced that an event is paused, where others do so at the same moment.
const ATTEMPTS: usize = 5;

/// How much longer that is announced than it lasts.
const AFTER_ITS_END: Duration = Duration::from_secs(60);

/// Why a schedule, or an event, was not paused or resumed, or why that is not known.
///
/// ```
/// use chrono::DateTime;
/// use soloist::{PauseError, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let error = Schedule::in_process().resume().unwrap_err();
/// assert!(matches!(error, PauseError::NotPausable));
/// let error = Schedule::in_process().pausable_as("shop")?.pause(DateTime::UNIX_EPOCH, "").unwrap_err();
/// assert!(error.to_string().starts_with("a pause until 1970-01-01T00:00:00Z would be over already"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PauseError {
    /// Nothing can be paused under this name.
    #[error("nothing can be paused under this name: {0}")]
    Name(InvalidName),
    /// The schedule has no event of this name.
    #[error(transparent)]
    UnknownEvent(UnknownEvent),
    /// The event runs whatever is paused.
    #[error("the event can't be paused, because it says `even_when_paused()`")]
    EvenWhenPaused,
    /// The reason is no line that people can read.
    #[error(
        "the reason for a pause is one line of at most {LONGEST_REASON} characters, all of which can be seen, without a space \
         around it"
    )]
    Reason,
    /// The schedule has no name that it is paused under.
    #[error("this schedule can't be paused: say under which name it can, with `Schedule::pausable_as(..)`")]
    NotPausable,
    /// The end of the pause is not in the future.
    #[error("a pause until {} would be over already, since it is {}; `Schedule::resume()` ends one", Rfc3339(*until), Rfc3339(*now))]
    #[non_exhaustive]
    Over {
        /// When it was to end.
        until: DateTime<Utc>,
        /// What the clock of the schedule showed.
        now: DateTime<Utc>,
    },
    /// The end of the pause is more than ten years away.
    #[error("a pause until {} is longer than ten years: let it end sooner, and pause again before that", Rfc3339(*until))]
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
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_unavailable())
    }
}

debug_as_display!(PauseError);

/// The event that is paused by this mark, if it is not the schedule.
fn paused_by(mark: &MutexName) -> About<'_> {
    let event = mark.event().filter(|_| mark.marked() == Some(EVENT_PAUSED));
    About { event, ..About::default() }
}

/// The term of a pause from `now` to `until`, rounded up to a millisecond so that it never ends early.
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
