//! The type `Schedule`: its fields, and the methods that set them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::history::run_logger::RunLogger;
use super::report::Report;
use super::shutdown::Shutdown;
#[cfg(feature = "tokio")]
use crate::hold::renewal_thread::call_permits::CallPermits;
use crate::lease::label::{Label, this_instance};
use crate::lease::{name::MutexName, store_id::StoreId, term::Term};
use crate::observe::tell::observers::{Observer, Observers};
use crate::store::event_mutex::EventMutex;
use crate::store::{described_store::Store, memory::MemoryMutex};
use crate::task::future_task::{Runtime, RuntimeId};
use crate::time::clock::Clock;
use crate::time::zone::{Zone, zone_text::UnknownZone};

mod add_and_remove;
mod application;
pub(crate) mod live_events;
pub(crate) mod registry;

use live_events::LiveEvents;

/// A set of events, and the store that protects them.
///
/// ```
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process();
/// schedule
///     .add(Event::call("reports", |_| println!("reporting")).every_minute().without_overlapping())?
///     .add(Event::call("cleanup", |_| println!("cleaning")).daily_at("03:15"))?;
/// let report = schedule.run_due(chrono::Utc::now());
/// println!("{report}");
/// # assert!(!report.is_failure());
/// # Ok(())
/// # }
/// ```
///
/// A schedule is cheap to clone, and its clones share the events and the store. So [`add`](Self::add),
/// [`replace`](Self::replace) and [`remove`](Self::remove) can change a schedule while another thread runs it. A loop
/// of [`work`](Self::work) wakes up for the change. A call of [`run_due`](Self::run_due) uses the events that the
/// schedule has when the call begins. Each clone has its own settings, such as [`with_timezone`](Self::with_timezone).
///
/// ```
/// use soloist::{Event, Schedule, Shutdown};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (schedule, shutdown) = (Schedule::in_process(), Shutdown::new());
/// let service = std::thread::spawn({
///     let (schedule, shutdown) = (schedule.clone(), shutdown.clone());
///     move || schedule.work(&shutdown)
/// });
/// schedule.add(Event::call("reports", |_| println!("reporting")).hourly())?; // runs at the next full hour
/// schedule.replace(Event::call("reports", |_| println!("reporting")).daily_at("03:15"))?;
/// assert!(schedule.remove("reports"));
/// shutdown.trigger();
/// # service.join().unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Schedule {
    pub(super) store: Store,
    pub(super) clock: Clock,
    /// The default term of renewed leases.
    pub(super) lease_term: Duration,
    /// The default zone of timetables. The error: `with_timezone` got no valid zone, so `add` refuses each event.
    pub(super) zone: Result<Zone, UnknownZone>,
    pub(super) environment: Option<Arc<str>>,
    pub(super) shutdown: Option<Shutdown>,
    pub(super) on_report: Option<OnReport>,
    /// Whether no callback receives the reports, so that failures go to standard error.
    pub(super) drops_reports: bool,
    /// The runtime whose only thread the caller of the loop blocks. Its futures are not started.
    pub(super) blocked: Option<RuntimeId>,
    /// The runtime that polls the futures of events.
    pub(super) runtime: Option<Runtime>,
    /// Limits how many calls of the schedule's [operators](Self::operator) run at the same time.
    #[cfg(feature = "tokio")]
    pub(super) calls: CallPermits,
    /// The instance name: that of the schedule, or the default of the process.
    pub(super) instance: Option<Arc<str>>,
    /// The names of the application and of the instance, which are part of each request.
    pub(super) label: Option<Arc<Label>>,
    /// The name of the marker that pauses the schedule. `None`: the schedule has no name, and can't be paused.
    pub(super) pause_marker: Option<MutexName>,
    /// Whether events run if the store does not say whether they are paused.
    pub(super) runs_past_unknown_pauses: bool,
    pub(super) observers: Observers,
    /// The observer that keeps the log of runs.
    pub(super) run_logger: Option<Arc<RunLogger>>,
    /// The version of the registry whose events were last reported to the observers. Zero: no events were reported yet.
    pub(super) told_of: Arc<AtomicU64>,
    /// The stores that were unavailable at the last request.
    pub(super) stores_out: Arc<Mutex<BTreeSet<StoreId>>>,
    /// The instant of the last call of `run_due` in which an event was due. `None`: a warning that a call repeated runs
    /// was logged.
    pub(super) last_tick: Arc<Mutex<Option<DateTime<Utc>>>>,
    pub(super) events: Arc<LiveEvents>,
}

impl Schedule {
    /// Returns an empty schedule with this store. This call sends no request to the store.
    pub fn new(mutex: impl EventMutex + 'static) -> Self {
        let store = Store::new(mutex);
        Self {
            clock: store.mutex.clock(),
            events: Arc::default(),
            store,
            lease_term: Term::DEFAULT.get(),
            zone: Ok(Zone::UTC),
            environment: None,
            shutdown: None,
            on_report: None,
            drops_reports: false,
            blocked: None,
            runtime: None,
            #[cfg(feature = "tokio")]
            calls: CallPermits::default(),
            instance: this_instance(),
            label: None,
            pause_marker: None,
            runs_past_unknown_pauses: false,
            observers: Observers::default(),
            run_logger: None,
            told_of: Arc::default(),
            stores_out: Arc::default(),
            last_tick: Arc::new(Mutex::new(Some(DateTime::<Utc>::MIN_UTC))),
        }
    }

    /// Returns an empty schedule with a store in the memory of this process. The store prevents overlaps among the
    /// threads of this process. Other processes do not see the store. So `add` warns of an event with
    /// [`on_one_server`](crate::Event::on_one_server), [`once_per`](crate::Event::once_per) or
    /// [`on_overlap`](crate::Event::on_overlap): in a fleet, such an event needs a store that other processes share.
    pub fn in_process() -> Self {
        Self::new(MemoryMutex::new())
    }

