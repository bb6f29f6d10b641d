//! What may keep an event that is due from running, and asks no store.

use super::builder::Event;
use crate::time::tick::Tick;
use crate::time::timetable::windows::{Window, Windows};

/// What says whether the event may run in a tick.
pub(crate) enum Filter {
    /// Its next times honour it, too.
    Window(Window),
    Call(Box<dyn Fn(&Tick) -> bool + Send + Sync>),
}

impl Filter {
    pub(crate) fn allows(&self, tick: &Tick) -> bool {
        match self {
            // The two differ where the occurrence was missed: what a window kept from running at its time was not.
            Self::Window(window) => [tick.local(), tick.scheduled()].iter().all(|at| window.is_open_at(at.time())),
            Self::Call(allowed) => allowed(tick),
        }
    }

    fn window(&self) -> Option<Window> {
        match self {
            Self::Window(window) => Some(*window),
            Self::Call(_) => None,
        }
    }
}

impl Event {
    /// Runs only if `allowed` says so. Filters are asked in their order, before any store is asked for the event,
    /// until one refuses.
    ///
    /// ```
    /// use chrono::Timelike;
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports", |_| {}).every_minute().when(|tick| tick.local().hour() != 3);
    /// ```
    pub fn when(self, allowed: impl Fn(&Tick) -> bool + Send + Sync + 'static) -> Self {
        self.filtered(Filter::Call(Box::new(allowed)))
    }

    /// Does not run if `refused` says so: the opposite of [`when`](Self::when).
    ///
    /// ```
    /// use std::path::Path;
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports", |_| {}).every_minute().skip(|_| Path::new("/etc/maintenance").exists());
    /// ```
    pub fn skip(self, refused: impl Fn(&Tick) -> bool + Send + Sync + 'static) -> Self {
        self.when(move |tick| !refused(tick))
    }

    pub(crate) fn filtered(mut self, filter: Filter) -> Self {
        self.filters.push(filter);
        self
    }
}

pub(super) fn windows_of(filters: &[Filter]) -> Windows {
    filters.iter().filter_map(Filter::window).collect()
}
