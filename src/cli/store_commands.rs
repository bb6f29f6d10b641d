//! The commands that need a store, but no events.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use clap::ArgMatches;
use clap::parser::ValueSource;

use super::answer::{Answered, CommandAnswer, CommandFailure, FAILED, STORE, USAGE};
use super::arguments::{duration_of, is_unit_of_time, parse_duration, text};
use super::tables::{holding, how_it_ended, marked, table_or, time, until_its_command_ends};
use super::unlock::unlock;
use crate::base::escape::{Chain, Named, OneLine, Quoted};
use crate::base::similar::did_you_mean;
use crate::event::{definition::Definition, event_builder::Event};
use crate::lease::holder::Holder;
use crate::outcome::paused::Pause;
use crate::outcome::run_record::skip_count::SkipCount;
use crate::schedule::history::logged_run::LoggedRun;
use crate::schedule::history::status::waiting_for;
use crate::schedule::pause::pause_error::PauseError;
use crate::schedule::schedule::Schedule;
use crate::store::connect::{connect, missing_directory, tables_of};
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::description::Scope;
use crate::store::event_mutex::held::{Held, Names};
use crate::time::clock::{Clock, shown::HumanDuration, shown::for_people};

const NO_RUNS: &str =
    "no run is on record: `soloist run --log 20` keeps the last 20 runs, and so does `with_run_log(20)` of a schedule";

/// A lease, as `locks --json` shows it.
#[derive(serde::Serialize)]
struct LockForm {
    name: String,
    /// The holder, or `None` if the store can't show it.
    held_by: Option<Holder>,
}

pub(super) fn carry_out(name: &str, arguments: &ArgMatches, schedule: &Schedule) -> Answered {
    let event = || arguments.get_one::<String>("event").map(String::as_str);
    let its_own = schedule.stores();
    // The number of stores that the command changes. Pauses are only in the first store: the store of the schedule.
    let changed = match name {
        "pause" | "resume" => 1,
        "unlock" => its_own.len(),
        _ => 0,
    };
    if changed > 0 && its_own.iter().take(changed).all(|store| is_in_memory(&*store.mutex)) {
        return Err(in_memory());
    }
    let stores = || its_own.iter().map(|store| &*store.mutex).collect::<Vec<&dyn EventMutex>>();
    match name {
        "log" => match event() {
            Some(event) => log(schedule, event, arguments.get_flag("json")),
            None => logs(schedule, arguments.get_flag("json")),
        },
        "locks" => locks(&stores(), text(arguments, "prefix"), arguments.get_flag("json")),
        "unlock" => unlock(&stores(), arguments, || others_than(schedule, &stores(), text(arguments, "name"))),
        "paused" => paused(schedule, event(), default_application(arguments)),
        "pause" => pause(schedule, event(), arguments),
        "resume" => resume(schedule, event(), arguments),
        "check" => check(schedule),
        // The parser of a schedule has no other command, so these are the matches of another parser.
        _ => Err(CommandFailure::saying(format_args!(
            "a schedule has no command `{name}`: pass `run_matches` the matches of the subcommand that `cli::command` made, \
             as in `matches.subcommand_matches(\"{name}\")`"
        ))),
    }
}

/// Returns the end of the message about a name that is not held. If the schedule has events, but the
/// name is an event without a lease, or unknown, the end reports this. If the schedule has no events, the end suggests
/// held names like `name`.
fn others_than(schedule: &Schedule, stores: &[&dyn EventMutex], name: &str) -> String {
    if schedule.names().next().is_none() {
        return held_like(stores, name);
    }
    let is_used = |event: &Arc<Definition>| event.mutex_name().is_some_and(|mutex| mutex.mutex() == name);
    match schedule.event(name) {
        _ if schedule.definitions().iter().any(is_used) => String::new(),
        Ok(event) if event.mutex_name().is_some() => String::new(),
        Ok(_) => "; this event never has a lease, because it has no `without_overlapping()`".to_owned(),
        Err(unknown) => format!("; {unknown}"),
    }
}

