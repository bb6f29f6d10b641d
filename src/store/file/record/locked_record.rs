//! One critical section: what is decided, and written, while a record is locked.

use std::fs::File;

use chrono::{DateTime, Utc};

use super::claims::{Claims, Room, Search, Slot};
use super::name_block::{HEADER_MAX, NAME_GRAIN, NameCheck, check_name};
use super::parse_cache::ParseCache;
use super::record_lock::RecordLock;
use super::state::{LeaseEnd, LeaseState, RecordState, STATE_LEN};
use crate::lease::holder::Holder;
use crate::lease::name::MutexName;
use crate::lease::owner::Owner;
use crate::lease::request::Lease;
use crate::lease::token::FencingToken;
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::event_mutex::broken_lease::Broken;
use crate::store::file::error::FileError;
use crate::store::file::life_file::{self, LifeFile, LifeLock};
use crate::store::file::paths::MutexPaths;
use crate::store::file::position;

/// A locked record and what it says. Nobody else looks at it or changes it before this is dropped.
pub(in crate::store::file) struct LockedRecord<'a> {
    file: &'a File,
    paths: &'a MutexPaths,
    seen: &'a mut ParseCache,
    state: RecordState,
    claims: Claims<'a>,
    /// Not all of the name block was ever written; it goes with the next state.
    unnamed: bool,
    _turn: RecordLock<'a>,
}

/// Who holds a name.
pub(in crate::store::file) enum HeldBy {
    Nobody,
    Known(Holder),
    /// The record was torn, and somebody who may be the holder still lives.
    Unknown,
}

/// The answer to an admission.
pub(in crate::store::file) enum Decision {
    Granted {
        grant: Grant,
        /// The proof that the lease's holder lives.
        life: Option<LifeLock>,
        /// Whose lease had ended without being given back.
        superseded: Option<Owner>,
    },
    Refused(Admitted),
}

/// Which part of the record an owner's entry is.
enum OwnEntry {
    Lease(Holder, LeaseEnd),
    ClaimLine(Holder, Slot),
}

impl<'a> LockedRecord<'a> {
    /// Reads the record whose turn this is.
    pub(in crate::store::file) fn read(
        turn: RecordLock<'a>,
        file: &'a File,
        paths: &'a MutexPaths,
        seen: &'a mut ParseCache,
        index: &'a mut Option<File>,
    ) -> Result<Self, FileError> {
        let (state, claims) = (RecordState::lost(FencingToken::new(0)), Claims::of(file, paths, index));
        let mut section = Self { file, paths, seen, state, claims, unnamed: false, _turn: turn };
        if !section.read_as_expected()? {
            section.read_with_care()?;
        }
        Ok(section)
    }

    /// Reads a whole record of ours whose name is not very long. `false`: it is not one.
    fn read_as_expected(&mut self) -> Result<bool, FileError> {
        let mut buffer = [0; NAME_GRAIN + STATE_LEN];
        let name = self.paths.name_block();
        let Some(buffer) = buffer.get_mut(..name.len() + STATE_LEN) else { return Ok(false) };
        let Some(block) = self.read_at(buffer, 0)?.strip_prefix(name) else { return Ok(false) };
        match self.state_of(block) {
            None => Ok(false),
            Some(state) => {
                self.state = state;
                Ok(true)
            }
        }
    }

    fn read_with_care(&mut self) -> Result<(), FileError> {
        let mut buffer = [0; HEADER_MAX];
        let header = self.read_at(&mut buffer, 0)?;
        let name = self.paths.name_block();
        let unusable = |why| Err(FileError::unusable(self.paths.record(), why));
        match check_name(header, name) {
            NameCheck::Ours => {}
            NameCheck::Torn => self.unnamed = true,
            NameCheck::Another(name) => return unusable(format!("it is the record of another name, {name}")),
            NameCheck::Foreign => return unusable("it is not a record of this version, and is left as it is".into()),
        }
        let block = header.get(name.len()..).and_then(|rest| rest.get(..STATE_LEN));
        self.state = match block.and_then(|block| self.state_of(block)) {
            Some(state) => state,
            None if life_file::is_any_alive(self.paths)? => RecordState::lost(self.claims.highest_token()?),
            // Also a record that was just made.
            None => RecordState { lease: LeaseState::Free, ..RecordState::lost(self.claims.highest_token()?) },
        };
        Ok(())
    }

