//! The schedule: its events, its settings, and how to run what is due.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
#[cfg(feature = "tokio")]
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use chrono::{DateTime, Utc};

mod application;
mod due_between;
pub(crate) mod event_history;
pub(crate) mod logged_run;
pub(crate) mod run_logger;
pub(crate) mod status;
pub(crate) mod unknown_event;

use event_history::EventHistory;
use run_logger::{RunLogger, no_log};
use unknown_event::UnknownEvent;

use super::report::Report;
use super::shutdown::Shutdown;
use super::tick_context::outages::StoresOut;
use crate::base::error::MutexError;
use crate::base::escape::Quoted;
use crate::event::add_error::{AddError, AddErrorKind};
use crate::event::definition::{Definition, Event};
use crate::event::protection::LeaseTerms;
use crate::lease::{label::Label, name::MutexName, store_id::StoreId, term::Term};
use crate::observe::tell::log;
use crate::observe::tell::observers::{Observer, Observers};
use crate::observe::{
    notice::incident::Incident,
    notice::{About, Step},
};
use crate::outcome::run_record::MOST_KEPT;
#[cfg(feature = "cli")]
use crate::store::event_mutex::held::Names;
use crate::store::{event_mutex::EventMutex, event_mutex::description::Scope};
use crate::store::{handle::Store, memory::MemoryMutex};
use crate::task::future_task::Runtime;
use crate::time::{clock::Clock, due_index::DueIndex, zone::Zone};

/// Events, and the store whose mutexes protect them.
///
/// A clone shares the events and the store, and changes to it do not affect the original. To change a schedule that is
/// in use, clone it, change the clone, and swap; the ticking thread clones the `Arc` out of the lock first.
/// [`work`](Self::work) keeps the events of when it began:
///
/// ```
/// use std::sync::{Arc, RwLock};
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let shared = RwLock::new(Arc::new(Schedule::in_process()));
///
/// let present = Arc::clone(&shared.read().expect("nothing panics under this lock"));
/// let mut changed = Schedule::clone(&present);
/// changed.add(Event::call("reports", |_| {}).hourly())?;
/// *shared.write().expect("nothing panics under this lock") = Arc::new(changed);
///
/// let present = Arc::clone(&shared.read().expect("nothing panics under this lock"));
/// let report = present.run_due(chrono::Utc::now());
/// # assert!(!report.is_failure());
/// # Ok(())
/// # }
/// ```
///
/// ```
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut schedule = Schedule::in_process();
/// schedule
///     .add(Event::call("reports", |_| println!("reporting")).every_minute().without_overlapping())?
///     .add(Event::call("cleanup", |_| println!("cleaning")).daily_at("03:15"))?;
/// let report = schedule.run_due(chrono::Utc::now());
/// println!("{report}");
/// # assert!(!report.is_failure());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Schedule {
    pub(super) mutex: Store,
    pub(super) clock: Clock,
    /// The default term of renewed leases.
    pub(super) lease_term: Term,
    /// The default zone of timetables.
    pub(super) zone: Zone,
    pub(super) environment: Option<Arc<str>>,
    pub(super) shutdown: Option<Shutdown>,
    pub(super) jitter: Duration,
    pub(super) on_report: Option<OnReport>,
    /// Whether nobody gets its reports, so that failures go to standard error.
    pub(super) drops_reports: bool,
    /// What drives the tasks that are futures.
    pub(super) runtime: Option<Runtime>,
    /// How many calls of its operators are under way.
    #[cfg(feature = "tokio")]
    pub(super) calls: Arc<AtomicUsize>,
    /// Its name and its instance, which stand in its requests.
    pub(super) label: Option<Arc<Label>>,
    /// The mark in its store that pauses it, if it has a name.
    pub(super) pause_mark: Option<MutexName>,
    pub(super) observers: Observers,
    /// The one of them that keeps the log of runs.
    pub(super) run_logger: Option<Arc<RunLogger>>,
    /// Whether these observers were told of these events. Clones share it until one of them is changed.
    pub(super) has_begun: Arc<AtomicBool>,
    /// The stores that gave no answer when they were last asked.
    pub(super) stores_out: Arc<StoresOut>,
    pub(super) events: Vec<Arc<Definition>>,
    /// What is known of the runs of each of `events`.
    pub(super) histories: Vec<Arc<EventHistory>>,
    /// The index in `events` of each name.
    pub(super) names: HashMap<Arc<str>, usize>,
    /// How many runs may hold each mutex at a time.
    pub(super) runs_at_a_time: HashMap<(StoreId, MutexName), usize>,
    pub(super) due_index: DueIndex,
    /// The indices in `events` of those that make up for missed occurrences.
    pub(super) catch_up_events: Vec<usize>,
}

