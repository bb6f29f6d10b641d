//! The protocol of leases and claims as a model: three servers, a store, what is under way between them, and time.

mod check;
mod fleet;
pub mod promises;
pub mod queue;
mod server;
mod store;
mod variant;

pub use check::{breaks, holds};
pub use variant::{Admit, Broken, Variant};
