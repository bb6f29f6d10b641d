//! Real servers for the tests: on loopback ports of their own, in temporary directories.
//!
//! A server ends with the test that started it, also when the test process is killed. A proxy in front of a server
//! causes the faults that a real server cannot be made to have.

mod account;
pub(crate) mod burners;
pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod mariadb;
pub(crate) mod postgres;
mod process;
pub(crate) mod proxy;
pub(crate) mod redis;
pub(crate) mod replication;
pub(crate) mod resp;
mod self_test;
pub(crate) mod sentinel;
mod template;
mod tls;
