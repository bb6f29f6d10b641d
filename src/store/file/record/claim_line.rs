//! One claim on record, on one line of fixed length, and the hash that it is found by.

use std::fmt::Write;

use super::sealed_block::{SealedBlock, clipped, escaped, parse_stamp, unsealed};
use crate::lease::holder::Holder;
use crate::lease::name::MutexName;
use crate::lease::token::FencingToken;
use crate::store::file::paths::hashed;

/// One claim, in bytes.
pub(in crate::store::file) const CLAIM_LEN: usize = 384;

/// What a claim is found by: a hash of its full name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::file) struct ClaimHash([u8; 32]);

impl ClaimHash {
    pub(in crate::store::file) fn of(name: &MutexName) -> Self {
        let mut hex = [0; 32];
        hashed(&name.to_string()).as_simple().encode_lower(&mut hex);
        Self(hex)
    }

    /// Two numbers that tell most keys apart.
    pub(in crate::store::file) fn prints(self) -> [u32; 2] {
        let print = |digits: &[u8]| {
            digits.iter().fold(0, |print, digit| print << 4 | char::from(*digit).to_digit(16).unwrap_or_default())
        };
        [print(&self.0[..8]), print(&self.0[8..16])]
    }
}

/// One claim on record, still as text: its columns are compared without reading the rest.
#[derive(Clone, Copy)]
pub(in crate::store::file) struct ClaimLine<'a>(&'a [u8]);

/// `claim KEY token TOKEN until TIME since TIME owner OWNER host HOST for OCCURRENCE EVENT`, on one line; a permit has its
/// period for the occurrence.
const KEY: std::ops::Range<usize> = 6..38;
const TOKEN: std::ops::Range<usize> = 45..65;
const UNTIL: std::ops::Range<usize> = 72..102;

impl<'a> ClaimLine<'a> {
    /// What is written where a claim was given back.
    pub(in crate::store::file) const FREE: [u8; CLAIM_LEN] = {
        let mut bytes = [b' '; CLAIM_LEN];
        bytes.split_at_mut(4).0.copy_from_slice(b"free");
        bytes[CLAIM_LEN - 1] = b'\n';
        bytes
    };

    pub(in crate::store::file) fn on(slot: &'a [u8]) -> Self {
        Self(slot)
    }

    fn column(self, columns: std::ops::Range<usize>) -> &'a [u8] {
        self.0.get(columns).unwrap_or_default()
    }

    pub(in crate::store::file) fn has_key(self, key: ClaimHash) -> bool {
        self.column(KEY) == key.0
    }

    /// The key that it has, if it is whole.
    pub(in crate::store::file) fn key(self) -> Option<ClaimHash> {
        if self.0.starts_with(b"claim ") { self.column(KEY).try_into().ok().map(ClaimHash) } else { None }
    }

    /// Whether it was written by a grant that did not come to its end, if the last that did has this token, as
    /// [`token_text`] writes it. True as well of much that is not a claim.
    pub(in crate::store::file) fn is_above(self, last_claim: &str) -> bool {
        self.column(TOKEN) > last_claim.as_bytes()
    }

    /// Whether it is still good, should it be whole, at a time as [`stamp`] writes it.
    pub(in crate::store::file) fn seems_live(self, now: &[u8]) -> bool {
        self.column(UNTIL) > now
    }

    /// Who claimed; `None`: the slot is empty or torn.
    pub(in crate::store::file) fn holder(self) -> Option<Holder> {
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
pub(in crate::store::file) fn claim_block(name: &MutexName, key: ClaimHash, holder: &Holder) -> [u8; CLAIM_LEN] {
    /// As long as a host's name can be; what is left of the line says what is claimed.
    const HOST_MAX: usize = 64;
    let mut bytes = [0; CLAIM_LEN];
    let mut block = SealedBlock::new(&mut bytes);
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
pub(in crate::store::file) fn token_text(token: FencingToken) -> String {
    format!("{:020}", token.get())
}

#[cfg(test)]
mod tests {
    use super::super::sealed_block::stamp;
    use super::*;
    use crate::lease::owner::Owner;
    use chrono::DateTime;

    fn holder(host: &str) -> Holder {
        let since = DateTime::from_timestamp_nanos(1_772_366_400_000_000_001);
        Holder::new(Owner::unique(), FencingToken::new(u64::MAX), host, since, DateTime::<chrono::Utc>::MAX_UTC)
    }

    #[test]
    fn a_claim_is_read_back_and_says_in_words_what_is_claimed() {
        let noon = DateTime::from_timestamp(1_772_366_400, 0).unwrap();
        let name = MutexName::lease("warehouse").unwrap().claim("import\nall", noon);
        let holder = holder("web-1").held_until(noon);
        let block = claim_block(&name, ClaimHash::of(&name), &holder);
        let claim = ClaimLine::on(&block);
        assert_eq!(claim.holder(), Some(holder));
        assert!(claim.has_key(ClaimHash::of(&name)));
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
        let block = claim_block(&name, ClaimHash::of(&name), &long);
        assert_eq!(ClaimLine::on(&block).holder().map(|read| read.owner()), Some(long.owner()));
    }

    #[test]
    fn a_permit_says_in_words_which_period_it_is_for_however_long_that_is() {
        let warehouse = MutexName::lease("warehouse").unwrap();
        let day = warehouse.permit("import", "day@2026-03-01T00:00:00+01:00");
        let block = claim_block(&day, ClaimHash::of(&day), &holder("web-1"));
        assert!(str::from_utf8(&block).unwrap().contains(" host web-1 for day@2026-03-01T00:00:00+01:00 import  "));
        let long = holder(&"h".repeat(300));
        let [one, other] =
            ['a', 'b'].map(|last| warehouse.permit("\n".repeat(512), "\u{85}".repeat(127) + &last.to_string()));
        let block = claim_block(&one, ClaimHash::of(&one), &long);
        let claim = ClaimLine::on(&block);
        assert_eq!(claim.holder().map(|read| read.owner()), Some(long.owner()));
        assert!(claim.has_key(ClaimHash::of(&one)) && !claim.has_key(ClaimHash::of(&other)));
    }

    #[test]
    fn an_empty_slot_is_nobodys() {
        assert_eq!(ClaimLine::on(&ClaimLine::FREE).holder(), None);
        assert_eq!(ClaimLine::on(&[0; CLAIM_LEN]).holder(), None);
        assert_eq!(ClaimLine::on(&[]).holder(), None);
    }
}
