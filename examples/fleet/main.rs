//! A fleet on one store, in ten seconds: workers tick the same schedule, one of them is killed while it is at work, and
//! a timeline shows who ran what when, and who was skipped and why. In the terminal, and as an SVG file.
//!
//! ```text
//! cargo run --example fleet
//! cargo run --example fleet -- --workers 9 --minutes 12 --seed 7
//! cargo run --example fleet --features redis -- redis://127.0.0.1
//! ```
//!
//! A minute lasts a second here. Each worker is a process of its own.

mod jobs;
mod leader;
mod pace;
mod story;
mod svg;
mod terminal;
mod worker;

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::pace::Pace;
use crate::story::Story;

const USAGE: &str = "usage: fleet [options] [URL of a store that processes share: file:/path, redis://host …]
  --workers N   how many processes tick (5)
  --minutes N   for how many minutes, of a second each (10)
  --seed N      which moment the kill comes in (a random one)
  --svg FILE    where the picture goes (beside this program)";

fn main() -> ExitCode {
    let done = match Options::parse() {
        Err(error) => Err(format!("{} (see --help)", in_one_line(&*error)).into()),
        Ok(None) => {
            println!("{USAGE}");
            Ok(())
        }
        Ok(Some(options)) => match options.worker {
            Some(pace) => worker::work(&options.store, pace, options.minutes),
            None => lead(&options),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fleet: {}", in_one_line(&*error));
            ExitCode::FAILURE
        }
    }
}

/// With its causes, where it does not tell of them itself.
fn in_one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        if !text.contains(&error.to_string()) {
            text = format!("{text}: {error}");
        }
        cause = error.source();
    }
    text
}

fn lead(options: &Options) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?; // gone when we end
    let (kind, url) = match options.store.split_once(':') {
        None => ("file", format!("file:{}", directory.path().display())),
        Some((kind, _)) => (kind, options.store.clone()),
    };
    println!(
        "{} workers on one {kind} store, {} minutes of a second each, seed {}\n",
        options.workers, options.minutes, options.seed
    );
    // Before all else, so that a wrong path costs nobody its ten seconds.
    let mut picture = File::create(&options.svg).map_err(|error| format!("{}: {error}", options.svg.display()))?;
    let story = leader::lead(&url, Story::new(options.workers, options.minutes, options.seed))?;
    terminal::show(&story);
    picture.write_all(svg::draw(&story).as_bytes())?;
    println!("\nthe same as a picture: {}", options.svg.display());
    match story.faults()[..] {
        [] => Ok(()),
        ref faults => Err(faults.join("; ").into()),
    }
}

struct Options {
    /// Empty: one in files, of our own.
    store: String,
    workers: usize,
    minutes: u32,
    seed: u64,
    svg: PathBuf,
    /// This process is a worker, of the fleet with this clock.
    worker: Option<Pace>,
}

impl Options {
    /// `None`: help was asked for.
    fn parse() -> Result<Option<Self>, Box<dyn Error>> {
        use lexopt::prelude::*;

        let mut options = Self {
            store: String::new(),
            workers: 5,
            minutes: 10,
            seed: fastrand::u64(..10_000),
            svg: std::env::current_exe()?.with_extension("svg"),
            worker: None,
        };
        let mut arguments = lexopt::Parser::from_env();
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("workers") => options.workers = arguments.value()?.parse()?,
                Long("minutes") => options.minutes = arguments.value()?.parse()?,
                Long("seed") => options.seed = arguments.value()?.parse()?,
                Long("svg") => options.svg = arguments.value()?.into(),
                Long("worker") => options.worker = Some(Pace::begun_at(arguments.value()?.parse()?)),
                Long("help") | Short('h') => return Ok(None),
                Value(store) if options.store.is_empty() => options.store = store.string()?,
                _ => return Err(argument.unexpected().into()),
            }
        }
        // Less leaves no time for the kill, the take-over and the return; more is no picture any more.
        if !(2..=20).contains(&options.workers) {
            return Err("--workers is a number from 2 to 20".into());
        }
        if !(8..=30).contains(&options.minutes) {
            return Err("--minutes is a number from 8 to 30".into());
        }
        Ok(Some(options))
    }
}
