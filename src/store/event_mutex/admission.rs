//! The admission of a run: the question to a store, and its answer.

use super::held::Held;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{holder::Holder, name::MutexName, token::FencingToken};

/// The request of one run: a lease, a claim, or both at once.
///
/// ```
/// use chrono::DateTime;
/// use soloist::store::{Admission, Admitted, LeaseRequest};
/// use soloist::time::Clock;
/// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = MemoryMutex::new();
/// let name = MutexName::lease("reports")?;
/// let claim = name.claim("reports", DateTime::UNIX_EPOCH);
/// let both = || {
///     let lease = LeaseRequest::new(name.clone(), Term::MAX, &Clock::system());
///     Admission::both(lease.clone(), lease.with(claim.clone(), Term::MAX))
/// };
/// assert!(matches!(both().ask(&mutex)?, Admitted::Granted(_)));
/// assert!(matches!(both().ask(&mutex)?, Admitted::ClaimTaken(Some(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    lease: Option<LeaseRequest>,
    claim: Option<LeaseRequest>,
    unless: Vec<MutexName>,
}

impl Admission {
    /// Asks for a lease alone.
    pub fn lease_only(lease: LeaseRequest) -> Self {
        Self { lease: Some(lease), claim: None, unless: Vec::new() }
    }

    /// Asks for a claim alone.
    ///
    /// # Panics
    ///
    /// If `claim` has the name of a lease.
    pub fn claim_only(claim: LeaseRequest) -> Self {
        assert!(!claim.name().is_lease(), "{} is no claim: ask for it with `Admission::lease_only`", claim.name());
        Self { lease: None, claim: Some(claim), unless: Vec::new() }
    }

    /// Asks for `request` alone. The request can be for a lease or for a claim.
    pub(crate) fn of(request: LeaseRequest) -> Self {
        if request.name().is_lease() { Self::lease_only(request) } else { Self::claim_only(request) }
    }

    /// Asks for a lease and a claim together: the store grants both, or neither of them. Make the claim by
    /// [`MutexName::claim`] and [`LeaseRequest::with`], so that it has the mutex and the owner of the lease.
    ///
    /// # Panics
    ///
    /// If `claim` is no claim, or if its mutex or its owner differs from that of `lease`.
    ///
    /// ```
    /// # use soloist::store::{Admission, LeaseRequest};
    /// # use soloist::time::Clock;
    /// # use soloist::{MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let name = MutexName::lease("reports")?;
    /// let claim = name.claim("reports", chrono::DateTime::UNIX_EPOCH);
    /// let lease = LeaseRequest::new(name, Term::MAX, &Clock::system());
    /// let both = Admission::both(lease.clone(), lease.with(claim, Term::MAX));
    /// assert!(both.lease().is_some() && both.claim().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn both(lease: LeaseRequest, claim: LeaseRequest) -> Self {
        let (name, claimed) = (lease.name(), claim.name());
        let are_of_one_mutex = !claimed.is_lease() && claimed.mutex() == name.mutex() && claimed != name;
        assert!(
            are_of_one_mutex,
            "{claimed} is no claim under {name}: an admission takes a lease and a claim of one mutex"
        );
        assert!(
            lease.owner() == claim.owner(),
            "{name} and {claimed} have two owners: make the claim by `lease.with(..)`"
        );
        Self { lease: Some(lease), claim: Some(claim), unless: Vec::new() }
    }

    /// Adds a name that excludes this admission: while any owner holds `name`, the admission is refused as
    /// [`Excluded`](Admitted::Excluded).
    ///
    /// ```
    /// use soloist::store::{Admission, Admitted, LeaseRequest};
    /// use soloist::time::Clock;
    /// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex = MemoryMutex::new();
    /// let request = |name| Ok::<_, soloist::store::InvalidName>(LeaseRequest::new(MutexName::lease(name)?, Term::MAX, &Clock::system()));
    /// let import = Admission::lease_only(request("import")?).unless(MutexName::lease("migration")?);
    /// mutex.create(&request("migration")?)?;
    /// assert!(matches!(import.ask(&mutex)?, Admitted::Excluded(_)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the admission itself stays as it is"]
    pub fn unless(mut self, name: MutexName) -> Self {
        self.unless.push(name);
        self
    }

    /// Adds each of `names`, as [`unless`](Self::unless) does.
    pub(crate) fn unless_any<'a>(&mut self, names: impl IntoIterator<Item = &'a MutexName>) {
        self.unless.extend(names.into_iter().cloned());
    }

    /// Returns the names that exclude this admission while they are held.
    pub fn excluded_by(&self) -> &[MutexName] {
        &self.unless
    }

    /// Returns the request for the lease.
    pub fn lease(&self) -> Option<&LeaseRequest> {
        self.lease.as_ref()
    }

    /// Returns the request for the claim.
    pub fn claim(&self) -> Option<&LeaseRequest> {
        self.claim.as_ref()
    }

    /// Returns the requests for the claim and the lease, as far as the admission has them.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &LeaseRequest> + Clone {
        self.claim.iter().chain(&self.lease)
    }

    /// Returns the name for messages: the lease's, or the claim's if there is no lease.
    pub(crate) fn name(&self) -> &MutexName {
        self.request().name()
    }

    /// Returns the words for this attempt in an error, as in `could not admit lease/reports`.
    pub(crate) fn attempted(&self) -> String {
        let verb = if self.name().marked().is_some() { "write" } else { "admit" };
        format!("{verb} {}", self.name().in_words())
    }

    /// Returns the lease, or the claim if there is no lease. Both have the same owner, label and occurrence.
    pub(crate) fn request(&self) -> &LeaseRequest {
        let request = self.lease.as_ref().or(self.claim.as_ref());
        request.expect("an admission is made with a lease, a claim, or both")
    }

    /// Makes the grant of this admission: the lease and the claim get `token`. This is for a store that grants both in
    /// one step.
    pub fn granted(&self, token: FencingToken) -> Grant {
        Grant {
            lease: self.lease.as_ref().map(|lease| lease.granted(token)),
            claim: self.claim.as_ref().map(|claim| claim.granted(token)),
        }
    }
}

