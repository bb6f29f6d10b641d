//! The command `backfill`: shows which occurrences it would run, asks, and runs them.

use std::io::{self, IsTerminal, Write};
use std::ops::Range;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use clap::ArgMatches;

use super::live_view::LiveView;
use crate::base::escape::Quoted;
use crate::cli::answer::{Answered, CommandAnswer, CommandFailure, FAILED, print_end, print_text};
use crate::cli::arguments::text;
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::report::{Entry, Report, Verdict};
use crate::schedule::run_due::backfill::Backfill;
use crate::schedule::{schedule::Schedule, shutdown::Shutdown};
use crate::time::clock::{Clock, shown::ExactDuration};
use crate::time::zone::Zone;

/// Runs the command. `listen` installs the handlers of signals.
pub(super) fn backfill(
    schedule: Schedule,
    arguments: &ArgMatches,
    listen: impl FnOnce() -> Result<Shutdown, CommandFailure>,
) -> Answered {
    let range = range(&schedule, arguments)?;
    let shown = plan(&schedule, range.clone(), arguments)?;
    let is_nothing = shown.occurrences().is_empty();
    if is_nothing || arguments.get_flag("dry-run") {
        return Ok(CommandAnswer::text(shown.to_string()));
    }
    print_text(&shown.to_string())?;
    if !arguments.get_flag("yes") && !is_confirmed()? {
        return Ok(CommandAnswer::text("nothing was run").with_code(FAILED));
    }
    // Signals are handled only from now on, because Ctrl-C must end the process while it asks the question above.
    let shutdown = listen()?;
    let (view, told) = LiveView::new();
    let schedule = schedule.with_shutdown(&shutdown).observe(view.clone());
    // The user may have taken long to answer. Another backfill may have run some of the occurrences, so a new plan is
    // made.
    let plan = plan(&schedule, range, arguments)?;
    let planned = plan.occurrences().len();
    let drain = ExactDuration(shutdown.drain());
    let first = format!("Ctrl-C ends the backfill; the current run then has {drain} to end");
    let report = view.print_during(told, &schedule, &shutdown, &first, || plan.run());
    let (summary, code) = summary(&report, planned);
    print_end(&summary, code, &shutdown)
}

fn plan<'a>(
    schedule: &'a Schedule,
    range: Range<DateTime<Utc>>,
    arguments: &ArgMatches,
) -> Result<Backfill<'a>, CommandFailure> {
    let most = arguments.get_one::<u16>("most").copied().unwrap_or_default();
    let plan = schedule.backfill(text(arguments, "event"), range, most.into())?;
    let plan = plan.past_filters(arguments.get_flag("ignore-filters"));
    match arguments.get_one::<String>("again") {
        None => Ok(plan),
        Some(label) => Ok(plan.again(label.as_str())?),
    }
}

