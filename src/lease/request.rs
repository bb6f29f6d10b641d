//! The request for a lease, and the lease that a store grants for it.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::label::{self, Label};
use super::name::MutexName;
use super::owner::Owner;
use super::term::Term;
use super::token::FencingToken;
use crate::time::{clock::Clock, clock::moment::Moment};

/// What a store is asked for: a name, for a term, by an owner.
///
/// ```
/// use std::time::Duration;
/// use soloist::store::LeaseRequest;
/// use soloist::time::Clock;
/// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = MemoryMutex::new();
/// let term = Term::new(Duration::from_secs(60))?;
/// let request = LeaseRequest::new(MutexName::lease("reports")?, term, &Clock::system());
/// let lease = mutex.create(&request)?.expect("nobody holds it");
/// assert_eq!(lease.owner(), request.owner());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    name: MutexName,
    term: Term,
    owner: Owner,
    asked_at: Moment,
    occurrence: Option<DateTime<Utc>>,
    /// The words for people. Mostly there are none: they take little room. The requests of a schedule share them.
    label: Option<Arc<Label>>,
}

impl LeaseRequest {
    /// Asks for `name` for a `term`, with an owner of its own.
    ///
    /// Make it right before it is sent: the lease's deadline counts from here. It is sent once: after an error a store may
    /// give the name back at any later time, so whoever asks again makes a new one.
    ///
    /// ```
    /// use soloist::store::LeaseRequest;
    /// use soloist::time::Clock;
    /// use soloist::{MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let request = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system());
    /// assert_eq!(request.name().mutex(), "reports");
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn new(name: MutexName, term: Term, clock: &Clock) -> Self {
        Self::asked_at(name, term, clock.moment())
    }

    /// The same for somebody who has just looked at the clock.
    #[inline]
    pub(crate) fn asked_at(name: MutexName, term: Term, now: Moment) -> Self {
        Self { name, term, owner: Owner::unique(), asked_at: now, occurrence: None, label: None }
    }

    /// The same asking, by the same owner, for another name and term: the claim beside a lease.
    ///
    /// ```
    /// use soloist::store::LeaseRequest;
    /// use soloist::time::Clock;
    /// use soloist::{MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let name = MutexName::lease("reports")?;
    /// let claim = name.claim("reports", chrono::DateTime::UNIX_EPOCH);
    /// let lease = LeaseRequest::new(name, Term::MAX, &Clock::system());
    /// assert_eq!(lease.with(claim, Term::MAX).owner(), lease.owner());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the request itself stays as it is"]
    pub fn with(&self, name: MutexName, term: Term) -> Self {
        let Self { owner, asked_at, occurrence, .. } = *self;
        Self { name, term, owner, asked_at, occurrence, label: self.label.clone() }
    }

    /// The same, for a reason that people read where they see who [holds](crate::store::Holder::reason) the name. The stores of this
    /// crate keep it, as much of it as they have room for; others need not.
    ///
    /// ```
    /// use soloist::store::{LeaseRequest, Names};
    /// use soloist::time::Clock;
    /// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (mutex, name) = (MemoryMutex::new(), MutexName::lease("orders")?);
    /// mutex.create(&LeaseRequest::new(name.clone(), Term::MAX, &Clock::system()).because("the table is migrated"))?;
    /// let held = mutex.held(Names::Exactly(&name))?;
    /// assert_eq!(held[0].holder().and_then(|holder| holder.reason()), Some("the table is migrated"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the request itself stays as it is"]
    pub fn because(self, reason: impl Into<String>) -> Self {
        let reason: String = reason.into();
        let label = Label { reason: Some(reason.into()), ..self.label.as_deref().cloned().unwrap_or_default() };
        Self { label: Some(Arc::new(label)), ..self }
    }

    /// Returns this request with these words for people.
    #[inline]
    pub(crate) fn labelled(self, label: Option<&Arc<Label>>) -> Self {
        Self { label: label.cloned(), ..self }
    }

    /// Returns this request for the run of an occurrence, which the [holder](crate::store::Holder::occurrence) then shows. A tick asks
    /// so for the lease of each run and for each place in a queue: an earlier occurrence replaces no run of a later one.
    ///
    /// ```
    /// use chrono::DateTime;
    /// use soloist::store::{LeaseRequest, Names};
    /// use soloist::time::Clock;
    /// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (mutex, name) = (MemoryMutex::new(), MutexName::lease("orders")?);
    /// let request = LeaseRequest::new(name.clone(), Term::MAX, &Clock::system());
    /// mutex.create(&request.for_occurrence(DateTime::UNIX_EPOCH))?;
    /// let held = mutex.held(Names::Exactly(&name))?;
    /// assert_eq!(held[0].holder().and_then(|holder| holder.occurrence()), Some(DateTime::UNIX_EPOCH));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the request itself stays as it is"]
    pub fn for_occurrence(self, occurrence: DateTime<Utc>) -> Self {
        Self { occurrence: Some(occurrence), ..self }
    }

