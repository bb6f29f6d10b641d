//! Scheduled tasks that never run over themselves.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;
mod error;
mod lease;
mod mutex;

pub use clock::{Clock, ManualClock, Moment};
pub use error::{BoxError, InvalidName, InvalidTerm, MutexError, MutexErrorKind};
pub use lease::{FencingToken, Holder, InvalidOwner, Lease, LeaseRequest, MutexName, Owner, Term};
#[cfg(feature = "contract-tests")]
#[cfg_attr(docsrs, doc(cfg(feature = "contract-tests")))]
pub use mutex::contract;
pub use mutex::memory::MemoryMutex;
pub use mutex::{Admission, Admitted, EventMutex, Grant, Scope};
