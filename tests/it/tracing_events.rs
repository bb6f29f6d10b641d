//! The events for subscribers of `tracing`, compared with the table in the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use signal_hook::consts::SIGTERM;
use soloist::observe::{Notice, Step};
use soloist::store::LeaseRequest;
use soloist::testing::TestStore;
use soloist::time::{Clock, ManualClock};
use soloist::{
    Event, EventMutex, FileMutex, LeaseGuard, MemoryMutex, MutexName, OutagePolicy, Overlap, Period, Retry, Run,
    Schedule, Shutdown, Term,
};
use tracing::field::{Field, Visit};
use tracing::span::Attributes;
use tracing::{Id, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::scripted::Scripted;
use crate::support::{HOUR, NO_THREADS, Unspeakable, noon, output_alone, ran, run_alone, until, with_subscriber};

/// By name of the span or message of the event: its level, and every field that was ever set.
type Told = BTreeMap<String, (String, BTreeSet<String>)>;

#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Told>>);

#[derive(Default)]
struct Fields {
    message: Option<String>,
    names: BTreeSet<String>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // As subscribers do that write it down.
        let value = format!("{value:?}");
        if field.name() == "message" {
            self.message = Some(value);
        } else {
            self.names.insert(field.name().to_owned());
        }
    }
}

impl Listener {
    fn has_heard(&self, name: &str) -> bool {
        self.0.lock().expect("nothing panics while it is held").contains_key(name)
    }

    fn write_down(&self) {
        println!(); // libtest's line is not ended yet
        for (name, (level, fields)) in &*self.0.lock().unwrap() {
            let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
            println!("{MARK}{name}` | {level} | {} |", fields.join(", "));
        }
    }

    fn record(&self, name: String, level: tracing::Level, fields: Fields) {
        let mut told = self.0.lock().expect("nothing panics while it is held");
        let entry = told.entry(name).or_insert_with(|| (level.to_string().to_lowercase(), BTreeSet::new()));
        assert_eq!(entry.0, level.to_string().to_lowercase(), "one message, one level");
        entry.1.extend(fields.names);
    }
}

impl<S: Subscriber> Layer<S> for Listener {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        self.record(format!("span {}", attributes.metadata().name()), *attributes.metadata().level(), fields);
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.message.clone().expect("every event has a message");
        let is_last = message == "left behind";
        self.record(message, *event.metadata().level(), fields);
        if is_last {
            self.write_down();
        }
    }
}

/// Returns a store that admits, and then does not answer.
fn deaf(inner: MemoryMutex) -> Scripted {
    let store = Scripted::over(inner).in_steps();
    store.before(|call| if ["forget", "extend"].contains(&call.verb) { call.times_out() } else { Ok(()) })
}

/// Returns a store that panics.
fn broken() -> Scripted {
    Scripted::default().three_methods().before(|_| panic!("index out of bounds"))
}

/// Returns the rows of the table in the documentation: name, level, fields.
fn documented() -> Told {
    let text = include_str!("../../docs/guide/logs.md");
    text.lines().filter_map(|line| line.strip_prefix("| `")).map(row_of).collect()
}

/// Reads a row of a table, from behind the mark that begins its name.
fn row_of(row: &str) -> (String, (String, BTreeSet<String>)) {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let fields = cells[2].split(", ").filter(|field| !field.is_empty());
    let fields = fields.map(|field| field.trim_matches('`').to_owned()).collect();
    (cells[0].trim_end_matches('`').to_owned(), (cells[1].to_owned(), fields))
}

/// The prefix of the lines that the processes write for the next test.
const MARK: &str = "told | ";

/// Says to one of them that it is to end.
const ENDS: &str = "SOLOIST_TEST_ENDS";

/// The name of each process, beside host and process id.
const INSTANCE: (&str, &str) = ("SOLOIST_INSTANCE", "web-1");

