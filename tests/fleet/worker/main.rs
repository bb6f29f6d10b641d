//! A server of a fleet: ticks a schedule of one event, and logs each step as one JSON object a line. It ends in
//! order on SIGTERM, SIGINT, SIGQUIT and SIGHUP.
//!
//! Start several on one store to see them share the work:
//!
//! ```text
//! cargo run --example worker -- --store file:/tmp/fleet --on-one-server --without-overlapping --ticks 3
//! ```

#[cfg(feature = "tokio")]
mod watched;

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use lexopt::ValueExt;
use serde_json::{Value, json};
use soloist::{
    CancelReason, Entry, Event, Overlap, Period, Report, Retry, Run, Schedule, Shutdown, TaskResult, Verdict,
};

const USAGE: &str = "usage: worker --store URL [options]
  --store URL                      memory:, file:/path, or with the feature that is called so redis://host,
                                   mysql://user:password@host/database or postgres://user:password@host/database
  --create-table                   makes the table of the store in a database, if it is not there
  --event NAME                     the name of the event (report)
  --cron EXPR                      its timetable (* * * * *)
  --every-second                   its timetable is each second, instead of --cron
  --timezone NAME                  the zone whose clocks its timetable means: Europe/Berlin, +02:00, local … (UTC)
  --now RFC3339                    the instant of the first tick; each further one is a minute later
                                   (without it, every tick is at the real time)
  --without-overlapping[=SECONDS]  one run at a time; for so long at the most, if it is said
  --term SECONDS                   how long its lease is, which is renewed while the task runs (60)
  --hold-at-least SECONDS          for how long it is held, however soon the task has ended
  --at-most N                      N runs at a time, instead of --without-overlapping
  --mutex-name NAME                its lease and its queue have this name; those of several events are shared
  --on-one-server                  each occurrence starts once
  --once-per PERIOD                of the occurrences in an hour, day, week or month one starts
  --on-overlap POLICY              of the occurrences that meet a run, one waits for its turn (queue-one), or as many as N
                                   (queue-all=N), or the run is told to stop (replace); it goes with --without-overlapping
  --catch-up SECONDS               an occurrence that nobody ran is made up for within so long, 60 at least; it goes with
                                   --on-one-server or --once-per
  --catch-up-all SECONDS           each occurrence that nobody ran is made up for within so long, the latest 1000; it goes with
                                   --on-one-server
  --from RFC3339                   it is not due before this
  --retry N                        a failed task is started again, so many times
  --retry-after-ms N               so long after it failed (1000)
  --fails N                        so many attempts of each run fail, if it is no --exec
  --filtered                       it has a filter, which allows each occurrence
  --work-ms N                      how long the task takes (0)
  --until FOLDER                   the task takes until this folder has a file that is called as its event is, or is gone
  --stubborn                       the task takes as long when it is cancelled
  --async                          the task is a future, which also says if it is polled when its lease is over (feature tokio)
  --exec LINE                      the task is this line of the shell
  --drain-ms N                     how long runs may go on when the process is to end, before they are told to stop (0)
  --grace-ms N                     how long a command or a future may take to stop, and a callback at a shutdown (5000)
  --events N                       N such events, one after another (NAME, NAME-2, NAME-3 …)
  --in-background N                N such events, beside one another on threads of their own
  --log FILE                       appended to (standard output); `at` is in nanoseconds since 1970
  --ticks N                        how many ticks (1)
  --every-ms N                     how far apart they are in real time (60000)
  --work                           ticks when there is something to do, until a signal ends it, without --now, --ticks
                                   and --every-ms
  --named NAME                     the name of its schedule, by which example `pause` pauses it
  --run-log N                      the store keeps a log of the last N runs of each event";

/// The most occurrences that are made up for in one tick.
const MOST_MADE_UP: usize = 1000;

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => return refuse(&*error),
    };
    let log = Arc::clone(&options.log);
    let schedule = match schedule(&options) {
        Ok(schedule) => schedule,
        Err(error) => return refuse(&*error),
    };
    let failed = if options.loops { work(&options, schedule, &log) } else { tick(&options, &schedule, &log) };
    options.shutdown.finish();
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn refuse(error: &dyn Error) -> ExitCode {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    complain(format_args!("{text} (see --help)"));
    ExitCode::from(2)
}

/// Writes to standard error. The macro for that panics if it can't be written to.
fn complain(why: impl Display) {
    let _ = writeln!(io::stderr(), "worker: {why}");
}

