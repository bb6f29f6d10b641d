//! The builder of events: name, task, timetable, filters, hooks, protections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::add_error::{AddError, AddErrorKind, Refusal, checked_term};
use super::catch_up::CatchUp;
use super::filter::{Environments, Filter, windows_of};
use super::protection::protection_request::ProtectionRequest;
use super::protection::{LeaseTerms, Protection, claim_window};
use crate::lease::{name::MutexName, term::Term};
use crate::outcome::run_record::MOST_KEPT;
use crate::outcome::{hook_failure::Hook, run_outcome::RunOutcome};
use crate::store::handle::Store;
use crate::task::command::{LONGEST_GRACE, stopping::KILLING_TAKES};
use crate::task::future_task::Runtime;
use crate::task::run::Run;
use crate::task::runtime;
use crate::task::task_result::{IntoTaskResult, TaskResult};
use crate::task::work::{Task, Work, callback};
use crate::time::clock::shown::HumanDuration;
use crate::time::frequency::timetable_spec::TimetableSpec;
use crate::time::zone::{UnknownZone, Zone};
use crate::time::{timetable::Timetable, timetable::clock_change::ClockChange};

/// A named task, its timetable and its protections; [`Schedule::add`](crate::Schedule::add) takes it.
///
/// `add` validates it; the methods of the builder never fail, so that a definition reads in one piece. The order of the
/// methods makes no difference, except that filters and hooks are called in their order. An option that is set twice to
/// different values is refused.
///
/// ```
/// use std::time::Duration;
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # fn send_reminders() -> std::io::Result<()> { Ok(()) }
/// let mut schedule = Schedule::in_process();
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
    name: Arc<str>,
    pub(super) work: Work,
    due: TimetableSpec,
    /// `None`: that of the schedule.
    zone: Option<Zone>,
    clock_change: Option<ClockChange>,
    pub(super) environments: Option<Environments>,
    pub(super) filters: Vec<Filter>,
    before: Vec<Task>,
    after: Vec<AfterHook>,
    timeout: Option<Duration>,
    pub(super) protections: ProtectionRequest,
    pub(super) mutex: Option<Store>,
    background: bool,
    even_when_paused: bool,
    failure_limit: Option<usize>,
    stuck_after: Option<Duration>,
    /// The first error of its definition.
    wrong: Option<Refusal>,
}

/// A hook that runs when the task has ended.
pub(crate) struct AfterHook {
    pub(crate) hook: Hook,
    pub(crate) call: AfterCall,
}

type AfterCall = Box<dyn Fn(&Run, &RunOutcome) -> TaskResult + Send + Sync>;

impl Event {
    /// An event that calls `task`. The name is its identity: its lease and its claims are named after it, on every
    /// server. So use a name once in a schedule, and keep it from version to version. It has 1 to 512 characters,
    /// without control and invisible characters, and no space at its ends.
    ///
    /// The task returns nothing, or a [`TaskResult`], as all hooks do.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let greet = Event::call("greet", |run| println!("hello from {}", run.name())).every_minute();
    /// ```
    ///
    /// # With `?`
    ///
    /// A task may pass on errors of any type that is `Send + Sync`, and of several types. A closure needs no
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
    /// A function returns a [`TaskResult`], or is called with `?` where it has an error type of its own:
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