/// Listens to all threads, also those outside any run. So each role is played in a process of its own; in one of
/// them no thread can be started.
#[test]
fn the_documented_table_is_what_subscribers_are_told() {
    let name = "tracing_events::the_documented_table_is_what_subscribers_are_told";
    let end = || output_alone(name, &[INSTANCE, (ENDS, "1")]);
    let (Some(with_threads), Some(without), Some(mut ended)) =
        (run_alone(name, &[INSTANCE]), run_alone(name, &[INSTANCE, NO_THREADS]), end())
    else {
        return tell_everything();
    };
    // A process that ends waits for its subscribers for half a second. A machine that stood still meanwhile has shown
    // nothing.
    for _ in 0..4 {
        if !String::from_utf8_lossy(&ended.stdout).contains(MARK) {
            ended = end().expect("this is the first process");
        }
    }
    assert_eq!(ended.status.signal(), Some(SIGTERM), "{ended:?}");
    let ended = String::from_utf8_lossy(&ended.stdout);
    let mut told = Told::new();
    let lines = with_threads.lines().chain(without.lines()).chain(ended.lines());
    for row in lines.filter_map(|line| line.strip_prefix(MARK)) {
        let (name, (level, fields)) = row_of(row);
        let entry = told.entry(name).or_insert_with(|| (level.clone(), BTreeSet::new()));
        assert_eq!(entry.0, level, "one message, one level");
        entry.1.extend(fields);
    }
    for (name, expected) in documented() {
        assert_eq!(told.remove(&name).as_ref(), Some(&expected), "{name}");
    }
    assert_eq!(told, Told::new(), "these are not in the table");
}

fn tell_everything() {
    let listener = Listener::default();
    tracing::subscriber::set_global_default(Registry::default().with(listener.clone())).expect("nobody else listens");
    if std::env::var_os(ENDS).is_some() {
        tell_of_the_end();
    } else if std::thread::Builder::new().spawn(|| ()).is_err() {
        tell_what_needs_no_thread();
    } else {
        tell_what_needs_threads(&listener);
    }
    listener.write_down();
}

/// Ends a process whose task does not stop.
fn tell_of_the_end() {
    let shutdown = Shutdown::on_signals().unwrap().with_drain(Duration::from_millis(100));
    let shutdown = shutdown.with_grace(Duration::from_secs(5)); // the end of the drain is told by then
    let schedule = Schedule::in_process().with_shutdown(&shutdown);
    let is_left_behind = |_: &Run| {
        signal_hook::low_level::raise(SIGTERM)?;
        until(|| false)
    };
    schedule.add(Event::call("is left behind", is_left_behind).every_minute()).unwrap();
    unreachable!("it has ended: {:?}", schedule.run_due(noon()));
}

fn event(name: &str) -> Event {
    Event::call(name, |_| {}).every_minute()
}

fn tell_what_needs_no_thread() {
    let schedule = Schedule::in_process();
    for name in ["a", "b"] {
        schedule.add(event(name).without_overlapping().in_background()).unwrap();
    }
    let replaceable = event("r").without_overlapping().on_overlap(soloist::Overlap::Replace);
    schedule.add(replaceable).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
    assert!(!schedule.run_due(noon() + TimeDelta::seconds(1)).is_failure());
    tell_of_a_holder_from_the_future();
    tell_of_a_stuck_run();
    tell_of_applications();
    tell_of_timetables();
    tell_of_retries();
    let shutdown = Shutdown::new();
    let schedule = Schedule::in_process();
    let ends = shutdown.clone();
    let is_cancelled = move |_: &Run| {
        ends.cancel_runs();
        Err("the other side has gone".into())
    };
    schedule.add(Event::call("c", is_cancelled).every_second().on_one_server()).unwrap();
    assert!(schedule.with_shutdown(&shutdown).run_due(noon()).is_failure());
    tell_of_a_loop_without_threads();
}

