//! Shows a tick of a small schedule, protected by files in the system's temporary directory.
//!
//! ```text
//! cargo run --example quick_start
//! ```
//!
//! The first event takes 5 s. Meanwhile, start the example again in a second terminal: the report of the second copy
//! names the holders.

use std::error::Error;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use chrono::Utc;
use soloist::{Event, FileMutex, Report, Run, Schedule};

fn main() -> Result<Report, Box<dyn Error>> {
    let store = std::env::temp_dir().join("soloist-quick-start");
    let schedule = Schedule::new(FileMutex::in_dir(&store)?);

    // Takes 5 s. Meanwhile, no second run of this event starts, in this process or in any other process.
    schedule.add(
        Event::call("reports:generate", |run| work(run, Duration::from_secs(5)))
            .every_minute()
            .without_overlapping()
            .then(|run, outcome| println!("{}: {outcome}", run.name())),
    )?;
    // Each occurrence runs on the first server that asks for it.
    schedule.add(Event::call("carts:remind", |run| work(run, Duration::ZERO)).every_minute().on_one_server())?;
    // The filter refuses this event, so the store gets no request.
    schedule.add(Event::call("newsletter:send", |run| work(run, Duration::ZERO)).every_minute().skip(|_| true))?;
    // Not due now, unless you start the example at 02:30.
    schedule.add(Event::call("db:backup", |run| work(run, Duration::ZERO)).apply(nightly))?;

    let report = schedule.run_due(Utc::now());
    writeln!(io::stdout(), "\n{report}\n\nThe files of the store are in {}", store.display())?;
    Ok(report)
}

/// Adds the timetable and the protections of a nightly event.
fn nightly(event: Event) -> Event {
    event.daily_at("02:30").timezone("Europe/Berlin").without_overlapping().on_one_server()
}

fn work(run: &Run, time: Duration) {
    println!("{}: running in process {}", run.name(), std::process::id());
    thread::sleep(time);
}
