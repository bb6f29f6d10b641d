//! The schedule: the registry of events, a tick, the loop of a service, pauses and shutdown.

pub(crate) mod execute;
pub(crate) mod gate;
pub(crate) mod missed;
pub(crate) mod pause;
pub(crate) mod planned_run;
pub(crate) mod registry;
pub(crate) mod report;
pub(crate) mod service;
pub(crate) mod shutdown;
pub(crate) mod tick_context;
pub(crate) mod tick_plan;
