//! The types of the arguments and the answers of [`EventMutex`](crate::EventMutex), for a store of your own, and the
//! options of the built-in stores.
//!
//! | purpose | types |
//! | --- | --- |
//! | a request and its answer | [`LeaseRequest`], [`Lease`], [`Holder`], [`Owner`] |
//! | an admission | [`Admission`], [`Admitted`], [`Grant`]; several in one request: [`Batch`], [`Slot`], [`LeaseRelease`] |
//! | the description of a store | [`Description`], [`Scope`], [`StoreId`], [`StoreWarning`], [`MutexErrorKind`] |
//! | a read of the held names | [`Names`], [`Held`] |
//! | optional parts of a store | [`RunLog`], [`Lifeline`] |
//! | opening a store | [`FileMutexBuilder`], [`NetworkFilesystem`], and a builder for each server; [`ConnectError`], [`InvalidOptions`] |

pub(crate) mod connect;
pub(crate) mod described_store;
pub(crate) mod event_mutex;
pub(crate) mod file;
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

pub use crate::base::error::{InvalidOptions, MutexErrorKind};
pub use crate::lease::holder::Holder;
pub use crate::lease::name::InvalidName;
pub use crate::lease::owner::{InvalidOwner, Owner};
pub use crate::lease::request::{Lease, LeaseRequest};
pub use crate::lease::store_id::StoreId;
pub use crate::lease::term::InvalidTerm;
pub use connect::ConnectError;
pub use event_mutex::admission::{Admission, Admitted, Grant};
pub use event_mutex::batch::{Batch, LeaseRelease, Slot};
pub use event_mutex::description::{Description, Scope};
pub use event_mutex::held::{Held, Names};
pub use event_mutex::lifeline::Lifeline;
pub use event_mutex::run_log::RunLog;
pub use event_mutex::warning::StoreWarning;
pub use file::builder::FileMutexBuilder;
pub use file::network_filesystem::NetworkFilesystem;
#[cfg(feature = "mysql")]
pub use mysql::MysqlMutexBuilder;
#[cfg(feature = "postgres")]
pub use postgres::PostgresMutexBuilder;
#[cfg(feature = "redis")]
pub use redis::RedisMutexBuilder;
