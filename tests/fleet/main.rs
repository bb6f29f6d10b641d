//! A fleet under fire: real processes on real servers. Processes are killed and stopped, servers are killed, stopped and
//! emptied, and what is said between the two is delayed and lost; and a checker reads afterwards what happened.
//!
//! `cargo test` has one round on each store. By hand, with a duration and a seed, and a table in the end:
//!
//! ```text
//! tests/under_fire --seconds 900 --seed 1 redis postgres
//! ```
//!
//! A round follows from its seed, as far as the machine lets it: who is killed when, what is done to the server, how long
//! tasks take. The rounds of a longer run have the seeds that follow; a round that failed is repeated by its own.
//!
//! `tests/soak` looks at what is left in stores and memory by many events in a long time.

mod checker;
mod crew;
mod failovers;
mod fire;
mod history;
mod lateness;
mod operators;
mod plan;
mod site;
mod soak;
mod table;
mod threads;

#[path = "../it/worker_log.rs"]
mod worker_log;

#[path = "../../examples/worker/watched.rs"]
mod watched;

/// What the tests are written in, as far as it is of use here.
#[allow(dead_code)]
#[path = "../it/support.rs"]
mod support;

/// The servers of the tests.
#[allow(dead_code)]
#[path = "../it/servers"]
mod servers {
    mod account;
    pub(crate) mod clock;
    pub(crate) mod cluster;
    pub(crate) mod mariadb;
    pub(crate) mod postgres;
    mod process;
    pub(crate) mod proxy;
    pub(crate) mod redis;
    pub(crate) mod replication;
    mod resp;
    pub(crate) mod sentinel;
    mod template;
    mod tls;
}