fn tell_of_a_loop_without_threads() {
    let shutdown = Shutdown::new();
    let schedule = Schedule::in_process();
    schedule.add(event("d").every_second().on_one_server()).unwrap();
    let ends = shutdown.clone();
    schedule.on_report(move |_| ends.trigger()).work(&shutdown);
}

/// Sets a clock back in a loop whose report callback panics.
fn tell_of_a_loop(listener: &Listener) {
    let (clock, shutdown) = (ManualClock::at(noon()), Shutdown::new());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let (set, ends) = (clock.clone(), shutdown.clone());
    // The loop notices each step before the next one, also if a tick comes late.
    let steps = [(-4, "clock set back: beginning anew"), (-1, "clock set back"), (4, "minutes missed")];
    let (steps, heard) = (Mutex::new(steps.into_iter()), listener.clone());
    let task = move |_: &Run| {
        let mut steps = steps.lock().unwrap();
        if let Some((hours, told)) = steps.next() {
            set.set(Clock::from(&set).now() + TimeDelta::hours(hours));
            return until(|| heard.has_heard(told));
        }
        ends.trigger();
        Ok(())
    };
    schedule.add(Event::call("sets the clock", task).every_second()).unwrap();
    let schedule = schedule.on_report(|_| panic!("out of paper"));
    std::thread::scope(|scope| {
        let work = scope.spawn(|| schedule.work(&shutdown));
        until(|| {
            clock.advance(Duration::from_secs(1));
            std::thread::sleep(Duration::from_millis(20)); // the loop reads the clock
            work.is_finished()
        })
        .unwrap();
    });
}

/// Tells of a run during which the clock is set back to before its lease was granted.
fn tell_of_a_holder_from_the_future() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(noon()));
    let store = FileMutex::builder(dir.path()).clock(&clock).open().unwrap();
    meets_itself(store, &clock, |clock| clock.set(noon() - TimeDelta::hours(1)));
}

/// Tells of a run that lasts for longer than it may.
fn tell_of_a_stuck_run() {
    let clock = ManualClock::at(noon());
    meets_itself(MemoryMutex::with_clock(&clock), &clock, |clock| clock.advance(2 * HOUR));
}

/// Runs an event of an application, and again within its run, after the clock was moved; that fails.
fn meets_itself(store: impl EventMutex + Clone + 'static, clock: &ManualClock, change: fn(&ManualClock)) {
    let schedule = || Schedule::new(store.clone()).with_clock(clock).named("shop").unwrap();
    let protected = |event: Event| event.without_overlapping_for(4 * HOUR).stuck_after(HOUR);
    let (outer, inner) = (schedule(), schedule());
    inner.add(protected(event("a"))).unwrap();
    let moved = clock.clone();
    let meets = move |_: &Run| {
        change(&moved);
        assert!(inner.run_due(noon()).is_failure());
    };
    outer.add(protected(Event::call("a", meets).every_minute())).unwrap();
    let _ = outer.run_due(noon());
}

/// Tells of two servers of one application, and of one of another, with one event.
fn tell_of_applications() {
    let store = MemoryMutex::new();
    for application in ["shop", "shop", "billing"] {
        let schedule = Schedule::new(store.clone()).named(application).unwrap();
        schedule.add(event("cleanup").on_one_server()).unwrap();
        assert!(!schedule.run_due(noon()).is_failure());
    }
}

/// Tells of a run that succeeds in its second attempt, and of a run that is not retried again because of a shutdown.
fn tell_of_retries() {
    let shutdown = Shutdown::new();
    let schedule = Schedule::in_process().with_shutdown(&shutdown);
    let retry = |event: Event| event.every_minute().retry(Retry::times(3).after(Duration::from_millis(1)));
    let fails = |run: &Run| if run.attempt() == 1 { Err("no paper".into()) } else { Ok(()) };
    schedule.add(retry(Event::call("succeeds in the end", fails))).unwrap();
    let is_not_retried = move |run: &Run| -> soloist::TaskResult {
        if run.attempt() == 2 {
            shutdown.trigger();
        }
        Err("no paper".into())
    };
    schedule.add(retry(Event::call("is not retried", is_not_retried))).unwrap();
    assert_eq!(schedule.run_due(noon()).failures().count(), 1);
}

