//! `soloist run`: a command under a lease, as `flock -n` runs a command under a lock. The lease is renewed while the
//! command runs, and released after its end. If the lease is lost, the command is ended.

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::ArgMatches;

use super::answer::{Answered, CommandAnswer, CommandFailure, say};
use super::arguments::{duration_of, parse_duration, text};
use super::schedule_commands::{on_signals, run_when_free};
use super::store_commands::{named, store_of};
use crate::base::escape::{Chain, Named, Quoted};
use crate::event::event_builder::Event;
use crate::event::protection::OutagePolicy;
use crate::event::protection::overlap::Overlap;
use crate::event::retry::Retry;
use crate::outcome::command_exit::signal_of;
use crate::outcome::run_outcome::{Ended, RunOutcome};
use crate::outcome::skip_reason::SkipReason;
use crate::outcome::{cancel::CancelReason, release::Release};
use crate::schedule::report::{Entry, Verdict};
use crate::schedule::schedule::{Schedule, registry::UnknownEvent};
use crate::task::run::{ENDING_TAKES, USUAL_GRACE};
use crate::time::clock::Clock;
use crate::time::clock::shown::for_people;
use crate::time::{tick::Tick, zone::Zone};

/// The exit code for wrong arguments: `EX_USAGE` of `sysexits.h`, as in `flock`.
pub(super) const EX_USAGE: u8 = 64;

pub(super) const HOW_TO_RUN: &str = "Write: soloist run --name NAME --store URL -- COMMAND. \
     https://docs.rs/crate/soloist/latest/source/docs/guide/from_flock.md has the options of `flock`.";

/// The exit code if the store can't be opened, or was unavailable: `EX_NOINPUT`, as in `flock` for its file. This is
/// also the exit code if the command succeeded, but ran without protection, or its lease could not be released. So if
/// the command ran and the code is 0, the command succeeded, and held its lease to the end.
const STORE_UNAVAILABLE: u8 = 66;

/// The exit code if the command could not be started: `EX_UNAVAILABLE`, as in `flock`.
const NOT_STARTED: u8 = 69;

/// The exit code if the lease was lost: `EX_TEMPFAIL`. The command was ended because of the loss, or it has succeeded
/// despite the loss.
const LEASE_LOST: u8 = 75;

/// The exit code if the command reached its timeout, as in `timeout`.
const TIMED_OUT: u8 = 124;

/// The exit code if another run or an operator asked for the lease, so that the command was ended. The command's own
/// exit code does not count.
const GAVE_WAY: u8 = 143;

/// The number that a shell adds to the number of a signal that ended a command.
const BY_SIGNAL: i32 = 128;

/// The environment variable that sets the current time, for tests alone.
const NOW: &str = "SOLOIST_TEST_NOW";

/// Runs the command, and returns its answer, which has an exit code only.
pub(super) fn run(arguments: &ArgMatches) -> Answered {
    let store = store_of(arguments).map_err(|failure| {
        let code = if failure.is_usage() { EX_USAGE } else { STORE_UNAVAILABLE };
        failure.with_code(code)
    })?;
    let shutdown = on_signals().map_err(|failure| failure.with_code(NOT_STARTED))?;
    // There is no drain: a signal cancels the command immediately, because the sender of the signal waits for this
    // process.
    let shutdown =
        shutdown.with_drain(Duration::ZERO).with_grace(grace(arguments).saturating_add(Duration::from_secs(1)));
    let mut schedule = Schedule::new(store).with_shutdown(&shutdown);
    if let Some(keep) = arguments.get_one::<u16>("log") {
        schedule = schedule.with_run_log((*keep).into()).map_err(|error| usage(&error))?;
    }
    check_arguments(arguments)?;
    let now = now()?;
    schedule.add(event(arguments, now)).map_err(|error| usage(&error))?;
    schedule = named(schedule, arguments).map_err(|error| usage(&error))?;
    if text(arguments, "on-outage") == "run" {
        schedule = schedule.past_unknown_pauses();
    }
    let (name, is_verbose) = (text(arguments, "name"), arguments.get_flag("verbose"));
    // At a terminal, a user who tries the command wants to know why nothing happens.
    let is_tried = io::stderr().is_terminal();
    if interval(arguments).is_some() && schedule.last_due(name, now).is_ok_and(|due| due.is_none()) {
        if is_verbose || is_tried {
            let next = schedule.next_due(now).map_or_else(|| "never".to_owned(), for_people);
            say(format_args!("{}: it is not due: its next time is {next}", Named(name)));
        }
        return Ok(CommandAnswer::nothing());
    }
    let Some(entry) = run_at(now, &schedule, arguments)? else { return Ok(CommandAnswer::nothing()) };
    let is_skipped = matches!(entry.verdict(), Verdict::Skipped(_));
    if is_verbose || (is_tried && is_skipped) || is_worth_telling(&entry) {
        say(format_args!("{}: {}", Named(entry.event()), entry.verdict_cell()));
    }
    if let Some(error) = schedule.run_log_failure() {
        say(format_args!("{}: the run is not in the log: {}", Named(entry.event()), Chain(&error)));
    }
    let conflict = arguments.get_one::<u8>("conflict-exit-code").copied().unwrap_or(1);
    let code = code(&entry, conflict);
    shutdown.finish();
    end_as_its_command(&entry);
    Ok(CommandAnswer::nothing().with_code(code))
}

