//! The builder of events. The methods in this folder set its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::add_error::{AddErrorKind, Refusal, set_once};
use super::filter::{Environments, Filter, windows_of};
use super::protection::{claim::checked_jitter, protection_request::ProtectionRequest};
use super::retry::Retry;
use crate::outcome::{fault::Hook, run_outcome::RunOutcome};
use crate::store::described_store::Store;
use crate::task::event_task::{IntoTaskResult, Task, TaskResult, Work, callback};
use crate::task::future_task::Runtime;
use crate::task::run::Run;
use crate::task::runtime;
use crate::time::timetable::{Timetable, clock_change::ClockChange, jitter::Jitter};
use crate::time::timetable_spec::TimetableSpec;
use crate::time::zone::Zone;

mod claims_and_permits;
mod commands;
mod cron_and_zone;
mod filters;
mod frequencies;
mod hooks;
mod leases;
mod limits;

/// An event: a named task with its timetable and its protections. [`Schedule::add`](crate::Schedule::add) adds the
/// event to a schedule.
///
/// The methods of the builder never fail, so that calls can be chained. `add` validates the event, and returns the
/// first error. The order of the methods makes no difference, with one exception: filters and hooks are called in the
/// order in which they were added. `add` refuses an event if an option is set twice to different values. Each length of
/// time is a [`std::time::Duration`], not that of `chrono`.
///
/// ```
/// use std::time::Duration;
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # fn send_reminders() -> std::io::Result<()> { Ok(()) }
/// let schedule = Schedule::in_process();
/// schedule.add(
///     Event::call("carts:remind", |_| Ok(send_reminders()?))
///         .hourly_at(15)
///         .weekdays()
///         .timezone("Europe/Berlin")
///         .without_overlapping_for(Duration::from_secs(30 * 60))
///         .on_failure(|run, outcome| eprintln!("{}: {outcome}", run.name())),
/// )?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an event does nothing until it is added to a schedule"]
pub struct Event {
    pub(crate) name: Arc<str>,
    pub(super) work: Work,
    due: TimetableSpec,
    /// `None`: the zone of the schedule.
    pub(super) zone: Option<Zone>,
    clock_change: Option<ClockChange>,
    jitter: Option<Duration>,
    pub(super) environments: Option<Environments>,
    pub(super) filters: Vec<Filter>,
    pub(super) before: Vec<Task>,
    pub(super) after: Vec<AfterHook>,
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Option<Duration>,
    pub(super) retry: Option<Retry>,
    pub(super) protections: ProtectionRequest,
    pub(super) store: Option<Store>,
    pub(super) background: bool,
    pub(super) even_when_paused: bool,
    pub(super) failure_limit: Option<usize>,
    pub(super) stuck_after: Option<Duration>,
    /// The first error of a builder method. `add` returns this error.
    wrong: Option<Refusal>,
}

/// A hook that runs when the task has ended.
pub(crate) struct AfterHook {
    pub(crate) hook: Hook,
    pub(crate) call: AfterCall,
}

type AfterCall = Box<dyn Fn(&Run, &RunOutcome) -> TaskResult + Send + Sync>;

