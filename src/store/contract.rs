//! The behaviour suite that every [`EventMutex`] passes: the words of its contract as tests, for a store of your own.
//!
//! A [`Harness`] gives the suite the store, a way to let time pass, and, where there is one, an independent look.
//! [`contract_tests!`](crate::contract_tests) turns it into one `#[test]` a case; [`check`] runs the same cases in a
//! program. The feature belongs into the dev-dependencies:
//!
//! ```toml
//! [dev-dependencies]
//! soloist = { version = "0.1", features = ["contract-tests"] }
//! ```
//!
//! Every case uses names of its own, so the suite runs on a store that others use at the same time, and any number of
//! cases beside one another. A case that a store can't be asked, because it can't extend a lease, say, prints why it does
//! not apply; that the store says so each time is tested as well. A store may be slow: a case fails when nothing came of a
//! call for a minute, or when it takes longer than five. What it leaves behind expires in ten.

use std::thread;
use std::time::Duration;

use super::event_mutex::EventMutex;
use crate::lease::name::MutexName;
use crate::lease::term::Term;
use crate::time::clock::Clock;

mod cases;
mod check;
mod subject;
mod watched;
mod race;
mod child;
mod holding;
mod looking;
mod ownership;
mod names;
mod extension;
mod releasing;
mod lifeline;
mod breaking;
mod admission;
mod tokens;
mod contention;
mod processes;

pub use check::{Failed, check};
#[doc(hidden)]
pub use check::{run_as_child, run_as_test};

/// How the suite reaches a store.
///
/// ```
/// use std::time::Duration;
/// use soloist::contract::Harness;
/// use soloist::{Clock, ManualClock, MemoryMutex};
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

    /// A handle on the store under test, the same store each time.
    fn mutex(&self) -> Self::Mutex;

    /// The clock on which requests are made and deadlines measured: the machine's, unless the store has one injected.
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

    /// The length of the leases that the suite lets expire, and so the smallest step of its time. It has to be long
    /// enough for a few round trips on a busy machine; a case that was too slow to see a lease before its end
    /// tries again. The default is 250 milliseconds.
    fn short_term(&self) -> Term {
        Term::new(Duration::from_millis(250)).expect("250 milliseconds are a term")
    }

    /// Whether the name is held now, seen past the store's own code, with a raw client say; an expired entry is not
    /// held. `None`, the default: there is no other way to look.
    fn witness(&self, name: &MutexName) -> Option<bool> {
        let _ = name;
        None
    }

    /// Where another process finds this store. `None`, the default: only this process sees it, and the cases that
    /// start processes do not apply. A store with an address is on the clock that its processes share.
    fn address(&self) -> Option<String> {
        None
    }

    /// The store at the [`address`](Self::address) of a harness in another process. It is not this one's to remove.
    ///
    /// # Panics
    ///
    /// The default panics: a store without an address is never opened by one.
    fn at(address: &str) -> Self {
        panic!("the harness gave the address {address:?}, and has no `at` that opens it");
    }
}