/// Runs the command for its last due time, even if the run is late. Returns `None` if the command has run for this time
/// already, before the clock was set back.
fn run_at(now: DateTime<Utc>, schedule: &Schedule, arguments: &ArgMatches) -> Result<Option<Entry>, CommandFailure> {
    let name = text(arguments, "name");
    let unknown = |error: UnknownEvent| usage(&error);
    let not_due = || refused(not_due(arguments));
    if schedule.last_due(name, now).map_err(unknown)?.is_some() {
        let wait = duration_of(arguments, "wait").unwrap_or_default();
        let run = || schedule.run_last_due(name, now).map_err(unknown)?.ok_or_else(not_due);
        return run_when_free(schedule, name, wait, run).map(Some);
    }
    let late = schedule.run_missed(name, now).map_err(unknown)?;
    match late.filter(|entry| !matches!(entry.verdict(), Verdict::Skipped(SkipReason::RanElsewhere(_)))) {
        Some(entry) => Ok(Some(entry)),
        None => match schedule.is_claimed_repetition(name, now) {
            Ok(true) => Ok(None),
            Ok(false) => Err(not_due()),
            Err(error) => Err(CommandFailure::new(&error).with_code(STORE_UNAVAILABLE)),
        },
    }
}

fn usage(error: &(dyn Error + 'static)) -> CommandFailure {
    refused(with_options(&Chain(error).to_string()))
}

fn refused(why: impl Display) -> CommandFailure {
    CommandFailure::saying(why).with_code(EX_USAGE)
}

/// Pairs of a method of this library and the option of `soloist run` for that method.
const OPTIONS: [(&str, &str); 13] = [
    ("every", "every"),
    ("cron", "every"),
    ("timezone", "timezone"),
    ("on_one_server", "on-one-server"),
    ("on_overlap", "on-overlap"),
    ("timeout", "timeout"),
    ("after", "retry-after"),
    ("grace", "grace"),
    ("hold_at_least", "hold-at-least"),
    ("stuck_after", "stuck-after"),
    ("lease_term", "term"),
    ("on_outage", "on-outage"),
    ("with_run_log", "log"),
];

/// Returns a message with the names of options in place of the names of methods: `--grace 5s` instead of `grace(5s)`.
/// If the message offers both, as in `` `every(..)` or `--every 5m` ``, the method is left out. Advice to call a method
/// that has no option is left out, too.
fn with_options(message: &str) -> String {
    let mut message = message.to_owned();
    while let Some(end) = message.find("` or `--") {
        let method = message[..end].rfind('`').unwrap_or(end);
        message.replace_range(method..end + "` or ".len(), "");
    }
    let message = OPTIONS.iter().fold(message, |message, (method, option)| {
        let begin = format!("`{method}(");
        let mut parts = message.split(&begin);
        let mut said = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            match part.split_once(")`") {
                Some(("" | "..", rest)) => said.extend(["`--", option, "`", rest]),
                Some((value, rest)) => said.extend(["`--", option, " ", value, "`", rest]),
                None => said.extend([&begin, part]),
            }
        }
        said
    });
    // The first part of the message is the fault. The other parts are advice.
    let is_kept = |(at, part): &(usize, &str)| *at == 0 || !(part.contains("(..)`") || part.contains("::"));
    message.split("; ").enumerate().filter(is_kept).map(|(_, part)| part).collect::<Vec<_>>().join("; ")
}

