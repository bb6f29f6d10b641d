//! A command on a system without process groups. The scheduler ends only the first process of the command, and does not
//! wait for other processes.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use super::orphan_policy::OrphanPolicy;
use crate::base::lock::lock;

pub(super) struct ProcessAlone(Leader);

#[derive(Clone)]
pub(super) struct Leader(Arc<Mutex<Child>>);

impl ProcessAlone {
    pub(super) fn start(mut command: Command, _: OrphanPolicy, _: Duration) -> io::Result<Self> {
        Ok(Self(Leader(Arc::new(Mutex::new(command.spawn()?)))))
    }

    pub(super) fn leader(&self) -> Leader {
        self.0.clone()
    }

    /// Ignores the request: such a system has no signal that asks a process to stop.
    pub(super) fn ask_to_stop(&mut self, _: Option<i32>) {}

    /// Ignores the request: such a system has no signal that suspends a process.
    pub(super) fn resume(&self) {}

    pub(super) fn kill(&self) {
        // An error means that the process has ended.
        let _ = self.0.child().kill();
    }

    pub(super) fn has_gone(&mut self, _thorough: bool) -> bool {
        true
    }

    pub(super) fn end(self) -> io::Result<ExitStatus> {
        self.0.child().wait()
    }
}

impl Leader {
    pub(super) fn wait(self) {
        while !self.has_ended() {
            thread::sleep(Duration::from_millis(20)); // polled, because a blocking wait would hold the lock that `kill` needs
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.child().try_wait(), Ok(None))
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        // No code that can panic runs under this lock, so the lock is never poisoned.
        lock(&self.0)
    }
}