    /// An event whose task is a future, which a tokio runtime drives: that of
    /// [`with_runtime`](crate::Schedule::with_runtime), or the one in which the event is [added](crate::Schedule::add). It gets
    /// its run by value. Its name is its identity, as with [`call`](Self::call), and it returns what a callback may return.
    ///
    /// A future can be ended at its next `await`, and so it keeps a promise that no callback can: **no poll of it begins when
    /// its lease is over**. A run that is cancelled, by the loss of its lease, its [`timeout`](Self::timeout) or a
    /// [`Shutdown`](crate::Shutdown), is told by [`Run::cancelled`](crate::Run::cancelled); when its
    /// [`grace`](Self::grace) is over it is dropped, and at once if another process may hold the lease already. So it is
    /// told before its lease ends, earlier by the grace and a second, and dropped a second before. Its destructors run
    /// when the runtime next has a turn. If it panics, or its runtime ends or aborts it, the run has failed, and the lease
    /// is given back.
    ///
    /// What it can't promise: a poll that is under way goes on until its next `await`; so does what was handed to
    /// `spawn_blocking`, to a task of its own or to a server. What writes in such a place passes its
    /// [fencing token](crate::FencingToken) on.
    ///
    /// In the background it takes no thread, except for its hooks, which are callbacks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{Event, Run, Schedule, TaskResult};
    ///
    /// async fn import(run: Run) -> TaskResult {
    ///     let rows = tokio::fs::read_to_string("/var/lib/myapp/rows").await?;
    ///     println!("{} rows under token {:?}", rows.lines().count(), run.fencing_token());
    ///     Ok(())
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Runtime::new()?;
    /// # let _in_runtime = runtime.enter();
    /// let mut schedule = Schedule::in_process();
    /// schedule
    ///     .add(Event::spawn("import", import).hourly().without_overlapping().in_background())?
    ///     .add(Event::spawn("ping", |run| async move { println!("{}", run.name()) }).every_minute())?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub fn spawn<F>(name: impl Into<Arc<str>>, task: impl Fn(Run) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: IntoTaskResult> + Send + 'static,
    {
        let task = Arc::new(task);
        let begin = move |run| {
            let task = Arc::clone(&task);
            // Its runtime calls the task, too.
            Box::pin(async move { task(run).await.into_task_result() }) as _
        };
        Self::of(
            name.into(),
            Work::Future(Box::new(crate::task::future_task::FutureTask::new(begin, crate::task::command::USUAL_GRACE))),
        )
    }

    pub(crate) fn of(name: Arc<str>, work: Work) -> Self {
        Self {
            name,
            work,
            due: TimetableSpec::default(),
            zone: None,
            clock_change: None,
            environments: None,
            filters: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            timeout: None,
            protections: ProtectionRequest::default(),
            mutex: None,
            background: false,
            even_when_paused: false,
            failure_limit: None,
            stuck_after: None,
            wrong: None,
        }
    }

