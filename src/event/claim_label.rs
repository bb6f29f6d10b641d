//! The label of an event's claims: the words of its schedule, and its timetable, which other servers compare with theirs.

use std::sync::{Arc, Mutex, PoisonError};

use crate::lease::label::Label;
use crate::time::timetable::Timetable;

/// The label of an event's claims. It is made once, because each admission needs it.
pub(crate) struct ClaimLabel {
    /// The timetable and its zone, in plain English.
    pub(crate) timetable: Arc<str>,
    made: Mutex<Option<Arc<Label>>>,
}

impl ClaimLabel {
    pub(super) fn new(timetable: &Timetable) -> Self {
        let timetable = format!("{}, {}", timetable.in_words(), timetable.zone).into();
        Self { timetable, made: Mutex::default() }
    }

    /// Returns the label of a schedule with the timetable in it.
    pub(crate) fn beside(&self, of_schedule: Option<&Arc<Label>>) -> Arc<Label> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let words = of_schedule.map(|label| (label.application.clone(), label.instance.clone()));
        let (application, instance) = words.unwrap_or_default();
        match &*made {
            Some(label) if label.application == application && label.instance == instance => Arc::clone(label),
            _ => {
                let timetable = Some(Arc::clone(&self.timetable));
                let label = Arc::new(Label { application, instance, timetable, ..Label::default() });
                Arc::clone(made.insert(label))
            }
        }
    }
}
