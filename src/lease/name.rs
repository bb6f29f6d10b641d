//! The name of a mutex: a lease, a claim on an occurrence, a permit for a period, or a marker.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::iter;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use foldhash::fast::{FixedState, RandomState};

use super::token::FencingToken;
use crate::base::error::debug_as_display;
use crate::base::escape::steers_or_hides;

#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "only servers have keys"))]
pub(crate) mod text;

/// The name of one entry in a store. There are four kinds of names. `Display` writes a text that a store can use as the
/// key of the entry:
///
/// | entry | text |
/// | --- | --- |
/// | a lease | `lease/NAME` |
/// | a claim on an occurrence of an event | `claim/NAME/EVENT/OCCURRENCE` |
/// | a permit: a claim on a period | `permit/NAME/EVENT/PERIOD` |
/// | a marker: a small record for all processes that share the store | `mark/NAME/EVENT/MARK` |
///
/// In each part, `%` is written as `%25` and `/` as `%2F`, so that different names have different texts. Names are
/// compared byte by byte: nothing is trimmed, folded or normalised. Two entries of different kinds never have equal
/// names.
///
/// ```
/// use chrono::{TimeZone, Utc};
/// use soloist::MutexName;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let lease = MutexName::lease("reports")?;
/// assert_eq!(lease.to_string(), "lease/reports");
/// let noon = Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap();
/// assert_eq!(lease.claim("reports", noon).to_string(), "claim/reports/reports/2026-03-01T12:00:00Z");
/// let permit = lease.permit("reports", "day@2026-03-01");
/// assert_eq!(permit.to_string(), "permit/reports/reports/day@2026-03-01");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MutexName(Arc<Name>);

/// A map by name. The hashes of the standard library would take a tenth of a tick in memory.
pub(crate) type NameMap<V> = HashMap<MutexName, V, RandomState>;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    mutex: Arc<str>,
    /// `None` if the entry is a lease.
    claim: Option<ClaimPart>,
    /// The hash of the other fields. It is kept, because a tick looks up each name several times.
    hash: u64,
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// The part of a name that only claims, permits and markers have.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ClaimPart {
    event: Arc<str>,
    claimed: Claimed,
}

/// The occurrence or the period of a claim, or the text of a marker.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Claimed {
    Occurrence(DateTime<Utc>),
    Period(Arc<str>),
    Mark(Arc<str>),
}

const SLOT: &str = "slot ";

/// The [reason](super::request::LeaseRequest::because) in an operator's request to stop a run.
pub(crate) const UNLOCK: &str = "unlock";

impl MutexName {
    /// The largest number of characters in a name: 512, which are at most 2,048 bytes.
    pub const MAX_CHARS: usize = 512;

    /// Makes the name of a lease. Any text of 1 to [`MAX_CHARS`](Self::MAX_CHARS) characters is a name.
    ///
    /// # Errors
    ///
    /// The name is empty or too long.
    ///
    /// ```
    /// use soloist::MutexName;
    ///
    /// assert!(MutexName::lease("db:backup").is_ok());
    /// assert!(MutexName::lease("").is_err());
    /// ```
    pub fn lease(name: impl Into<Arc<str>>) -> Result<Self, InvalidName> {
        Self::lease_up_to(name.into(), Self::MAX_CHARS)
    }

    /// Makes the name of a lease. The name has at most `limit` characters.
    fn lease_up_to(mutex: Arc<str>, limit: usize) -> Result<Self, InvalidName> {
        match mutex.chars().count() {
            0 => Err(InvalidName::because("is empty")),
            chars if chars > limit => {
                Err(InvalidName::because(format_args!("has {chars} characters, the limit is {limit}")))
            }
            _ => Ok(Self::new(mutex, None)),
        }
    }

    /// Makes the name of a lease. People read this name in reports and logs: it is, for example, the name of an event.
    /// The name must not have control characters or invisible characters, or a space at its beginning or end.
    pub(crate) fn readable(name: impl Into<Arc<str>>) -> Result<Self, InvalidName> {
        Self::readable_up_to(name, Self::MAX_CHARS)
    }

    /// Makes a [`readable`](Self::readable) name of at most `limit` characters.
    pub(crate) fn readable_up_to(name: impl Into<Arc<str>>, limit: usize) -> Result<Self, InvalidName> {
        let name = name.into();
        if let Some(char) = name.chars().find(|char| steers_or_hides(*char)) {
            let char = char.escape_debug();
            return Err(InvalidName::because(format_args!(
                "has the control or invisible character `{char}`: leave it out"
            )));
        }
        if name.trim() != &*name {
            return Err(InvalidName::because("begins or ends with a space: leave it out"));
        }
        Self::lease_up_to(name, limit)
    }

    /// Makes the name of the claim on one occurrence of `event`, under this mutex. Events that share a mutex have
    /// separate claims.
    ///
    /// ```
    /// use chrono::{TimeZone, Utc};
    /// use soloist::MutexName;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let shared = MutexName::lease("warehouse")?;
    /// let noon = Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap();
    /// assert_ne!(shared.claim("import", noon), shared.claim("export", noon));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "this returns another name; the original does not change"]
    pub fn claim(&self, event: impl Into<Arc<str>>, occurrence: DateTime<Utc>) -> Self {
        self.with(event, Claimed::Occurrence(occurrence))
    }

    /// Makes the name of the permit for one period of `event`, under this mutex. Any text can identify the period. The
    /// texts that a schedule uses have at most 128 characters.
    ///
    /// ```
    /// use soloist::MutexName;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let name = MutexName::lease("reports")?;
    /// let [first, second] = ["+02:00", "+01:00"].map(|offset| format!("hour@2026-10-25T02{offset}"));
    /// assert_ne!(name.permit("reports", first), name.permit("reports", second));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "this returns another name; the original does not change"]
    pub fn permit(&self, event: impl Into<Arc<str>>, period: impl Into<Arc<str>>) -> Self {
        self.with(event, Claimed::Period(period.into()))
    }

