//! The commands that need the events of a schedule.

use std::process::Termination;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::ArgMatches;
use comfy_table::Cell;

mod backfill_command;
mod live_view;

use backfill_command::backfill;
use live_view::LiveView;

use super::answer::{Answered, CommandAnswer, CommandFailure, FAILED, print_end};
use super::arguments::{duration_of, text};
use super::store_commands;
use super::tables::{how_it_ended, lines, marked, other_timetables, start_time, table, time};
use crate::base::escape::{Chain, Named, OneLine};
use crate::event::definition::{Definition, Start};
use crate::event::protection::claim::CLAIM_MARGIN;
use crate::lease::holder::Holder;
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::history::logged_run::RunState;
use crate::schedule::history::status::{EventStatus, Status};
use crate::schedule::report::{Entry, Verdict};
use crate::schedule::schedule::Schedule;
use crate::schedule::shutdown::Shutdown;
use crate::time::clock::shown::{ExactDuration, HumanDuration};
use crate::time::clock::{Clock, wall_plus};

const NO_EVENTS: &str = "the schedule has no events";

/// The largest number of due times that `next` lists. It is enough for an event that is due in every second of a day.
const MOST_LISTED: usize = 100_000;

/// An event, as `list --json` shows it.
#[derive(serde::Serialize)]
struct EventForm {
    name: String,
    timetable: String,
    zone: String,
    next_due: Vec<DateTime<Utc>>,
    next_occurrences: Vec<DateTime<Utc>>,
    is_over: bool,
    protections: Vec<String>,
    conditions: Vec<String>,
}

/// A due time of an event, as `next --json` shows it.
#[derive(serde::Serialize)]
struct DueForm {
    due: DateTime<Utc>,
    occurrence: DateTime<Utc>,
    event: String,
    zone: String,
}

pub(super) fn carry_out(name: &str, arguments: &ArgMatches, schedule: Schedule) -> Answered {
    let is_json = || arguments.get_flag("json");
    match name {
        "run" => run(schedule, arguments.get_flag("verbose")),
        "work" => work(schedule),
        "list" => list(&schedule, arguments.get_one::<u16>("next").copied().unwrap_or(1), is_json()),
        "next" => next(&schedule, duration_of(arguments, "for").unwrap_or_default(), is_json()),
        "run-one" => run_one(schedule, arguments),
        "backfill" => backfill(schedule, arguments, on_signals),
        "status" => status(&schedule.status(), is_json()),
        _ => store_commands::carry_out(name, arguments, &schedule),
    }
}

fn run(schedule: Schedule, verbose: bool) -> Answered {
    let shutdown = on_signals()?;
    let report = schedule.with_shutdown(&shutdown).run_minute(Clock::system().now());
    let code = if report.is_failure() { FAILED } else { 0 };
    if !verbose {
        // Prints the failures. If a signal began the shutdown, this call ends the process by that signal, and does not
        // return.
        let _ = report.report();
        return Ok(CommandAnswer::nothing().with_code(code));
    }
    print_end(&report.to_string(), code, &shutdown)
}

fn work(schedule: Schedule) -> Answered {
    let shutdown = on_signals()?;
    let (view, told) = LiveView::new();
    let schedule = schedule.observe(view.clone()).told_of_failures();
    let events = schedule.names().count();
    let first = format!("{events} {}; Ctrl-C ends this", if events == 1 { "event" } else { "events" });
    view.print_during(told, &schedule, &shutdown, &first, || schedule.work(&shutdown));
    shutdown.finish();
    Ok(CommandAnswer::nothing())
}

/// Returns the shutdown that the signals of this process trigger. Call this before a command starts.
pub(super) fn on_signals() -> Result<Shutdown, CommandFailure> {
    // This process may have inherited an ignored `SIGCHLD`, and could then read no exit status. So it restores the
    // default. A handler stays: the runtime of the application may need it.
    #[cfg(unix)]
    {
        use rustix::process::Signal;

        use crate::base::system::{SignalAction, is_ignored};

        if is_ignored(Signal::CHILD.as_raw()) {
            std::mem::forget(SignalAction::Default.of(Signal::CHILD));
        }
    }
    Shutdown::on_signals().map_err(|error| CommandFailure::saying(format_args!("can't listen to signals: {error}")))
}

