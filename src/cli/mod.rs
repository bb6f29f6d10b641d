//! The command line: of a schedule, in the program that has it, and of a store, in the program `soloist`.
//!
//! | file | what it has |
//! | --- | --- |
//! | `arguments` | what can be typed |
//! | `schedule_commands` | the commands that need events: run, work, list, next, run-one, status |
//! | `store_commands` | the commands that need a store only: log, locks, pause, resume, check |
//! | `unlock` | how a lease is freed |
//! | `supervise` | `soloist run`: a command under a lease |
//! | `live_view` | what `work` prints while it works |
//! | `answer` | what a command answers: a text and an exit code |
//! | `tables` | tables, and times as people read them |

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgMatches, Command};

mod answer;
mod arguments;
mod live_view;
mod schedule_commands;
mod store_commands;
mod supervise;
mod tables;
mod unlock;

use answer::{CommandAnswer, CommandFailure, USAGE};

use crate::event::event_builder::Event;
use crate::schedule::schedule::Schedule;
#[cfg(feature = "tokio")]
use crate::schedule::service::as_futures::on_a_thread::on_a_thread;

/// The command line of a schedule, for a program whose `main` does nothing else: `myapp run` from cron, `myapp work` as a
/// service, and `list`, `next`, `run-one`, `status`, `log`, `locks`, `unlock`, `pause`, `resume`, `check` and `completions` for
/// its operators. [The guide](crate::guide::operators) describes each command, its JSON, and the exit codes.
///
/// `schedule` is called once the arguments are understood, and not for `--help`. Where it fails, its error is printed, and the
/// exit code is 1.
///
/// ```no_run
/// use std::process::ExitCode;
/// use soloist::{Event, Schedule};
///
/// fn schedule() -> Result<Schedule, Box<dyn std::error::Error>> {
///     let mut schedule = Schedule::new(soloist::connect("file:/var/lib/myapp/locks")?).named("shop")?;
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

/// The same in a `#[tokio::main]`, for a schedule with tasks that are futures: `schedule` is called in the runtime, which then
/// drives them. The commands themselves work on a thread that may block.
///
/// ```no_run
/// use std::process::ExitCode;
/// use soloist::{AddError, Event, Schedule};
///
/// #[tokio::main]
/// async fn main() -> ExitCode {
///     soloist::cli::run_async(|| {
///         let mut schedule = Schedule::in_process();
///         schedule.add(Event::spawn("import", |_| async { println!("importing") }).hourly())?;
///         Ok::<_, AddError>(schedule)
///     })
///     .await
/// }
/// ```
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub async fn run_async<E: Into<Box<dyn Error>>>(schedule: impl FnOnce() -> Result<Schedule, E>) -> ExitCode {
    match own_arguments() {
        Ok(matches) => run_matches_async(&matches, schedule).await,
        Err(code) => code,
    }
}

/// The arguments of this program; or the exit code, if they ask for help or a completion, or are not understood.
fn own_arguments() -> Result<ArgMatches, ExitCode> {
    let program = std::env::args_os().next().map(PathBuf::from);
    let name = program.as_deref().and_then(Path::file_stem).map_or("schedule".into(), OsStr::to_string_lossy);
    let mut parser = command(name).subcommand(arguments::completions());
    let matches = parser.try_get_matches_from_mut(std::env::args_os());
    let matches = matches.map_err(|error| answer::print_parse_error(error, USAGE))?;
    match matches.subcommand() {
        Some(("completions", arguments)) => Err(answer::print(Ok(completions(parser, arguments)))),
        _ => Ok(matches),
    }
}

/// The same commands as a [`clap::Command`], to be a subcommand of a parser of your own. [`run_matches`] carries out what was
/// typed.
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

