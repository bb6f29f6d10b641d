//! The lines on standard error without a subscriber, for facts that no report has. Each test uses processes of its
//! own.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGTERM;
use soloist::time::ManualClock;
use soloist::{
    Event, EventMutex, FileMutex, LeaseGuard, MemoryMutex, MutexError, MutexName, Period, Run, Schedule, Shutdown, Term,
};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use crate::scripted::Scripted;
use crate::support::{PATIENCE, noon, output_alone, ran, until};

/// The role of the process.
const ROLE: &str = "SOLOIST_TEST_ROLE";

/// Returns the lines that the library writes in a process that plays `role` in the test `name`. `None`: this is
/// that process.
#[track_caller]
fn lines_of(name: &str, role: &str) -> Option<Vec<String>> {
    let output = output_alone(name, &[(ROLE, role)])?;
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(said.lines().filter(|line| line.starts_with("soloist: ")).map(str::to_owned).collect())
}

fn role() -> String {
    std::env::var(ROLE).expect("it is set")
}

/// Subscribes to all events, and writes nothing.
fn listen() {
    tracing::subscriber::set_global_default(Registry::default()).expect("nobody else listens");
}

#[test]
fn a_claim_that_no_other_process_sees_is_told_once_where_nobody_listens() {
    let name = "told::a_claim_that_no_other_process_sees_is_told_once_where_nobody_listens";
    if let Some(lines) = lines_of(name, "alone") {
        let [line] = &lines[..] else { panic!("{lines:?}") };
        for words in ["event `odd name`", "on_one_server", "in this process only", "file:"] {
            assert!(line.contains(words), "{words}: {line}");
        }
        assert_eq!(lines_of(name, "is listened to"), Some(Vec::new()));
        return;
    }
    if role() == "is listened to" {
        listen();
    }
    let event = |name: &str| Event::call(name, |_| {}).every_minute();
    for _ in 0..2 {
        let schedule = Schedule::in_process();
        schedule.add(event("held").without_overlapping()).unwrap();
        schedule.add(event("odd name").on_one_server()).unwrap();
        schedule.add(event("once a day").once_per(Period::Day)).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    Schedule::new(FileMutex::in_dir(dir.path()).unwrap()).add(event("reaches far").on_one_server()).unwrap();
}

#[test]
fn a_store_that_can_not_extend_although_it_says_so_is_told_once() {
    let name = "told::a_store_that_can_not_extend_although_it_says_so_is_told_once";
    if let Some(lines) = lines_of(name, "alone") {
        let told = "soloist: a lease is not renewed, because this store can't extend a lease, but its `EventMutex::describe` says \
                    that it can";
        assert_eq!(lines, [told]);
        return;
    }
    let clock = ManualClock::at(noon());
    let store = Scripted::over(MemoryMutex::with_clock(&clock))
        .before(|call| if call.verb == "extend" { Err(MutexError::unsupported("extend a lease")) } else { Ok(()) });
    let guard =
        LeaseGuard::acquire(&store, MutexName::lease("e").unwrap(), Term::DEFAULT).unwrap().expect("it is free");
    until(|| {
        clock.advance(Duration::from_secs(1));
        thread::sleep(Duration::from_millis(10)); // the renewal is requested
        guard.is_lost()
    })
    .unwrap();
}

/// The line of a task when it is cancelled.
const STOPPED: &str = "it is told to stop";

#[test]
fn a_service_that_nobody_listens_to_tells_of_its_failures_at_once() {
    let name = "told::a_service_that_nobody_listens_to_tells_of_its_failures_at_once";
    if let Some(output) = output_alone(name, &[(ROLE, "alone")]) {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("soloist: ") || *line == STOPPED).collect();
        let stopped = lines.iter().position(|line| *line == STOPPED).expect(&said);
        let (before, after) = (&lines[..stopped], &lines[stopped + 1..]);
        assert!(before.iter().any(|line| is_of(line, "fails", ": no paper")), "while another is at work: {said}");
        let cancelled = |line: &&&str| is_of(line, "is cancelled", ", because the process is shutting down");
        assert_eq!(after.iter().filter(cancelled).count(), 1, "{said}");
        assert!(lines.iter().all(|line| !line.contains("skipped")), "that is no failure: {said}");
        for role in ["is listened to", "has who is told"] {
            assert_eq!(lines_of(name, role), Some(Vec::new()), "{role}");
        }
        return;
    }
    if role() == "is listened to" {
        listen();
    }
    let (mut schedule, shutdown) = (Schedule::in_process(), Shutdown::new().with_drain(Duration::ZERO));
    if role() == "has who is told" {
        schedule = schedule.on_report(|_| {});
    }
    let ends = shutdown.clone();
    let is_cancelled = move |run: &Run| {
        ends.trigger();
        eprintln!("{STOPPED}");
        Ok(run.check()?)
    };
    schedule
        .add(Event::call("fails", |_| Err("no paper".into())).every_second())
        .unwrap()
        .add(Event::call("is cancelled", is_cancelled).every_second().without_overlapping())
        .unwrap();
    schedule.work(&shutdown);
}

