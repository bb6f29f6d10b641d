//! The builder's methods for hooks, which are called before and after the task.

use super::{AfterHook, Event};
use crate::outcome::{fault::Hook, run_outcome::RunOutcome};
use crate::task::event_task::{IntoTaskResult, callback};
use crate::task::run::Run;

impl Event {
    /// Calls `hook` after the admission of the run, and before the task. If the hook fails, the task is not started,
    /// but the hooks of [`then`](Self::then) and [`on_failure`](Self::on_failure) are called. A claim on the
    /// occurrence stays, so that no other server runs the occurrence.
    pub fn before<R: IntoTaskResult>(mut self, hook: impl Fn(&Run) -> R + Send + Sync + 'static) -> Self {
        self.before.push(callback(hook));
        self
    }

    /// Calls `hook` after the task, whether the task succeeded or not. The run still holds its lease, unless the lease
    /// was lost; see [`RunOutcome::lease_lost_at`]. If a hook fails, the other hooks are still called.
    pub fn then<R: IntoTaskResult>(self, hook: impl Fn(&Run, &RunOutcome) -> R + Send + Sync + 'static) -> Self {
        self.after(Hook::Then, hook)
    }

    /// Calls `hook` after the task, like [`then`](Self::then), but only if the task succeeded. The hook is also called
    /// if the lease was lost.
    pub fn on_success<R: IntoTaskResult>(self, hook: impl Fn(&Run, &RunOutcome) -> R + Send + Sync + 'static) -> Self {
        self.after(Hook::OnSuccess, hook)
    }

    /// Calls `hook` after the task, like [`then`](Self::then), but only if the task did not succeed. This means that
    /// the task failed, panicked, timed out, was not started, or was cancelled and returned an error.
    /// [`RunOutcome::output`] returns the last bytes that a command wrote.
    ///
    /// ```
    /// use soloist::{Event, Run, RunOutcome};
    ///
    /// fn mail(run: &Run, outcome: &RunOutcome) {
    ///     println!("{} of {}: {outcome}", run.name(), run.occurrence());
    /// }
    ///
    /// let event = Event::exec("backup", "pg_dump app > app.sql").daily_at("02:00").on_failure(mail);
    /// # assert!(soloist::Schedule::in_process().add(event).is_ok());
    /// ```
    pub fn on_failure<R: IntoTaskResult>(self, hook: impl Fn(&Run, &RunOutcome) -> R + Send + Sync + 'static) -> Self {
        self.after(Hook::OnFailure, hook)
    }

    fn after<R: IntoTaskResult>(
        mut self,
        hook: Hook,
        call: impl Fn(&Run, &RunOutcome) -> R + Send + Sync + 'static,
    ) -> Self {
        self.after.push(AfterHook { hook, call: Box::new(move |run, outcome| call(run, outcome).into_task_result()) });
        self
    }
}
