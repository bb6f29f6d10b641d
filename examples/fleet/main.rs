//! Shows a fleet on one store, in ten seconds: workers tick one schedule, and one of them is killed during a run. A timeline shows
//! each run with its worker, and each skip with its reason: in the terminal, and as an SVG file.
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
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

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
            Some(pace) => worker::work(&options.store.unwrap_or_default(), pace, options.minutes),
            None => lead(&options),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where standard error can't be written to, the macro for it panics.
            let _ = writeln!(io::stderr(), "fleet: {}", in_one_line(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Writes an error with the causes that its own text leaves out.
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
    let url = match &options.store {
        None => format!("file:{}", directory.path().display()),
        Some(url) => url.clone(),
    };
    // First of all, so that a wrong store or a wrong path is reported at once, not after ten seconds.
    let story = Story::new(options.workers, options.minutes, options.seed, leader::look_at(&url)?);
    let mut picture = File::create(&options.svg).map_err(|error| format!("{}: {error}", options.svg.display()))?;
    println!(
        "{} workers on one {} store, {} minutes of a second each, seed {}\n",
        options.workers,
        url.split(':').next().unwrap_or_default(),
        options.minutes,
        options.seed
    );
    let story = leader::lead(&url, story)?;
    terminal::show(&story);
    picture.write_all(svg::draw(&story).as_bytes())?;
    println!("\nthe same as a picture: {}", options.svg.display());
    match story.faults()[..] {
        [] => Ok(()),
        ref faults => Err(faults.join("; ").into()),
    }
}

struct Options {
    /// `None`: one in files, of our own.
    store: Option<String>,
    workers: usize,
    minutes: u32,
    seed: u64,
    svg: PathBuf,
    /// The clock of the fleet, if this process is a worker.
    worker: Option<Pace>,
}

impl Options {
    /// `None`: help was asked for.
    fn parse() -> Result<Option<Self>, Box<dyn Error>> {
        use lexopt::prelude::*;

        let mut options = Self {
            store: None,
            workers: 5,
            minutes: 10,
            seed: fastrand::u64(..10_000),
            svg: std::env::current_exe()?.with_extension("svg"),
            worker: None,
        };
        let mut arguments = lexopt::Parser::from_env();
        while let Some(argument) = arguments.next()? {
            match argument {
                // Less leaves no time for the kill, the take-over and the return; more is no picture any more.
                Long("workers") => {
                    options.workers = number(&mut arguments, 2..=20, "--workers is a whole number from 2 to 20")?;
                }
                Long("minutes") => {
                    options.minutes = number(&mut arguments, 8..=30, "--minutes is a whole number from 8 to 30")?;
                }
                Long("seed") => options.seed = number(&mut arguments, 0..=u64::MAX, "--seed is a whole number")?,
                Long("svg") => options.svg = arguments.value()?.into(),
                Long("worker") => options.worker = Some(Pace::begun_at(arguments.value()?.parse()?)),
                Long("help") | Short('h') => return Ok(None),
                Value(store) if options.store.is_none() => options.store = Some(store.string()?),
                _ => return Err(argument.unexpected().into()),
            }
        }
        Ok(Some(options))
    }
}

/// Reads the value of an option. `rule` describes it in an error.
fn number<T: FromStr + PartialOrd>(
    arguments: &mut lexopt::Parser,
    range: RangeInclusive<T>,
    rule: &str,
) -> Result<T, Box<dyn Error>> {
    let value = arguments.value()?.to_string_lossy().into_owned();
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{rule}, not {value:?}").into())
}