/// Blocks standard error. The thread that writes there must not delay renewals.
#[test]
fn a_standard_error_that_nobody_reads_holds_up_no_renewal() {
    if std::env::var_os(ROLE).is_none() {
        let (unread, mut full) = std::io::pipe().unwrap();
        full.write_all(&vec![b'x'; 64 * 1024]).unwrap(); // the pipe is full
        let name = "told::a_standard_error_that_nobody_reads_holds_up_no_renewal";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, "has no reader").stderr(full);
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("it has its lease"), "{said}");
        return drop(unread);
    }
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock));
    let task = move |_: &Run| {
        for _ in 0..10 {
            clock.advance(Duration::from_secs(15));
        }
    };
    schedule.add(Event::call("e", task).every_minute().timeout(Duration::from_secs(1)).without_overlapping()).unwrap();
    let report = schedule.run_due(noon());
    println!(
        "\n{}",
        if ran(&report, "e").lease_lost_at().is_none() { "it has its lease" } else { "it has lost its lease" }
    );
    std::process::exit(0); // the writing thread hangs for ever, and no thread waits for it
}

fn is_of(line: &str, event: &str, end: &str) -> bool {
    line.strip_prefix("soloist: ").is_some_and(|line| line.trim_matches('`').starts_with(event)) && line.ends_with(end)
}

/// A layer that notes events, and is slow with the one about the end.
struct Slow(Duration);

impl<S: Subscriber> Layer<S> for Slow {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let message = message_of(event);
        if message == "shutting down" {
            thread::sleep(self.0);
        }
        println!("\nheard: {message}");
    }
}

fn message_of(event: &tracing::Event<'_>) -> String {
    struct Message(String);

    impl Visit for Message {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            if field.name() == "message" {
                self.0 = format!("{value:?}");
            }
        }
    }

    let mut message = Message(String::new());
    event.record(&mut message);
    message.0
}

/// A layer that hangs for ever at this message, and says so.
struct StuckOn(&'static str, Arc<AtomicBool>);

impl<S: Subscriber> Layer<S> for StuckOn {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if message_of(event) == self.0 {
            self.1.store(true, Ordering::Release);
            thread::sleep(Duration::MAX);
        }
    }
}

/// Ends this process if it hangs.
fn end_if_it_hangs() {
    thread::spawn(|| {
        thread::sleep(PATIENCE);
        std::process::exit(7);
    });
}