#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Options {
    store: String,
    create_table: bool,
    event: String,
    cron: String,
    every_second: bool,
    timezone: Option<String>,
    now: Option<DateTime<Utc>>,
    without_overlapping: bool,
    /// How long the lease is, if it is not renewed.
    fixed_term: Option<Duration>,
    at_most: Option<usize>,
    mutex_name: Option<String>,
    term: Option<Duration>,
    hold_at_least: Option<Duration>,
    on_one_server: bool,
    once_per: Option<Period>,
    on_overlap: Overlap,
    catch_up: Option<Duration>,
    catch_up_all: Option<Duration>,
    from: Option<DateTime<Utc>>,
    retry: Option<u32>,
    retry_after: Duration,
    fails: u32,
    filtered: bool,
    work: Duration,
    until: Option<PathBuf>,
    stubborn: bool,
    is_async: bool,
    exec: Option<OsString>,
    drain: Duration,
    grace: Duration,
    events: Option<u32>,
    in_background: Option<u32>,
    shutdown: Shutdown,
    log: Arc<Log>,
    ticks: Option<u64>,
    every: Option<Duration>,
    loops: bool,
    named: Option<String>,
    run_log: Option<usize>,
}

impl Options {
    /// Returns the options that no argument sets.
    fn without_arguments() -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            store: String::new(),
            create_table: false,
            event: "report".into(),
            cron: "* * * * *".into(),
            every_second: false,
            timezone: None,
            now: None,
            without_overlapping: false,
            fixed_term: None,
            at_most: None,
            mutex_name: None,
            term: None,
            hold_at_least: None,
            on_one_server: false,
            once_per: None,
            on_overlap: Overlap::Skip,
            catch_up: None,
            catch_up_all: None,
            from: None,
            retry: None,
            retry_after: Duration::from_secs(1),
            fails: 0,
            filtered: false,
            work: Duration::ZERO,
            until: None,
            stubborn: false,
            is_async: false,
            exec: None,
            drain: Duration::ZERO,
            grace: Duration::from_secs(5),
            events: None,
            in_background: None,
            shutdown: Shutdown::on_signals()?,
            log: Arc::new(Log::StandardOutput),
            ticks: None,
            every: None,
            loops: false,
            named: None,
            run_log: None,
        })
    }

    /// Reads the arguments. `None`: they ask for help.
    fn parse() -> Result<Option<Self>, Box<dyn Error>> {
        use lexopt::prelude::*;

        let mut store = None;
        let mut options = Self::without_arguments()?;
        let mut arguments = lexopt::Parser::from_env();
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("store") => store = Some(arguments.value()?.string()?),
                Long("create-table") => options.create_table = true,
                Long("event") => options.event = arguments.value()?.string()?,
                Long("cron") => options.cron = arguments.value()?.string()?,
                Long("every-second") => options.every_second = true,
                Long("timezone") => options.timezone = Some(arguments.value()?.string()?),
                Long("now") => options.now = Some(arguments.value()?.parse()?),
                Long("without-overlapping") => {
                    options.without_overlapping = true;
                    options.fixed_term = arguments.optional_value().map(|value| seconds(&value)).transpose()?;
                }
                Long("at-most") => options.at_most = Some(arguments.value()?.parse()?),
                Long("mutex-name") => options.mutex_name = Some(arguments.value()?.string()?),
                Long("term") => options.term = Some(seconds(&arguments.value()?)?),
                Long("hold-at-least") => options.hold_at_least = Some(seconds(&arguments.value()?)?),
                Long("on-one-server") => options.on_one_server = true,
                Long("once-per") => options.once_per = Some(period(&arguments.value()?.string()?)?),
                Long("on-overlap") => options.on_overlap = overlap(&arguments.value()?.string()?)?,
                Long("catch-up") => options.catch_up = Some(seconds(&arguments.value()?)?),
                Long("catch-up-all") => options.catch_up_all = Some(seconds(&arguments.value()?)?),
                Long("from") => options.from = Some(arguments.value()?.parse()?),
                Long("retry") => options.retry = Some(arguments.value()?.parse()?),
                Long("retry-after-ms") => options.retry_after = Duration::from_millis(arguments.value()?.parse()?),
                Long("fails") => options.fails = arguments.value()?.parse()?,
                Long("filtered") => options.filtered = true,
                Long("work-ms") => options.work = Duration::from_millis(arguments.value()?.parse()?),
                Long("until") => options.until = Some(arguments.value()?.into()),
                Long("stubborn") => options.stubborn = true,
                #[cfg(feature = "tokio")]
                Long("async") => options.is_async = true,
                Long("exec") => options.exec = Some(arguments.value()?),
                Long("drain-ms") => options.drain = Duration::from_millis(arguments.value()?.parse()?),
                Long("grace-ms") => options.grace = Duration::from_millis(arguments.value()?.parse()?),
                Long("events") => options.events = Some(arguments.value()?.parse()?),
                Long("in-background") => options.in_background = Some(arguments.value()?.parse()?),
                Long("log") => options.log = Arc::new(Log::append_to(&arguments.value()?.string()?)?),
                Long("ticks") => options.ticks = Some(arguments.value()?.parse()?),
                Long("every-ms") => options.every = Some(Duration::from_millis(arguments.value()?.parse()?)),
                Long("work") => options.loops = true,
                Long("run-log") => options.run_log = Some(arguments.value()?.parse()?),
                Long("named") => options.named = Some(arguments.value()?.string()?),
                Long("help") | Short('h') => return Ok(None),
                _ => return Err(argument.unexpected().into()),
            }
        }
        options.store = store.ok_or("--store is missing")?;
        if options.exec.is_some() && (options.stubborn || options.until.is_some() || !options.work.is_zero()) {
            return Err("--exec goes with none of --work-ms, --until and --stubborn".into());
        }
        if options.is_async && (options.exec.is_some() || options.stubborn || options.until.is_some()) {
            return Err("--async goes with none of --exec, --until and --stubborn".into());
        }
        if options.loops && (options.now.is_some() || options.ticks.is_some() || options.every.is_some()) {
            return Err("--work ticks at the real time, and goes without --now, --ticks and --every-ms".into());
        }
        Ok(Some(options))
    }
}

