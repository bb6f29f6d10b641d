//! The words of the protocol: who holds what, for how long, and with which token.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use uuid::Uuid;

use crate::clock::{Clock, Moment, wall_plus};
use crate::error::{InvalidName, InvalidTerm};

/// The name of one entry in a store: a lease, or a claim on one occurrence of an event.
///
/// Names are compared byte by byte: nothing is trimmed, folded or normalised. A lease and a claim are never the
/// same name, whatever they are called. `Display` gives the text that a store may use as its key; it is different
/// for different names: `lease/NAME`, or `claim/NAME/EVENT/OCCURRENCE`, with `%` and `/` inside a part written as
/// `%25` and `%2F`.
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
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MutexName(Arc<Name>);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    mutex: Arc<str>,
    claim: Option<ClaimKey>,
    /// Worked out once: the names of events are looked up at each of their runs. It differs from process to process,
    /// so it stands last, where it has no say in the order of names.
    hash: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ClaimKey {
    event: Arc<str>,
    occurrence: DateTime<Utc>,
}

impl MutexName {
    /// The longest name, in characters: 512, which are at most 2,048 bytes.
    ///
    /// ```
    /// use soloist::MutexName;
    ///
    /// assert!(MutexName::lease("x".repeat(MutexName::MAX_CHARS)).is_ok());
    /// ```
    pub const MAX_CHARS: usize = 512;

    /// The lease that is called `name`; any text of 1 to [`MAX_CHARS`](Self::MAX_CHARS) characters is a name.
    ///
    /// # Errors
    ///
    /// An empty name, or one that is too long.
    ///
    /// ```
    /// use soloist::MutexName;
    ///
    /// assert!(MutexName::lease("db:backup").is_ok());
    /// assert!(MutexName::lease("").is_err());
    /// ```
    pub fn lease(name: impl Into<Arc<str>>) -> Result<Self, InvalidName> {
        let mutex = name.into();
        // A character takes at most four bytes, so only a text of more bytes than characters allowed need be counted.
        let chars = if mutex.len() <= Self::MAX_CHARS { mutex.len() } else { mutex.chars().count() };
        match chars {
            0 => Err(InvalidName::Empty),
            chars if chars > Self::MAX_CHARS => Err(InvalidName::TooLong { chars }),
            _ => Ok(Self(Arc::new(Name { hash: hash_of(&mutex), mutex, claim: None }))),
        }
    }

    /// The claim on one occurrence of `event`, kept beside this name: events that share a mutex have claims of
    /// their own.
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
    #[must_use = "the name itself stays as it is"]
    pub fn claim(&self, event: impl Into<Arc<str>>, occurrence: DateTime<Utc>) -> Self {
        // What tells the claims of one occurrence apart is left to `==`.
        let hash = self.0.hash ^ occurrence.timestamp().cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let claim = Some(ClaimKey { event: event.into(), occurrence });
        Self(Arc::new(Name { hash, mutex: Arc::clone(&self.0.mutex), claim }))
    }

    /// The name without the kind: what the lease is called, and what a claim is kept beside.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// assert_eq!(soloist::MutexName::lease("reports")?.mutex(), "reports");
    /// # Ok(())
    /// # }
    /// ```
    pub fn mutex(&self) -> &str {
        &self.0.mutex
    }

    /// Whether this names a claim; otherwise it names a lease.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let lease = soloist::MutexName::lease("reports")?;
    /// assert!(!lease.is_claim());
    /// assert!(lease.claim("reports", chrono::DateTime::UNIX_EPOCH).is_claim());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_claim(&self) -> bool {
        self.0.claim.is_some()
    }

    /// The event whose occurrence a claim is for; `None` for a lease.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let claim = soloist::MutexName::lease("warehouse")?.claim("import", chrono::DateTime::UNIX_EPOCH);
    /// assert_eq!(claim.event(), Some("import"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn event(&self) -> Option<&str> {
        self.0.claim.as_ref().map(|claim| &*claim.event)
    }

    /// The occurrence that a claim is for; `None` for a lease.
    ///
    /// ```
    /// # use chrono::DateTime;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let claim = soloist::MutexName::lease("reports")?.claim("reports", DateTime::UNIX_EPOCH);
    /// assert_eq!(claim.occurrence(), Some(DateTime::UNIX_EPOCH));
    /// # Ok(())
    /// # }
    /// ```
    pub fn occurrence(&self) -> Option<DateTime<Utc>> {
        self.0.claim.as_ref().map(|claim| claim.occurrence)
    }
}

