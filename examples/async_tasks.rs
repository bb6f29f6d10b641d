//! Shows the smallest async service: the task of its event is a future, and the schedule runs at the same time as other
//! work.
//!
//! ```text
//! cargo run --example async_tasks --features tokio
//! ```

use std::error::Error;
use std::time::Duration;

use soloist::{Event, Run, Schedule, Shutdown, TaskResult};

async fn import(run: Run) -> TaskResult {
    let token = run.fencing_token().ok_or("the run is unprotected")?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    println!("{}: imported with token {token}", run.occurrence().format("%T"));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let schedule = Schedule::in_process();
    schedule.add(Event::spawn("prices:import", import).every_second().without_overlapping())?;

    let shutdown = Shutdown::new(); // in a service: `Shutdown::on_signals()?`
    let other_work = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        shutdown.trigger();
    };
    tokio::join!(schedule.work_async(&shutdown), other_work);
    Ok(())
}
