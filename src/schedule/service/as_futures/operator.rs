//! What an operator asks a schedule, as futures: for the handlers of a service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::on_a_thread::on_a_thread;
use crate::base::{error::MutexError, progress::CallProgress, threads};
use crate::lease::name::MutexName;
use crate::outcome::paused::Pause;
use crate::schedule::history::status::Status;
use crate::schedule::pause::pause_error::PauseError;
use crate::schedule::schedule::Schedule;
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::broken_lease::Broken;
use crate::store::event_mutex::held::{Held, Names};
use crate::store::event_mutex::warning::StoreWarning;
use crate::time::clock::shown::ExactDuration;

/// How long an answer may take, unless it is said.
const USUAL_LIMIT: Duration = Duration::from_secs(2);

/// How many calls of one schedule may be under way at once. One whose limit is over goes on until the store's own time-out.
const MOST_CALLS: usize = 16;

/// What an operator asks a schedule and its store, as futures with a limit of their own: for the handlers of a service. They
/// stall no worker of the runtime, and a store that is out keeps no request waiting for longer than the limit.
///
/// A cheap handle, for the shared state of a service. It knows the schedule as it was when it was made.
///
/// ```
/// use std::time::Duration;
/// use soloist::store::Names;
/// use soloist::Schedule;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let schedule = Schedule::in_process().named("shop")?;
/// let operator = schedule.operator().within(Duration::from_secs(1));
///
/// operator.pause(chrono::Utc::now() + chrono::TimeDelta::hours(1), "the orders are migrated").await?;
/// assert!(operator.paused().await?.is_some());
/// assert!(operator.resume().await?);
///
/// assert!(operator.check().await?.is_empty(), "nothing to warn of");
/// assert!(operator.held(Names::LeasesWithPrefix("")).await?.is_empty());
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub struct Operator {
    schedule: Arc<Schedule>,
    limit: Duration,
    calls: Arc<AtomicUsize>,
}

impl Schedule {
    /// Returns what an operator asks this schedule, for the handlers of a service.
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub fn operator(&self) -> Operator {
        Operator { schedule: Arc::new(self.clone()), limit: USUAL_LIMIT, calls: Arc::clone(&self.calls) }
    }
}