impl Hash for MutexName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

/// Keyed at random, as a map's own hashes are, so that nobody can make up names that all fall into one place.
fn hash_of(text: &str) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).hash_one(text)
}

impl fmt::Display for MutexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.claim {
            None => write!(f, "lease/{}", Part(&self.0.mutex)),
            Some(claim) => write!(
                f,
                "claim/{}/{}/{}",
                Part(&self.0.mutex),
                Part(&claim.event),
                claim.occurrence.to_rfc3339_opts(SecondsFormat::AutoSi, true)
            ),
        }
    }
}

impl fmt::Debug for MutexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MutexName({:?})", self.to_string())
    }
}

/// One part of a name's text, in which the separator can't appear.
struct Part<'a>(&'a str);

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['%', '/']) {
            f.write_str(&rest[..at])?;
            f.write_str(if rest.as_bytes()[at] == b'%' { "%25" } else { "%2F" })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

/// The id of one acquisition. No two are the same, on any host, in any process, in any thread.
///
/// Only the owner of a lease can release or extend it. The host's name plays no part in it.
///
/// ```
/// use soloist::Owner;
///
/// let owner = Owner::unique();
/// assert_ne!(owner, Owner::unique());
/// assert_eq!(owner.to_string().parse::<Owner>().unwrap(), owner);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    process: Uuid,
    pid: u32,
    serial: u64,
}

impl Owner {
    /// A new owner: one random id per process, this process's pid and a counter.
    ///
    /// The pid is asked anew each time, so that the two sides of a `fork` differ although they share the rest.
    ///
    /// ```
    /// assert_eq!(soloist::Owner::unique().pid(), std::process::id());
    /// ```
    pub fn unique() -> Self {
        Owners::of_this_process().unique()
    }

    /// The process that acquired, as its own host counts processes.
    ///
    /// ```
    /// println!("held by process {}", soloist::Owner::unique().pid());
    /// ```
    pub fn pid(self) -> u32 {
        self.pid
    }
}

/// Makes the owners of one tick: the process is asked for its pid, which costs a system call, once for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owners {
    process: Uuid,
    pid: u32,
}

impl Owners {
    pub(crate) fn of_this_process() -> Self {
        static PROCESS: OnceLock<Uuid> = OnceLock::new();
        Self { process: *PROCESS.get_or_init(Uuid::new_v4), pid: std::process::id() }
    }

    fn unique(self) -> Owner {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        Owner { process: self.process, pid: self.pid, serial: SERIAL.fetch_add(1, Ordering::Relaxed) }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.process.simple(), self.pid, self.serial)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

impl FromStr for Owner {
    type Err = InvalidOwner;

    /// Reads what `Display` wrote, for stores that keep an owner as text.
    fn from_str(text: &str) -> Result<Self, InvalidOwner> {
        let parse = || {
            let mut parts = text.split('-');
            let owner = Self {
                process: Uuid::try_parse(parts.next().filter(|process| process.len() == 32)?).ok()?,
                pid: parts.next()?.parse().ok()?,
                serial: parts.next()?.parse().ok()?,
            };
            parts.next().is_none().then_some(owner)
        };
        parse().ok_or(InvalidOwner)
    }
}

/// The text is not an owner.
///
/// ```
/// assert_eq!("nobody".parse::<soloist::Owner>().unwrap_err().to_string(), "not the id of an owner");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of an owner")]
pub struct InvalidOwner;

/// A number that rises with every grant of a name.
///
/// Hand it to the resource that the task writes to. A resource that remembers the highest token it has seen, and
/// refuses a lower one, is safe from a task that was suspended past its lease and does not know it yet.
///
/// ```
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # fn write_report(_if_newer_than: u64) {}
/// let mut schedule = Schedule::in_process();
/// schedule.add(
///     Event::call("reports", |run| {
///         let token = run.fencing_token().expect("the event is protected");
///         write_report(token.get());
///     })
///     .every_minute()
///     .without_overlapping(),
/// )?;
/// schedule.run("reports", chrono::Utc::now())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token with this number, as a store counts them.
    ///
    /// ```
    /// use soloist::FencingToken;
    ///
    /// assert!(FencingToken::new(8) > FencingToken::new(7));
    /// ```
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The next token of a name: one more than the `last`, and at least the microseconds of `now`, so that a store
    /// that came back empty does not take its tokens back.
    ///
    /// ```
    /// use chrono::DateTime;
    /// use soloist::FencingToken;
    ///
    /// let now = DateTime::from_timestamp(1, 0).unwrap();
    /// assert_eq!(FencingToken::after(None, now).get(), 1_000_000);
    /// assert_eq!(FencingToken::after(Some(FencingToken::new(2_000_000)), now).get(), 2_000_001);
    /// ```
    pub fn after(last: Option<Self>, now: DateTime<Utc>) -> Self {
        let next = last.map_or(1, |last| last.0.saturating_add(1));
        Self(next.max(u64::try_from(now.timestamp_micros()).unwrap_or(0)))
    }