/// Carries out what [`command`] understood, and says with which code the process is to exit.
///
/// ```
/// use soloist::{AddError, Event, Schedule};
///
/// let matches = soloist::cli::command("schedule").try_get_matches_from(["schedule", "next", "--for", "1h"])?;
/// let _code = soloist::cli::run_matches(&matches, || {
///     let mut schedule = Schedule::in_process();
///     schedule.add(Event::call("reports", |_| {}).every_ten_minutes())?;
///     Ok::<_, AddError>(schedule)
/// });
/// # Ok::<(), clap::Error>(())
/// ```
pub fn run_matches<E: Into<Box<dyn Error>>>(
    matches: &ArgMatches,
    schedule: impl FnOnce() -> Result<Schedule, E>,
) -> ExitCode {
    let Some((name, arguments)) = matches.subcommand() else { return ExitCode::from(USAGE) };
    answer::print(made(schedule).and_then(|schedule| schedule_commands::carry_out(name, arguments, schedule)))
}

/// The same in a runtime of tokio's, as [`run_async`] is to [`run`].
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub async fn run_matches_async<E: Into<Box<dyn Error>>>(
    matches: &ArgMatches,
    schedule: impl FnOnce() -> Result<Schedule, E>,
) -> ExitCode {
    let made = made(schedule);
    let matches = matches.clone();
    let answered = on_a_thread(move || {
        let Some((name, arguments)) = matches.subcommand() else {
            return Ok(CommandAnswer::nothing().with_code(USAGE));
        };
        made.and_then(|schedule| schedule_commands::carry_out(name, arguments, schedule))
    });
    answer::print(answered.await)
}

fn made<E: Into<Box<dyn Error>>>(schedule: impl FnOnce() -> Result<Schedule, E>) -> Result<Schedule, CommandFailure> {
    schedule().map_err(|error| CommandFailure::new(&*error.into()))
}

/// The command line of the program `soloist`, which protects commands, and shows and frees what a store has, without a schedule in
/// Rust: `soloist run --name db:backup --store file:/run/locks -- pg_dump app`.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     soloist::cli::run_tool()
/// }
/// ```
pub fn run_tool() -> ExitCode {
    let mut parser = arguments::of_tool().subcommand(arguments::completions());
    let matches = match parser.try_get_matches_from_mut(std::env::args_os()) {
        Ok(matches) => matches,
        // `run` fails as `flock` does where it does not understand its arguments.
        Err(error) => {
            let usage = if supervise::is_asked_for() { supervise::USAGE } else { USAGE };
            return answer::print_parse_error(error, usage);
        }
    };
    match matches.subcommand() {
        Some(("run", arguments)) => supervise::run(arguments),
        Some(("completions", arguments)) => answer::print(Ok(completions(parser, arguments))),
        Some(("create-table", arguments)) => answer::print(store_commands::create_table_of(arguments)),
        Some((name, arguments)) => {
            answer::print(schedule_on(arguments).and_then(|it| store_commands::carry_out(name, arguments, &it)))
        }
        None => ExitCode::from(USAGE),
    }
}

/// A schedule on the store that is named, with the event that is named: as far as its store knows it.
fn schedule_on(arguments: &ArgMatches) -> Result<Schedule, CommandFailure> {
    let schedule = store_commands::named(Schedule::new(store_commands::present_store(arguments)?), arguments);
    let mut schedule = schedule.map_err(|error| CommandFailure::usage(&error))?;
    if let Ok(Some(event)) = arguments.try_get_one::<String>("event") {
        let event = Event::call(event.as_str(), |_| {}).every_minute().without_overlapping();
        schedule.add(event).map_err(|error| CommandFailure::usage(&error))?;
    }
    Ok(schedule)
}

fn completions(mut parser: Command, arguments: &ArgMatches) -> CommandAnswer {
    let Some(shell) = arguments.get_one::<clap_complete::Shell>("shell") else { return CommandAnswer::nothing() };
    let (name, mut script) = (parser.get_name().to_owned(), Vec::new());
    clap_complete::generate(*shell, &mut parser, name, &mut script);
    CommandAnswer::text(String::from_utf8_lossy(&script))
}
