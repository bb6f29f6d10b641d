//! Prints on standard error.

use std::fmt;
use std::io::{self, Write};

/// Prints a line on standard error. A failure is ignored, because there is no other place to report it.
pub(crate) fn print_line(line: impl fmt::Display) {
    // One write, so that the lines of several processes don't mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
