//! Pauses and resumes all schedules that have the given name. If the name includes an event, the example pauses or
//! resumes only this event. The program `soloist` also has these commands: `soloist pause` and `soloist resume`.
//!
//! ```text
//! cargo run --example pause -- file:/tmp/fleet shop 90 "the orders are migrated"   # for 90 minutes at most
//! cargo run --example pause -- file:/tmp/fleet shop          # shows whether it is paused, by whom, until when and why
//! cargo run --example pause -- file:/tmp/fleet shop resume
//! cargo run --example pause -- file:/tmp/fleet shop/import 90 "the supplier is out"   # only the event `import`
//! ```
//!
//! This program needs no events. It only needs the store and the name of the schedules that it pauses.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use chrono::{TimeDelta, Utc};
use soloist::Schedule;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (store, name, order, why) = match arguments[..] {
        [store, name] => (store, name, None, ""),
        [store, name, order] => (store, name, Some(order), ""),
        [store, name, minutes, why] => (store, name, Some(minutes), why),
        _ => {
            let _ = writeln!(io::stderr(), "usage: pause STORE NAME[/EVENT] [MINUTES [WHY] | resume]");
            return Ok(ExitCode::from(2));
        }
    };
    let (schedule, event) = name.split_once('/').map_or((name, None), |(schedule, event)| (schedule, Some(event)));
    let schedule = Schedule::new(soloist::connect(store)?).named(schedule)?;
    match order {
        None => {}
        Some("resume") => {
            let was_paused = event.map_or_else(|| schedule.resume(), |event| schedule.resume_event(event))?;
            println!("{}", if was_paused { "resumed" } else { "there was nothing to resume" });
        }
        Some(minutes) => {
            let rest = TimeDelta::try_minutes(minutes.parse()?).and_then(|rest| Utc::now().checked_add_signed(rest));
            let until = rest.ok_or("the number of minutes is too large")?;
            match event {
                None => schedule.pause(until, why)?,
                Some(event) => schedule.pause_event(event, until, why)?,
            }
        }
    }
    match event.map_or_else(|| schedule.paused(), |event| schedule.paused_event(event))? {
        None => println!("{name} is not paused"),
        Some(pause) => println!("{name} is {pause}"),
    }
    Ok(ExitCode::SUCCESS)
}
