//! Calls of a schedule as futures. Each call has its own thread. So the call blocks no worker of the runtime, and a
//! blocked runtime does not delay the call.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;

use chrono::{DateTime, Utc};
use tokio::sync::oneshot;

use crate::base::threads;
use crate::hold::renewal_thread::RenewalThread;
use crate::observe::tell::trace;
use crate::schedule::report::Report;
use crate::schedule::schedule::Schedule;
use crate::schedule::shutdown::Shutdown;
use crate::store::described_store::Store;
use crate::task::runtime;

mod lease_guard;
pub(crate) mod operator;

/// Methods for programs with a tokio runtime. They return futures. Separate threads do the work.
impl Schedule {
    /// Returns the schedule with this runtime for all [futures](crate::Event::spawn) that are added from now on.
    /// Without this method, a future gets the runtime of the thread that adds it.
    #[must_use = "only the returned schedule has the runtime"]
    pub fn with_runtime(self, runtime: tokio::runtime::Handle) -> Self {
        Self { runtime: Some(runtime::of(runtime)), ..self }
    }

    /// Returns [`work`](Self::work) as a future, for a program with other services. The schedule ticks until `shutdown`
    /// begins, and the future completes when all runs have ended.
    ///
    /// Admissions, renewals and callbacks run on separate threads. So they block no worker of the runtime, and a
    /// blocked runtime delays no renewal. (If the system has no thread, the loop runs on the thread that polls this
    /// future, and blocks it.)
    ///
    /// If the future is dropped early, no further run starts, and running runs are cancelled without a drain. Tasks
    /// that are futures are dropped after their grace. The drop of this future does not wait for the runs. If no thread
    /// drives the runtime of a task any more, the task is not polled again, and its lease ends with its term.
    ///
    /// ```no_run
    /// use soloist::{Event, FileMutex, Run, Schedule, Shutdown};
    ///
    /// # #[cfg(feature = "signals")]
    /// #[tokio::main]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let shutdown = Shutdown::on_signals()?;
    ///     let schedule = Schedule::new(FileMutex::in_dir("/var/lib/myapp/locks")?);
    ///     let import = |run: Run| async move { println!("{} for {}", run.name(), run.occurrence()) };
    ///     schedule.add(Event::spawn("import", import).every_minute().without_overlapping())?;
    ///     schedule.work_async(&shutdown).await;
    ///     shutdown.finish(); // ends the process as the signal would have
    ///     Ok(())
    /// }
    /// # #[cfg(not(feature = "signals"))]
    /// # fn main() {}
    /// ```
    pub fn work_async(&self, shutdown: &Shutdown) -> impl Future<Output = ()> + Send + use<> {
        let (schedule, shutdown) = (self.clone(), shutdown.for_future());
        async move {
            let (store, _cancel) = (schedule.store.clone(), CancelOnDrop(shutdown.clone()));
            ask(&store, move || schedule.work(&shutdown)).await;
        }
    }

    /// Returns [`run_due`](Self::run_due) as a future, for a binary that cron starts. If the future is dropped early,
    /// its runs are cancelled, as with [`work_async`](Self::work_async). A call whose future was dropped may still wait
    /// for the schedule's store. While sixteen such calls wait, this call does not begin.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::spawn("reports", |_| async { println!("reporting") }).every_minute())?;
    /// let report = schedule.run_due_async(chrono::Utc::now()).await;
    /// assert!(!report.is_failure());
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub fn run_due_async(&self, now: DateTime<Utc>) -> impl Future<Output = Report> + Send + use<> {
        self.report_async(move |schedule| schedule.run_due(now))
    }

    /// Returns [`run_minute`](Self::run_minute) as a future, for a binary that cron starts every minute. If the future
    /// is dropped early, its runs are cancelled, as with [`work_async`](Self::work_async).
    pub fn run_minute_async(&self, now: DateTime<Utc>) -> impl Future<Output = Report> + Send + use<> {
        self.report_async(move |schedule| schedule.run_minute(now))
    }

    fn report_async<F>(&self, call: F) -> impl Future<Output = Report> + Send + use<F>
    where
        F: FnOnce(&Self) -> Report + Send + 'static,
    {
        let schedule = self.clone();
        async move {
            let shutdown = schedule.shutdown.clone().unwrap_or_default().for_future();
            let schedule = schedule.with_shutdown(&shutdown);
            let _cancel = CancelOnDrop(shutdown);
            ask(&schedule.store.clone(), move || call(&schedule)).await
        }
    }
}

/// Makes a call to `store` on a separate thread. If the future is dropped, the call continues. A call whose future was
/// dropped may still wait for `store`. While sixteen such calls wait, no further call begins.
async fn ask<T: Send + 'static>(store: &Store, call: impl FnOnce() -> T + Send + 'static) -> T {
    let renewal_thread = RenewalThread::of(store, &store.mutex.clock());
    let (_future, thread) = renewal_thread.dropped_futures.begin().await;
    on_a_thread(move || {
        let _until_it_ends = (thread, renewal_thread);
        call()
    })
    .await
}

/// A guard that a future owns. When the future ends or is dropped, the guard cancels the runs of the future.
struct CancelOnDrop(Shutdown);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.end_future();
    }
}

/// Makes a call on a separate thread, or on this thread if the system has no thread for the call. If the future is
/// dropped, the call continues.
pub(crate) async fn on_a_thread<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let ((give, given), (answer, answered)) = (mpsc::channel(), oneshot::channel());
    let on_thread = move || {
        if let Ok(call) = given.recv() {
            let _ = answer.send(catch_unwind(AssertUnwindSafe(call))); // A dropped future receives no answer.
        }
    };
    if let Err(error) = threads::start("soloist-call", on_thread) {
        trace::no_thread("a call", "the runtime waits for the call", &error);
        return call();
    }
    let _ = give.send(call); // The thread waits for the call.
    match answered.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => unreachable!("the thread makes the call, and answers"),
    }
}
