//! The four signals that ask a process to end.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::Builder;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use super::Shutdown;
use crate::base::contain::contain;
use crate::base::escape::Named;
use crate::base::process;
use crate::base::system;
use crate::hold::process_exit::leave;
use crate::observe::log::{log_or_print, print_line, spawn_detached};
use crate::task::run::Run;
use crate::time::clock::Clock;
use crate::time::clock::moment::Moment;
use crate::time::clock::shown::Rfc3339;

/// What comes so soon after the first signal is the same wish: a closed terminal sends two.
const SAME_WISH: Duration = Duration::from_millis(100);

/// How long `main` may take to say its last words when all ticks have ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long commands may take to end that are killed by a second signal.
const KILLING: Duration = Duration::from_millis(500);

/// How long it may take to tell that the end begins, and what it leaves behind.
const TELLING: Duration = Duration::from_millis(500);

/// The one that the signals of this process set off.
pub(super) fn of_this_process() -> io::Result<Shutdown> {
    static PROCESS: Mutex<Option<Shutdown>> = Mutex::new(None);

    let mut process = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let shutdown = process.clone().unwrap_or_default();
    shutdown.attend()?;
    Ok(process.insert(shutdown).clone())
}

impl Shutdown {
    /// A child that was made by `fork` has the handlers of its parent and not the thread that hears them: it gets its own.
    pub(super) fn follow_a_fork(&self) {
        if ![0, process::id()].contains(&self.shared.attended_in.load(Ordering::Relaxed))
            && let Err(error) = self.attend()
        {
            log_or_print(
                format_args!("signals do not shut down process {}, which was forked: {error}", process::id()),
                || tracing::warn!(target: "soloist", %error, "signals do not shut this process down"),
            );
        }
    }

    /// Hears the signals of this process from here on, on a thread of its own, unless that is there.
    fn attend(&self) -> io::Result<()> {
        let mut state = self.state();
        let attended_in = self.shared.attended_in.load(Ordering::Relaxed);
        if attended_in == process::id() {
            return Ok(());
        }
        if attended_in != 0 {
            // What was at work in the process that this one was forked from goes on there.
            (state.ticks, state.at_work) = (0, Vec::new());
        }
        // Whoever sees this waits for the state, and finds it so.
        self.shared.attended_in.store(process::id(), Ordering::Relaxed);
        drop(state);
        self.hear_signals().inspect_err(|_| self.shared.attended_in.store(0, Ordering::Relaxed))
    }

    fn hear_signals(&self) -> io::Result<()> {
        let heeded = [SIGTERM, SIGINT, SIGQUIT, SIGHUP].into_iter().filter(|signal| !system::is_ignored(*signal));
        let mut signals = Signals::new(heeded)?;
        let shutdown = self.clone();
        let hear = move || {
            let mut first = None;
            for signal in &mut signals {
                shutdown.hear(signal, &mut first);
            }
        };
        Builder::new().name("soloist-signals".into()).spawn(hear).map(drop)
    }

    /// Nobody waits for this for longer than it takes to note it, whatever else is stuck: a second signal must be heard.
    fn hear(&self, signal: i32, first: &mut Option<Moment>) {
        let now = Clock::system().moment();
        match first {
            None => {
                *first = Some(now);
                let closing = self.clone();
                if !spawn_detached(move || closing.close(signal, now)) {
                    self.close(signal, now);
                }
            }
            Some(first) if now.since(*first) < SAME_WISH => {}
            Some(_) => self.end_at_once(signal),
        }
    }

    /// Ends the process, and commands before it: whoever asks twice does not want them to go on.
    fn end_at_once(&self, signal: i32) {
        let at_work = self.state().at_work.clone();
        for run in &at_work {
            run.tenure().shut_down(Duration::ZERO);
        }
        if at_work.iter().any(|run| !run.tenure().stopping().is_zero()) {
            let enough = Clock::system().moment().plus(KILLING);
            self.wait_until(enough, |state| state.at_work.iter().all(|run| run.tenure().stopping().is_zero()));
        }
        die_of(signal);
    }

    /// Sets it off by the signal that came at this moment, and ends the process when nothing is at work any more, or when
    /// the grace is over.
    fn close(&self, signal: i32, came: Moment) {
        if let Some(news) = self.announce(Some(signal)) {
            tell_aside(move || news.tell());
        }
        if !self.begin(Some(signal), came) {
            // It was set off otherwise, and the signal says that the process is to end as well.
            self.state().signal = Some(signal);
        }
        let gone_by = self.state().gone_by.unwrap_or(Moment::BEGINNING);
        if self.wait_until(gone_by, |state| state.ticks == 0) {
            // `main` ends before this, if it has no more to do.
            let last_words = Clock::system().moment().plus(LAST_WORDS);
            if self.wait_until(last_words.min(gone_by), |state| state.heeded) {
                self.wait_until(gone_by, |_| false);
            }
        }
        let left_behind = self.state().at_work.clone();
        if !left_behind.is_empty() {
            tell_aside(move || tell_of(&left_behind));
        }
        leave(None);
        die_of(signal);
    }
}

/// Tells of these, which no report will.
fn tell_of(left_behind: &[Run]) {
    for run in left_behind {
        print_line(format_args!("{}: left behind: still running when the shutdown's grace ended", Named(run.name())));
    }
    for run in left_behind {
        let _ = contain(|| {
            let (event, occurrence) = (run.name(), Rfc3339(run.occurrence()));
            tracing::warn!(target: "soloist", event, %occurrence, "left behind");
        });
    }
}

/// Standard error and subscribers may be stuck themselves: nobody waits for long until something is told.
fn tell_aside(tell: impl FnOnce() + Send + 'static) {
    let (told, is_told) = mpsc::channel::<()>();
    spawn_detached(move || {
        tell();
        drop(told);
    });
    let _ = is_told.recv_timeout(TELLING);
}

/// Ends the process by this signal, when `main` has said all it has to say.
pub(super) fn end_by(signal: i32) {
    // What was printed without an end of line.
    let _ = io::stdout().flush();
    leave(None);
    die_of(signal);
}

fn die_of(signal: i32) {
    // The signals' default does nothing to process 1.
    if process::id() != 1 {
        let _ = low_level::emulate_default_handler(signal);
    }
    low_level::exit(128 + signal);
}
