//! Calls of a schedule for the request handlers of a service, as futures with a time limit.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::on_a_thread;
use crate::base::{error::MutexError, progress::CallProgress, threads};
use crate::hold::renewal_thread::call_permits::MOST_CALLS;
use crate::schedule::history::status::Status;
use crate::schedule::schedule::Schedule;
use crate::time::clock::shown::ExactDuration;

/// The time limit for an answer, unless [`Operator::within`] sets another.
const USUAL_LIMIT: Duration = Duration::from_secs(2);

/// A handle that calls a schedule from the request handlers of a service. Each call is a future with a time limit, and
/// blocks no worker of the runtime. If a store is unavailable, the call ends when its limit is over.
///
/// An operator is cheap to clone, so it can be a part of the service's shared state.
///
/// ```
/// use std::time::Duration;
/// use chrono::{TimeDelta, Utc};
/// use soloist::Schedule;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let schedule = Schedule::in_process().named("shop")?;
/// let operator = schedule.operator().within(Duration::from_secs(1));
///
/// let until = Utc::now() + TimeDelta::hours(1);
/// operator.ask(move |schedule| schedule.pause(until, "the orders are migrated")).await?;
/// assert!(operator.ask(Schedule::paused).await?.is_some());
/// assert!(operator.ask(Schedule::resume).await?);
/// assert!(operator.ask(Schedule::check).await?.is_empty(), "nothing to warn of");
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Operator {
    schedule: Arc<Schedule>,
    limit: Duration,
}

impl Schedule {
    /// Returns a handle that calls this schedule from the request handlers of a service.
    pub fn operator(&self) -> Operator {
        Operator { schedule: Arc::new(self.clone()), limit: USUAL_LIMIT }
    }
}

impl Operator {
    /// Returns a handle with this time limit for each answer, instead of the default of two seconds. If a call gets no
    /// answer within the limit, the call returns an error. The error names the server and the failure of the last
    /// attempt. The store may still carry out the call later.
    #[must_use = "only the returned handle has the limit"]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Runs `call` on a separate thread, and waits for its answer until the time limit. For example, `call` can pause,
    /// resume or [`check`](Schedule::check) the schedule. A `call` that owns a handle of the store can also [break a
    /// lease](crate::EventMutex::break_lease).
    ///
    /// # Errors
    ///
    /// The errors of `call`. There is also an [unavailable](MutexError::is_unavailable) error: if no answer came in
    /// time, if 16 earlier calls are still running, or if `call` panicked.
    pub async fn ask<T, E>(&self, call: impl FnOnce(&Schedule) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<MutexError> + Send + 'static,
    {
        let (schedule, limit) = (Arc::clone(&self.schedule), self.limit);
        let unavailable = |why: String| E::from(MutexError::unavailable("get an answer", why));
        let Some(under_way) = self.schedule.calls.try_take() else {
            return Err(unavailable(format!("{MOST_CALLS} earlier calls are still running")));
        };
        let within_limit = move || {
            let (answer, answered) = channel();
            let progress = CallProgress::default();
            let watched = progress.clone();
            let asking = move || {
                let _under_way = under_way;
                watched.watch_this_thread();
                let _ = answer.send(call(&schedule)); // An answer after the limit has no receiver.
            };
            threads::start("soloist-operator", asking).map_err(|error| unavailable(error.to_string()))?;
            answered.recv_timeout(limit).unwrap_or_else(|error| {
                Err(unavailable(match error {
                    RecvTimeoutError::Timeout => {
                        let who = progress.last().map_or_else(String::new, |who| format!(" from {who}"));
                        format!("no answer within {}{who}", ExactDuration(limit))
                    }
                    RecvTimeoutError::Disconnected => "the call panicked".to_owned(),
                }))
            })
        };
        on_a_thread(within_limit).await
    }

    /// Returns [`Schedule::status`]. If the stores did not answer in time, the status has only the data of this
    /// process, and [`store_errors`](Status::store_errors) has the reason.
    pub async fn status(&self) -> Status {
        let status = self.ask(|schedule| Ok(schedule.status())).await;
        status.unwrap_or_else(|error: MutexError| Status { store_errors: vec![error], ..self.schedule.status_here() })
    }
}