fn run_one(schedule: Schedule, arguments: &ArgMatches) -> Answered {
    let event = text(arguments, "event");
    let wait = duration_of(arguments, "wait").unwrap_or_default();
    let shutdown = on_signals()?;
    let schedule = schedule.with_shutdown(&shutdown);
    let not_due = || {
        CommandFailure::saying(format_args!(
            "{} was not due in the last 5 minutes: run it without `--claim`",
            Named(event)
        ))
    };
    let now = Clock::system().now();
    let entry = if arguments.get_flag("claim") {
        // The run takes the claim of the last due time, so that no other server runs the event for that time.
        let due = schedule.last_due(event, now)?.ok_or_else(not_due)?;
        let wait = wait.min((due + CLAIM_MARGIN - now).to_std().unwrap_or_default());
        run_when_free(&schedule, event, wait, || schedule.run_last_due(event, now)?.ok_or_else(not_due))?
    } else {
        let past_filters = arguments.get_flag("ignore-filters");
        run_when_free(&schedule, event, wait, || schedule.run_by_hand(event, now, past_filters))?
    };
    let code = if entry.is_failure() || matches!(entry.verdict(), Verdict::Skipped(_)) { FAILED } else { 0 };
    print_end(&entry.to_string(), code, &shutdown)
}

/// Runs an event. If the event is running elsewhere, first waits for the end of that run, but not longer than `wait`.
pub(super) fn run_when_free<E>(
    schedule: &Schedule,
    event: &str,
    wait: Duration,
    run: impl Fn() -> Result<Entry, E>,
) -> Result<Entry, E> {
    /// The time between two reads of a store.
    const PAUSE: Duration = Duration::from_millis(200);
    let clock = Clock::system();
    let began = clock.moment();
    let until = began.plus(wait);
    let mut waited = None;
    loop {
        let mut entry = run()?;
        if let Verdict::Ran(outcome) = &mut entry.verdict
            && waited.is_some()
        {
            outcome.details_mut().waited = waited;
        }
        let is_taken =
            matches!(entry.verdict(), Verdict::Skipped(SkipReason::Overlapping(_) | SkipReason::Stuck { .. }));
        let left = || until.since(clock.moment());
        if !is_taken || left().is_zero() {
            return Ok(entry);
        }
        // A read costs less than an attempt, and notifies no observer. If the read fails, the next attempt reports the
        // error.
        loop {
            if schedule.is_shutting_down() {
                return Ok(entry);
            }
            thread::sleep(left().min(PAUSE));
            if left().is_zero() || !matches!(schedule.is_fully_held(event), Ok(true)) {
                break;
            }
        }
        waited = Some(clock.moment().since(began));
    }
}

fn list(schedule: &Schedule, count: u16, is_json: bool) -> Answered {
    let now = Clock::system().now();
    let events = schedule.definitions().into_iter().map(|event| {
        let starts: Vec<Start> = event.starts(now).take(count.into()).collect();
        (event, starts)
    });
    if is_json {
        let form = |(event, starts): (Arc<Definition>, Vec<Start>)| EventForm {
            name: event.name().to_owned(),
            timetable: event.timetable(),
            zone: event.zone().to_string(),
            next_due: starts.iter().map(|start| start.at).collect(),
            next_occurrences: starts.iter().map(|start| start.occurrence).collect(),
            is_over: event.is_over(starts.first()),
            protections: event.protections(),
            conditions: event.conditions(),
        };
        return CommandAnswer::json(&events.map(form).collect::<Vec<_>>());
    }
    let rows = events.map(|(event, starts)| {
        let time = |start: &Start| start_time(start.at, start.occurrence, now);
        let times: Vec<String> = starts.iter().map(time).collect();
        let times = if times.is_empty() { never(event.is_over(None)) } else { lines(&times) };
        // In the text of a protection, the details come after a comma. The table leaves them out.
        let words = event.protections().into_iter().map(|it| it.split(',').next().unwrap_or_default().to_owned());
        let protections = lines(&words.collect::<Vec<_>>());
        let conditions = lines(&event.conditions());
        vec![
            Named(event.name()).into(),
            event.timetable.in_words_and_zone().into(),
            times.into(),
            protections.into(),
            conditions.into(),
        ]
    });
    let heads = ["event", "timetable", "next due", "protections", "conditions"];
    Ok(CommandAnswer::text(table(&heads, rows, NO_EVENTS)))
}

