//! The claims of a record: slots behind its state, in no order, each of which is used again when its claim has expired.
//!
//! Few claims are read one after another. Of more, a [`ClaimIndex`] says which slot one is in, and where to look for room.

use chrono::{DateTime, Utc};

use super::claim_index::ClaimIndex;
use super::claim_line::{CLAIM_LEN, ClaimHash, ClaimLine, Validity, claim_line};
use crate::lease::{holder::Holder, name::MutexName, token::FencingToken};
use crate::store::{file::error::FileError, file::open_file::OpenFile, file::paths::MutexPaths};

/// How many claims are read at once, and how many a record has before it gets an index.
const CLAIMS_AT_ONCE: u32 = 64;

/// How many claims a record may have.
const CLAIMS_MAX: u32 = 1 << 17;

/// How many slots are looked at for one that has room. They are filled in turn, so that the next one is the oldest.
const SWEEP: u32 = 16;

/// The number of a claim's slot.
pub(super) type ClaimSlot = u32;

/// The claims of a locked record.
pub(super) struct Claims<'a> {
    pub(super) record: &'a OpenFile,
    pub(super) paths: &'a MutexPaths,
    /// Where they begin in the record.
    pub(super) start: u64,
    /// The file of the index, once it was opened.
    pub(super) index: &'a mut Option<OpenFile>,
    /// Claims with a higher token were written, but never granted.
    pub(super) last_claim: FencingToken,
    pub(super) now: DateTime<Utc>,
}

/// The result of a look for one claim.
pub(super) struct Search {
    pub(super) taken: Option<(Holder, ClaimSlot)>,
    pub(super) room: Room,
}

/// Where another claim can be written.
#[derive(Clone, Copy)]
pub(super) enum Room {
    At(ClaimSlot),
    /// Where this index says.
    Indexed(ClaimIndex),
}

/// A claim that was written, and will be granted with the state.
pub(super) struct WrittenClaim {
    slot: ClaimSlot,
    /// It has the claim, but is not valid yet.
    index: Option<ClaimIndex>,
}