    /// Returns the occurrence whose run asks, if there is one.
    pub fn occurrence(&self) -> Option<DateTime<Utc>> {
        self.occurrence
    }

    /// Returns the reason, if one was [given](Self::because).
    pub fn reason(&self) -> Option<&str> {
        self.label.as_ref()?.reason.as_deref()
    }

    /// Returns the text that a store keeps beside the owner, for people: the host of this process and, as far as they are known, the
    /// [instance](crate::Schedule::with_instance), the [application](crate::Schedule::named) and the [reason](Self::because), as in
    /// `web-1 instance=blue app=shop (the table is migrated)`. [`Holder::new`](crate::store::Holder::new) reads it. A store that has no room
    /// for all of it cuts its end off.
    ///
    /// ```
    /// use soloist::store::{Holder, LeaseRequest};
    /// use soloist::time::Clock;
    /// use soloist::{FencingToken, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = Clock::system();
    /// let request = LeaseRequest::new(MutexName::lease("orders")?, Term::MAX, &clock).because("the table is migrated");
    /// let (kept, since) = (request.holder_text(), clock.now());
    /// assert!(kept.ends_with(" (the table is migrated)"));
    /// let holder = Holder::new(request.owner(), FencingToken::new(7), kept, since, since + request.term().get());
    /// assert_eq!(holder.reason(), Some("the table is migrated"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn holder_text(&self) -> Arc<str> {
        label::text_of_this_process(self.label.as_deref())
    }

    /// Returns the words for people.
    pub(crate) fn label(&self) -> Option<&Arc<Label>> {
        self.label.as_ref()
    }

    /// What is asked for.
    pub fn name(&self) -> &MutexName {
        &self.name
    }

    /// For how long.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Who asks.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The lease that a store grants for this request. Its deadline counts from when the request was made, so that
    /// an answer that took long does not stretch it.
    ///
    /// ```
    /// # use soloist::store::LeaseRequest;
    /// # use soloist::time::Clock;
    /// # use soloist::{FencingToken, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let request = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system());
    /// let lease = request.granted(FencingToken::new(7));
    /// assert_eq!((lease.owner(), lease.token().get()), (request.owner(), 7));
    /// # Ok(())
    /// # }
    /// ```
    pub fn granted(&self, token: FencingToken) -> Lease {
        let deadline = self.asked_at.plus(self.term.get());
        let lease = Lease::new(self.name.clone(), self.owner, token, self.term, deadline);
        Lease { occurrence: self.occurrence, label: self.label.clone(), ..lease }
    }
}

/// A name granted to one owner for a term.
///
/// It is a description, not a guard: dropping it releases nothing. [`EventMutex::forget`](crate::EventMutex::forget)
/// gives the name back, and [`LeaseGuard`](crate::LeaseGuard) does so by itself.
///
/// ```
/// use soloist::store::LeaseRequest;
/// use soloist::time::Clock;
/// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = MemoryMutex::new();
/// let request = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system());
/// let lease = mutex.create(&request)?.expect("nobody holds it");
/// assert!(mutex.forget(&lease)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    name: MutexName,
    owner: Owner,
    token: FencingToken,
    term: Term,
    deadline: Moment,
    occurrence: Option<DateTime<Utc>>,
    label: Option<Arc<Label>>,
}

impl Lease {
    /// What is held.
    pub fn name(&self) -> &MutexName {
        &self.name
    }

    /// Who holds it.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The token of this grant.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The term it was granted for.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Until when the owner may rely on this grant: the moment before it was asked for, plus the term.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Returns the occurrence whose run it is granted for, if there is one.
    pub fn occurrence(&self) -> Option<DateTime<Utc>> {
        self.occurrence
    }

    pub(crate) fn new(name: MutexName, owner: Owner, token: FencingToken, term: Term, deadline: Moment) -> Self {
        Self { name, owner, token, term, deadline, occurrence: None, label: None }
    }

    /// Returns the words for people.
    pub(crate) fn label(&self) -> Option<&Label> {
        self.label.as_deref()
    }

    /// Returns the text that a store keeps for people.
    #[cfg(feature = "sql")]
    pub(crate) fn holder_text(&self) -> Arc<str> {
        label::text_of_this_process(self.label())
    }

    /// The same lease after it was extended.
    pub(crate) fn held_until(&self, deadline: Moment) -> Self {
        Self { deadline, ..self.clone() }
    }
}
