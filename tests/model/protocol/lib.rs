//! A model of the protocol of leases and claims: three servers, a store, messages in flight, and time.

mod check;
mod fleet;
pub mod promises;
pub mod queue;
mod server;
mod store;
mod variant;

pub use check::{breaks, holds};
pub use variant::{Admit, Broken, Variant};