/// Returns the end of a message, which suggests held names like `typed`. If none is similar, says that other names are
/// held: `typed` may be a pattern, a process id, or the name of a file. A store that can't list names suggests none.
fn held_like(stores: &[&dyn EventMutex], typed: &str) -> String {
    let held = stores.iter().filter_map(|store| store.held(Names::LeasesWithPrefix("")).ok()).flatten();
    let names: Vec<String> = held.map(|held| held.name().mutex().to_owned()).collect();
    let similar = like(typed, names.iter().map(String::as_str));
    if similar.is_empty() && !names.is_empty() {
        "; other names are held: `locks` lists them".to_owned()
    } else {
        similar
    }
}

/// Returns the end of a message, which suggests names like `typed`. Reports and JSON show a lease as `lease/NAME`, so
/// `typed` may begin with `lease/`.
fn like<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    let question = did_you_mean(typed.strip_prefix("lease/").unwrap_or(typed), names);
    question.map_or_else(String::new, |question| format!("; {question}"))
}

/// Opens the store of `--store` for a command that reads or changes existing entries. A missing directory is an error:
/// the path may be mistyped, and a new directory could belong to the wrong user.
pub(super) fn present_store(arguments: &ArgMatches) -> Result<Arc<dyn EventMutex>, CommandFailure> {
    match missing_directory(text(arguments, "store")) {
        None => store_of(arguments),
        Some(directory) => Err(CommandFailure::saying(format_args!(
            "there is no store in {}: check the path; `soloist run` makes the directory when it is first used",
            directory.display()
        ))
        .with_code(STORE)),
    }
}

/// Opens the store of `--store`. Refuses a store in memory.
pub(super) fn store_of(arguments: &ArgMatches) -> Result<Arc<dyn EventMutex>, CommandFailure> {
    let store = connect(text(arguments, "store"));
    let store = store
        .map_err(|error| CommandFailure::new(&error).with_code(if error.is_of_the_store() { STORE } else { USAGE }))?;
    if is_in_memory(&*store) { Err(in_memory()) } else { Ok(store) }
}

fn is_in_memory(store: &dyn EventMutex) -> bool {
    store.describe().scope() == Scope::Process
}

/// Returns the failure for a store in memory: a lease or a pause in it would have no effect beyond this process.
fn in_memory() -> CommandFailure {
    CommandFailure::usage(
        "a store in memory is seen by this process alone: use file:/… for one host, or a server for several",
    )
}

/// Sets the name of the schedule from the arguments. If the user gave no name, only pauses use the default name, and
/// `locks` and reports show no application.
pub(super) fn named(schedule: Schedule, arguments: &ArgMatches) -> Result<Schedule, PauseError> {
    let name = text(arguments, "schedule");
    if arguments.value_source("schedule") == Some(ValueSource::DefaultValue) {
        schedule.paused_as(name.into())
    } else {
        schedule.named(name)
    }
}

/// Creates the table of a store that needs one. With `--print`, only returns the statements that create the table.
pub(super) fn create_table(arguments: &ArgMatches) -> Answered {
    let tables = tables_of(text(arguments, "store"));
    let (schema, create) = tables.map_err(|error| CommandFailure::usage(Chain(&error)))?;
    if arguments.get_flag("print") {
        return Ok(CommandAnswer::text(schema.trim_end()));
    }
    create()?;
    Ok(CommandAnswer::text("the table is ready"))
}

/// Makes an event that stands for the event with this name in another program.
pub(super) fn stand_in(event: &str) -> Event {
    Event::call(event, |_| {}).every_minute().without_overlapping()
}

