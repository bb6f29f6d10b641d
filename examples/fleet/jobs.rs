//! The schedule that all workers tick: three events that differ in their protection.

use std::error::Error;
use std::time::Duration;

use soloist::{Event, Run, RunOutcome, Schedule, TaskResult};

/// An event: its name, a description for the pictures, and the duration of its task.
pub(crate) struct Job {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    takes: Duration,
}

/// The events, in the order in which the pictures show them.
pub(crate) const JOBS: [Job; 3] = [REMIND, GENERATE, SYNC];

const REMIND: Job =
    Job { name: "carts:remind", about: "on_one_server: one worker a minute", takes: Duration::from_millis(400) };

const GENERATE: Job = Job {
    name: "reports:generate",
    about: "on_one_server and without_overlapping: takes 1.5 minutes, so every second minute is skipped",
    takes: Duration::from_millis(1500),
};

const SYNC: Job = Job {
    name: "stock:sync",
    about: "on_one_server alone: takes 1.3 minutes, so its runs overlap",
    takes: Duration::from_millis(1300),
};

/// The index in [`JOBS`] of the event during whose run a worker is killed.
pub(crate) const VICTIM: usize = 1;

/// The term of the lease: two minutes of this fleet. If the store is on a server, the event of a killed worker stays
/// blocked for at most this time. In a real fleet, the default of one minute is enough.
pub(crate) const TERM: Duration = Duration::from_secs(2);

/// Makes the schedule of a worker. It calls `tell` at the start and at the end of each run.
pub(crate) fn schedule(
    store: &str,
    tell: impl Fn(&Run, &str) -> TaskResult + Clone + Send + Sync + 'static,
) -> Result<Schedule, Box<dyn Error>> {
    let event = |job: Job| {
        let (started, ended) = (tell.clone(), tell.clone());
        let task = move |run: &Run| -> TaskResult {
            let token = run.fencing_token().map_or_else(String::new, |token| token.get().to_string());
            started(run, &format!("started\t{token}"))?;
            run.wait_cancelled(job.takes); // a sleep that ends early if the run is cancelled
            Ok(run.check()?)
        };
        let then = move |run: &Run, outcome: &RunOutcome| {
            let how = if outcome.is_failure() { "failed" } else { "well" };
            ended(run, &format!("ended\t{how}\t{outcome}"))
        };
        Event::call(job.name, task).every_minute().on_one_server().then(then)
    };
    let schedule = Schedule::new(soloist::connect(store)?);
    schedule.add(event(REMIND))?;
    schedule.add(event(GENERATE).without_overlapping().lease_term(TERM))?;
    schedule.add(event(SYNC))?;
    Ok(schedule)
}
