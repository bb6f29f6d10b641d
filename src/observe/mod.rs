//! The words in which a run is reported: outcomes, reasons, faults, and the log.

pub(crate) mod cancel;
pub(crate) mod command_exit;
pub(crate) mod fault;
pub(crate) mod kept_output;
pub(crate) mod log;
pub(crate) mod outcome;
pub(crate) mod paused;
pub(crate) mod release;
pub(crate) mod run_id;
pub(crate) mod skip_reason;