    fn state_of(&mut self, block: &[u8]) -> Option<RecordState> {
        if let Some(state) = self.seen.state_of(block) {
            return Some(state);
        }
        let state = RecordState::from_block(block)?;
        self.seen.note(block, &state);
        Some(state)
    }

    /// Who holds `name` at this time.
    pub(in crate::store::file) fn occupant(
        &mut self,
        name: &MutexName,
        now: DateTime<Utc>,
    ) -> Result<HeldBy, FileError> {
        if name.is_claim() {
            let taken = self.find_claim(name, now)?.taken;
            return Ok(taken.map_or(HeldBy::Nobody, |(holder, _)| HeldBy::Known(holder.seen_at(now))));
        }
        let nobody_unless = |alive, occupant| if alive { occupant } else { HeldBy::Nobody };
        Ok(match &self.state.lease {
            LeaseState::Free => HeldBy::Nobody,
            LeaseState::Unknown => nobody_unless(life_file::is_any_alive(self.paths)?, HeldBy::Unknown),
            LeaseState::Held { holder, bond } => {
                let seen = life_file::as_it_lives(holder.clone().seen_at(now), *bond);
                nobody_unless(self.lasts(holder, *bond, None, now)?, HeldBy::Known(seen))
            }
        })
    }

    /// Whether a lease is held at this time. Who has its life file in hand saves a look at it.
    fn lasts(
        &self,
        holder: &Holder,
        bond: LeaseEnd,
        in_hand: Option<&LifeLock>,
        now: DateTime<Utc>,
    ) -> Result<bool, FileError> {
        let in_term = now < holder.until();
        let shown = |life| in_hand.is_some_and(|in_hand| in_hand.id() == Some(life));
        match bond {
            LeaseEnd::Term => Ok(in_term),
            LeaseEnd::TermOrLife(life) => Ok(in_term && (shown(life) || life_file::is_alive(self.paths, life)?)),
            LeaseEnd::Life(life) if in_term && shown(life) => Ok(true),
            // Where nobody can tell who lives, the term counts again.
            LeaseEnd::Life(life) => Ok(life_file::is_locked_still(self.paths, life)?.unwrap_or(in_term)),
        }
    }

    /// Grants all of `admission` or nothing. The claim is asked first: a server that comes late is told so, also while
    /// another one runs.
    pub(in crate::store::file) fn admit(
        &mut self,
        admission: &Admission,
        spare: &mut Option<LifeFile>,
        now: DateTime<Utc>,
    ) -> Result<Decision, FileError> {
        let mut room = None;
        if let Some(claim) = admission.claim() {
            let search = self.find_claim(claim.name(), now)?;
            if let Some((holder, _)) = search.taken {
                return Ok(Decision::Refused(Admitted::ClaimTaken(Some(holder.seen_at(now)))));
            }
            room = Some(search.room);
        }
        let mut life = None;
        if let Some(lease) = admission.lease() {
            match self.occupant(lease.name(), now)? {
                HeldBy::Nobody => life = Some(LifeLock::take(self.paths, lease.owner().pid(), spare.take())?),
                HeldBy::Known(holder) => return Ok(Decision::Refused(Admitted::LeaseTaken(Some(holder)))),
                HeldBy::Unknown => return Ok(Decision::Refused(Admitted::LeaseTaken(None))),
            }
        }
        let grant = admission.granted(FencingToken::after(Some(self.state.last), now));
        let superseded = self.put_down(&grant, room, life.as_ref(), now)?;
        Ok(Decision::Granted { grant, life, superseded })
    }

