//! One claim on record: a line of fixed length, the hash that it is found by, and whether it counts.

use std::ops::Range;

use chrono::{DateTime, Utc};

use super::sealed_block::{clipped, escaped, parse_stamp, stamp, stamp_or_none, unescaped, unsealed, write_sealed};
use crate::lease::holder::{Holder, host_and_reason};
use crate::lease::{name::MutexName, token::FencingToken};
use crate::store::file::paths::hashed;

/// One claim, in bytes.
pub(super) const CLAIM_LEN: usize = 384;

/// `claim HASH token TOKEN until TIME since TIME owner OWNER by OCCURRENCE host HOST for OCCURRENCE EVENT`. The first occurrence
/// is that of the holder, or `-`. A permit has its period for the second. A token has 20 digits, so that texts compare as their tokens do.
const HASH: Range<usize> = 6..38;
const TOKEN: Range<usize> = 45..65;
const UNTIL: Range<usize> = 72..102;

/// As long as a host's name can be, and with a reason behind it; what is left of the line says what is claimed.
const HOST_MAX: usize = 64;
const HOST_AND_REASON_MAX: usize = 160;

/// Where a reason has a space, so that its end can be told from what is behind it.
const SPACE_IN_A_REASON: char = '\u{a0}';

/// The hash of a claim's full name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimHash([u8; 32]);

impl ClaimHash {
    pub(super) fn of(name: &MutexName) -> Self {
        let mut hex = [0; 32];
        hashed(&name.to_string()).as_simple().encode_lower(&mut hex);
        Self(hex)
    }

    fn hex(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Two numbers that tell most hashes apart.
    pub(super) fn prints(self) -> [u32; 2] {
        [0..8, 8..16]
            .map(|digits| u32::from_str_radix(self.hex().get(digits).unwrap_or_default(), 16).unwrap_or_default())
    }
}

/// One claim on record, still as text: its columns are compared without reading the rest.
#[derive(Clone, Copy)]
pub(super) struct ClaimLine<'a>(&'a [u8]);

impl<'a> ClaimLine<'a> {
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

    fn column(self, columns: Range<usize>) -> &'a [u8] {
        self.0.get(columns).unwrap_or_default()
    }

    pub(super) fn has_hash(self, hash: ClaimHash) -> bool {
        self.column(HASH) == hash.0
    }

    /// The hash that it has, if it is whole.
    pub(super) fn hash(self) -> Option<ClaimHash> {
        if self.0.starts_with(b"claim ") { self.column(HASH).try_into().ok().map(ClaimHash) } else { None }
    }

    /// Who claimed; `None`: the slot is empty or torn.
    pub(super) fn holder(self) -> Option<Holder> {
        let text = unsealed(self.0)?.strip_prefix("claim ")?;
        let (_hash, text) = text.split_once(" token ")?;
        let (token, text) = text.split_once(" until ")?;
        let (until, text) = text.split_once(" since ")?;
        let (since, text) = text.split_once(" owner ")?;
        let (owner, text) = text.split_once(" by ")?;
        let (occurrence, text) = text.split_once(" host ")?;
        let (host, _label) = text.split_once(" for ")?;
        let token = FencingToken::new(token.parse().ok()?);
        let host = unescaped(host).unwrap_or_else(|| host.to_owned()).replace(SPACE_IN_A_REASON, " ");
        let holder = Holder::new(owner.parse().ok()?, token, host, parse_stamp(since)?, parse_stamp(until)?);
        Some(holder.with_occurrence(parse_stamp(occurrence)))
    }
}

/// The line of the claim `name`, which has this `hash`.
pub(super) fn claim_line(name: &MutexName, hash: ClaimHash, holder: &Holder) -> [u8; CLAIM_LEN] {
    let what = match name.occurrence() {
        Some(occurrence) => format!("{occurrence:?}"),
        None => escaped(name.period().or(name.marked()).unwrap_or_default()),
    };
    let host = match holder.reason() {
        None => escaped(holder.host()),
        reason => {
            escaped(&host_and_reason(holder.host(), reason).replace(' ', SPACE_IN_A_REASON.encode_utf8(&mut [0; 2])))
        }
    };
    let room = if holder.reason().is_none() { HOST_MAX } else { HOST_AND_REASON_MAX };
    let text = format!(
        "claim {} token {:020} until {} since {} owner {} by {} host {} for {what} {}",
        hash.hex(),
        holder.token().get(),
        stamp(holder.until()),
        stamp(holder.since()),
        holder.owner(),
        stamp_or_none(holder.occurrence()),
        clipped(&host, room),
        escaped(name.event().unwrap_or_default()),
    );
    let mut line = [0; CLAIM_LEN];
    write_sealed(&mut line, &text, b' ');
    line
}

