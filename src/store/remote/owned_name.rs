//! A name together with the owner that holds it, or may hold it.

use crate::lease::{name::MutexName, owner::Owner, request::Lease};

#[derive(Clone, Debug)]
pub(crate) struct OwnedName {
    pub(crate) name: MutexName,
    pub(crate) owner: Owner,
}

impl OwnedName {
    pub(crate) fn of(lease: &Lease) -> Self {
        Self { name: lease.name().clone(), owner: lease.owner() }
    }
}