#[test]
fn a_subscriber_that_is_stuck_on_what_the_renewal_thread_tells_holds_up_no_renewal() {
    let name = "told::a_subscriber_that_is_stuck_on_what_the_renewal_thread_tells_holds_up_no_renewal";
    if std::env::var_os(ROLE).is_none() {
        for role in ["lease lost", "not renewed yet", "timed out and does not stop"] {
            let output = output_alone(name, &[(ROLE, role)]).expect("it is another process");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains("it has its lease"), "{role}: {output:?}");
        }
        return;
    }
    end_if_it_hangs();
    let (role, stuck) = (role(), Arc::new(AtomicBool::new(false)));
    let subscriber = Registry::default().with(StuckOn(role.clone().leak(), Arc::clone(&stuck)));
    tracing::subscriber::set_global_default(subscriber).expect("nobody else listens");
    let clock = ManualClock::at(noon());
    let (memory, fails_once) = (MemoryMutex::with_clock(&clock), AtomicBool::new(role == "not renewed yet"));
    let answers = move |verb: &str| verb != "extend" || !fails_once.swap(false, Ordering::AcqRel);
    let store =
        Scripted::over(memory.clone()).before(move |call| if answers(call.verb) { Ok(()) } else { call.times_out() });
    let lost = MutexName::lease("lost").unwrap();
    let _lost = LeaseGuard::acquire(&store, lost.clone(), Term::DEFAULT).unwrap().expect("nobody holds it");
    if role == "lease lost" {
        assert!(memory.break_lease(&lost).unwrap().is_some());
    }
    let task = move |_: &Run| {
        until(|| {
            clock.advance(Duration::from_secs(1));
            thread::sleep(Duration::from_millis(10)); // the notice is sent
            stuck.load(Ordering::Acquire)
        })?;
        for _ in 0..10 {
            clock.advance(Duration::from_secs(15));
        }
        Ok(())
    };
    let schedule = Schedule::new(store);
    schedule.add(Event::call("e", task).every_minute().timeout(Duration::from_secs(1)).without_overlapping()).unwrap();
    let report = schedule.run_due(noon());
    println!(
        "\n{}",
        if ran(&report, "e").lease_lost_at().is_none() { "it has its lease" } else { "it has lost its lease" }
    );
    std::process::exit(0); // the writing thread hangs for ever, and no thread waits for it
}

/// Returns the output of a process that gets SIGTERM while it plays this role.
#[track_caller]
fn gets_sigterm(name: &str, role: &str) -> Option<Output> {
    let output = output_alone(name, &[(ROLE, role)])?;
    assert_eq!(output.status.signal(), Some(SIGTERM), "{role}: {output:?}");
    Some(output)
}

/// Ends a process whose subscriber takes this long for the notice of the end.
fn terminate_while(role: &str, telling: Duration, grace: Duration) {
    tracing::subscriber::set_global_default(Registry::default().with(Slow(telling))).expect("nobody else listens");
    let shutdown = Shutdown::on_signals().unwrap().with_drain(Duration::ZERO).with_grace(grace);
    let terminate = || signal_hook::low_level::raise(SIGTERM).unwrap();
    let schedule = Schedule::in_process().with_shutdown(&shutdown);
    let is_cancelled = move |run: &Run| {
        terminate();
        run.wait_cancelled(PATIENCE);
        println!("\n{STOPPED}");
        Ok(run.check()?)
    };
    match role {
        "it sleeps" => {
            schedule.add(Event::call("e", |_| {}).yearly()).unwrap();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(50)); // until the loop sleeps
                terminate();
            });
            schedule.work(&shutdown);
        }
        "it waits" => {
            terminate();
            assert!(shutdown.wait(PATIENCE));
        }
        "it is at work" => {
            schedule.add(Event::call("e", is_cancelled).every_minute()).unwrap();
            let _ = schedule.run_due(noon());
        }
        _ => unreachable!("{role}"),
    }
    shutdown.finish();
}

#[test]
fn of_a_shutdown_is_told_before_anything_ends() {
    let name = "told::of_a_shutdown_is_told_before_anything_ends";
    if std::env::var_os(ROLE).is_some() {
        return terminate_while(&role(), Duration::from_millis(200), PATIENCE);
    }
    for role in ["it sleeps", "it waits", "it is at work"] {
        let output = gets_sigterm(name, role).expect("it is another process");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = said.find("heard: shutting down").unwrap_or_else(|| panic!("{role}: {said}"));
        assert_eq!(said.contains(STOPPED), role == "it is at work", "{said}");
        assert!(said.find(STOPPED).is_none_or(|stopped| told < stopped), "{said}");
    }
}

#[test]
fn a_subscriber_that_is_stuck_holds_up_no_shutdown() {
    let name = "told::a_subscriber_that_is_stuck_holds_up_no_shutdown";
    if std::env::var_os(ROLE).is_some() {
        end_if_it_hangs();
        return terminate_while(&role(), Duration::MAX, Duration::from_secs(6));
    }
    for role in ["it sleeps", "it waits", "it is at work"] {
        gets_sigterm(name, role).expect("it is another process");
    }
}
