//! Events: their names, timetables, tasks, filters, hooks and protections.

pub(crate) mod add_error;
pub(crate) mod event_builder;
pub(crate) mod catch_up;
pub(crate) mod definition;
pub(crate) mod filter;
pub(crate) mod protection;
pub(crate) mod retry;
