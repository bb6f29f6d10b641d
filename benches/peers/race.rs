//! The measurement of all kinds of work, one after another, and its results.

use std::time::Duration;

use crate::alternate::{Measured, Work};
use crate::table;

pub(crate) struct Race {
    /// Whether this is a measurement. Otherwise it is a test: each contender has one short turn.
    is_full: bool,
    pub(crate) measured: Vec<Measured>,
    /// The versions of the servers and programs.
    pub(crate) versions: Vec<String>,
}

impl Race {
    pub(crate) fn new(is_full: bool) -> Self {
        Self { is_full, measured: Vec::new(), versions: Vec::new() }
    }

    pub(crate) fn size(&self, full: usize, small: usize) -> usize {
        if self.is_full { full } else { small }
    }

    /// Measures `work` for about `seconds`, and prints the result. In a test, the result has no meaning, so only the
    /// title is printed.
    pub(crate) fn run(&mut self, seconds: u64, work: Work) {
        let measured = work.measure(if self.is_full { Duration::from_secs(seconds) } else { Duration::ZERO });
        if self.is_full {
            print!("{}", table::rows(&measured));
        } else {
            println!("{}: by {} contenders", measured.title, measured.rows.len());
        }
        self.measured.push(measured);
    }

    /// Finds a version number in the text `says`. Adds the name `of` and the number to the versions.
    pub(crate) fn version(&mut self, of: &str, says: &str) {
        let mut words = says.split([' ', '-', '\n']);
        let version = words.find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
        self.versions.push(format!("{of} {}", version.unwrap_or("?").trim()));
    }
}
