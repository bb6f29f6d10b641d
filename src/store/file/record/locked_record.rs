//! A record while it is locked: every look, grant, renewal and release is one critical section here.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::claims::{ClaimSlot, Claims, Room};
use super::name_block::{HEADER_MAX, MAGIC, NameCheck, check_name};
use super::record_lock::RecordLock;
use super::state::{KnownState, LeaseEnd, LeaseState, RecordState, STATE_LEN};
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{holder::Holder, name::MutexName, owner::Owner, term::Term, token::FencingToken};
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::file::life_file::{LifeFile, LifeLock, is_alive, is_any_alive, noting_if_ended};
use crate::store::file::{directory::Directory, paths::MutexPaths};
use crate::store::{event_mutex::broken_lease::Broken, event_mutex::held::Held};
use crate::store::{file::error::FileError, file::open_file::OpenFile};
use crate::time::clock::wall_plus;

/// A locked record and its state. Nobody else looks at it or changes it before this is dropped.
pub(crate) struct LockedRecord<'a> {
    pub(super) file: &'a OpenFile,
    pub(super) paths: &'a MutexPaths,
    pub(super) name_block: &'a [u8],
    pub(super) known: &'a mut KnownState,
    pub(super) index: &'a mut Option<OpenFile>,
    pub(super) now: DateTime<Utc>,
    /// Not all of the name block was ever written; it goes with the next state.
    pub(super) is_unnamed: bool,
    pub(super) _lock: RecordLock<'a>,
}

/// The answer to an admission, and what follows from it.
pub(crate) struct Decided {
    pub(crate) answer: Admitted,
    /// The proof that the holder of a granted lease lives.
    pub(crate) life: Option<LifeLock>,
    /// The owner of the lease before, which had ended without being given back.
    pub(crate) superseded: Option<Owner>,
}

/// The part of the record in which a lease or claim stands.
#[derive(Clone, Copy)]
enum RecordPart {
    Lease(LeaseEnd),
    Claim(ClaimSlot),
}

