//! The index of a record with many claims: a table beside it that says which slot a claim is in.
//!
//! The record says all that the table says. The table is valid only while its head names the token of the last claim that
//! was granted, and names none while it is being changed. Otherwise it is made anew from the record: after a process was
//! killed, after a claim was granted by a process that could not open the table, after the file was deleted, or if it has
//! another format. An entry may be out of date, because whoever gives a claim back changes the record alone. So a slot is
//! looked at before the entry is believed.

use super::claim_line::ClaimHash;
use crate::lease::token::FencingToken;
use crate::store::file::open_file::OpenFile;

/// The format, with which every index begins.
const MAGIC: &[u8; 16] = b"soloist-index v1";

/// A bucket and its checksum, in bytes: one sector of a disk. The first sector is the head.
const BUCKET_LEN: usize = 512;
const ENTRY_LEN: usize = 8;
const ENTRIES: usize = BUCKET_LEN / ENTRY_LEN - 1;

/// How many claims come to a bucket of a new table, at most. There is room for four times as many before one is full.
const CLAIMS_IN_A_NEW_BUCKET: usize = 16;

/// An entry without a slot.
const EMPTY: u64 = 0;

type Sector = [u8; BUCKET_LEN];

/// A table that is valid, or being changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimIndex {
    /// A power of two.
    buckets: u32,
    /// The slot from which to look for room next.
    pub(super) next_slot: u32,
}

impl ClaimIndex {
    /// The table in `file`, if it is valid for a record whose last claim has this token.
    pub(super) fn read(file: &OpenFile, last_claim: FencingToken) -> Option<Self> {
        let head = read_sector(file, 0).filter(|head| head.starts_with(MAGIC))?;
        let (valid_for, buckets) = (number_at(&head, 16), u32::try_from(number_at(&head, 24)).ok()?);
        let is_valid = valid_for != 0 && valid_for == last_claim.get() && buckets.is_power_of_two();
        let next_slot = u32::try_from(number_at(&head, 32)).ok()?;
        is_valid.then_some(Self { buckets, next_slot })
    }

    /// Writes the table anew, for these claims and their slots. `None`: it does not fit, or can't be written.
    pub(super) fn build(
        file: &OpenFile,
        claims: &[(ClaimHash, u32)],
        next_slot: u32,
        last_claim: FencingToken,
    ) -> Option<Self> {
        let buckets = claims.len().div_ceil(CLAIMS_IN_A_NEW_BUCKET).next_power_of_two();
        let mut table = vec![[0; BUCKET_LEN]; buckets];
        let index = Self { buckets: u32::try_from(buckets).ok()?, next_slot };
        for (hash, slot) in claims {
            replace(&mut table[index.bucket_of(*hash) as usize], EMPTY, entry_of(*hash, *slot))?;
        }
        table.iter_mut().for_each(seal);
        let written = index.invalidate(file)
            && file.write_at(table.as_flattened(), BUCKET_LEN as u64).is_ok()
            && index.validate(file, last_claim);
        written.then_some(index)
    }

    /// The slots that this claim may be in. `None`: not all of the table was written.
    pub(super) fn slots_of(self, file: &OpenFile, hash: ClaimHash) -> Option<Vec<u32>> {
        let bucket = read_sector(file, self.offset_of(hash))?;
        Some(entries(&bucket).filter_map(|entry| slot_of(entry, hash)).collect())
    }

    /// Notes that a claim is in `slot`, where `gone` was before. `None`: there was no room, or not all of the table was
    /// written. The table must not be valid meanwhile.
    pub(super) fn enter(self, file: &OpenFile, gone: Option<ClaimHash>, hash: ClaimHash, slot: u32) -> Option<()> {
        if let Some(gone) = gone {
            let mut bucket = read_sector(file, self.offset_of(gone))?;
            if replace(&mut bucket, entry_of(gone, slot), EMPTY).is_some() {
                write_sector(file, self.offset_of(gone), bucket).then_some(())?;
            }
        }
        let mut bucket = read_sector(file, self.offset_of(hash))?;
        replace(&mut bucket, EMPTY, entry_of(hash, slot))?;
        write_sector(file, self.offset_of(hash), bucket).then_some(())
    }

    /// Says that the table is not valid for any record. `false`: it can't be written.
    pub(super) fn invalidate(self, file: &OpenFile) -> bool {
        self.validate(file, FencingToken::new(0))
    }

    /// Says that the table is valid for a record whose last claim has this token. `false`: it can't be written.
    pub(super) fn validate(self, file: &OpenFile, last_claim: FencingToken) -> bool {
        let mut head = [0; BUCKET_LEN];
        head[..16].copy_from_slice(MAGIC);
        for (at, number) in [(16, last_claim.get()), (24, self.buckets.into()), (32, self.next_slot.into())] {
            head[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        write_sector(file, 0, head)
    }

    fn bucket_of(self, hash: ClaimHash) -> u32 {
        hash.prints()[0] & (self.buckets - 1)
    }

    fn offset_of(self, hash: ClaimHash) -> u64 {
        (u64::from(self.bucket_of(hash)) + 1) * BUCKET_LEN as u64
    }
}

/// An entry holds the number of its slot, counted from one, and the second print of the claim's hash.
fn entry_of(hash: ClaimHash, slot: u32) -> u64 {
    (u64::from(hash.prints()[1]) << 32) | (u64::from(slot) + 1)
}

fn slot_of(entry: u64, hash: ClaimHash) -> Option<u32> {
    let slot = u32::try_from(entry & u64::from(u32::MAX)).ok()?.checked_sub(1)?;
    (entry == entry_of(hash, slot)).then_some(slot)
}

fn entries(bucket: &Sector) -> impl Iterator<Item = u64> {
    (0..ENTRIES).map(|at| number_at(bucket, at * ENTRY_LEN))
}

/// `None`: `old` is not there, or there is no room.
fn replace(bucket: &mut Sector, old: u64, new: u64) -> Option<()> {
    let at = entries(bucket).position(|entry| entry == old)?;
    bucket[at * ENTRY_LEN..][..ENTRY_LEN].copy_from_slice(&new.to_le_bytes());
    Some(())
}

fn number_at(bytes: &Sector, at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(EMPTY, |number| u64::from_le_bytes(*number))
}

fn read_sector(file: &OpenFile, offset: u64) -> Option<Sector> {
    let mut sector = [0; BUCKET_LEN];
    let is_whole = file.read_at(&mut sector, offset).ok()?.len() == BUCKET_LEN;
    let (bytes, checksum) = sector.split_last_chunk()?;
    (is_whole && *checksum == crc32fast::hash(bytes).to_le_bytes()).then_some(sector)
}

fn write_sector(file: &OpenFile, offset: u64, mut sector: Sector) -> bool {
    seal(&mut sector);
    file.write_at(&sector, offset).is_ok()
}

fn seal(sector: &mut Sector) {
    let (bytes, checksum) = sector.split_at_mut(BUCKET_LEN - 4);
    checksum.copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
}
