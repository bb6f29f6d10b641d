//! The builder's methods for filters and environments.

use std::sync::Arc;

use super::Event;
use crate::base::escape::Quoted;
use crate::event::add_error::AddErrorKind;
use crate::event::filter::{Environments, Filter, is_one_name};
use crate::time::tick::Tick;

/// Conditions for a run. Checking them needs no request to the store.
impl Event {
    /// Runs the event only if the [environment](crate::Schedule::with_environment) of its schedule is one of these
    /// `names`. Upper and lower case matter. In another environment, the event is never due, and a run by hand is
    /// skipped as filtered out.
    ///
    /// `add` refuses an empty list, and a second list that differs from the first list. `add` refuses an empty name,
    /// and a name with white space, `,`, `;`, `|`, `*` or `!`. `add` also refuses the event if the schedule has no
    /// environment, or an environment with such a character, or if the environment of the schedule differs from a name
    /// only in upper and lower case.
    ///
    /// ```
    /// use soloist::{Event, Schedule, SkipReason, Verdict};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process().with_environment("staging");
    /// schedule
    ///     .add(Event::call("reports:generate", |_| {}).every_minute().environments(["production", "staging"]))?
    ///     .add(Event::call("invoices:send", |_| {}).every_minute().environments(["production"]))?;
    /// assert!(schedule.due(chrono::Utc::now()).all(|name| &*name == "reports:generate"));
    /// let entry = schedule.run_event("invoices:send", chrono::Utc::now())?;
    /// assert!(matches!(entry.verdict(), Verdict::Skipped(SkipReason::Filtered(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn environments<E: Into<Arc<str>>>(self, names: impl IntoIterator<Item = E>) -> Self {
        let names: Arc<[Arc<str>]> = names.into_iter().map(Into::into).collect();
        let event = if names.is_empty() {
            self.refused(
                AddErrorKind::Missing.because("its `environments(..)` names no environment: leave it out, or name one"),
            )
        } else if let Some(list) = names.iter().find(|name| !is_one_name(name)) {
            let message = format_args!(
                "`environments(..)`: {} is not one name: write each name by itself, as in \
                 `environments([\"production\", \"staging\"])`; for all environments, leave `environments(..)` out, and for \
                 all but one, use `skip(..)`",
                Quoted::new(list)
            );
            self.refused(AddErrorKind::Name.because(message))
        } else if let Some(Environments(before)) = self.environments.as_ref().filter(|before| before.0 != names) {
            let all: Vec<_> = before.iter().chain(names.iter()).collect();
            let message =
                format!("`environments(..)` is called twice: write all names in one call, `environments({all:?})`");
            self.refused(AddErrorKind::Conflict.because(message))
        } else {
            self
        };
        event.say("environments", Environments(names), |event| &mut event.environments)
    }

    /// Runs the event only if `allowed` returns `true`. The filters of an event are called in the order in which they
    /// were added, until a filter refuses the run. The schedule asks the store only after all filters have allowed the
    /// run.
    ///
    /// ```
    /// use chrono::Timelike;
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports", |_| {}).every_minute().when(|tick| tick.local().hour() != 3);
    /// ```
    pub fn when(self, allowed: impl Fn(&Tick) -> bool + Send + Sync + 'static) -> Self {
        self.filtered(Filter::Call("when", Box::new(allowed)))
    }

    /// Skips the event if `refused` returns `true`: the opposite of [`when`](Self::when).
    pub fn skip(self, refused: impl Fn(&Tick) -> bool + Send + Sync + 'static) -> Self {
        self.filtered(Filter::Call("skip", Box::new(move |tick| !refused(tick))))
    }

    pub(crate) fn filtered(mut self, filter: Filter) -> Self {
        self.filters.push(filter);
        self
    }
}
