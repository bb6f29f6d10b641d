//! Filters and environments: the conditions that can refuse a due event without a request to a store.

use std::fmt;
use std::sync::Arc;

use super::add_error::{AddErrorKind, Refusal};
use crate::base::escape::{Named, Quoted};
use crate::time::tick::Tick;
use crate::time::timetable::windows::{Window, Windows};

/// A condition for each run of an event.
pub(crate) enum Filter {
    /// A window refuses runs outside of its times. `upcoming` leaves out the occurrences that a window refuses.
    Window(Window),
    /// Refuses all runs, because the environment of the schedule is not in this list.
    OtherEnvironment(Environments),
    /// A function of the application, and the method that added it.
    Call(&'static str, FilterCall),
}

pub(crate) type FilterCall = Box<dyn Fn(&Tick) -> bool + Send + Sync>;

impl Filter {
    pub(crate) fn allows(&self, tick: &Tick) -> bool {
        match self {
            // A missed occurrence runs later than its scheduled time. The time of the tick must be in the window,
            // because the run starts then. The scheduled time must be in the window, too, because an occurrence outside
            // of the window was not missed.
            Self::Window(window) => [tick.local(), tick.scheduled()].iter().all(|at| window.is_open_at(at.time())),
            Self::OtherEnvironment(_) => false,
            Self::Call(_, allows) => allows(tick),
        }
    }
}

/// Shows the condition with the method that added it: `between 08:00 and 17:00`, `when`.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(window) => window.fmt(f),
            Self::OtherEnvironment(environments) => write!(f, "environments {}", environments.list()),
            Self::Call(method, _) => f.write_str(method),
        }
    }
}

/// Returns the text that reports show for `filters[at]`. If several filters have equal texts, a number is added:
/// `when 2 of 3`.
pub(crate) fn named(filters: &[Filter], at: usize) -> String {
    let name = filters[at].to_string();
    let alike = |filters: &[Filter]| filters.iter().filter(|other| other.to_string() == name).count();
    match alike(filters) {
        1 => name,
        count => format!("{name} {} of {count}", alike(&filters[..=at])),
    }
}

pub(super) fn windows_of(filters: &[Filter]) -> Windows {
    let window = |filter: &Filter| if let Filter::Window(window) = filter { Some(*window) } else { None };
    Windows(filters.iter().filter_map(window).collect())
}

/// Returns whether `text` can be the name of an environment: not empty, a list, a pattern or a line of a file.
pub(super) fn is_one_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(|char: char| ",;|*!".contains(char) || char.is_whitespace())
}

/// The names in the `environments(..)` of an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Environments(pub(super) Arc<[Arc<str>]>);

impl Environments {
    /// Returns the names in one text, separated by commas.
    pub(super) fn list(&self) -> String {
        self.0.iter().map(|name| Named(name).to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Returns whether the names include the `environment` of the schedule. A schedule without an environment is an
    /// error. A name that differs from `environment` only in upper and lower case is an error, too, because it is
    /// probably a mistake.
    pub(super) fn include(&self, environment: Option<&str>) -> Result<bool, Refusal> {
        let environment = environment.ok_or_else(|| {
            AddErrorKind::Missing.because(format_args!(
                "it runs only in {}, but the schedule has no environment: call `schedule.with_environment(..)` before \
                 `add`",
                self.list()
            ))
        })?;
        if !is_one_name(environment) {
            return Err(AddErrorKind::Conflict.because(format_args!(
                "`schedule.with_environment(..)` says {}, so that it would never run: write one name, without white space, \
                 `,`, `;`, `|`, `*` and `!`, and check the variable from which the name comes",
                Quoted::new(environment)
            )));
        }
        let is_meant = |name: &&Arc<str>| name.to_lowercase() == environment.to_lowercase();
        match self.0.iter().find(|name| ***name == *environment).or_else(|| self.0.iter().find(is_meant)) {
            Some(name) if **name != *environment => Err(AddErrorKind::Conflict.because(format_args!(
                "`environments(..)` says {}, and `schedule.with_environment(..)` says {}: write the name in the \
                 same way, because upper and lower case matter",
                Quoted::new(name),
                Quoted::new(environment)
            ))),
            found => Ok(found.is_some()),
        }
    }
}
