//! The command line of a schedule, and the command line of the program `soloist`, which needs only a store.

// | file | contents |
// | --- | --- |
// | `arguments` | the commands, their arguments and options |
// | `schedule_commands` | the commands that need events: run, work, list, next, run-one, status |
// | `schedule_commands/backfill_command` | the command that runs past occurrences again: its plan, its question, its summary |
// | `schedule_commands/live_view` | the output of `work` and `backfill` while they run |
// | `store_commands` | the commands that need only a store: log, locks, pause, paused, resume, check, create-table |
// | `unlock` | the command that asks the run under a lease to stop, or breaks the lease |
// | `run_command` | `soloist run`: a command under a lease |
// | `completions_and_man` | the completion script and the manual page of a program |
// | `answer` | the answer of a command: a text and an exit code |
// | `answer/parse_error` | the error of a command line that can't be read, with advice on what to write instead |
// | `tables` | tables, and the text of times |

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgMatches, Command};

mod answer;
mod arguments;
mod completions_and_man;
mod run_command;
mod schedule_commands;
mod store_commands;
mod tables;
mod unlock;

use answer::{Answered, CommandAnswer, CommandFailure, USAGE};

use crate::base::escape::Chain;
use crate::schedule::schedule::Schedule;
#[cfg(feature = "tokio")]
use crate::schedule::service::as_futures::on_a_thread;

/// Runs the command line of a schedule, and returns the exit code. Call this function in a `main` that does nothing
/// else. cron calls `myapp run`, and a service calls `myapp work`. Operators use `list`, `next`, `run-one`, `backfill`,
/// `status`, `log`, `locks`, `unlock`, `pause`, `paused`, `resume`, `check`, `completions` and `man`. [The
/// book](https://docs.rs/crate/soloist/latest/source/docs/guide/operators.md) describes each command, its JSON, and the
/// exit codes.
///
/// Pass the function `schedule` itself, without calling it: it is called after the arguments were parsed, but not for
/// `--help`. If `schedule` fails, its error is printed, and the exit code is 1.
///
/// ```no_run
/// use std::process::ExitCode;
/// use soloist::{Event, Schedule};
///
/// fn schedule() -> Result<Schedule, Box<dyn std::error::Error>> {
///     let schedule = Schedule::new(soloist::connect("file:/var/lib/myapp/locks")?).named("shop")?;
///     schedule.add(Event::call("reports", |_| println!("reporting")).hourly().without_overlapping())?;
///     Ok(schedule)
/// }
///
/// fn main() -> ExitCode {
///     soloist::cli::run(schedule)
/// }
/// ```
pub fn run<E: Into<Box<dyn Error>>>(schedule: impl FnOnce() -> Result<Schedule, E>) -> ExitCode {
    match own_arguments() {
        Ok(matches) => run_matches(&matches, schedule),
        Err(code) => code,
    }
}

/// Runs the command line as [`run`] does, inside a `#[tokio::main]`, for a schedule whose tasks are futures. `schedule`
/// is called in the runtime, and the runtime drives these futures. The commands themselves run on a thread that may
/// block.
///
/// ```no_run
/// use std::process::ExitCode;
/// use soloist::{AddError, Event, Schedule};
///
/// #[tokio::main]
/// async fn main() -> ExitCode {
///     soloist::cli::run_async(|| {
///         let schedule = Schedule::in_process();
///         schedule.add(Event::spawn("import", |_| async { println!("importing") }).hourly())?;
///         Ok::<_, AddError>(schedule)
///     })
///     .await
/// }
/// ```
#[cfg(feature = "tokio")]
pub async fn run_async<E: Into<Box<dyn Error>>>(schedule: impl FnOnce() -> Result<Schedule, E>) -> ExitCode {
    match own_arguments() {
        Ok(matches) => run_matches_async(&matches, schedule).await,
        Err(code) => code,
    }
}

/// Parses the arguments of this process by the commands of [`run`]. The name of the program is the name of its file.
fn own_arguments() -> Result<ArgMatches, ExitCode> {
    let program = std::env::args_os().next().map(PathBuf::from);
    let name = program.as_deref().and_then(Path::file_name).map_or("schedule".into(), OsStr::to_string_lossy);
    parse(command(name.strip_suffix(".exe").unwrap_or(&name)), USAGE, None)
}

/// Parses the arguments of this process by `parser`, with the commands `completions` and `man`. If no command is left
/// to run, returns the exit code as an error: a help text, a completion script, a manual page or an error was printed.
/// For wrong arguments, this code is `usage`, and the error ends with `hint`.
fn parse(parser: Command, usage: u8, hint: Option<&'static str>) -> Result<ArgMatches, ExitCode> {
    let commands = completions_and_man::commands(&parser);
    let mut parser = parser.subcommands(commands);
    let matches = parser.try_get_matches_from_mut(std::env::args_os());
    let matches = matches.map_err(|error| answer::parse_error::print_parse_error(error, &mut parser, usage, hint))?;
    match completions_and_man::describe(parser, &matches) {
        Some(described) => Err(answer::print(described)),
        None => Ok(matches),
    }
}