    /// Due at the times of these five fields, read as cronie reads them; see [`Crontab`](crate::time::Crontab). It is a
    /// complete timetable: `add` refuses an event that also has [words](crate::guide::frequencies) for when it is due,
    /// other than [`from`](Self::from), [`until`](Self::until) and windows.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).cron("*/10 8-18 * * MON-FRI"))?;
    /// let error = schedule.add(Event::call("backup", |_| {}).cron("61 * * * *")).unwrap_err();
    /// assert!(error.to_string().contains("61"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cron(self, expression: &str) -> Self {
        match expression.parse() {
            Ok(crontab) => self.timed(|due| due.set_expression(crontab)),
            Err(error) => self.refused(AddErrorKind::Timetable.because(error)),
        }
    }

    /// The zone of the timetable. The default is UTC, or the zone that the schedule sets for its events with
    /// [`with_timezone`](crate::Schedule::with_timezone). A name such as `"Europe/Berlin"`, `"local"` or `"+02:00"`, a
    /// fixed offset, [`chrono::Local`], or, with the feature `chrono-tz`, a `chrono_tz::Tz`.
    ///
    /// ```
    /// use chrono::FixedOffset;
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("berlin", |_| {}).daily_at("02:30").timezone("Europe/Berlin"))?;
    /// let offset = FixedOffset::east_opt(5 * 3600 + 45 * 60).unwrap();
    /// schedule.add(Event::call("kathmandu", |_| {}).daily_at("02:30").timezone(offset))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timezone<Z>(self, zone: Z) -> Self
    where
        Z: TryInto<Zone>,
        Z::Error: Into<UnknownZone>,
    {
        match zone.try_into() {
            Ok(zone) => self.say("timezone", zone, |event| &mut event.zone),
            Err(error) => self.refused(AddErrorKind::Zone.because(Into::<UnknownZone>::into(error))),
        }
    }

    /// The rule for its times when the clocks of its zone are set forward or back. The default is the rule of cronie,
    /// see [`ClockChange`].
    pub fn on_clock_change(self, rule: ClockChange) -> Self {
        self.say("on_clock_change", rule, |event| &mut event.clock_change)
    }

    /// Its first occurrence after `after`, between the years 1970 and 2100. `None`: there is none until then, or the
    /// event has no timetable yet, or [`add`](crate::Schedule::add) would refuse it as defined so far.
    ///
    /// It lies within [`between`](Self::between) and [`unless_between`](Self::unless_between). Other filters,
    /// [environments](Self::environments) and stores are not asked, so that the event may still be skipped then.
    pub fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.upcoming(after).next()
    }

    /// Its occurrences after `after`, one by one: see [`next`](Self::next).
    ///
    /// ```
    /// use chrono::{DateTime, Utc};
    /// use soloist::Event;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let noon: DateTime<Utc> = "2026-03-01T12:00:00Z".parse()?;
    /// let event = Event::call("reports", |_| {}).every_thirty_minutes();
    /// let times: Vec<String> = event.upcoming(noon).take(3).map(|time| time.format("%R").to_string()).collect();
    /// assert_eq!(times, ["12:30", "13:00", "13:30"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn upcoming(&self, after: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> + use<> {
        let windows = windows_of(&self.filters);
        self.timetable().into_iter().flat_map(move |timetable| timetable.upcoming(after, windows.clone()))
    }

    /// Called before the task, once the gate has admitted the run. If it fails, the task is not started, and the hooks
    /// after the task run. The occurrence counts as run: no other server tries it again.
    pub fn before<R: IntoTaskResult>(mut self, hook: impl Fn(&Run) -> R + Send + Sync + 'static) -> Self {
        self.before.push(callback(hook));
        self
    }

    /// Called when the task has ended, however it ended, while the lease is still held, unless it was lost:
    /// [`RunOutcome::lease_lost_at`]. A hook that fails keeps no other from running.
    pub fn then<R: IntoTaskResult>(self, hook: impl Fn(&Run, &RunOutcome) -> R + Send + Sync + 'static) -> Self {
        self.after(Hook::Then, hook)
    }

    /// Like [`then`](Self::then), if the task succeeded, even if its lease was lost.
    pub fn on_success<R: IntoTaskResult>(self, hook: impl Fn(&Run, &RunOutcome) -> R + Send + Sync + 'static) -> Self {
        self.after(Hook::OnSuccess, hook)
    }

    /// Like [`then`](Self::then), if the task did not succeed.
    pub fn on_failure<R: IntoTaskResult>(self, hook: impl Fn(&Run, &RunOutcome) -> R + Send + Sync + 'static) -> Self {
        self.after(Hook::OnFailure, hook)
    }

    /// Cancels the run when its task has taken this long: from 1 millisecond to ten years. The default is no timeout.
    ///
    /// A [command](Self::exec) is ended. A callback is not ended by force: it sees [`Run::is_cancelled`],
    /// [`Run::check`] and [`Run::wait_cancelled`], and is waited for. Its lease is held until it has stopped. One that takes
    /// longer than its timeout counts as failed, even if it succeeds then; the report says how much later it stopped,
    /// and subscribers of `tracing` are told as soon as it has gone on for five seconds. Hooks have no timeout.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Event;
    ///
    /// let event = Event::call("import", |run| {
    ///     for row in 0..1000 {
    ///         run.check()?;
    ///         println!("importing row {row}");
    ///     }
    ///     Ok(())
    /// })
    /// .hourly()
    /// .timeout(Duration::from_secs(600));
    /// ```
    pub fn timeout(self, limit: Duration) -> Self {
        self.say("timeout", limit, |event| &mut event.timeout)
    }

    /// Runs on a worker thread, at the same time as the other events of the tick. The tick ends when all events have ended.
    /// Without this, events run one after another.
    ///
    /// The background events of a store are admitted in batches of up to a hundred, and released in batches: a lease is
    /// released at once if nothing else is at work, and otherwise a few milliseconds after its run has ended, 50 at
    /// most. Of each store's events, up to two hundred run at once on as many threads, and none of them waits for another's
    /// task. The next batch is admitted when there are threads for a hundred.
    pub fn in_background(mut self) -> Self {
        self.background = true;
        self
    }

    /// Runs when it is due even if its schedule is [paused](crate::Schedule::pause), and even if the store does not
    /// answer whether it is: for events that a pause is not meant for, such as a heartbeat. Its own protections apply
    /// as always.
    pub fn even_when_paused(mut self) -> Self {
        self.even_when_paused = true;
        self
    }

    /// Pauses the event when its last `times` runs have all failed, wherever in the fleet they ran: from 1 to 999. A run that was
    /// cancelled does not count, and one that succeeded begins the count anew.
    ///
    /// The pause is one of [this event](crate::Schedule::pause_event), for ten years, with the reason `failed 3 times in a row`:
    /// everybody who asks is told so, and [`resume_event`](crate::Schedule::resume_event) ends it. After that, the next failure
    /// pauses it again, until a run has succeeded. The [log of runs](crate::Schedule::with_run_log) tells what failed, and it is
    /// asked after a failure only, by the thread that writes it. So a run may start before the pause begins; while the store is
    /// out, more than one.
    ///
    /// `add` refuses it in a schedule without a [name](crate::Schedule::named), or one whose log keeps `times` runs or
    /// fewer: runs that are at work or were cancelled take places there, too, so keep some more.
    ///
    /// ```
    /// use chrono::{TimeDelta, Utc};
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process().named("shop")?.with_run_log(20)?;
    /// schedule.add(Event::call("import", |_| Err("the supplier is out".into())).every_minute().pause_on_failure(2))?;
    /// for minute in 0..2 {
    ///     assert!(schedule.run_due(Utc::now() + TimeDelta::minutes(minute)).is_failure());
    /// }
    /// let pause = schedule.paused_event("import")?.expect("it failed twice");
    /// assert!(pause.to_string().ends_with("failed 2 times in a row"), "{pause}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause_on_failure(self, times: usize) -> Self {
        self.say("pause_on_failure", times, |event| &mut event.failure_limit)
    }

    /// Takes a run for stuck that has been running for this long, from 1 millisecond to ten years: an occurrence that is skipped
    /// because of it is a failure, [`Stuck`](crate::SkipReason::Stuck), on every server. So a run that hangs is reported by each
    /// of its next occurrences, and not for ever skipped in silence. The run itself goes on; [`timeout`](Self::timeout) ends one.
    ///
    /// The time counts from the grant of the lease, on the store's clock, to now on the schedule's. It needs a lease.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Event;
    ///
    /// let hours = |hours: u64| Duration::from_secs(hours * 60 * 60);
    /// let event = Event::call("reports", |_| {}).hourly().without_overlapping().stuck_after(hours(2)).timeout(hours(6));
    /// ```
    pub fn stuck_after(self, time: Duration) -> Self {
        self.say("stuck_after", time, |event| &mut event.stuck_after)
    }

    /// Applies a function from event to event: for settings that several events share.
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

    /// The same event, whose task is driven by this runtime, or by the one that this thread is in, if it is a future.
    pub(crate) fn driven_by(mut self, usual: Option<&Runtime>) -> Result<Self, AddError> {
        if let Work::Future(task) = &mut self.work {
            let runtime = usual.cloned().or_else(runtime::current);
            task.runtime = Some(runtime.ok_or_else(|| {
                let refusal = AddErrorKind::Runtime.because(
                    "its task is a future, and there is no runtime here to drive it: add it within one, or name one with \
                     `Schedule::with_runtime(..)`",
                );
                AddError::new(&self.name, refusal)
            })?);
        }
        Ok(self)
    }

    /// The timetable as defined so far, or the first error.
    fn timetable(&self) -> Result<Timetable, Refusal> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        let zone = self.zone.as_ref().unwrap_or(&Zone::UTC);
        let told = self.due.timetable(zone, self.clock_change.unwrap_or_default());
        let told = told.map_err(|error| AddErrorKind::Timetable.because(error))?;
        let timetable = told.ok_or_else(|| {
            AddErrorKind::Timetable.because(
                "it has no timetable: say when it runs, with `every_minute()`, `daily_at(\"02:30\")`, \
                 `cron(\"*/5 * * * *\")` …",
            )
        })?;
        let windows = windows_of(&self.filters);
        if !windows.0.is_empty() && timetable.next_in(&windows, DateTime::<Utc>::MIN_UTC).is_none() {
            return Err(AddErrorKind::Timetable.because(
                "none of its times of the day lies within its `between(..)` and outside of its `unless_between(..)`, so \
                 that it would never run",
            ));
        }
        Ok(timetable)
    }

    #[cfg(test)]
    pub(super) fn due(&self) -> &TimetableSpec {
        &self.due
    }

    /// Adds a crontab or frequency words to its timetable.
    pub(super) fn timed(mut self, say: impl FnOnce(&mut TimetableSpec) -> Result<(), String>) -> Self {
        if let Err(error) = say(&mut self.due) {
            self.note(AddErrorKind::Timetable.because(error));
        }
        self
    }

    /// Sets the option of the method `word`. A second, different value is an error.
    pub(crate) fn say<T: PartialEq>(
        mut self,
        word: &'static str,
        value: T,
        place: fn(&mut Self) -> &mut Option<T>,
    ) -> Self {
        let is_another = |before: T| before != value;
        if place(&mut self).take().is_some_and(is_another) {
            self.note(
                AddErrorKind::Conflict
                    .because(format_args!("`{word}(..)` is called twice with different values: remove one of the two")),
            );
        }
        *place(&mut self) = Some(value);
        self
    }

    /// The same event, which `add` refuses for this reason.
    pub(crate) fn refused(mut self, wrong: Refusal) -> Self {
        self.note(wrong);
        self
    }

    fn after<R: IntoTaskResult>(
        mut self,
        hook: Hook,
        call: impl Fn(&Run, &RunOutcome) -> R + Send + Sync + 'static,
    ) -> Self {
        self.after.push(AfterHook { hook, call: Box::new(move |run, outcome| call(run, outcome).into_task_result()) });
        self
    }

    pub(crate) fn note(&mut self, wrong: Refusal) {
        self.wrong.get_or_insert(wrong);
    }

    /// Validates the event for a schedule in this `environment`. The usual zone and term apply where the event has none
    /// of its own.
    pub(crate) fn define(
        mut self,
        usual_zone: &Zone,
        usual_term: Term,
        environment: Option<&str>,
    ) -> Result<Definition, AddError> {
        self.zone.get_or_insert_with(|| usual_zone.clone());
        let refuse = |refusal| AddError::new(&self.name, refusal);
        let own_name =
            MutexName::readable(Arc::clone(&self.name)).map_err(|error| refuse(AddErrorKind::Name.because(error)))?;
        let timetable = self.timetable().map_err(refuse)?;
        timetable.zone.check().map_err(|error| refuse(AddErrorKind::Zone.because(error)))?;
        if let Some(limit) = self.timeout {
            checked_term(limit, format_args!("a timeout of {limit:?}")).map_err(refuse)?;
        }
        if let Some(limit) = self.failure_limit {
            if !(1..MOST_KEPT).contains(&limit) {
                let message = format_args!("`pause_on_failure({limit})` is none of 1 to {}", MOST_KEPT - 1);
                return Err(refuse(AddErrorKind::OutOfRange.because(message)));
            }
            if self.even_when_paused {
                return Err(refuse(AddErrorKind::Conflict.because(
                    "it has a `pause_on_failure(..)` and an `even_when_paused()`, so that it would run on: leave out one of \
                     the two",
                )));
            }
        }
        if let Some(time) = self.stuck_after {
            checked_term(time, format_args!("`stuck_after({time:?})`")).map_err(refuse)?;
        }
        let environments = self.environments.as_ref();
        let runs_here = environments.map_or(Ok(true), |them| them.include(environment)).map_err(refuse)?;
        if !runs_here {
            self.filters.insert(0, Filter::Call(Box::new(|_| false)));
        }
        let window = self.protections.catch_up;
        let usual_window = claim_window(timetable.period());
        let protection =
            self.protections.validate(own_name, usual_term, usual_window, self.mutex.is_some()).map_err(refuse)?;
        if let Work::Command(command) = &self.work {
            command.check().map_err(|error| refuse(AddErrorKind::Command.because(error)))?;
        }
        check_grace(&self.work, protection.lease).map_err(refuse)?;
        if self.stuck_after.is_some() && protection.lease.is_none() {
            return Err(refuse(
                AddErrorKind::Missing.because("it has a `stuck_after(..)`, but no lease: add `without_overlapping()`"),
            ));
        }
        let longest_wait = protection.queue.as_ref().map(|queue| queue.within).unwrap_or_default();
        let claim_window = usual_window.max(longest_wait);
        protection.check_live_claims(claim_window, timetable.period()).map_err(refuse)?;
        let catch_up = window.and_then(|window| CatchUp::new(window, &self.name, &protection, &timetable));
        let catch_up = catch_up.or_else(|| protection.queue.as_ref().map(CatchUp::of_queue));
        Ok(Definition {
            name: self.name,
            work: self.work,
            claim_window,
            timetable,
            filters: self.filters,
            before: self.before,
            after: self.after,
            protection,
            timeout: self.timeout,
            runs_here,
            catch_up,
            mutex: self.mutex,
            background: self.background,
            even_when_paused: self.even_when_paused,
            failure_limit: self.failure_limit,
            stuck_after: self.stuck_after,
        })
    }
}

