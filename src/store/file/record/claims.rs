//! The claims of a record: slots behind its state, in no order, each of which is used again when its claim has expired.
//!
//! Few claims are read one after another. Of more, an [`ClaimIndex`] says where one stands, and where there may be room.

use std::fs::File;

use chrono::{DateTime, Utc};

use super::claim_index::ClaimIndex;
use super::claim_line::{CLAIM_LEN, ClaimHash, ClaimLine, claim_block, token_text};
use super::sealed_block::stamp;
use super::state::STATE_LEN;
use crate::lease::holder::Holder;
use crate::lease::name::MutexName;
use crate::lease::token::FencingToken;
use crate::store::file::error::FileError;
use crate::store::file::paths::MutexPaths;
use crate::store::file::position;

/// How many claims are read at once, and how many a record has before it gets an index.
const CLAIMS_AT_ONCE: u32 = 64;

/// How many claims a record may have.
const CLAIMS_MAX: u32 = 1 << 17;

/// How many slots are looked at for one that has room. They are filled in turn, so that what comes next is the oldest.
const SWEEP: u32 = 16;

/// The claims of a locked record.
pub(in crate::store::file) struct Claims<'a> {
    file: &'a File,
    paths: &'a MutexPaths,
    /// That of the index, once it was opened.
    index: &'a mut Option<File>,
}

/// Where a claim stands among the claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::file) struct Slot(u32);

/// What a look for one claim has found out.
pub(in crate::store::file) struct Search {
    pub(in crate::store::file) taken: Option<(Holder, Slot)>,
    pub(in crate::store::file) room: Room,
}

/// Where another claim can be written.
#[derive(Clone, Copy)]
pub(in crate::store::file) enum Room {
    At(Slot),
    /// Where this index says.
    Indexed(ClaimIndex),
}

/// A claim that was written, and will be granted with the state.
pub(in crate::store::file) struct WrittenClaim {
    slot: Slot,
    /// It has the claim, but no stamp.
    index: Option<ClaimIndex>,
}

/// What makes a claim on record count.
struct Validity {
    last_claim: String,
    time: [u8; 30],
}

impl<'a> Claims<'a> {
    pub(in crate::store::file) fn of(file: &'a File, paths: &'a MutexPaths, index: &'a mut Option<File>) -> Self {
        Self { file, paths, index }
    }

    /// Looks for the claim `name`. Claims with a token above `last_claim` were written, but never granted.
    pub(in crate::store::file) fn find(
        &mut self,
        name: &MutexName,
        last_claim: FencingToken,
        now: DateTime<Utc>,
    ) -> Result<Search, FileError> {
        let key = ClaimHash::of(name);
        let count = self.count()?;
        let now = Validity { last_claim: token_text(last_claim), time: stamp(now) };
        let index = if count > CLAIMS_AT_ONCE { self.index(last_claim, &now)? } else { None };
        if let Some(index) = index
            && let Some(slots) = self.index.as_ref().and_then(|file| index.slots_of(file, key).ok().flatten())
        {
            let taken = self.find_in(&slots, key, &now)?;
            if taken.is_some() || count < CLAIMS_MAX {
                return Ok(Search { taken, room: Room::Indexed(index) });
            }
        }
        self.find_among_all(key, &now)
    }

    fn find_in(&self, slots: &[u32], key: ClaimHash, now: &Validity) -> Result<Option<(Holder, Slot)>, FileError> {
        let mut buffer = [0; CLAIM_LEN];
        for slot in slots {
            let claim = ClaimLine::on(self.read_at(&mut buffer, Slot(*slot))?);
            if claim.has_key(key)
                && now.counts(claim)
                && let Some(holder) = claim.holder()
            {
                return Ok(Some((holder, Slot(*slot))));
            }
        }
        Ok(None)
    }

