//! The parts that all stores on a server share. Each kind of server is an [`Engine`](engine::Engine).
//!
//! | files | contents |
//! | --- | --- |
//! | `server_mutex`, `server_run_log` | the meaning of an answer for the user, and the releases after a lost answer |
//! | `attempts` | the attempts of a call within its time limit; the connections and releases that are kept for the next call |
//! | `engine` | the requests to one kind of server, on one connection; the clock of the server |
//! | `failure` | a request without a useful reply, and whether to retry it |
//!
//! These functions send a request again:
//!
//! | function | in these cases |
//! | --- | --- |
//! | `Server::attempts` | once if a connection was dead or a reply was lost; until the deadline if the server has no room for a connection, or is starting |
//! | `Server::release_pending` | with a later call if no reply arrived, and this process may hold the name |
//! | Redis: `topology::connect` | if a Sentinel or a node does not answer, or names another server |
//! | Redis: `scripts::exchange` | if the server has no copy of a script |
//! | SQL: `admit` | until the deadline if another process wins the race, or two transactions conflict |
//! | SQL: `send` | ten times if two transactions conflict |
//! | SQL: `together_or_alone` | if a row of a batch is locked: then each request of the batch is sent alone |

pub(crate) mod attempts;
pub(crate) mod engine;
pub(crate) mod failure;
pub(crate) mod server_builder;
pub(crate) mod server_mutex;
pub(crate) mod server_run_log;
pub(crate) mod server_url;
#[cfg(feature = "server-tls")]
pub(crate) mod tls;
