//! The parts that all stores on a server share. Each kind of server is an [`Engine`](engine::Engine).
//!
//! | a call goes through | |
//! | --- | --- |
//! | `server_mutex`, `server_run_log` | what an answer means for the user, and which releases follow from a lost answer |
//! | `attempts` | the attempts of a call within its time limit, and the pending releases |
//! | `idle_connections` | the connections that no call uses |
//! | `engine` | the requests to one kind of server, on one connection |
//! | `failure` | a request without a useful reply, and whether to retry it |

pub(crate) mod attempts;
pub(crate) mod engine;
pub(crate) mod failure;
mod idle_connections;
pub(crate) mod server_builder;
pub(crate) mod server_clock;
pub(crate) mod server_mutex;
mod server_run_log;
pub(crate) mod server_url;
#[cfg(feature = "server-tls")]
pub(crate) mod tls;
