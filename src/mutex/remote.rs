//! What the stores on a server have in common: how it is met, what an answer that never came means, and what is owed to
//! it after that.

mod at_rest;
mod backoff;
mod failure;
mod held;
mod locality;
mod owed;
mod per_process;
mod server;
mod server_clock;
#[cfg(any(feature = "redis-tls", feature = "mysql-tls", feature = "postgres-tls"))]
mod tls;

#[cfg(feature = "redis")]
pub(super) use failure::Retry;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) use failure::understood;
pub(super) use failure::{Failure, Outlook, Refusal};
pub(super) use held::Held;
pub(super) use locality::is_local;
pub(super) use owed::{Attended, Debt, Owed};
pub(super) use per_process::PerProcess;
pub(super) use server::{Attempt, Connect, Line, Server};
pub(super) use server_clock::{ServerClock, instant};
#[cfg(any(feature = "redis-tls", feature = "mysql-tls", feature = "postgres-tls"))]
pub(super) use tls::{Tls, TlsOptions};
