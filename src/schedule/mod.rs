//! The schedule: its events, its ticks and their reports, the loop of a service, pauses, the shutdown, and the history.

#[expect(clippy::module_inception, reason = "the file of the type `Schedule` has its name")]
pub(crate) mod schedule;
pub(crate) mod run_due;
pub(crate) mod execute;
pub(crate) mod outages;
pub(crate) mod report;
pub(crate) mod service;
pub(crate) mod pause;
pub(crate) mod shutdown;
pub(crate) mod history;