/// Tells of two servers whose timetables of an event differ for an hour.
fn tell_of_timetables() {
    let clock = ManualClock::at(noon());
    let store = Scripted::fleet_by(&clock);
    let [one, other] = [Event::hourly, Event::every_minute].map(|timetable| {
        let schedule = Schedule::new(store.clone()).with_clock(&clock);
        schedule.add(timetable(Event::call("e", |_| {}).on_one_server())).unwrap();
        schedule
    });
    for hour in 0..=1 {
        let now = noon() + TimeDelta::hours(hour);
        assert!(!one.run_due(now).is_failure() && !other.run_due(now).is_failure());
        clock.advance(HOUR);
    }
}

/// Skips an occurrence, and runs it an hour and ten minutes later.
fn tell_of_what_was_missed() {
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    schedule.add(Event::call("late", |_| {}).hourly().on_one_server().catch_up(HOUR)).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
    clock.advance(HOUR + HOUR / 6);
    assert_eq!(schedule.run_due(noon() + TimeDelta::minutes(70)).entries().len(), 1);
}

/// Lets an occurrence wait for a run that does not end.
fn tell_of_a_queue() {
    let mutex = MemoryMutex::new();
    let request = LeaseRequest::new(MutexName::lease("waits").unwrap(), Term::MAX, &mutex.clock());
    mutex.create(&request).unwrap().expect("nobody holds it");
    let schedule = Schedule::new(mutex);
    let waits = event("waits").without_overlapping().on_overlap(Overlap::QueueOne).within(Duration::from_secs(1));
    schedule.add(waits).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
}

/// Plays renewals in time and late, a timeout, a store that comes back, and an observer that panics.
fn tell_of_what_is_observed() {
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    let (renewals, told) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let (seen, panics) = (Arc::clone(&renewals), AtomicBool::new(true));
    let is_told = Arc::clone(&told);
    let observer = move |notice: &Notice<'_>| match notice.step() {
        Step::Renewed { late, .. } => seen.lock().unwrap().push(*late),
        Step::Cancelled(_) => is_told.store(true, Ordering::Relaxed),
        _ if panics.swap(false, Ordering::Relaxed) => panic!("out of paper"),
        _ => {}
    };
    let schedule = Schedule::new(store.clone()).observe(observer);
    let moved = clock.clone();
    let is_renewed = move |_: &Run| {
        moved.advance(Duration::from_secs(25));
        until(|| renewals.lock().unwrap().contains(&0))?;
        moved.jump(Duration::from_secs(40));
        until(|| renewals.lock().unwrap().contains(&1))?;
        moved.advance(Duration::from_secs(100));
        until(|| told.load(Ordering::Relaxed))
    };
    let is_renewed = Event::call("is renewed", is_renewed).every_minute().without_overlapping();
    schedule.add(is_renewed.timeout(Duration::from_secs(120))).unwrap();
    schedule.add(event("is held").without_overlapping().hold_at_least(HOUR / 61)).unwrap();
    assert!(ran(&schedule.run_due(noon()), "is held").is_success());
    store.be_unavailable(true);
    assert!(schedule.run_due(noon()).is_failure());
    store.be_unavailable(false);
    let _ = schedule.run_due(noon());
}

/// Wakes a loop ten seconds after the minute.
fn tell_of_a_late_tick() {
    let (clock, shutdown) = (ManualClock::at(noon()), Shutdown::new());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let ends = shutdown.clone();
    schedule.add(Event::call("ends it", move |_| ends.trigger()).every_minute()).unwrap();
    std::thread::scope(|scope| {
        let work = scope.spawn(|| schedule.work(&shutdown));
        until(|| {
            clock.jump(Duration::from_secs(70));
            std::thread::sleep(Duration::from_millis(20)); // the loop reads the clock
            work.is_finished()
        })
        .unwrap();
    });
}

