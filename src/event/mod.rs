//! What an event is: its name, timetable, task, filters, hooks and protections.

pub(crate) mod add_error;
pub(crate) mod builder;
pub(crate) mod catch_up;
pub(crate) mod command_options;
pub(crate) mod environments;
pub(crate) mod filter;
pub(crate) mod protection;
pub(crate) mod protection_options;
