//! The holder of a name, as people read it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::name::MutexName;
use super::owner::Owner;
use super::request::Lease;
use super::term::Term;
use super::token::FencingToken;
use crate::base::escape::OneLine;
use crate::time::clock::{LITTLE_STEP, wall_plus};
use crate::time::{clock::moment::Moment, clock::shown::Reading, clock::shown::to_the_second};

/// Who holds a name, as a person wants to read it. `Display`: `web-1, pid 4242, since 2026-03-01T12:00:00Z`. Of the run of an
/// occurrence: `web-1, pid 4242, since 2026-03-01T12:00:07Z, for 2026-03-01T12:00:00Z`. Of a process
/// that was killed and whose command still runs: `web-1, pid 4242, since 2026-03-01T12:00:00Z, which has ended; its
/// command still runs as process group 4243`.
///
/// ```
/// use soloist::{Clock, EventMutex, LeaseRequest, MemoryMutex, MutexName, Names, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = MemoryMutex::new();
/// let name = MutexName::lease("reports")?;
/// mutex.create(&LeaseRequest::new(name.clone(), Term::MAX, &Clock::system()))?;
/// let held = mutex.held(Names::Exactly(&name))?;
/// let holder = held[0].holder().expect("a store in memory knows it");
/// assert_eq!(holder.pid(), std::process::id());
/// println!("held by {holder}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder(
    /// Behind a pointer, because it is the rare part of the answers and results that it is in.
    Box<HolderFields>,
);

#[derive(Clone, Debug, PartialEq, Eq)]
struct HolderFields {
    owner: Owner,
    token: FencingToken,
    /// With its reason behind it, if it said one.
    host: Arc<str>,
    since: DateTime<Utc>,
    until: DateTime<Utc>,
    occurrence: Option<DateTime<Utc>>,
    set_back_by: Option<Duration>,
    process_group: Option<u32>,
    has_ended: bool,
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
        let host = host.into();
        let (occurrence, set_back_by, process_group, has_ended) = (None, None, None, false);
        let fields =
            HolderFields { owner, token, host, since, until, occurrence, set_back_by, process_group, has_ended };
        Self(Box::new(fields))
    }

    fn with(mut self, change: impl FnOnce(&mut HolderFields)) -> Self {
        change(&mut self.0);
        self
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
        let until = wall_plus(since, lease.term().get());
        let holder = Self::new(lease.owner(), lease.token(), this_host(), since, until);
        holder.with_occurrence(lease.occurrence())
    }

    /// Returns this holder with the occurrence for whose run it holds the name: what a store calls that has it on record.
    #[must_use = "the holder itself stays as it is"]
    pub fn with_occurrence(self, occurrence: impl Into<Option<DateTime<Utc>>>) -> Self {
        self.with(|holder| holder.occurrence = occurrence.into())
    }

    /// Returns the [occurrence](crate::LeaseRequest::for_occurrence) whose run holds the name, or waits in it. `None`: it is held
    /// for no occurrence, as by a run by hand; or the store does not keep it.
    pub fn occurrence(&self) -> Option<DateTime<Utc>> {
        self.0.occurrence
    }

    /// Returns this holder as seen when the store's clock shows `now`. A store whose clock can be set back calls this
    /// on every holder that it returns, so that a `since` in the future is noticed.
    ///
    /// ```
    /// # use chrono::{DateTime, TimeDelta};
    /// # use soloist::{FencingToken, Holder, Owner};
    /// # use std::time::Duration;
    /// let (since, hour) = (DateTime::UNIX_EPOCH, TimeDelta::hours(1));
    /// let holder = Holder::new(Owner::unique(), FencingToken::new(7), "web-1", since, since + hour);
    /// assert_eq!(holder.clone().seen_at(since + hour).clock_set_back_by(), None);
    /// assert_eq!(holder.seen_at(since - hour).clock_set_back_by(), Some(Duration::from_secs(3600)));
    /// ```
    #[must_use = "the holder itself stays as it is"]
    pub fn seen_at(self, now: DateTime<Utc>) -> Self {
        let ahead = (self.0.since - now).to_std().ok();
        self.with(|holder| holder.set_back_by = ahead.filter(|ahead| *ahead > LITTLE_STEP))
    }

    /// How far [`since`](Self::since) lay in the future when the store looked: its clock was set back by at least that
    /// much after the grant. `None` if it lay in the past, or in the future by a second or less.
    pub fn clock_set_back_by(&self) -> Option<Duration> {
        self.0.set_back_by
    }

    /// Returns this holder with the process group of the command that works under its lease: what a store calls that has
    /// it on record.
    #[must_use = "the holder itself stays as it is"]
    pub fn with_process_group(self, process_group: u32) -> Self {
        self.with(|holder| holder.process_group = Some(process_group))
    }

    /// Returns this holder as one whose process has ended, while what it started keeps the lease by its
    /// [`lifeline`](crate::EventMutex::lifeline): what a store calls that can tell.
    #[must_use = "the holder itself stays as it is"]
    pub fn survived_by_its_command(self) -> Self {
        self.with(|holder| holder.has_ended = true)
    }

    /// The process group of the command that works under the lease, as its host counts them; `None` if there is no
    /// command, or the store does not know. `kill -TERM -- -GROUP` on that host asks all of it to stop.
    pub fn process_group(&self) -> Option<u32> {
        self.0.process_group
    }

    /// Whether its process has ended, as far as the store can tell, and only what it started keeps the lease: until that
    /// ends, too, and not until [`until`](Self::until).
    pub fn has_ended(&self) -> bool {
        self.0.has_ended
    }

    /// The lease of this holder, for an operator who changes how long it lasts.
    pub(crate) fn as_lease(&self, name: MutexName, term: Term, now: Moment) -> Lease {
        Lease::new(name, self.0.owner, self.0.token, term, now.plus(term.get()))
    }

    /// The same holder when nothing is left of its command's group.
    #[cfg(unix)]
    pub(crate) fn without_process_group(self) -> Self {
        self.with(|holder| holder.process_group = None)
    }

    /// The same holder after its lease was extended or shortened.
    pub(crate) fn held_until(self, until: DateTime<Utc>) -> Self {
        self.with(|holder| holder.until = until)
    }

    /// The acquisition that holds it.
    pub fn owner(&self) -> Owner {
        self.0.owner
    }

    /// The token of its grant.
    pub fn token(&self) -> FencingToken {
        self.0.token
    }

    /// The name of its host.
    pub fn host(&self) -> &str {
        self.0.host.split_once(REASON).map_or(&*self.0.host, |(host, _)| host)
    }

    /// What it holds the name for, if it [said](crate::LeaseRequest::because) so, and the store keeps it.
    pub fn reason(&self) -> Option<&str> {
        let (_, reason) = self.0.host.split_once(REASON)?;
        // The end is cut off where a store has no room.
        Some(reason.strip_suffix(')').unwrap_or(reason))
    }

    pub(crate) fn with_reason(self, reason: Option<&str>) -> Self {
        match reason {
            None => self,
            reason => {
                let host = host_and_reason(self.host(), reason).into();
                self.with(|holder| holder.host = host)
            }
        }
    }

    /// Its process, as its host counts processes.
    pub fn pid(&self) -> u32 {
        self.0.owner.pid()
    }

    /// Since when, on the store's clock.
    pub fn since(&self) -> DateTime<Utc> {
        self.0.since
    }

    /// Until when at the latest, on the store's clock, unless it is extended or has a
    /// [`lifeline`](crate::EventMutex::lifeline). Of one that [has ended](Self::has_ended) it says nothing.
    pub fn until(&self) -> DateTime<Utc> {
        self.0.until
    }
}

