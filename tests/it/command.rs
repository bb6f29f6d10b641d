//! Commands as tasks, on real processes. Schedules use a clock that tests move; processes take real time.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use soloist::observe::{Cancelled, Ended, Fault, Release};
use soloist::store::Lease;
use soloist::time::ManualClock;
use soloist::{
    AddErrorKind, CancelReason, Event, EventMutex, MemoryMutex, MutexName, OutagePolicy, Output, Report, Run,
    RunOutcome, Schedule,
};

use crate::scripted::Scripted;
use crate::support::{
    Diary, HOUR, NO_THREADS, PATIENCE, at, entry, group_lives, holder, noon, processes, ran, run_alone, until,
};

mod environment;
mod group;
mod killed;
mod loss;
mod many;
mod output;
mod program;
mod refused;
mod stop;

const SECOND: Duration = Duration::from_secs(1);

/// A minute's lease is renewed after this.
const THIRD: Duration = Duration::from_secs(20);

/// The time that a loaded machine may take beyond the promised one.
const SLACK: Duration = Duration::from_secs(15);

/// A directory for commands and their files.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns an event that runs this shell line here.
    fn exec(&self, line: &str) -> Event {
        Event::exec("e", line).every_minute().current_dir(self.0.path())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    fn touch(&self, name: &str) {
        fs::write(self.path(name), "").expect("it is ours");
    }

    /// Waits for the process id that a command writes into this file.
    #[track_caller]
    fn pid(&self, name: &str) -> u32 {
        until(|| self.read(name).ends_with('\n')).unwrap_or_else(|error| panic!("no {name}: {error}"));
        self.read(name).trim().parse().expect("it is a number")
    }
}

/// Ticks once at noon, on a clock that stands still.
fn tick(event: Event) -> Report {
    tick_on(MemoryMutex::with_clock(ManualClock::at(noon())), event)
}

fn tick_on(store: impl EventMutex + 'static, event: Event) -> Report {
    let schedule = Schedule::new(store).with_clock(ManualClock::at(noon()));
    schedule.add(event).unwrap();
    schedule.run_due(noon())
}

/// Returns the outcome of the event `e` in such a tick.
#[track_caller]
fn outcome(event: Event) -> RunOutcome {
    ran(&tick(event), "e").clone()
}

/// Returns that outcome as text.
#[track_caller]
fn said(event: Event) -> String {
    outcome(event).to_string()
}

/// Returns the output of this line, which must succeed.
#[track_caller]
fn written(event: Event) -> String {
    let outcome = outcome(event.output(Output::Keep(1 << 20)));
    assert!(!outcome.is_failure(), "{outcome}");
    text_of(&outcome)
}

#[track_caller]
fn text_of(outcome: &RunOutcome) -> String {
    String::from_utf8(outcome.output().expect("it is kept").bytes().to_vec()).expect("it is text")
}

/// Returns whether this process lives.
fn is_alive(id: u32) -> bool {
    processes().iter().any(|process| process.id == id && process.is_alive)
}

fn signal(signal: &str, id: u32) {
    let status = Command::new("kill").args(["-s", signal, "--", &id.to_string()]).status();
    assert!(status.expect("there is kill").success(), "{signal} {id}");
}

/// A store that checks at each release whether any process of a command lives.
struct Witness {
    store: Scripted,
    seen: Diary,
    /// Whether it gives no answer to renewals.
    is_out: Arc<AtomicBool>,
}

impl Witness {
    fn of(place: &Place, clock: &ManualClock) -> Self {
        // Where the command writes the id of its group.
        let (file, seen, is_out) = (place.path("pid"), Diary::default(), Arc::<AtomicBool>::default());
        let (diary, out) = (seen.clone(), Arc::clone(&is_out));
        let note = move |what: &str| {
            let group = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
            let group = match group.map(group_lives) {
                None => "before its group was known",
                Some(true) => "while its group lived",
                Some(false) => "when its group had gone",
            };
            diary.note(format!("{what} {group}"));
        };
        let store = Scripted::over(MemoryMutex::with_clock(clock)).in_steps().before(move |call| {
            match call.verb {
                "create" => note("asked for"),
                "forget" => note("given back"),
                "release_after" => note("held on"),
                "extend" if out.load(Ordering::SeqCst) => return call.times_out(),
                _ => {}
            }
            Ok(())
        });
        Self { store, seen, is_out }
    }
}

/// A run that a test moves the time of.
struct Observed {
    outcome: RunOutcome,
    report: String,
    /// The time from the moment when the test moved the clock.
    took: Duration,
    seen: Vec<String>,
}

/// Runs the event under a lease, waits until its command has written its process id, and calls `then`.
#[track_caller]
fn observe(place: &Place, event: Event, then: impl FnOnce(&ManualClock, &Witness)) -> Observed {
    let clock = ManualClock::at(noon());
    let witness = Witness::of(place, &clock);
    let schedule = Schedule::new(witness.store.clone()).with_clock(&clock);
    schedule.add(event).unwrap();
    let running = thread::spawn(move || schedule.run_due(noon()));
    let pid = place.pid("pid");
    let before = Instant::now();
    then(&clock, &witness);
    until(|| running.is_finished())
        .unwrap_or_else(|_| panic!("the run does not end; its group lives: {}", group_lives(pid)));
    let took = before.elapsed();
    let report = running.join().expect("a tick does not panic");
    let observed = Observed {
        outcome: ran(&report, "e").clone(),
        report: entry(&report, "e").to_string(),
        took,
        seen: witness.seen.lines(),
    };
    assert!(!group_lives(pid), "something of it is left");
    observed
}
