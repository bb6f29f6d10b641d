//! Tells people: subscribers of `tracing`, or standard error where there is none.

use std::fmt;
use std::io::{self, Write};

use tracing::subscriber::NoSubscriber;

use crate::fault::contain;

/// Tells standard error what no report says, unless there are subscribers, who were told.
pub(crate) fn tell_instead(line: impl fmt::Display) {
    if tracing::dispatcher::get_default(|listener| listener.is::<NoSubscriber>()) {
        let _ = contain(|| say(format_args!("soloist: {line}")));
    }
}

/// Writes a line to standard error. If nobody can read it there, that is no reason to fail.
pub(crate) fn say(line: impl fmt::Display) {
    // In one piece, so that the lines of several processes don't mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