impl Claims<'_> {
    /// Looks for the claim `name`.
    pub(super) fn find(&mut self, name: &MutexName) -> Result<Search, FileError> {
        let hash = ClaimHash::of(name);
        let count = self.count()?;
        let validity = self.validity();
        if count > CLAIMS_AT_ONCE
            && let Some(index) = self.valid_index(&validity)?
            && let Some(slots) = self.index.as_ref().and_then(|file| index.slots_of(file, hash))
        {
            let taken = self.find_in(&slots, hash, &validity)?;
            if taken.is_some() || count < CLAIMS_MAX {
                return Ok(Search { taken, room: Room::Indexed(index) });
            }
        }
        self.find_among_all(hash, &validity)
    }

    fn find_in(
        &self,
        slots: &[ClaimSlot],
        hash: ClaimHash,
        validity: &Validity,
    ) -> Result<Option<(Holder, ClaimSlot)>, FileError> {
        let mut buffer = [0; CLAIM_LEN];
        for &slot in slots {
            let claim = ClaimLine::on(self.read_at(&mut buffer, slot)?);
            if claim.has_hash(hash)
                && validity.is_valid(claim)
                && let Some(holder) = claim.holder()
            {
                return Ok(Some((holder, slot)));
            }
        }
        Ok(None)
    }

    fn find_among_all(&self, hash: ClaimHash, validity: &Validity) -> Result<Search, FileError> {
        let (mut taken, mut ungranted, mut empty) = (None, None, None);
        let end = self.for_each(|slot, claim| {
            if validity.is_ungranted(claim) {
                ungranted.get_or_insert(slot);
            } else if !validity.is_in_term(claim) {
                empty.get_or_insert(slot);
            } else if claim.has_hash(hash)
                && let Some(holder) = claim.holder()
            {
                taken = Some((holder, slot));
            }
        })?;
        // A claim that was written but not granted is overwritten by the next one, before a higher token in the state
        // could make it look granted. So there is never more than one.
        let room = ungranted.or(empty).unwrap_or(end);
        if taken.is_none() && room >= CLAIMS_MAX {
            let full = format!("it has {CLAIMS_MAX} claims that are still good");
            return Err(FileError::unusable(self.record.path(), full));
        }
        Ok(Search { taken, room: Room::At(room) })
    }

    /// An index that is valid, made anew if need be. `None`: it can't be had, and the claims are read one after another.
    fn valid_index(&mut self, validity: &Validity) -> Result<Option<ClaimIndex>, FileError> {
        if self.index.is_none() {
            *self.index = self.paths.open_or_make(&self.paths.index()).ok();
        }
        let Some(file) = self.index.as_ref() else { return Ok(None) };
        match ClaimIndex::read(file, self.last_claim) {
            None => self.build_index(file, validity),
            valid => Ok(valid),
        }
    }

    fn build_index(&self, file: &OpenFile, validity: &Validity) -> Result<Option<ClaimIndex>, FileError> {
        let (mut claims, mut ungranted, mut room) = (Vec::new(), Vec::new(), None);
        self.for_each(|slot, claim| {
            if validity.is_ungranted(claim) {
                ungranted.push(slot);
                return;
            }
            if !validity.is_in_term(claim) {
                room.get_or_insert(slot);
            }
            // Should the clock be set back, an expired claim is good again.
            claims.extend(claim.hash().map(|hash| (hash, slot)));
        })?;
        // The next grant will not meet it, and its token must not make it look granted.
        ungranted.iter().try_for_each(|slot| self.write_at(*slot, &ClaimLine::FREE))?;
        Ok(ClaimIndex::build(file, &claims, room.unwrap_or(0), self.last_claim))
    }

    /// Writes a claim that was not found, for the next grant.
    pub(super) fn write(&self, room: Room, name: &MutexName, holder: &Holder) -> Result<WrittenClaim, FileError> {
        let hash = ClaimHash::of(name);
        let line = claim_line(name, hash, holder);
        let mut index = match room {
            Room::At(slot) => return self.write_at(slot, &line).map(|()| WrittenClaim { slot, index: None }),
            Room::Indexed(index) => index,
        };
        let (slot, gone) = self.sweep(&mut index)?;
        let invalidated = self.index.as_ref().filter(|file| index.invalidate(file));
        self.write_at(slot, &line)?;
        let entered = invalidated.is_some_and(|file| index.enter(file, gone, hash, slot).is_some());
        Ok(WrittenClaim { slot, index: entered.then_some(index) })
    }

    /// A slot with room, the next that the index names or one at the end, and the claim that stood there before.
    fn sweep(&self, index: &mut ClaimIndex) -> Result<(ClaimSlot, Option<ClaimHash>), FileError> {
        let (count, validity) = (self.count()?, self.validity());
        let first = if index.next_slot < count { index.next_slot } else { 0 };
        let mut buffer = [0; SWEEP as usize * CLAIM_LEN];
        let claims = self.read_at(&mut buffer, first)?.chunks(CLAIM_LEN).map(ClaimLine::on);
        for (slot, claim) in (first..).zip(claims) {
            if !validity.is_valid(claim) {
                index.next_slot = slot + 1;
                return Ok((slot, claim.hash()));
            }
        }
        // The slot that is added is the newest, and is not looked at before the others were.
        index.next_slot = if first + SWEEP < count { first + SWEEP } else { 0 };
        Ok((count, None))
    }

    /// Notes that the state made a grant of the claim, with this token.
    pub(super) fn granted(&self, written: &WrittenClaim, token: FencingToken) {
        if let (Some(index), Some(file)) = (written.index, self.index.as_ref()) {
            // Should this fail, the index is made anew.
            index.validate(file, token);
        }
    }

    /// Frees the slot of a claim that was not granted.
    pub(super) fn take_back(&self, written: &WrittenClaim) {
        // Should this fail, its token says so.
        let _ = self.write_at(written.slot, &ClaimLine::FREE);
    }

    /// Writes who holds the claim of `name` in `slot`. `None`: nobody any more.
    pub(super) fn rewrite(&self, slot: ClaimSlot, name: &MutexName, holder: Option<&Holder>) -> Result<(), FileError> {
        let line = holder.map_or(ClaimLine::FREE, |holder| claim_line(name, ClaimHash::of(name), holder));
        self.write_at(slot, &line)
    }

    /// The highest token of all claims.
    pub(super) fn highest_token(&self) -> Result<FencingToken, FileError> {
        let mut highest = FencingToken::new(0);
        self.for_each(|_, claim| {
            if let Some(holder) = claim.holder() {
                highest = highest.max(holder.token());
            }
        })?;
        Ok(highest)
    }

    /// Returns the slot behind the last one.
    fn for_each(&self, mut each: impl FnMut(ClaimSlot, ClaimLine<'_>)) -> Result<ClaimSlot, FileError> {
        let mut buffer = vec![0; CLAIMS_AT_ONCE as usize * CLAIM_LEN];
        for first in (0..CLAIMS_MAX).step_by(CLAIMS_AT_ONCE as usize) {
            let mut next = first;
            for claim in self.read_at(&mut buffer, first)?.chunks(CLAIM_LEN) {
                each(next, ClaimLine::on(claim));
                next += 1;
            }
            if next < first + CLAIMS_AT_ONCE {
                return Ok(next);
            }
        }
        Ok(CLAIMS_MAX)
    }

    /// How many slots there are. Not all of the last may have been written.
    fn count(&self) -> Result<u32, FileError> {
        let slots = self.record.len()?.saturating_sub(self.start).div_ceil(CLAIM_LEN as u64);
        Ok(u32::try_from(slots).map_or(CLAIMS_MAX, |slots| slots.min(CLAIMS_MAX)))
    }

    fn validity(&self) -> Validity {
        Validity::at(self.now, self.last_claim)
    }

    fn offset(&self, slot: ClaimSlot) -> u64 {
        self.start + u64::from(slot) * CLAIM_LEN as u64
    }

    fn read_at<'b>(&self, buffer: &'b mut [u8], slot: ClaimSlot) -> Result<&'b [u8], FileError> {
        self.record.read_at(buffer, self.offset(slot))
    }

    fn write_at(&self, slot: ClaimSlot, line: &[u8; CLAIM_LEN]) -> Result<(), FileError> {
        self.record.write_at(line, self.offset(slot))
    }
}
