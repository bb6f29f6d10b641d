//! Scheduled tasks that never run over themselves.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;
mod error;
mod lease;
mod mutex;

pub use clock::{Clock, ManualClock, Moment};
pub use error::{BoxError, InvalidName, InvalidTerm, MutexError, MutexErrorKind};
pub use lease::{FencingToken, Holder, InvalidOwner, Lease, LeaseRequest, MutexName, Owner, Term};
pub use mutex::connect::{ConnectError, connect};
pub use mutex::file::{FileMutex, FileMutexBuilder, NetworkFilesystem};
pub use mutex::memory::MemoryMutex;
pub use mutex::{Admission, Admitted, EventMutex, Grant, Scope};
