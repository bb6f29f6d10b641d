//! Filters and environments: the conditions that can refuse a due event without a request to a store.

use std::fmt;
use std::sync::Arc;

use super::add_error::{AddErrorKind, Refusal};
use crate::base::escape::{Named, Quoted};
use crate::time::tick::Tick;
use crate::time::timetable::windows::{Window, Windows};

/// A condition that an event has to meet at each tick.
pub(crate) enum Filter {
    /// A window, which also limits the next times of its event.
    Window(Window),
    /// The event is for other environments than this one.
    OtherEnvironment(Environments),
    /// A function of the application, and the method that added it.
    Call(&'static str, FilterCall),
}

pub(crate) type FilterCall = Box<dyn Fn(&Tick) -> bool + Send + Sync>;

impl Filter {
    pub(crate) fn allows(&self, tick: &Tick) -> bool {
        match self {
            // For a missed occurrence, the two times differ. Both must be in the window, because an occurrence outside
            // of the window was not missed.
            Self::Window(window) => [tick.local(), tick.scheduled()].iter().all(|at| window.is_open_at(at.time())),
            Self::OtherEnvironment(_) => false,
            Self::Call(_, allows) => allows(tick),
        }
    }

    fn window(&self) -> Option<Window> {
        if let Self::Window(window) = self { Some(*window) } else { None }
    }
}

/// The method that added it.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(window) => window.fmt(f),
            Self::OtherEnvironment(environments) => write!(f, "environments {}", environments.list()),
            Self::Call(method, _) => f.write_str(method),
        }
    }
}

/// Returns the name that people see for `filters[at]`. If several filters have one name, the name gets a number: `when
/// 2 of 3`.
pub(crate) fn named(filters: &[Filter], at: usize) -> String {
    let name = filters[at].to_string();
    let alike = |filters: &[Filter]| filters.iter().filter(|other| other.to_string() == name).count();
    match alike(filters) {
        1 => name,
        count => format!("{name} {} of {count}", alike(&filters[..=at])),
    }
}

pub(super) fn windows_of(filters: &[Filter]) -> Windows {
    Windows(filters.iter().filter_map(Filter::window).collect())
}

/// The environments that an event was given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Environments(pub(super) Arc<[Arc<str>]>);

impl Environments {
    /// Returns the names, one after another.
    pub(super) fn list(&self) -> String {
        self.0.iter().map(|name| Named(name).to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Returns whether the names include the `environment` of the schedule. A schedule without an environment is an
    /// error, and so is a name that differs in capitals alone.
    pub(super) fn include(&self, environment: Option<&str>) -> Result<bool, Refusal> {
        let environment = environment.ok_or_else(|| {
            AddErrorKind::Missing.because(format_args!(
                "it runs only in {}, and the schedule has no environment: call `schedule.with_environment(..)` before \
                 `add`",
                self.list()
            ))
        })?;
        if environment.is_empty() {
            return Err(AddErrorKind::Missing.because(format_args!(
                "it runs only in {}, and the environment of the schedule is empty: `schedule.with_environment(..)` was \
                 given an empty text, as from a variable that is not set",
                self.list()
            )));
        }
        let is_meant = |name: &&Arc<str>| name.to_lowercase() == environment.to_lowercase();
        match self.0.iter().find(|name| ***name == *environment).or_else(|| self.0.iter().find(is_meant)) {
            Some(name) if **name != *environment => Err(AddErrorKind::Conflict.because(format_args!(
                "`environments(..)` says {}, and `schedule.with_environment(..)` says {}: spell it in one way, because \
                 capitals count",
                Quoted::new(name),
                Quoted::new(environment)
            ))),
            found => Ok(found.is_some()),
        }
    }
}
