//! The rows of several names, and the server's time before they were read.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::row_key::row_key;
use super::session::{Session, TextRow, list, rows};
use crate::base::escape::Quoted;
use crate::lease::{holder::Holder, name::MutexName, owner::Owner, token::FencingToken};
use crate::store::event_mutex::held::Names;
use crate::store::server::engine::{Attempt, EndRequest, FoundEntry, ServerClock, instant};
use crate::store::server::{failure::Failure, server_url::ServerAddress};
use crate::time::clock::LITTLE_STEP;

/// The rows of several names, as read at one time.
pub(super) struct Snapshot {
    /// The server's clock before the rows were read.
    pub(super) clock: ServerClock,
    entries: HashMap<String, MutexRow>,
}

/// A row of the table.
#[derive(PartialEq, Eq)]
pub(super) struct MutexRow {
    owner: String,
    pub(super) token: FencingToken,
    host: String,
    since: i64,
    until: i64,
    /// Whether the name was released. A released name is free even before its end.
    is_released: bool,
    /// The term of the last grant or renewal, in microseconds.
    term: i64,
    occurrence: Option<i64>,
}

impl Snapshot {
    /// Reads the rows with these keys.
    pub(super) fn of_keys<S: Session>(
        attempt: &mut Attempt<S>,
        keys: impl IntoIterator<Item: Display>,
    ) -> Result<Self, Failure> {
        Self::take(attempt, &format!("name IN ({})", list(keys)))
    }

    /// Reads the rows that meet the condition `which`.
    pub(super) fn take<S: Session>(attempt: &mut Attempt<S>, which: &str) -> Result<Self, Failure> {
        let rows = rows(attempt, S::LOOK, &[("which", &which)])?;
        Self::read(&rows).ok_or_else(|| Failure::not_understood(rows, S::Address::KIND))
    }

    /// Reads the rows that the statement `LOOK` returns. Returns `None` if they make no sense.
    fn read(rows: &[TextRow]) -> Option<Self> {
        let mut now = None;
        let mut entries = HashMap::with_capacity(rows.len());
        for row in rows {
            if let [time] = &row[..] {
                now = Some(time.parse().ok()?);
                continue;
            }
            let [name, owner, token, host, since, until, released, term, occurrence] = &row[..] else { return None };
            let (is_released, term) = (released == "1", term.parse().ok()?);
            let owner = owner.clone();
            let host = host.clone();
            let token = FencingToken::new(token.parse().ok()?);
            let since = since.parse().ok()?;
            let until = until.parse().ok()?;
            let occurrence = occurrence.parse().ok();
            let entry = MutexRow { owner, token, host, since, until, is_released, term, occurrence };
            entries.insert(name.clone(), entry);
        }
        Some(Self { clock: ServerClock::read(now?), entries })
    }

    /// Returns the holder of a name, or `None` if the name is free.
    pub(super) fn holder(&self, name: &MutexName) -> Option<Result<Holder, Failure>> {
        Some(self.holds(&row_key(name))?.holder(name, self.clock.micros))
    }

    /// Returns the held names among `listed`, with their holders. Rows with cut keys are left out, because their names
    /// are not known.
    pub(super) fn listed(&self, listed: Names<'_>) -> Vec<FoundEntry> {
        let names =
            self.entries.keys().filter_map(|key| MutexName::read_key_text(key)).filter(|name| listed.contain(name));
        names.filter_map(|name| self.holder(&name).map(|holder| (name, holder))).collect()
    }

    pub(super) fn holds(&self, key: &str) -> Option<&MutexRow> {
        self.entries.get(key).filter(|entry| entry.is_held(self.clock.micros))
    }

    /// Returns the row of this name if this owner wrote it, even if the name is no longer held.
    pub(super) fn of_owner(&self, key: &str, owner: Owner) -> Option<&MutexRow> {
        self.entries.get(key).filter(|entry| entry.is_of(owner))
    }

    /// Returns whether this name is held, and its end is more than one term away. If so, the server's clock was set
    /// back after the last grant or renewal.
    pub(super) fn outlasts_its_term(&self, key: &str) -> bool {
        // The time `now` was read before the rows. If a lease was renewed in between, its end is a little more than one
        // term after `now`.
        let tolerance = i64::try_from(LITTLE_STEP.as_micros()).unwrap_or(i64::MAX);
        let longest = |entry: &MutexRow| self.clock.micros.saturating_add(entry.term).saturating_add(tolerance);
        self.holds(key).is_some_and(|entry| entry.until > longest(entry))
    }

    /// Returns whether both reads found equal rows. If so, nothing was granted, released or renewed between the two
    /// reads.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        self.entries == other.entries
    }

    /// Returns whether the owner may have held the name at an earlier time: `ago` before now. The answer is yes if the
    /// owner's row ended after that time, or if another owner acquired the name after that time. In both cases, an
    /// earlier attempt of this request may have ended the lease.
    pub(super) fn may_have_been_held(&self, request: &EndRequest, ago: Duration) -> bool {
        let then = self.clock.micros.saturating_sub(i64::try_from(ago.as_micros()).unwrap_or(i64::MAX));
        let ended = |entry: &MutexRow| entry.is_of(request.owner) && then <= entry.until;
        self.entries.get(&row_key(&request.name)).is_some_and(|entry| ended(entry) || then <= entry.since)
    }
}

impl MutexRow {
    pub(super) fn is_held(&self, now: i64) -> bool {
        !self.is_released && self.until > now
    }

    pub(super) fn is_of(&self, owner: Owner) -> bool {
        self.owner == owner.to_string()
    }

    /// Returns the holder, as seen at the server's time `now`. Returns a failure if another program has written the
    /// row.
    pub(super) fn holder(&self, name: &MutexName, now: i64) -> Result<Holder, Failure> {
        let owner = Quoted::new(&self.owner);
        let foreign =
            |_| Failure::unreadable(&format!("the owner {owner} of {name} in the table was not written by soloist"));
        let owner = self.owner.parse().map_err(foreign)?;
        let host = percent_decode_str(&self.host).decode_utf8_lossy();
        let holder = Holder::new(owner, self.token, host, instant(self.since), instant(self.until));
        Ok(holder.with_occurrence(self.occurrence.map(instant)).seen_at(instant(now)))
    }
}
