//! Shows a fleet on one store, in ten seconds: several workers tick one schedule, and one worker is killed during a
//! run. A timeline in the terminal, and in an SVG file, shows each run with its worker, and each skip with its reason.
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
  --workers N   the number of processes [default: 5]
  --minutes N   the number of minutes, each of which lasts a second [default: 10]
  --seed N      chooses the time of the kill [default: random]
  --svg FILE    the file for the picture [default: next to this program]";

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
            // `eprintln!` would panic if standard error can't be written to.
            let _ = writeln!(io::stderr(), "fleet: {}", in_one_line(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Returns the text of an error, and the texts of its causes that are not in the text yet.
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
    let directory = tempfile::tempdir()?; // is removed when it is dropped
    let url = match &options.store {
        None => format!("file:{}", directory.path().display()),
        Some(url) => url.clone(),
    };
    // The store and the file are opened first, so that an error in either is reported at once, and not after ten
    // seconds.
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
    println!("\nthe timeline as a picture: {}", options.svg.display());
    match story.faults()[..] {
        [] => Ok(()),
        ref faults => Err(faults.join("; ").into()),
    }
}

struct Options {
    /// The URL of the store; `None` for a temporary file store.
    store: Option<String>,
    workers: usize,
    minutes: u32,
    seed: u64,
    svg: PathBuf,
    /// The clock of the fleet, if this process is a worker.
    worker: Option<Pace>,
}

impl Options {
    /// Reads the options. Returns `None` if the arguments ask for the help.
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
                // With fewer minutes, there is no time for the kill, the next run and the restart. With more workers or
                // minutes, the picture is too large.
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

/// Reads the value of an option. `rule` describes the allowed values in an error.
fn number<T: FromStr + PartialOrd>(
    arguments: &mut lexopt::Parser,
    range: RangeInclusive<T>,
    rule: &str,
) -> Result<T, Box<dyn Error>> {
    let value = arguments.value()?.to_string_lossy().into_owned();
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{rule}, not {value:?}").into())
}
