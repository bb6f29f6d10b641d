//! Why a schedule refused an event.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{error::debug_as_display, escape::Quoted};
use crate::lease::name::InvalidName;
use crate::lease::term::{InvalidTerm, SHORTEST_RENEWED, Term};
use crate::task::command::{InvalidCommand, stopping::KILLING_TAKES};
use crate::time::zone::UnknownZone;
use crate::time::{crontab::error::CrontabError, frequency::error::FrequencyError};

/// Why a schedule refused an event. The schedule is as it was before.
///
/// ```
/// use soloist::{AddErrorKind, Event, Schedule};
///
/// let mut schedule = Schedule::in_process();
/// let error = schedule.add(Event::call("reports", |_| {})).unwrap_err();
/// assert_eq!(error.event(), "reports");
/// assert!(matches!(error.kind(), AddErrorKind::NoTimetable));
/// ```
#[derive(Clone)]
pub struct AddError {
    event: Arc<str>,
    kind: AddErrorKind,
}

impl AddError {
    pub(crate) fn new(event: &Arc<str>, kind: AddErrorKind) -> Self {
        Self { event: Arc::clone(event), kind }
    }

    /// The name of the event.
    pub fn event(&self) -> &str {
        &self.event
    }

    /// What is wrong with it.
    pub fn kind(&self) -> &AddErrorKind {
        &self.kind
    }
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}: {}", Quoted::new(&self.event), self.kind)
    }
}

debug_as_display!(AddError);

impl Error for AddError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // A transparent kind shows the message of its cause, so the source is the cause of that.
        self.kind.source()
    }
}

