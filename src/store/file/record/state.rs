//! The state of a mutex, the second block of its record: who holds the lease, and which tokens were given.

use std::fmt::{self, Write};

use super::sealed_block::{clipped, escaped, parse_stamp, stamp, stamp_or_none, unsealed, write_sealed};
use crate::lease::{holder::Holder, token::FencingToken};
use crate::store::file::life_file::LifeId;

/// The state, in bytes: one sector of a disk.
pub(super) const STATE_LEN: usize = 512;

/// More of a host's name than this is not kept. Linux has 64 bytes.
const HOST_MAX: usize = 128;

/// The state of a mutex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordState {
    /// The token of the last grant.
    pub(super) last: FencingToken,
    /// The token of the last grant that had a claim. A claim with a higher one was written, but never granted.
    pub(super) last_claim: FencingToken,
    pub(super) lease: LeaseState,
}

/// What is on record about the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeaseState {
    Free,
    Held {
        holder: Holder,
        end: LeaseEnd,
    },
    /// It was lost when the state was torn. As long as somebody has any life file locked, that may be the holder.
    Unknown,
}

/// When a lease ends that nobody gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseEnd {
    /// With its term or with its holder's life, whichever is over first.
    TermOrLife(LifeId),
    /// With the life alone of its holder and of whoever inherited its lifeline.
    Life(LifeId),
    /// With its term alone, because it was released to end then.
    Term,
}

/// What stands behind the life file of a lease that outlasts the line `until`.
const BEYOND: &str = " beyond until";

impl RecordState {
    pub(super) fn to_block(&self) -> [u8; STATE_LEN] {
        let mut text = String::with_capacity(STATE_LEN);
        let _ = write!(text, "last {}\nclaims {}\nlease ", self.last, self.last_claim);
        match &self.lease {
            LeaseState::Free => text += "free\n",
            LeaseState::Unknown => text += "unknown\n",
            LeaseState::Held { holder, end } => {
                // The pid stands in the owner too; its line is for people.
                let (token, owner, pid) = (holder.token(), holder.owner(), holder.pid());
                let host = escaped(holder.host());
                let host = clipped(&host, HOST_MAX);
                let (since, until) = (stamp(holder.since()), stamp(holder.until()));
                let _ = write!(
                    text,
                    "held\ntoken {token}\nowner {owner}\nhost {host}\npid {pid}\nsince {since}\nuntil {until}\nlife {end}\n"
                );
                let _ = writeln!(text, "for {}", stamp_or_none(holder.occurrence()));
                if let Some(group) = holder.process_group() {
                    let _ = writeln!(text, "group {group}");
                }
            }
        }
        let mut block = [0; STATE_LEN];
        write_sealed(&mut block, &text, b'\n');
        block
    }

    /// `None`: the block is torn.
    pub(super) fn from_block(block: &[u8]) -> Option<Self> {
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
                let end = LeaseEnd::parse(next("life")?)?;
                let occurrence = parse_stamp(next("for")?);
                let mut holder = Holder::new(owner, token, host, since, until).with_occurrence(occurrence);
                if let Some(group) = next("group").and_then(|group| group.parse().ok()) {
                    holder = holder.with_process_group(group);
                }
                LeaseState::Held { holder, end }
            }
            _ => return None,
        };
        Some(Self { last, last_claim, lease })
    }
}

impl LeaseEnd {
    fn parse(text: &str) -> Option<Self> {
        if text == "ended" {
            return Some(Self::Term);
        }
        let life = text.strip_suffix(BEYOND);
        let (generation, inode) = life.unwrap_or(text).split_once(" inode ")?;
        let id = LifeId { generation: generation.parse().ok()?, inode: inode.parse().ok()? };
        Some(if life.is_some() { Self::Life(id) } else { Self::TermOrLife(id) })
    }
}

impl fmt::Display for LeaseEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TermOrLife(LifeId { generation, inode }) => write!(f, "{generation} inode {inode}"),
            Self::Life(LifeId { generation, inode }) => write!(f, "{generation} inode {inode}{BEYOND}"),
            Self::Term => f.write_str("ended"),
        }
    }
}

/// The state as it was last read or written. A block that nobody has changed since is not parsed again.
pub(super) struct KnownState {
    block: Option<[u8; STATE_LEN]>,
    pub(super) state: RecordState,
}

impl KnownState {
    pub(super) fn nothing() -> Self {
        Self::lost(FencingToken::new(0), LeaseState::Unknown)
    }

    /// What is known of a torn state, when `highest` is the highest token of a claim: each claim counts as granted.
    pub(super) fn lost(highest: FencingToken, lease: LeaseState) -> Self {
        Self { block: None, state: RecordState { last: highest, last_claim: highest, lease } }
    }

    pub(super) fn written(block: &[u8; STATE_LEN], state: RecordState) -> Self {
        Self { block: Some(*block), state }
    }

    /// Takes over the state in this block. `false`: it is torn.
    pub(super) fn read(&mut self, block: &[u8]) -> bool {
        if self.block.as_ref().is_some_and(|known| known == block) {
            return true;
        }
        let Some(state) = RecordState::from_block(block) else { return false };
        *self = Self { block: block.try_into().ok(), state };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    fn longest() -> RecordState {
        let owner = format!("{}-{}-{}", "f".repeat(32), u32::MAX, u64::MAX).parse().unwrap();
        let (token, last) = (FencingToken::new(u64::MAX), DateTime::from_timestamp_nanos(i64::MAX));
        let holder = Holder::new(owner, token, "h".repeat(HOST_MAX), last, last)
            .with_process_group(u32::MAX)
            .with_occurrence(last);
        let end = LeaseEnd::Life(LifeId { generation: u32::MAX, inode: u64::MAX });
        RecordState { last: token, last_claim: token, lease: LeaseState::Held { holder, end } }
    }

    #[test]
    fn a_state_is_read_back_also_when_all_its_fields_are_as_long_as_they_can_be() {
        let LeaseState::Held { holder, end: LeaseEnd::Life(life) } = longest().lease else {
            unreachable!("it is held")
        };
        let held = |end| LeaseState::Held { holder: holder.clone(), end };
        let others = [LeaseState::Free, LeaseState::Unknown, held(LeaseEnd::Term), held(LeaseEnd::TermOrLife(life))];
        let others = others.map(|lease| RecordState { lease, ..longest() });
        for state in [longest()].into_iter().chain(others) {
            assert_eq!(RecordState::from_block(&state.to_block()), Some(state));
        }
    }

    #[test]
    fn a_state_that_is_cut_or_changed_anywhere_is_not_read() {
        let whole = longest().to_block();
        for len in 0..whole.len() {
            assert_eq!(RecordState::from_block(&whole[..len]), None, "{len}");
            let mut flipped = whole;
            flipped[len] ^= 0x11;
            assert_eq!(RecordState::from_block(&flipped), None, "{len}");
        }
    }
}
