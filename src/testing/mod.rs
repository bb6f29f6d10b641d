//! Helpers for tests of a schedule of your own. The book has
//! [examples](https://docs.rs/crate/soloist/latest/source/docs/guide/testing.md).

mod due_times;
mod test_store;

pub use due_times::{assert_due, assert_not_due, due_times};
pub use test_store::{RunElsewhere, TestStore};