    /// Returns the same schedule with this clock, for tests. The default is the clock of the store, which is normally
    /// the clock of the machine. [`ManualClock`] describes how to let time pass while a task is running.
    ///
    /// [`ManualClock`]: crate::time::ManualClock
    #[must_use = "only the returned schedule has the clock"]
    pub fn with_clock(self, clock: impl Into<Clock>) -> Self {
        let clock = clock.into();
        Self { observers: self.observers.on(&clock, self.instance.clone()), clock, ..self }
    }

    /// Returns the same schedule with another default term for leases of
    /// [`without_overlapping`](crate::Event::without_overlapping). The term is for events that are added from now on.
    /// If a process is killed during a run, the event of this run is blocked until the term is over. Without this
    /// method, the default is 60 seconds. The limits are those of [`Event::lease_term`](crate::Event::lease_term):
    /// [`add`](Self::add) refuses an event if they are exceeded.
    #[must_use = "only the returned schedule has the term"]
    pub fn with_lease_term(self, term: Duration) -> Self {
        Self { lease_term: term, ..self }
    }

    /// Returns the same schedule with another default zone for the timetables of events that are added from now on.
    /// Without this method, the default is UTC. `zone` can be any value that
    /// [`Event::timezone`](crate::Event::timezone) accepts. If `zone` is not a zone, [`add`](Self::add) refuses each
    /// event.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # #[cfg(feature = "tzdata")]
    /// # {
    /// let schedule = Schedule::in_process().with_timezone("Europe/Berlin");
    /// schedule.add(Event::call("reports", |_| {}).daily_at("02:30"))?;
    /// assert_eq!(schedule.event("reports")?.zone().to_string(), "Europe/Berlin");
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "only the returned schedule has the zone"]
    pub fn with_timezone<Z>(self, zone: Z) -> Self
    where
        Z: TryInto<Zone>,
        Z::Error: Into<UnknownZone>,
    {
        Self { zone: zone.try_into().map_err(Into::into), ..self }
    }

    /// Returns the same schedule with the name of its environment. Among the events that are added from now on, those
    /// with [`environments`](crate::Event::environments) run only if they list this name. If the name is empty, for
    /// example from an unset variable, `add` refuses events with `environments`, because such events would silently
    /// never run.
    #[must_use = "only the returned schedule has the environment"]
    pub fn with_environment(self, name: impl Into<Arc<str>>) -> Self {
        Self { environment: Some(name.into()), ..self }
    }

    /// Returns the same schedule with this shutdown. When the shutdown begins, the schedule starts no further run. When
    /// the drain is over, running runs are cancelled.
    #[must_use = "only the returned schedule has the shutdown"]
    pub fn with_shutdown(self, shutdown: &Shutdown) -> Self {
        Self { shutdown: Some(shutdown.clone()), ..self }
    }

    /// Returns the same schedule with a callback for reports. The schedule calls `call` with the report of each tick
    /// that had a due event, after all runs of the tick have ended. To be notified of each run at its end, use
    /// [`then`](crate::Event::then) or [`on_failure`](crate::Event::on_failure). If the process ends during a tick,
    /// `call` is not called for that tick. In [`work`](Self::work) and [`run_minute`](Self::run_minute), each tick has
    /// its own thread, so several threads can run `call` at the same time.
    ///
    /// Without this callback, `work` prints failures on standard error, unless there is a subscriber of `tracing`.
    #[must_use = "only the returned schedule has the callback"]
    pub fn on_report(self, call: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        Self { on_report: Some(Arc::new(call)), ..self }
    }

    /// Returns the schedule with a callback for reports, so that its loop prints no failures.
    #[cfg(feature = "cli")]
    pub(crate) fn told_of_failures(self) -> Self {
        if self.on_report.is_some() { self } else { self.on_report(|_| {}) }
    }

    /// Returns the same schedule with this observer, which is notified of each step from now on: the due events, the
    /// reasons of skips, the starts, the ends and the releases. A schedule can have several observers, and each
    /// observer receives all notices; see [`Step`](crate::observe::Step). A closure must write the type of its argument:
    /// `|notice: &Notice<'_>|`.
    ///
    /// The thread that takes a step calls the observers in the order in which they were added, and waits for them. So
    /// the steps of one run come in their order. Notices about renewals come from a separate thread, so that a slow
    /// observer delays no renewal. A panic of an observer is logged. Without observers, notices cost nothing.
    ///
    /// ```
    /// use soloist::observe::{Notice, Step};
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process().observe(|notice: &Notice<'_>| match notice.step() {
    ///     Step::Skipped(reason) => println!("{:?} was skipped: {reason}", notice.event()),
    ///     Step::Ended(outcome) => println!("{:?} {outcome}", notice.event()),
    ///     _ => {}
    /// });
    /// schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping())?;
    /// # assert!(!schedule.run_due(chrono::Utc::now()).is_failure());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "only the returned schedule has the observer"]
    pub fn observe(self, observer: impl Observer + 'static) -> Self {
        let observers = self.observers.and(Arc::new(observer), &self.clock, self.instance.clone());
        Self { observers, told_of: Arc::default(), ..self }
    }

    /// Returns whether the shutdown has begun, so that no further run may start.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.as_ref().is_some_and(Shutdown::is_triggered)
    }
}

type OnReport = Arc<dyn Fn(&Report) + Send + Sync>;

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names().collect();
        f.debug_struct("Schedule")
            .field("mutex", &self.store.mutex)
            .field("clock", &self.clock)
            .field("events", &names)
            .finish_non_exhaustive()
    }
}
