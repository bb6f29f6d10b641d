//! Which run it is: the event and its occurrence.

use std::sync::Arc;

use chrono::{DateTime, Utc};

/// The identity of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunId {
    pub(crate) event: Arc<str>,
    pub(crate) occurrence: DateTime<Utc>,
}