/// The answer to an [`Admission`].
///
/// ```
/// use soloist::store::{Admission, Admitted, LeaseRequest};
/// use soloist::time::Clock;
/// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let request = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system());
/// match Admission::lease_only(request).ask(&MemoryMutex::new())? {
///     Admitted::Granted(grant) => println!("ours, under token {}", grant.token()),
///     Admitted::LeaseTaken(holder) => println!("running already: {holder:?}"),
///     Admitted::ClaimTaken(holder) => println!("another run has claimed this occurrence: {holder:?}"),
///     Admitted::Excluded(held) => println!("not while {} is held: {:?}", held.name(), held.holder()),
///     _ => println!("not granted"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admitted {
    /// The store granted all that was requested: the lease, the claim, or both.
    Granted(Grant),
    /// Nothing was granted, because the lease is held. `None`: the store does not know the holder.
    LeaseTaken(Option<Holder>),
    /// Nothing was granted, because the occurrence is claimed. `None`: the store does not know the holder.
    ClaimTaken(Option<Holder>),
    /// Nothing was granted, because a name that [excludes](Admission::unless) the admission is held.
    Excluded(Held),
}

/// The lease and the claim that were granted for one run.
///
/// ```
/// # use soloist::store::{Admission, LeaseRequest};
/// # use soloist::time::Clock;
/// # use soloist::{FencingToken, MutexName, Term};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let request = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system());
/// let grant = Admission::lease_only(request).granted(FencingToken::new(7));
/// assert!(grant.lease().is_some() && grant.claim().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub(crate) lease: Option<Lease>,
    pub(crate) claim: Option<Lease>,
}

impl Grant {
    /// Returns the lease, which is released when the run has ended.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Returns the claim, which stays until it expires.
    pub fn claim(&self) -> Option<&Lease> {
        self.claim.as_ref()
    }

    pub(crate) fn of(lease: Lease) -> Self {
        Self { lease: Some(lease), claim: None }
    }

    /// Returns the token of the run: the lease's, or the claim's if there is no lease.
    pub fn token(&self) -> FencingToken {
        self.lease_or_claim().map_or(FencingToken::new(0), Lease::token)
    }

    /// Returns the lease, or the claim if there is no lease.
    pub(crate) fn lease_or_claim(&self) -> Option<&Lease> {
        self.lease.as_ref().or(self.claim.as_ref())
    }
}