    /// The number.
    ///
    /// ```
    /// assert_eq!(soloist::FencingToken::new(7).get(), 7);
    /// ```
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How long a lease is granted for, from 1 millisecond to 10 years.
///
/// ```
/// use std::time::Duration;
/// use soloist::Term;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let term = Term::new(Duration::from_secs(90))?;
/// assert_eq!(term.get(), Duration::from_secs(90));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term(Duration);

impl Term {
    /// The shortest term: the finest grain that every store keeps.
    ///
    /// ```
    /// assert_eq!(soloist::Term::MIN.get().as_millis(), 1);
    /// ```
    pub const MIN: Self = Self(Duration::from_millis(1));

    /// The longest term: ten years, so that no sum with a clock can overflow.
    ///
    /// ```
    /// assert_eq!(soloist::Term::MAX.get().as_secs(), 3650 * 24 * 60 * 60);
    /// ```
    pub const MAX: Self = Self(Duration::from_secs(3650 * 24 * 60 * 60));

    /// The term of this length.
    ///
    /// # Errors
    ///
    /// A length outside of [`MIN`](Self::MIN) to [`MAX`](Self::MAX), zero included.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Term;
    ///
    /// let error = Term::new(Duration::ZERO).unwrap_err();
    /// assert_eq!(error.to_string(), "a lease of 0ns is outside of 1ms to ten years");
    /// ```
    pub fn new(length: Duration) -> Result<Self, InvalidTerm> {
        if (Self::MIN.0..=Self::MAX.0).contains(&length) { Ok(Self(length)) } else { Err(InvalidTerm { length }) }
    }

    /// The length.
    ///
    /// ```
    /// assert_eq!(soloist::Term::MIN.get(), std::time::Duration::from_millis(1));
    /// ```
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// What a store is asked for: a name, for a term, by an owner.
///
/// ```
/// use std::time::Duration;
/// use soloist::{Clock, EventMutex, LeaseRequest, MemoryMutex, MutexName, Term};
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
}

impl LeaseRequest {
    /// Asks for `name` for a `term`, with an owner of its own.
    ///
    /// Make it right before it is sent: the lease's deadline counts from here.
    ///
    /// ```
    /// use soloist::{Clock, LeaseRequest, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let request = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system());
    /// assert_eq!(request.name().mutex(), "reports");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(name: MutexName, term: Term, clock: &Clock) -> Self {
        Self::by(Owners::of_this_process(), name, term, clock)
    }

    pub(crate) fn by(owners: Owners, name: MutexName, term: Term, clock: &Clock) -> Self {
        Self { name, term, owner: owners.unique(), asked_at: clock.moment() }
    }

    /// The same asking, by the same owner, for another name and term: the claim beside a lease.
    ///
    /// ```
    /// use soloist::{Clock, LeaseRequest, MutexName, Term};
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
        Self { name, term, owner: self.owner, asked_at: self.asked_at }
    }

    /// What is asked for.
    ///
    /// ```
    /// # use soloist::{Clock, LeaseRequest, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let request = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system());
    /// assert_eq!(request.name().to_string(), "lease/reports");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &MutexName {
        &self.name
    }

    /// For how long.
    ///
    /// ```
    /// # use soloist::{Clock, LeaseRequest, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let request = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system());
    /// assert_eq!(request.term(), Term::MAX);
    /// # Ok(())
    /// # }
    /// ```
    pub fn term(&self) -> Term {
        self.term
    }

    /// Who asks.
    ///
    /// ```
    /// # use soloist::{Clock, LeaseRequest, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let request = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system());
    /// assert_eq!(request.owner().pid(), std::process::id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The lease that a store grants for this request. Its deadline counts from when the request was made, so that
    /// an answer that took long does not stretch it.
    ///
    /// ```
    /// # use soloist::{Clock, FencingToken, LeaseRequest, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let request = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system());
    /// let lease = request.granted(FencingToken::new(7));
    /// assert_eq!((lease.owner(), lease.token().get()), (request.owner(), 7));
    /// # Ok(())
    /// # }
    /// ```
    pub fn granted(&self, token: FencingToken) -> Lease {
        Lease {
            name: self.name.clone(),
            owner: self.owner,
            token,
            term: self.term,
            deadline: self.asked_at.plus(self.term.get()),
        }
    }
}

