//! The files that are kept open: those of leases in hand, and some for the next time.

use std::collections::BTreeMap;

use super::life::{Life, Spare};
use super::place::{Fault, Place};
use super::record_file::RecordFile;
use crate::lease::{MutexName, Owner};

/// How many mutexes have files open although no lease of theirs is in hand. There are two for each.
const IDLE_MAX: usize = 64;

/// The files of one mutex, which one thread uses at a time.
pub(super) struct Files {
    pub(super) record: RecordFile,
    pub(super) spare: Option<Spare>,
}

/// What is kept for a lease that this process holds.
pub(super) struct InHand {
    pub(super) files: Box<Files>,
    pub(super) life: Life,
}

#[derive(Default)]
pub(super) struct Handles {
    in_hand: BTreeMap<(Owner, MutexName), InHand>,
    idle: BTreeMap<MutexName, Box<Files>>,
}

impl Files {
    pub(super) fn open_or_make(place: Place) -> Result<Box<Self>, Fault> {
        Ok(Box::new(Self { record: RecordFile::open_or_make(place)?, spare: None }))
    }
}

impl Handles {
    /// The files that lie ready for this lease. Others may have deleted them since.
    pub(super) fn idle(&mut self, name: &MutexName) -> Option<Box<Files>> {
        self.idle.remove(name)
    }

    /// Keeps the files ready for the next lease of this name.
    pub(super) fn put_back(&mut self, name: &MutexName, files: Box<Files>) {
        if self.idle.len() < IDLE_MAX {
            self.idle.insert(name.clone(), files);
        }
    }

    pub(super) fn hold(&mut self, owner: Owner, name: &MutexName, in_hand: InHand) {
        self.in_hand.insert((owner, name.clone()), in_hand);
    }

    /// Takes out what is kept for a lease that is being given back, or that was found to be another's.
    pub(super) fn let_go(&mut self, owner: Owner, name: &MutexName) -> Option<InHand> {
        self.in_hand.remove(&(owner, name.clone()))
    }

    pub(super) fn names_in_hand(&self) -> Vec<String> {
        self.in_hand.keys().map(|(_, name)| name.to_string()).collect()
    }
}
