//! The holder of a name, as people read it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::label::{self, Label, ProcessInWords, this_host};
use super::name::MutexName;
use super::owner::Owner;
use super::request::Lease;
use super::term::Term;
use super::token::FencingToken;
use crate::base::escape::Named;
use crate::time::clock::{LITTLE_STEP, wall_plus};
use crate::time::{clock::moment::Moment, clock::shown::Reading, clock::shown::to_the_second};

/// The holder of a name, as a person wants to read it. `Display` has its known parts:
///
/// | holder | text |
/// | --- | --- |
/// | any | `web-1, pid 4242, since 2026-03-01T12:00:00Z` |
/// | an [instance](Self::instance) of an [application](Self::application) | `worker, pid 1, instance web-1, application shop, since 2026-03-01T12:00:00Z` |
/// | the run of an occurrence | `web-1, pid 4242, since 2026-03-01T12:00:07Z, for 2026-03-01T12:00:00Z` |
/// | a killed process whose command still runs | `web-1, pid 4242, since 2026-03-01T12:00:00Z, which has ended; its command still runs as process group 4243` |
///
/// ```
/// use soloist::store::{LeaseRequest, Names};
/// use soloist::time::Clock;
/// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
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
    host: Arc<str>,
    label: Label,
    since: DateTime<Utc>,
    until: DateTime<Utc>,
    occurrence: Option<DateTime<Utc>>,
    set_back_by: Option<Duration>,
    process_group: Option<u32>,
    has_ended: bool,
    is_of_another_application: bool,
}

impl Holder {
    /// Makes the holder that a store has on record. `text` is that of [`LeaseRequest::holder_text`](crate::store::LeaseRequest::holder_text), or the name of a host alone.
    ///
    /// ```
    /// use chrono::{DateTime, TimeDelta};
    /// use soloist::store::{Holder, Owner};
    /// use soloist::FencingToken;
    ///
    /// let since = DateTime::UNIX_EPOCH;
    /// let holder = Holder::new(Owner::unique(), FencingToken::new(7), "web-1", since, since + TimeDelta::minutes(1));
    /// assert_eq!(holder.host(), "web-1");
    ///
    /// let text = "worker instance=web-1 app=shop (the table is migrated)";
    /// let holder = Holder::new(Owner::unique(), FencingToken::new(7), text, since, since + TimeDelta::minutes(1));
    /// assert_eq!((holder.host(), holder.instance(), holder.application()), ("worker", Some("web-1"), Some("shop")));
    /// assert_eq!(holder.reason(), Some("the table is migrated"));
    /// ```
    pub fn new(
        owner: Owner,
        token: FencingToken,
        text: impl Into<Arc<str>>,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Self {
        Self::made(owner, token, label::parse(text.into()), since, until)
    }

    fn made(
        owner: Owner,
        token: FencingToken,
        (host, label): (Arc<str>, Label),
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Self {
        Self(Box::new(HolderFields {
            owner,
            token,
            host,
            label,
            since,
            until,
            occurrence: None,
            set_back_by: None,
            process_group: None,
            has_ended: false,
            is_of_another_application: false,
        }))
    }

    /// Makes the holder for an owner of this process.
    pub(crate) fn of_this_process(
        owner: Owner,
        token: FencingToken,
        label: Option<&Label>,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Self {
        Self::made(owner, token, (this_host(), Label::of_this_process(label)), since, until)
    }

    fn with(mut self, change: impl FnOnce(&mut HolderFields)) -> Self {
        change(&mut self.0);
        self
    }

    /// This process, which was granted `lease` when its store's clock showed `since`.
    ///
    /// ```
    /// # use soloist::store::{Holder, LeaseRequest};
    /// # use soloist::time::Clock;
    /// # use soloist::{FencingToken, MutexName, Term};
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
        let holder = Self::of_this_process(lease.owner(), lease.token(), lease.label(), since, until);
        holder.with_occurrence(lease.occurrence())
    }

    /// Returns this holder with the occurrence for whose run it holds the name: what a store calls that has it on record.
    #[must_use = "the holder itself stays as it is"]
    pub fn with_occurrence(self, occurrence: impl Into<Option<DateTime<Utc>>>) -> Self {
        self.with(|holder| holder.occurrence = occurrence.into())
    }

    /// Returns the [occurrence](crate::store::LeaseRequest::for_occurrence) whose run holds the name, or waits in it. `None`: it is held
    /// for no occurrence, as by a run by hand; or the store does not keep it.
    pub fn occurrence(&self) -> Option<DateTime<Utc>> {
        self.0.occurrence
    }

    /// Returns this holder as seen when the store's clock shows `now`. A store whose clock can be set back calls this
    /// on every holder that it returns, so that a `since` in the future is noticed.
    ///
    /// ```
    /// # use chrono::{DateTime, TimeDelta};
    /// # use soloist::store::{Holder, Owner};
    /// # use soloist::FencingToken;
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

    /// Returns the name of its host.
    pub fn host(&self) -> &str {
        &self.0.host
    }

    /// Returns the [instance](crate::Schedule::with_instance) that it is: a name of its process beside host and process id. `None`: it
    /// has none, or the store does not keep it.
    pub fn instance(&self) -> Option<&str> {
        self.0.label.instance.as_deref()
    }

    /// Returns the [name of the schedule](crate::Schedule::named) whose run it is. `None`: the schedule has no name, there is none, as
    /// for a [`LeaseGuard`](crate::LeaseGuard), or the store does not keep it.
    pub fn application(&self) -> Option<&str> {
        self.0.label.application.as_deref()
    }

    /// Returns the reason why it holds the name, if it [gave](crate::store::LeaseRequest::because) one, and the store keeps it.
    pub fn reason(&self) -> Option<&str> {
        self.0.label.reason.as_deref()
    }

    /// Returns the text that a store keeps of its host, instance, application and reason.
    pub(crate) fn text(&self) -> String {
        label::text(&self.0.host, &self.0.label)
    }

    /// Returns its process in words, as in `web-1, pid 4242`.
    pub(crate) fn process(&self) -> ProcessInWords<'_> {
        ProcessInWords { host: self.host(), pid: self.pid(), instance: self.instance() }
    }

    /// Returns its process and its application in words.
    pub(crate) fn process_and_application(&self) -> String {
        let application = self.application().map(|application| format!(", application {}", Named(application)));
        format!("{}{}", self.process(), application.unwrap_or_default())
    }

    /// Notes whether it is of another application than this one, which met it. A holder or a schedule without a name is of none.
    pub(crate) fn meet(&mut self, application: Option<&str>) {
        self.0.is_of_another_application =
            self.application().zip(application).is_some_and(|(its_own, other)| its_own != other);
    }

    /// Returns the name of its application, if another application met it.
    pub(crate) fn other_application(&self) -> Option<&str> {
        self.application().filter(|_| self.0.is_of_another_application)
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

/// As `{"host": "web-1", "pid": 4242, "instance": null, "application": "shop", "token": 7, "since": "…", "until": "…",
/// "occurrence": null, "has_ended": false, "process_group": null}`.
#[cfg(feature = "serde")]
impl serde::Serialize for Holder {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;

        let mut fields = serializer.serialize_struct("Holder", 10)?;
        fields.serialize_field("host", self.host())?;
        fields.serialize_field("pid", &self.pid())?;
        fields.serialize_field("instance", &self.instance())?;
        fields.serialize_field("application", &self.application())?;
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
        write!(f, "{}, since {}", holder.process_and_application(), time(holder.0.since))?;
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
