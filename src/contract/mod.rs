//! The behaviour suite that every [`EventMutex`](crate::EventMutex) passes: the words of its contract as tests, for a
//! store of your own.
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
//! cases beside one another. A case that a store can't be asked, because it can't extend a lease, say, prints why it
//! does not apply; that the store says so each time is tested as well. Leases and claims that a case leaves behind
//! expire in ten minutes.
//!
//! # How long it takes
//!
//! On a store in memory the suite takes seconds, and on a server near by about a minute. A store may be slow: a case that
//! repeats a race begins no new round after ten seconds, so that on a slow store it makes fewer, and fails for no lack of
//! speed. A case fails when nothing came of a call for a minute, or when it takes longer than five.
//!
//! Each case is a test of its name. If the file `tests/store.rs` has the macro, this runs one of them:
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
