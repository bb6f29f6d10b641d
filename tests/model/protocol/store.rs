//! The store: it acts on one request at a time, on its own clock.

use std::fmt;

use crate::variant::{Broken, Variant};

/// How long a lease lasts.
pub(crate) const TERM: u8 = 2;

/// How long a server waits for a reply. A request for admission in one step carries this time, and has no effect
/// when it arrives later.
pub(crate) const PATIENCE: u8 = 1;

/// Every acquisition has its own: no server asks twice for an occurrence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub(crate) server: u8,
    pub(crate) occurrence: u8,
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {} for occurrence {}", self.server, self.occurrence)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Asks {
    Admit,
    Look,
    TakeLease,
    TakeClaim,
    Extend,
    ForgetLease,
    ForgetClaim,
    /// An operator breaks the lease of this owner.
    Break,
}

impl Asks {
    /// Returns when the request was sent, or zero where the time has no effect on its result.
    pub(crate) fn counts_from(self, now: u8) -> u8 {
        if matches!(self, Self::Admit | Self::Extend) { now } else { 0 }
    }

    /// Returns whether the request is repeated until it gets a reply. A request that takes something is sent once,
    /// or recognised the second time.
    pub(crate) fn may_be_repeated(self) -> bool {
        matches!(self, Self::Extend | Self::ForgetLease | Self::ForgetClaim | Self::Break)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    pub(crate) owner: Owner,
    pub(crate) asks: Asks,
    pub(crate) sent: u8,
    /// A repetition: the reply to the first request was lost.
    pub(crate) again: bool,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, asks, sent, again } = self;
        let again = if *again { ", again" } else { "" };
        write!(f, "{asks:?} of {owner:?}, sent at {sent}{again}")
    }
}

impl Request {
    /// Returns whether the time of this reply matters to the server: a deadline depends on it.
    pub(crate) fn may_be_heard_too_late(&self, says: Says) -> bool {
        matches!((self.asks, says), (Asks::Admit, Says::Granted(_)) | (Asks::TakeClaim | Asks::Extend, Says::Yes))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Says {
    Granted(Grant),
    LeaseTaken,
    ClaimTaken {
        by: u8,
    },
    /// To a look.
    Free,
    Yes,
    NotOurs,
}

/// A place in the order of all grants of the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// The place in the order of grants, which the token should follow.
    pub(crate) order: u8,
    pub(crate) token: u8,
}

impl Grant {
    pub(crate) fn next(self) -> Self {
        Self { order: self.order + 1, token: self.token + 1 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) owner: Owner,
    pub(crate) grant: Grant,
    until: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) lease: Option<Entry>,
    /// The owners of claims. Claims outlast this check: a claim lives for an hour, a lease for a minute.
    pub(crate) claims: [Option<Owner>; 2],
    pub(crate) last: Grant,
    /// A grant had no higher token than the one before it.
    pub(crate) token_did_not_rise: bool,
}

impl Store {
    pub(crate) fn live(&self, now: u8) -> Option<Entry> {
        self.lease.filter(|entry| now < entry.until)
    }

    pub(crate) fn holds(&self, owner: Owner, now: u8) -> bool {
        self.live(now).is_some_and(|entry| entry.owner == owner)
    }

    /// Removes the lease if it has expired.
    pub(crate) fn expire(&mut self, now: u8) {
        self.lease = self.live(now);
    }

    /// Acts on a request. Returns the reply, if the server waits for one.
    pub(crate) fn act(&mut self, request: Request, now: u8, variant: &Variant) -> Option<Says> {
        let owner = request.owner;
        match request.asks {
            Asks::Admit => self.admit(request, now, variant),
            Asks::Look => Some(self.claim_of(owner).map_or(Says::Free, |by| Says::ClaimTaken { by: by.server })),
            Asks::TakeLease => {
                Some(if self.live(now).is_some() { Says::LeaseTaken } else { self.grant(owner, now, variant) })
            }
            Asks::TakeClaim => Some(match self.claim_of(owner) {
                Some(by) => Says::ClaimTaken { by: by.server },
                None => {
                    *self.claim_at(owner) = Some(owner);
                    Says::Yes
                }
            }),
            Asks::Extend => Some(self.extend(owner, now, variant)),
            Asks::ForgetLease | Asks::Break => {
                self.forget(owner, now, variant);
                None
            }
            Asks::ForgetClaim => {
                if self.claim_of(owner) == Some(owner) {
                    *self.claim_at(owner) = None;
                }
                None
            }
        }
    }

    fn claim_of(&self, owner: Owner) -> Option<Owner> {
        self.claims[usize::from(owner.occurrence)]
    }

    fn claim_at(&mut self, owner: Owner) -> &mut Option<Owner> {
        &mut self.claims[usize::from(owner.occurrence)]
    }

    /// Admits to lease and claim in one step. A holder of one of them is recognised: its first reply was lost.
    fn admit(&mut self, request: Request, now: u8, variant: &Variant) -> Option<Says> {
        let owner = request.owner;
        if now > request.sent + PATIENCE {
            return None;
        }
        let known = |holder: Owner| holder == owner && !variant.is(Broken::RetryIsStranger);
        if let Some(by) = self.claim_of(owner).filter(|by| !known(*by)) {
            return Some(Says::ClaimTaken { by: by.server });
        }
        Some(match self.live(now) {
            Some(entry) if known(entry.owner) => Says::Granted(entry.grant),
            Some(_) => {
                if variant.is(Broken::LateCopyTakesClaimBack) {
                    *self.claim_at(owner) = None;
                }
                Says::LeaseTaken
            }
            None => {
                *self.claim_at(owner) = Some(owner);
                self.grant(owner, now, variant)
            }
        })
    }

    fn grant(&mut self, owner: Owner, now: u8, variant: &Variant) -> Says {
        let mut grant = self.last.next();
        if variant.is(Broken::TokenStartsAgain) {
            grant.token = 1;
        }
        self.token_did_not_rise |= grant.token <= self.last.token;
        self.lease = Some(Entry { owner, grant, until: now + TERM });
        self.last = grant;
        Says::Granted(grant)
    }

    fn extend(&mut self, owner: Owner, now: u8, variant: &Variant) -> Says {
        let Some(entry) = self.lease.as_mut().filter(|entry| now < entry.until) else { return Says::NotOurs };
        if entry.owner != owner && !variant.is(Broken::ExtendIgnoresOwner) {
            return Says::NotOurs;
        }
        entry.until = now + TERM;
        Says::Yes
    }

    fn forget(&mut self, owner: Owner, now: u8, variant: &Variant) {
        let Some(entry) = self.live(now) else { return };
        if entry.owner == owner || variant.is(Broken::ForgetIgnoresOwner) {
            self.lease = None;
        }
    }
}