/// A name granted to one owner for a term.
///
/// It is a description, not a guard: dropping it releases nothing. [`EventMutex::forget`](crate::EventMutex::forget)
/// gives the name back, and [`LeaseGuard`](crate::LeaseGuard) does so by itself.
///
/// ```
/// use soloist::{Clock, EventMutex, LeaseRequest, MemoryMutex, MutexName, Term};
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
}

impl Lease {
    /// What is held.
    ///
    /// ```
    /// # use soloist::{Clock, FencingToken, LeaseRequest, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let lease = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system()).granted(FencingToken::new(1));
    /// assert_eq!(lease.name().mutex(), "reports");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &MutexName {
        &self.name
    }

    /// Who holds it.
    ///
    /// ```
    /// # use soloist::{Clock, FencingToken, LeaseRequest, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let lease = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system()).granted(FencingToken::new(1));
    /// assert_eq!(lease.owner().pid(), std::process::id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The token of this grant.
    ///
    /// ```
    /// # use soloist::{Clock, FencingToken, LeaseRequest, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let lease = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system()).granted(FencingToken::new(1));
    /// assert_eq!(lease.token(), FencingToken::new(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The term it was granted for.
    ///
    /// ```
    /// # use soloist::{Clock, FencingToken, LeaseRequest, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let lease = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system()).granted(FencingToken::new(1));
    /// assert_eq!(lease.term(), Term::MAX);
    /// # Ok(())
    /// # }
    /// ```
    pub fn term(&self) -> Term {
        self.term
    }

    /// Until when the owner may rely on it: the moment before it was asked for, plus the term.
    ///
    /// ```
    /// # use soloist::{Clock, FencingToken, LeaseRequest, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let lease = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &Clock::system()).granted(FencingToken::new(1));
    /// assert!(Clock::system().moment() < lease.deadline());
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline(&self) -> Moment {
        self.deadline
    }
}

/// Who holds a name, as a person wants to read it. `Display`: `web-1, pid 4242, since 2026-03-01T12:00:00Z`.
///
/// ```
/// use soloist::{Clock, EventMutex, LeaseRequest, MemoryMutex, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = MemoryMutex::new();
/// let name = MutexName::lease("reports")?;
/// mutex.create(&LeaseRequest::new(name.clone(), Term::MAX, &Clock::system()))?;
/// let holder = mutex.holder(&name)?.expect("it was just created");
/// assert_eq!(holder.pid(), std::process::id());
/// println!("held by {holder}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    owner: Owner,
    token: FencingToken,
    host: Arc<str>,
    since: DateTime<Utc>,
    until: DateTime<Utc>,
}

