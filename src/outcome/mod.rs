//! The results of a tick: the outcome of a run, the reason of a skip, the record of a run in a log, a pause.

pub(crate) mod cancel;
pub(crate) mod command_exit;
pub(crate) mod fault;
pub(crate) mod no_retry;
pub(crate) mod paused;
pub(crate) mod release;
pub(crate) mod run_outcome;
pub(crate) mod run_record;
pub(crate) mod skip_reason;
