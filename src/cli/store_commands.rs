//! The commands that need a store, but no events.

use std::cmp::Reverse;
use std::sync::Arc;

use clap::ArgMatches;

use super::answer::{Answered, CommandAnswer, CommandFailure, FAILED, STORE, USAGE};
use super::arguments::{duration_of, parse_duration, text};
use super::tables::{how_it_ended, marked, table, time};
use super::unlock::unlock;
use crate::base::escape::{Chain, Named, OneLine, Quoted};
use crate::event::event_builder::Event;
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
use crate::time::clock::{Clock, shown::HumanDuration, shown::for_people, wall_plus};

/// The name of the application, unless the user names one.
const DEFAULT_APPLICATION: &str = "soloist";

const NO_RUNS: &str =
    "no run is on record: `soloist run --log 20` keeps the last 20 runs, and so does `with_run_log(20)` of a schedule";
const NO_RUNS_OF_IT: &str = "no run of this event is on record: `log` without a name lists the events that have a log";

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
        "unlock" => unlock(&stores(), arguments),
        "paused" => paused(schedule, event()),
        "pause" => pause(schedule, event(), arguments),
        "resume" => resume(schedule, event()),
        "check" => check(schedule),
        // The parser of a schedule has no other command, so these are the matches of another parser.
        _ => Err(CommandFailure::saying(format_args!(
            "a schedule has no command `{name}`: pass `run_matches` the matches of the subcommand that `cli::command` made, \
             as in `matches.subcommand_matches(\"{name}\")`"
        ))),
    }
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
    match arguments.get_one::<String>("schedule") {
        None => schedule.paused_as(DEFAULT_APPLICATION.into()),
        Some(name) => schedule.named(name.as_str()),
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
    lines.push(table(&["event", "last run", "started", "server"], logs.iter().map(row), NO_RUNS));
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
    let table = table(&["started", "result", "took", "server", "error"], runs.iter().map(row), NO_RUNS_OF_IT);
    let skipped = |skip: &SkipCount| {
        let (count, reason) = (skip.count(), skip.reason().replace('_', " "));
        format!("\nskipped, {reason}: {count}, the latest at {}", time(skip.latest(), now))
    };
    let waits = |holder: &Holder| format!("\nwaiting: {holder}");
    let more: String = skips.iter().map(skipped).chain(waiting.iter().map(waits)).collect();
    Ok(CommandAnswer::text(table.trim_end().to_owned() + &more))
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
        let until = if holder.has_ended() { "its command ends".to_owned() } else { time(holder.until(), now) };
        let by = holder.process_and_application();
        let since = time(holder.since(), now);
        vec![name, by.into(), since.into(), marked(until, holder.has_ended().then_some(false))]
    };
    let heads = ["name", "held by", "since", "until, unless renewed"];
    let nothing = match prefix {
        "" => "nothing is held".to_owned(),
        _ => format!("no held name begins with {}", Quoted::new(prefix)),
    };
    Ok(CommandAnswer::text(table(&heads, held.iter().map(row), &nothing)))
}

fn pause(schedule: &Schedule, event: Option<&str>, arguments: &ArgMatches) -> Answered {
    let length = duration_of(arguments, "for").unwrap_or_default();
    let why = text(arguments, "why");
    let until = wall_plus(Clock::system().now(), length);
    if let Some(event) = event.filter(|event| parse_duration(event).is_ok()) {
        let message = format!("{} is a time, and no event: write `pause --for {event}`", Quoted::new(event));
        return Err(CommandFailure::usage(message));
    }
    let typed = arguments.get_raw("for").and_then(|mut values| values.next()?.to_str()).unwrap_or_default();
    let time = event.map(|unit| format!("{typed} {unit}")).filter(|time| parse_duration(time).is_ok());
    if let Some(time) = time {
        return Err(CommandFailure::usage(format!("a time with a space needs quotes: write `--for '{time}'`")));
    }
    match event {
        None => schedule.pause(until, why)?,
        Some(event) => schedule.pause_event(event, until, why)?,
    }
    let (what, until) = (pause_target(schedule, event), for_people(until));
    let of_event = event.map_or_else(String::new, |event| format!(" {}", OneLine(event)));
    Ok(CommandAnswer::text(format!("{what} is paused until {until}; `resume{of_event}` ends the pause")))
}

/// Returns the end of the message about a missing pause. Without a name of an application, the pause may belong to
/// another one.
fn other_application(schedule: &Schedule) -> &'static str {
    if schedule.pause_name() == DEFAULT_APPLICATION {
        "; another application is named by --schedule or SOLOIST_APP"
    } else {
        ""
    }
}

/// Returns the schedule or the event of a pause, as a text. The text always names the schedule, because a pause stops
/// only the schedule with that name.
fn pause_target(schedule: &Schedule, event: Option<&str>) -> String {
    let of = event.map_or_else(String::new, |event| format!("{} of ", OneLine(event)));
    format!("{of}the schedule {}", Named(schedule.pause_name()))
}

fn resume(schedule: &Schedule, event: Option<&str>) -> Answered {
    let was_paused = match event {
        None => schedule.resume()?,
        Some(event) => schedule.resume_event(event)?,
    };
    let what = pause_target(schedule, event);
    Ok(if was_paused {
        CommandAnswer::text(format!("{what} is resumed"))
    } else {
        let other = other_application(schedule);
        CommandAnswer::text(format!("{what} was not paused; `paused` lists the pauses{other}")).with_code(FAILED)
    })
}

/// Lists the pause of the schedule, and the pause of this event. Without an event, lists the pauses of all events.
fn paused(schedule: &Schedule, event: Option<&str>) -> Answered {
    let is = |event: Option<&str>, pause: &Pause| format!("{} is {pause}", pause_target(schedule, event));
    let mut pauses: Vec<String> = schedule.paused()?.iter().map(|pause| is(None, pause)).collect();
    match event {
        None => pauses.extend(schedule.paused_events()?.iter().map(|(name, pause)| is(Some(name), pause))),
        Some(name) => pauses.extend(schedule.paused_event(name)?.map(|pause| is(event, &pause))),
    }
    if pauses.is_empty() {
        let what = pause_target(schedule, event);
        return Ok(CommandAnswer::text(match event {
            None => format!("nothing on {what} is paused{}", other_application(schedule)),
            Some(_) => format!("{what} is not paused{}", other_application(schedule)),
        })
        .with_code(FAILED));
    }
    Ok(CommandAnswer::text(pauses.join("\n")))
}

fn check(schedule: &Schedule) -> Answered {
    // The usual message of an outage would point to `check` itself.
    let warnings = schedule.check().map_err(|error| CommandFailure::new(&error).with_code(STORE))?;
    if warnings.is_empty() {
        let is_in_memory = schedule.stores().iter().any(|store| store.scope == Scope::Process);
        return Ok(CommandAnswer::text(if is_in_memory {
            "the store answers; a store in memory protects its events in this process only"
        } else {
            "the store answers, and nothing is wrong with it"
        }));
    }
    let lines: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    Ok(CommandAnswer::text(lines.join("\n")).with_code(FAILED))
}