fn next(schedule: &Schedule, within: Duration, is_json: bool) -> Answered {
    let now = Clock::system().now();
    let due: Vec<_> = schedule.starts_between(now..wall_plus(now, within)).take(MOST_LISTED + 1).collect();
    if due.len() > MOST_LISTED {
        return Err(CommandFailure::usage(format_args!(
            "more than {MOST_LISTED} times are due within {}: write a shorter `--for`",
            HumanDuration(within)
        )));
    }
    if is_json {
        let form = |(start, event): &(Start, Arc<Definition>)| DueForm {
            due: start.at,
            occurrence: start.occurrence,
            event: event.name().to_owned(),
            zone: event.zone().to_string(),
        };
        return CommandAnswer::json(&due.iter().map(form).collect::<Vec<_>>());
    }
    let rows = due
        .iter()
        .map(|(start, event)| vec![start_time(start.at, start.occurrence, now).into(), Named(event.name()).into()]);
    let nothing = format!("nothing is due within {}", ExactDuration(within));
    Ok(CommandAnswer::text(table(&["due", "event"], rows, &nothing)))
}

fn status(status: &Status, is_json: bool) -> Answered {
    let code = if status.store_errors.is_empty() { 0 } else { super::answer::STORE };
    if is_json {
        return Ok(CommandAnswer::json(status)?.with_code(code));
    }
    let mut lines: Vec<String> = status.store_errors.iter().map(|error| format!("store: {}", Chain(error))).collect();
    lines.extend(status.paused.as_ref().map(|pause| format!("the schedule is {pause}")));
    lines.extend(other_timetables(status));
    let rows = status.events.iter().map(|event| {
        let next = event.next_due.zip(event.next_occurrence);
        let next = next.map(|(at, occurrence)| start_time(at, occurrence, status.at));
        let next = next.unwrap_or_else(|| never(event.is_over));
        vec![Named(&event.name).into(), state(event), last_run(event, status), next.into()]
    });
    lines.push(table(&["event", "now", "last run", "next due"], rows, NO_EVENTS));
    Ok(CommandAnswer::text(lines.join("\n")).with_code(code))
}

fn never(is_over: bool) -> String {
    if is_over { "never again" } else { "never" }.to_owned()
}

/// Returns the state of an event in the fleet: its holders, the waiting runs, and its pause.
fn state(event: &EventStatus) -> Cell {
    let first_of = |holders: &[Holder]| match holders {
        [] => None,
        [first] => Some(first.to_string()),
        [first, more @ ..] => Some(format!("{first}, and {} more", more.len())),
    };
    let waiting = event.waiting.as_deref().and_then(first_of);
    let waiting = waiting.map_or_else(String::new, |first| format!("; waiting: {first}"));
    let held = match event.held_by.as_deref() {
        None if event.mutex.is_none() => "no lease".to_owned(),
        None => "not known".to_owned(),
        Some(holders) => first_of(holders).map_or_else(|| "idle".to_owned(), |first| format!("held by {first}")),
    };
    let is_held = event.held_by.as_ref().is_some_and(|holders| !holders.is_empty());
    match &event.paused {
        None => marked(held + &waiting, is_held.then_some(true)),
        Some(pause) => marked(format!("{held}{waiting}; {pause}"), Some(false)),
    }
}

