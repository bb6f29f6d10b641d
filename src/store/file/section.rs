//! One critical section: what is decided, and written, while a record is locked.

use std::fs::File;

use chrono::{DateTime, Utc};

use super::claims::{Claims, Room, Search, Slot};
use super::life::{self, Life, Spare};
use super::place::{Fault, Place};
use super::position;
use super::record::{Bond, Front, HEADER_MAX, LeaseState, NAME_GRAIN, STATE_LEN, State, front};
use super::seen::Seen;
use super::turn::Turn;
use crate::lease::holder::Holder;
use crate::lease::name::MutexName;
use crate::lease::owner::Owner;
use crate::lease::request::Lease;
use crate::lease::token::FencingToken;
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::event_mutex::broken_lease::Broken;

/// A locked record and what it says. Nobody else looks at it or changes it before this is dropped.
pub(super) struct Section<'a> {
    file: &'a File,
    place: &'a Place,
    seen: &'a mut Seen,
    state: State,
    claims: Claims<'a>,
    /// Not all of the name block was ever written; it goes with the next state.
    unnamed: bool,
    _turn: Turn<'a>,
}

/// Who holds a name.
pub(super) enum Occupant {
    Nobody,
    Known(Holder),
    /// The record was torn, and somebody who may be the holder still lives.
    Unknown,
}

/// The answer to an admission.
pub(super) enum Verdict {
    Granted {
        grant: Grant,
        /// The proof that the lease's holder lives.
        life: Option<Life>,
        /// Whose lease had ended without being given back.
        superseded: Option<Owner>,
    },
    Refused(Admitted),
}

/// Which part of the record an owner's entry is.
enum Entry {
    Lease(Holder, Bond),
    Claim(Holder, Slot),
}

impl<'a> Section<'a> {
    /// Reads the record whose turn this is.
    pub(super) fn read(
        turn: Turn<'a>,
        file: &'a File,
        place: &'a Place,
        seen: &'a mut Seen,
        index: &'a mut Option<File>,
    ) -> Result<Self, Fault> {
        let (state, claims) = (State::lost(FencingToken::new(0)), Claims::of(file, place, index));
        let mut section = Self { file, place, seen, state, claims, unnamed: false, _turn: turn };
        if !section.read_as_expected()? {
            section.read_with_care()?;
        }
        Ok(section)
    }

