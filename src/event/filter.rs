//! Filters and environments: what may keep a due event from running without asking a store.

use std::fmt;
use std::sync::Arc;

use super::add_error::{AddErrorKind, Refusal};
use crate::base::escape::Quoted;
use crate::time::tick::Tick;
use crate::time::timetable::windows::{Window, Windows};

/// A condition that an event has to meet at each tick.
pub(crate) enum Filter {
    /// It also limits the next times of its event.
    Window(Window),
    Call(Box<dyn Fn(&Tick) -> bool + Send + Sync>),
}

impl Filter {
    pub(crate) fn allows(&self, tick: &Tick) -> bool {
        match self {
            // The times differ for a missed occurrence: one that the window kept from running was not missed.
            Self::Window(window) => [tick.local(), tick.scheduled()].iter().all(|at| window.is_open_at(at.time())),
            Self::Call(allowed) => allowed(tick),
        }
    }

    fn window(&self) -> Option<Window> {
        if let Self::Window(window) = self { Some(*window) } else { None }
    }
}

pub(super) fn windows_of(filters: &[Filter]) -> Windows {
    Windows(filters.iter().filter_map(Filter::window).collect())
}

/// The environments that an event was given.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Environments(pub(super) Arc<[Arc<str>]>);

impl Environments {
    /// Whether they include the `environment` of the schedule. An error if that has none.
    pub(super) fn include(&self, environment: Option<&str>) -> Result<bool, Refusal> {
        let environment = environment.ok_or_else(|| {
            AddErrorKind::Missing.because(format_args!(
                "it runs only in {self}, and the schedule has no environment: call `schedule.with_environment(..)` before \
                 `add`"
            ))
        })?;
        Ok(self.0.iter().any(|name| **name == *environment))
    }
}

impl fmt::Display for Environments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{}", Quoted::new(name))?;
        }
        Ok(())
    }
}