/// Whether a task can be stopped before its lease ends.
fn check_grace(work: &Work, lease: Option<LeaseTerms>) -> Result<(), Refusal> {
    let Some(grace) = work.grace() else { return Ok(()) };
    if grace > LONGEST_GRACE {
        return Err(AddErrorKind::OutOfRange.because(format_args!("a grace of {grace:?} is longer than an hour")));
    }
    let needed = work.stopping() * 2;
    match lease.map(|lease| lease.term.get()) {
        Some(term) if term < needed => Err(AddErrorKind::Conflict.because(format_args!(
            "a lease of {term:?} is too short to stop its task in: a grace of {grace:?} and {KILLING_TAKES:?} to end it \
             need twice as long, {needed:?}; let the lease be longer, or the `grace(..)` shorter"
        ))),
        _ => Ok(()),
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("name", &self.name)
            .field("due", &self.due)
            .field("zone", &self.zone)
            .field("clock_change", &self.clock_change)
            .field("environments", &self.environments)
            .field("filters", &self.filters.len())
            .field("timeout", &self.timeout)
            .field("protections", &self.protections)
            .field("background", &self.background)
            .field("even_when_paused", &self.even_when_paused)
            .field("failure_limit", &self.failure_limit)
            .field("stuck_after", &self.stuck_after)
            .field("wrong", &self.wrong)
            .finish_non_exhaustive()
    }
}

