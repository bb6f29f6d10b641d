//! What an event is: its name, timetable, task, filters, hooks and protections.

pub(crate) mod add_error;
pub(crate) mod definition;
pub(crate) mod builder_commands;
pub(crate) mod builder_filters;
pub(crate) mod builder_protections;
pub(crate) mod catch_up;
pub(crate) mod filter;
pub(crate) mod outage_policy;
pub(crate) mod frequencies;
pub(crate) mod protection;
