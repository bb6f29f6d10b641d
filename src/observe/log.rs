//! Messages that no report has: `tracing` events, and lines on standard error where nothing subscribes.

use std::fmt;
use std::io::{self, Write};
use std::thread::Builder;

use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;

use crate::base::catch_panic::contain;

/// Emits the `event`, and prints the `line` if nothing subscribes to events.
pub(crate) fn log_or_print(line: impl fmt::Display, event: impl FnOnce()) {
    // Only a subscriber's code can panic here.
    let _ = contain(event);
    print_unless_logged(line);
}

/// Prints the line on standard error, unless something subscribes to the event that says the same.
pub(crate) fn print_unless_logged(line: impl fmt::Display) {
    if tracing::dispatcher::get_default(Dispatch::is::<NoSubscriber>) {
        let _ = contain(|| print_line(format_args!("soloist: {line}")));
    }
}

/// Does the work on a thread that nobody waits for, since standard error and subscribers may be stuck. `false`: there is no
/// thread for it.
pub(crate) fn spawn_detached(work: impl FnOnce() + Send + 'static) -> bool {
    Builder::new().name("soloist-aside".into()).spawn(work).is_ok()
}

/// Prints a line on standard error. If that fails, nobody could read it anyway.
pub(crate) fn print_line(line: impl fmt::Display) {
    // In one piece, so that the lines of several processes don't mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
