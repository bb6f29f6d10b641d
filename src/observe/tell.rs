//! The delivery of notices and incidents to subscribers of `tracing` and to observers. If nothing subscribes, the facts that no
//! report has are printed on standard error.

pub(crate) mod delivery;
pub(crate) mod observers;
pub(crate) mod trace;