impl LockedRecord<'_> {
    /// Reads the state. It is an error if this is not the record of its name.
    pub(super) fn read(mut self) -> Result<Self, FileError> {
        let mut buffer = [0; HEADER_MAX];
        // No more than is needed, unless something is wrong.
        let mut header = self.file.read_at(&mut buffer[..self.name_block.len() + STATE_LEN], 0)?;
        if !header.starts_with(self.name_block) {
            header = self.file.read_at(&mut buffer, 0)?;
        }
        match check_name(header, self.name_block) {
            NameCheck::Ours => {}
            NameCheck::Torn => self.is_unnamed = true,
            NameCheck::Another(name) => {
                let why = format!("it is the record of another name, {name}");
                return Err(FileError::unusable(self.file.path(), why));
            }
            NameCheck::Foreign => return Err(FileError::of_another_format(self.file.path(), header, MAGIC)),
        }
        let block = header.get(self.name_block.len()..).and_then(|rest| rest.get(..STATE_LEN));
        if !self.known.read(block.unwrap_or_default()) {
            // It is torn, or was just made.
            let highest = self.claims().highest_token()?;
            let lease = if is_any_alive(self.paths)? { LeaseState::Unknown } else { LeaseState::Free };
            *self.known = KnownState::lost(highest, lease);
        }
        Ok(self)
    }

    /// Who holds `name`. The holder is not known if the record was torn, and somebody who may be the holder still lives.
    pub(crate) fn held_by(&mut self, name: &MutexName) -> Result<Option<Held>, FileError> {
        let holder = match &self.known.state.lease {
            _ if name.is_claim() => match self.claims().find(name)?.taken {
                Some((holder, _)) => Some(holder),
                None => return Ok(None),
            },
            LeaseState::Held { holder, end } if self.lasts(holder, *end, None)? => {
                let may_outlive_its_process = matches!(end, LeaseEnd::Life(_));
                Some(if may_outlive_its_process { noting_if_ended(holder.clone()) } else { holder.clone() })
            }
            LeaseState::Unknown if is_any_alive(self.paths)? => None,
            _ => return Ok(None),
        };
        Ok(Some(Held::new(name.clone(), holder.map(|holder| holder.seen_at(self.now)))))
    }

    /// Whether a lease is held now. A look at its life file is saved if the caller has that in hand.
    fn lasts(&self, holder: &Holder, end: LeaseEnd, in_hand: Option<&LifeLock>) -> Result<bool, FileError> {
        let in_term = self.now < holder.until();
        let lives = |life| match in_hand {
            Some(in_hand) if in_term && in_hand.id() == Some(life) => Ok(true),
            // Where nobody can tell who lives, the term counts.
            _ => is_alive(self.paths, life).map(|alive| alive.unwrap_or(in_term)),
        };
        match end {
            LeaseEnd::Term => Ok(in_term),
            LeaseEnd::TermOrLife(life) => Ok(in_term && lives(life)?),
            LeaseEnd::Life(life) => lives(life),
        }
    }

    pub(crate) fn directory(&self) -> Arc<Directory> {
        self.paths.directory()
    }

    /// Grants all of `admission` or nothing, unless somebody holds a name that excludes it. The claim is asked before the
    /// lease: a server that comes late is told so, also while another one runs.
    pub(crate) fn admit(
        &mut self,
        admission: &Admission,
        excluded_by: Option<Held>,
        spare: &mut Option<LifeFile>,
    ) -> Result<Decided, FileError> {
        let refused = |answer| Ok(Decided { answer, life: None, superseded: None });
        if let Some(held) = excluded_by {
            return refused(Admitted::Excluded(held));
        }
        let mut room = None;
        if let Some(claim) = admission.claim() {
            let search = self.claims().find(claim.name())?;
            if let Some((holder, _)) = search.taken {
                return refused(Admitted::ClaimTaken(Some(holder.seen_at(self.now))));
            }
            room = Some(search.room);
        }
        let mut life = None;
        if let Some(lease) = admission.lease() {
            if let Some(held) = self.held_by(lease.name())? {
                return refused(Admitted::LeaseTaken(held.into_holder()));
            }
            life = Some(LifeLock::take(self.paths, lease.owner().pid(), spare.take())?);
        }
        let grant = admission.granted(FencingToken::after(Some(self.known.state.last), self.now));
        let reason = admission.claim().and_then(LeaseRequest::reason);
        let superseded = self.write_grant(&grant, reason, room, life.as_ref())?;
        Ok(Decided { answer: Admitted::Granted(grant), life, superseded })
    }

    /// Writes first the claim, which does not count yet, then the state, whose one write makes all of the grant true.
    fn write_grant(
        &mut self,
        grant: &Grant,
        reason: Option<&str>,
        room: Option<Room>,
        life: Option<&LifeLock>,
    ) -> Result<Option<Owner>, FileError> {
        let mut state = RecordState { last: grant.token(), ..self.known.state.clone() };
        let mut written = None;
        if let (Some(claim), Some(room)) = (grant.claim(), room) {
            let holder = Holder::of(claim, self.now).with_reason(reason);
            // A process that is killed between the two must not leave a claim in a file that says nowhere whose it is.
            if self.is_unnamed {
                self.write_state(self.known.state.clone())?;
            }
            written = Some(self.claims().write(room, claim.name(), &holder)?);
            state.last_claim = grant.token();
        }
        let mut superseded = None;
        if let (Some(lease), Some(life)) = (grant.lease(), life.and_then(LifeLock::id)) {
            let held = LeaseState::Held { holder: Holder::of(lease, self.now), end: LeaseEnd::TermOrLife(life) };
            if let LeaseState::Held { holder, .. } = std::mem::replace(&mut state.lease, held) {
                superseded = Some(holder.owner());
            }
        }
        let granted = self.write_state(state);
        if let Some(written) = written {
            match &granted {
                Ok(()) => self.claims().granted(&written, grant.token()),
                Err(_) => self.claims().take_back(&written),
            }
        }
        granted.map(|()| superseded)
    }

    /// Gives the name back, now or after a `rest`, whether or not its holder lives then. `life`: the life file of the lease,
    /// if it is in hand. `false`: the lease was not its owner's.
    pub(crate) fn release(
        &mut self,
        lease: &Lease,
        rest: Option<Term>,
        life: Option<&LifeLock>,
    ) -> Result<bool, FileError> {
        let Some((holder, part)) = self.find_own(lease, life)? else { return Ok(false) };
        let part =
            if let (RecordPart::Lease(_), Some(_)) = (part, rest) { RecordPart::Lease(LeaseEnd::Term) } else { part };
        let rest = rest.map(|rest| holder.held_until(wall_plus(self.now, rest.get())));
        self.write_entry(lease.name(), part, rest).map(|()| true)
    }

    /// Lets the lease last as long as its life file is locked, whatever its term. `false`: it was not its owner's, or was
    /// released to an end.
    #[cfg(unix)]
    pub(crate) fn bind_to_life(&mut self, lease: &Lease) -> Result<bool, FileError> {
        match self.find_own(lease, None)? {
            Some((holder, RecordPart::Lease(LeaseEnd::TermOrLife(life) | LeaseEnd::Life(life)))) => {
                self.write_entry(lease.name(), RecordPart::Lease(LeaseEnd::Life(life)), Some(holder)).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Lets the term begin anew. `false`: the lease was not its owner's.
    pub(crate) fn extend(&mut self, lease: &Lease, term: Term) -> Result<bool, FileError> {
        let until = wall_plus(self.now, term.get());
        self.rewrite(lease, |holder| holder.held_until(until))
    }

    /// Notes which process group works under the lease. `false`: it was not its owner's.
    #[cfg(unix)]
    pub(crate) fn note_process_group(&mut self, lease: &Lease, group: u32) -> Result<bool, FileError> {
        self.rewrite(lease, |holder| holder.with_process_group(group))
    }

    /// Frees the name, whoever holds it.
    pub(crate) fn break_open(&mut self, name: &MutexName) -> Result<Broken, FileError> {
        if name.is_claim() {
            let Some((_, slot)) = self.claims().find(name)?.taken else { return Ok(Broken::NotHeld) };
            return self.claims().rewrite(slot, name, None).map(|()| Broken::Freed);
        }
        let Some(held) = self.held_by(name)? else { return Ok(Broken::NotHeld) };
        let broken = match held.into_holder() {
            Some(holder) if holder.has_ended() => Broken::FreedWhileRunning(holder),
            _ => Broken::Freed,
        };
        self.write_lease(LeaseState::Free).map(|()| broken)
    }

    /// The entry of `lease`, if its owner still holds it.
    fn find_own(&mut self, lease: &Lease, life: Option<&LifeLock>) -> Result<Option<(Holder, RecordPart)>, FileError> {
        if lease.name().is_claim() {
            let taken = self.claims().find(lease.name())?.taken;
            let own = taken.filter(|(holder, _)| holder.owner() == lease.owner());
            return Ok(own.map(|(holder, slot)| (holder, RecordPart::Claim(slot))));
        }
        Ok(match &self.known.state.lease {
            LeaseState::Held { holder, end }
                if holder.owner() == lease.owner() && self.lasts(holder, *end, life)? =>
            {
                Some((holder.clone(), RecordPart::Lease(*end)))
            }
            _ => None,
        })
    }

    /// Changes the entry of `lease`. `false`: it was not its owner's.
    fn rewrite(&mut self, lease: &Lease, change: impl FnOnce(Holder) -> Holder) -> Result<bool, FileError> {
        let Some((holder, part)) = self.find_own(lease, None)? else { return Ok(false) };
        self.write_entry(lease.name(), part, Some(change(holder))).map(|()| true)
    }

    /// Writes who holds `name`. `None`: nobody any more.
    fn write_entry(&mut self, name: &MutexName, part: RecordPart, holder: Option<Holder>) -> Result<(), FileError> {
        match part {
            RecordPart::Lease(end) => {
                self.write_lease(holder.map_or(LeaseState::Free, |holder| LeaseState::Held { holder, end }))
            }
            RecordPart::Claim(slot) => self.claims().rewrite(slot, name, holder.as_ref()),
        }
    }

    fn claims(&mut self) -> Claims<'_> {
        Claims {
            record: self.file,
            paths: self.paths,
            start: (self.name_block.len() + STATE_LEN) as u64,
            index: self.index,
            last_claim: self.known.state.last_claim,
            now: self.now,
        }
    }

    fn write_lease(&mut self, lease: LeaseState) -> Result<(), FileError> {
        let RecordState { last, last_claim, .. } = self.known.state;
        self.write_state(RecordState { last, last_claim, lease })
    }

    fn write_state(&mut self, state: RecordState) -> Result<(), FileError> {
        let block = state.to_block();
        if self.is_unnamed {
            self.file.write_at(&[self.name_block, &block].concat(), 0)?;
        } else {
            self.file.write_at(&block, self.name_block.len() as u64)?;
        }
        self.is_unnamed = false;
        *self.known = KnownState::written(&block, state);
        Ok(())
    }
}