impl Operator {
    /// Returns the same, with another limit than two seconds for each answer. What has no answer by then is an error, although it
    /// may still be done; it names the server that was asked, and how its last attempt failed.
    #[must_use = "the limit is that of what is returned"]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// [`Schedule::check`].
    ///
    /// # Errors
    ///
    /// The store did not answer, or not in time.
    pub async fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        self.ask("check the store", |error| error, Schedule::check).await
    }

    /// [`Schedule::paused`].
    ///
    /// # Errors
    ///
    /// Those of [`Schedule::paused`], or the store did not answer in time.
    pub async fn paused(&self) -> Result<Option<Pause>, PauseError> {
        self.ask("look for a pause", PauseError::Store, Schedule::paused).await
    }

    /// [`Schedule::pause`].
    ///
    /// # Errors
    ///
    /// Those of [`Schedule::pause`], or the store did not answer in time.
    pub async fn pause(&self, until: DateTime<Utc>, why: &str) -> Result<(), PauseError> {
        let why = why.to_owned();
        self.ask("pause", PauseError::Store, move |schedule| schedule.pause(until, &why)).await
    }

    /// [`Schedule::resume`].
    ///
    /// # Errors
    ///
    /// Those of [`Schedule::resume`], or the store did not answer in time.
    pub async fn resume(&self) -> Result<bool, PauseError> {
        self.ask("resume", PauseError::Store, Schedule::resume).await
    }

    /// [`Schedule::paused_event`].
    ///
    /// # Errors
    ///
    /// Those of [`Schedule::paused_event`], or the store did not answer in time.
    pub async fn paused_event(&self, event: &str) -> Result<Option<Pause>, PauseError> {
        let event = event.to_owned();
        self.ask("look for a pause", PauseError::Store, move |schedule| schedule.paused_event(&event)).await
    }

    /// [`Schedule::pause_event`].
    ///
    /// # Errors
    ///
    /// Those of [`Schedule::pause_event`], or the store did not answer in time.
    pub async fn pause_event(&self, event: &str, until: DateTime<Utc>, why: &str) -> Result<(), PauseError> {
        let (event, why) = (event.to_owned(), why.to_owned());
        self.ask("pause", PauseError::Store, move |schedule| schedule.pause_event(&event, until, &why)).await
    }

    /// [`Schedule::resume_event`].
    ///
    /// # Errors
    ///
    /// Those of [`Schedule::resume_event`], or the store did not answer in time.
    pub async fn resume_event(&self, event: &str) -> Result<bool, PauseError> {
        let event = event.to_owned();
        self.ask("resume", PauseError::Store, move |schedule| schedule.resume_event(&event)).await
    }

    /// [`Schedule::status`]. If the stores did not answer in time, without what they would have said: the reason is among its
    /// [`store_errors`](Status::store_errors).
    pub async fn status(&self) -> Status {
        let status = self.ask("look at what is held", |error| error, |schedule| Ok(schedule.status())).await;
        status.unwrap_or_else(|error| {
            let here = self.schedule.status_here();
            Status { store_errors: vec![error], ..here }
        })
    }

    /// [`EventMutex::held`] of the schedule's store.
    ///
    /// # Errors
    ///
    /// Those of [`EventMutex::held`], or the store did not answer in time.
    pub async fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        let (asked, listed) = match names {
            Names::Exactly(name) => (vec![name.clone()], None),
            Names::Each(names) => (names.to_vec(), None),
            Names::LeasesWithPrefix(text) | Names::MarksOf(text) => (Vec::new(), Some(text.to_owned())),
        };
        let (is_one, of_marks) = (matches!(names, Names::Exactly(_)), matches!(names, Names::MarksOf(_)));
        let held = move |schedule: &Schedule| {
            schedule.mutex.mutex.held(match (&listed, &asked[..]) {
                (Some(mutex), _) if of_marks => Names::MarksOf(mutex),
                (Some(prefix), _) => Names::LeasesWithPrefix(prefix),
                (None, [name]) if is_one => Names::Exactly(name),
                (None, names) => Names::Each(names),
            })
        };
        self.ask("look at what is held", |error| error, held).await
    }

    /// [`EventMutex::break_lease`] of the schedule's store.
    ///
    /// # Errors
    ///
    /// Those of [`EventMutex::break_lease`], or the store did not answer in time.
    pub async fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
        let name = name.clone();
        self.ask("break a lease", |error| error, move |schedule| schedule.mutex.mutex.break_lease(&name)).await
    }

    /// Asks, and waits for the answer no longer than the limit.
    async fn ask<T: Send + 'static, E: Send + 'static>(
        &self,
        attempted: &'static str,
        late: fn(MutexError) -> E,
        call: impl FnOnce(&Schedule) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let (schedule, limit) = (Arc::clone(&self.schedule), self.limit);
        let Some(under_way) = UnderWay::begin(&self.calls) else {
            let why = format!("{MOST_CALLS} calls before it are still under way");
            return Err(late(MutexError::unavailable(attempted, why)));
        };
        let within_limit = move || {
            let (answer, answered) = channel();
            let progress = CallProgress::default();
            let watched = progress.clone();
            let asking = move || {
                let _under_way = under_way;
                watched.watch_this_thread();
                // Nobody waits for an answer that comes too late.
                let _ = answer.send(call(&schedule));
            };
            if let Err(error) = threads::start("soloist-operator", asking) {
                return Err(late(MutexError::unavailable(attempted, error)));
            }
            answered.recv_timeout(limit).unwrap_or_else(|error| {
                let why = match error {
                    RecvTimeoutError::Timeout => {
                        let who = progress.last().map_or_else(String::new, |who| format!(" from {who}"));
                        format!("no answer within {}{who}", ExactDuration(limit))
                    }
                    RecvTimeoutError::Disconnected => "the store panicked".to_owned(),
                };
                Err(late(MutexError::unavailable(attempted, why)))
            })
        };
        on_a_thread(within_limit).await
    }
}

/// One of the calls that are under way.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn begin(calls: &Arc<AtomicUsize>) -> Option<Self> {
        let one_more = |calls| (calls < MOST_CALLS).then_some(calls + 1);
        calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Self(Arc::clone(calls)))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