/// An event as a schedule has it: [`Schedule::event`](crate::Schedule::event) gives it to read.
///
/// ```
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut schedule = Schedule::in_process();
/// schedule.add(Event::call("poll", |_| {}).every_ten_seconds().on_one_server())?;
/// let poll = schedule.event("poll")?;
/// assert_eq!((poll.name(), poll.timetable()), ("poll", "every 10 seconds".to_owned()));
/// # Ok(())
/// # }
/// ```
pub struct Definition {
    pub(crate) name: Arc<str>,
    pub(crate) work: Work,
    pub(crate) timetable: Timetable,
    pub(crate) filters: Vec<Filter>,
    pub(crate) before: Vec<Task>,
    pub(crate) after: Vec<AfterHook>,
    pub(crate) protection: Protection,
    /// For how long after its tick began it may ask for its claim, without `catch_up`. Whoever waits in a queue may.
    pub(crate) claim_window: Duration,
    pub(crate) timeout: Option<Duration>,
    /// Whether it is due at all, in this environment.
    pub(crate) runs_here: bool,
    pub(crate) catch_up: Option<CatchUp>,
    pub(crate) mutex: Option<Store>,
    pub(crate) background: bool,
    pub(crate) even_when_paused: bool,
    /// After how many failures in a row it is paused.
    pub(crate) failure_limit: Option<usize>,
    /// How long a run has been running that is stuck.
    pub(crate) stuck_after: Option<Duration>,
}

