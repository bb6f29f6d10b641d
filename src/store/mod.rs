//! Stores of mutexes: the trait `EventMutex`, and those that are here.

pub(crate) mod connect;
pub(crate) mod event_mutex;
pub(crate) mod file;
pub(crate) mod handle;
pub(crate) mod memory;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "server")]
pub(crate) mod server;
#[cfg(feature = "sql")]
pub(crate) mod sql;
