//! The plan of an admission after the rows were read: who is refused, and the rows to write for the others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::row_key::{RowKey, plain};
use super::snapshot::Snapshot;
use super::statements::{Statements, list};
use crate::lease::holder::{Holder, this_host};
use crate::lease::{owner::Owner, request::LeaseRequest, token::FencingToken};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::remote::server_clock::instant;

/// How long the name of a host is at most in the table.
const LONGEST_HOST: usize = 255;

/// What becomes of one admission. The text is why what is in the table can't be used.
pub(super) type Decision = Result<Admitted, String>;

/// What becomes of several, if the rows can be written.
pub(super) struct AdmissionPlan {
    pub(super) decisions: Vec<Decision>,
    token: FencingToken,
    /// The server's time of the look, in microseconds.
    looked: i64,
    /// What is written, in the order of the names: the owner, and the term in microseconds. Nothing if nobody is granted
    /// what is not theirs already.
    pub(super) rows: BTreeMap<RowKey, (Owner, i64)>,
    /// The names that exclude what is written, which nobody may have taken by then.
    excluding: BTreeSet<RowKey>,
}

impl AdmissionPlan {
    /// Decides on admissions in their order: each is granted whole or not at all.
    pub(super) fn new(admissions: &[&Admission], look: &Snapshot) -> Self {
        let mut plan = Self {
            decisions: Vec::new(),
            token: look.next_token(),
            looked: look.now,
            rows: BTreeMap::new(),
            excluding: BTreeSet::new(),
        };
        let mut granted: HashMap<RowKey, Holder> = HashMap::new();
        for admission in admissions {
            let decision = plan.decide(admission, look, &mut granted);
            plan.decisions.push(decision);
        }
        plan
    }

    fn decide(&mut self, admission: &Admission, look: &Snapshot, granted: &mut HashMap<RowKey, Holder>) -> Decision {
        let asked = [admission.claim(), admission.lease()];
        let asked: Vec<(&LeaseRequest, RowKey)> =
            asked.into_iter().flatten().map(|request| (request, RowKey::of(request.name()))).collect();
        let found =
            |(request, key): &(&LeaseRequest, RowKey)| look.holds(key).filter(|entry| entry.is_of(request.owner()));
        // Its answer was lost when it was asked for the first time.
        if let Some(lease) =
            asked.iter().map(found).collect::<Option<Vec<_>>>().and_then(|entries| entries.last().copied())
        {
            return Ok(Admitted::Granted(admission.granted(lease.token)));
        }
        let excluding = admission.excluded_by().map(|name| (name, RowKey::of(name)));
        if let Some((name, key)) = &excluding {
            let found = || look.holds(key).map(|entry| entry.holder(name, look.now)).transpose();
            let holder = granted.get(key).cloned().map_or_else(found, |holder| Ok(Some(holder)))?;
            if holder.is_some() {
                return Ok(Admitted::Excluded(holder));
            }
        }
        for (request, key) in &asked {
            let holder = match (granted.get(key), look.holds(key)) {
                (Some(holder), _) => holder.clone(),
                (None, Some(entry)) if !entry.is_of(request.owner()) => entry.holder(request.name(), look.now)?,
                (None, _) => continue,
            };
            let taken = if request.name().is_claim() { Admitted::ClaimTaken } else { Admitted::LeaseTaken };
            return Ok(taken(Some(holder)));
        }
        let grant = admission.granted(self.token);
        self.excluding.extend(excluding.map(|(_, key)| key));
        for (request, key) in asked {
            granted.insert(key.clone(), Holder::of(&request.granted(self.token), instant(look.now)));
            // The longest term is 10 years.
            let micros = i64::try_from(request.term().get().as_micros()).unwrap_or(i64::MAX);
            self.rows.insert(key, (request.owner(), micros));
        }
        Ok(Admitted::Granted(grant))
    }

    /// The statements that write it, unless the server's time is past `until` by then, or before that of the look.
    pub(super) fn statements(&self, statements: &Statements, until: i64) -> String {
        let host = plain(&this_host(), LONGEST_HOST);
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|(key, (owner, micros))| {
                statements.row.with(&[
                    ("name", key),
                    ("owner", owner),
                    ("token", &self.token),
                    ("host", &host),
                    ("pid", &owner.pid()),
                    ("micros", micros),
                ])
            })
            .collect();
        statements.admit.with(&[
            ("rows", &rows.join(", ")),
            ("names", &list(self.rows.keys())),
            ("excluding", &list(&self.excluding)),
            ("owners", &list(self.rows.values().map(|(owner, _)| owner))),
            ("token", &self.token),
            ("looked", &self.looked),
            ("until", &until),
        ])
    }
}