/// Returns the result of the last run in the fleet, if there is a log of runs.
fn last_run(event: &EventStatus, status: &Status) -> Cell {
    let Some(log) = &event.log else {
        return if status.store_errors.is_empty() { "no run log".into() } else { "not known".into() };
    };
    let Some(run) = log.iter().find(|run| run.state() != RunState::Running) else { return "none yet".into() };
    let record = run.record();
    let (ended, is_well) = how_it_ended(run);
    marked(
        format!(
            "{ended} on {}, {}",
            OneLine(record.instance().unwrap_or(record.host())),
            time(record.started_at(), status.at)
        ),
        is_well,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::base::error::MutexError;
    use crate::event::event_builder::Event;
    use crate::lease::name::MutexName;
    use crate::lease::request::{Lease, LeaseRequest};
    use crate::lease::term::Term;
    use crate::store::event_mutex::EventMutex;
    use crate::store::event_mutex::held::{Held, Names};
    use crate::store::memory::MemoryMutex;
    use crate::time::clock::manual::ManualClock;

    fn taken(store: &impl EventMutex, name: MutexName) -> Lease {
        let request = LeaseRequest::new(name, Term::MAX, &store.clock());
        store.create(&request).unwrap().expect("it is free")
    }

    #[test]
    fn whoever_waits_runs_when_any_slot_is_free() {
        let (store, lease) = (MemoryMutex::new(), MutexName::lease("resize").unwrap());
        let slots: Vec<Lease> = lease.slots(2).into_iter().map(|slot| taken(&store, slot)).collect();
        let schedule = Schedule::new(store.clone());
        schedule.add(Event::call("resize", |run| assert_eq!(run.slot(), Some(1))).hourly().at_most(2)).unwrap();
        let (ends, ended) = mpsc::channel();
        thread::spawn(move || {
            let run = || {
                let entry = schedule.run_event("resize", DateTime::UNIX_EPOCH);
                let _ = store.forget(&slots[1]);
                entry
            };
            let entry = run_when_free(&schedule, "resize", Duration::from_secs(3600), run);
            let _ = ends.send(entry);
        });
        let entry = ended.recv_timeout(Duration::from_secs(30)).expect("it waits for no other slot").unwrap();
        assert!(matches!(entry.verdict(), Verdict::Ran(_)), "{entry}");
    }

    #[test]
    fn the_status_shows_another_timetable_that_lasts() {
        let clock = ManualClock::at(DateTime::UNIX_EPOCH);
        let store = MemoryMutex::with_clock(&clock);
        let server = |event: fn(Event) -> Event| {
            let schedule = Schedule::new(store.clone()).with_clock(&clock);
            schedule.add(event(Event::call("import", |_| {}).on_one_server())).unwrap();
            schedule
        };
        let [first, second] = [server(Event::every_fifteen_minutes), server(Event::every_five_minutes)];
        let line = "import has another timetable on ";
        for quarter in 0..=5 {
            let _ = [&first, &second].map(|schedule| schedule.run_due(clock.now()));
            let shown = status(&second.status(), false).ok().unwrap().text;
            assert_eq!(shown.contains(line), quarter >= 4, "{shown}");
            clock.advance(Duration::from_secs(15 * 60));
        }
        let shown = status(&second.status(), false).ok().unwrap().text;
        assert!(shown.lines().next().is_some_and(|line| line.ends_with(": every 15 minutes, UTC")), "{shown}");
    }

    /// A store that grants leases, but can't be read.
    #[derive(Debug)]
    struct Unreadable(MemoryMutex);

    impl EventMutex for Unreadable {
        fn inner(&self) -> Option<&dyn EventMutex> {
            Some(&self.0)
        }
        fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
            self.0.create(request)
        }
        fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
            Err(MutexError::unavailable(format!("read {name}"), "this user may not read"))
        }
        fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
            self.0.forget(lease)
        }
        fn held(&self, _: Names<'_>) -> Result<Vec<Held>, MutexError> {
            Err(MutexError::unavailable("read", "this user may not read"))
        }
    }

    #[test]
    fn a_store_that_can_not_be_read_is_not_asked_without_a_pause() {
        let store = Arc::new(Unreadable(MemoryMutex::new()));
        taken(&store, MutexName::lease("job").unwrap());
        let schedule = Schedule::new(store);
        schedule.add(Event::call("job", |_| {}).hourly().without_overlapping()).unwrap();
        let attempts = AtomicUsize::new(0);
        let run = || {
            attempts.fetch_add(1, Ordering::SeqCst);
            schedule.run_event("job", DateTime::UNIX_EPOCH)
        };
        let entry = run_when_free(&schedule, "job", Duration::from_secs(1), run).unwrap();
        assert!(matches!(entry.verdict(), Verdict::Skipped(SkipReason::Overlapping(_))), "{entry}");
        assert!((2..=6).contains(&attempts.into_inner()), "the first, and five a second");
    }
}
