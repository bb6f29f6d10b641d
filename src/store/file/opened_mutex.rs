//! A mutex and its state. Each grant, renewal and release happens here, under the lock of the mutex. A read happens
//! under this lock, too, unless the lock does not become free in time.

use std::iter;

use chrono::{DateTime, Utc};

use super::error::FileError;
use super::life_file::{LifeId, LifeLock, is_alive, is_any_alive, with_its_end};
use super::open_file::OpenFile;
use super::paths::{MutexPaths, STATE};
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{holder::Holder, name::MutexName, token::FencingToken};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::{Held, Names};

pub(super) mod mutex_lock;
pub(super) mod state;

use mutex_lock::MutexLock;
use state::{BLOCK, Lasts, MAGIC, MutexState, StateEntry};

/// The error for a damaged state while a life file is locked.
const STILL_LIVES: &str = "it is missing or damaged, but a process that holds a lease of this mutex still lives: wait until that \
                           process has ended";

/// A mutex whose state was read. With the lock, no other process can change the state. Without the lock, the mutex is
/// only used for reads.
pub(super) struct OpenedMutex {
    paths: MutexPaths,
    state: MutexState,
    /// The file that the state was read from.
    file: Option<OpenFile>,
    pub(super) now: DateTime<Utc>,
    /// `None` if another process held the lock for too long.
    _lock: Option<MutexLock>,
}

impl OpenedMutex {
    /// Reads the state. Returns an error if the state has another format or belongs to another mutex.
    pub(super) fn read(paths: MutexPaths, lock: Option<MutexLock>, now: DateTime<Utc>) -> Result<Self, FileError> {
        let (path, file) = (paths.path(STATE), paths.open_if_there(STATE)?);
        let bytes = file.as_ref().map(OpenFile::read).transpose()?.unwrap_or_default();
        let beginning = bytes[..bytes.len().min(256)].to_vec();
        let state = MutexState::read(bytes).map_err(|_| FileError::of_another_format(&path, &beginning, MAGIC))?;
        if let Some(mutex) = state.as_ref().and_then(MutexState::mutex)
            && !paths.belong_to(&mutex)
        {
            return Err(FileError::unusable(&path, format!("it is the state of another name, {mutex}")));
        }
        if state.is_none() && is_any_alive(&paths)? {
            return Err(FileError::unusable(&path, STILL_LIVES));
        }
        Ok(Self { paths, state: state.unwrap_or_default(), file, now, _lock: lock })
    }

    pub(super) fn is_of(&self, name: &MutexName) -> bool {
        self.paths.belong_to(name.mutex())
    }

    /// Returns which of these `names` are held. If `names` asks for markers or for a prefix, the matching names are
    /// read from the state.
    pub(super) fn held(&self, names: Names<'_>) -> Result<Vec<Held>, FileError> {
        let found: Vec<MutexName> = match names {
            Names::Each(names) => names.to_vec(),
            Names::MarksOf(_) => self.state.marks().collect(),
            Names::LeasesWithPrefix(_) => {
                let lease = self.state.mutex().and_then(|mutex| MutexName::lease(mutex).ok());
                lease.filter(|lease| names.contain(lease)).into_iter().collect()
            }
        };
        let held = |name: MutexName| Ok(self.holder(&name)?.map(|holder| Held::new(name, Some(holder))));
        found.into_iter().filter_map(|name| held(name).transpose()).collect()
    }

    /// Returns the holder of `name`, or `None` if the name is free.
    pub(super) fn holder(&self, name: &MutexName) -> Result<Option<Holder>, FileError> {
        Ok(self.held_entry(name)?.map(|entry| self.holder_now(&entry)))
    }

    fn holder_now(&self, entry: &StateEntry) -> Holder {
        let holder = entry.holder.clone().seen_at(self.now);
        if entry.lasts == Lasts::Bound { with_its_end(holder, entry.pid_namespace) } else { holder }
    }

    /// Returns the entry of `name`, or `None` if the name is free.
    fn held_entry(&self, name: &MutexName) -> Result<Option<StateEntry>, FileError> {
        // A power loss may have damaged the line. Then the name counts as free, unless a holder still lives.
        let entry = match self.state.find(name) {
            Err(_) if is_any_alive(&self.paths)? => {
                return Err(FileError::unusable(&self.paths.path(STATE), STILL_LIVES));
            }
            found => found.unwrap_or_default(),
        };
        match entry {
            Some(entry) if self.is_held(&entry)? => Ok(Some(entry)),
            _ => Ok(None),
        }
    }

