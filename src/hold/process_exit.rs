//! Releases all leases when this process ends by itself: by `exit`, on any thread, or by a return from `main` while
//! other threads run tasks.
//!
//! The thread that exits may hold any lock, of this crate or of others. Its thread-locals, which logging and other code
//! needs, may be gone. So this thread sends no request to a store. It signals the renewal threads, which run while a
//! lease is held, and waits a short time until they are done. The wait is short because a store may be unavailable, or
//! may wait for a lock of this thread.

use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, TryLockError, Weak};
use std::thread;
use std::time::Duration;

use crate::base::process_id;
use crate::base::system::{Thread, at_exit};
use crate::time::clock::moment::Moment;
use crate::time::clock::{Clock, Waiting};

/// How long the exit of a process waits for all stores together.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The process that holds or held the leases. A child of this process by `fork` holds none of them, and may find a lock
/// that a thread of the parent holds for ever.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// A type with work to do before the process ends.
pub(crate) trait EndsWithProcess: Send + Sync {
    /// Signals the working thread that the process exits, on the thread `by` unless that is zero. Does not wait.
    fn begin(&self, by: usize);

    /// Waits until the work is done, or `enough` has passed.
    fn wait(&self, waiting: &Waiting, enough: Moment);
}

/// All values that were registered in this process or in the process that it was forked from, each with the id of its
/// process.
static REGISTERED: Mutex<Vec<(u32, Weak<dyn EndsWithProcess>)>> = Mutex::new(Vec::new());

/// Registers `member` for the end of this process.
pub(crate) fn register(member: Weak<dyn EndsWithProcess>) {
    static HOOKED: Once = Once::new();
    PROCESS.store(process_id::current(), Ordering::Relaxed);
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    registered.retain(|(_, member)| member.strong_count() > 0);
    registered.push((process_id::current(), member));
    HOOKED.call_once(|| {
        // If the system can't register this function, the leases end with their terms, like those of a killed process.
        let _ = at_exit(leave_at_exit);
    });
}

extern "C" fn leave_at_exit() {
    leave(Some(Thread::this()));
}

/// Ends the renewals of this process, which exits on the thread `by`: the lease of the run on that thread is released, and all
/// others end soon. Returns when the stores were asked for that, after [`TIMEOUT`] at the latest.
///
/// It may be called again: a lease that was shortened stays so.
pub(crate) fn leave(by: Option<Thread>) {
    if PROCESS.load(Ordering::Relaxed) != process_id::current() {
        return;
    }
    let waiting = Waiting::on_the_machine();
    let enough = waiting.clock().moment().plus(TIMEOUT);
    let members = members(waiting.clock(), enough);
    for member in &members {
        member.begin(by.map_or(0, Thread::number));
    }
    for member in &members {
        member.wait(&waiting, enough);
    }
    // The members are not dropped. The last reference to a member would close connections. Closing needs thread-locals,
    // and those of this thread may be gone.
    mem::forget(members);
}

/// Returns all that this process registered. The list is locked for an instant, unless a signal has interrupted this thread just
/// then.
fn members(clock: &Clock, enough: Moment) -> Vec<Arc<dyn EndsWithProcess>> {
    let registered = loop {
        match REGISTERED.try_lock() {
            Ok(registered) => break registered,
            Err(TryLockError::Poisoned(registered)) => break registered.into_inner(),
            Err(TryLockError::WouldBlock) if clock.moment() < enough => thread::yield_now(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        }
    };
    let own = registered.iter().filter(|(pid, _)| *pid == process_id::current());
    own.filter_map(|(_, member)| member.upgrade()).collect()
}