/// Makes the log of runs refuse records, or reads.
fn tell_of_a_log_that_is_out() {
    for out in ["write", "runs"] {
        let store = Scripted::default().before(move |call| if call.is(out) { call.times_out() } else { Ok(()) });
        let schedule = Schedule::new(store).named("shop").unwrap().with_run_log(10).unwrap();
        let fails = |_: &Run| Err("no paper".into());
        schedule.add(Event::call("keeps failing", fails).every_minute().pause_on_failure(1)).unwrap();
        assert!(schedule.run_due(noon()).is_failure());
    }
}

fn tell_what_needs_threads(listener: &Listener) {
    let clock = ManualClock::at(noon());
    let mutex = MemoryMutex::with_clock(&clock);
    let request = LeaseRequest::new(MutexName::lease("held").unwrap(), Term::MAX, &Clock::from(&clock));
    mutex.create(&request).unwrap().expect("nobody holds it");
    let schedule = Schedule::new(mutex).with_clock(&clock);
    let vanishing = tempfile::tempdir().unwrap();
    let takes = |length: Duration| {
        let clock = clock.clone();
        move |_: &Run| clock.advance(length)
    };
    let (moved, heard) = (clock.clone(), listener.clone());
    let goes_on = move |_: &Run| {
        moved.advance(Duration::from_secs(20));
        until(|| heard.has_heard("timed out and does not stop"))?;
        Err("no paper".into())
    };
    let (moved, heard) = (clock.clone(), listener.clone());
    let is_not_renewed = move |_: &Run| {
        moved.advance(Duration::from_secs(20));
        until(|| heard.has_heard("not renewed yet"))
    };
    let (moved, heard) = (clock.clone(), listener.clone());
    let loses_a_fixed_term = move |_: &Run| {
        moved.advance(Duration::from_secs(20));
        until(|| heard.has_heard("lease lost"))
    };
    for event in vec![
        event("succeeds").on_one_server(),
        event("held").without_overlapping(),
        Event::call("fails", |_| Err("no paper".into())).every_minute().on_one_server(),
        Event::call("can't be shown", |_| Err(Unspeakable.into())).every_minute(),
        event("not started").before(|_| Err("no paper".into())).on_one_server(),
        event("filter panics").skip(|_| panic!("no flag")),
        event("deaf").mutex(deaf(MemoryMutex::with_clock(&clock))).without_overlapping_for(HOUR),
        event("out").mutex(soloist::FileMutex::in_dir(vanishing.path()).unwrap()).without_overlapping(),
        event("unprotected").mutex(broken()).without_overlapping_for(HOUR).on_outage(OutagePolicy::RunUnprotected),
        Event::call("goes on", goes_on).every_minute().on_one_server().timeout(Duration::from_secs(10)),
        Event::call("is not renewed", is_not_renewed)
            .every_minute()
            .mutex(deaf(MemoryMutex::with_clock(&clock)))
            .without_overlapping(),
        Event::call("loses a fixed term", loses_a_fixed_term)
            .every_minute()
            .without_overlapping_for(Duration::from_secs(10)),
        Event::call("loses", takes(HOUR)).every_minute().without_overlapping(),
    ] {
        schedule.add(event).unwrap();
    }
    vanishing.close().unwrap();
    let report = schedule.run_due(noon());
    assert!(report.is_failure());
    assert!(ran(&report, "loses a fixed term").is_success(), "it is told at its deadline: {report}");
    for heard in ["timed out and does not stop", "not renewed yet"] {
        assert!(listener.has_heard(heard), "{heard}");
    }
    tell_of_a_loop(listener);
    tell_of_a_queue();
    tell_of_what_was_missed();
    tell_of_what_is_observed();
    tell_of_a_late_tick();
    tell_of_a_log_that_is_out();
    let paused = Schedule::in_process().named("shop").unwrap();
    paused.pause(chrono::Utc::now() + HOUR, "").unwrap();
    assert!(paused.resume().unwrap());
    paused.pause_event("any", chrono::Utc::now() + HOUR, "a reason").unwrap();
    assert!(paused.resume_event("any").unwrap());
    let deaf = Arc::new(deaf(MemoryMutex::new()));
    drop(LeaseGuard::acquire_for(&deaf, MutexName::lease("g").unwrap(), Term::MAX).unwrap().expect("nobody holds it"));
}

