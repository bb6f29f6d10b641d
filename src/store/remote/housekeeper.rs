//! What no caller waits for: idle connections are closed, pending releases sent, and ended rows cleaned away. One thread does
//! it, which lives while there is something to do, and a handle of the store. A call takes the only idle connection, and then there
//! is nothing to do for a moment. The thread stays through such a call, so that the next call need not start another.
//!
//! The calls of a tick follow one another closely, so that one connection serves them all. While a task is at work, which
//! can take minutes, none is kept: a server has room for so many, and another process may need it.
//!
//! A release is pending while this process may hold its name without knowing it, because an answer was lost. It is sent as
//! soon as the server answers: before the next call asks, or by the thread.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::engine::ReleaseRequest;
use super::failure::Failure;
use crate::base::{catch_panic::contain, threads};
use crate::time::{clock::Clock, clock::moment::Moment};

/// The most idle connections that are kept, and for how long one is that nobody uses.
const MOST_IDLE: usize = 8;
const IDLE_FOR: Duration = Duration::from_millis(500);

/// The pause between a failure and the first attempt to send a pending release that nobody waits for, and the longest later.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How many rows one statement of a clean-up deletes at most.
pub(crate) const BATCH: u64 = 500;

/// How often one process cleans up at most: 200 claims a second leave 2,000 rows between two clean-ups.
const CLEAN_UP_EVERY: Duration = Duration::from_secs(10);

/// How often a clean-up tries to find a connection that nobody needs, and how long after one another.
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

#[derive(Clone, Debug)]
pub(super) struct PendingRelease {
    pub(super) release: ReleaseRequest,
    /// It is not sent before.
    pub(super) from: Moment,
    /// By then the name has expired by itself.
    pub(super) until: Moment,
}

/// What one process has beside its calls.
pub(super) struct Housekeeper<C> {
    beside: Mutex<Beside<C>>,
    changed: Condvar,
}

struct Beside<C> {
    /// Each with the moment until which it is kept. The one that has been unused for longest comes first.
    idle: Vec<(Moment, C)>,
    pending: Vec<PendingRelease>,
    /// The pause before the thread sends what is pending, and since when it lasts.
    pause: Duration,
    paused: Option<Moment>,
    clean_up: CleanUp,
    /// What the thread waits for.
    awaited: Option<Moment>,
    has_thread: bool,
    /// The last handle goes.
    ends: bool,
}

#[derive(Default)]
struct CleanUp {
    began: Option<Moment>,
    /// When the next batch is due; `None` after the last.
    next: Option<Moment>,
    /// How many rows are to go: twice as many as were written since it began, less those that were deleted. So the table
    /// shrinks where all processes are short-lived.
    owed: u64,
    tries: u32,
}

impl<C> Default for Housekeeper<C> {
    fn default() -> Self {
        let (idle, pending, pause, paused) = (Vec::new(), Vec::new(), FIRST_PAUSE, None);
        let (clean_up, awaited, has_thread, ends) = (CleanUp::default(), None, false, false);
        let beside = Beside { idle, pending, pause, paused, clean_up, awaited, has_thread, ends };
        Self { beside: Mutex::new(beside), changed: Condvar::new() }
    }
}

