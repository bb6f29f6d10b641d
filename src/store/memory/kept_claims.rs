//! The claims on occurrences, in 16 bytes each: an event has many of them at the same time.
//!
//! The first claim of an event is stored in full, and each later one as its distance from the first. A claim that is too far
//! from the first, or has a reason, is stored like any other name.

use std::time::Duration;

use super::live_holding::Holding;
use crate::lease::name::{ClaimSeries, MutexName, NameMap};
use crate::lease::{owner::Owner, request::Lease, term::Term, token::FencingToken};
use crate::time::clock::{instant_of, moment::Moment};

/// So many names are no burden, and those of events that come again are found in their place.
pub(super) const PURGE_NEVER_BELOW: usize = 1024;

/// The claims of all events.
#[derive(Default)]
pub(super) struct KeptClaims {
    series: NameMap<KeptSeries, ClaimSeries>,
    /// How many events there may be before those without a live claim are looked for.
    purge_above: usize,
}

/// The claims of one event, by their occurrences.
struct KeptSeries {
    first: FirstClaim,
    claims: Vec<KeptClaim>,
}

/// For so many claims there is room from the beginning.
const FEW: usize = 4;

/// The claim that all others of its event are compared with. It may have expired long ago.
struct FirstClaim {
    owner: Owner,
    token: FencingToken,
    /// In seconds.
    occurrence: i64,
    until: Moment,
    term: Term,
}

/// How far a claim is from the first one.
#[derive(Clone, Copy)]
struct KeptClaim {
    /// In seconds.
    occurrence: u32,
    owner: u32,
    token: u32,
    /// In milliseconds, rounded up.
    until: u32,
}

impl FirstClaim {
    fn of(lease: &Lease, occurrence: i64, now: Moment) -> Self {
        let (owner, token, term) = (lease.owner(), lease.token(), lease.term());
        Self { owner, token, occurrence, until: now.plus(term.get()), term }
    }

    fn seconds_to(&self, occurrence: i64) -> Option<u32> {
        u32::try_from(occurrence.checked_sub(self.occurrence)?).ok()
    }

    /// `None`: it is too far away.
    fn compare(&self, lease: &Lease, occurrence: i64, now: Moment) -> Option<KeptClaim> {
        let later = now.plus(lease.term().get()).since(self.until).as_nanos().div_ceil(1_000_000);
        let claim = KeptClaim {
            occurrence: self.seconds_to(occurrence)?,
            owner: lease.owner().count_after(self.owner)?.try_into().ok()?,
            token: lease.token().get().checked_sub(self.token.get())?.try_into().ok()?,
            until: later.try_into().ok()?,
        };
        (lease.term() == self.term).then_some(claim)
    }

    fn until(&self, claim: KeptClaim) -> Moment {
        self.until.plus(Duration::from_millis(claim.until.into()))
    }

    fn holding(&self, claim: KeptClaim) -> Holding<'static> {
        let until = self.until(claim);
        let since = until.minus(self.term.get());
        let (owner, token) = (self.owner.after(claim.owner.into()), self.token.get() + u64::from(claim.token));
        let occurrence = Some(instant_of(self.occurrence + i64::from(claim.occurrence)));
        Holding { owner, token: FencingToken::new(token), since, until, occurrence, reason: None }
    }
}

impl KeptSeries {
    /// A series that begins with this claim.
    fn new(lease: &Lease, occurrence: i64, now: Moment) -> Self {
        let mut claims = Vec::with_capacity(FEW);
        claims.push(KeptClaim { occurrence: 0, owner: 0, token: 0, until: 0 });
        Self { first: FirstClaim::of(lease, occurrence, now), claims }
    }

    /// Where an occurrence is, or belongs; `None`: not here.
    fn find(&self, occurrence: i64) -> Option<Result<usize, usize>> {
        let place = self.first.seconds_to(occurrence)?;
        // Mostly it is later than all others.
        if self.claims.last().is_some_and(|last| last.occurrence < place) {
            return Some(Err(self.claims.len()));
        }
        Some(self.claims.binary_search_by_key(&place, |claim| claim.occurrence))
    }

    fn remove(&mut self, occurrence: i64) {
        if let Some(Ok(at)) = self.find(occurrence) {
            self.claims.remove(at);
        }
    }

    /// Keeps a claim in the place of an earlier one on the same occurrence. `false`: it is too far from the first.
    fn keep(&mut self, lease: &Lease, occurrence: i64, now: Moment) -> bool {
        self.make_room(now);
        match (self.first.compare(lease, occurrence, now), self.find(occurrence)) {
            (Some(claim), Some(Ok(at))) => self.claims[at] = claim,
            (Some(claim), Some(Err(at))) => self.claims.insert(at, claim),
            _ => {
                self.remove(occurrence);
                self.purge(now);
                let begins_anew = self.claims.is_empty();
                if begins_anew {
                    *self = Self::new(lease, occurrence, now);
                }
                return begins_anew;
            }
        }
        true
    }

