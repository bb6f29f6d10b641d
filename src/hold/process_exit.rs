//! What becomes of the leases in hand when this process ends by itself: by `exit`, on whatever thread, or by a return from
//! `main` while others are at work.
//!
//! The thread that ends it may hold any lock, of ours or of others, and has no thread-locals any more, which logging and
//! much else needs. So it asks no store. It calls the keepers, whose threads are there as long as something is in hand,
//! and waits until they are done, but not for long: a store may be out, or wait for what this thread holds.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once, TryLockError};
use std::thread;
use std::time::Duration;

use super::keeper::{KNOWN, Keeper};
use crate::base::process;
use crate::base::system::{Thread, at_exit};
use crate::hold::keeper::watch::NOTHING;
use crate::time::clock::waiting::Waiting;
use crate::time::clock::{Clock, Moment};

/// How long the end of a process waits for all stores together.
const PATIENCE: Duration = Duration::from_secs(3);

/// Which process has leases in hand, or had some. The other side of a `fork` has none of them, and may find a lock taken by
/// a thread that it does not have.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// This process is about to have a lease in hand.
pub(super) fn expect_exit() {
    static EXPECTED: Once = Once::new();
    PROCESS.store(process::id(), Ordering::Relaxed);
    EXPECTED.call_once(|| {
        // Where there is no room to remember it, leases end with their terms, as those of a killed process do.
        let _ = at_exit(leave_at_exit);
    });
}

extern "C" fn leave_at_exit() {
    leave(Some(Thread::this()));
}

/// This process ends, and nothing is renewed from here on: what a run holds that is performed on the thread `by` is given
/// back, and the rest in hand ends soon. Returns when the stores were asked for that, after [`PATIENCE`] at the latest.
///
/// It may be called again: what was shortened is left alone then.
pub(crate) fn leave(by: Option<Thread>) {
    if PROCESS.load(Ordering::Relaxed) != process::id() {
        return;
    }
    let waiting = Waiting::on_the_machine();
    let enough = waiting.clock().moment().plus(PATIENCE);
    let keepers = keepers(waiting.clock(), enough);
    let said = by.map_or(NOTHING, Thread::number);
    for keeper in &keepers {
        keeper.call(said);
    }
    for keeper in &keepers {
        keeper.wait_until_heeded(&waiting, enough);
    }
}

/// Those of this process. They are locked for an instant, unless a signal has interrupted this thread just then.
fn keepers(clock: &Clock, enough: Moment) -> Vec<Arc<Keeper>> {
    let known = loop {
        match KNOWN.try_lock() {
            Ok(known) => break known,
            Err(TryLockError::Poisoned(known)) => break known.into_inner(),
            Err(TryLockError::WouldBlock) if clock.moment() < enough => thread::yield_now(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        }
    };
    let own = known.iter().filter(|known| known.pid == process::id());
    own.filter_map(|known| known.keeper.upgrade()).collect()
}
