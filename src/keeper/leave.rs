//! What becomes of the leases in hand when this process ends by itself: by `exit`, on whatever thread, or by a return from
//! `main` while others are at work.
//!
//! The thread that ends it may hold any lock, of ours or of others, and has no thread-locals any more, which logging and
//! much else needs. So it asks no store. It calls the keepers, whose threads are there as long as something is in hand,
//! and waits until they are done, but not for long: a store may be out, or wait for what this thread holds.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard, Once, TryLockError};
use std::thread;
use std::time::Duration;

use super::watch::NOTHING;
use super::{KNOWN, Keeper, Known};
use crate::clock::{Clock, Moment};
use crate::process;
use crate::system::{Thread, at_exit};

/// How long the end of a process waits for all stores together.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long it sleeps between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

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
    let clock = Clock::system();
    let enough = clock.moment().plus(PATIENCE);
    // Nobody gets a first keeper while this is held.
    let Some(known) = try_hard_to_lock_known(&clock, enough) else { return };
    let said = by.map_or(NOTHING, Thread::number);
    keepers(&known).for_each(|keeper| keeper.watch.call(said));
    while keepers(&known).any(|keeper| !keeper.watch.has_heeded()) && clock.moment() < enough {
        thread::sleep(BETWEEN_LOOKS);
        keepers(&known).for_each(|keeper| keeper.watch.call_again());
    }
}

/// Whoever holds it does so for an instant, unless it is this thread.
fn try_hard_to_lock_known(clock: &Clock, enough: Moment) -> Option<MutexGuard<'static, Vec<Known>>> {
    loop {
        match KNOWN.try_lock() {
            Ok(known) => return Some(known),
            Err(TryLockError::Poisoned(known)) => return Some(known.into_inner()),
            Err(TryLockError::WouldBlock) if clock.moment() < enough => thread::sleep(BETWEEN_LOOKS),
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

fn keepers(known: &[Known]) -> impl Iterator<Item = Arc<Keeper>> {
    known.iter().filter(|known| known.pid == process::id()).filter_map(|known| known.keeper.upgrade())
}
