//! The second block of a record: who holds the lease, and which tokens were given.

use std::fmt::Write;

use super::sealed_block::{SealedBlock, clipped, escaped, parse_stamp, unsealed};
use crate::lease::holder::Holder;
use crate::lease::token::FencingToken;
use crate::store::file::life_file::LifeId;

/// The state, in bytes: one sector of a disk.
pub(in crate::store::file) const STATE_LEN: usize = 512;

/// More of a host's name than this is not kept. Linux has 64 bytes.
const HOST_MAX: usize = 128;

/// The state of a mutex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store::file) struct RecordState {
    /// The token of the last grant.
    pub(in crate::store::file) last: FencingToken,
    /// The token of the last grant that had a claim. A claim with a higher one was written, but never granted.
    pub(in crate::store::file) last_claim: FencingToken,
    pub(in crate::store::file) lease: LeaseState,
}

/// What is on record about the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store::file) enum LeaseState {
    Free,
    Held {
        holder: Holder,
        bond: LeaseEnd,
    },
    /// It was lost when the state was torn. As long as somebody has any life file locked, that may be the holder.
    Unknown,
}

/// What a lease that nobody gives back ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::file) enum LeaseEnd {
    /// Its term or its holder's life, whichever is over first.
    TermOrLife(LifeId),
    /// The life alone of its holder and of whoever inherited its lifeline.
    Life(LifeId),
    /// Its term alone, because it was released to end then.
    Term,
}

/// What stands behind the life file of a lease that outlasts the line `until`. A reader that does not know it takes the
/// state for torn, and so the lease for held while that file is locked.
const BEYOND: &str = " beyond until";

impl RecordState {
    /// What is known of a torn state, when `highest` is the highest token of a claim: each claim counts as granted.
    pub(in crate::store::file) fn lost(highest: FencingToken) -> Self {
        Self { last: highest, last_claim: highest, lease: LeaseState::Unknown }
    }

    pub(in crate::store::file) fn write_into(&self, bytes: &mut [u8; STATE_LEN]) {
        let mut block = SealedBlock::new(bytes);
        block.text("last ").number(self.last.get()).text("\nclaims ").number(self.last_claim.get()).text("\nlease ");
        match &self.lease {
            LeaseState::Free => block.text("free\n"),
            LeaseState::Unknown => block.text("unknown\n"),
            LeaseState::Held { holder, bond } => {
                block.text("held\ntoken ").number(holder.token().get());
                let _ = write!(block, "\nowner {}", holder.owner());
                block.text("\nhost ").text(clipped(&escaped(holder.host()), HOST_MAX));
                // The pid stands in the owner too; its line is for people.
                block.text("\npid ").number(holder.pid());
                block.text("\nsince ").time(holder.since()).text("\nuntil ").time(holder.until());
                block.text("\nlife ");
                match bond {
                    LeaseEnd::TermOrLife(life) => life.write_to(&mut block).text("\n"),
                    LeaseEnd::Life(life) => life.write_to(&mut block).text(BEYOND).text("\n"),
                    LeaseEnd::Term => block.text("ended\n"),
                };
                // An earlier version reads no further than to the line before.
                match holder.process_group() {
                    Some(group) => block.text("group ").number(group).text("\n"),
                    None => &mut block,
                }
            }
        };
        block.seal(b'\n');
    }

    /// `None`: the block is torn.
    pub(in crate::store::file) fn from_block(block: &[u8]) -> Option<Self> {
        let mut lines = unsealed(block)?.lines();
        let mut next = |word: &str| lines.next()?.strip_prefix(word)?.strip_prefix(' ');
        let token = |text: &str| text.parse().ok().map(FencingToken::new);
        let (last, last_claim) = (token(next("last")?)?, token(next("claims")?)?);
        let lease = match next("lease")? {
            "free" => LeaseState::Free,
            "unknown" => LeaseState::Unknown,
            "held" => {
                let (token, owner) = (token(next("token")?)?, next("owner")?.parse().ok()?);
                let (host, _pid) = (next("host")?, next("pid")?);
                let (since, until) = (parse_stamp(next("since")?)?, parse_stamp(next("until")?)?);
                let bond = match next("life")? {
                    "ended" => LeaseEnd::Term,
                    life => match life.strip_suffix(BEYOND) {
                        Some(life) => LeaseEnd::Life(LifeId::parse(life)?),
                        None => LeaseEnd::TermOrLife(LifeId::parse(life)?),
                    },
                };
                let holder = Holder::new(owner, token, host, since, until);
                let group = next("group").and_then(|group| group.parse().ok());
                let holder = group.map_or(holder.clone(), |group| holder.with_process_group(group));
                LeaseState::Held { holder, bond }
            }
            _ => return None,
        };
        Some(Self { last, last_claim, lease })
    }
}

impl LifeId {
    fn write_to<'b, 'a>(self, block: &'b mut SealedBlock<'a>) -> &'b mut SealedBlock<'a> {
        block.number(self.generation).text(" inode ").number(self.inode)
    }

    fn parse(text: &str) -> Option<Self> {
        let (generation, inode) = text.split_once(" inode ")?;
        Some(Self { generation: generation.parse().ok()?, inode: inode.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    fn block_of(state: &RecordState) -> [u8; STATE_LEN] {
        let mut block = [0; STATE_LEN];
        state.write_into(&mut block);
        block
    }

    fn longest() -> RecordState {
        let owner = format!("{}-{}-{}", "f".repeat(32), u32::MAX, u64::MAX).parse().unwrap();
        let (token, end) = (FencingToken::new(u64::MAX), DateTime::from_timestamp_nanos(i64::MAX));
        let holder = Holder::new(owner, token, "h".repeat(HOST_MAX), end, end).with_process_group(u32::MAX);
        let bond = LeaseEnd::Life(LifeId { generation: u32::MAX, inode: u64::MAX });
        RecordState { last: token, last_claim: token, lease: LeaseState::Held { holder, bond } }
    }

    #[test]
    fn a_state_is_read_back_also_when_all_its_fields_are_as_long_as_they_can_be() {
        let LeaseState::Held { holder, bond: LeaseEnd::Life(life) } = longest().lease else {
            unreachable!("it is held")
        };
        let held = |bond| LeaseState::Held { holder: holder.clone(), bond };
        let others = [LeaseState::Free, held(LeaseEnd::Term), held(LeaseEnd::TermOrLife(life))];
        let others = others.map(|lease| RecordState { lease, ..longest() });
        for state in [longest(), RecordState::lost(FencingToken::new(0))].into_iter().chain(others) {
            assert_eq!(RecordState::from_block(&block_of(&state)), Some(state));
        }
    }

    #[test]
    fn a_state_that_is_cut_or_changed_anywhere_is_not_read() {
        let whole = block_of(&longest());
        for len in 0..whole.len() {
            assert_eq!(RecordState::from_block(&whole[..len]), None, "{len}");
            let mut flipped = whole;
            flipped[len] ^= 0x11;
            assert_eq!(RecordState::from_block(&flipped), None, "{len}");
        }
    }
}