#[test]
fn a_claim_on_a_store_that_only_this_process_sees_is_warned_of_when_it_is_added() {
    for (event, is_warned_of) in [
        (event("on one server").on_one_server(), true),
        (event("once per day").once_per(Period::Day), true),
        (event("held").without_overlapping(), false),
    ] {
        let (listener, what) = (Listener::default(), format!("{event:?}"));
        with_subscriber(Registry::default().with(listener.clone()), || {
            Schedule::in_process().add(event).unwrap();
        });
        assert_eq!(listener.has_heard("event is protected in this process only"), is_warned_of, "{what}");
    }
    // In a test, whose clock stands still, only this process is meant.
    let (listener, clock) = (Listener::default(), ManualClock::at(noon()));
    with_subscriber(Registry::default().with(listener.clone()), || {
        for schedule in [Schedule::new(MemoryMutex::with_clock(&clock)), Schedule::in_process().with_clock(&clock)] {
            schedule.add(event("on one server").on_one_server()).unwrap();
        }
    });
    assert!(!listener.has_heard("event is protected in this process only"));
}

#[test]
fn a_log_of_runs_without_a_thread_is_told_of() {
    if run_alone("tracing_events::a_log_of_runs_without_a_thread_is_told_of", &[NO_THREADS]).is_some() {
        return;
    }
    let listener = Listener::default();
    with_subscriber(Registry::default().with(listener.clone()), || {
        let schedule = Schedule::in_process().with_run_log(3).unwrap();
        schedule.add(event("runs")).unwrap();
        assert!(!schedule.run_due(noon()).is_failure());
    });
    assert!(listener.has_heard("runs not logged yet"));
}

/// Every field of every span and event, as subscribers write it down.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Written {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut line = Line(attributes.metadata().name().to_owned());
        attributes.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 = format!("{} {field}={value:?}", self.0);
    }
}

#[test]
fn who_runs_and_who_is_ahead_is_told_in_fields_of_their_own() {
    let (written, clock) = (Written::default(), ManualClock::at(noon()));
    with_subscriber(Registry::default().with(written.clone()), || {
        let mutex = MemoryMutex::with_clock(&clock);
        let held = LeaseRequest::new(MutexName::lease("held").unwrap(), Term::DEFAULT, &Clock::from(&clock));
        mutex.create(&held).unwrap().expect("nobody holds it");
        let schedule = Schedule::new(mutex).with_clock(&clock);
        schedule.add(event("runs").without_overlapping()).unwrap();
        schedule.add(event("held").without_overlapping()).unwrap();
        assert!(!schedule.run_due(noon()).is_failure());
    });
    let written = written.0.lock().unwrap().clone();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux says what it is called");
    let (host, pid) = (host.trim(), std::process::id());
    let expected = [
        format!("run event=\"runs\" occurrence=2026-03-01T12:00:00Z host={host:?} pid={pid}"),
        "INFO message=started token=".to_owned(),
        "INFO message=succeeded token=".to_owned(),
        format!(
            "INFO message=skipped reason=\"overlapping\" holder_host={host:?} holder_pid={pid} \
             holder_since=2026-03-01T12:00:00Z holder_until=2026-03-01T12:01:00Z"
        ),
    ];
    for line in expected {
        assert!(written.iter().any(|told| told.starts_with(&line)), "{line:?} is not in {written:#?}");
    }
}