    fn find_among_all(&self, key: ClaimHash, now: &Validity) -> Result<Search, FileError> {
        let (mut taken, mut ungranted, mut empty) = (None, None, None);
        let end = self.for_each(|slot, claim| {
            if now.is_ungranted(claim) {
                ungranted.get_or_insert(slot);
            } else if !now.is_live(claim) {
                empty.get_or_insert(slot);
            } else if claim.has_key(key)
                && let Some(holder) = claim.holder()
            {
                taken = Some((holder, slot));
            }
        })?;
        // A claim that was written but not granted is overwritten by the next one, before a higher token in the state
        // could make it look granted. So there is never more than one.
        let room = ungranted.or(empty).unwrap_or(end);
        if taken.is_none() && room.0 >= CLAIMS_MAX {
            return Err(FileError::unusable(
                self.paths.record(),
                format!("it has {CLAIMS_MAX} claims that are still good"),
            ));
        }
        Ok(Search { taken, room: Room::At(room) })
    }

    /// An index that counts, made anew if need be. `None`: it can't be had, and the claims are read one after another.
    fn index(&mut self, last_claim: FencingToken, now: &Validity) -> Result<Option<ClaimIndex>, FileError> {
        if self.index.is_none() {
            *self.index = self.paths.open_or_make(&self.paths.index()).ok().map(|opened| opened.file);
        }
        let Some(file) = self.index.as_ref() else { return Ok(None) };
        match ClaimIndex::read(file, last_claim) {
            Ok(None) => self.build_index(file, last_claim, now),
            read => Ok(read.ok().flatten()),
        }
    }

    fn build_index(
        &self,
        file: &File,
        last_claim: FencingToken,
        now: &Validity,
    ) -> Result<Option<ClaimIndex>, FileError> {
        let (mut claims, mut ungranted, mut room) = (Vec::new(), Vec::new(), None);
        self.for_each(|slot, claim| {
            if now.is_ungranted(claim) {
                ungranted.push(slot);
                return;
            }
            if !now.is_live(claim) {
                room.get_or_insert(slot);
            }
            // Should the clock be set back, what has expired is live again.
            claims.extend(claim.key().map(|key| (key, slot.0)));
        })?;
        // The next grant will not meet it, and its token must not make it look granted.
        ungranted.iter().try_for_each(|slot| self.free(*slot))?;
        Ok(ClaimIndex::build(file, &claims, room.unwrap_or(Slot(0)).0, last_claim).ok())
    }

    /// Writes a claim that was not found, for the grant that `last_claim` will be followed by.
    pub(in crate::store::file) fn write(
        &mut self,
        room: Room,
        name: &MutexName,
        holder: &Holder,
        last_claim: FencingToken,
        now: DateTime<Utc>,
    ) -> Result<WrittenClaim, FileError> {
        let key = ClaimHash::of(name);
        let block = claim_block(name, key, holder);
        let mut index = match room {
            Room::At(slot) => return self.write_at(slot, &block).map(|()| WrittenClaim { slot, index: None }),
            Room::Indexed(index) => index,
        };
        let (slot, gone) =
            self.sweep(&mut index, &Validity { last_claim: token_text(last_claim), time: stamp(now) })?;
        let unstamped = self.index.as_ref().filter(|file| index.unstamp(file).is_ok());
        self.write_at(slot, &block)?;
        let entered = unstamped.is_some_and(|file| matches!(index.enter(file, gone, key, slot.0), Ok(true)));
        Ok(WrittenClaim { slot, index: entered.then_some(index) })
    }

    /// A slot with room, from the hand of the index on or at the end, and what stood there before.
    fn sweep(&self, index: &mut ClaimIndex, now: &Validity) -> Result<(Slot, Option<ClaimHash>), FileError> {
        let count = self.count()?;
        let first = if index.hand < count { index.hand } else { 0 };
        let mut buffer = [0; SWEEP as usize * CLAIM_LEN];
        let claims = self.read_at(&mut buffer, Slot(first))?.chunks(CLAIM_LEN).map(ClaimLine::on);
        for (slot, claim) in (first..).zip(claims) {
            if !now.counts(claim) {
                index.hand = slot + 1;
                return Ok((Slot(slot), claim.key()));
            }
        }
        // The slot that is added is the newest, and is not looked at before the others were.
        index.hand = if first + SWEEP < count { first + SWEEP } else { 0 };
        Ok((Slot(count), None))
    }