impl<C: Send + 'static> Housekeeper<C> {
    /// The idle connection that was used last.
    pub(super) fn pop_idle(&self) -> Option<C> {
        Some(self.locked().idle.pop()?.1)
    }

    /// Keeps a connection for the next call, unless there are enough.
    pub(super) fn keep(&self, connection: C) {
        let until = Clock::system().moment().plus(IDLE_FOR);
        let mut beside = self.locked();
        if beside.idle.len() < MOST_IDLE {
            beside.idle.push((until, connection));
        }
    }

    pub(super) fn close_idle(&self) {
        let closed = mem::take(&mut self.locked().idle);
        drop(closed); // A goodbye to the server takes a moment.
    }

    /// Closes the connections whose time is up.
    pub(super) fn close_old(&self) {
        let now = Clock::system().moment();
        let mut beside = self.locked();
        let over = beside.idle.partition_point(|(until, _)| *until <= now);
        let closed: Vec<_> = beside.idle.drain(..over).collect();
        drop(beside);
        drop(closed);
    }

    /// Remembers these releases.
    pub(super) fn add_pending(&self, releases: impl IntoIterator<Item = PendingRelease>) {
        self.locked().pending.extend(releases);
    }

    /// All that are to be sent by now. The caller sends them, or adds them again.
    pub(super) fn take_pending(&self) -> Vec<PendingRelease> {
        let (mut beside, now) = (self.locked(), Clock::system().moment());
        beside.pending.retain(|release| now < release.until);
        beside.pending.extract_if(.., |release| release.from <= now).collect()
    }

    /// The same after a pause. The next one is longer.
    pub(super) fn take_pending_after_pause(&self) -> Vec<PendingRelease> {
        let mut beside = self.locked();
        if beside.pending_from().is_none_or(|from| Clock::system().moment() < from) {
            return Vec::new();
        }
        (beside.paused, beside.pause) = (None, (2 * beside.pause).min(LONGEST_PAUSE));
        drop(beside);
        self.take_pending()
    }

    /// So many rows were written. Unless a clean-up began a while ago, one begins now.
    pub(super) fn begin_clean_up(&self, written: usize) {
        let (mut beside, now) = (self.locked(), Clock::system().moment());
        let clean_up = &mut beside.clean_up;
        if clean_up.began.is_none_or(|began| now.since(began) >= CLEAN_UP_EVERY) {
            *clean_up = CleanUp { began: Some(now), next: Some(now), ..CleanUp::default() };
        }
        clean_up.owed += 2 * written as u64;
    }

    /// Lets `delete` delete a batch, if one is due. `None` from it: there is no connection that nobody needs.
    pub(super) fn clean_up(&self, delete: impl FnOnce() -> Option<Result<u64, Failure>>) {
        let began = Clock::system().moment();
        if self.locked().clean_up.next.is_none_or(|next| began < next) {
            return;
        }
        let deleted = delete();
        let (mut beside, now) = (self.locked(), Clock::system().moment());
        let clean_up = &mut beside.clean_up;
        clean_up.next = match deleted {
            Some(Ok(deleted)) if deleted >= BATCH => {
                clean_up.owed = clean_up.owed.saturating_sub(deleted);
                Some(now.plus(now.since(began))) // Half of the time is left to the gates.
            }
            None if clean_up.tries < TRIES => {
                clean_up.tries += 1;
                Some(now.plus(BETWEEN_TRIES))
            }
            _ => None,
        };
    }

    /// Lets the thread end its round, and a clean-up delete what it owes, within that time: a process that lives for less
    /// than a batch would never clean anything.
    pub(super) fn finish(&self, patience: Duration, delete: impl Fn() -> Option<Result<u64, Failure>>) {
        let until = Clock::system().moment().plus(patience);
        let mut beside = self.locked();
        beside.ends = true;
        self.changed.notify_all();
        drop(self.changed.wait_timeout_while(beside, patience, |beside| beside.has_thread));
        loop {
            let (mut beside, now) = (self.locked(), Clock::system().moment());
            let clean_up = &mut beside.clean_up;
            if clean_up.next.is_none() || clean_up.owed == 0 || now >= until {
                return;
            }
            (clean_up.next, clean_up.tries) = (Some(now), TRIES);
            drop(beside);
            self.clean_up(&delete);
        }
    }

    /// Sees to it that a thread calls `round` whenever something is due. `false`: there is no thread to be had.
    pub(super) fn start_or_wake(self: &Arc<Self>, round: impl Fn() + Send + 'static) -> bool {
        let mut beside = self.locked();
        let Some(due) = beside.due().filter(|_| !beside.ends) else { return true };
        if beside.awaited.is_some_and(|awaited| due < awaited) {
            self.changed.notify_all();
        }
        if !beside.has_thread {
            let housekeeper = Arc::clone(self);
            beside.has_thread = threads::start("soloist-housekeeper", move || housekeeper.run(round)).is_ok();
        }
        beside.has_thread
    }

    fn run(&self, round: impl Fn()) {
        let mut beside = self.locked();
        while !beside.ends {
            let (due, now) = (beside.due(), Clock::system().moment());
            // If nothing is due, a call may be using the connection, and will put it back in a moment.
            let until = due.unwrap_or_else(|| now.plus(IDLE_FOR));
            if until <= now {
                drop(beside);
                let panic = contain(&round);
                beside = self.locked();
                if panic.is_err() {
                    break; // The next call starts another thread.
                }
                continue;
            }
            beside.awaited = Some(until);
            let (locked, wait) =
                self.changed.wait_timeout(beside, until.since(now)).unwrap_or_else(PoisonError::into_inner);
            beside = locked;
            beside.awaited = None;
            if due.is_none() && wait.timed_out() && beside.due().is_none() {
                break;
            }
        }
        beside.has_thread = false;
        self.changed.notify_all();
    }

    fn locked(&self) -> MutexGuard<'_, Beside<C>> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Beside<C> {
    /// Returns when there is something to do.
    fn due(&mut self) -> Option<Moment> {
        let idle_until = self.idle.first().map(|(until, _)| *until);
        [idle_until, self.pending_from(), self.clean_up.next].into_iter().flatten().min()
    }

    /// Returns when the thread sends what is pending. The pause lasts from now on, unless it does already.
    fn pending_from(&mut self) -> Option<Moment> {
        let Some(first) = self.pending.iter().map(|release| release.from).min() else {
            (self.paused, self.pause) = (None, FIRST_PAUSE);
            return None;
        };
        let paused = *self.paused.get_or_insert_with(|| Clock::system().moment());
        Some(paused.plus(self.pause).max(first))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn calls_that_follow_one_another_have_one_thread() {
        let housekeeper = Arc::new(Housekeeper::default());
        let mut kept = 0;
        for _ in 0..50 {
            housekeeper.keep("a connection");
            let keeper = Arc::clone(&housekeeper);
            assert!(housekeeper.start_or_wake(move || keeper.close_old()));
            assert!(housekeeper.pop_idle().is_some());
            thread::sleep(Duration::from_millis(1)); // A call, in which the thread finds nothing to do.
            kept += u32::from(housekeeper.locked().has_thread);
        }
        housekeeper.finish(FIRST_PAUSE, || None);
        assert!(kept > 40, "the thread outlived {kept} of 50 calls");
    }
}