fn seconds(value: &OsString) -> Result<Duration, Box<dyn Error>> {
    Ok(Duration::try_from_secs_f64(value.parse()?)?)
}

fn period(name: &str) -> Result<Period, Box<dyn Error>> {
    match name {
        "hour" => Ok(Period::Hour),
        "day" => Ok(Period::Day),
        "week" => Ok(Period::Week),
        "month" => Ok(Period::Month),
        _ => Err(format!("--once-per {name:?} is none of hour, day, week and month").into()),
    }
}

fn overlap(policy: &str) -> Result<Overlap, Box<dyn Error>> {
    match policy.split_once('=') {
        None if policy == "queue-one" => Ok(Overlap::QueueOne),
        None if policy == "replace" => Ok(Overlap::Replace),
        Some(("queue-all", places)) => Ok(Overlap::QueueAll(places.parse()?)),
        _ => Err(format!("--on-overlap {policy:?} is none of queue-one, queue-all=N and replace").into()),
    }
}

fn schedule(options: &Options) -> Result<Schedule, Box<dyn Error>> {
    // A command takes time to stop, and so do the steps after it.
    let ending = Duration::from_secs(if options.exec.is_some() { 5 } else { 0 });
    let shutdown = options.shutdown.clone().with_drain(options.drain).with_grace(options.grace + ending);
    let store = soloist::connect(&options.store)?;
    if options.create_table {
        create_table(&options.store)?;
    }
    let mut schedule = Schedule::new(store).with_shutdown(&shutdown);
    #[cfg(feature = "tokio")]
    if options.is_async {
        // The runtime drives them until this process ends.
        let runtime = Box::leak(Box::new(tokio::runtime::Runtime::new()?));
        schedule = schedule.with_runtime(runtime.handle().clone());
    }
    if let Some(keep) = options.run_log {
        schedule = schedule.with_run_log(keep)?;
    }
    if let Some(name) = &options.named {
        schedule = schedule.named(name.as_str())?;
    }
    for number in 1..=options.in_background.or(options.events).unwrap_or(1) {
        let name = if number == 1 { options.event.clone() } else { format!("{}-{number}", options.event) };
        let event = event(options, name);
        schedule.add(if options.in_background.is_some() { event.in_background() } else { event })?;
    }
    Ok(schedule)
}

/// Creates the table. A service does that when it is deployed, in a migration, and not at each start.
fn create_table(url: &str) -> Result<(), Box<dyn Error>> {
    match url.split(':').next() {
        #[cfg(feature = "mysql")]
        Some("mysql" | "mariadb") => Ok(soloist::MysqlMutex::new(url)?.create_table()?),
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(soloist::PostgresMutex::new(url)?.create_table()?),
        _ => Err("--create-table is for a store in a database".into()),
    }
}