    /// What was written is granted now, with this token.
    pub(in crate::store::file) fn granted(&self, written: &WrittenClaim, token: FencingToken) {
        if let (Some(index), Some(file)) = (written.index, self.index.as_ref()) {
            // Without a stamp it is made anew.
            let _ = index.stamp(file, token);
        }
    }

    /// What was written was not granted.
    pub(in crate::store::file) fn take_back(&self, written: &WrittenClaim) {
        // Should this fail, its token says so.
        let _ = self.free(written.slot);
    }

    pub(in crate::store::file) fn rewrite(
        &self,
        slot: Slot,
        name: &MutexName,
        holder: &Holder,
    ) -> Result<(), FileError> {
        self.write_at(slot, &claim_block(name, ClaimHash::of(name), holder))
    }

    pub(in crate::store::file) fn free(&self, slot: Slot) -> Result<(), FileError> {
        self.write_at(slot, &ClaimLine::FREE)
    }

    /// The highest token of all claims.
    pub(in crate::store::file) fn highest_token(&self) -> Result<FencingToken, FileError> {
        let mut highest = FencingToken::new(0);
        self.for_each(|_, claim| {
            if let Some(holder) = claim.holder() {
                highest = highest.max(holder.token());
            }
        })?;
        Ok(highest)
    }

    /// The slot behind the last one.
    fn for_each(&self, mut each: impl FnMut(Slot, ClaimLine<'_>)) -> Result<Slot, FileError> {
        let mut buffer = vec![0; CLAIMS_AT_ONCE as usize * CLAIM_LEN];
        for first in (0..CLAIMS_MAX).step_by(CLAIMS_AT_ONCE as usize) {
            let claims = self.read_at(&mut buffer, Slot(first))?;
            let mut next = first;
            for claim in claims.chunks(CLAIM_LEN) {
                each(Slot(next), ClaimLine::on(claim));
                next += 1;
            }
            if next < first + CLAIMS_AT_ONCE {
                return Ok(Slot(next));
            }
        }
        Ok(Slot(CLAIMS_MAX))
    }

    /// How many slots there are. Not all of the last may have been written.
    fn count(&self) -> Result<u32, FileError> {
        let len = position::len(self.file).map_err(FileError::at(self.paths.record()))?;
        let slots = len.saturating_sub(self.offset(Slot(0))).div_ceil(CLAIM_LEN as u64);
        Ok(u32::try_from(slots).map_or(CLAIMS_MAX, |slots| slots.min(CLAIMS_MAX)))
    }

    fn offset(&self, slot: Slot) -> u64 {
        (self.paths.name_block().len() + STATE_LEN) as u64 + u64::from(slot.0) * CLAIM_LEN as u64
    }

    fn read_at<'b>(&self, buffer: &'b mut [u8], slot: Slot) -> Result<&'b [u8], FileError> {
        let len = position::read(self.file, buffer, self.offset(slot)).map_err(FileError::at(self.paths.record()))?;
        Ok(&buffer[..len])
    }

    fn write_at(&self, slot: Slot, block: &[u8; CLAIM_LEN]) -> Result<(), FileError> {
        position::write(self.file, block, self.offset(slot)).map_err(FileError::at(self.paths.record()))
    }
}

impl Validity {
    fn is_ungranted(&self, claim: ClaimLine<'_>) -> bool {
        claim.is_above(&self.last_claim)
    }

    fn is_live(&self, claim: ClaimLine<'_>) -> bool {
        claim.seems_live(&self.time)
    }

    fn counts(&self, claim: ClaimLine<'_>) -> bool {
        !self.is_ungranted(claim) && self.is_live(claim)
    }
}