    fn purge(&mut self, now: Moment) {
        let first = &self.first;
        self.claims.retain(|claim| now < first.until(*claim));
    }

    /// Makes room where there is none: that of claims which have expired, if those are many.
    fn make_room(&mut self, now: Moment) {
        let full = self.claims.capacity();
        if self.claims.len() == full {
            self.purge(now);
            if self.claims.len() > full / 4 * 3 {
                self.claims.reserve_exact(full.max(FEW) * 2 - self.claims.len());
            }
        }
    }
}

impl KeptClaims {
    /// Who holds this claim. `None`: nobody, as far as is known here.
    pub(super) fn live(&self, name: &MutexName, now: Moment) -> Option<Holding<'static>> {
        let (series, occurrence) = in_seconds(name)?;
        let kept = self.series.get(series)?;
        let claim = kept.claims[kept.find(occurrence)?.ok()?];
        (now < kept.first.until(claim)).then(|| kept.first.holding(claim))
    }

    /// Keeps a claim in the place of an earlier one of the same name. `false`: it is to be kept as other names are.
    pub(super) fn keep(&mut self, lease: &Lease, now: Moment) -> bool {
        let Some((series, occurrence)) = in_seconds(lease.name()) else { return false };
        if let Some(kept) = self.series.get_mut(series) {
            return kept.keep(lease, occurrence, now);
        }
        if self.series.len() >= self.purge_above {
            self.series.retain(|_, kept| {
                kept.purge(now);
                !kept.claims.is_empty()
            });
            self.purge_above = (self.series.len() * 2).max(PURGE_NEVER_BELOW);
        }
        self.series.insert(series.clone(), KeptSeries::new(lease, occurrence, now));
        true
    }

    /// Takes a claim out.
    pub(super) fn remove(&mut self, name: &MutexName) {
        if let Some((series, occurrence)) = in_seconds(name)
            && let Some(kept) = self.series.get_mut(series)
        {
            kept.remove(occurrence);
        }
    }

    /// The names of all claims that live.
    pub(super) fn names(&self, now: Moment) -> impl Iterator<Item = MutexName> {
        self.series.iter().flat_map(move |(series, KeptSeries { first, claims })| {
            let live = claims.iter().filter(move |claim| now < first.until(**claim));
            live.map(|claim| series.claim(instant_of(first.occurrence + i64::from(claim.occurrence))))
        })
    }
}

/// The claim that a name is, if it is on an occurrence at a full second.
fn in_seconds(name: &MutexName) -> Option<(&ClaimSeries, i64)> {
    let (series, occurrence) = name.claim_in_series()?;
    (occurrence.timestamp_subsec_nanos() == 0).then_some((series, occurrence.timestamp()))
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta};

    use super::*;
    use crate::lease::request::LeaseRequest;

    const TERM: Duration = Duration::from_secs(15 * 60);

    fn claim(minute: i64) -> MutexName {
        let occurrence = DateTime::UNIX_EPOCH + TimeDelta::minutes(minute);
        MutexName::lease("reports").unwrap().claim("reports", occurrence)
    }

    fn lease(name: MutexName, now: Moment) -> Lease {
        LeaseRequest::asked_at(name, Term::new(TERM).unwrap(), now)
            .granted(FencingToken::new(now.since(Moment::BEGINNING).as_secs()))
    }

    #[test]
    fn a_claim_is_told_as_it_was_granted_and_until_it_expires() {
        let (mut claims, mut now) = (KeptClaims::default(), Moment::BEGINNING);
        let mut granted = Vec::new();
        for minute in 0..40 {
            let lease = lease(claim(minute), now);
            assert!(claims.live(lease.name(), now).is_none());
            assert!(claims.keep(&lease, now));
            granted.push((lease, now));
            now = now.plus(Duration::from_secs(60));
            for (lease, since) in &granted {
                let live = claims.live(lease.name(), now).map(|live| (live.owner, live.token, live.since, live.until));
                let expected = (lease.owner(), lease.token(), *since, since.plus(TERM));
                assert_eq!(live, (now < since.plus(TERM)).then_some(expected));
            }
            assert_eq!(claims.names(now).count(), granted.len().min(14));
        }
    }

    #[test]
    fn claims_that_are_too_far_from_the_first_are_kept_elsewhere_until_there_is_another_first() {
        let (mut claims, beginning) = (KeptClaims::default(), Moment::BEGINNING);
        assert!(claims.keep(&lease(claim(5), beginning), beginning));
        assert!(!claims.keep(&lease(claim(4), beginning), beginning), "it is before the first");
        let years_later = beginning.plus(Duration::from_secs(3 * 366 * 24 * 60 * 60));
        assert!(claims.keep(&lease(claim(4), years_later), years_later), "it is the first now");
        assert!(claims.live(&claim(4), years_later).is_some() && claims.live(&claim(5), years_later).is_none());
    }
}