impl Definition {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it is due on the clocks of its [zone](Self::zone), in plain English: `daily at 02:30`, `every 10 seconds`. What
    /// windows leave out is not in it.
    pub fn timetable(&self) -> String {
        self.timetable.in_words()
    }

    /// The zone of its timetable.
    pub fn zone(&self) -> &Zone {
        &self.timetable.zone
    }

    /// The name of its lease; `None` without one.
    pub fn mutex_name(&self) -> Option<&MutexName> {
        self.protection.lease.map(|_| &self.protection.mutex)
    }

    /// What it asks for beside running, in the words that ask for it, one by one: `without_overlapping, lease of 1 min 0 s, renewed`,
    /// `on_one_server`, `timeout 5 min 0 s`. For people; the texts may change.
    pub fn protections(&self) -> Vec<String> {
        let mut words = self.protection.in_words();
        // One that makes up only for what was waited for did not ask for it.
        let catch_up = self.catch_up.as_ref().filter(|catch_up| catch_up.mark.is_some());
        words.extend(catch_up.map(|catch_up| format!("catch_up {}", HumanDuration(catch_up.window))));
        words.extend(self.timeout.map(|limit| format!("timeout {}", HumanDuration(limit))));
        words.extend(self.stuck_after.map(|time| format!("stuck_after {}", HumanDuration(time))));
        words.extend(self.even_when_paused.then(|| "even_when_paused".to_owned()));
        words.extend(self.failure_limit.map(|limit| format!("pause_on_failure {limit}")));
        words
    }

    pub(crate) fn has_windows(&self) -> bool {
        self.filters.iter().any(|filter| matches!(filter, Filter::Window(_)))
    }

    /// Its due times after `after`, within its windows; none if it does not run in this environment.
    pub(crate) fn upcoming(&self, after: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> + use<> {
        let times = self.runs_here.then(|| self.timetable.clone().upcoming(after, windows_of(&self.filters)));
        times.into_iter().flatten()
    }

    /// Returns whether its last occurrence was at `now` or before.
    pub(crate) fn is_over(&self, now: DateTime<Utc>) -> bool {
        self.upcoming(now).next().is_none() && self.upcoming(DateTime::<Utc>::MIN_UTC).next().is_some()
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("name", &self.name)
            .field("timetable", &self.timetable)
            .field("protection", &self.protection)
            .field("timeout", &self.timeout)
            .field("background", &self.background)
            .finish_non_exhaustive()
    }
}