impl Schedule {
    /// Returns an empty schedule over a store. The store is asked for nothing until a protected event is due.
    pub fn new(mutex: impl EventMutex + 'static) -> Self {
        let mutex = Store::new(mutex);
        Self {
            clock: mutex.mutex.clock(),
            mutex,
            lease_term: Term::DEFAULT,
            zone: Zone::UTC,
            environment: None,
            shutdown: None,
            jitter: Duration::ZERO,
            on_report: None,
            drops_reports: false,
            runtime: None,
            #[cfg(feature = "tokio")]
            calls: Arc::default(),
            label: None,
            pause_mark: None,
            observers: Observers::default(),
            run_logger: None,
            has_begun: Arc::default(),
            stores_out: Arc::default(),
            events: Vec::new(),
            histories: Vec::new(),
            names: HashMap::new(),
            runs_at_a_time: HashMap::new(),
            due_index: DueIndex::default(),
            catch_up_events: Vec::new(),
        }
    }

    /// Returns an empty schedule with a store in this process's memory: it keeps the threads of this process from overlapping,
    /// and sees no other process. `add` warns of an event that is to run on one server, which needs another store.
    pub fn in_process() -> Self {
        Self::new(MemoryMutex::new())
    }

    /// Returns the same schedule on another clock than its store's, which is the machine's. For tests: see [`ManualClock`] for how
    /// to let time pass under a running task.
    ///
    /// [`ManualClock`]: crate::time::ManualClock
    #[must_use = "the clock is that of the schedule which is returned"]
    pub fn with_clock(self, clock: impl Into<Clock>) -> Self {
        let clock = clock.into();
        Self { observers: self.observers.on(&clock, self.instance()), clock, ..self }
    }

    /// Returns the same schedule with another default than 60 seconds for the term of leases of
    /// [`without_overlapping`](Event::without_overlapping), for events that are added from now on: how long a killed
    /// process blocks an event.
    #[must_use = "the term is that of the schedule which is returned"]
    pub fn with_lease_term(self, term: Term) -> Self {
        Self { lease_term: term, ..self }
    }

    /// Returns the same schedule with another default [zone](Event::timezone) than UTC for the timetables of events that are
    /// added from now on.
    #[must_use = "the zone is that of the schedule which is returned"]
    pub fn with_timezone(self, zone: impl Into<Zone>) -> Self {
        Self { zone: zone.into(), ..self }
    }

    /// Returns the same schedule in this environment, for the [`environments`](Event::environments) of events that are added
    /// from now on. An empty name, as from a variable that is not set, counts as no environment, so that such events
    /// are refused and not left out silently.
    #[must_use = "the environment is that of the schedule which is returned"]
    pub fn with_environment(self, name: impl Into<Arc<str>>) -> Self {
        Self { environment: Some(name.into()).filter(|name| !name.is_empty()), ..self }
    }

    /// Returns the same schedule, which starts nothing more once the process shuts down, and cancels its runs when the
    /// drain is over.
    #[must_use = "the shutdown is that of the schedule which is returned"]
    pub fn with_shutdown(self, shutdown: &Shutdown) -> Self {
        Self { shutdown: Some(shutdown.clone()), ..self }
    }

