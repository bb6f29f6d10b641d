//! The life files: which of them is locked says whose holder still lives.
//!
//! All of this happens while the record is locked, so that looking at a life file never stands in the way of taking it.

use std::fs::{File, TryLockError};

use super::place::{Fault, Place, open_if_there, open_or_make};

/// More holders of one mutex than this do not outlive their lease at once.
const GENERATIONS: u32 = 1000;

/// A life file that this process has locked: proof that the holder lives, for as long as this is kept.
///
/// Each acquisition opens a handle of its own, because one handle can be locked twice. No child process inherits the
/// descriptor; one that is to keep the lease when this process dies would be given a duplicate of it here.
#[derive(Debug)]
pub(super) struct Life {
    file: File,
    generation: u32,
}

impl Life {
    /// Locks the first life file that nobody has locked.
    pub(super) fn take(place: &Place) -> Result<Self, Fault> {
        for generation in 0..GENERATIONS {
            let path = place.life(generation);
            let file = open_or_make(&path)?;
            match file.try_lock() {
                Ok(()) => return Ok(Self { file, generation }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(Fault::at(&path)(error)),
            }
        }
        Err(Fault::unusable(place.record(), format!("{GENERATIONS} holders outlived their leases and are still alive")))
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Closing alone would leave it locked while a child that another thread is just starting has a duplicate.
        // If unlocking fails, closing is all there is.
        let _ = self.file.unlock();
    }
}

/// Whether somebody has this life file locked; `None`: it was never made.
fn is_locked(place: &Place, generation: u32) -> Result<Option<bool>, Fault> {
    let path = place.life(generation);
    let Some(file) = open_if_there(&path)? else { return Ok(None) };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(Some(true)),
        Err(TryLockError::Error(error)) => Err(Fault::at(&path)(error)),
        Ok(()) => {
            let _ = file.unlock();
            Ok(Some(false))
        }
    }
}

/// Whether the holder of this generation lives.
pub(super) fn is_alive(place: &Place, generation: u32) -> Result<bool, Fault> {
    Ok(is_locked(place, generation)? == Some(true))
}

/// Whether a holder of any generation lives.
pub(super) fn is_any_alive(place: &Place) -> Result<bool, Fault> {
    for generation in 0..GENERATIONS {
        match is_locked(place, generation)? {
            None => break,
            Some(true) => return Ok(true),
            Some(false) => {}
        }
    }
    Ok(false)
}
