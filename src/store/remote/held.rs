//! What an owner holds, or may hold.

use crate::lease::name::MutexName;
use crate::lease::owner::Owner;
use crate::lease::request::Lease;

/// One name that an owner holds, or may hold.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) name: MutexName,
    pub(crate) owner: Owner,
}

impl Held {
    pub(crate) fn of(lease: &Lease) -> Self {
        Self { name: lease.name().clone(), owner: lease.owner() }
    }
}