    /// Returns the same schedule, whose ticks in [`work`](Self::work) are delayed by a random time up to `jitter`, so that the
    /// servers of a fleet do not all ask their store at the same moment, and not always the same one is first. The
    /// default is no delay. A tick is delayed by nine tenths of the time to the next tick at most.
    #[must_use = "the jitter is that of the schedule which is returned"]
    pub fn with_jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// Returns the same schedule, which calls `told` with the report of each tick in which something was due, when all of its
    /// events have ended. It waits for the slowest one; use [`then`](Event::then) and [`on_failure`](Event::on_failure)
    /// to hear of each at once. It is not called for a tick that is still running when the process ends. In
    /// [`work`](Self::work) and [`run_minute`](Self::run_minute) ticks have threads of their own, so that several calls
    /// may run at the same time.
    ///
    /// Without it, `work` reports failures by itself.
    #[must_use = "what is told is told by the schedule which is returned"]
    pub fn on_report(self, told: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        Self { on_report: Some(Arc::new(told)), ..self }
    }

    /// Returns the same schedule, whose failures somebody is told of: in the loop of a service, it prints none itself.
    #[cfg(feature = "cli")]
    pub(crate) fn told_of_failures(self) -> Self {
        if self.on_report.is_some() { self } else { self.on_report(|_| {}) }
    }

