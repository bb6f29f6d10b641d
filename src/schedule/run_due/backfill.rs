//! A backfill: an operator runs the occurrences of an event in a past range again, whether or not they ran before.
//!
//! The occurrences run one after another. Each occurrence runs like a run by hand, but makes a claim, so that no other
//! backfill runs it.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::planned_run::{StartedBy, TickContext};
use crate::base::error::{MutexError, debug_as_display, if_supported};
use crate::base::escape::Named;
use crate::event::definition::Definition;
use crate::event::protection::backfill_claims::BackfillClaims;
use crate::lease::label::LONGEST;
use crate::lease::name::{InvalidName, MutexName};
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::execute::run_planned;
use crate::schedule::report::{Entry, Report, Verdict};
use crate::schedule::schedule::Schedule;
use crate::schedule::schedule::registry::{Registry, UnknownEvent};
use crate::store::event_mutex::batch::BATCH_SIZE;
use crate::store::event_mutex::{description::Scope, held::Names};
use crate::time::{clock::shown::for_people, tick::Tick};

/// The values that the limit `most` of a backfill may have.
const MOST: RangeInclusive<usize> = 1..=10_000;

/// The largest number of occurrences in a range.
const MOST_IN_RANGE: usize = 1_000_000;

/// The number of occurrences that are shown at each end of a long list.
const SHOWN: usize = 5;

/// The occurrences that a backfill would run, see [`Schedule::backfill`]. `Display` lists them. [`run`](Self::run) runs
/// them.
///
/// ```
/// use soloist::observe::Backfill;
///
/// fn run_if_short(backfill: Backfill<'_>) {
///     println!("{backfill}");
///     if backfill.occurrences().len() <= 100 {
///         println!("{}", backfill.run());
///     }
/// }
/// ```
#[derive(Clone)]
#[must_use = "a backfill runs nothing before `run()`"]
pub struct Backfill<'a> {
    schedule: &'a Schedule,
    /// The events of the schedule when the backfill was planned.
    registry: Arc<Registry>,
    /// The index of the event in the registry.
    event: usize,
    range: Range<DateTime<Utc>>,
    /// The latest occurrences of the range, oldest first.
    in_range: Vec<DateTime<Utc>>,
    /// The number of earlier occurrences in the range, which are left out because of the limit.
    too_many: usize,
    claims: BackfillClaims,
    /// The occurrences of `in_range` that no backfill has claimed.
    open: Vec<DateTime<Utc>>,
    past_filters: bool,
}

impl Schedule {
    /// Plans to run the occurrences of one event in this past range again, whether or not they ran before. The range
    /// includes its start, but not its end. `most`, from 1 to 10,000, is the limit: if there are more occurrences, only
    /// the latest are planned. The plan lists them, and nothing runs before [`Backfill::run`].
    ///
    /// Each occurrence runs like [`run_event`](Self::run_event), oldest first, one after another, even if the event is
    /// [in the background](crate::Event::in_background). The task gets its occurrence from
    /// [`Run::occurrence`](crate::Run::occurrence).
    ///
    /// - **Two operators do not repeat each other's runs.** Each occurrence has a claim in the store of the event, even
    ///   without [`on_one_server`](crate::Event::on_one_server). No other backfill runs a claimed occurrence for 30
    ///   days, unless it runs [`again`](Backfill::again). A store in memory knows the backfills of its own process
    ///   only.
    /// - **A backfill is separate from the timetable.** The promise of one start per occurrence is about timetables: a
    ///   backfill runs an occurrence even if the timetable has run it. Due occurrences, and occurrences that
    ///   [`catch_up`](crate::Event::catch_up) makes up for, do not read or make the claims of a backfill.
    /// - **A backfill does not overlap a run of its event**, if the event is
    ///   [`without_overlapping`](crate::Event::without_overlapping): the backfill waits for the end of that run.
    ///   Occurrences that wait in the [queue](crate::Event::on_overlap) go first. Without a queue, an occurrence that
    ///   is due while a backfill holds the lease is skipped, as during any other run.
    /// - **Filters and pauses count.** A refused occurrence is skipped, and makes no claim. During an outage of the
    ///   store, a backfill never runs an occurrence [unprotected](crate::OutagePolicy::RunUnprotected).
    ///
    /// # Errors
    ///
    /// There is no event of this name; `most` or the range is wrong; or the store did not answer. It is no error if
    /// nothing is due in the range: then the plan is empty, and its text says so.
    ///
    /// ```
    /// use chrono::{DateTime, Utc};
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |run| println!("the report of {}", run.occurrence())).hourly())?;
    /// let day: [DateTime<Utc>; 2] = ["2026-03-01T00:00:00Z".parse()?, "2026-03-02T00:00:00Z".parse()?];
    /// let backfill = schedule.backfill("reports", day[0]..day[1], 100)?;
    /// println!("{backfill}");
    /// assert_eq!(backfill.occurrences().len(), 24);
    /// assert!(!backfill.run().is_failure());
    /// // All of them are claimed now.
    /// assert!(schedule.backfill("reports", day[0]..day[1], 100)?.occurrences().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn backfill(
        &self,
        event: &str,
        range: Range<DateTime<Utc>>,
        most: usize,
    ) -> Result<Backfill<'_>, BackfillError> {
        let registry = self.events.registry();
        let event = registry.index_of(event).map_err(BackfillError::UnknownEvent)?;
        let from = range.start;
        let until = range.end;
        let now = self.clock.now();
        if !MOST.contains(&most) {
            return Err(BackfillError::Most { most });
        }
        if until <= from {
            return Err(BackfillError::EmptyRange { from, until });
        }
        if until > now {
            return Err(BackfillError::Future { until, now });
        }
        let before = from.checked_sub_signed(TimeDelta::nanoseconds(1)).unwrap_or(from);
        let mut in_range = VecDeque::new();
        let mut too_many = 0;
        for occurrence in registry.events[event].upcoming(before).take_while(|occurrence| *occurrence < until) {
            in_range.push_back(occurrence);
            if in_range.len() > most {
                in_range.pop_front();
                too_many += 1;
            }
            if in_range.len() + too_many > MOST_IN_RANGE {
                return Err(BackfillError::TooManyInRange { from, until });
            }
        }
        let (in_range, claims) = (Vec::from(in_range), BackfillClaims::default());
        let (open, past_filters) = (Vec::new(), false);
        Backfill { schedule: self, registry, event, range, in_range, too_many, claims, open, past_filters }.with_open()
    }
}

