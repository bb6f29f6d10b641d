//! Delivers notices to observers and to subscribers of `tracing`. Without a subscriber, facts that are in no report are
//! printed on standard error.

pub(crate) mod notice_queue;
pub(crate) mod observers;
pub(crate) mod trace;
