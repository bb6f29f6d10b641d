//! The plan of admissions after the rows were read: the refusals, and the rows to write for the grants.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use chrono::Datelike;

use super::row_key::row_key;
use super::session::{Session, encoded, list, or_null};
use super::snapshot::{MutexRow, Snapshot};
use super::table_names::Tables;
use crate::lease::holder::Holder;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::token::FencingToken;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::Held;
use crate::store::server::failure::Failure;
use crate::time::clock::moment::Moment;

/// The longest text about a holder in the table, in bytes. The longest names fit. If the reason of a pause or a
/// backfill is too long, its end is cut off.
const LONGEST_TEXT: usize = 3_000;

/// The decisions on several admissions. A grant is valid only if its rows are written.
#[derive(Default)]
pub(super) struct AdmissionPlan {
    pub(super) decisions: Vec<Result<Admitted, Failure>>,
    /// The rows to write, in the order of the names. There are none if no admission needs a row.
    pub(super) rows: BTreeMap<String, Lease>,
    /// The names that exclude the granted admissions. These names must be free when the rows are written.
    excluding: BTreeSet<String>,
}

impl AdmissionPlan {
    /// Decides on admissions in their order. Each admission is granted whole or not at all, and each grant has this
    /// token.
    pub(super) fn new(admissions: &[&Admission], look: &Snapshot, token: FencingToken) -> Self {
        let mut plan = Self::default();
        for admission in admissions {
            let decision = plan.decide(admission, look, token);
            plan.decisions.push(decision);
        }
        plan
    }

    fn decide(&mut self, admission: &Admission, look: &Snapshot, token: FencingToken) -> Result<Admitted, Failure> {
        let asked: Vec<(&LeaseRequest, String)> =
            admission.requests().map(|request| (request, row_key(request.name()))).collect();
        let ours = asked.iter().map(|(request, key)| look.of_owner(key, request.owner()));
        let ours: Vec<Option<&MutexRow>> = ours.collect();
        let is_held = |row: Option<&MutexRow>| row.is_some_and(|row| row.is_held(look.clock.micros));
        // An earlier attempt was granted, and its answer was lost. This attempt gets the token of that grant.
        if let Some(Some(lease)) = ours.last().filter(|_| ours.iter().copied().all(is_held)) {
            return Ok(Admitted::Granted(admission.granted(lease.token)));
        }
        let granted = |key: &str| Some(Holder::of(self.rows.get(key)?, look.clock.time()));
        let holder = |name, key: &str| {
            let found = || look.holds(key).map(|entry| entry.holder(name, look.clock.micros)).transpose();
            granted(key).map_or_else(found, |holder| Ok(Some(holder)))
        };
        let excluding: Vec<String> = admission.excluded_by().iter().map(row_key).collect();
        for (name, key) in admission.excluded_by().iter().zip(&excluding) {
            if let Some(holder) = holder(name, key)? {
                return Ok(Admitted::Excluded(Held::new(name.clone(), Some(holder))));
            }
        }
        let refused = |request: &LeaseRequest| {
            let is_the_claim = admission.claim().is_some_and(|claim| claim.name() == request.name());
            if is_the_claim { Admitted::ClaimTaken } else { Admitted::LeaseTaken }
        };
        for ((request, key), ours) in asked.iter().zip(&ours) {
            let holder = if ours.is_some() { granted(key) } else { holder(request.name(), key)? };
            if holder.is_some() {
                return Ok(refused(request)(holder));
            }
        }
        // An earlier attempt was granted, and its lease or claim has ended since then. So this attempt comes too late,
        // and is refused.
        if let Some(((request, _), Some(row))) = asked.iter().zip(&ours).find(|(_, ours)| ours.is_some()) {
            return Ok(refused(request)(Some(row.holder(request.name(), look.clock.micros)?)));
        }
        self.excluding.extend(excluding);
        self.rows.extend(asked.into_iter().map(|(request, key)| (key, request.granted(token))));
        Ok(Admitted::Granted(admission.granted(token)))
    }

    /// Returns the statements that write the rows. They write only in the window from the read of the rows to the
    /// moment `until`.
    pub(super) fn statements<S: Session>(&self, tables: &Tables, look: &Snapshot, until: Moment) -> String {
        // MySQL and PostgreSQL can both write the years from 1970 to 9999. For an occurrence in another year, the row
        // has `NULL`.
        let occurrence = |lease: &Lease| {
            let occurrence = lease.occurrence().filter(|occurrence| (1970..10_000).contains(&occurrence.year()));
            S::later(S::EPOCH, &or_null(occurrence.map(|occurrence| occurrence.timestamp_micros())))
        };
        let row = |(key, lease): (&String, &Lease)| {
            let now = S::NOW;
            let token = S::TOKEN;
            let owner = lease.owner();
            let mut host = encoded(&lease.holder_text());
            let pid = owner.pid();
            let term = lease.term().get().as_micros();
            host.truncate(LONGEST_TEXT); // The text is ASCII, so that it can be cut anywhere.
            let (until, occurrence) = (S::later(now, &term.to_string()), occurrence(lease));
            format!("('{key}', '{owner}', {token}, '{host}', {pid}, {now}, {until}, FALSE, {term}, {occurrence})")
        };
        let values: [(&str, &dyn Display); 6] = [
            ("rows", &self.rows.iter().map(row).collect::<Vec<_>>().join(", ")),
            ("names", &list(self.rows.keys())),
            ("excluding", &list(&self.excluding)),
            ("owners", &list(self.rows.values().map(Lease::owner))),
            ("looked", &look.clock.micros),
            ("until", &look.clock.at(until)),
        ];
        tables.fill(S::ADMIT, &values)
    }
}