    fn is_held(&self, entry: &StateEntry) -> Result<bool, FileError> {
        let in_term = self.now < entry.holder.until();
        // If the life file was deleted, the lease ends with its term.
        let lives = |life| is_alive(&self.paths, life).map(|alive| alive.unwrap_or(in_term));
        match (entry.lasts, entry.life) {
            (Lasts::Ended, _) => Ok(false),
            (Lasts::Fixed, _) | (_, None) => Ok(in_term),
            (Lasts::Alive, Some(life)) => Ok(in_term && lives(life)?),
            (Lasts::Bound, Some(life)) => lives(life),
        }
    }

    /// Grants all of `admission`, or nothing. The claim is read before the lease: a late server then learns that the
    /// occurrence is claimed, and not only that the lease is held. Returns the answer, and the locked life file of a
    /// granted lease.
    pub(super) fn admit(&self, admission: &Admission) -> Result<(Admitted, Option<LifeLock>), FileError> {
        let refused = |answer| Ok((answer, None));
        if let Some(claim) = admission.claim()
            && let Some(holder) = self.holder(claim.name())?
        {
            return refused(Admitted::ClaimTaken(Some(holder)));
        }
        let mut life = None;
        if let Some(lease) = admission.lease() {
            if let Some(holder) = self.holder(lease.name())? {
                return refused(Admitted::LeaseTaken(Some(holder)));
            }
            if lease.name().is_lease() {
                life = Some(LifeLock::take(&self.paths)?);
            }
        }
        let token = FencingToken::after(self.state.last(), self.now);
        let grant = admission.granted(token);
        let entry = |request: &LeaseRequest, life: Option<LifeId>| {
            StateEntry::new(Holder::of(&request.granted(token), self.now), life)
        };
        let lease = admission.lease().map(|lease| (lease.name(), entry(lease, life.as_ref().map(LifeLock::id))));
        let claim = admission.claim().map(|claim| (claim.name(), entry(claim, None)));
        let granted: Vec<(&MutexName, StateEntry)> = lease.into_iter().chain(claim).collect();
        let text = self.state.with_grant(admission.name().mutex(), token, &granted, self.now);
        self.write_anew(text)?;
        Ok((Admitted::Granted(grant), life))
    }

    /// Changes the entry of a lease. Returns `false`, and changes nothing, if the owner does not hold the name any
    /// more, or if `change` returns no entry.
    pub(super) fn change(
        &self,
        lease: &Lease,
        change: impl FnOnce(StateEntry) -> Option<StateEntry>,
    ) -> Result<bool, FileError> {
        let own = self.held_entry(lease.name())?.filter(|entry| entry.holder.owner() == lease.owner());
        let Some(changed) = own.and_then(change) else { return Ok(false) };
        self.write(&changed).map(|()| true)
    }

    /// Frees `name`, whichever owner holds it. Returns the old holder.
    pub(super) fn break_lease(&self, name: &MutexName) -> Result<Option<Held>, FileError> {
        let Some(entry) = self.held_entry(name)? else { return Ok(None) };
        let held = Held::new(name.clone(), Some(self.holder_now(&entry)));
        self.write(&entry.lasting(Lasts::Ended))?;
        Ok(Some(held))
    }

    /// Writes the whole state. A text that fits into one block is written in place, because replacing the file takes
    /// fifty times as long. Writing in place is safe: even if the process is killed, a write of one block is never cut.
    fn write_anew(&self, mut text: String) -> Result<(), FileError> {
        let fits = text.len() <= BLOCK;
        text.extend(iter::repeat_n('\0', BLOCK.saturating_sub(text.len())));
        match &self.file {
            Some(file) if fits && file.len == BLOCK as u64 => file.write_at(0, text.as_bytes()),
            _ => self.paths.replace(STATE, &text),
        }
    }

    /// Overwrites the head of an entry in the file.
    fn write(&self, entry: &StateEntry) -> Result<(), FileError> {
        let (at, head) = entry.head();
        self.file.as_ref().map_or(Ok(()), |file| file.write_at(at, head.as_bytes()))
    }
}