    /// Reads a whole record of ours whose name is not very long. `false`: it is not one.
    fn read_as_expected(&mut self) -> Result<bool, Fault> {
        let mut buffer = [0; NAME_GRAIN + STATE_LEN];
        let name = self.place.name_block();
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

    fn read_with_care(&mut self) -> Result<(), Fault> {
        let mut buffer = [0; HEADER_MAX];
        let header = self.read_at(&mut buffer, 0)?;
        let name = self.place.name_block();
        let unusable = |why| Err(Fault::unusable(self.place.record(), why));
        match front(header, name) {
            Front::Ours => {}
            Front::Torn => self.unnamed = true,
            Front::Another(name) => return unusable(format!("it is the record of another name, {name}")),
            Front::Foreign => return unusable("it is not a record of this version, and is left as it is".into()),
        }
        let block = header.get(name.len()..).and_then(|rest| rest.get(..STATE_LEN));
        self.state = match block.and_then(|block| self.state_of(block)) {
            Some(state) => state,
            None if life::is_any_alive(self.place)? => State::lost(self.claims.highest_token()?),
            // Also a record that was just made.
            None => State { lease: LeaseState::Free, ..State::lost(self.claims.highest_token()?) },
        };
        Ok(())
    }

    fn state_of(&mut self, block: &[u8]) -> Option<State> {
        if let Some(state) = self.seen.state_of(block) {
            return Some(state);
        }
        let state = State::from_block(block)?;
        self.seen.note(block, &state);
        Some(state)
    }

    /// Who holds `name` at this time.
    pub(super) fn occupant(&mut self, name: &MutexName, now: DateTime<Utc>) -> Result<Occupant, Fault> {
        if name.is_claim() {
            let taken = self.find_claim(name, now)?.taken;
            return Ok(taken.map_or(Occupant::Nobody, |(holder, _)| Occupant::Known(holder.seen_at(now))));
        }
        let nobody_unless = |alive, occupant| if alive { occupant } else { Occupant::Nobody };
        Ok(match &self.state.lease {
            LeaseState::Free => Occupant::Nobody,
            LeaseState::Unknown => nobody_unless(life::is_any_alive(self.place)?, Occupant::Unknown),
            LeaseState::Held { holder, bond } => {
                let seen = life::as_it_lives(holder.clone().seen_at(now), *bond);
                nobody_unless(self.lasts(holder, *bond, None, now)?, Occupant::Known(seen))
            }
        })
    }

    /// Whether a lease is held at this time. Who has its life file in hand saves a look at it.
    fn lasts(&self, holder: &Holder, bond: Bond, in_hand: Option<&Life>, now: DateTime<Utc>) -> Result<bool, Fault> {
        let in_term = now < holder.until();
        let shown = |life| in_hand.is_some_and(|in_hand| in_hand.id() == Some(life));
        match bond {
            Bond::Term => Ok(in_term),
            Bond::TermAndLife(life) => Ok(in_term && (shown(life) || life::is_alive(self.place, life)?)),
            Bond::Life(life) if in_term && shown(life) => Ok(true),
            // Where nobody can tell who lives, the term counts again.
            Bond::Life(life) => Ok(life::is_locked_still(self.place, life)?.unwrap_or(in_term)),
        }
    }

    /// Grants all of `admission` or nothing. The claim is asked first: a server that comes late is told so, also while
    /// another one runs.
    pub(super) fn admit(
        &mut self,
        admission: &Admission,
        spare: &mut Option<Spare>,
        now: DateTime<Utc>,
    ) -> Result<Verdict, Fault> {
        let mut room = None;
        if let Some(claim) = admission.claim() {
            let search = self.find_claim(claim.name(), now)?;
            if let Some((holder, _)) = search.taken {
                return Ok(Verdict::Refused(Admitted::ClaimTaken(Some(holder.seen_at(now)))));
            }
            room = Some(search.room);
        }
        let mut life = None;
        if let Some(lease) = admission.lease() {
            match self.occupant(lease.name(), now)? {
                Occupant::Nobody => life = Some(Life::take(self.place, lease.owner().pid(), spare.take())?),
                Occupant::Known(holder) => return Ok(Verdict::Refused(Admitted::LeaseTaken(Some(holder)))),
                Occupant::Unknown => return Ok(Verdict::Refused(Admitted::LeaseTaken(None))),
            }
        }
        let grant = admission.granted(FencingToken::after(Some(self.state.last), now));
        let superseded = self.put_down(&grant, room, life.as_ref(), now)?;
        Ok(Verdict::Granted { grant, life, superseded })
    }

    /// Writes a grant: first the claim, which says nothing yet, then the state, whose one write makes all of it true.
    fn put_down(
        &mut self,
        grant: &Grant,
        room: Option<Room>,
        life: Option<&Life>,
        now: DateTime<Utc>,
    ) -> Result<Option<Owner>, Fault> {
        let mut state = State { last: grant.token(), ..self.state.clone() };
        let mut written = None;
        if let (Some(claim), Some(room)) = (grant.claim(), room) {
            let holder = Holder::of(claim, now);
            written = Some(self.claims.write(room, claim.name(), &holder, self.state.last_claim, now)?);
            state.last_claim = grant.token();
        }
        if let (Some(lease), Some(life)) = (grant.lease(), life.and_then(Life::id)) {
            state.lease = LeaseState::Held { holder: Holder::of(lease, now), bond: Bond::TermAndLife(life) };
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
    pub(super) fn release(&mut self, lease: &Lease, life: Option<&Life>, now: DateTime<Utc>) -> Result<bool, Fault> {
        let Some(entry) = self.entry_of(lease, life, now)? else { return Ok(false) };
        self.clear(&entry).map(|()| true)
    }

    /// Lets the lease last as long as its life file is locked, whatever its term. `false`: it was not theirs, or was
    /// released to an end.
    #[cfg(unix)]
    pub(super) fn bind(&mut self, lease: &Lease, now: DateTime<Utc>) -> Result<bool, Fault> {
        match self.entry_of(lease, None, now)? {
            Some(Entry::Lease(_, Bond::Life(_))) => Ok(true),
            Some(Entry::Lease(holder, Bond::TermAndLife(life))) => {
                let lease = LeaseState::Held { holder, bond: Bond::Life(life) };
                self.write_state(State { lease, ..self.state.clone() }).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Lets the lease end at `until`, unless it is bound to its life alone. `false`: it was not theirs.
    pub(super) fn extend(&mut self, lease: &Lease, until: DateTime<Utc>, now: DateTime<Utc>) -> Result<bool, Fault> {
        let Some(entry) = self.entry_of(lease, None, now)? else { return Ok(false) };
        self.move_end(lease, entry, until).map(|()| true)
    }

    /// Lets the lease end at `until`, whether or not its holder lives then. `false`: it was not theirs.
    pub(super) fn release_at(
        &mut self,
        until: DateTime<Utc>,
        lease: &Lease,
        life: Option<&Life>,
        now: DateTime<Utc>,
    ) -> Result<bool, Fault> {
        let entry = match self.entry_of(lease, life, now)? {
            None => return Ok(false),
            Some(Entry::Lease(holder, _)) => Entry::Lease(holder, Bond::Term),
            Some(claim @ Entry::Claim(..)) => claim,
        };
        self.move_end(lease, entry, until).map(|()| true)
    }

    fn move_end(&mut self, lease: &Lease, entry: Entry, until: DateTime<Utc>) -> Result<(), Fault> {
        match entry {
            Entry::Lease(holder, bond) => {
                let lease = LeaseState::Held { holder: holder.held_until(until), bond };
                self.write_state(State { lease, ..self.state.clone() })
            }
            Entry::Claim(holder, slot) => self.claims.rewrite(slot, lease.name(), &holder.held_until(until)),
        }
    }

    /// Notes which process group works under the lease. `false`: it was not theirs.
    #[cfg(unix)]
    pub(super) fn note(&mut self, lease: &Lease, process_group: u32, now: DateTime<Utc>) -> Result<bool, Fault> {
        let Some(Entry::Lease(holder, bond)) = self.entry_of(lease, None, now)? else { return Ok(false) };
        let lease = LeaseState::Held { holder: holder.with_process_group(process_group), bond };
        self.write_state(State { lease, ..self.state.clone() }).map(|()| true)
    }

    /// Frees the name, whoever holds it.
    pub(super) fn break_open(&mut self, name: &MutexName, now: DateTime<Utc>) -> Result<Broken, Fault> {
        if name.is_claim() {
            let Some((holder, slot)) = self.find_claim(name, now)?.taken else { return Ok(Broken::NotHeld) };
            return self.clear(&Entry::Claim(holder, slot)).map(|()| Broken::Freed);
        }
        let broken = match self.occupant(name, now)? {
            Occupant::Nobody => return Ok(Broken::NotHeld),
            Occupant::Known(holder) if holder.has_ended() => Broken::FreedWhileRunning(holder),
            Occupant::Known(_) | Occupant::Unknown => Broken::Freed,
        };
        self.write_state(State { lease: LeaseState::Free, ..self.state.clone() }).map(|()| broken)
    }

    /// The entry that `lease` stands for, if its owner still holds it.
    fn entry_of(&mut self, lease: &Lease, life: Option<&Life>, now: DateTime<Utc>) -> Result<Option<Entry>, Fault> {
        let entry = if lease.name().is_claim() {
            self.find_claim(lease.name(), now)?.taken.map(|(holder, slot)| Entry::Claim(holder, slot))
        } else {
            match &self.state.lease {
                LeaseState::Held { holder, bond } => Some(Entry::Lease(holder.clone(), *bond)),
                _ => None,
            }
        };
        let Some(entry) = entry else { return Ok(None) };
        let (Entry::Lease(holder, _) | Entry::Claim(holder, _)) = &entry;
        if holder.owner() != lease.owner() {
            return Ok(None);
        }
        let lasts = match &entry {
            Entry::Claim(..) => true,
            Entry::Lease(holder, bond) => self.lasts(holder, *bond, life, now)?,
        };
        Ok(lasts.then_some(entry))
    }

    fn clear(&mut self, entry: &Entry) -> Result<(), Fault> {
        match entry {
            Entry::Lease(..) => self.write_state(State { lease: LeaseState::Free, ..self.state.clone() }),
            Entry::Claim(_, slot) => self.claims.free(*slot),
        }
    }
}

impl Section<'_> {
    fn find_claim(&mut self, name: &MutexName, now: DateTime<Utc>) -> Result<Search, Fault> {
        self.claims.find(name, self.state.last_claim, now)
    }

    fn read_at<'b>(&self, buffer: &'b mut [u8], offset: u64) -> Result<&'b [u8], Fault> {
        let len = position::read(self.file, buffer, offset).map_err(Fault::at(self.place.record()))?;
        Ok(&buffer[..len])
    }

    fn write_state(&mut self, state: State) -> Result<(), Fault> {
        let (name, block) = (self.place.name_block(), self.seen.block_of(&state));
        let written = if self.unnamed {
            position::write(self.file, &[name, block].concat(), 0)
        } else {
            position::write(self.file, block, name.len() as u64)
        };
        written.map_err(Fault::at(self.place.record()))?;
        (self.state, self.unnamed) = (state, false);
        Ok(())
    }
}
