//! The request for a lease, and the lease that a store grants for it.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::label::{self, Label};
use super::name::MutexName;
use super::owner::Owner;
use super::term::Term;
use super::token::FencingToken;
use crate::time::{clock::Clock, clock::moment::Moment};

/// A request to a store: a name, a term and an owner.
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
    /// Behind a pointer, because most requests have no label, and the requests of a schedule share one label.
    label: Option<Arc<Label>>,
}

impl LeaseRequest {
    /// Makes a request for `name` and `term`, with a new owner.
    ///
    /// Make the request right before you send it, because the deadline of the lease counts from this call. Send each
    /// request only once, and make a new request for a retry. After an error, the store may not know whether it granted
    /// the request. So it may later release any lease of the request's owner. A retry by this owner would then lose its
    /// lease.
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
    pub fn new(name: MutexName, term: Term, clock: &Clock) -> Self {
        Self::by(Owner::unique(), name, term, clock.moment())
    }

    /// Makes a request of this owner, which is sent after `asked_at`.
    pub(crate) fn by(owner: Owner, name: MutexName, term: Term, asked_at: Moment) -> Self {
        Self { name, term, owner, asked_at, occurrence: None, label: None }
    }

    /// Returns a second request by this owner, for another name and term: the request for the claim that goes with a
    /// lease.
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
    #[must_use = "this returns a changed request; the original does not change"]
    pub fn with(&self, name: MutexName, term: Term) -> Self {
        let Self { owner, asked_at, occurrence, .. } = *self;
        Self { name, term, owner, asked_at, occurrence, label: self.label.clone() }
    }

    /// Returns this request with a reason, which the [holder](crate::store::Holder::reason) of the name shows. The
    /// stores of this crate keep the reason, and cut it if it is too long. Other stores may drop it.
    ///
    /// ```
    /// use soloist::store::{LeaseRequest, Names};
    /// use soloist::time::Clock;
    /// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (mutex, name) = (MemoryMutex::new(), MutexName::lease("orders")?);
    /// mutex.create(&LeaseRequest::new(name.clone(), Term::MAX, &Clock::system()).because("the table is migrated"))?;
    /// let held = mutex.held(Names::of(&name))?;
    /// assert_eq!(held[0].holder().and_then(|holder| holder.reason()), Some("the table is migrated"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "this returns a changed request; the original does not change"]
    pub fn because(self, reason: impl Into<String>) -> Self {
        let reason: String = reason.into();
        let label = Label { reason: Some(reason.into()), ..self.label.as_deref().cloned().unwrap_or_default() };
        Self { label: Some(Arc::new(label)), ..self }
    }

    /// Returns this request with this label.
    pub(crate) fn labelled(self, label: Option<Arc<Label>>) -> Self {
        Self { label, ..self }
    }

    /// Returns this request with the occurrence of the run, which the [holder](crate::store::Holder::occurrence) then
    /// shows. A tick adds the occurrence to its requests. Other ticks read this occurrence, so that an earlier
    /// occurrence never replaces the run of a later occurrence.
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
    /// let held = mutex.held(Names::of(&name))?;
    /// assert_eq!(held[0].holder().and_then(|holder| holder.occurrence()), Some(DateTime::UNIX_EPOCH));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "this returns a changed request; the original does not change"]
    pub fn for_occurrence(self, occurrence: DateTime<Utc>) -> Self {
        Self { occurrence: Some(occurrence), ..self }
    }

    /// Returns the occurrence of the run, or `None` if the request is not for an occurrence.
    pub fn occurrence(&self) -> Option<DateTime<Utc>> {
        self.occurrence
    }

    /// Returns the [reason](Self::because), or `None` if the request has no reason.
    pub fn reason(&self) -> Option<&str> {
        self.label.as_ref()?.reason.as_deref()
    }

    /// Returns the text that a store keeps with the owner: `web-1 instance=blue app=shop (the table is migrated)`. The
    /// text has the host of this process, and then these parts, if they are known: the
    /// [instance](crate::Schedule::with_instance), the [application](crate::Schedule::named), the
    /// [timetable](crate::store::Holder::timetable) and the [reason](Self::because). A store without enough room cuts
    /// off the end of the text. [`Holder::new`](crate::store::Holder::new) parses the text.
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
    pub fn holder_text(&self) -> String {
        label::text_of_this_process(self.label.as_deref())
    }

    pub(crate) fn label(&self) -> Option<&Arc<Label>> {
        self.label.as_ref()
    }

    /// Returns the requested name.
    pub fn name(&self) -> &MutexName {
        &self.name
    }

    /// Returns the requested term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Returns the owner that makes the request.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Makes the lease that a store grants for this request. The deadline counts from the time of the request, so that
    /// a slow answer does not move the deadline.
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
        Lease { request: self.clone(), token, deadline: self.asked_at.plus(self.term.get()) }
    }
}

/// A name that a store has granted to one owner for a term.
///
/// A lease is a description, not a guard: the drop of a lease does not release the name.
/// [`EventMutex::forget`](crate::EventMutex::forget) releases the name, and so does the drop of a
/// [`LeaseGuard`](crate::LeaseGuard).
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
    request: LeaseRequest,
    token: FencingToken,
    deadline: Moment,
}

impl Lease {
    /// Returns the name that is held.
    pub fn name(&self) -> &MutexName {
        &self.request.name
    }

    /// Returns the owner of the lease.
    pub fn owner(&self) -> Owner {
        self.request.owner
    }

    /// Returns the fencing token of the grant.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the term of the grant.
    pub fn term(&self) -> Term {
        self.request.term
    }

    /// Returns the deadline: the time of the request plus the term. The owner can rely on the grant until then.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Returns the occurrence of the run, or `None` if the lease is not for an occurrence.
    pub fn occurrence(&self) -> Option<DateTime<Utc>> {
        self.request.occurrence
    }

    /// Returns the moment before the request was sent.
    pub(crate) fn asked_at(&self) -> Moment {
        self.request.asked_at
    }

    pub(crate) fn label(&self) -> Option<&Label> {
        self.request.label.as_deref()
    }

    /// Returns the text that a store keeps with the owner, as in `web-1 instance=blue app=shop`.
    #[cfg(feature = "sql")]
    pub(crate) fn holder_text(&self) -> String {
        self.request.holder_text()
    }

    /// Returns this lease with another deadline.
    pub(crate) fn held_until(self, deadline: Moment) -> Self {
        Self { deadline, ..self }
    }
}
