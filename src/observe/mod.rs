//! The words in which a run is reported: outcomes, reasons, faults, records; the steps that are told, and who is told.

pub(crate) mod cancel;
pub(crate) mod fault;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
pub(crate) mod notice;
pub(crate) mod outcome;
pub(crate) mod paused;
pub(crate) mod release;
pub(crate) mod run_id;
pub(crate) mod run_record;
pub(crate) mod skip_reason;
pub(crate) mod tell;