/// As `{"host": "web-1", "pid": 4242, "token": 7, "since": "…", "until": "…", "occurrence": null, "has_ended": false,
/// "process_group": null}`.
#[cfg(feature = "serde")]
impl serde::Serialize for Holder {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;

        let mut fields = serializer.serialize_struct("Holder", 8)?;
        fields.serialize_field("host", self.host())?;
        fields.serialize_field("pid", &self.pid())?;
        fields.serialize_field("token", &self.0.token.get())?;
        fields.serialize_field("since", &self.0.since)?;
        fields.serialize_field("until", &self.0.until)?;
        fields.serialize_field("occurrence", &self.0.occurrence)?;
        fields.serialize_field("has_ended", &self.0.has_ended)?;
        fields.serialize_field("process_group", &self.0.process_group)?;
        fields.end()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Reading(self, &to_the_second).fmt(f)
    }
}

impl fmt::Display for Reading<'_, Holder> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(holder, time) = self;
        write!(f, "{}, pid {}, since {}", OneLine(holder.host()), holder.pid(), time(holder.0.since))?;
        if let Some(occurrence) = holder.0.occurrence {
            write!(f, ", for {}", time(occurrence))?;
        }
        match (holder.0.has_ended, holder.0.process_group) {
            (false, _) => Ok(()),
            (true, Some(group)) => write!(f, ", which has ended; its command still runs as process group {group}"),
            (true, None) => f.write_str(", which has ended; what it started still runs"),
        }
    }
}

/// What a store keeps of a holder's host, and of its reason: `web-1 (the table is migrated)`.
pub(crate) fn host_and_reason(host: &str, reason: Option<&str>) -> String {
    reason.map_or_else(|| host.to_owned(), |reason| format!("{host}{REASON}{reason})"))
}

/// Between a host and a reason. A host's name has no space.
const REASON: &str = " (";

/// The name of this host, asked once.
pub(crate) fn this_host() -> Arc<str> {
    static HOST: OnceLock<Arc<str>> = OnceLock::new();
    Arc::clone(HOST.get_or_init(|| gethostname::gethostname().to_string_lossy().into()))
}
