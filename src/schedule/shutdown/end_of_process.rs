//! The end of the process after a signal: when no tick is running, or when the grace is over.

use std::io::{self, Write};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use signal_hook::low_level;

use super::shutdown_state::ShutdownState;
use crate::base::escape::Named;
use crate::base::standard_error::print_line;
use crate::hold::{held_lease::NO_THREAD, process_exit::leave};
use crate::observe::notice::{About, Step};
use crate::observe::tell::notice_queue::spawn_detached;
use crate::task::run::Run;
use crate::time::{clock::Clock, clock::moment::Moment};

/// After the last tick has ended, `main` may take this long to notice the shutdown.
const MAIN_NOTICES: Duration = Duration::from_secs(1);

/// The longest wait for commands that are killed because of a further signal.
const KILLING: Duration = Duration::from_millis(500);

/// The longest wait for standard error and for subscribers of `tracing` when the process ends.
const TELLING: Duration = Duration::from_millis(500);

impl ShutdownState {
    /// Begins the shutdown for this `signal`, which came at the moment `came`. Ends the process when no tick is
    /// running, or when the grace is over. If the application has noticed the shutdown, `main` has the rest of the
    /// grace to return by itself.
    pub(super) fn close(self: &Arc<Self>, signal: i32, came: Moment) {
        if let Some(tell) = self.announce(Some(signal)) {
            tell_with_timeout(tell);
        }
        if !self.begin(Some(signal), came) {
            // `trigger` has already begun the shutdown, without a signal. Now `finish` must end the process by this
            // signal.
            self.lock().signal = Some(signal);
        }
        if self.wait_for_exit(Moment::NEVER, |progress| progress.ticks == 0) {
            // `main` has the time `MAIN_NOTICES` to return, or, if it has other work, to notice the shutdown.
            let main_notices = Clock::system().moment().plus(MAIN_NOTICES);
            if self.wait_for_exit(main_notices, |progress| progress.seen_by_application) {
                self.wait_for_exit(Moment::NEVER, |_| false);
            }
        }
        let left_behind = self.lock().runs();
        if !left_behind.is_empty() {
            tell_with_timeout(move || report_left_behind(&left_behind));
        }
        leave(NO_THREAD);
        die_of(signal);
    }

    /// Kills all commands, then ends the process. A further signal after the drain asks for this.
    pub(super) fn end_at_once(&self, signal: i32) {
        let running = self.lock().runs();
        for run in &running {
            run.held.shut_down(Duration::ZERO, Duration::ZERO, Some(signal));
        }
        if running.iter().any(|run| !run.held.stopping.is_zero()) {
            let enough = Clock::system().moment().plus(KILLING);
            self.wait_until(enough, |progress| {
                progress.running.iter().all(|watched| watched.run.held.stopping.is_zero())
            });
        }
        die_of(signal);
    }
}

/// Prints the runs that are left behind, and notifies the observers, because the process ends before a report can list
/// them.
fn report_left_behind(left_behind: &[Run]) {
    for run in left_behind {
        print_line(format_args!("{}: left behind: still running when the shutdown's grace ended", Named(run.name())));
    }
    for run in left_behind {
        let about = About { run: run.held.observed_run(), ..About::from(&run.id) };
        run.held.observers().tell(about, &Step::LeftBehind);
    }
}

/// Calls `tell` on another thread. Waits only a short time for the end of `tell`, because standard error and
/// subscribers may hang.
fn tell_with_timeout(tell: impl FnOnce() + Send + 'static) {
    let (telling, is_written) = mpsc::channel::<()>();
    spawn_detached(move || {
        tell();
        drop(telling);
    });
    let _ = is_written.recv_timeout(TELLING);
}

/// Ends the process by this signal, at the end of `main`.
pub(crate) fn end_by(signal: i32) {
    // The process ends without the usual flush of standard output. The buffer may still have text after the last line
    // break.
    let _ = io::stdout().flush();
    leave(NO_THREAD);
    die_of(signal);
}

fn die_of(signal: i32) {
    // For process 1, the kernel ignores the default action of a signal. So process 1 exits with a code instead.
    if std::process::id() != 1 {
        let _ = low_level::emulate_default_handler(signal);
    }
    low_level::exit(128 + signal);
}