fn event(options: &Options, name: String) -> Event {
    let mut event = match &options.exec {
        Some(line) => Event::exec(name, line).grace(options.grace),
        #[cfg(feature = "tokio")]
        None if options.is_async => future::event(options, name),
        None => Event::call(name, task(options)),
    };
    event = if options.every_second { event.every_second() } else { event.cron(&options.cron) };
    if options.without_overlapping && options.at_most.is_none() {
        event = match options.fixed_term {
            None => event.without_overlapping(),
            Some(term) => event.without_overlapping_for(term),
        };
    }
    if let Some(count) = options.at_most {
        event = event.at_most(count);
    }
    if let Some(name) = &options.mutex_name {
        event = event.mutex_name(name.as_str());
    }
    if let Some(term) = options.term {
        event = event.lease_term(term);
    }
    if let Some(length) = options.hold_at_least {
        event = event.hold_at_least(length);
    }
    if options.on_one_server {
        event = event.on_one_server();
    }
    if let Some(period) = options.once_per {
        event = event.once_per(period);
    }
    if options.on_overlap != Overlap::Skip {
        event = event.on_overlap(options.on_overlap);
    }
    if let Some(window) = options.catch_up {
        event = event.catch_up(window);
    }
    if let Some(window) = options.catch_up_all {
        event = event.catch_up_all(window, MOST_MADE_UP);
    }
    if let Some(from) = options.from {
        event = event.from(from);
    }
    if let Some(times) = options.retry {
        event = event.retry(Retry::times(times).after(options.retry_after));
    }
    if options.filtered {
        event = event.when(|_| true);
    }
    if let Some(zone) = &options.timezone {
        event = event.timezone(zone);
    }
    event
}

/// Makes a task that takes some time, and logs its start and its end.
fn task(options: &Options) -> impl Fn(&Run) -> TaskResult + Send + Sync + 'static {
    let (log, work, stubborn) = (Arc::clone(&options.log), options.work, options.stubborn);
    let fails = options.fails;
    let until = options.until.clone();
    move |run: &Run| -> TaskResult {
        let say = |what, details| log.write(&line(run.name(), run.occurrence(), what, details));
        say(begin(run), run_details(run))?;
        let cancelled = match &until {
            Some(folder) => cancelled_before_its_end(folder, run),
            None if stubborn => {
                thread::sleep(work);
                None
            }
            None => run.wait_cancelled(work),
        };
        if let Some(reason) = cancelled {
            let mut details = run_details(run);
            details["reason"] = reason.keyword().into();
            say("cancelled", details)?;
            run.check()?;
        }
        say(end(run, fails), run_details(run))?;
        outcome(run, fails)
    }
}

/// Returns the word for the begin of an attempt.
fn begin(run: &Run) -> &'static str {
    if run.attempt() == 1 { "start" } else { "attempt" }
}

/// Returns the word for the end of an attempt, when so many fail.
fn end(run: &Run, fails: u32) -> &'static str {
    if run.attempt() <= fails { "fails" } else { "end" }
}

fn outcome(run: &Run, fails: u32) -> TaskResult {
    if run.attempt() <= fails { Err("it was told to fail".into()) } else { Ok(()) }
}

/// The task as a future.
#[cfg(feature = "tokio")]
mod future {
    use soloist::{Event, Run, TaskResult};

    use super::watched::Watched;
    use super::{Arc, Duration, Instant, Log, Options, begin, complain, end, line, outcome, run_details};

    /// How long it waits between two polls.
    const SLICE: Duration = Duration::from_millis(10);

    pub(super) fn event(options: &Options, name: String) -> Event {
        let (log, work, grace, fails) = (Arc::clone(&options.log), options.work, options.grace, options.fails);
        let task = move |run: Run| {
            let said = Arc::clone(&log);
            let say = move |run: &Run, what: &str| {
                let line = line(run.name(), run.occurrence(), what, run_details(run));
                said.write(&line).unwrap_or_else(|error| complain(format_args!("could not write the log: {error}")));
            };
            Watched::new(run.clone(), grace, perform(run, Arc::clone(&log), work, fails), say)
        };
        Event::spawn(name, task).grace(grace)
    }

    async fn perform(run: Run, log: Arc<Log>, work: Duration, fails: u32) -> TaskResult {
        let say = |what, details| log.write(&line(run.name(), run.occurrence(), what, details));
        let mut details = run_details(&run);
        details["reason"] = "future".into();
        say(begin(&run), details)?;
        let until = Instant::now() + work;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            tokio::select! {
                reason = run.cancelled() => {
                    let mut details = run_details(&run);
                    details["reason"] = reason.keyword().into();
                    say("cancelled", details)?;
                    run.check()?;
                }
                () = tokio::time::sleep(left.min(SLICE)) => {}
            }
        }
        say(end(&run, fails), run_details(&run))?;
        outcome(&run, fails)
    }
}

