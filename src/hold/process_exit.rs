//! Tells the renewal threads and the run loggers that this process ends by itself, and waits for them. The renewal
//! threads then release or shorten all leases. A process ends by itself if any thread calls `exit`, or if `main` returns
//! while other threads run tasks.
//!
//! The exiting thread may hold any lock, of this crate or of another crate. Logging and other code needs thread-locals,
//! and the thread-locals of the exiting thread may be gone. So the exiting thread sends no request to a store. The
//! renewal threads, which run while a lease is held, send the requests. The exiting thread signals the renewal threads,
//! and waits a short time until the requests are answered. The wait is short, because a store may be unavailable, or
//! may need a lock that the exiting thread holds.

use std::mem;
use std::sync::{Arc, Mutex, Once, TryLockError, Weak};
use std::thread;
use std::time::Duration;

use crate::base::lock::lock;
use crate::base::per_process::PerProcess;
use crate::base::system::{at_exit, this_thread};
use crate::time::{clock::Clock, clock::moment::Moment};

/// The longest time that the exit of a process waits for all stores together.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A type with work to do before the process ends.
pub(crate) trait EndsWithProcess: Send + Sync {
    /// Signals that the process exits on the thread `by`, or on an unknown thread if `by` is zero. Does not wait for
    /// the work.
    fn begin(&self, by: usize);

    /// Waits until the work is done, at most until `latest`.
    fn wait(&self, latest: Moment);
}

/// The values that were registered in this process. A child made by `fork` holds no lease, so it has an empty list of its
/// own. The list of the parent may be locked for ever in the child.
static REGISTERED: PerProcess<Mutex<Vec<Weak<dyn EndsWithProcess>>>> = PerProcess::new();

/// Registers `member` for the end of this process.
pub(crate) fn register(member: Weak<dyn EndsWithProcess>) {
    static HOOKED: Once = Once::new();
    let mut registered = lock(REGISTERED.get());
    registered.retain(|member| member.strong_count() > 0);
    registered.push(member);
    HOOKED.call_once(|| {
        // If the system can't register this function, the leases end with their terms, like those of a killed process.
        let _ = at_exit(leave_at_exit);
    });
}

extern "C" fn leave_at_exit() {
    leave(this_thread());
}

/// Ends all renewals, because this process exits on the thread `by`. The lease of the run on that thread is released,
/// and all other leases are shortened. Waits until the requests were sent, at most for [`TIMEOUT`].
///
/// A second call does no harm, because a lease is shortened only once.
pub(crate) fn leave(by: usize) {
    let latest = Clock::system().moment().plus(TIMEOUT);
    let members = members(latest);
    for member in &members {
        member.begin(by);
    }
    for member in &members {
        member.wait(latest);
    }
    // The members are not dropped, because a drop of the last reference to a member closes connections. Closing needs
    // thread-locals, and those of this thread may be gone.
    mem::forget(members);
}

/// Returns the members that this process has registered. Usually, the list is locked only for an instant. But if a
/// signal handler has interrupted this thread while the list was locked, the lock stays locked. In this case, the
/// function returns an empty list at the moment `latest`.
fn members(latest: Moment) -> Vec<Arc<dyn EndsWithProcess>> {
    let registered = loop {
        match REGISTERED.get().try_lock() {
            Ok(registered) => break registered,
            Err(TryLockError::Poisoned(registered)) => break registered.into_inner(),
            Err(TryLockError::WouldBlock) if Clock::system().moment() < latest => thread::yield_now(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        }
    };
    registered.iter().filter_map(Weak::upgrade).collect()
}
