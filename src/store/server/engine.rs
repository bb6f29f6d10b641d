//! The trait `Engine`: one kind of server, and the requests to it on one connection.
//!
//! A new kind of server needs an address, a connection, and an engine.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::failure::Failure;
use super::server_builder::Target;
use super::server_url::ServerAddress;
use crate::lease::{holder::Holder, name::MutexName, owner::Owner, request::Lease, term::Term};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::Names;
use crate::store::event_mutex::warning::StoreWarning;
use crate::time::clock::{Clock, moment::Moment};

/// A kind of server. An engine sends each request on the connection of an attempt, and reads the reply before the
/// attempt ends. [`Server`](super::attempts::Server) chooses the connection and the time limit, and decides whether to
/// send a request again.
pub(crate) trait Engine: Send + Sync + Sized + 'static {
    /// Whether the server may still commit a request after its reply was lost. Such a late commit comes at most two
    /// time limits of a call after the call has ended.
    const COMMITS_LATE: bool;

    type Address: ServerAddress;

    /// A connection. After a request without a reply, it is dropped, because the late reply might be taken for the reply
    /// to the next request.
    type Connection: Send + 'static;

    /// Returns the server, and the longest time of a call.
    fn target(&self) -> &Target<Self::Address>;

    /// Connects and logs in. If this fails, no request was carried out, and the failure says so.
    fn open(&self, until: Moment) -> Result<Self::Connection, Failure>;

    /// Ends leases, and then decides on admissions. Each decision is one atomic step. Returns one answer for each lease
    /// and for each admission, in their order.
    fn carry_out(&self, attempt: &mut Attempt<Self::Connection>, request: Request<'_>) -> Result<Answers, Failure>;

    /// Reads which of these names are held, and their holders. [`Names::Each`] that are of one mutex and follow one
    /// another are read at one moment.
    fn held(&self, attempt: &mut Attempt<Self::Connection>, names: Names<'_>) -> Result<Vec<FoundEntry>, Failure>;

    /// Reads the state of the server.
    fn health(&self, attempt: &mut Attempt<Self::Connection>) -> Result<Health, Failure>;

    /// Checks that this user may delete the entries that have ended, but deletes none. The default does nothing: it is
    /// for a server that deletes such entries itself.
    fn try_clean_up(&self, _attempt: &mut Attempt<Self::Connection>) -> Result<(), Failure> {
        Ok(())
    }
}

/// An attempt of a call, on one connection.
pub(crate) struct Attempt<C> {
    pub(crate) connection: C,
    /// The deadline of this attempt. On a connection that was idle, it is earlier than the call's deadline, so that
    /// there is time for another attempt.
    pub(crate) until: Moment,
    /// The deadline of the call.
    pub(crate) call_until: Moment,
    /// The time when the call began, if the server may have carried out an earlier attempt.
    pub(crate) asked_since: Option<Moment>,
    /// Whether the connection must not be used again, even if the attempt has its answers.
    pub(crate) is_broken: bool,
}

/// A request: the leases to end, and the admissions to decide on after that.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) ends: &'a [EndRequest],
    pub(crate) admissions: &'a [&'a Admission],
}

impl<'a> Request<'a> {
    pub(crate) fn to_end(ends: &'a [EndRequest]) -> Self {
        Self { ends, admissions: &[] }
    }
}

/// A request to end the lease or claim of a name, now or later, if `owner` holds it. It is a release, a minimum hold,
/// or a renewal.
#[derive(Clone, Debug)]
pub(crate) struct EndRequest {
    pub(crate) name: MutexName,
    pub(crate) owner: Owner,
    pub(crate) end: End,
}

impl EndRequest {
    pub(crate) fn of(lease: &Lease, end: End) -> Self {
        Self { name: lease.name().clone(), owner: lease.owner(), end }
    }
}

/// The time at which a lease is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// At once: a release.
    Now,
    /// At once: a release that also revokes the owner. If a copy of the owner's admission arrives after this release,
    /// the store does not grant the admission again.
    NowAndRevoked,
    /// One term from now: a renewal, or a minimum hold.
    After(Term),
}

/// The answers to a request.
#[derive(Default)]
pub(crate) struct Answers {
    /// The answers to the requests to end a name: whether the owner held the name when this attempt arrived, or until
    /// an earlier attempt of the call ended the lease.
    pub(crate) ends: Vec<Result<bool, Failure>>,
    pub(crate) admissions: Vec<Result<Admitted, Failure>>,
}

/// A held name with its holder. If the entry can't be read, the name has a failure in place of the holder.
pub(crate) type FoundEntry = (MutexName, Result<Holder, Failure>);

/// The warning that the server is a replica.
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) const IS_REPLICA: &str = "the server is a replica and can't be written to: connect to its primary";

/// The state of a server.
pub(crate) struct Health {
    /// The time of the server's clock.
    pub(crate) time: DateTime<Utc>,
    /// The time from now, by the server's clock, until the latest grant, or `None` if that grant lies in the past. A
    /// clock that was set back shows a latest grant in the future.
    pub(crate) ahead: Option<Duration>,
    /// Whether a check must not write: another server takes the writes, or the code of another user could run. One of
    /// the warnings then says so.
    pub(crate) skips_trial: bool,
    pub(crate) warnings: Vec<StoreWarning>,
}

/// A time of a server's clock, and the moment when it arrived here. The server read its clock before that moment, so
/// [`at`](Self::at) never returns a time that is later than the server's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClock {
    pub(crate) micros: i64,
    heard: Moment,
}

impl ServerClock {
    /// Makes the clock from the server's time in microseconds, which has just arrived.
    pub(crate) fn read(micros: i64) -> Self {
        Self { micros, heard: Clock::system().moment() }
    }

    /// Returns the last known time.
    pub(crate) fn time(self) -> DateTime<Utc> {
        instant(self.micros)
    }

    /// Returns the server's time, in microseconds, at a moment of this host.
    pub(crate) fn at(self, moment: Moment) -> i64 {
        let later = i64::try_from(moment.since(self.heard).as_micros()).unwrap_or(i64::MAX);
        self.micros.saturating_add(later)
    }
}

/// Returns the instant that is this many microseconds after 1970 began.
pub(crate) fn instant(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or(DateTime::UNIX_EPOCH)
}