/// Asks on the terminal whether to run the occurrences.
fn is_confirmed() -> Result<bool, CommandFailure> {
    if !io::stdin().is_terminal() {
        let message = "nothing was run: `--yes` runs them without a question, `--dry-run` only lists them";
        return Err(CommandFailure::usage(message));
    }
    let mut answer = String::new();
    let mut output = io::stderr();
    let asked = output.write_all(b"run them? [y/N] ").and_then(|()| output.flush());
    let answered = asked.and_then(|()| io::stdin().read_line(&mut answer));
    answered.map_err(|error| CommandFailure::saying(format_args!("can't ask whether to run them: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Describes the results of the planned occurrences, and returns the exit code. The code is 0 if each occurrence
/// succeeded here, or was taken by another backfill.
fn summary(report: &Report, planned: usize) -> (String, u8) {
    let count = |is: fn(&Verdict) -> bool| report.entries().iter().map(Entry::verdict).filter(|it| is(it)).count();
    let ran = count(|verdict| matches!(verdict, Verdict::Ran(_)));
    let failed = count(|verdict| matches!(verdict, Verdict::Ran(outcome) if outcome.is_failure()));
    let elsewhere = count(|verdict| matches!(verdict, Verdict::Skipped(SkipReason::RanElsewhere(_))));
    let not_run = planned - ran - elsewhere;
    let counts = [(failed, "of them failed"), (elsewhere, "were taken by another backfill"), (not_run, "did not run")];
    let others = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let parts: Vec<String> = std::iter::once(format!("{ran} of {planned} ran")).chain(others).collect();
    (parts.join(", "), if report.is_failure() || not_run > 0 { FAILED } else { 0 })
}

/// Returns the range from `--from` to `--to`. Without `--to`, the range ends now.
fn range(schedule: &Schedule, arguments: &ArgMatches) -> Result<Range<DateTime<Utc>>, CommandFailure> {
    let event = schedule.event(text(arguments, "event"))?;
    let zone = event.zone();
    let from = instant("--from", text(arguments, "from"), zone)?;
    let now = Clock::system().now();
    let until = arguments.get_one::<String>("to").map_or(Ok(now), |to| instant("--to", to, zone))?;
    Ok(from..until)
}

/// Parses the value of `option`: an instant in RFC 3339, or a local date in `zone`, with or without a time of the day.
fn instant(option: &str, text: &str, zone: &Zone) -> Result<DateTime<Utc>, CommandFailure> {
    if let Ok(instant) = DateTime::parse_from_rfc3339(text) {
        return Ok(instant.to_utc());
    }
    let forms = ["%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"];
    let time = || forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    let civil = NaiveDate::parse_from_str(text, "%Y-%m-%d").map(|day| day.and_time(NaiveTime::MIN)).ok().or_else(time);
    let read = civil.filter(|civil| (1970..2100).contains(&chrono::Datelike::year(civil)));
    read.map(|civil| zone.first_showing(civil)).ok_or_else(|| {
        CommandFailure::usage(format_args!(
            "`{option}` {} is no time: write `2026-03-01`, or `2026-03-01 12:00` (on the clocks of {zone}), or \
             `2026-03-01T12:00:00Z`, or, with an offset, `2026-03-01T12:00:00+01:00`",
            Quoted::new(text)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_on_the_clocks_of_the_zone_unless_it_says_its_offset() {
        for (text, zone, expected) in [
            ("2026-03-01", "UTC", "2026-03-01T00:00:00Z"),
            ("2026-03-01 12:30", "+02:00", "2026-03-01T10:30:00Z"),
            ("2026-03-01T12:30:05", "-03:30", "2026-03-01T16:00:05Z"),
            ("2026-03-01T12:30:05+01:00", "-03:30", "2026-03-01T11:30:05Z"),
        ] {
            let read = instant("--from", text, &zone.parse().unwrap()).ok().unwrap();
            assert_eq!(read, expected.parse::<DateTime<Utc>>().unwrap(), "{text}");
        }
        for wrong in
            ["", "yesterday", "2026-03-01T12:00:00+0100", "2026-13-01", "2026-03-01 25:00", "12:00", "+12345-01-01"]
        {
            let failure = instant("--from", wrong, &Zone::UTC).unwrap_err();
            assert!(failure.is_usage() && failure.message.contains("is no time: write `2026-03-01`"), "{wrong}");
        }
    }

    #[cfg(feature = "tzdata")]
    #[test]
    fn a_time_that_comes_twice_is_the_first_and_one_that_is_left_out_comes_as_if_it_were_not() {
        let berlin = "Europe/Berlin".parse().unwrap();
        for (text, expected) in [
            ("2026-10-25 02:30", "2026-10-25T00:30:00Z"),
            ("2026-10-25 03:30", "2026-10-25T02:30:00Z"),
            ("2026-03-29 02:30", "2026-03-29T01:30:00Z"),
            ("2026-03-29 03:30", "2026-03-29T01:30:00Z"),
            ("2026-07-01", "2026-06-30T22:00:00Z"),
        ] {
            assert_eq!(
                instant("--from", text, &berlin).ok().unwrap(),
                expected.parse::<DateTime<Utc>>().unwrap(),
                "{text}"
            );
        }
    }
}
