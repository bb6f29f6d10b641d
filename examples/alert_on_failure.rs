//! Shows an alert for a failed run. A command of your choice reads the run's error and the end of the run's output from
//! standard input.
//!
//! ```text
//! cargo run --example alert_on_failure
//! cargo run --example alert_on_failure -- "mail -s 'db:backup failed' ops@example.org"
//! cargo run --example alert_on_failure -- "curl --max-time 10 --data-binary @- https://hooks.example.org/alert"
//! ```

use std::error::Error;
use std::io::Write;
use std::process::{Command, Stdio};

use chrono::Utc;
use soloist::{Event, Output, Run, RunOutcome, Schedule};

fn main() -> Result<(), Box<dyn Error>> {
    let alert = std::env::args().nth(1).unwrap_or("cat".to_owned());
    let schedule = Schedule::in_process();
    schedule.add(
        Event::exec("db:backup", "echo 'pg_dump: connection refused'; exit 1")
            .every_minute()
            .without_overlapping()
            .output(Output::Keep(4096))
            .on_failure(move |run, outcome| send(&alert, run, outcome)),
    )?;
    let report = schedule.run_due(Utc::now());
    // In a program that cron starts, return the report from `main`: cron mails the failure, and the exit
    // code is 1.
    if report.is_failure() { Ok(()) } else { Err("the command of this example must fail".into()) }
}

/// Starts `command`, and writes the failure to its standard input. If `send` returns an error, the report shows it as
/// an error of the hook.
fn send(command: &str, run: &Run, outcome: &RunOutcome) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut child = Command::new("sh").args(["-c", command]).stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        writeln!(stdin, "{} of {}: {outcome}", run.name(), run.occurrence())?;
    }
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("the alert was not sent: {status}").into()) }
}