#[test]
fn what_is_gated_and_released_together_is_told_within_the_span_of_each_run() {
    /// The event that a span names.
    struct Named(String);

    impl Visit for Named {
        fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
        fn record_str(&mut self, field: &Field, value: &str) {
            if field.name() == "event" {
                value.clone_into(&mut self.0);
            }
        }
    }

    /// The messages, each with the event in whose span it came.
    #[derive(Clone, Default)]
    struct Within(Arc<Mutex<BTreeSet<(String, String)>>>);

    impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Within {
        fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
            let mut named = Named(String::new());
            attributes.record(&mut named);
            context.span(id).expect("it is new").extensions_mut().insert(named);
        }

        fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let spans = context.event_scope(event).into_iter().flatten();
            let names: Vec<String> = spans.map(|span| span.extensions().get::<Named>().unwrap().0.clone()).collect();
            self.0.lock().unwrap().insert((names.join(" in "), fields.message.expect("every event has a message")));
        }
    }

    let within = Within::default();
    with_subscriber(Registry::default().with(within.clone()), || {
        let schedule = Schedule::in_process();
        for name in ["a", "b"] {
            schedule.add(Event::call(name, |_| {}).every_minute().without_overlapping().in_background()).unwrap();
        }
        let skips = Event::call("c", |_| {}).every_minute().without_overlapping().in_background().skip(|_| true);
        schedule.add(skips).unwrap();
        assert!(!schedule.run_due(noon()).is_failure());
    });
    let told = within.0.lock().unwrap().clone();
    // The outer span is the tick's. Events of the pool's threads arrive only if those are subscribed to.
    let expected = [("", "due"), ("a in ", "released"), ("b in ", "released"), ("c in ", "skipped")];
    let expected: BTreeSet<_> = expected.map(|(span, message)| (span.to_owned(), message.to_owned())).into();
    assert!(told.is_superset(&expected), "{told:?}");
}

#[test]
fn a_second_call_of_run_due_in_a_minute_is_warned_of_once() {
    let times = ["12:00:10", "12:00:10", "12:00:09", "12:01:00", "12:01:59", "12:02:00", "12:02:01"];
    let warned_at = |event: fn(Event) -> Event| {
        let schedule = Schedule::in_process();
        schedule.add(event(Event::call("e", |_| {}))).unwrap();
        let is_warned_at = |time: &&str| {
            let listener = Listener::default();
            let now = format!("2026-03-01T{time}Z").parse().unwrap();
            with_subscriber(Registry::default().with(listener.clone()), || {
                let _ = schedule.run_due(now);
            });
            listener.has_heard("run_due called twice in a minute")
        };
        times.into_iter().filter(is_warned_at).collect::<Vec<_>>()
    };
    assert_eq!(warned_at(Event::every_minute), ["12:01:59"]);
    let none: [&str; 0] = [];
    assert_eq!(warned_at(|event| event.every_minute().on_one_server()), none);
    // A new occurrence is due at each of these times.
    assert_eq!(warned_at(Event::every_second), none);
}

#[test]
fn ticks_in_two_minutes_repeat_no_event_with_a_jitter() {
    let schedule = Schedule::in_process();
    for number in 0..20 {
        let event = Event::call(format!("e{number}"), |_| {}).every_minute().jitter(Duration::from_secs(50));
        schedule.add(event).unwrap();
    }
    let listener = Listener::default();
    with_subscriber(Registry::default().with(listener.clone()), || {
        for time in ["2026-03-01T12:00:50Z", "2026-03-01T12:01:10Z"] {
            let report = schedule.run_due(time.parse().unwrap());
            assert_eq!(report.entries().len(), 20, "each has one start in the minute before");
        }
    });
    assert!(!listener.has_heard("run_due called twice in a minute"));
}