/// What is wrong with an event.
///
/// ```
/// use std::time::Duration;
/// use soloist::{AddErrorKind, Event, Schedule};
///
/// let event = Event::call("reports", |_| {}).daily().without_overlapping_for(Duration::ZERO);
/// let error = Schedule::in_process().add(event).unwrap_err();
/// assert!(matches!(error.kind(), AddErrorKind::Term(_)));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddErrorKind {
    /// Its name is invalid.
    #[error(transparent)]
    Name(InvalidName),
    /// Another event of the schedule has its name.
    #[error("there is already an event of this name in the schedule")]
    Duplicate,
    /// It has no timetable.
    #[error(
        "it has no timetable: say when it runs, with `every_minute()`, `daily_at(\"02:30\")`, `cron(\"*/5 * * * *\")` …"
    )]
    NoTimetable,
    /// Its expression is malformed, or there is no such day.
    #[error(transparent)]
    Crontab(CrontabError),
    /// A frequency was given a time that does not exist.
    #[error(transparent)]
    Frequency(FrequencyError),
    /// Its `environments(..)` is empty, or has an empty name.
    #[error("it has an `environments(..)` with no name, or with an empty one: name where it runs")]
    Environments,
    /// It runs in some environments only, and the schedule has no environment.
    #[error(
        "it runs only in {0}, and the schedule has no environment: call `schedule.with_environment(..)` before `add`"
    )]
    NoEnvironment(Box<str>),
    /// Its windows exclude each of its times of the day.
    #[error(
        "none of its times of the day lies within its `between(..)` and outside of its `unless_between(..)`, so that it \
         would never run"
    )]
    OutsideItsWindows,
    /// This method was called twice with different values.
    #[error("`{0}(..)` is called twice with different values: remove one of the two")]
    SaidTwice(&'static str),
    /// Its zone is unknown, or it is the machine's own and `TZ` is invalid.
    #[error(transparent)]
    Zone(UnknownZone),
    /// Its lease is both renewed and for a fixed term.
    #[error(
        "it has a `without_overlapping()` or an `at_most(..)`, whose lease is renewed, and a `without_overlapping_for(..)`, \
         whose lease is not: leave one of the two out"
    )]
    RenewedAndFixed,
    /// Too few or too many of its runs are allowed at a time.
    #[error("`at_most({0})` is none of 1 to 100")]
    AtMost(usize),
    /// Another event of the same schedule and store shares its mutex, and allows another number of runs.
    #[error(
        "of the events that share the mutex {mutex:?}, this one allows {asked} at a time and another one {known}: say the same \
         `at_most(..)` for all of them"
    )]
    #[non_exhaustive]
    OtherAtMost {
        /// The name that they share.
        mutex: Box<str>,
        /// How many runs it allows.
        asked: usize,
        /// How many runs the other one allows.
        known: usize,
    },
    /// It replaces a run, and several may be at work.
    #[error(
        "it has an `at_most(..)`, and an `Overlap::Replace`, which can't tell which of several runs is to stop: leave out one \
         of the two"
    )]
    ReplaceOfOneOfMany,
    /// The term of its lease is too short or too long.
    #[error(transparent)]
    Term(InvalidTerm),
    /// The name of its mutex is invalid.
    #[error("mutex name: {0}")]
    MutexName(InvalidName),
    /// It has a mutex name and no lease.
    #[error("it has a `mutex_name(..)`, but no lease: add `without_overlapping()`")]
    MutexNameWithoutLease,
    /// Its lease is to be renewed, or held after its task has ended, and its store can't extend one.
    #[error(
        "its store says that it can't extend a lease (`EventMutex::describe`), so that none is renewed or held longer \
         than its task: use `without_overlapping_for(..)` alone, with a term that is longer than the task takes"
    )]
    CannotExtend,
    /// Its lease is too short to be renewed in time.
    #[error(
        "a renewed lease of {:?} is shorter than {:?}: a lease is renewed while its task runs, so let \
         the term be what a killed process may block it for", .0.get(), SHORTEST_RENEWED
    )]
    TooShortToRenew(Term),
    /// It sets the term of a renewed lease, and has none.
    #[error(
        "it has a `lease_term(..)`, and no lease that is renewed: add `without_overlapping()`, or say the fixed term with \
         `without_overlapping_for(..)` alone"
    )]
    LeaseTermWithoutRenewal,
    /// The time for which its lease is held at least is too short or too long.
    #[error("a lease that is held for at least {:?} is outside of {:?} to ten years", .0, Term::MIN.get())]
    HoldAtLeast(Duration),
    /// It sets how long its lease is held at least, and has no lease.
    #[error("it has a `hold_at_least(..)`, but no lease: add `without_overlapping()`")]
    HoldAtLeastWithoutLease,
    /// Its lease is not renewed, and over before the time for which it is held at least.
    #[error(
        "it has a `hold_at_least(..)` of {at_least:?}, and its lease is over after {term:?}, however long the task takes: \
         let the term of `without_overlapping_for(..)` be {at_least:?} or longer, or use `without_overlapping()`, whose \
         lease is renewed"
    )]
    #[non_exhaustive]
    HoldAtLeastBeyondTerm {
        /// For how long it is to be held.
        at_least: Duration,
        /// How long the lease is.
        term: Duration,
    },
    /// Its timeout is too short or too long.
    #[error("a timeout of {:?} is outside of {:?} to ten years", .0, Term::MIN.get())]
    Timeout(Duration),
    /// Its task is a future (`Event::spawn`), and there is no runtime to drive it.
    #[error(
        "its task is a future, and there is no runtime here to drive it: add it within one, or name one with \
         `Schedule::with_runtime(..)`"
    )]
    NoRuntime,
    /// This method is for commands, and its task is a function, or a future.
    #[error("`{0}(..)` is for commands, and this event has none: use `Event::exec` or `Event::command`")]
    NotACommand(&'static str),
    /// It has a grace, and its task is a function, which nobody ends.
    #[error(
        "`grace(..)` is for commands and futures, and this event calls a function, which ends by itself: leave it out"
    )]
    GraceOfAFunction,
    /// Its command can't be run.
    #[error(transparent)]
    Command(InvalidCommand),
    /// The grace of its command, or of its future, is too long.
    #[error("a grace of {:?} is longer than an hour", .0)]
    Grace(Duration),
    /// Its lease would end before its command, or its future, could be stopped.
    #[error(
        "a lease of {:?} is too short to stop its task in: a grace of {grace:?} and {:?} to end it need twice as long, \
         {:?}; let the lease be longer, or the `grace(..)` shorter",
        term.get(), KILLING_TAKES, (*grace + KILLING_TAKES) * 2
    )]
    #[non_exhaustive]
    TooShortToStop {
        /// How long the lease is.
        term: Term,
        /// How long the task may take to stop.
        grace: Duration,
    },
    /// The window of its `catch_up` is too short or too long.
    #[error("a catch-up window of {0:?} is outside of a minute to a year")]
    CatchUp(Duration),
    /// It has a `catch_up`, and no claims that tell which occurrences were run.
    #[error(
        "it has a `catch_up(..)`, and no claims that say which occurrences were run: add `on_one_server()` or \
         `once_per(..)`"
    )]
    CatchUpWithoutClaim,
    /// It has a `catch_up`, and runs without a claim when its store is out.
    #[error(
        "it has a `catch_up(..)` and `on_outage(OutagePolicy::RunUnprotected)`: a run without a claim would be made up for when \
         the store is back, so leave out one of the two"
    )]
    CatchUpUnprotected,
    /// Its claims would be too many: a store keeps one for each occurrence for as long as the occurrence may wait, and five minutes
    /// more.
    #[error(
        "an occurrence every {period:?} that may wait for {window:?} leaves more than 50,000 claims in the store at a time: let \
         it wait for less with `within(..)`, or let it be due less often"
    )]
    #[non_exhaustive]
    TooManyClaims {
        /// For how long a claim may be asked for.
        window: Duration,
        /// The shortest time between two occurrences.
        period: Duration,
    },
    /// It is to be paused after too few or too many failures.
    #[error("`pause_on_failure({0})` is none of 1 to 999")]
    FailureLimit(usize),
    /// It is to be paused when it fails, and runs even when it is paused.
    #[error(
        "it has a `pause_on_failure(..)` and an `even_when_paused()`, so that it would run on: leave out one of the two"
    )]
    FailuresEvenWhenPaused,
    /// It is to be paused when it fails, and the schedule has no name.
    #[error("it has a `pause_on_failure(..)`, and the schedule has no name: call `schedule.named(..)` before `add`")]
    FailuresUnnamed,
    /// It is to be paused after more failures than the schedule keeps runs.
    #[error(
        "it has a `pause_on_failure({limit})`, and {}: call `schedule.with_run_log(..)` with more than {limit} before `add`",
        match keep { 0 => "the schedule keeps no log of runs".to_owned(), _ => format!("the log of the schedule keeps {keep} runs") }
    )]
    #[non_exhaustive]
    FailuresNotLogged {
        /// After how many failures it is to be paused.
        limit: usize,
        /// How many runs of an event the schedule keeps.
        keep: usize,
    },
    /// A run of it is stuck after too short or too long a time.
    #[error("`stuck_after({:?})` is outside of {:?} to ten years", .0, Term::MIN.get())]
    StuckAfter(Duration),
    /// It says when a run is stuck, and has no lease by which it meets one.
    #[error("it has a `stuck_after(..)`, but no lease: add `without_overlapping()`")]
    StuckAfterWithoutLease,
    /// It says what becomes of an overlap, and has no lease that prevents one.
    #[error("it has an `on_overlap(..)`, but no lease: add `without_overlapping()`")]
    OverlapWithoutLease,
    /// Its store can't extend a lease, and so can't keep a place in a queue.
    #[error(
        "its store says that it can't extend a lease (`EventMutex::describe`), so that it can't keep a place in a queue: \
         leave out the `on_overlap(..)`"
    )]
    CannotQueue,
    /// Its queue is too short or too long.
    #[error("a queue of {0} is none of 1 to 100")]
    QueueLength(usize),
    /// It waits for too short or too long a time.
    #[error("a wait within {0:?} of its occurrence is outside of a second to a day")]
    Within(Duration),
    /// It replaces runs, and those of other events would be meant too.
    #[error(
        "it has an `Overlap::Replace`, and a `mutex_name(..)` by which it would cancel runs of other events: leave out one of \
         the two"
    )]
    ReplaceOfOthers,
    /// It says for how long it waits, and does not wait.
    #[error("it has a `within(..)`, and nothing to wait for: add `on_overlap(Overlap::QueueOne)`")]
    WithinWithoutQueue,
    /// It has a policy for outages of its store, and no protection.
    #[error(
        "it has an `on_outage(..)`, and no protection that a store is asked for: add `without_overlapping()`, \
         `on_one_server()` or `once_per(..)`"
    )]
    OutageWithoutProtection,
    /// It has a store of its own, and no protection.
    #[error(
        "it has a mutex of its own, and no protection that uses it: add `without_overlapping()`, `on_one_server()` or \
         `once_per(..)`"
    )]
    MutexWithoutProtection,
}
