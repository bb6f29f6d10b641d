//! Stands in for the builder until it is there.

use crate::crontab::Crontab;
use crate::frequency::FrequencyError;

/// A named task and its timetable.
#[derive(Debug)]
#[must_use = "an event does nothing until it is added to a schedule"]
pub struct Event {
    crontab: Crontab,
    error: Option<FrequencyError>,
}

impl Event {
    /// An event.
    pub fn call(_name: &str, _task: impl Fn(&str)) -> Self {
        Self { crontab: Crontab::EVERY_MINUTE, error: None }
    }

    pub(crate) fn timed(mut self, change: impl FnOnce(&mut Crontab) -> Result<(), FrequencyError>) -> Self {
        if let Err(error) = change(&mut self.crontab) {
            self.error.get_or_insert(error);
        }
        self
    }
}