    /// Writes a grant: first the claim, which says nothing yet, then the state, whose one write makes all of it true.
    fn put_down(
        &mut self,
        grant: &Grant,
        room: Option<Room>,
        life: Option<&LifeLock>,
        now: DateTime<Utc>,
    ) -> Result<Option<Owner>, FileError> {
        let mut state = RecordState { last: grant.token(), ..self.state.clone() };
        let mut written = None;
        if let (Some(claim), Some(room)) = (grant.claim(), room) {
            let holder = Holder::of(claim, now);
            written = Some(self.claims.write(room, claim.name(), &holder, self.state.last_claim, now)?);
            state.last_claim = grant.token();
        }
        if let (Some(lease), Some(life)) = (grant.lease(), life.and_then(LifeLock::id)) {
            state.lease = LeaseState::Held { holder: Holder::of(lease, now), bond: LeaseEnd::TermOrLife(life) };
        }
        let superseded = match &self.state.lease {
            LeaseState::Held { holder, .. } if grant.lease().is_some() => Some(holder.owner()),
            _ => None,
        };
        let granted = self.write_state(state);
        if let Some(written) = written {
            match &granted {
                Ok(()) => self.claims.granted(&written, grant.token()),
                Err(_) => self.claims.take_back(&written),
            }
        }
        granted.map(|()| superseded)
    }

    /// Gives the name back. Who shows the life file of the lease need not be looked at. `false`: it was not theirs.
    pub(in crate::store::file) fn release(
        &mut self,
        lease: &Lease,
        life: Option<&LifeLock>,
        now: DateTime<Utc>,
    ) -> Result<bool, FileError> {
        let Some(entry) = self.entry_of(lease, life, now)? else { return Ok(false) };
        self.clear(&entry).map(|()| true)
    }

