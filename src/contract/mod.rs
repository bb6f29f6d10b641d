//! The behaviour suite that every [`EventMutex`](crate::EventMutex) passes. Its cases test each sentence of the
//! contract, also for a store of your own.
//!
//! A [`Harness`] gives the suite the store, a way to let time pass, and, if there is one, an independent way to read
//! the store. [`contract_tests!`](crate::contract_tests) turns it into one `#[test]` a case; [`check`] runs the same
//! cases in a program. The feature belongs in the dev-dependencies:
//!
//! ```toml
//! [dev-dependencies]
//! soloist = { version = "0.1", features = ["contract-tests"] }
//! ```
//!
//! Every case uses names of its own. So the suite can run on a store that others use at the same time, and many cases
//! can run at once. If a case does not apply, for example because the store can't extend a lease, the case prints why.
//! Another case checks that such a store refuses each extension. Leases and claims that a case leaves behind expire
//! within ten minutes.
//!
//! # How long it takes
//!
//! The suite takes seconds on a store in memory, and about a minute on a server nearby. A store may be slow: a case
//! that repeats a race begins no new round after ten seconds, so a slow store plays fewer rounds and does not fail for
//! being slow. A case fails if a call does not return for a minute, or if the case takes longer than five minutes.
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
mod case_timeout;

pub use check::{Failed, check};
#[doc(hidden)]
pub use check::{run_as_child, run_as_test};
pub use harness::Harness;
