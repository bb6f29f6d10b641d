//! Shows how a missed occurrence is caught up: no server ticks at 02:30 on 2 March, so the next tick runs the
//! occurrence, once.
//!
//! ```text
//! cargo run --example catch_up
//! ```

use std::error::Error;
use std::time::Duration;

use chrono::{DateTime, Utc};
use soloist::time::ManualClock;
use soloist::{Event, MemoryMutex, Schedule};

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::at("2026-03-01T02:30:00Z".parse()?); // a real program uses the system's clock
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock));
    schedule.add(
        Event::call("invoices:send", |run| println!("the invoices of {}", run.occurrence().date_naive()))
            .daily_at("02:30")
            .on_one_server() // the claims record which occurrences have run
            .catch_up(Duration::from_secs(6 * 3600)),
    )?;
    let tick = |at: &str| -> Result<(), Box<dyn Error>> {
        let at: DateTime<Utc> = at.parse()?;
        clock.advance((at - clock.now()).to_std()?);
        println!("{}\n", schedule.run_due(at));
        Ok(())
    };
    tick("2026-03-01T02:30:00Z")?; // in time
    tick("2026-03-02T05:00:00Z")?; // two and a half hours late
    tick("2026-03-02T05:01:00Z")?; // no occurrence is missing any more
    Ok(())
}