impl Backfill<'_> {
    /// Returns the plan with claims that have this label. An occurrence is left out if a backfill has claimed it with
    /// this label. Other claims do not count, so the plan also has occurrences that an earlier backfill has run. Two
    /// operators who use one label share the work.
    ///
    /// # Errors
    ///
    /// The label is not a readable line, or has more than 100 characters; or the store did not answer.
    ///
    /// ```
    /// # use chrono::{DateTime, TimeDelta, Utc};
    /// # use soloist::{Event, Schedule};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let schedule = Schedule::in_process();
    /// # schedule.add(Event::call("reports", |_| {}).hourly())?;
    /// # let range = DateTime::UNIX_EPOCH..DateTime::UNIX_EPOCH + TimeDelta::hours(3);
    /// assert!(!schedule.backfill("reports", range.clone(), 100)?.run().is_failure());
    /// let again = schedule.backfill("reports", range, 100)?.again("the prices were wrong")?;
    /// assert_eq!(again.occurrences().len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn again(self, label: impl Into<Arc<str>>) -> Result<Self, BackfillError> {
        let label = label.into();
        MutexName::readable_up_to(Arc::clone(&label), LONGEST)
            .map_err(|error| BackfillError::Label(error.of("the label of `again`")))?;
        Self { claims: BackfillClaims { again: Some(label) }, ..self }.with_open()
    }

    /// Returns the plan. With `past_filters`, the plan also runs occurrences that the event's filters refuse.
    #[cfg(feature = "cli")]
    pub(crate) fn past_filters(self, past_filters: bool) -> Self {
        Self { past_filters, ..self }
    }

    /// Returns the occurrences that the plan would run, oldest first.
    pub fn occurrences(&self) -> &[DateTime<Utc>] {
        &self.open
    }

    /// Runs the occurrences, and returns when the last run has ended. The report has an entry for each occurrence.
    ///
    /// After a failed run, the next occurrence follows. The backfill ends early if an occurrence is skipped because the
    /// process shuts down, the event is paused, or its store is unavailable. The backfill also ends if a run of the
    /// event is [stuck](crate::Event::stuck_after). In all these cases, the next occurrences would be skipped, too.
    /// They are not claimed, so another backfill can run them.
    pub fn run(self) -> Report {
        let Self { schedule, event, ref registry, .. } = self;
        let _call = schedule.begin_call();
        schedule.tell_begin();
        let began = schedule.clock.now();
        let mut entries = Vec::new();
        for occurrence in &self.open {
            let zone = &self.event().timetable.zone;
            let tick = Tick::at(schedule.clock.now(), zone).with_occurrence(*occurrence, zone);
            let context = TickContext::new(schedule, registry, StartedBy::Backfill(&self.claims));
            let context = TickContext { past_filters: self.past_filters, ..context };
            entries.extend(run_planned(context.plan(&[(event, tick)])));
            if entries.last().is_some_and(ends_backfill) {
                break;
            }
        }
        schedule.report(began, entries)
    }

    /// Reads which occurrences no backfill has claimed.
    fn with_open(mut self) -> Result<Self, BackfillError> {
        let Definition { name, protection, .. } = self.event();
        let store = &*self.event().store.mutex;
        let claim = |occurrence: &DateTime<Utc>| self.claims.name_and_term(&protection.mutex, name, *occurrence).0;
        let mut open = Vec::new();
        for batch in self.in_range.chunks(BATCH_SIZE) {
            let claims: Vec<MutexName> = batch.iter().map(claim).collect();
            let held = if_supported(store.held(Names::Each(&claims))).map_err(BackfillError::Store)?;
            let is_open = |(_, claim): &(&_, &MutexName)| held.iter().all(|held| held.name() != *claim);
            open.extend(batch.iter().zip(&claims).filter(is_open).map(|(occurrence, _)| occurrence));
        }
        self.open = open;
        Ok(self)
    }

    fn event(&self) -> &Definition {
        &self.registry.events[self.event]
    }

    /// Returns the reason why nothing is due in the range.
    fn why_none(&self) -> String {
        let Definition { name, timetable, runs_here, .. } = self.event();
        let [from, until] = [self.range.start, self.range.end].map(for_people);
        let name = Named(name);
        if !runs_here {
            return format!("{name} is never due in this environment");
        }
        let next = self.event().upcoming(self.range.end - TimeDelta::nanoseconds(1)).next();
        let next = next.map_or_else(String::new, |next| format!(", and next at {}", for_people(next)));
        format!("{name} is not due from {from} until {until}; it is due {}{next}", timetable.in_words_and_zone())
    }
}

