//! The commands, their arguments and options.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, Str};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

/// Returns the parser for the commands of a schedule.
pub(super) fn of_schedule(name: String) -> Command {
    parser(name.into(), "Runs and shows the schedule of this program")
        .subcommand(
            about("run", "Run the events that are due now; cron calls this once a minute")
                .arg(flag("verbose").short('v').help("Print the result of each due event, not only failures")),
        )
        .subcommand(about("work", "Run the due events, minute by minute, until SIGTERM or Ctrl-C"))
        .subcommand(
            about("list", "List the events, and when each is due next").arg(json()).arg(
                option("next", "N")
                    .allow_negative_numbers(true)
                    .value_parser(whole_number(1..=u16::MAX))
                    .default_value("1")
                    .help("How many due times of each event to show"),
            ),
        )
        .subcommand(
            about("next", "List the next due times of all events, in the order of time")
                .arg(json())
                .arg(duration("for").default_value("24h").help("How far to look ahead")),
        )
        .subcommand(
            about("run-one", "Run one event now, due or not, under its lease")
                .arg(event())
                .arg(
                    flag("claim")
                        .help("Run the event for its last due time, less than 5 minutes ago; no other server then runs that time"),
                )
                .arg(
                    flag("ignore-filters")
                        .conflicts_with("claim")
                        .help("Run the event even if `when`, `skip` or `between` refuse it, for example to try it"),
                )
                .arg(duration("wait").short('w').help("If the event is running elsewhere, wait this long for its end")),
        )
        .subcommand(
            about("backfill", "Run the past occurrences of an event again, oldest first, whether or not they ran")
                .arg(event())
                .arg(option("from", "TIME").required(true).allow_hyphen_values(true).help(
                    "The beginning of the range: 2026-03-01, or 2026-03-01 12:00 (on the clocks of the event's zone), or \
                     2026-03-01T12:00:00Z",
                ))
                .arg(option("to", "TIME").allow_hyphen_values(true).help("The end of the range: the first time that is not in it [default: now]"))
                .arg(
                    option("most", "N")
                        .value_parser(whole_number(1..=10_000_u16))
                        .default_value("10000")
                        .help("Run at most the latest N occurrences of the range"),
                )
                .arg(
                    option("again", "LABEL").help(
                        "Also run occurrences that a backfill has run in the last 30 days, unless that backfill had this label",
                    ),
                )
                .arg(flag("ignore-filters").help("Run occurrences even if `when`, `skip` or `between` refuse them"))
                .arg(flag("dry-run").help("Only list the occurrences that it would run"))
                .arg(flag("yes").short('y').help("Run without a question")),
        )
        .subcommand(about("status", "Show each event: its holder, its last run, and when it is due next").arg(json()))
        .subcommands(of_operators())
}

/// Returns the parser of the program `soloist`.
pub(super) fn of_tool() -> Command {
    let of_a_store = |command: Command| command.arg(store()).arg(schedule());
    parser("soloist".into(), "Keeps commands from running over themselves, on one host or on many")
        // The advice on an error depends on the name in the usage. Otherwise clap writes the name of the program's file.
        .bin_name("soloist")
        .subcommand(supervised(of_a_store(about(
            "run",
            "Run a command under a lease, as `flock -n` does under a lock",
        ))))
        .subcommands(of_operators().map(of_a_store))
        .subcommand(
            about(
                "create-table",
                "Create the tables of a MySQL or PostgreSQL store; ?table=NAME in the URL names them",
            )
            .arg(store())
            .arg(flag("print").help("Only print the SQL statements, for a migration")),
        )
}

fn parser(name: Str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100)
}

/// Returns the commands that need no events.
fn of_operators() -> [Command; 7] {
    [
        about("log", "Show the last runs of an event in the whole fleet")
            .arg(event().required(false).help("The name of the event; without it, list the events that have a log"))
            .arg(json()),
        about("locks", "List the held leases, with their holders and times").arg(json()).arg(
            Arg::new("prefix")
                .value_name("PREFIX")
                .default_value("")
                .help("Only leases whose names begin with this text"),
        ),
        about("unlock", "Free a lease: ask its holder to stop, and wait until it has stopped")
            .arg(Arg::new("name").value_name("NAME").required(true).help("The name, as `locks` shows it"))
            .arg(
                duration("wait")
                    .short('w')
                    .default_value("60s")
                    .conflicts_with("force")
                    .help("How long to wait for the holder"),
            )
            .arg(
                flag("kill")
                    .conflicts_with("force")
                    .help("End a command of this host that still holds the lease, although its scheduler has ended"),
            )
            .arg(flag("force").help("Free the lease at once, even if its holder may still be running")),
        about("pause", "Pause the schedule, or one event, on all servers: due events do not start")
            .arg(Arg::new("event").value_name("EVENT").help("Pause only this event"))
            .arg(duration("for").default_value("1h").help("How long the pause lasts, unless `resume` ends it"))
            .arg(
                option("why", "TEXT")
                    .default_value("")
                    .allow_hyphen_values(true)
                    .help("The reason, which `paused` and reports show"),
            ),
        about("paused", "Show the pauses, with their reasons and ends")
            .arg(Arg::new("event").value_name("EVENT").help("Show only the pauses of the schedule and of this event")),
        about("resume", "End a pause").arg(Arg::new("event").value_name("EVENT").help("End the pause of this event")),
        about("check", "Check whether the store answers, and whether it is set up well"),
    ]
}

fn store() -> Arg {
    option("store", "URL")
        .env("SOLOIST_STORE")
        .hide_env_values(true) // URLs have passwords
        .required(true)
        .help("Where leases are kept: file:/var/lib/locks, redis://…, postgres://…, mysql://…")
}

