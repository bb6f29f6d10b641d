//! Scheduled tasks that never run over themselves.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod tick;
mod zone;
mod crontab;
mod timetable;
mod frequency;
mod event;
mod lease;
mod mutex;
mod clock;
mod error;

pub use clock::{Clock, ManualClock, Moment};
pub use crontab::{Crontab, CrontabError};
pub use error::{BoxError, InvalidName, InvalidTerm, MutexError, MutexErrorKind};
pub use event::Event;
pub use frequency::FrequencyError;
pub use lease::{FencingToken, Holder, InvalidOwner, Lease, LeaseRequest, MutexName, Owner, Term};
pub use mutex::memory::MemoryMutex;
pub use mutex::{Admission, Admitted, EventMutex, Grant, Scope};
pub use tick::Tick;
pub use zone::{UnknownZone, Zone};
