//! Five workers on one store for a while: who ran what, and who stood back.
//!
//! ```text
//! cargo run --example fleet
//! cargo run --example fleet --features redis -- redis://127.0.0.1
//! ```
//!
//! Each worker is a process of its own and ticks the same schedule; a minute lasts a second here. `carts:remind` is given
//! to one worker a minute. `reports:generate` takes a minute and a half, so that every other minute finds it at work.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::{Entry, Event, Run, RunOutcome, Schedule, SkipReason, Verdict};

const WORKERS: usize = 5;
const MINUTES: i32 = 6;
const MINUTE: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [worker, store, start] if worker == "--worker" => work(store, start.parse()?),
        [] => lead(&format!("file:{}", std::env::temp_dir().join("soloist-fleet").display())),
        [store] => lead(store),
        _ => Err("usage: fleet [URL of a store]".into()),
    }
}

/// One server of the fleet.
fn work(store: &str, start: DateTime<Utc>) -> Result<(), Box<dyn Error>> {
    let mut schedule = Schedule::new(soloist::connect(store)?);
    schedule.add(Event::call("carts:remind", |_| {}).every_minute().on_one_server().then(tell))?;
    schedule.add(
        Event::call("reports:generate", |_| thread::sleep(MINUTE * 3 / 2))
            .every_minute()
            .on_one_server()
            .without_overlapping()
            .in_background()
            .then(tell),
    )?;
    thread::scope(|scope| {
        for minute in 0..MINUTES {
            let (schedule, now) = (&schedule, start + TimeDelta::minutes(minute.into()));
            scope.spawn(move || {
                // Servers don't tick in step.
                thread::sleep(Duration::from_millis(fastrand::u64(..100)));
                schedule.run_due(now).entries().iter().for_each(tell_of_skips);
            });
            thread::sleep(MINUTE);
        }
    });
    Ok(())
}

fn tell(run: &Run, outcome: &RunOutcome) {
    println!("{}\t{}\tran: {outcome}", run.occurrence().format("%H:%M"), run.name());
}

fn tell_of_skips(entry: &Entry) {
    let why = match entry.verdict() {
        Verdict::Ran(_) => return,
        Verdict::Skipped(SkipReason::RanElsewhere(_)) => "stood back: another ran it".to_owned(),
        Verdict::Skipped(SkipReason::Overlapping(_)) => "stood back: it was still at work".to_owned(),
        Verdict::Skipped(reason) => reason.to_string(),
    };
    println!("{}\t{}\t{why}", entry.occurrence().format("%H:%M"), entry.event());
}

/// Starts the workers and shows what they tell.
fn lead(store: &str) -> Result<(), Box<dyn Error>> {
    println!(
        "{WORKERS} workers on {}, {MINUTES} minutes of a second each\n",
        store.split("://").next().unwrap_or(store)
    );
    // A clock that is sixty times as fast: each start of this program has minutes of its own.
    let start =
        DateTime::from_timestamp((Utc::now().timestamp() - 1_767_225_600) * 60, 0).ok_or("a clock that is off")?;
    let (tell, told) = mpsc::channel();
    let mut workers = Vec::new();
    for number in 1..=WORKERS {
        let (child, told) = start_worker(store, start)?;
        let (tell, lines) = (tell.clone(), BufReader::new(told).lines());
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send((number, line))));
        workers.push(child);
    }
    drop(tell); // The last worker that ends hangs up.

    let mut tally: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (worker, line) in told {
        let [minute, event, what] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
        if what.starts_with("ran") {
            println!("{minute}  {event:16}  worker {worker} {what}");
        }
        let sort = what.split(": ").next().filter(|sort| *sort == "ran").unwrap_or(what);
        *tally.entry((event.to_owned(), sort.to_owned())).or_default() += 1;
    }
    println!();
    for ((event, what), times) in tally {
        println!("{event:16}  {times:3} times: {what}");
    }
    for mut worker in workers {
        let status = worker.wait()?;
        if !status.success() {
            return Err(format!("a worker ended with {status}").into());
        }
    }
    Ok(())
}

fn start_worker(store: &str, start: DateTime<Utc>) -> Result<(Child, ChildStdout), Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--worker", store, &start.to_rfc3339()]).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let told = child.stdout.take().ok_or("a worker without its standard output")?;
    Ok((child, told))
}
