//! Which slot each claim of a record is in: a table beside a record of many claims, so that a decision reads few of them.
//!
//! All that the table says is in the record too. It counts only while its stamp is the token of the last claim that was
//! granted, and it has no stamp while it is being changed. Otherwise it is made anew from the record: after a process was
//! killed, after an earlier version, which knows of no table, has granted a claim, or after the file was deleted. An
//! entry may be out of date, because whoever gives a claim back changes the record alone. So a slot is looked at before
//! the entry is believed.

use std::fs::File;
use std::io;

use super::claim_line::ClaimHash;
use crate::lease::token::FencingToken;
use crate::store::file::position;

const MAGIC: &[u8; 16] = b"soloist-index 1\n";

/// A bucket and its seal, in bytes: one sector of a disk. The first sector is the head.
const BUCKET_LEN: usize = 512;
const ENTRY_LEN: usize = 8;
const ENTRIES: usize = BUCKET_LEN / ENTRY_LEN - 1;

/// How many claims come to a bucket of a new table, at most. There is room for four times as many before one is full.
const CLAIMS_IN_A_NEW_BUCKET: usize = 16;

/// What stands in a slot, as far as the table knows.
const EMPTY: u64 = 0;

/// A table that counts.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::file) struct ClaimIndex {
    /// A power of two.
    buckets: u32,
    /// Where to look for room next.
    pub(in crate::store::file) hand: u32,
}

impl ClaimIndex {
    /// The table in `file`, if it counts for a record whose last claim has this token.
    pub(in crate::store::file) fn read(file: &File, last_claim: FencingToken) -> io::Result<Option<Self>> {
        let mut head = [0; BUCKET_LEN];
        if position::read(file, &mut head, 0)? < head.len() || !is_sealed(&head) || !head.starts_with(MAGIC) {
            return Ok(None);
        }
        let (stamp, buckets, hand) = (number_at(&head, 16), number_at(&head, 24), number_at(&head, 32));
        let index = (u32::try_from(buckets), u32::try_from(hand));
        Ok(match index {
            (Ok(buckets), Ok(hand)) if buckets.is_power_of_two() && stamp != 0 && stamp == last_claim.get() => {
                Some(Self { buckets, hand })
            }
            _ => None,
        })
    }

    /// Writes the table anew. `claims`: what is on record, and in which slot.
    pub(in crate::store::file) fn build(
        file: &File,
        claims: &[(ClaimHash, u32)],
        hand: u32,
        stamp: FencingToken,
    ) -> io::Result<Self> {
        let buckets = claims.len().div_ceil(CLAIMS_IN_A_NEW_BUCKET).next_power_of_two();
        let mut table = vec![[0; BUCKET_LEN]; buckets];
        let index = Self { buckets: u32::try_from(buckets).map_err(io::Error::other)?, hand };
        let (at, mut fits) = (|key: ClaimHash| index.bucket_of(key) as usize, true);
        for (key, slot) in claims {
            fits &= enter(&mut table[at(*key)], *key, *slot);
        }
        if !fits {
            return Err(io::Error::other("a bucket of the table is full"));
        }
        table.iter_mut().for_each(seal);
        index.unstamp(file)?;
        position::write(file, table.as_flattened(), BUCKET_LEN as u64)?;
        index.stamp(file, stamp)?;
        Ok(index)
    }

    /// The slots that `key` may be in. `None`: not all of the table was written.
    pub(in crate::store::file) fn slots_of(self, file: &File, key: ClaimHash) -> io::Result<Option<Vec<u32>>> {
        let found = |bucket: [u8; BUCKET_LEN]| entries(&bucket).filter_map(|entry| slot_of(entry, key)).collect();
        Ok(self.bucket(file, key)?.map(found))
    }

