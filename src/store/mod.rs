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
#[cfg(any(feature = "redis", feature = "mysql", feature = "postgres"))]
pub(crate) mod remote;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod sql;
