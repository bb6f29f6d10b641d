//! A program as cron would start it every minute: `cron_program DIRECTORY due|idle`. It has one event on the file store
//! in DIRECTORY. The event is due now, or only once a year. The exit code is the number of events that ran.

use std::process::ExitCode;

use soloist::{Event, FileMutex, Schedule};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, when] = &arguments[..] else { return Err("usage: cron_program DIRECTORY due|idle".into()) };
    let schedule = Schedule::new(FileMutex::in_dir(directory)?);
    let event = Event::call("reports:generate", |_| {}).without_overlapping();
    schedule.add(if when == "due" { event.every_minute() } else { event.yearly() })?;
    let report = schedule.run_due(chrono::Utc::now());
    let ran = report.entries().iter().filter(|entry| report.outcome(entry.event()).is_some()).count();
    Ok(ExitCode::from(u8::try_from(ran)?))
}