    /// Lets the lease last as long as its life file is locked, whatever its term. `false`: it was not theirs, or was
    /// released to an end.
    #[cfg(unix)]
    pub(in crate::store::file) fn bind(&mut self, lease: &Lease, now: DateTime<Utc>) -> Result<bool, FileError> {
        match self.entry_of(lease, None, now)? {
            Some(OwnEntry::Lease(_, LeaseEnd::Life(_))) => Ok(true),
            Some(OwnEntry::Lease(holder, LeaseEnd::TermOrLife(life))) => {
                let lease = LeaseState::Held { holder, bond: LeaseEnd::Life(life) };
                self.write_state(RecordState { lease, ..self.state.clone() }).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Lets the lease end at `until`, unless it is bound to its life alone. `false`: it was not theirs.
    pub(in crate::store::file) fn extend(
        &mut self,
        lease: &Lease,
        until: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<bool, FileError> {
        let Some(entry) = self.entry_of(lease, None, now)? else { return Ok(false) };
        self.move_end(lease, entry, until).map(|()| true)
    }

    /// Lets the lease end at `until`, whether or not its holder lives then. `false`: it was not theirs.
    pub(in crate::store::file) fn release_at(
        &mut self,
        until: DateTime<Utc>,
        lease: &Lease,
        life: Option<&LifeLock>,
        now: DateTime<Utc>,
    ) -> Result<bool, FileError> {
        let entry = match self.entry_of(lease, life, now)? {
            None => return Ok(false),
            Some(OwnEntry::Lease(holder, _)) => OwnEntry::Lease(holder, LeaseEnd::Term),
            Some(claim @ OwnEntry::ClaimLine(..)) => claim,
        };
        self.move_end(lease, entry, until).map(|()| true)
    }

    fn move_end(&mut self, lease: &Lease, entry: OwnEntry, until: DateTime<Utc>) -> Result<(), FileError> {
        match entry {
            OwnEntry::Lease(holder, bond) => {
                let lease = LeaseState::Held { holder: holder.held_until(until), bond };
                self.write_state(RecordState { lease, ..self.state.clone() })
            }
            OwnEntry::ClaimLine(holder, slot) => self.claims.rewrite(slot, lease.name(), &holder.held_until(until)),
        }
    }

    /// Notes which process group works under the lease. `false`: it was not theirs.
    #[cfg(unix)]
    pub(in crate::store::file) fn note(
        &mut self,
        lease: &Lease,
        process_group: u32,
        now: DateTime<Utc>,
    ) -> Result<bool, FileError> {
        let Some(OwnEntry::Lease(holder, bond)) = self.entry_of(lease, None, now)? else { return Ok(false) };
        let lease = LeaseState::Held { holder: holder.with_process_group(process_group), bond };
        self.write_state(RecordState { lease, ..self.state.clone() }).map(|()| true)
    }

    /// Frees the name, whoever holds it.
    pub(in crate::store::file) fn break_open(
        &mut self,
        name: &MutexName,
        now: DateTime<Utc>,
    ) -> Result<Broken, FileError> {
        if name.is_claim() {
            let Some((holder, slot)) = self.find_claim(name, now)?.taken else { return Ok(Broken::NotHeld) };
            return self.clear(&OwnEntry::ClaimLine(holder, slot)).map(|()| Broken::Freed);
        }
        let broken = match self.occupant(name, now)? {
            HeldBy::Nobody => return Ok(Broken::NotHeld),
            HeldBy::Known(holder) if holder.has_ended() => Broken::FreedWhileRunning(holder),
            HeldBy::Known(_) | HeldBy::Unknown => Broken::Freed,
        };
        self.write_state(RecordState { lease: LeaseState::Free, ..self.state.clone() }).map(|()| broken)
    }

    /// The entry that `lease` stands for, if its owner still holds it.
    fn entry_of(
        &mut self,
        lease: &Lease,
        life: Option<&LifeLock>,
        now: DateTime<Utc>,
    ) -> Result<Option<OwnEntry>, FileError> {
        let entry = if lease.name().is_claim() {
            self.find_claim(lease.name(), now)?.taken.map(|(holder, slot)| OwnEntry::ClaimLine(holder, slot))
        } else {
            match &self.state.lease {
                LeaseState::Held { holder, bond } => Some(OwnEntry::Lease(holder.clone(), *bond)),
                _ => None,
            }
        };
        let Some(entry) = entry else { return Ok(None) };
        let (OwnEntry::Lease(holder, _) | OwnEntry::ClaimLine(holder, _)) = &entry;
        if holder.owner() != lease.owner() {
            return Ok(None);
        }
        let lasts = match &entry {
            OwnEntry::ClaimLine(..) => true,
            OwnEntry::Lease(holder, bond) => self.lasts(holder, *bond, life, now)?,
        };
        Ok(lasts.then_some(entry))
    }

    fn clear(&mut self, entry: &OwnEntry) -> Result<(), FileError> {
        match entry {
            OwnEntry::Lease(..) => self.write_state(RecordState { lease: LeaseState::Free, ..self.state.clone() }),
            OwnEntry::ClaimLine(_, slot) => self.claims.free(*slot),
        }
    }
}

impl LockedRecord<'_> {
    fn find_claim(&mut self, name: &MutexName, now: DateTime<Utc>) -> Result<Search, FileError> {
        self.claims.find(name, self.state.last_claim, now)
    }

    fn read_at<'b>(&self, buffer: &'b mut [u8], offset: u64) -> Result<&'b [u8], FileError> {
        let len = position::read(self.file, buffer, offset).map_err(FileError::at(self.paths.record()))?;
        Ok(&buffer[..len])
    }

    fn write_state(&mut self, state: RecordState) -> Result<(), FileError> {
        let (name, block) = (self.paths.name_block(), self.seen.block_of(&state));
        let written = if self.unnamed {
            position::write(self.file, &[name, block].concat(), 0)
        } else {
            position::write(self.file, block, name.len() as u64)
        };
        written.map_err(FileError::at(self.paths.record()))?;
        (self.state, self.unnamed) = (state, false);
        Ok(())
    }
}
