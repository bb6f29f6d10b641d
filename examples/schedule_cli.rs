//! Shows a program that is the command line of its own schedule. The arguments are those of `soloist::cli`:
//!
//! ```sh
//! cargo run --features cli --example schedule_cli -- list
//! cargo run --features cli --example schedule_cli -- work
//! ```

use std::error::Error;
use std::process::ExitCode;

use soloist::{Event, Schedule, cli};

fn schedule() -> Result<Schedule, Box<dyn Error>> {
    let store = std::env::var("SCHEDULE_STORE").unwrap_or_else(|_| "file:/tmp/soloist-example".to_owned());
    let schedule = Schedule::new(soloist::connect(&store)?).named("shop")?.with_run_log(20)?;
    schedule
        .add(Event::exec("carts:remind", "sleep 3").every_minute().without_overlapping().on_one_server())?
        .add(Event::exec("db:backup", "sleep 20").daily_at("02:30").timezone("Europe/Berlin").without_overlapping())?
        .add(Event::call("prices:import", |_| Err("the supplier is out".into())).every_five_minutes().weekdays())?;
    Ok(schedule)
}

fn main() -> ExitCode {
    cli::run(schedule)
}
