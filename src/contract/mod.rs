//! The behaviour suite that every [`EventMutex`](crate::EventMutex) must pass. The cases of the suite test each
//! sentence of the contract. Run the suite on a store of your own, too.
//!
//! A [`Harness`] gives the suite the store, a way to let time pass, and, if possible, an independent way to read the
//! store. [`contract_tests!`](crate::contract_tests) makes one `#[test]` of each case. [`check`] runs the cases in a
//! program. Add the feature to the dev-dependencies:
//!
//! ```toml
//! [dev-dependencies]
//! soloist = { version = "0.1", features = ["contract-tests"] }
//! ```
//!
//! The names of a case begin with a text that no other case and no other program uses. So the suite can run on a store
//! that is in use, and many cases can run at once. If a case does not apply, for example because the store can't extend
//! a lease, the case prints the reason. Another case checks that such a store refuses each extension. Leases and claims
//! that a case does not release expire within ten minutes.
//!
//! # How long it takes
//!
//! The suite takes seconds if the store is in memory, and about a minute if the server of the store is nearby. On a
//! slow store, a case that repeats a race has fewer rounds: after ten seconds, the case begins no new round. A case
//! fails if it takes longer than five minutes, for example because a call does not return. Then the remaining cases
//! fail at once.
//!
//! Each case is a test with the name of the case. If the file `tests/store.rs` calls the macro, this command runs one
//! case:
//!
//! ```text
//! cargo test --test store looking_never_makes_a_create_fail
//! ```

mod cases;
mod check;
mod child;
mod harness;
mod race;
mod subject;

pub use check::{Failed, check};
#[doc(hidden)]
pub use check::{run_as_child, run_as_test};
pub use harness::Harness;