/// Lists the events that have a log, each with its last run. The event that ran last comes first.
fn logs(schedule: &Schedule, is_json: bool) -> Answered {
    #[derive(serde::Serialize)]
    struct EventLog {
        event: String,
        last_run: Option<LoggedRun>,
        /// The reason why the log can't be read.
        error: Option<String>,
    }
    let mut logs = Vec::new();
    for event in schedule.logged_events()? {
        let definition = schedule.event(&event).ok().or_else(|| schedule.checked(stand_in(&event)).ok());
        // A name in the log may be invalid for an event. Such a name is left out.
        if let Some(definition) = definition {
            let (last_run, error) = match schedule.runs_of(&definition) {
                Err(error) if error.is_outage() => return Err(error.into()),
                Err(error) => (None, Some(Chain(&error).to_string())),
                Ok(runs) => (runs.into_iter().next(), None),
            };
            logs.push(EventLog { event, last_run, error });
        }
    }
    logs.sort_by_key(|log| Reverse(log.last_run.as_ref().map(|run| run.record().started_at())));
    let code = if logs.iter().all(|log| log.error.is_none()) { 0 } else { STORE };
    if is_json {
        return Ok(CommandAnswer::json(&logs)?.with_code(code));
    }
    let now = Clock::system().now();
    let row = |EventLog { event, last_run, error }: &EventLog| {
        let name = Named(event).into();
        let none = if error.is_none() { "none" } else { "not known" };
        let Some(run) = last_run else { return vec![name, none.into(), "".into(), "".into()] };
        let (ended, is_well) = how_it_ended(run);
        let (record, started) = (run.record(), time(run.record().started_at(), now));
        vec![name, marked(ended, is_well), started.into(), record.process().into()]
    };
    let mut lines: Vec<String> =
        logs.iter().filter_map(|log| Some(format!("store: {}", log.error.as_ref()?))).collect();
    lines.push(table_or(&["event", "last run", "started", "server"], logs.iter().map(row), NO_RUNS));
    Ok(CommandAnswer::text(lines.join("\n")).with_code(code))
}

fn log(schedule: &Schedule, event: &str, is_json: bool) -> Answered {
    #[derive(serde::Serialize)]
    struct Log {
        runs: Vec<LoggedRun>,
        skips: Vec<SkipCount>,
        waiting: Vec<Holder>,
    }
    let definition = schedule.event(event)?;
    // Other processes may have written a log, even if this schedule keeps none.
    let log = Log {
        runs: schedule.runs_of(&definition)?,
        skips: schedule.skips_of(&definition)?,
        waiting: waiting_for(&definition)?,
    };
    if is_json {
        return CommandAnswer::json(&log);
    }
    let Log { runs, skips, waiting } = log;
    let now = Clock::system().now();
    let row = |run: &LoggedRun| {
        let record = run.record();
        let (ended, is_well) = how_it_ended(run);
        let took = record.end().map(|end| end.at() - record.started_at()).and_then(|took| took.to_std().ok());
        vec![
            time(record.started_at(), now).into(),
            marked(ended, is_well),
            took.map_or_else(String::new, |took| HumanDuration(took).to_string()).into(),
            record.process().into(),
            OneLine(record.end().and_then(|end| end.error()).unwrap_or_default()).into(),
        ]
    };
    let none = if runs.is_empty() { NO_RUNS.to_owned() + &others_like(schedule, event) } else { String::new() };
    let table = table_or(&["started", "result", "took", "server", "error"], runs.iter().map(row), &none);
    let skipped = |skip: &SkipCount| {
        let (count, reason) = (skip.count(), skip.reason().replace('_', " "));
        format!("\nskipped, {reason}: {count}, the latest at {}", time(skip.latest(), now))
    };
    let waits = |holder: &Holder| format!("\nwaiting: {}", holding(holder, now));
    let more: String = skips.iter().map(skipped).chain(waiting.iter().map(waits)).collect();
    Ok(CommandAnswer::text(table.trim_end().to_owned() + &more))
}