    /// Notes that `key` is in `slot`, where `gone` was before. `false`: there was no room, or not all of the table was
    /// written. It has to have no stamp meanwhile.
    pub(in crate::store::file) fn enter(
        self,
        file: &File,
        gone: Option<ClaimHash>,
        key: ClaimHash,
        slot: u32,
    ) -> io::Result<bool> {
        if let Some(gone) = gone {
            let Some(mut bucket) = self.bucket(file, gone)? else { return Ok(false) };
            if clear(&mut bucket, gone, slot) {
                self.write(file, gone, bucket)?;
            }
        }
        let Some(mut bucket) = self.bucket(file, key)? else { return Ok(false) };
        if !enter(&mut bucket, key, slot) {
            return Ok(false);
        }
        self.write(file, key, bucket).map(|()| true)
    }

    /// From now on it does not count.
    pub(in crate::store::file) fn unstamp(self, file: &File) -> io::Result<()> {
        self.stamp(file, FencingToken::new(0))
    }

    /// From now on it counts for a record whose last claim has this token.
    pub(in crate::store::file) fn stamp(self, file: &File, last_claim: FencingToken) -> io::Result<()> {
        let mut head = [0; BUCKET_LEN];
        head[..16].copy_from_slice(MAGIC);
        for (at, number) in [(16, last_claim.get()), (24, self.buckets.into()), (32, self.hand.into())] {
            head[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        seal(&mut head);
        position::write(file, &head, 0)
    }

    fn bucket_of(self, key: ClaimHash) -> u32 {
        key.prints()[0] & (self.buckets - 1)
    }

    fn bucket(self, file: &File, key: ClaimHash) -> io::Result<Option<[u8; BUCKET_LEN]>> {
        let mut bucket = [0; BUCKET_LEN];
        let len = position::read(file, &mut bucket, self.offset_of(key))?;
        Ok((len == BUCKET_LEN && is_sealed(&bucket)).then_some(bucket))
    }

    fn write(self, file: &File, key: ClaimHash, mut bucket: [u8; BUCKET_LEN]) -> io::Result<()> {
        seal(&mut bucket);
        position::write(file, &bucket, self.offset_of(key))
    }

    fn offset_of(self, key: ClaimHash) -> u64 {
        (u64::from(self.bucket_of(key)) + 1) * BUCKET_LEN as u64
    }
}

/// An entry says which slot it is, counted from one, and what else is known of the key.
fn entry_of(key: ClaimHash, slot: u32) -> u64 {
    (u64::from(key.prints()[1]) << 32) | (u64::from(slot) + 1)
}

fn slot_of(entry: u64, key: ClaimHash) -> Option<u32> {
    let [_, print] = key.prints();
    let slot = u32::try_from(entry & u64::from(u32::MAX)).ok()?.checked_sub(1)?;
    (entry >> 32 == u64::from(print)).then_some(slot)
}

fn entries(bucket: &[u8; BUCKET_LEN]) -> impl Iterator<Item = u64> {
    (0..ENTRIES).map(|at| number_at(bucket, at * ENTRY_LEN))
}

/// `false`: the bucket is full.
fn enter(bucket: &mut [u8; BUCKET_LEN], key: ClaimHash, slot: u32) -> bool {
    put_in_place_of(bucket, EMPTY, entry_of(key, slot))
}

/// `false`: it was not there.
fn clear(bucket: &mut [u8; BUCKET_LEN], key: ClaimHash, slot: u32) -> bool {
    put_in_place_of(bucket, entry_of(key, slot), EMPTY)
}

fn put_in_place_of(bucket: &mut [u8; BUCKET_LEN], old: u64, new: u64) -> bool {
    let Some(at) = entries(bucket).position(|entry| entry == old) else { return false };
    bucket[at * ENTRY_LEN..][..ENTRY_LEN].copy_from_slice(&new.to_le_bytes());
    true
}

fn number_at(bytes: &[u8; BUCKET_LEN], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(EMPTY, |number| u64::from_le_bytes(*number))
}

fn seal(sector: &mut [u8; BUCKET_LEN]) {
    let (text, seal) = sector.split_at_mut(BUCKET_LEN - 4);
    seal.copy_from_slice(&crc32fast::hash(text).to_le_bytes());
}

fn is_sealed(sector: &[u8; BUCKET_LEN]) -> bool {
    let (text, seal) = sector.split_at(BUCKET_LEN - 4);
    *seal == crc32fast::hash(text).to_le_bytes()
}
