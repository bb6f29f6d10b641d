//! What is said of a run: outcomes, reasons, faults, and the log.

pub(crate) mod cancel;
pub(crate) mod fault;
pub(crate) mod log;
pub(crate) mod outcome;
pub(crate) mod pause;
pub(crate) mod skip_reason;
