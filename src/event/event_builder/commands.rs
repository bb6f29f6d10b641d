//! The builder's methods for commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Event;
use crate::event::add_error::{AddErrorKind, Refusal, set_once};
use crate::task::{command::Command, event_task::Work, output::Output};

/// Commands: programs that the schedule starts, together with all processes that the programs start.
impl Event {
    /// Makes an event that runs `line` in the shell: `/bin/sh -c`, or `cmd /C` on Windows. The name identifies the
    /// event, as with [`call`](Self::call).
    ///
    /// The run succeeds if the shell exits with code 0. The run lasts until all processes of the command's **process
    /// group** have ended: the shell and the processes that the shell started, also in the background. A process that
    /// has left the group, for example by `setsid`, does not count. The command's standard input is empty. The command
    /// writes to the output of this process, unless [`output`](Self::output) sets another destination.
    ///
    /// A run is cancelled by its [`timeout`](Self::timeout), by the loss of its lease or by a
    /// [`Shutdown`](crate::Shutdown). Then the process group gets `SIGTERM`, and after the [`grace`](Self::grace)
    /// `SIGKILL`. If another process may already hold the lease, the group gets `SIGKILL` at once. The lease is
    /// released when all processes of the group have ended. If the lease can't be renewed, the command gets `SIGTERM`
    /// one grace and one second before the lease ends.
    ///
    /// If this process is killed, a command that has a lease never continues without the lease. On the file store, the
    /// command keeps the lease until all its processes have ended. On other stores, a watchdog ends the process group;
    /// the watchdog is a small process that is started together with the command. A command without a lease continues.
    ///
    /// On Windows, a cancellation ends only the first process of the command, and not the processes that it has
    /// started. If this process is killed on Windows, nothing ends the command. With [`Output::Keep`] on Windows, the
    /// run also lasts until every process of the command has closed its output.
    ///
    /// The command gets the environment of this process, and variables that describe the run:
    ///
    /// - `SOLOIST_EVENT` and `SOLOIST_OCCURRENCE`;
    /// - `SOLOIST_ATTEMPT`, with the number of the [attempt](crate::Run::attempt);
    /// - in a [backfill](crate::Schedule::backfill), `SOLOIST_BACKFILL` with the value `1`;
    /// - if the event has a lease or claims, `SOLOIST_OWNER`, and `SOLOIST_TOKEN` with the [fencing
    ///   token](crate::FencingToken);
    /// - if the event has a lease, `SOLOIST_SLOT` with the number of the [slot](crate::Run::slot).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::exec("backup", "pg_dump app | gzip > /backup/app.sql.gz").daily_at("02:30").without_overlapping();
    /// ```
    pub fn exec(name: impl Into<Arc<str>>, line: impl Into<OsString>) -> Self {
        Self::of(name.into(), Work::Command(Box::new(Command::new(line.into(), None))))
    }

    /// Makes an event that runs `program` with these `arguments`, which no shell interprets. Everything else is as with
    /// [`exec`](Self::exec). A program name without a `/` is looked up in the folders of `PATH`. A relative path starts
    /// at the [`current_dir`](Self::current_dir) of the command. Write `[""; 0]` if there are no arguments.
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

    /// Sets the working directory of the command. The default is the working directory of this process. The directory
    /// must exist at each run, but not yet when the event is added. A path that begins with `~` or `$HOME` is an error,
    /// because only a shell replaces these.
    pub fn current_dir(self, directory: impl Into<PathBuf>) -> Self {
        self.of_the_command("current_dir", |command| set_once("current_dir", &mut command.directory, directory.into()))
    }

    /// Sets an environment variable of the command. The command gets the environment of this process, with this
    /// variable added or replaced. The environment of this process does not change. The variables that [describe the
    /// run](Self::exec) can't be replaced. A value that refers to its own variable, such as `$PATH:/opt/bin` for `PATH`,
    /// or that begins with `~/` or `$HOME/`, is an error, because only a shell replaces these.
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

    /// Sets the common destination of the command's standard output and standard error. The default is
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

    /// Sets the grace: the time from the [cancellation](crate::Run::cancelled) of a run to the end of its task by
    /// force. A command gets `SIGTERM`, and is killed after the grace. A future (`Event::spawn`) is dropped after the
    /// grace. The grace is at most an hour, and 5 seconds by default. With zero, the task is ended at once. During a
    /// [`Shutdown`](crate::Shutdown), the grace of a task ends at least a second before the grace of the shutdown ends.
    ///
    /// A killed command may take up to a second to end. So the end of a run can take the grace plus one second. `add`
    /// refuses an event whose lease is shorter than twice that time.
    pub fn grace(self, grace: Duration) -> Self {
        if let Work::Callback(_) = self.work {
            let message = "`grace(..)` is for commands and futures, but the task of this event is a function, which can't be ended by force: leave it out";
            return self.refused(AddErrorKind::Conflict.because(message));
        }
        self.say("grace", grace, |event| &mut event.grace)
    }

    /// Lets the command take the place of this process: the command gets the standard input and the terminal of this
    /// process. A signal that would end this process is passed on to the command.
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
                "`{option}(..)` is for commands, but the task of this event is no command: use `Event::exec` or `Event::command`"
            ))),
        };
        self.noting(changed)
    }
}