    /// Makes the name of a marker for `event`, under this mutex. A schedule records a fact in its store by a marker,
    /// for example that the event is paused. Two markers of one event are equal if their texts are equal.
    ///
    /// ```
    /// use soloist::MutexName;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mark = MutexName::lease("reports")?.mark("reports", "seen");
    /// assert!(!mark.is_lease());
    /// assert_eq!(mark.to_string(), "mark/reports/reports/seen");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "this returns another name; the original does not change"]
    pub fn mark(&self, event: impl Into<Arc<str>>, mark: impl Into<Arc<str>>) -> Self {
        self.with(event, Claimed::Mark(mark.into()))
    }

    fn new(mutex: Arc<str>, claim: Option<ClaimPart>) -> Self {
        let hash = FixedState::default().hash_one((&mutex, &claim));
        Self(Arc::new(Name { mutex, claim, hash }))
    }

    fn with(&self, event: impl Into<Arc<str>>, claimed: Claimed) -> Self {
        Self::new(Arc::clone(&self.0.mutex), Some(ClaimPart { event: event.into(), claimed }))
    }

    /// Returns the names of the `count` slots of an event. Each run of the event holds one slot. Slot 0 is the lease,
    /// and the other slots are markers.
    pub(crate) fn slots(&self, count: usize) -> Vec<Self> {
        let others = (1..count).map(|number| self.mark(self.mutex(), format!("{SLOT}{number}")));
        iter::once(self.clone()).chain(others).collect()
    }

    /// Returns the number of the slot, from 0, or `None` if the name is no slot.
    pub(crate) fn slot_number(&self) -> Option<usize> {
        if self.is_lease() { Some(0) } else { self.marked()?.strip_prefix(SLOT)?.parse().ok() }
    }

    /// Makes the name of the marker that asks the run with this token to stop. The marker is set by a run that waits
    /// for the lease, or by an operator who frees the lease. The next run has another token, so the marker never stops
    /// the next run.
    pub(crate) fn request_to_stop(&self, token: FencingToken) -> Self {
        self.mark(self.mutex(), format!("cancel {token}"))
    }

    /// Returns the name of the mutex, which a lease shares with its claims, permits and markers.
    pub fn mutex(&self) -> &str {
        &self.0.mutex
    }

    /// Returns whether the entry is a lease, and not a claim, a permit or a marker.
    pub fn is_lease(&self) -> bool {
        self.0.claim.is_none()
    }

    /// Returns the event of a claim, a permit or a marker; `None` for a lease.
    pub fn event(&self) -> Option<&str> {
        self.0.claim.as_ref().map(|claim| &*claim.event)
    }

    /// Returns the occurrence of a claim; `None` for any other entry.
    pub fn occurrence(&self) -> Option<DateTime<Utc>> {
        if let Claimed::Occurrence(occurrence) = self.0.claim.as_ref()?.claimed { Some(occurrence) } else { None }
    }

    /// Returns the period of a permit; `None` for any other entry.
    pub fn period(&self) -> Option<&str> {
        if let Claimed::Period(period) = &self.0.claim.as_ref()?.claimed { Some(period) } else { None }
    }

    /// Returns the text of a marker; `None` for any other entry.
    pub fn marked(&self) -> Option<&str> {
        if let Claimed::Mark(mark) = &self.0.claim.as_ref()?.claimed { Some(mark) } else { None }
    }
}

/// Serializes the text of the name.
#[cfg(feature = "serde")]
impl serde::Serialize for MutexName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for MutexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MutexName({:?})", self.to_string())
    }
}

/// The error for a text that can't be the name of a mutex, an event, a schedule or an instance.
///
/// `Display` says which name is wrong, and why, and how to correct it.
///
/// ```
/// use soloist::MutexName;
///
/// assert_eq!(MutexName::lease("").unwrap_err().to_string(), "the name is empty");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject} {fault}")]
pub struct InvalidName {
    subject: &'static str,
    fault: Box<str>,
}

impl InvalidName {
    fn because(fault: impl fmt::Display) -> Self {
        Self { subject: "the name", fault: fault.to_string().into() }
    }

    /// Returns the error with `subject` instead of "the name" at the beginning of its message.
    pub(crate) fn of(self, subject: &'static str) -> Self {
        Self { subject, ..self }
    }
}

debug_as_display!(InvalidName);

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(name: &str) -> MutexName {
        MutexName::lease(name).unwrap()
    }

    #[test]
    fn a_name_is_the_same_whatever_it_was_made_from() {
        let (lease, noon) = (lease("a"), DateTime::from_timestamp(1_772_366_400, 0).unwrap());
        for other in [lease.mark("e", "x"), lease.claim("e", noon), lease.permit("e", "day")] {
            assert_eq!(other.mark("b", "c"), lease.mark("b", "c"));
            assert_eq!(other.claim("b", noon), lease.claim("b", noon));
            assert_eq!(other.permit("b", "c"), lease.permit("b", "c"));
        }
    }

    #[test]
    fn a_name_has_1_to_512_characters_of_any_width() {
        assert!(MutexName::lease("x").is_ok());
        assert!(MutexName::lease("😀".repeat(512)).is_ok());
        assert_eq!(MutexName::lease("").unwrap_err().to_string(), "the name is empty");
        let error = MutexName::lease("😀".repeat(513)).unwrap_err();
        assert_eq!(error.to_string(), "the name has 513 characters, the limit is 512");
    }
}
