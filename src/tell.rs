//! Tells whoever runs the process, on standard error.

use std::fmt;
use std::io::{self, Write};

/// Writes a line to standard error. If nobody can read it there, that is no reason to fail.
pub(crate) fn say(line: impl fmt::Display) {
    // In one piece, so that the lines of several processes don't mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