fn event(arguments: &ArgMatches, now: DateTime<Utc>) -> Event {
    let mut words = arguments.get_many::<OsString>("command").into_iter().flatten().cloned();
    let event = Event::command(text(arguments, "name"), words.next().unwrap_or_default(), words);
    let mut event = event.in_place_of_this_process().without_overlapping();
    event = match arguments.get_one::<String>("every") {
        Some(every) => {
            let zone = arguments.get_one::<String>("timezone").map_or("local", String::as_str);
            let event = event.timezone(zone);
            match interval(arguments) {
                // cron calls this program several times in each interval. Only a claim shows whether the command has
                // already run for a due time.
                Some(interval) => event.every(interval).on_one_server(),
                None => event.cron(every),
            }
        }
        // Without `--every`, the event has a single due time: now. No next occurrence ends its retries.
        None => event.at(Tick::at(now, &Zone::UTC).occurrence()),
    };
    let duration = |name| duration_of(arguments, name);
    event = duration("timeout").into_iter().fold(event, Event::timeout);
    if let (Some(times), Some(delay)) = (arguments.get_one::<u16>("retry"), duration("retry-after")) {
        let retry = Retry::times((*times).into()).after(delay);
        event = event.retry(if arguments.get_flag("retry-doubling") { retry.doubling() } else { retry });
    }
    event = event.grace(grace(arguments));
    event = duration("hold-at-least").into_iter().fold(event, Event::hold_at_least);
    event = duration("stuck-after").into_iter().fold(event, Event::stuck_after);
    event = duration("term").into_iter().fold(event, Event::lease_term);
    if arguments.get_flag("on-one-server") {
        event = event.on_one_server();
    }
    event = match text(arguments, "on-overlap") {
        "queue-one" => event.on_overlap(Overlap::QueueOne),
        "replace" => event.on_overlap(Overlap::Replace),
        _ => event,
    };
    match text(arguments, "on-outage") {
        "run" => event.on_outage(OutagePolicy::RunUnprotected),
        _ => event,
    }
}

/// Returns the grace in the arguments, or the default. With a short term, the default is shorter.
fn grace(arguments: &ArgMatches) -> Duration {
    duration_of(arguments, "grace").unwrap_or_else(|| {
        let longest = |term: Duration| (term / 2).saturating_sub(ENDING_TAKES);
        duration_of(arguments, "term").map_or(USUAL_GRACE, |term| USUAL_GRACE.min(longest(term)))
    })
}

/// Returns the interval in `--every`, or `None` if `--every` has a crontab.
fn interval(arguments: &ArgMatches) -> Option<Duration> {
    arguments.get_one::<String>("every").and_then(|every| parse_duration(every).ok())
}

/// Refuses a value of `--every` that is neither a crontab nor an interval with a unit. Also refuses `--timezone` or
/// `--on-outage run` if `--every` has an interval.
fn check_arguments(arguments: &ArgMatches) -> Result<(), CommandFailure> {
    let Some(every) = arguments.get_one::<String>("every").map(|every| every.trim()) else { return Ok(()) };
    let is_crontab = every.starts_with('@') || every.contains(char::is_whitespace);
    let is_interval = interval(arguments).is_some() && every.parse::<f64>().is_err();
    if !is_crontab && !is_interval {
        return Err(refused(format_args!(
            "--every {} is neither five fields of a crontab, such as '*/5 * * * *', nor an interval with a unit, such as 90m",
            Quoted::new(every)
        )));
    }
    if is_interval && text(arguments, "on-outage") == "run" {
        return Err(refused(
            "--on-outage run can't be used with an interval in --every: without a store, nothing shows which of its times \
             have run; write a crontab instead",
        ));
    }
    if is_interval && arguments.contains_id("timezone") {
        return Err(refused("--timezone has no effect on an interval in --every: leave it out"));
    }
    Ok(())
}