/// Waits for the file that ends it, and no longer than until the run is cancelled.
fn cancelled_before_its_end(folder: &Path, run: &Run) -> Option<CancelReason> {
    while folder.exists() && !folder.join(run.name()).exists() {
        if let Some(reason) = run.wait_cancelled(Duration::from_millis(5)) {
            return Some(reason);
        }
    }
    None
}

/// Runs the ticks; whether any report was a failure.
fn tick(options: &Options, schedule: &Schedule, log: &Log) -> bool {
    let started = Instant::now();
    let mut failed = false;
    let (ticks, every) = (options.ticks.unwrap_or(1), options.every.unwrap_or(Duration::from_secs(60)));
    for tick in 0..u32::try_from(ticks).unwrap_or(u32::MAX) {
        if options.shutdown.wait((every * tick).saturating_sub(started.elapsed())) {
            break;
        }
        let now = options.now.map_or_else(Utc::now, |first| first + TimeDelta::minutes(tick.into()));
        let report = schedule.run_due(now);
        failed |= tell(&report, log);
    }
    failed
}

/// Works until it is ended; whether any report was a failure.
fn work(options: &Options, schedule: Schedule, log: &Arc<Log>) -> bool {
    let failed = Arc::new(AtomicBool::new(false));
    let (noted, log) = (Arc::clone(&failed), Arc::clone(log));
    let told = move |report: &Report| {
        noted.fetch_or(tell(report, &log), Ordering::Relaxed);
    };
    schedule.on_report(told).work(&options.shutdown);
    failed.load(Ordering::Relaxed)
}

/// Logs what a report says and prints its failures; whether it was one.
fn tell(report: &Report, log: &Log) -> bool {
    let mut failed = report.is_failure();
    for entry in report.entries() {
        if let Some(line) = report_line(entry)
            && let Err(error) = log.write(&line)
        {
            complain(format_args!("could not write the log: {error}"));
            failed = true;
        }
    }
    report.failures().for_each(complain);
    failed
}

/// Returns the line that the task can't log itself: that it did not run, or failed.
fn report_line(entry: &Entry) -> Option<Value> {
    let (what, details) = match entry.verdict() {
        Verdict::Skipped(reason) => {
            let holder = reason.holder().map(ToString::to_string);
            ("skipped", json!({ "reason": reason.keyword(), "holder": holder, "text": reason.to_string() }))
        }
        Verdict::Ran(outcome) if outcome.is_failure() => {
            let lost_at = outcome.lease_lost_at().and_then(|at| at.timestamp_nanos_opt());
            ("failed", json!({ "text": outcome.to_string(), "lost_at": lost_at }))
        }
        Verdict::Ran(outcome) if let Some(by) = outcome.asked_to_stop_by() => {
            ("gave_way", json!({ "text": outcome.to_string(), "holder": by.to_string() }))
        }
        // A command can't log.
        Verdict::Ran(outcome) if outcome.exit_status().is_some() || outcome.attempts() > 1 => {
            ("ran", json!({ "text": outcome.to_string() }))
        }
        Verdict::Ran(_) => return None,
    };
    Some(line(entry.event(), entry.occurrence(), what, details))
}

fn run_details(run: &Run) -> Value {
    let late_ms = u64::try_from(run.lateness().as_millis()).unwrap_or(u64::MAX);
    json!({ "token": run.fencing_token().map(soloist::FencingToken::get), "slot": run.slot(), "late_ms": late_ms })
}

fn line(event: &str, occurrence: DateTime<Utc>, what: &str, details: Value) -> Value {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let mut line = json!({
        "at": u64::try_from(at).unwrap_or(u64::MAX),
        "pid": std::process::id(),
        "event": event,
        "what": what,
        "occurrence": occurrence.to_rfc3339_opts(SecondsFormat::AutoSi, true),
    });
    if let (Value::Object(line), Value::Object(details)) = (&mut line, details) {
        line.extend(details);
    }
    line
}

enum Log {
    StandardOutput,
    File(Mutex<File>),
}

impl Log {
    fn append_to(path: &str) -> io::Result<Self> {
        Ok(Self::File(Mutex::new(OpenOptions::new().append(true).create(true).open(path)?)))
    }

    /// Writes one line in one write, so that the lines of several processes don't mix.
    fn write(&self, line: &Value) -> io::Result<()> {
        let line = format!("{line}\n");
        match self {
            Self::StandardOutput => io::stdout().lock().write_all(line.as_bytes()),
            Self::File(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.write_all(line.as_bytes())?;
                file.flush()
            }
        }
    }
}
