//! The holder of a name, with host, process and times.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::label::{self, BACKFILL, Label, process_in_words, this_host};
use super::name::MutexName;
use super::owner::Owner;
use super::request::{Lease, LeaseRequest};
use super::term::Term;
use super::token::FencingToken;
use crate::base::escape::Named;
use crate::time::clock::{LITTLE_STEP, wall_plus};
use crate::time::{clock::moment::Moment, clock::shown::for_people};

/// The holder of a name: owner, host, process and times. `Display` writes the parts that are known:
///
/// | holder | text |
/// | --- | --- |
/// | any | `web-1, pid 4242, since 2026-03-01 12:00:00 UTC` |
/// | an [instance](Self::instance) of an [application](Self::application) | `worker, pid 1, instance web-1, application shop, since 2026-03-01 12:00:00 UTC` |
/// | the run of an occurrence | `web-1, pid 4242, since 2026-03-01 12:00:07 UTC, for 2026-03-01 12:00:00 UTC` |
/// | the run of a backfill | `web-1, pid 4242, in a backfill, since 2026-03-02 09:00:07 UTC, for 2026-03-01 12:00:00 UTC` |
/// | a killed process whose command still runs | `web-1, pid 4242, since 2026-03-01 12:00:00 UTC; this process has ended, but its command still runs as process group 4243` |
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
/// let held = mutex.held(Names::of(&name))?;
/// let holder = held[0].holder().expect("a store in memory knows it");
/// assert_eq!(holder.pid(), std::process::id());
/// println!("held by {holder}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder(
    /// Behind a pointer, so that an answer with an optional holder stays small.
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
    /// Makes a holder from the values that a store keeps. `text` is the text of
    /// [`LeaseRequest::holder_text`](crate::store::LeaseRequest::holder_text), or only the name of a host.
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

    /// Makes the holder for an `owner` that this process made.
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

    /// Makes the holder for a `lease` that this process was granted when the store's clock showed `since`.
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

    /// Returns this holder with the occurrence of its run. A store that keeps the occurrence calls this method.
    #[must_use = "this returns a changed holder; the original does not change"]
    pub fn with_occurrence(self, occurrence: impl Into<Option<DateTime<Utc>>>) -> Self {
        self.with(|holder| holder.occurrence = occurrence.into())
    }

    /// Returns the [occurrence](crate::store::LeaseRequest::for_occurrence) whose run holds the name or waits in the
    /// queue. Returns `None` if the run was started by hand and has no occurrence, or if the store does not keep the
    /// occurrence.
    pub fn occurrence(&self) -> Option<DateTime<Utc>> {
        self.0.occurrence
    }

    /// Records that the store read this holder when the store's clock showed `now`. A store whose clock can be set back
    /// calls this method for every holder that it returns. Then [`clock_set_back_by`](Self::clock_set_back_by) can
    /// report a `since` in the future.
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
    #[must_use = "this returns a changed holder; the original does not change"]
    pub fn seen_at(self, now: DateTime<Utc>) -> Self {
        let ahead = (self.0.since - now).to_std().ok();
        self.with(|holder| holder.set_back_by = ahead.filter(|ahead| *ahead > LITTLE_STEP))
    }

    /// Returns how far [`since`](Self::since) lay in the future when the store read the holder. After the grant, the
    /// store's clock was set back by at least this time. Returns `None` if `since` lay in the past, or at most a second
    /// in the future.
    pub fn clock_set_back_by(&self) -> Option<Duration> {
        self.0.set_back_by
    }

    /// Returns this holder with the process group of the command that runs under the lease. A store that keeps the
    /// process group calls this method.
    #[must_use = "this returns a changed holder; the original does not change"]
    pub fn with_process_group(self, process_group: u32) -> Self {
        self.with(|holder| holder.process_group = Some(process_group))
    }

    /// Records that the process of the holder has ended, but that its command still keeps the lease by the
    /// [`lifeline`](crate::EventMutex::lifeline). A store that can see this calls this method.
    #[must_use = "this returns a changed holder; the original does not change"]
    pub fn survived_by_its_command(self) -> Self {
        self.with(|holder| holder.has_ended = true)
    }

    /// Returns the process group of the command that runs under the lease, on the holder's host. Returns `None` if
    /// there is no command, or if the store does not know the process group. `kill -TERM -- -GROUP` on that host asks
    /// all processes of the group to stop.
    pub fn process_group(&self) -> Option<u32> {
        self.0.process_group
    }

    /// Returns whether the store knows that the holder's process has ended and that only its command keeps the lease.
    /// The lease then lasts until the command ends, and not until [`until`](Self::until).
    pub fn has_ended(&self) -> bool {
        self.0.has_ended
    }

    /// Makes a lease with the owner and the token of this holder, so that another process can move the end of a pause.
    pub(crate) fn as_lease(&self, name: MutexName, term: Term, now: Moment) -> Lease {
        LeaseRequest::by(self.0.owner, name, term, now).granted(self.0.token)
    }

    /// Returns this holder without a process group, because all processes of the group have ended.
    #[cfg(unix)]
    pub(crate) fn without_process_group(self) -> Self {
        self.with(|holder| holder.process_group = None)
    }

    /// Returns this holder with a new deadline.
    pub(crate) fn held_until(self, until: DateTime<Utc>) -> Self {
        self.with(|holder| holder.until = until)
    }

    /// Returns the owner, which is the id of the acquisition that holds the name.
    pub fn owner(&self) -> Owner {
        self.0.owner
    }

    /// Returns the fencing token of the grant.
    pub fn token(&self) -> FencingToken {
        self.0.token
    }

    /// Returns the name of the host.
    pub fn host(&self) -> &str {
        &self.0.host
    }

    /// Returns the name of the [instance](crate::Schedule::with_instance), which identifies the process if host and
    /// process id do not. Returns `None` if the process has no instance name, or if the store does not keep the name.
    pub fn instance(&self) -> Option<&str> {
        self.0.label.instance.as_deref()
    }

    /// Returns the [application](crate::Schedule::named): the name of the holder's schedule. Returns `None` if the
    /// schedule has no name, if a [`LeaseGuard`](crate::LeaseGuard) has the lease, or if the store does not keep the
    /// application.
    pub fn application(&self) -> Option<&str> {
        self.0.label.application.as_deref()
    }

    /// Returns the event's timetable and zone in plain English, as in `hourly, UTC`. Only a run that claims an
    /// occurrence of the timetable sends this text to the store. Returns `None` for any other holder, or if the store
    /// does not keep the text.
    pub fn timetable(&self) -> Option<&str> {
        self.0.label.timetable.as_deref()
    }

    /// Returns the [reason](crate::store::LeaseRequest::because) in the holder's request. Returns `None` if the request
    /// had no reason, or if the store does not keep the reason.
    pub fn reason(&self) -> Option<&str> {
        self.0.label.reason.as_deref()
    }

    /// Returns host, instance, application, timetable and reason as the text that stores keep.
    pub(crate) fn text(&self) -> String {
        label::text(&self.0.host, &self.0.label)
    }

    /// Returns the process as text, as in `web-1, pid 4242`.
    pub(crate) fn process(&self) -> String {
        process_in_words(self.host(), self.pid(), self.instance())
    }

    /// Returns the process and the application as text. If the process runs a backfill, the text says so.
    pub(crate) fn process_and_application(&self) -> String {
        let application = self.application().map(|application| format!(", application {}", Named(application)));
        let backfill = if self.reason() == Some(BACKFILL) { ", in a backfill" } else { "" };
        format!("{}{}{backfill}", self.process(), application.unwrap_or_default())
    }

    /// Compares the name of the holder's application with `application`, and records whether the names differ. If one
    /// of the two names is missing, no difference is recorded.
    pub(crate) fn meet(&mut self, application: Option<&str>) {
        self.0.is_of_another_application =
            self.application().zip(application).is_some_and(|(its_own, other)| its_own != other);
    }

    /// Returns the name of the holder's application, if [`meet`](Self::meet) found that it differs.
    pub(crate) fn other_application(&self) -> Option<&str> {
        self.application().filter(|_| self.0.is_of_another_application)
    }

    /// Returns the process id on the holder's host.
    pub fn pid(&self) -> u32 {
        self.0.owner.pid()
    }

    /// Returns the time of the grant, on the store's clock.
    pub fn since(&self) -> DateTime<Utc> {
        self.0.since
    }

    /// Returns the deadline of the lease at the time of this answer, on the store's clock. An
    /// [extension](crate::EventMutex::extend) moves the deadline that the store returns. A lease with a
    /// [`lifeline`](crate::EventMutex::lifeline) may last longer, too. If the holder [has ended](Self::has_ended), the
    /// deadline has no meaning.
    pub fn until(&self) -> DateTime<Utc> {
        self.0.until
    }
}

/// Serializes the holder as `{"host": "web-1", "pid": 4242, "instance": null, "application": "shop", "timetable": null,
/// "token": 7, "since": "…", "until": "…", "occurrence": null, "has_ended": false, "process_group": null}`.
#[cfg(feature = "serde")]
impl serde::Serialize for Holder {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;

        let mut fields = serializer.serialize_struct("Holder", 11)?;
        fields.serialize_field("host", self.host())?;
        fields.serialize_field("pid", &self.pid())?;
        fields.serialize_field("instance", &self.instance())?;
        fields.serialize_field("application", &self.application())?;
        fields.serialize_field("timetable", &self.timetable())?;
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
        write!(f, "{}, since {}", self.process_and_application(), for_people(self.0.since))?;
        if let Some(occurrence) = self.0.occurrence {
            write!(f, ", for {}", for_people(occurrence))?;
        }
        match (self.0.has_ended, self.0.process_group) {
            (false, _) => Ok(()),
            (true, Some(group)) => {
                write!(f, "; this process has ended, but its command still runs as process group {group}")
            }
            (true, None) => f.write_str("; this process has ended, but a process that it started still runs"),
        }
    }
}
