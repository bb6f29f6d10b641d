//! The parts that all stores on a server share. Each kind of server is an [`Engine`](engine::Engine).
//!
//! | a call goes through | |
//! | --- | --- |
//! | `server_mutex`, `server_run_log` | what an answer means for the user, and which releases follow from a lost answer |
//! | `attempts` | the attempts of a call within its time limit, and the pending releases |
//! | `idle_connections` | the connections that no call uses |
//! | `engine` | the requests to one kind of server, on one connection |
//! | `failure` | a request without a useful reply, and whether to retry it |
//!
//! A request may be sent again, by one of these:
//!
//! | again | when |
//! | --- | --- |
//! | `Server::attempts` | a connection was dead, a reply was lost (once), or the server has no room or starts (until the deadline) |
//! | `Server::release_pending` | a reply was lost for good, and the name may be held by this process: with a later call |
//! | Redis: `topology::connect` | a Sentinel or a node does not answer, or names another server |
//! | Redis: `Connection::exchange` | the server has no copy of a script |
//! | SQL: `SqlEngine::admit` | another process was faster (until the deadline), or two transactions were in each other's way (ten times) |
//! | SQL: `rows` | two transactions were in each other's way (ten times) |
//! | SQL: `together_or_alone` | one row of a batch was locked: each request of the batch alone |

pub(crate) mod attempts;
pub(crate) mod engine;
pub(crate) mod failure;
mod idle_connections;
pub(crate) mod key_text;
pub(crate) mod server_builder;
pub(crate) mod server_clock;
pub(crate) mod server_mutex;
mod server_run_log;
pub(crate) mod server_url;
#[cfg(feature = "server-tls")]
pub(crate) mod tls;
