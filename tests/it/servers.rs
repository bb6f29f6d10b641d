//! Real servers of the tests' own: on loopback ports that nobody else has, in directories that go with them.
//!
//! A server ends with the test that started it, also when the test process is killed. What a real server can't be
//! made to do, a proxy in front of it does.

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
