//! A fleet under fire: real processes on real servers. Processes are killed and stopped; servers are killed,
//! stopped and emptied; requests and replies are delayed and lost. A checker reads the history afterwards.
//!
//! `cargo test` has one round on each store. By hand, with a duration and a seed, and a table in the end:
//!
//! ```text
//! tests/under_fire --seconds 900 --seed 1 redis postgres
//! ```
//!
//! A round follows from its seed, as far as the machine lets it: the victims and the times of the faults, the
//! faults of the server, the lengths of tasks. The rounds of a longer run have the seeds that follow; a round that
//! failed is repeated by its own.
//!
//! `tests/soak` measures the claims and the memory that many events leave behind in a long time.

mod checker;
mod crew;
mod failovers;
mod fire;
mod history;
mod made_up;
mod operators;
mod plan;
mod site;
mod soak;
mod table;
mod threads;

#[path = "../it/lateness.rs"]
mod lateness;

#[path = "../it/worker_log.rs"]
mod worker_log;

#[path = "worker/watched.rs"]
mod watched;

/// The helpers of the other tests that are of use here.
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
