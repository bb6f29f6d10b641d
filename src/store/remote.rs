//! What the stores on a server have in common: one core, into which each kind of server plugs an [`Engine`](engine::Engine).
//!
//! | | |
//! | --- | --- |
//! | `server_mutex` | what an answer means for the caller, and what is released later because an answer was lost |
//! | `server_run_log` | the log of runs |
//! | `server` | the attempts of a call, its time limit, and the pending releases |
//! | `idle_connections` | the connections that no call uses |
//! | `engine` | the requests to one kind of server, on one connection |
//! | `failure` | a request without an answer of use, and whether to ask again |

pub(crate) mod driver_runtime;
pub(crate) mod engine;
pub(crate) mod failure;
mod idle_connections;
pub(crate) mod server;
pub(crate) mod server_builder;
pub(crate) mod server_clock;
pub(crate) mod server_mutex;
mod server_run_log;
pub(crate) mod server_url;
#[cfg(feature = "server-tls")]
pub(crate) mod tls;
