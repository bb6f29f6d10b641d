//! The identity of a run.

use std::sync::Arc;

use chrono::{DateTime, Utc};

/// The event and the occurrence of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunId {
    pub(crate) event: Arc<str>,
    pub(crate) occurrence: DateTime<Utc>,
}
