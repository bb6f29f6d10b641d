//! Measures the memory of a process whose events are due in each tick. The claims of all ticks stay in the store.

use std::process::Command;
use std::time::Duration;

use soloist::{Event, MemoryMutex};

use crate::alternate::{NOTHING, Unit, Work};
use crate::memory::{Clokwerk, TICKS};
use crate::race::Race;
use crate::ticks::Ticks;

pub(crate) fn race(race: &mut Race) {
    let events = race.size(100_000, 1_000).to_string();
    let peak = |scheduler: &'static str| {
        let events = &events;
        move || {
            let itself = std::env::current_exe().expect("it runs");
            let output = Command::new(itself).args(["resident", scheduler, events]).output().expect("it starts again");
            assert!(output.status.success(), "{output:?}");
            let kib: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a count");
            kib * 1024.0
        }
    };
    let work = Work::new("peak memory in 30 ticks of 100,000 events", Unit::Bytes)
        .by("clokwerk", NOTHING, peak("clokwerk"))
        .by("soloist, bare, with its report", NOTHING, peak("bare"))
        .by("soloist", "a claim", peak("claim"));
    race.run(1, work);
}

/// Runs the ticks of one process, and prints its peak memory in KiB.
pub(crate) fn be_one(scheduler: &str, events: &str) {
    let events = events.parse().expect("a count");
    let soloist = |attributes: fn(Event) -> Event| {
        let mut ticks = Ticks::new(MemoryMutex::new(), events, attributes);
        (0..TICKS).map(|_| ticks.run()).sum::<Duration>()
    };
    let clokwerk = || {
        let mut clokwerk = Clokwerk::with(events);
        (0..TICKS).map(|_| clokwerk.tick()).sum::<Duration>()
    };
    let took = match scheduler {
        "clokwerk" => clokwerk(),
        "bare" => soloist(|event| event),
        _ => soloist(Event::on_one_server),
    };
    assert!(!took.is_zero());
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says it");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it says the peak");
    println!("{}", peak.trim().trim_end_matches(" kB"));
}