/// Tells the claims that count: they were granted, and their terms are not over.
pub(super) struct Validity {
    last_claim: String,
    now: String,
}

impl Validity {
    /// At this time, when the last claim that was granted has the token `last_claim`.
    pub(super) fn at(now: DateTime<Utc>, last_claim: FencingToken) -> Self {
        Self { last_claim: format!("{:020}", last_claim.get()), now: stamp(now) }
    }

    /// Whether it was written by a grant that did not come to its end. True as well of much that is not a claim.
    pub(super) fn is_ungranted(&self, claim: ClaimLine<'_>) -> bool {
        claim.column(TOKEN) > self.last_claim.as_bytes()
    }

    /// Whether its term is not over, should it be whole.
    pub(super) fn is_in_term(&self, claim: ClaimLine<'_>) -> bool {
        claim.column(UNTIL) > self.now.as_bytes()
    }

    pub(super) fn is_valid(&self, claim: ClaimLine<'_>) -> bool {
        !self.is_ungranted(claim) && self.is_in_term(claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::owner::Owner;

    fn holder(host: &str) -> Holder {
        let since = DateTime::from_timestamp_nanos(1_772_366_400_000_000_001);
        Holder::new(Owner::unique(), FencingToken::new(u64::MAX), host, since, DateTime::<chrono::Utc>::MAX_UTC)
    }

    #[test]
    fn a_claim_is_read_back_and_says_in_words_what_is_claimed() {
        let noon = DateTime::from_timestamp(1_772_366_400, 0).unwrap();
        let name = MutexName::lease("warehouse").unwrap().claim("import\nall", noon);
        let holder = holder("web-1").held_until(noon);
        let line = claim_line(&name, ClaimHash::of(&name), &holder);
        let claim = ClaimLine::on(&line);
        assert_eq!(claim.holder(), Some(holder));
        assert!(claim.has_hash(ClaimHash::of(&name)));
        let valid_at = |now, last_claim| Validity::at(now, FencingToken::new(last_claim)).is_valid(claim);
        let before_noon = noon - chrono::TimeDelta::nanoseconds(1);
        assert!(valid_at(before_noon, u64::MAX));
        assert!(!valid_at(before_noon, u64::MAX - 1));
        assert!(!valid_at(noon, u64::MAX));
        assert!(str::from_utf8(&line).unwrap().contains(" host web-1 for 2026-03-01T12:00:00Z import%0Aall  "));
    }

    #[test]
    fn a_claim_whose_text_is_too_long_keeps_all_but_the_end_of_the_event() {
        let name = MutexName::lease("a").unwrap().claim("😀".repeat(512), DateTime::UNIX_EPOCH);
        let long = holder(&"h".repeat(300));
        let line = claim_line(&name, ClaimHash::of(&name), &long);
        assert_eq!(ClaimLine::on(&line).holder().map(|read| read.owner()), Some(long.owner()));
    }

    #[test]
    fn a_permit_says_in_words_which_period_it_is_for_however_long_that_is() {
        let warehouse = MutexName::lease("warehouse").unwrap();
        let day = warehouse.permit("import", "day@2026-03-01T00:00:00+01:00");
        let line = claim_line(&day, ClaimHash::of(&day), &holder("web-1"));
        assert!(str::from_utf8(&line).unwrap().contains(" host web-1 for day@2026-03-01T00:00:00+01:00 import  "));
        let long = holder(&"h".repeat(300));
        let [one, other] =
            ['a', 'b'].map(|last| warehouse.permit("\n".repeat(512), "\u{85}".repeat(127) + &last.to_string()));
        let line = claim_line(&one, ClaimHash::of(&one), &long);
        let claim = ClaimLine::on(&line);
        assert_eq!(claim.holder().map(|read| read.owner()), Some(long.owner()));
        assert!(claim.has_hash(ClaimHash::of(&one)) && !claim.has_hash(ClaimHash::of(&other)));
    }

    #[test]
    fn an_empty_slot_is_nobodys() {
        assert_eq!(ClaimLine::on(&ClaimLine::FREE).holder(), None);
        assert_eq!(ClaimLine::on(&[0; CLAIM_LEN]).holder(), None);
        assert_eq!(ClaimLine::on(&[]).holder(), None);
    }
}
