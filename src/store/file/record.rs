//! What stands in a record, and where: the name, then the state, then the claims.
//!
//! Each is a sealed block of text of its own, so that a person can read the file and a reader can tell a torn block
//! from a whole one.

use std::fmt::Write;

use uuid::Uuid;

use super::text::{Block, clipped, escaped, parse_stamp, unsealed};
use crate::lease::holder::Holder;
use crate::lease::name::MutexName;
use crate::lease::token::FencingToken;

/// How every record begins. Another version of the format has another number here.
const MAGIC: &str = "soloist-mutex 1\n";

/// Blocks that hold a name are a multiple of this long.
pub(super) const NAME_GRAIN: usize = 256;

/// The state, in bytes: one sector of a disk.
pub(super) const STATE_LEN: usize = 512;

/// One claim, in bytes.
pub(super) const CLAIM_LEN: usize = 384;

/// The longest name block there is, and the state behind it. An escaped name has at most six bytes a character.
pub(super) const HEADER_MAX: usize =
    (MAGIC.len() + "name \n".len() + MutexName::MAX_CHARS * 6 + Block::FRAME).next_multiple_of(NAME_GRAIN) + STATE_LEN;

/// More of a host's name than this is not kept. Linux has 64 bytes.
const HOST_MAX: usize = 128;

/// The first block: the format and the full name, written once.
pub(super) fn name_block(name: &str) -> Vec<u8> {
    let name = escaped(name);
    let text = MAGIC.len() + "name \n".len() + name.len();
    let mut bytes = vec![0; (text + Block::FRAME).next_multiple_of(NAME_GRAIN)];
    let mut block = Block::new(&mut bytes);
    let _ = writeln!(block, "{MAGIC}name {name}");
    block.seal(b'\n');
    bytes
}

/// What the beginning of a file says about whose it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Front<'a> {
    /// The record of the name that was expected.
    Ours,
    /// Our name block, or the space for it, of which not all was written.
    Torn,
    /// The whole record of this other name.
    Another(&'a str),
    /// Not a record, or one of another version.
    Foreign,
}

/// Judges what was read of the first [`HEADER_MAX`] bytes of a file whose name block should be `expected`.
pub(super) fn front<'a>(header: &'a [u8], expected: &[u8]) -> Front<'a> {
    if header.starts_with(expected) {
        return Front::Ours;
    }
    let begun = &header[..header.len().min(MAGIC.len())];
    if !MAGIC.as_bytes().starts_with(begun) {
        return if header.iter().all(|byte| *byte == 0) { Front::Torn } else { Front::Foreign };
    }
    let whole = (NAME_GRAIN..=header.len()).step_by(NAME_GRAIN).find_map(|len| unsealed(&header[..len]));
    let name = whole.and_then(|text| text.strip_prefix(MAGIC)?.strip_prefix("name ")?.lines().next());
    name.map_or(Front::Torn, Front::Another)
}

/// The second block: who holds the lease, and the tokens that were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
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
        bond: Bond,
    },
    /// It was lost when the state was torn. As long as somebody has any life file locked, that may be the holder.
    Unknown,
}

/// What a lease that nobody gives back ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bond {
    /// Its term or its holder's life, whichever is over first.
    TermAndLife(LifeId),
    /// The life alone of its holder and of whoever inherited its lifeline.
    Life(LifeId),
    /// Its term alone, because it was released to end then.
    Term,
}

/// Which life file a holder has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LifeId {
    /// Which of the mutex's life files it is by name.
    pub(super) generation: u32,
    /// Which file it is, also after another one took its name; zero where the system does not tell.
    pub(super) inode: u64,
}

/// What stands behind the life file of a lease that outlasts the line `until`. A reader that does not know it takes the
/// state for torn, and so the lease for held while that file is locked.
const BEYOND: &str = " beyond until";

impl State {
    /// What is known of a torn state, when `highest` is the highest token of a claim: each claim counts as granted.
    pub(super) fn lost(highest: FencingToken) -> Self {
        Self { last: highest, last_claim: highest, lease: LeaseState::Unknown }
    }

