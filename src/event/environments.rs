//! In which environments an event runs, and in which one its schedule is.

use std::fmt;
use std::sync::Arc;

use super::add_error::AddErrorKind;
use super::builder::Event;
use crate::base::escape::Quoted;

/// The environments that an event was given.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Environments(Arc<[Arc<str>]>);

impl Event {
    /// Runs only where its schedule [was told](crate::Schedule::with_environment) that it is in one of these
    /// environments, letter by letter. Anywhere else it is never due, and by hand it is filtered out.
    ///
    /// `add` refuses an empty list, an empty name, a second list, and a schedule that was not told where it is.
    ///
    /// ```
    /// use soloist::{Event, Schedule, SkipReason, Verdict};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process().with_environment("staging");
    /// schedule
    ///     .add(Event::call("reports:generate", |_| {}).every_minute().environments(["production", "staging"]))?
    ///     .add(Event::call("invoices:send", |_| {}).every_minute().environments(["production"]))?;
    /// assert!(schedule.due(chrono::Utc::now()).eq(["reports:generate"]));
    /// let entry = schedule.run("invoices:send", chrono::Utc::now())?;
    /// assert!(matches!(entry.verdict(), Verdict::Skipped(SkipReason::Filtered)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn environments<E: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = E>) -> Self {
        let names: Arc<[Arc<str>]> = names.into_iter().map(Into::into).collect();
        if names.is_empty() || names.iter().any(|name| name.is_empty()) {
            self.note(AddErrorKind::Environments);
        }
        self.say("environments", Environments(names), |event| &mut event.environments)
    }
}

impl Environments {
    /// Whether they include `environment`, in which its schedule is, if it was told.
    pub(super) fn include(&self, environment: Option<&str>) -> Result<bool, AddErrorKind> {
        let environment = environment.ok_or_else(|| AddErrorKind::NoEnvironment(self.to_string().into()))?;
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
