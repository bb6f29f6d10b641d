//! What an owner holds, or may hold.

use crate::lease::{Lease, MutexName, Owner};

/// One name that an owner holds, or may hold.
#[derive(Clone, Debug)]
pub(in crate::mutex) struct Held {
    pub(in crate::mutex) name: MutexName,
    pub(in crate::mutex) owner: Owner,
}

impl Held {
    pub(in crate::mutex) fn of(lease: &Lease) -> Self {
        Self { name: lease.name().clone(), owner: lease.owner() }
    }
}
