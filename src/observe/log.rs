//! Tells people: subscribers of `tracing`, or standard error where there is none.

use std::fmt;
use std::io::{self, Write};
use std::thread::Builder;

use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;

use crate::base::contain::contain;

/// Tells `subscribers` something that no report says, or standard error in a `line` of its own.
pub(crate) fn tell(line: impl fmt::Display, subscribers: impl FnOnce()) {
    // What panics there is a subscriber's code.
    let _ = contain(subscribers);
    tell_instead(line);
}

/// Tells it on standard error, unless there are subscribers, who were told.
pub(crate) fn tell_instead(line: impl fmt::Display) {
    if tracing::dispatcher::get_default(Dispatch::is::<NoSubscriber>) {
        let _ = contain(|| say(format_args!("soloist: {line}")));
    }
}

/// Does this on a thread that nobody waits for, since standard error and subscribers may be stuck; `false`: there is none.
pub(crate) fn aside(work: impl FnOnce() + Send + 'static) -> bool {
    Builder::new().name("soloist-aside".into()).spawn(work).is_ok()
}

/// Writes a line to standard error. If nobody can read it there, that is no reason to fail.
pub(crate) fn say(line: impl fmt::Display) {
    // In one piece, so that the lines of several processes don't mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