    /// Returns the same schedule, which tells this observer of each step from now on: what is due, why it is skipped, when it starts and
    /// how it ends, what becomes of its lease. There may be any number of them, and each is told of everything; see
    /// [`Step`](crate::observe::Step).
    ///
    /// The thread that takes a step calls the observers, in the order in which they were added, and waits for them: the steps of
    /// one run come in their order. What the renewal of leases finds out is told by a thread of its own, so that a slow observer
    /// loses no lease. A panic of an observer is logged. Without observers, nothing is done for them.
    ///
    /// ```
    /// use soloist::observe::{Notice, Step};
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process().observe(|notice: &Notice<'_>| match notice.step() {
    ///     Step::Skipped(reason) => println!("{:?} was skipped: {reason}", notice.event()),
    ///     Step::Ended(outcome) => println!("{:?} {outcome}", notice.event()),
    ///     _ => {}
    /// });
    /// schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping())?;
    /// # assert!(!schedule.run_due(chrono::Utc::now()).is_failure());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "who is told observes the schedule which is returned"]
    pub fn observe(self, observer: impl Observer + 'static) -> Self {
        let observers = self.observers.and(Arc::new(observer), &self.clock, self.instance());
        Self { observers, has_begun: Arc::default(), ..self }
    }

    /// Returns the same schedule, which keeps the last `keep` runs of each event, from 1 to 1,000, in the log of its store: those of the
    /// whole fleet, with their occurrence, server, start, end, result, token and error. If none of them succeeded, the last one
    /// that did is kept in place of the oldest. [`runs`](Self::runs) and [`status`](Self::status) show them.
    ///
    /// The log decides no gate and delays no run: a thread of its own writes it, when a run has started and when it has ended, and
    /// tries again while the store is out. What is not written when the process ends is lost: `run_due` and its kin wait three
    /// seconds for it, when all runs have ended. For an event with [a store of its own](Event::mutex) too, the log is in the
    /// store of the schedule.
    ///
    /// # Errors
    ///
    /// The store keeps no log. All stores of this crate do.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process().with_run_log(20)?;
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// # assert!(!schedule.run_due(chrono::Utc::now()).is_failure());
    /// assert!(schedule.runs("reports")?[0].record().is_success());
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_run_log(self, keep: usize) -> Result<Self, MutexError> {
        self.mutex.mutex.run_log().ok_or_else(no_log)?;
        let logger = RunLogger::new(&self.mutex, keep.clamp(1, MOST_KEPT));
        Ok(Self { run_logger: Some(Arc::clone(&logger)), ..self.observe(logger) })
    }

    /// Waits for the last records of what was run, because the process may end now.
    pub(super) fn finish_run_log(&self) {
        if let Some(logger) = &self.run_logger {
            logger.finish();
        }
    }

    /// Waits in the same way at the end of a loop, which may have skipped what is not written yet.
    pub(super) fn finish_run_log_of_loop(&self) {
        if let Some(logger) = &self.run_logger {
            logger.finish_all();
        }
    }

    /// Adds an event at the end, if it is valid.
    ///
    /// Warns of a protection that its store can't give: `on_one_server` and `once_per` on a store that only this
    /// process sees. The warning goes to subscribers of `tracing` for each such event; without a subscriber, to
    /// standard error for the first.
    ///
    /// # Errors
    ///
    /// The event is invalid; the error says why. The schedule is unchanged.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).hourly())?;
    /// let error = schedule.add(Event::call("reports", |_| {}).daily()).unwrap_err();
    /// assert_eq!(error.to_string(), "event `reports`: there is already an event of this name in the schedule");
    /// # Ok(())
    /// # }
    /// ```
    pub fn add(&mut self, event: Event) -> Result<&mut Self, AddError> {
        let event = event.driven_by(self.runtime.as_ref())?;
        let event = event.define(&self.zone, self.lease_term, self.environment.as_deref())?;
        let refuse = |refusal| Err(AddError::new(&event.name, refusal));
        if self.names.contains_key(&event.name) {
            return refuse(AddErrorKind::Duplicate.because("there is already an event of this name in the schedule"));
        }
        let Store { id, can_extend, scope, .. } = self.store_of(&event);
        if event.protection.lease.is_some_and(LeaseTerms::need_extension) && !can_extend {
            return refuse(AddErrorKind::Store.because(
                "its store says that it can't extend a lease (`EventMutex::describe`), so that none is renewed or held \
                 longer than its task: use `without_overlapping_for(..)` alone, with a term that is longer than the task \
                 takes",
            ));
        }
        let (mutex, asked) = (&event.protection.mutex, event.protection.alternatives());
        if event.protection.lease.is_some()
            && let Some(known) = self.runs_at_a_time.get(&(*id, mutex.clone())).copied().filter(|known| *known != asked)
        {
            let mutex = mutex.mutex();
            return refuse(AddErrorKind::Conflict.because(format_args!(
                "of the events that share the mutex {mutex:?}, this one allows {asked} at a time and another one {known}: \
                 say the same `at_most(..)` for all of them"
            )));
        }
        if event.protection.queue.is_some() && !can_extend {
            return refuse(AddErrorKind::Store.because(
                "its store says that it can't extend a lease (`EventMutex::describe`), so that it can't keep a place in a \
                 queue: leave out the `on_overlap(..)`",
            ));
        }
        if let Some(limit) = event.failure_limit {
            if self.pause_mark.is_none() {
                return refuse(AddErrorKind::Missing.because(
                    "it has a `pause_on_failure(..)`, and the schedule has no name: call `schedule.named(..)` before `add`",
                ));
            }
            let keep = self.run_logger.as_ref().map_or(0, |logger| logger.keep());
            if keep <= limit {
                let log = match keep {
                    0 => "the schedule keeps no log of runs".to_owned(),
                    _ => format!("the log of the schedule keeps {keep} runs"),
                };
                return refuse(AddErrorKind::Missing.because(format_args!(
                    "it has a `pause_on_failure({limit})`, and {log}: call `schedule.with_run_log(..)` with more than \
                     {limit} before `add`"
                )));
            }
        }
        if event.protection.claim.is_some() && *scope == Scope::Process {
            log(&Incident::StoreTooNear { event: &event.name, scope });
        }
        self.index_event(self.events.len(), &event);
        self.names.insert(Arc::clone(&event.name), self.events.len());
        self.events.push(Arc::new(event));
        self.histories.push(Arc::default());
        self.has_begun = Arc::default();
        Ok(self)
    }

    /// Removes an event; `false` if there is none of this name. A run under way goes on.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(at) = self.names.remove(name) else { return false };
        self.events.remove(at);
        self.histories.remove(at);
        self.has_begun = Arc::default();
        self.names.values_mut().filter(|index| **index > at).for_each(|index| *index -= 1);
        (self.due_index, self.catch_up_events) = (DueIndex::default(), Vec::new());
        self.runs_at_a_time.clear();
        for (at, event) in self.events.clone().iter().enumerate() {
            self.index_event(at, event);
        }
        self.observers.tell(About { event: Some(name), ..About::default() }, &Step::Removed);
        true
    }

