//! Shows a tick of a small schedule, protected by files in the system's temporary directory.
//!
//! ```text
//! cargo run --example quick_start
//! ```
//!
//! While it runs (5 s), run it again in a second terminal: the second copy prints the holders, and since when they hold.

use std::error::Error;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use chrono::Utc;
use soloist::{Event, FileMutex, Report, Run, Schedule};

fn main() -> Result<Report, Box<dyn Error>> {
    let store = std::env::temp_dir().join("soloist-quick-start");
    let schedule = Schedule::new(FileMutex::in_dir(&store)?);

    // Takes its time: while it is at work, no second run of it starts, in this process or in any other.
    schedule.add(
        Event::call("reports:generate", |run| work(run, Duration::from_secs(5)))
            .every_minute()
            .without_overlapping()
            .then(|run, outcome| println!("{}: {outcome}", run.name())),
    )?;
    // Each occurrence is for the first server that asks.
    schedule.add(Event::call("carts:remind", |run| work(run, Duration::ZERO)).every_minute().on_one_server())?;
    // Refused by its own filter, before anything is asked of the store.
    schedule.add(Event::call("newsletter:send", |run| work(run, Duration::ZERO)).every_minute().skip(|_| true))?;
    // Only due at night.
    schedule.add(Event::call("db:backup", |run| work(run, Duration::ZERO)).apply(nightly))?;

    let report = schedule.run_due(Utc::now());
    writeln!(io::stdout(), "\n{report}\n\nWho holds what stands in {}", store.display())?;
    Ok(report)
}

/// Adds the attributes that the events of the night share.
fn nightly(event: Event) -> Event {
    event.daily_at("02:30").timezone("Europe/Berlin").without_overlapping().on_one_server()
}

fn work(run: &Run, time: Duration) {
    println!("{}: at work, as process {}", run.name(), std::process::id());
    thread::sleep(time);
}
