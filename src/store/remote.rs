//! What the stores on a server have in common: one core, into which each kind of server plugs an [`Engine`](engine::Engine).
//!
//! | | |
//! | --- | --- |
//! | `server_mutex` | what an answer means for the caller, and what is given back when an answer was lost |
//! | `server_run_log` | the log of runs |
//! | `server` | connections, attempts, the time limit of a call |
//! | `housekeeper` | what no caller waits for: idle connections, pending releases, clean-ups |
//! | `engine` | what one kind of server is told on one connection, and hears there |
//! | `failure` | why there is no answer, and whether to ask again |

pub(crate) mod housekeeper;
pub(crate) mod driver_runtime;
pub(crate) mod engine;
pub(crate) mod failure;
pub(crate) mod server;
pub(crate) mod server_builder;
pub(crate) mod server_clock;
pub(crate) mod server_mutex;
mod server_run_log;
pub(crate) mod server_url;
#[cfg(any(feature = "redis-tls", feature = "mysql-tls", feature = "postgres-tls"))]
pub(crate) mod tls;
