//! Lets go of all leases when this process ends by itself: by `exit`, on whatever thread, or by a return from `main` while
//! others are at work.
//!
//! The thread that ends it may hold any lock, of ours or of others, and has no thread-locals any more, which logging and
//! much else needs. So it asks no store. It tells the keepers, whose threads are there as long as something is in hand,
//! and waits until they are done, but not for long: a store may be out, or wait for what this thread holds.

use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, TryLockError, Weak};
use std::thread;
use std::time::Duration;

use crate::base::process_id;
use crate::base::system::{Thread, at_exit};
use crate::time::clock::moment::Moment;
use crate::time::clock::{Clock, Waiting};

/// How long the end of a process waits for all stores together.
const PATIENCE: Duration = Duration::from_secs(3);

/// Which process has leases in hand, or had some. The other side of a `fork` has none of them, and may find a lock taken by
/// a thread that it does not have.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// What has leases in hand, and lets go of them when the process ends.
pub(crate) trait EndsWithProcess: Send + Sync {
    /// Tells its thread that the process ends, on the thread `by` if that is not zero. It waits for nothing.
    fn begin(&self, by: usize);

    /// Waits until that is done, or `enough` has passed.
    fn wait(&self, waiting: &Waiting, enough: Moment);
}

/// All of this process, and those of the one that it was forked from, with the process of each.
static REGISTERED: Mutex<Vec<(u32, Weak<dyn EndsWithProcess>)>> = Mutex::new(Vec::new());

/// This process is about to have leases in hand, by way of `holder`.
pub(crate) fn register(holder: Weak<dyn EndsWithProcess>) {
    static HOOKED: Once = Once::new();
    PROCESS.store(process_id::current(), Ordering::Relaxed);
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    registered.retain(|(_, holder)| holder.strong_count() > 0);
    registered.push((process_id::current(), holder));
    HOOKED.call_once(|| {
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
    if PROCESS.load(Ordering::Relaxed) != process_id::current() {
        return;
    }
    let waiting = Waiting::on_the_machine();
    let enough = waiting.clock().moment().plus(PATIENCE);
    let holders = holders(waiting.clock(), enough);
    for holder in &holders {
        holder.begin(by.map_or(0, Thread::number));
    }
    for holder in &holders {
        holder.wait(&waiting, enough);
    }
    // The last one to have a keeper would close its connections, which a thread without thread-locals can't.
    mem::forget(holders);
}

/// Those of this process. They are locked for an instant, unless a signal has interrupted this thread just then.
fn holders(clock: &Clock, enough: Moment) -> Vec<Arc<dyn EndsWithProcess>> {
    let registered = loop {
        match REGISTERED.try_lock() {
            Ok(registered) => break registered,
            Err(TryLockError::Poisoned(registered)) => break registered.into_inner(),
            Err(TryLockError::WouldBlock) if clock.moment() < enough => thread::yield_now(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        }
    };
    let own = registered.iter().filter(|(pid, _)| *pid == process_id::current());
    own.filter_map(|(_, holder)| holder.upgrade()).collect()
}