fn not_due(arguments: &ArgMatches) -> String {
    let every = text(arguments, "every");
    let zone = arguments.get_one::<String>("timezone").map_or("local", String::as_str);
    format!(
        "\"{every}\" was not due in the last 5 minutes: write the same times in --every as in the crontab (their zone here is {zone}; \
         for CRON_TZ, write --timezone); to run the command now, leave out --every and --on-one-server"
    )
}

fn now() -> Result<DateTime<Utc>, CommandFailure> {
    match std::env::var_os(NOW) {
        None => Ok(Clock::system().now()),
        Some(now) => {
            let parsed = now.to_str().and_then(|now| now.parse().ok());
            parsed.ok_or_else(|| {
                refused(format_args!("{NOW} must be a time such as 2026-03-01T12:00:00Z; only tests set it"))
            })
        }
    }
}

fn code(entry: &Entry, conflict: u8) -> u8 {
    match entry.verdict() {
        Verdict::Ran(outcome) => code_of(outcome),
        // Another process has taken this occurrence, or waits to run it. The user asked for that, with
        // `--on-one-server`, `--every` or `--on-overlap`.
        Verdict::Skipped(SkipReason::RanElsewhere(_) | SkipReason::Queued(_)) => 0,
        Verdict::Skipped(SkipReason::StoreUnavailable(_)) => STORE_UNAVAILABLE,
        // The code is never 0 here, because a stuck run must be noticed: if a program exits with 0, its messages are
        // often not read.
        Verdict::Skipped(SkipReason::Stuck { .. }) => conflict.max(1),
        Verdict::Skipped(_) => conflict,
    }
}

fn code_of(outcome: &RunOutcome) -> u8 {
    match outcome.cancel_reason() {
        _ if outcome.is_success() && !outcome.is_failure() => {}
        _ if outcome.is_success() => {
            let is_lost = outcome.lease_lost_at().is_some() || outcome.release() == Some(&Release::Lost);
            return if is_lost { LEASE_LOST } else { STORE_UNAVAILABLE };
        }
        Some(reason) if reason.is_for_the_lease() => return GAVE_WAY,
        _ if matches!(outcome.ended(), Ended::TimedOut { .. }) => return TIMED_OUT,
        // A reason in `no_retry` means that the command failed by itself first. Then the exit code of the command
        // counts, even if the lease was lost later.
        _ if outcome.lease_lost_at().is_some() && outcome.no_retry().is_none() => return LEASE_LOST,
        _ => {}
    }
    let Some(status) = outcome.exit_status() else { return NOT_STARTED };
    let code = status.code().or_else(|| signal_of(status).map(|signal| BY_SIGNAL + signal)).unwrap_or(BY_SIGNAL);
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Ends this process by SIGINT if SIGINT ended its command. Otherwise an interactive shell would continue its loop
/// after Ctrl-C.
#[cfg(unix)]
fn end_as_its_command(entry: &Entry) {
    use signal_hook::consts::SIGINT;

    use crate::schedule::shutdown::end_of_process::end_by;

    if let Verdict::Ran(outcome) = entry.verdict()
        && outcome.cancel_reason().is_none()
        && outcome.exit_status().and_then(signal_of) == Some(SIGINT)
    {
        end_by(SIGINT);
    }
}

#[cfg(not(unix))]
fn end_as_its_command(_: &Entry) {}

/// Returns whether to print the entry. Normally, two kinds of entries are not printed: a failure of the command,
/// because the command prints the failure itself, and a taken lease, because `flock` prints nothing about a taken lock.
fn is_worth_telling(entry: &Entry) -> bool {
    match entry.verdict() {
        Verdict::Ran(_) if entry.missed_by().is_some() => true,
        Verdict::Ran(outcome) => {
            let is_released = !outcome.release().is_some_and(Release::is_failure);
            let is_its_own = outcome.exit_status().is_some() && outcome.unprotected().is_none() && is_released;
            match outcome.cancel_reason() {
                None => entry.is_failure() && (!is_its_own || outcome.lease_lost_at().is_some()),
                // Nothing is printed, because the sender of the signal knows the reason.
                Some(CancelReason::ShuttingDown) => false,
                Some(_) => true,
            }
        }
        Verdict::Skipped(reason) => reason.is_failure() || reason.other_application().is_some(),
    }
}
