//! All kinds of work, one after the other, and their results.

use std::time::Duration;

use crate::alternate::{Measured, Work};
use crate::table;

pub(crate) struct Race {
    /// Or each contender has one turn, and a small one: it is a test that they are measured.
    is_full: bool,
    pub(crate) measured: Vec<Measured>,
    /// Of the servers and programs.
    pub(crate) versions: Vec<String>,
}

impl Race {
    pub(crate) fn new(is_full: bool) -> Self {
        Self { is_full, measured: Vec::new(), versions: Vec::new() }
    }

    pub(crate) fn size(&self, full: usize, small: usize) -> usize {
        if self.is_full { full } else { small }
    }

    /// Measures for that many seconds at least, and prints the result. That of a test says nothing.
    pub(crate) fn run(&mut self, seconds: u64, work: Work) {
        let measured = work.measure(if self.is_full { Duration::from_secs(seconds) } else { Duration::ZERO });
        if self.is_full {
            print!("{}", table::rows(&measured));
        } else {
            println!("{}: by {} contenders", measured.title, measured.rows.len());
        }
        self.measured.push(measured);
    }

    /// Notes the version of a program, from its own output.
    pub(crate) fn version(&mut self, of: &str, says: &str) {
        let mut words = says.split([' ', '-', '\n']);
        let version = words.find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
        self.versions.push(format!("{of} {}", version.unwrap_or("?").trim()));
    }
}