/// Returns the end of a message, which suggests a logged event with a similar name.
fn others_like(schedule: &Schedule, event: &str) -> String {
    let logged = schedule.logged_events().unwrap_or_default();
    like(event, logged.iter().map(String::as_str).filter(|logged| *logged != event))
}

fn locks(stores: &[&dyn EventMutex], prefix: &str, is_json: bool) -> Answered {
    let mut held = Vec::new();
    for store in stores {
        held.extend(store.held(Names::LeasesWithPrefix(prefix))?);
    }
    if is_json {
        let lock = |held: &Held| LockForm { name: held.name().mutex().to_owned(), held_by: held.holder().cloned() };
        return CommandAnswer::json(&held.iter().map(lock).collect::<Vec<_>>());
    }
    let now = Clock::system().now();
    let row = |held: &Held| {
        let name = OneLine(held.name().mutex()).into();
        let Some(holder) = held.holder() else {
            return vec![name, "not known".into(), "not known".into(), "not known".into()];
        };
        let until = if holder.has_ended() { until_its_command_ends(holder) } else { time(holder.until(), now) };
        let by = holder.process_and_application();
        let since = time(holder.since(), now);
        vec![name, by.into(), since.into(), marked(until, holder.has_ended().then_some(false))]
    };
    let heads = ["name", "held by", "since", "until, unless renewed"];
    let nothing = match prefix {
        "" => "nothing is held".to_owned(),
        _ => format!("no held name begins with {}{}", Quoted::new(prefix), held_like(stores, prefix)),
    };
    Ok(CommandAnswer::text(table_or(&heads, held.iter().map(row), &nothing)))
}

fn pause(schedule: &Schedule, event: Option<&str>, arguments: &ArgMatches) -> Answered {
    let (length, why) = (duration_of(arguments, "for").unwrap_or_default(), text(arguments, "why"));
    let is_number = |text: &OsStr| text.to_str().is_some_and(|text| text.parse::<f64>().is_ok());
    let number = arguments.get_raw("for").and_then(|mut values| values.next()).filter(|text| is_number(text));
    if let (Some(number), Some(unit)) = (number, event.filter(|event| is_unit_of_time(event))) {
        let time = format_args!("{} {unit}", number.display());
        return Err(CommandFailure::usage(format_args!("a time with a space needs quotes: write `--for '{time}'`")));
    }
    if length.is_zero() {
        let message = "`--for 0` is no time for a pause: use `90s`, `2h` and the like; `resume` ends a pause";
        return Err(CommandFailure::usage(message));
    }
    let now = Clock::system().now();
    let until = TimeDelta::from_std(length).ok().and_then(|length| now.checked_add_signed(length));
    let until = until.unwrap_or(DateTime::<Utc>::MAX_UTC);
    if let Some(event) = event.filter(|event| parse_duration(event).is_ok()) {
        let message = format!("{} is a time, and no event: write `pause --for {event}`", Quoted::new(event));
        return Err(CommandFailure::usage(message));
    }
    match event {
        None => schedule.pause(until, why)?,
        Some(event) => schedule.pause_event(event, until, why)?,
    }
    let (what, until) = (pause_target(schedule, event), for_people(until));
    let resume = resume_line(event, arguments);
    let is_pattern = event.is_some_and(|event| event.contains('*'));
    let note = if is_pattern { "; this is one name, not a pattern: `pause` without a name pauses all" } else { "" };
    Ok(CommandAnswer::text(format!("{what} is paused until {until}; `{resume}` ends it{note}")))
}

