//! The trait `Harness`: the access of the suite to a store.

use std::thread;
use std::time::Duration;

use crate::lease::{name::MutexName, term::Term};
use crate::store::event_mutex::EventMutex;
use crate::time::clock::Clock;

/// The access of the suite to a store.
///
/// ```
/// use std::time::Duration;
/// use soloist::contract::Harness;
/// use soloist::time::{Clock, ManualClock};
/// use soloist::MemoryMutex;
///
/// struct InMemory(ManualClock, MemoryMutex);
///
/// impl InMemory {
///     fn new() -> Self {
///         let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
///         Self(clock.clone(), MemoryMutex::with_clock(clock))
///     }
/// }
///
/// impl Harness for InMemory {
///     type Mutex = MemoryMutex;
///
///     fn mutex(&self) -> MemoryMutex {
///         self.1.clone()
///     }
///     fn clock(&self) -> Clock {
///         Clock::from(&self.0)
///     }
///     fn let_time_pass(&self, by: Duration) {
///         self.0.advance(by);
///     }
/// }
///
/// soloist::contract_tests!(InMemory::new());
/// # fn main() {}
/// ```
pub trait Harness: Sized + Send + Sync + 'static {
    /// The store, or a handle to it, such as `Arc<dyn EventMutex>`.
    type Mutex: EventMutex;

    /// Returns a handle to the store under test. All handles of a harness must be for one store.
    fn mutex(&self) -> Self::Mutex;

    /// Returns the clock for requests and deadlines. The default is the machine's clock. If your test gives the store
    /// another clock, return that clock.
    fn clock(&self) -> Clock {
        Clock::system()
    }

    /// Waits until at least `by` has passed on the store's clock. `by` is never less than
    /// [`short_term`](Self::short_term). The default sleeps.
    ///
    /// If the harness moves a clock, no other harness may use a store on that clock: the leases of the other harness
    /// would end, too.
    fn let_time_pass(&self, by: Duration) {
        thread::sleep(by);
    }

    /// Returns the term of the leases that the suite lets expire. It is also the shortest time that the suite lets
    /// pass. The term must be long enough for a few round trips on a busy machine, and not longer than five seconds. If
    /// a case was so slow that a lease ended before the case could read the lease, the case tries again. The default is
    /// 250 milliseconds.
    fn short_term(&self) -> Term {
        Term::new(Duration::from_millis(250)).expect("250 milliseconds are a term")
    }

    /// Returns whether the name is held now. The answer must not come from the store's own code, but for example from a
    /// raw client. An expired entry is not held. The default returns `None`, which means that there is no such client.
    fn witness(&self, name: &MutexName) -> Option<bool> {
        let _ = name;
        None
    }

    /// Returns the address at which another process can open this store. The default returns `None`, which means that
    /// only this process can use the store. With `None`, the cases that start processes do not apply. If the store has
    /// an address, it must use a clock that all processes share.
    fn address(&self) -> Option<String> {
        None
    }

    /// Makes a harness for the store at `address`. A harness in another process has returned this
    /// [`address`](Self::address). The new harness must not remove the store when it is dropped, because only the
    /// harness in the other process removes the store.
    ///
    /// # Panics
    ///
    /// The default panics, because a store without an address can't be opened by its address.
    fn at(address: &str) -> Self {
        panic!(
            "the harness returned the address {address:?}, but does not implement `Harness::at`, which opens the store"
        );
    }
}