/// Returns whether the backfill ends with this entry: later occurrences would be skipped for the reason of this entry,
/// too.
fn ends_backfill(entry: &Entry) -> bool {
    match entry.verdict() {
        Verdict::Ran(_) => false,
        Verdict::Skipped(reason) => {
            !matches!(reason, SkipReason::Filtered(_) | SkipReason::FilterPanicked(_) | SkipReason::RanElsewhere(_))
        }
    }
}

impl fmt::Display for Backfill<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_range.is_empty() {
            return f.write_str(&self.why_none());
        }
        let (count, claimed) = (self.open.len(), self.in_range.len() - self.open.len());
        let s = if count == 1 { "" } else { "s" };
        write!(f, "{}: {count} occurrence{s} to run, oldest first", Named(&self.event().name))?;
        let hidden = if count > 2 * SHOWN + 1 { SHOWN..count - SHOWN } else { 0..0 };
        for (at, occurrence) in self.open.iter().enumerate() {
            if at == hidden.start && !hidden.is_empty() {
                write!(f, "\n  ({} more)", hidden.len())?;
            } else if !hidden.contains(&at) {
                write!(f, "\n  {}", for_people(*occurrence))?;
            }
        }
        if self.too_many > 0 {
            let first = for_people(self.in_range[0]);
            write!(f, "\nleft out: {} before {first}, because of the limit of this backfill", self.too_many)?;
        }
        if claimed > 0 {
            write!(
                f,
                "\nleft out: {claimed}, because a backfill of the last 30 days has run them; `again` with a label (`--again LABEL`) runs them"
            )?;
        }
        if self.event().store.scope == Scope::Process {
            f.write_str(
                "\nthe store of this event is in memory: other processes do not see the claims of this backfill",
            )?;
        }
        Ok(())
    }
}

impl fmt::Debug for Backfill<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backfill")
            .field("event", &self.event().name)
            .field("range", &self.range)
            .field("again", &self.claims.again)
            .field("occurrences", &self.open.len())
            .finish_non_exhaustive()
    }
}

/// The reason why a [backfill](Schedule::backfill) can't be planned.
///
/// ```
/// use chrono::DateTime;
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), soloist::AddError> {
/// let schedule = Schedule::in_process();
/// schedule.add(Event::call("reports", |_| {}).hourly())?;
/// let error = schedule.backfill("reports", DateTime::UNIX_EPOCH..DateTime::UNIX_EPOCH, 100).unwrap_err();
/// assert!(error.to_string().starts_with("the range from 1970-01-01 00:00:00 UTC until 1970-01-01 00:00:00 UTC is empty"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackfillError {
    /// The schedule has no event of this name.
    #[error(transparent)]
    UnknownEvent(UnknownEvent),
    /// The limit `most` is zero, or too large.
    #[error("the limit of a backfill can't be {most} occurrences: use 1 to 10,000")]
    #[non_exhaustive]
    Most {
        /// The limit that the caller passed.
        most: usize,
    },
    /// The range is empty: its end is not later than its start.
    #[error(
        "the range from {} until {} is empty: write the earlier time first; the end is not part of the range",
        for_people(*from), for_people(*until)
    )]
    #[non_exhaustive]
    EmptyRange {
        /// The start of the range.
        from: DateTime<Utc>,
        /// The end of the range.
        until: DateTime<Utc>,
    },
    /// The range ends in the future.
    #[error(
        "the range ends at {}, but now it is {}: let it end now or earlier, because the timetable runs later occurrences",
        for_people(*until), for_people(*now)
    )]
    #[non_exhaustive]
    Future {
        /// The end of the range.
        until: DateTime<Utc>,
        /// The time on the clock of the schedule.
        now: DateTime<Utc>,
    },
    /// The range is too large.
    #[error(
        "more than 1,000,000 occurrences are due from {} until {}: use a shorter range",
        for_people(*from), for_people(*until)
    )]
    #[non_exhaustive]
    TooManyInRange {
        /// The start of the range.
        from: DateTime<Utc>,
        /// The end of the range.
        until: DateTime<Utc>,
    },
    /// The label is not a readable line, or is too long.
    #[error(transparent)]
    Label(InvalidName),
    /// The store did not answer.
    #[error(transparent)]
    Store(MutexError),
}

debug_as_display!(BackfillError);
