//! What the stores on a server have in common: connections, retries, failures, options, and releases that are still pending.

mod backoff;
pub(crate) mod failure;
mod idle_connections;
pub(crate) mod owned_name;
pub(crate) mod pending_release;
pub(crate) mod per_process;
pub(crate) mod server;
pub(crate) mod server_builder;
pub(crate) mod server_clock;
pub(crate) mod server_mutex;
pub(crate) mod server_url;
#[cfg(any(feature = "redis-tls", feature = "mysql-tls", feature = "postgres-tls"))]
pub(crate) mod tls;
