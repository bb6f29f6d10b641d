//! An operator's switch: pauses every schedule that is pausable under a name, before a migration say, and resumes it.
//!
//! ```text
//! cargo run --example pause -- file:/tmp/fleet shop 90       # for 90 minutes, or until it is resumed
//! cargo run --example pause -- file:/tmp/fleet shop          # is it paused, by whom, until when?
//! cargo run --example pause -- file:/tmp/fleet shop resume
//! ```
//!
//! It has no events: the store and the name are all that it shares with those who have.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use chrono::{TimeDelta, Utc};
use soloist::Schedule;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (store, name, order) = match arguments[..] {
        [store, name] => (store, name, None),
        [store, name, order] => (store, name, Some(order)),
        _ => {
            let _ = writeln!(io::stderr(), "usage: pause STORE NAME [MINUTES | resume]");
            return Ok(ExitCode::from(2));
        }
    };
    let schedule = Schedule::new(soloist::connect(store)?).pausable_as(name)?;
    match order {
        None => {}
        Some("resume") => println!("{}", if schedule.resume()? { "resumed" } else { "there was nothing to resume" }),
        Some(minutes) => {
            let rest = TimeDelta::try_minutes(minutes.parse()?).and_then(|rest| Utc::now().checked_add_signed(rest));
            schedule.pause(rest.ok_or("there is no such time")?)?;
        }
    }
    match schedule.paused()? {
        None => println!("{name} is not paused"),
        Some(pause) => println!("{name} is {pause}"),
    }
    Ok(ExitCode::SUCCESS)
}