impl Holder {
    /// The holder that a store has on record.
    ///
    /// ```
    /// use chrono::{DateTime, TimeDelta};
    /// use soloist::{FencingToken, Holder, Owner};
    ///
    /// let since = DateTime::UNIX_EPOCH;
    /// let holder = Holder::new(Owner::unique(), FencingToken::new(7), "web-1", since, since + TimeDelta::minutes(1));
    /// assert_eq!(holder.host(), "web-1");
    /// ```
    pub fn new(
        owner: Owner,
        token: FencingToken,
        host: impl Into<Arc<str>>,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Self {
        Self { owner, token, host: host.into(), since, until }
    }

    /// This process, which was granted `lease` when its store's clock showed `since`.
    ///
    /// ```
    /// # use soloist::{Clock, FencingToken, Holder, LeaseRequest, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = Clock::system();
    /// let lease = LeaseRequest::new(MutexName::lease("reports")?, Term::MAX, &clock).granted(FencingToken::new(1));
    /// let holder = Holder::of(&lease, clock.now());
    /// assert_eq!(holder.until() - holder.since(), chrono::TimeDelta::days(3650));
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(lease: &Lease, since: DateTime<Utc>) -> Self {
        Self::new(lease.owner, lease.token, this_host(), since, wall_plus(since, lease.term.get()))
    }

    /// The same holder after its lease was extended or shortened.
    pub(crate) fn held_until(self, until: DateTime<Utc>) -> Self {
        Self { until, ..self }
    }

    /// The acquisition that holds it.
    ///
    /// ```
    /// # use soloist::{FencingToken, Holder, Owner};
    /// # use chrono::DateTime;
    /// let owner = Owner::unique();
    /// let holder = Holder::new(owner, FencingToken::new(7), "web-1", DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH);
    /// assert_eq!(holder.owner(), owner);
    /// ```
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The token of its grant.
    ///
    /// ```
    /// # use soloist::{FencingToken, Holder, Owner};
    /// # use chrono::DateTime;
    /// # let holder = Holder::new(Owner::unique(), FencingToken::new(7), "web-1", DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH);
    /// assert_eq!(holder.token().get(), 7);
    /// ```
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The name of its host.
    ///
    /// ```
    /// # use soloist::{FencingToken, Holder, Owner};
    /// # use chrono::DateTime;
    /// # let holder = Holder::new(Owner::unique(), FencingToken::new(7), "web-1", DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH);
    /// assert_eq!(holder.host(), "web-1");
    /// ```
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its process, as its host counts processes.
    ///
    /// ```
    /// # use soloist::{FencingToken, Holder, Owner};
    /// # use chrono::DateTime;
    /// # let holder = Holder::new(Owner::unique(), FencingToken::new(7), "web-1", DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH);
    /// assert_eq!(holder.pid(), std::process::id());
    /// ```
    pub fn pid(&self) -> u32 {
        self.owner.pid
    }

    /// Since when, on the store's clock.
    ///
    /// ```
    /// # use soloist::{FencingToken, Holder, Owner};
    /// # use chrono::DateTime;
    /// # let holder = Holder::new(Owner::unique(), FencingToken::new(7), "web-1", DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH);
    /// assert_eq!(holder.since(), DateTime::UNIX_EPOCH);
    /// ```
    pub fn since(&self) -> DateTime<Utc> {
        self.since
    }

    /// Until when at the latest, on the store's clock, unless it is extended.
    ///
    /// ```
    /// # use soloist::{FencingToken, Holder, Owner};
    /// # use chrono::DateTime;
    /// # let holder = Holder::new(Owner::unique(), FencingToken::new(7), "web-1", DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH);
    /// assert_eq!(holder.until(), DateTime::UNIX_EPOCH);
    /// ```
    pub fn until(&self) -> DateTime<Utc> {
        self.until
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.since.to_rfc3339_opts(SecondsFormat::Secs, true);
        write!(f, "{}, pid {}, since {since}", self.host, self.owner.pid)
    }
}

/// The name of this host, asked once.
pub(crate) fn this_host() -> Arc<str> {
    static HOST: OnceLock<Arc<str>> = OnceLock::new();
    Arc::clone(HOST.get_or_init(|| gethostname::gethostname().to_string_lossy().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(name: &str) -> MutexName {
        MutexName::lease(name).unwrap()
    }

    #[test]
    fn the_texts_of_different_names_differ() {
        let noon = DateTime::from_timestamp(1_772_366_400, 0).unwrap();
        let names = [
            lease("a"),
            lease("a/a/2026-03-01T12:00:00Z"),
            lease("a%2Fa"),
            lease("a/a"),
            lease("A"),
            lease("a "),
            lease("a\0"),
            lease("a").claim("a", noon),
            lease("a").claim("a", DateTime::from_timestamp_nanos(1_772_366_400_000_000_001)),
            lease("a/b").claim("c", noon),
            lease("a").claim("b/c", noon),
            lease("claim/a"),
        ];
        for (at, name) in names.iter().enumerate() {
            for other in &names[at + 1..] {
                assert_ne!(name, other);
                assert_ne!(name.to_string(), other.to_string());
            }
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

    #[test]
    fn an_owner_is_read_back_and_nothing_else_is() {
        let owner = Owner::unique();
        assert_eq!(owner.to_string().parse(), Ok(owner));
        let text = owner.to_string();
        for wrong in ["", "-", "a-1-2", &text[1..], &format!("{text}-1"), &text.replace('-', "")] {
            assert_eq!(wrong.parse::<Owner>(), Err(InvalidOwner), "{wrong}");
        }
    }

    #[test]
    fn a_token_rises_also_when_the_clock_went_back() {
        let now = DateTime::from_timestamp(1_000, 0).unwrap();
        let first = FencingToken::after(None, now);
        let second = FencingToken::after(Some(first), now);
        let third = FencingToken::after(Some(second), DateTime::from_timestamp(-5, 0).unwrap());
        assert!(first < second && second < third);
    }
}