impl Event {
    /// Makes an event that calls `task`. The name identifies the event on every server: the names of its lease and of
    /// its claims contain the name of the event. So use each name only once in a schedule, and do not change the name
    /// in a later version of the application. A name has 1 to 512 characters. Control characters and invisible
    /// characters are not allowed, and neither is a space at the beginning or the end.
    ///
    /// The task returns nothing or a [`TaskResult`].
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let greet = Event::call("greet", |run| println!("hello from {}", run.name())).every_minute();
    /// ```
    ///
    /// # With `?`
    ///
    /// A task can use `?` on errors of different types, if these types are `Send + Sync`. A closure needs no type
    /// annotation:
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let import = Event::call("import", |run| {
    ///     let rows: u32 = std::fs::read_to_string("/var/lib/myapp/rows")?.trim().parse()?;
    ///     if rows == 0 {
    ///         return Err("no rows".into());
    ///     }
    ///     println!("{rows} rows for {}", run.occurrence());
    ///     Ok(())
    /// })
    /// .hourly();
    /// ```
    ///
    /// A function can be the task if it returns a [`TaskResult`]. If a function returns another error type, write a
    /// closure that calls the function with `?`:
    ///
    /// ```
    /// use soloist::{Event, Run, TaskResult};
    ///
    /// fn import(run: &Run) -> TaskResult {
    ///     println!("importing for {}", run.occurrence());
    ///     Ok(std::fs::write("/var/lib/myapp/imported", "")?)
    /// }
    /// let import = Event::call("import", import).hourly();
    ///
    /// fn clean_up() -> std::io::Result<()> {
    ///     std::fs::remove_file("/var/lib/myapp/imported")
    /// }
    /// let clean_up = Event::call("clean-up", |_| Ok(clean_up()?)).daily();
    /// ```
    pub fn call<R: IntoTaskResult>(
        name: impl Into<Arc<str>>,
        task: impl Fn(&Run) -> R + Send + Sync + 'static,
    ) -> Self {
        Self::of(name.into(), Work::Callback(callback(task)))
    }

    /// Makes an event whose task is a future, which a tokio runtime drives. The schedule sets the runtime with
    /// [`with_runtime`](crate::Schedule::with_runtime). Without this setting, the future runs on the runtime of the
    /// thread that calls [`add`](crate::Schedule::add). The task receives its run by value, and can return the types
    /// that a callback can return. The name identifies the event, as with [`call`](Self::call).
    ///
    /// A future can be ended at its next `await`. So the library can promise more than for a callback: **no poll of the
    /// future begins after the end of its lease**. A run is cancelled by the loss of its lease, by its
    /// [`timeout`](Self::timeout) or by a [`Shutdown`](crate::Shutdown). Then [`Run::cancelled`](crate::Run::cancelled)
    /// completes, and the future is dropped after its [`grace`](Self::grace). If another process may already hold the
    /// lease, the future is dropped at once.
    ///
    /// If the lease can't be renewed, the run is cancelled one grace and one second before the lease ends. The future
    /// is dropped one second before the lease ends. The runtime drops the future at the next poll. So the destructors
    /// of the future run on the runtime, too. If the future panics, or if the runtime ends or aborts the task, the run
    /// has failed, and the lease is released.
    ///
    /// The promise has limits: a poll that is running continues until its next `await`. Work in `spawn_blocking`, in
    /// another task, or in a database continues, too. If such work writes data, pass the [fencing
    /// token](crate::FencingToken) to the work.
    ///
    /// A future that runs [in the background](Self::in_background) occupies no thread. Only its hooks occupy a thread,
    /// because hooks are callbacks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{Event, Run, Schedule, TaskResult};
    ///
    /// async fn import(run: Run) -> TaskResult {
    ///     let token = run.fencing_token().ok_or("the run is unprotected")?;
    ///     let rows = tokio::fs::read_to_string("/var/lib/myapp/rows").await?;
    ///     println!("{} rows under token {token}", rows.lines().count());
    ///     Ok(())
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Runtime::new()?;
    /// # let _in_runtime = runtime.enter();
    /// let schedule = Schedule::in_process();
    /// schedule
    ///     .add(Event::spawn("import", import).hourly().without_overlapping().in_background())?
    ///     .add(Event::spawn("ping", |run| async move { println!("{}", run.name()) }).every_minute())?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tokio")]
    pub fn spawn<F>(name: impl Into<Arc<str>>, task: impl Fn(Run) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: IntoTaskResult> + Send + 'static,
    {
        let task = Arc::new(task);
        let begin = move |run| {
            let task = Arc::clone(&task);
            // The closure is called inside the future, so that the closure runs on the runtime, like the future.
            Box::pin(async move { task(run).await.into_task_result() }) as _
        };
        Self::of(name.into(), Work::Future(Box::new(crate::task::future_task::FutureTask::new(begin))))
    }

    pub(crate) fn of(name: Arc<str>, work: Work) -> Self {
        Self {
            name,
            work,
            due: TimetableSpec::default(),
            zone: None,
            clock_change: None,
            jitter: None,
            environments: None,
            filters: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            timeout: None,
            grace: None,
            retry: None,
            protections: ProtectionRequest::default(),
            store: None,
            background: false,
            even_when_paused: false,
            failure_limit: None,
            stuck_after: None,
            wrong: None,
        }
    }

    /// Runs the event on a worker thread, at the same time as the other events of the tick. The tick ends when all its
    /// runs have ended. Without this method, events run one after another.
    ///
    /// Background events with a common store are admitted in batches of up to a hundred. Their leases are released in
    /// batches, too. If nothing else is running, a lease is released immediately after its run. Otherwise the lease is
    /// released together with other leases, with the next request of its loop, which waits for filters and for the
    /// store. Up to two hundred events of each store run at the same time, each on its own thread. Further events are
    /// admitted when threads are free.
    pub fn in_background(mut self) -> Self {
        self.background = true;
        self
    }

    /// Runs the event even while its schedule is [paused](crate::Schedule::pause), and even if the store does not
    /// answer whether the schedule is paused. Use this method for events that must not be paused, such as a heartbeat.
    /// The protections of the event still apply.
    pub fn even_when_paused(mut self) -> Self {
        self.even_when_paused = true;
        self
    }

    /// Calls `attributes` with this event, and returns the result. Use this method for settings that several events
    /// share.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// fn nightly(event: Event) -> Event {
    ///     event.daily_at("02:30").timezone("Europe/Berlin").without_overlapping().on_one_server()
    /// }
    /// let backup = Event::call("backup", |_| {}).apply(nightly);
    /// let vacuum = Event::call("vacuum", |_| {}).apply(nightly);
    /// ```
    pub fn apply(self, attributes: impl FnOnce(Self) -> Self) -> Self {
        attributes(self)
    }

    /// Returns the event. If its task is a future, the task gets the runtime `usual`. If `usual` is `None`, the task
    /// gets the runtime of this thread.
    pub(crate) fn driven_by(mut self, usual: Option<&Runtime>) -> Result<Self, Refusal> {
        if let Work::Future(task) = &mut self.work {
            let runtime = usual.cloned().or_else(runtime::current);
            task.runtime = Some(runtime.ok_or_else(|| {
                AddErrorKind::Runtime.because(
                    "its task is a future, but this thread has no `tokio` runtime to drive it: add the event inside of a runtime, \
                     or set one with `Schedule::with_runtime(..)`",
                )
            })?);
        }
        Ok(self)
    }

    /// Returns the timetable of the options that were set so far, or the first error.
    pub(super) fn timetable(&self) -> Result<Timetable, Refusal> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        let zone = self.zone.as_ref().unwrap_or(&Zone::UTC);
        let timetable = self.due.timetable(zone, self.clock_change.unwrap_or_default());
        let timetable = timetable.map_err(|error| AddErrorKind::Timetable.because(error))?;
        let timetable = timetable.ok_or_else(|| {
            AddErrorKind::Timetable.because(
                "it has no timetable: say when it runs, with `every_minute()`, `daily_at(\"02:30\")`, \
                 `cron(\"*/5 * * * *\")` …",
            )
        })?;
        if self.clock_change.is_some() && timetable.interval.is_some() {
            return Err(AddErrorKind::Conflict.because(
                "`on_clock_change(..)` has no effect on `every(..)` and `at(..)`, because no change of the clocks moves their times: leave it out",
            ));
        }
        let jitter = match self.jitter {
            Some(longest) => Jitter::new(&self.name, checked_jitter(longest, timetable.period())?),
            None => Jitter::NONE,
        };
        let timetable = Timetable { jitter, windows: windows_of(&self.filters), ..timetable };
        let windows = &timetable.windows;
        if !windows.0.is_empty() && timetable.next_open(DateTime::<Utc>::MIN_UTC).is_none() {
            let windows: Vec<String> = windows.0.iter().map(|window| format!("`{window}`")).collect();
            return Err(AddErrorKind::Timetable.because(format_args!(
                "it is due `{}`, but at none of these times are all its windows open, {}: change one of them",
                timetable.in_words(),
                windows.join(" and ")
            )));
        }
        Ok(timetable)
    }

    /// Changes the timetable with `say`, which adds a crontab or a frequency.
    pub(super) fn timed(mut self, say: impl FnOnce(&mut TimetableSpec) -> Result<(), String>) -> Self {
        let said = say(&mut self.due).map_err(|error| AddErrorKind::Timetable.because(error));
        self.noting(said)
    }

    /// Sets the option in `place` to `value`. If the option already has a different value, `add` returns an error that
    /// names `method`.
    pub(crate) fn say<T: PartialEq + fmt::Debug>(
        mut self,
        method: &'static str,
        value: T,
        place: fn(&mut Self) -> &mut Option<T>,
    ) -> Self {
        let set = set_once(method, place(&mut self), value);
        self.noting(set)
    }

    /// Keeps the error of `done`, if there is one and the event has no earlier error. `add` returns the first error.
    fn noting(mut self, done: Result<(), Refusal>) -> Self {
        self.wrong = self.wrong.or(done.err());
        self
    }

    pub(crate) fn refused(self, wrong: Refusal) -> Self {
        self.noting(Err(wrong))
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("name", &self.name)
            .field("due", &self.due)
            .field("zone", &self.zone)
            .field("timeout", &self.timeout)
            .field("retry", &self.retry)
            .field("protections", &self.protections)
            .field("background", &self.background)
            .field("wrong", &self.wrong)
            .finish_non_exhaustive()
    }
}
