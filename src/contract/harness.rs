//! The trait `Harness`: how the suite reaches a store.

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
    /// The store, or a handle on it: `Arc<dyn EventMutex>` is one too.
    type Mutex: EventMutex;

    /// Returns a handle on the store under test, the same store each time.
    fn mutex(&self) -> Self::Mutex;

    /// Returns the clock that requests are made and deadlines measured on: the machine's, unless the store has one
    /// injected.
    fn clock(&self) -> Clock {
        Clock::system()
    }

    /// Returns when at least `by` has passed on the store's clock; `by` is never less than
    /// [`short_term`](Self::short_term). The default sleeps.
    ///
    /// A clock that is moved belongs to a store that no other harness sees, or its leases end too.
    fn let_time_pass(&self, by: Duration) {
        thread::sleep(by);
    }

    /// Returns the length of the leases that the suite lets expire, and so the smallest step of its time. It has to be
    /// long enough for a few round trips on a busy machine; a case that was too slow to see a lease before its end
    /// tries again. The default is 250 milliseconds.
    fn short_term(&self) -> Term {
        Term::new(Duration::from_millis(250)).expect("250 milliseconds are a term")
    }

    /// Returns whether the name is held now, seen past the store's own code, with a raw client say; an expired entry is
    /// not held. `None`, the default: there is no other way to look.
    fn witness(&self, name: &MutexName) -> Option<bool> {
        let _ = name;
        None
    }

    /// Returns the address that another process finds this store by. `None`, the default: only this process sees it,
    /// and the cases that start processes do not apply. A store with an address is on the clock that its processes
    /// share.
    fn address(&self) -> Option<String> {
        None
    }

    /// Opens the store at the [`address`](Self::address) of a harness in another process, which alone removes it.
    ///
    /// # Panics
    ///
    /// The default panics: a store without an address is never opened by one.
    fn at(address: &str) -> Self {
        panic!("the harness gave the address {address:?}, and has no `at` that opens it");
    }
}
