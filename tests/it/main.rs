//! All integration tests, in one crate, because each crate is linked on its own.

mod connect;
mod file;