    pub(super) fn write_into(&self, bytes: &mut [u8; STATE_LEN]) {
        let mut block = Block::new(bytes);
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
                    Bond::TermAndLife(life) => life.write_to(&mut block).text("\n"),
                    Bond::Life(life) => life.write_to(&mut block).text(BEYOND).text("\n"),
                    Bond::Term => block.text("ended\n"),
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
                let bond = match next("life")? {
                    "ended" => Bond::Term,
                    life => match life.strip_suffix(BEYOND) {
                        Some(life) => Bond::Life(LifeId::parse(life)?),
                        None => Bond::TermAndLife(LifeId::parse(life)?),
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
    fn write_to<'b, 'a>(self, block: &'b mut Block<'a>) -> &'b mut Block<'a> {
        block.number(self.generation).text(" inode ").number(self.inode)
    }

    fn parse(text: &str) -> Option<Self> {
        let (generation, inode) = text.split_once(" inode ")?;
        Some(Self { generation: generation.parse().ok()?, inode: inode.parse().ok()? })
    }
}

/// What a claim is found by: a hash of its full name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimKey([u8; 32]);

impl ClaimKey {
    pub(super) fn of(name: &MutexName) -> Self {
        let mut hex = [0; 32];
        hashed(&name.to_string()).as_simple().encode_lower(&mut hex);
        Self(hex)
    }

    /// Two numbers that tell most keys apart.
    pub(super) fn prints(self) -> [u32; 2] {
        let print = |digits: &[u8]| {
            digits.iter().fold(0, |print, digit| print << 4 | char::from(*digit).to_digit(16).unwrap_or_default())
        };
        [print(&self.0[..8]), print(&self.0[8..16])]
    }
}

/// The hash of a name, in files' names and claims' keys.
pub(super) fn hashed(name: &str) -> Uuid {
    const NAMESPACE: Uuid = Uuid::from_u128(0x2f4a_9f0e_8f0b_4b0c_9a57_0e7a_6f3d_51c8);
    Uuid::new_v5(&NAMESPACE, name.as_bytes())
}

/// One claim on record, still as text: its columns are compared without reading the rest.
#[derive(Clone, Copy)]
pub(super) struct Claim<'a>(&'a [u8]);

/// `claim KEY token TOKEN until TIME since TIME owner OWNER host HOST for OCCURRENCE EVENT`, on one line; a permit has its
/// period for the occurrence.
const KEY: std::ops::Range<usize> = 6..38;
const TOKEN: std::ops::Range<usize> = 45..65;
const UNTIL: std::ops::Range<usize> = 72..102;

impl<'a> Claim<'a> {
    /// What is written where a claim was given back.
    pub(super) const FREE: [u8; CLAIM_LEN] = {
        let mut bytes = [b' '; CLAIM_LEN];
        bytes.split_at_mut(4).0.copy_from_slice(b"free");
        bytes[CLAIM_LEN - 1] = b'\n';
        bytes
    };

    pub(super) fn on(slot: &'a [u8]) -> Self {
        Self(slot)
    }

    fn column(self, columns: std::ops::Range<usize>) -> &'a [u8] {
        self.0.get(columns).unwrap_or_default()
    }

    pub(super) fn has_key(self, key: ClaimKey) -> bool {
        self.column(KEY) == key.0
    }

    /// The key that it has, if it is whole.
    pub(super) fn key(self) -> Option<ClaimKey> {
        if self.0.starts_with(b"claim ") { self.column(KEY).try_into().ok().map(ClaimKey) } else { None }
    }

    /// Whether it was written by a grant that did not come to its end, if the last that did has this token, as
    /// [`token_text`] writes it. True as well of much that is not a claim.
    pub(super) fn is_above(self, last_claim: &str) -> bool {
        self.column(TOKEN) > last_claim.as_bytes()
    }

    /// Whether it is still good, should it be whole, at a time as [`stamp`] writes it.
    pub(super) fn seems_live(self, now: &[u8]) -> bool {
        self.column(UNTIL) > now
    }

    /// Who claimed; `None`: the slot is empty or torn.
    pub(super) fn holder(self) -> Option<Holder> {
        let text = unsealed(self.0)?.strip_prefix("claim ")?;
        let (_key, text) = text.split_once(" token ")?;
        let (token, text) = text.split_once(" until ")?;
        let (until, text) = text.split_once(" since ")?;
        let (since, text) = text.split_once(" owner ")?;
        let (owner, text) = text.split_once(" host ")?;
        let (host, _label) = text.split_once(" for ")?;
        let token = FencingToken::new(token.parse().ok()?);
        Some(Holder::new(owner.parse().ok()?, token, host, parse_stamp(since)?, parse_stamp(until)?))
    }
}

/// The slot of the claim `name`, which has this `key`.
pub(super) fn claim_block(name: &MutexName, key: ClaimKey, holder: &Holder) -> [u8; CLAIM_LEN] {
    /// As long as a host's name can be; what is left of the line says what is claimed.
    const HOST_MAX: usize = 64;
    let mut bytes = [0; CLAIM_LEN];
    let mut block = Block::new(&mut bytes);
    block.text("claim ").text(str::from_utf8(&key.0).unwrap_or_default());
    block.text(" token ").wide_number(holder.token().get());
    block.text(" until ").time(holder.until()).text(" since ").time(holder.since());
    let _ = write!(block, " owner {}", holder.owner());
    block.text(" host ").text(clipped(&escaped(holder.host()), HOST_MAX)).text(" for ");
    match (name.occurrence(), name.period().or(name.marked())) {
        (Some(occurrence), _) => {
            let _ = write!(block, "{occurrence:?}");
        }
        (None, text) => {
            block.text(&escaped(text.unwrap_or_default()));
        }
    }
    block.text(" ").text(&escaped(name.event().unwrap_or_default()));
    block.seal(b' ');
    bytes
}

/// A token of one width, so that texts compare as their tokens do.
pub(super) fn token_text(token: FencingToken) -> String {
    format!("{:020}", token.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::owner::Owner;
    use crate::store::file::text::stamp;
    use chrono::DateTime;

    fn holder(host: &str) -> Holder {
        let since = DateTime::from_timestamp_nanos(1_772_366_400_000_000_001);
        Holder::new(Owner::unique(), FencingToken::new(u64::MAX), host, since, DateTime::<chrono::Utc>::MAX_UTC)
    }

    fn block_of(state: &State) -> [u8; STATE_LEN] {
        let mut block = [0; STATE_LEN];
        state.write_into(&mut block);
        block
    }

    fn longest() -> State {
        let owner = format!("{}-{}-{}", "f".repeat(32), u32::MAX, u64::MAX).parse().unwrap();
        let (token, end) = (FencingToken::new(u64::MAX), DateTime::from_timestamp_nanos(i64::MAX));
        let holder = Holder::new(owner, token, "h".repeat(HOST_MAX), end, end).with_process_group(u32::MAX);
        let bond = Bond::Life(LifeId { generation: u32::MAX, inode: u64::MAX });
        State { last: token, last_claim: token, lease: LeaseState::Held { holder, bond } }
    }

    #[test]
    fn a_state_is_read_back_also_when_all_its_fields_are_as_long_as_they_can_be() {
        let LeaseState::Held { holder, bond: Bond::Life(life) } = longest().lease else { unreachable!("it is held") };
        let held = |bond| LeaseState::Held { holder: holder.clone(), bond };
        let others = [LeaseState::Free, held(Bond::Term), held(Bond::TermAndLife(life))];
        let others = others.map(|lease| State { lease, ..longest() });
        for state in [longest(), State::lost(FencingToken::new(0))].into_iter().chain(others) {
            assert_eq!(State::from_block(&block_of(&state)), Some(state));
        }
    }

    #[test]
    fn a_state_that_is_cut_or_changed_anywhere_is_not_read() {
        let whole = block_of(&longest());
        for len in 0..whole.len() {
            assert_eq!(State::from_block(&whole[..len]), None, "{len}");
            let mut flipped = whole;
            flipped[len] ^= 0x11;
            assert_eq!(State::from_block(&flipped), None, "{len}");
        }
    }

    #[test]
    fn a_claim_is_read_back_and_says_in_words_what_is_claimed() {
        let noon = DateTime::from_timestamp(1_772_366_400, 0).unwrap();
        let name = MutexName::lease("warehouse").unwrap().claim("import\nall", noon);
        let holder = holder("web-1").held_until(noon);
        let block = claim_block(&name, ClaimKey::of(&name), &holder);
        let claim = Claim::on(&block);
        assert_eq!(claim.holder(), Some(holder));
        assert!(claim.has_key(ClaimKey::of(&name)));
        assert!(!claim.is_above(&token_text(FencingToken::new(u64::MAX))));
        assert!(claim.is_above(&token_text(FencingToken::new(u64::MAX - 1))));
        assert!(!claim.seems_live(&stamp(noon)));
        assert!(claim.seems_live(&stamp(noon - chrono::TimeDelta::nanoseconds(1))));
        assert!(str::from_utf8(&block).unwrap().contains(" host web-1 for 2026-03-01T12:00:00Z import%0Aall  "));
    }

    #[test]
    fn a_claim_whose_text_is_too_long_keeps_all_but_the_end_of_the_event() {
        let name = MutexName::lease("a").unwrap().claim("😀".repeat(512), DateTime::UNIX_EPOCH);
        let long = holder(&"h".repeat(300));
        let block = claim_block(&name, ClaimKey::of(&name), &long);
        assert_eq!(Claim::on(&block).holder().map(|read| read.owner()), Some(long.owner()));
    }

    #[test]
    fn a_permit_says_in_words_which_period_it_is_for_however_long_that_is() {
        let warehouse = MutexName::lease("warehouse").unwrap();
        let day = warehouse.permit("import", "day@2026-03-01T00:00:00+01:00");
        let block = claim_block(&day, ClaimKey::of(&day), &holder("web-1"));
        assert!(str::from_utf8(&block).unwrap().contains(" host web-1 for day@2026-03-01T00:00:00+01:00 import  "));
        let long = holder(&"h".repeat(300));
        let [one, other] =
            ['a', 'b'].map(|last| warehouse.permit("\n".repeat(512), "\u{85}".repeat(127) + &last.to_string()));
        let block = claim_block(&one, ClaimKey::of(&one), &long);
        let claim = Claim::on(&block);
        assert_eq!(claim.holder().map(|read| read.owner()), Some(long.owner()));
        assert!(claim.has_key(ClaimKey::of(&one)) && !claim.has_key(ClaimKey::of(&other)));
    }

    #[test]
    fn an_empty_slot_is_nobodys() {
        assert_eq!(Claim::on(&Claim::FREE).holder(), None);
        assert_eq!(Claim::on(&[0; CLAIM_LEN]).holder(), None);
        assert_eq!(Claim::on(&[]).holder(), None);
    }

    #[test]
    fn the_front_of_a_file_tells_whose_it_is() {
        let ours = name_block("reports");
        let long = name_block(&"\u{85}".repeat(512));
        assert!(long.len() + STATE_LEN <= HEADER_MAX);
        assert_eq!(front(&ours, &ours), Front::Ours);
        assert_eq!(front(&long, &ours), Front::Another(&"%C2%85".repeat(512)));
        assert_eq!(front(&ours, &long), Front::Another("reports"));
        for len in 0..ours.len() {
            assert_eq!(front(&ours[..len], &ours), Front::Torn, "{len}");
        }
        assert_eq!(front(&[0; 768], &ours), Front::Torn);
        assert_eq!(front(b"root:x:0:0", &ours), Front::Foreign);
        assert_eq!(front(b"soloist-mutex 2\nname reports\n", &ours), Front::Foreign);
        let zeros_first = [&[0; 700][..], b"an image of a disk"].concat();
        assert_eq!(front(&zeros_first, &ours), Front::Foreign);
    }
}
