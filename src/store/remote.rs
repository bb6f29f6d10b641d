//! What the stores on a server have in common: how it is met, what an answer that never came means, and what is owed to
//! it after that.

mod backoff;
pub(crate) mod failure;
pub(crate) mod held;
mod idle_connections;
pub(crate) mod owed;
pub(crate) mod per_process;
pub(crate) mod server;
pub(crate) mod server_builder;
pub(crate) mod server_clock;
pub(crate) mod server_url;
#[cfg(any(feature = "redis-tls", feature = "mysql-tls", feature = "postgres-tls"))]
pub(crate) mod tls;
