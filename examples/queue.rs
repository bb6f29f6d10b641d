//! Shows a queue: a task takes longer than its interval. So one occurrence waits for the end of the run, and the others
//! are skipped.
//!
//! ```text
//! cargo run --example queue
//! ```

use std::error::Error;
use std::thread;
use std::time::Duration;

use soloist::{Event, FileMutex, Overlap, Schedule, Shutdown};

fn main() -> Result<(), Box<dyn Error>> {
    let store = FileMutex::in_dir(std::env::temp_dir().join("soloist-queue"))?;
    let schedule = Schedule::new(store).on_report(|report| println!("{report}"));
    schedule.add(
        Event::call("thumbnails:make", |run| {
            println!("{}: started", run.occurrence().format("%T"));
            thread::sleep(Duration::from_millis(2500));
        })
        .every_second()
        .without_overlapping()
        .on_overlap(Overlap::QueueOne)
        .within(Duration::from_secs(10)),
    )?;
    let shutdown = Shutdown::new();
    let working = thread::spawn({
        let shutdown = shutdown.clone();
        move || schedule.work(&shutdown)
    });
    thread::sleep(Duration::from_secs(8));
    shutdown.trigger(); // lets the present run end, and starts no further run
    working.join().map_err(|_| "the schedule panicked")?;
    Ok(())
}
