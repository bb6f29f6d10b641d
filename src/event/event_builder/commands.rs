//! The builder's methods for commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Event;
use crate::event::add_error::{AddErrorKind, Refusal, set_once};
use crate::task::{command::Command, event_task::Work, output::Output};

/// Commands: processes, with all processes that they start.
impl Event {
    /// Makes an event that runs a line of the shell: `/bin/sh -c`, and `cmd /C` on Windows. Its name is its identity,
    /// as with [`call`](Self::call).
    ///
    /// The run succeeds if the line exits with 0. The run lasts until no process is left of its **process group**: the
    /// shell, and all processes that it has started, also in the background. Processes that have left the group, as
    /// with `setsid`, do not count. The command's standard input is empty. The command writes to the output of this
    /// process, unless [`output`](Self::output) says otherwise.
    ///
    /// A run that is cancelled, by its [`timeout`](Self::timeout), the loss of its lease or a
    /// [`Shutdown`](crate::Shutdown), ends its command. The group gets `SIGTERM`, and `SIGKILL` when the
    /// [`grace`](Self::grace) is over, or at once if another process may hold the lease already. The lease is released
    /// when no process of the group is left. So a command gets `SIGTERM` one grace and one second before its lease
    /// ends.
    ///
    /// If this process is killed, the command does not continue without a lease. On the file store, the command keeps
    /// the lease while any of its processes lives. On other stores, a watchdog, a small process beside the command,
    /// ends its group. Without `without_overlapping`, the command continues. On Windows, only the process itself is
    /// ended, not the processes that it has started, and nothing ends the command if this process is killed. Output
    /// that is to be kept is read until every process of the command has closed it.
    ///
    /// Its environment is that of this process, and variables that describe the run:
    ///
    /// - `SOLOIST_EVENT`, `SOLOIST_OCCURRENCE` and `SOLOIST_ATTEMPT`, its [attempt](crate::Run::attempt);
    /// - in a [backfill](crate::Schedule::backfill), `SOLOIST_BACKFILL` with the value `1`;
    /// - as far as the event is protected, `SOLOIST_OWNER`, `SOLOIST_TOKEN`, its [fencing token](crate::FencingToken), and
    ///   `SOLOIST_SLOT`, its [slot](crate::Run::slot).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::exec("backup", "pg_dump app | gzip > /backup/app.sql.gz").daily_at("02:30").without_overlapping();
    /// ```
    pub fn exec(name: impl Into<Arc<str>>, line: impl Into<OsString>) -> Self {
        Self::of(name.into(), Work::Command(Box::new(Command::new(line.into(), None))))
    }

    /// Makes an event that runs a program with these arguments. No shell interprets them. Otherwise like
    /// [`exec`](Self::exec). A program without a `/` is looked up in `PATH`; a relative path starts at its
    /// [`current_dir`](Self::current_dir). For no arguments write `[""; 0]`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::command("backup", "pg_dump", ["--file=/backup/app.sql", "app"]).daily_at("02:30");
    /// ```
    pub fn command<A>(name: impl Into<Arc<str>>, program: impl Into<OsString>, arguments: A) -> Self
    where
        A: IntoIterator,
        A::Item: Into<OsString>,
    {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self::of(name.into(), Work::Command(Box::new(Command::new(program.into(), Some(arguments)))))
    }

    /// Sets the directory that the command runs in. The default is that of this process. The directory is looked up at
    /// each run.
    pub fn current_dir(self, directory: impl Into<PathBuf>) -> Self {
        self.of_the_command("current_dir", |command| set_once("current_dir", &mut command.directory, directory.into()))
    }

    /// Sets a variable of the command's environment, in addition to those of this process or replacing one. The variables
    /// that describe the run can't be replaced.
    pub fn env(self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.of_the_command("env", |command| {
            let variable = (name.into(), value.into());
            let is_another = |known: &(OsString, OsString)| known.0 == variable.0 && known.1 != variable.1;
            if command.environment.iter().any(is_another) {
                return Err(AddErrorKind::Conflict.because(format_args!(
                    "`env(\"{}\", ..)` is called twice with different values: remove one of the two",
                    variable.0.display()
                )));
            }
            command.environment.push(variable);
            Ok(())
        })
    }

    /// Sets the destination of the command's standard output and standard error together. The default is
    /// [`Output::Inherit`].
    pub fn output(self, output: Output) -> Self {
        self.of_the_command("output", |command| {
            if output == Output::Keep(0) {
                return Err(AddErrorKind::OutOfRange.because(
                    "`output(Output::Keep(0))` keeps nothing: write how many bytes to keep, or use `Output::Discard`",
                ));
            }
            set_once("output", &mut command.output, output)
        })
    }

    /// Sets the time that a command may take to stop after `SIGTERM`, and a future (`Event::spawn`) after its
    /// [cancellation](crate::Run::cancelled). The time is at most an hour. With zero, the command is killed, or the
    /// future is dropped, at once. The default is 5 seconds. During a [`Shutdown`](crate::Shutdown), the time is
    /// limited to the rest of the shutdown's grace, less a second. The lease must last twice as long as the grace and
    /// the second that killing may take, or `add` refuses the event.
    pub fn grace(self, grace: Duration) -> Self {
        if let Work::Callback(_) = self.work {
            let message = "`grace(..)` is for commands and futures, and this event calls a function, which ends by itself: leave it out";
            return self.refused(AddErrorKind::Conflict.because(message));
        }
        self.say("grace", grace, |event| &mut event.grace)
    }

    /// Runs the command in the place of this process: with its standard input and its terminal. A signal that ends this
    /// process is passed on to the command.
    #[cfg(feature = "cli")]
    pub(crate) fn in_place_of_this_process(self) -> Self {
        self.of_the_command("in_place", |command| {
            command.in_place = true;
            Ok(())
        })
    }

    fn of_the_command(
        mut self,
        option: &'static str,
        change: impl FnOnce(&mut Command) -> Result<(), Refusal>,
    ) -> Self {
        let changed = match &mut self.work {
            Work::Command(command) => change(command),
            _ => Err(AddErrorKind::Conflict.because(format_args!(
                "`{option}(..)` is for commands, and this event has none: use `Event::exec` or `Event::command`"
            ))),
        };
        self.noting(changed)
    }
}
