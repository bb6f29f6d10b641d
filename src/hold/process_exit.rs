//! Releases all leases when this process ends by itself: by `exit`, on any thread, or by a return from `main` while
//! other threads run tasks.
//!
//! The thread that exits may hold any lock, of ours or of others, and has no thread-locals any more, which logging and
//! much else needs. So it asks no store. It signals the renewal threads, which run as long as a lease is held, and
//! waits until they are done, but not for long: a store may be unavailable, or wait for something that this thread
//! holds.

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

/// The process that holds leases, or held some. The child of a `fork` holds none of them, and may find a lock that a thread of
/// its parent took.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Something with work to do before the process ends.
pub(crate) trait EndsWithProcess: Send + Sync {
    /// Signals its thread that the process exits on the thread `by`, if that is not zero. It waits for nothing.
    fn begin(&self, by: usize);

    /// Waits until the work is done, or `enough` has passed.
    fn wait(&self, waiting: &Waiting, enough: Moment);
}

/// All that this process registered, and the process that it was forked from, each with its process.
static REGISTERED: Mutex<Vec<(u32, Weak<dyn EndsWithProcess>)>> = Mutex::new(Vec::new());

/// Registers `member` for the end of this process.
pub(crate) fn register(member: Weak<dyn EndsWithProcess>) {
    static HOOKED: Once = Once::new();
    PROCESS.store(process_id::current(), Ordering::Relaxed);
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    registered.retain(|(_, member)| member.strong_count() > 0);
    registered.push((process_id::current(), member));
    HOOKED.call_once(|| {
        // If the system has no room for it, leases end with their terms, as those of a killed process do.
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
    // The last drop of a member may close connections, which a thread without thread-locals can't.
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