    fn index_event(&mut self, at: usize, event: &Definition) {
        if event.protection.lease.is_some() {
            let mutex = (self.store_of(event).id, event.protection.mutex.clone());
            self.runs_at_a_time.insert(mutex, event.protection.alternatives());
        }
        if event.runs_here {
            self.due_index.push(at, &event.timetable, event.has_windows());
            self.catch_up_events.extend(event.catch_up.as_ref().map(|_| at));
        }
    }

    /// Returns the names of the events that are due at `now`, in the order in which they were added. Asks neither filters
    /// nor stores.
    pub fn due(&self, now: DateTime<Utc>) -> impl Iterator<Item = &str> {
        self.due_index.due(now, DateTime::<Utc>::MIN_UTC).into_iter().map(|(event, _)| &*self.events[event].name)
    }

    /// Returns when the first event is due after `after`, within its windows and in this environment: see [`Event::next`]. `None`:
    /// none of them is, until the year 2100.
    ///
    /// Nothing is kept between calls: it searches the timetables of all events, some nanoseconds each.
    pub fn next_due(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let one_by_one = self.due_index.one_by_one().filter_map(|event| self.events[event].upcoming(after).next());
        one_by_one.chain(self.due_index.next_of_all(after)).min()
    }

    /// Returns the names of its events, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.events.iter().map(|event| &*event.name)
    }

    /// Returns the due times of one event after `after`: see [`Event::upcoming`]. There are none for an event that is not for
    /// this [environment](Self::with_environment).
    ///
    /// # Errors
    ///
    /// There is no event of this name.
    pub fn upcoming(
        &self,
        name: &str,
        after: DateTime<Utc>,
    ) -> Result<impl Iterator<Item = DateTime<Utc>> + use<>, UnknownEvent> {
        Ok(self.event(name)?.upcoming(after))
    }

    /// Returns the event of this name as it was defined, to read.
    ///
    /// # Errors
    ///
    /// There is no event of this name.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).daily_at("02:30").without_overlapping())?;
    /// let reports = schedule.event("reports")?;
    /// assert_eq!(reports.timetable(), "daily at 02:30");
    /// assert_eq!(reports.protections(), ["without_overlapping, lease of 1 min 0 s, renewed"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn event(&self, name: &str) -> Result<&Definition, UnknownEvent> {
        Ok(&self.events[self.index_of(name)?])
    }

    #[cfg(feature = "cli")]
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.events.iter().map(|event| &**event)
    }

    /// Returns its store, and those that events have for themselves.
    pub(crate) fn stores(&self) -> Vec<&Store> {
        let mut stores = vec![&self.mutex];
        for store in self.events.iter().filter_map(|event| event.mutex.as_ref()) {
            if !stores.iter().any(|known| known.id == store.id) {
                stores.push(store);
            }
        }
        stores
    }

    /// Returns whether as many runs of this event hold a lease as may run at a time.
    #[cfg(feature = "cli")]
    pub(crate) fn is_fully_held(&self, name: &str) -> Result<bool, MutexError> {
        let Some(event) = self.names.get(name).map(|event| &self.events[*event]) else { return Ok(false) };
        let leases = event.protection.leases();
        let held = self.store_of(event).mutex.held(Names::Each(leases))?;
        Ok(!leases.is_empty() && held.len() == leases.len())
    }

    #[cfg(feature = "cli")]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.as_ref().is_some_and(Shutdown::is_triggered)
    }

    pub(super) fn index_of(&self, name: &str) -> Result<usize, UnknownEvent> {
        self.names.get(name).copied().ok_or_else(|| UnknownEvent { name: Quoted::new(name) })
    }

    pub(super) fn store_of<'a>(&'a self, event: &'a Definition) -> &'a Store {
        event.mutex.as_ref().unwrap_or(&self.mutex)
    }
}

/// A callback for reports.
type OnReport = Arc<dyn Fn(&Report) + Send + Sync>;

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.events.iter().map(|event| &*event.name).collect();
        f.debug_struct("Schedule")
            .field("mutex", &self.mutex.mutex)
            .field("clock", &self.clock)
            .field("events", &names)
            .finish_non_exhaustive()
    }
}
