//! The four signals that ask a process to end: the first, the second and each further signal.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::shutdown_state::ShutdownState;
use crate::base::lock::lock;
use crate::base::{system, threads};
use crate::observe::tell::{notice_queue::spawn_detached, trace};
use crate::time::{clock::Clock, clock::moment::Moment};

/// A second signal within this time counts as the same request, because a closed terminal sends two signals.
const SAME_REQUEST: Duration = Duration::from_millis(100);

/// Returns the shutdown that the signals of this process trigger. A process has only one such shutdown.
pub(super) fn shutdown_of_this_process() -> io::Result<Arc<ShutdownState>> {
    static PROCESS: Mutex<Option<Arc<ShutdownState>>> = Mutex::new(None);

    let mut process = lock(&PROCESS);
    let shutdown = process.clone().unwrap_or_default();
    shutdown.listen()?;
    Ok(process.insert(shutdown).clone())
}

/// Starts the thread that reads the signals, if this process is the child of a `fork`. The child inherits the handlers,
/// but not the thread of its parent.
pub(super) fn listen_after_fork(shutdown: &Arc<ShutdownState>) {
    if ![0, std::process::id()].contains(&shutdown.listening_process.load(Ordering::Relaxed))
        && let Err(error) = shutdown.listen()
    {
        trace::signals_not_handled(&error);
    }
}

impl ShutdownState {
    /// Starts the thread that reads the signals of this process, unless there is such a thread.
    fn listen(self: &Arc<Self>) -> io::Result<()> {
        let mut progress = self.lock();
        let listening_process = self.listening_process.load(Ordering::Relaxed);
        if listening_process == std::process::id() {
            return Ok(());
        }
        if listening_process != 0 {
            // This process is the child of a `fork`. The ticks and runs of the parent continue in the parent, not here.
            (progress.ticks, progress.running) = (0, Vec::new());
        }
        // From now on, another thread can find the id of this process in `listening_process`. Such a thread does not
        // call `listen`. But it needs the lock to change the state, and gets the lock only after the ticks and runs of
        // the parent were removed.
        self.listening_process.store(std::process::id(), Ordering::Relaxed);
        drop(progress);
        self.start_listener().inspect_err(|_| self.listening_process.store(0, Ordering::Relaxed))
    }

    fn start_listener(self: &Arc<Self>) -> io::Result<()> {
        let not_ignored = [SIGTERM, SIGINT, SIGQUIT, SIGHUP].into_iter().filter(|signal| !system::is_ignored(*signal));
        let mut signals = Signals::new(not_ignored)?;
        let shutdown = Arc::clone(self);
        let listen = move || {
            let mut first = None;
            for signal in &mut signals {
                shutdown.handle(signal, &mut first);
            }
        };
        threads::start("soloist-signals", listen)
    }

    /// Handles one signal without blocking, so that a second signal can be handled even if everything else hangs.
    fn handle(self: &Arc<Self>, signal: i32, first: &mut Option<Moment>) {
        let now = Clock::system().moment();
        match first {
            None => {
                *first = Some(now);
                let shutdown = Arc::clone(self);
                if !spawn_detached(move || shutdown.close(signal, now)) {
                    self.close(signal, now);
                }
            }
            Some(first) if now.since(*first) < SAME_REQUEST => {}
            Some(first) if self.end_drain(now) => {
                *first = now;
                let shutdown = Arc::clone(self);
                if !spawn_detached(move || shutdown.cancel_runs()) {
                    self.cancel_runs();
                }
            }
            Some(_) => self.end_at_once(signal),
        }
    }
}