/// Returns the command that ends a pause, as a line for a shell. If the user gave `--schedule`, the line has it, too.
fn resume_line(event: Option<&str>, arguments: &ArgMatches) -> String {
    // A program with a schedule of its own has no such argument.
    let is_known = arguments.try_contains_id("schedule").is_ok();
    let is_given = is_known && arguments.value_source("schedule") == Some(ValueSource::CommandLine);
    let schedule = is_given.then(|| format!(" --schedule {}", shell_word(text(arguments, "schedule"))));
    let event = event.map_or_else(String::new, |event| format!(" {}", shell_word(event)));
    format!("resume{event}{}", schedule.unwrap_or_default())
}

/// Returns a name as one word for a shell: in single quotes if a character of the name may have a meaning there.
fn shell_word(name: &str) -> String {
    let name = OneLine(name).to_string();
    let is_plain = |char: char| char.is_alphanumeric() || "-_./:@%+,".contains(char);
    if name.chars().all(is_plain) { name } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

/// Returns the schedule or the event of a pause, as a text. The text always names the schedule, because a pause stops
/// only the schedule with that name.
fn pause_target(schedule: &Schedule, event: Option<&str>) -> String {
    let of = event.map_or_else(String::new, |event| format!("{} of ", OneLine(event)));
    format!("{of}the schedule {}", Named(schedule.pause_name()))
}

/// Returns the end of a message about a missing pause. If the user named no application, the pause may be in another
/// one.
fn default_application(arguments: &ArgMatches) -> &'static str {
    // A program with a schedule of its own has no such argument.
    let is_known = arguments.try_contains_id("schedule").is_ok();
    if is_known && arguments.value_source("schedule") == Some(ValueSource::DefaultValue) {
        "; `soloist` is the default: for another application, set SOLOIST_APP or --schedule"
    } else {
        ""
    }
}

fn resume(schedule: &Schedule, event: Option<&str>, arguments: &ArgMatches) -> Answered {
    let was_paused = match event {
        None => schedule.resume()?,
        Some(event) => schedule.resume_event(event)?,
    };
    let what = pause_target(schedule, event);
    if was_paused {
        return Ok(CommandAnswer::text(format!("{what} is resumed")));
    }
    let line = |event: Option<&str>| resume_line(event, arguments);
    let other =
        |(name, _): &(String, Pause)| format!("; its event {} is paused: write `{}`", OneLine(name), line(Some(name)));
    let others: String = match event {
        None => schedule.paused_events().unwrap_or_default().iter().map(other).collect(),
        Some(_) if schedule.paused()?.is_some() => format!("; the whole schedule is paused: write `{}`", line(None)),
        Some(_) => String::new(),
    };
    let others = if others.is_empty() { default_application(arguments) } else { &others };
    Ok(CommandAnswer::text(format!("{what} was not paused{others}")).with_code(FAILED))
}

/// Lists the pause of the schedule, and the pause of this event. Without an event, lists the pauses of all events.
fn paused(schedule: &Schedule, event: Option<&str>, default: &str) -> Answered {
    let is = |event: Option<&str>, pause: &Pause| format!("{} is {pause}", pause_target(schedule, event));
    let mut pauses: Vec<String> = schedule.paused()?.iter().map(|pause| is(None, pause)).collect();
    match event {
        None => pauses.extend(schedule.paused_events()?.iter().map(|(name, pause)| is(Some(name), pause))),
        Some(name) => pauses.extend(schedule.paused_event(name)?.map(|pause| is(event, &pause))),
    }
    if pauses.is_empty() {
        let what = match event {
            None => format!("nothing on {} is paused", pause_target(schedule, None)),
            Some(_) => format!("{} is not paused", pause_target(schedule, event)),
        };
        return Ok(CommandAnswer::text(what + default).with_code(FAILED));
    }
    Ok(CommandAnswer::text(pauses.join("\n")))
}

fn check(schedule: &Schedule) -> Answered {
    let warnings = schedule.check()?;
    if warnings.is_empty() {
        return Ok(CommandAnswer::text("the store answers, and nothing is wrong with it"));
    }
    let lines: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    Ok(CommandAnswer::text(lines.join("\n")).with_code(FAILED))
}