fn schedule() -> Arg {
    option("schedule", "NAME").env("SOLOIST_APP").help(
        "The name of the application in `locks`, reports and pauses; `Schedule::named` in Rust [default: soloist]",
    )
}

/// Adds the arguments of `soloist run`. An argument that exists in `flock`, too, is named as in `flock`.
fn supervised(command: Command) -> Command {
    // These options of `flock` change nothing, because they ask for the default of `soloist run`.
    let anyway = |name: &'static str, short: char| flag(name).short(short).hide(true);
    command
        .arg(anyway("nonblock", 'n').alias("nb"))
        .arg(anyway("exclusive", 'x').short_alias('e'))
        .arg(
            option("name", "NAME")
                .required(true)
                .value_parser(NonEmptyStringValueParser::new())
                .help("The name of the lease: only one command with this name runs at a time"),
        )
        .arg(option("every", "TIMES").allow_hyphen_values(true).help(
            "The scheduled times: the five fields of the crontab line, such as '*/5 * * * *'; or an interval, such as 90m, \
             counted from 1970-01-01 UTC: each of its times runs once, if cron calls this within five minutes after that time",
        ))
        .arg(
            option("timezone", "ZONE")
                .allow_hyphen_values(true)
                .requires("every")
                .help("The zone of the scheduled times [default: the machine's own]"),
        )
        .arg(flag("on-one-server").requires("every").help("Run each scheduled time on one server only"))
        .arg(
            option("on-overlap", "WHAT")
                .value_parser(["skip", "queue-one", "replace"])
                .requires("every")
                .help("What to do at a scheduled time while the previous run is still running [default: skip]"),
        )
        .arg(
            duration("wait")
                .short('w')
                .conflicts_with_all(["every", "timezone", "on-one-server", "on-overlap"])
                .help("Wait this long for the lease [default: not at all]"),
        )
        .arg(duration("timeout").help("End the command, with its retries, after this time [default: never]"))
        .arg(
            option("retry", "N")
                .value_parser(whole_number(1..=1000_u16))
                .requires("retry-after")
                .help("Run the command up to N times more if it fails, under the same lease [default: never]"),
        )
        .arg(duration("retry-after").requires("retry").help("How long to wait before the command runs again"))
        .arg(flag("retry-doubling").requires("retry").help("Double the time of --retry-after before each further retry"))
        .arg(
            duration("grace").help(
                "How long the command may take to stop before it is killed [default: 5s, less with a short term]",
            ),
        )
        .arg(duration("hold-at-least").help("Keep the lease at least this long, even if the command ends earlier"))
        .arg(duration("stuck-after").help("Fail with a message if the command has been running for longer than this"))
        .arg(duration("term").help("How long the lease of a dead host blocks the command, at least 2s [default: 60s]"))
        .arg(
            option("on-outage", "WHAT")
                .value_parser(["skip", "run"])
                .help("What to do if the store does not answer; `run`: run the command unprotected [default: skip]"),
        )
        .arg(
            option("log", "N")
                .allow_negative_numbers(true)
                .value_parser(whole_number(1..=1000_u16))
                .help("Keep the last N runs of this name in the store, for `soloist log`"),
        )
        .arg(
            option("conflict-exit-code", "N")
                .short('E')
                .allow_negative_numbers(true)
                .value_parser(whole_number(0..=u8::MAX))
                .default_value("1")
                .help("The exit code if the command is running already, or is paused"),
        )
        .arg(flag("verbose").short('v').help("Print why the command was not run, or how it ended"))
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .required(true)
                .last(true)
                .num_args(1..)
                .value_parser(value_parser!(OsString))
                .help("The command, after `--`"),
        )
}

pub(super) fn about(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about)
}

fn flag(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue)
}

fn json() -> Arg {
    flag("json").help("Print JSON, for programs")
}

fn event() -> Arg {
    Arg::new("event").value_name("EVENT").required(true).help("The name of the event")
}

fn option(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value)
}

fn duration(name: &'static str) -> Arg {
    // With `allow_hyphen_values`, a negative time is reported as a wrong value, and not as an unknown option.
    option(name, "TIME").allow_hyphen_values(true).value_parser(parse_duration)
}

/// Returns the parser of a whole number in `range`.
fn whole_number<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("write a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Parses a duration such as `1h 30m`. A number alone counts seconds, as with `flock` and `timeout`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let whole = || text.parse().ok().map(Duration::from_secs);
    let seconds = || Duration::try_from_secs_f64(text.parse().ok()?).ok();
    let with_units = || humantime::parse_duration(text).ok().filter(|_| !has_months_or_years(text));
    whole()
        .or_else(seconds)
        .or_else(with_units)
        .ok_or("write a time such as `90s`, `5m`, `1h 30m`, `150d`, or a number of seconds")
}

/// Returns whether a duration has a unit of months or years. A user may have written it by mistake: `5M` is five
/// months.
fn has_months_or_years(text: &str) -> bool {
    let is_long = |unit: &str| unit == "M" || unit.starts_with("month") || unit.starts_with('y');
    text.split(|char: char| !char.is_ascii_alphabetic()).any(is_long)
}

/// Returns the value of an argument, or an empty text if the argument is missing.
pub(super) fn text<'a>(arguments: &'a ArgMatches, name: &str) -> &'a str {
    arguments.get_one::<String>(name).map_or("", String::as_str)
}

pub(super) fn duration_of(arguments: &ArgMatches, name: &str) -> Option<Duration> {
    arguments.get_one::<Duration>(name).copied()
}