/// Returns the commands of [`run`] as a [`clap::Command`], without `completions` and `man`. Use it as a subcommand of
/// your own parser. [`run_matches`] runs the parsed command.
///
/// ```
/// use clap::Command;
///
/// let parser = Command::new("myapp").subcommand(Command::new("serve")).subcommand(soloist::cli::command("schedule"));
/// let matches = parser.try_get_matches_from(["myapp", "schedule", "list"])?;
/// assert_eq!(matches.subcommand_name(), Some("schedule"));
/// # Ok::<(), clap::Error>(())
/// ```
pub fn command(name: impl Into<String>) -> Command {
    arguments::of_schedule(name.into())
}

/// Runs the command that [`command`] parsed, and returns the exit code of the process.
///
/// ```
/// use soloist::{AddError, Event, Schedule};
///
/// let matches = soloist::cli::command("schedule").try_get_matches_from(["schedule", "next", "--for", "1h"])?;
/// let _code = soloist::cli::run_matches(&matches, || {
///     let schedule = Schedule::in_process();
///     schedule.add(Event::call("reports", |_| {}).every_ten_minutes())?;
///     Ok::<_, AddError>(schedule)
/// });
/// # Ok::<(), clap::Error>(())
/// ```
pub fn run_matches<E: Into<Box<dyn Error>>>(
    matches: &ArgMatches,
    schedule: impl FnOnce() -> Result<Schedule, E>,
) -> ExitCode {
    answer::print(carry_out(matches, made(schedule)))
}

/// Runs the command that [`command`] parsed, inside a runtime of tokio, as [`run_async`] does.
#[cfg(feature = "tokio")]
pub async fn run_matches_async<E: Into<Box<dyn Error>>>(
    matches: &ArgMatches,
    schedule: impl FnOnce() -> Result<Schedule, E>,
) -> ExitCode {
    let made = made(schedule);
    let matches = matches.clone();
    answer::print(on_a_thread(move || carry_out(&matches, made)).await)
}

fn carry_out(matches: &ArgMatches, schedule: Result<Schedule, CommandFailure>) -> Answered {
    let Some((name, arguments)) = matches.subcommand() else { return Ok(CommandAnswer::nothing().with_code(USAGE)) };
    schedule_commands::carry_out(name, arguments, schedule?)
}

fn made<E: Into<Box<dyn Error>>>(schedule: impl FnOnce() -> Result<Schedule, E>) -> Result<Schedule, CommandFailure> {
    schedule().map_err(|error| CommandFailure::new(&*error.into()))
}

/// Runs the command line of the program `soloist`, which needs no schedule in Rust. The program runs commands under a
/// lease, and shows and frees the leases of a store. For example:
/// `soloist run --name db:backup --store file:/run/locks -- pg_dump app`.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     soloist::cli::run_tool()
/// }
/// ```
pub fn run_tool() -> ExitCode {
    // If an argument of `soloist run` is wrong, the program exits with the code that `flock` has for wrong arguments.
    let is_run = std::env::args_os().nth(1).is_some_and(|first| first == "run");
    let (usage, hint) = if is_run { (run_command::EX_USAGE, Some(run_command::HOW_TO_RUN)) } else { (USAGE, None) };
    let matches = match parse(arguments::of_tool(), usage, hint) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    match matches.subcommand() {
        Some(("run", arguments)) => answer::print(run_command::run(arguments)),
        Some(("create-table", arguments)) => answer::print(store_commands::create_table(arguments)),
        Some((name, arguments)) => {
            answer::print(schedule_on(arguments).and_then(|it| store_commands::carry_out(name, arguments, &it)))
        }
        None => ExitCode::from(USAGE),
    }
}

/// Makes a schedule that uses the store in the arguments. If the arguments name an event, adds an event with this name
/// to the schedule, so that the schedule finds the event's entries in the store.
fn schedule_on(arguments: &ArgMatches) -> Result<Schedule, CommandFailure> {
    let schedule = store_commands::named(Schedule::new(store_commands::present_store(arguments)?), arguments);
    let schedule = schedule.map_err(|error| CommandFailure::usage(Chain(&error)))?;
    if let Ok(Some(event)) = arguments.try_get_one::<String>("event") {
        schedule.add(store_commands::stand_in(event)).map_err(|error| CommandFailure::usage(Chain(&error)))?;
    }
    Ok(schedule)
}
