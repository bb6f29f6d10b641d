//! The trait `Engine`: one kind of server, with its requests on one connection.
//!
//! A new kind of server is an address, a connection, and an engine.

use std::io;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::failure::Failure;
use super::server_builder::Target;
use super::server_url::ServerAddress;
use crate::base::error::MutexError;
use crate::lease::{holder::Holder, name::MutexName, owner::Owner, request::Lease, term::Term};
use crate::outcome::{
    run_record::RunRecord, run_record::numbered_record::NumberedRecord, run_record::skip_count::SkipCount,
};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::held::Names;
use crate::store::event_mutex::warning::StoreWarning;
use crate::time::{clock::Clock, clock::moment::Moment};

/// A kind of server. Each request is sent on the connection of an attempt, and its reply is read before the attempt ends. The caller
/// chooses the time and the connection, repeats the request if need be, and interprets the reply for the user.
pub(crate) trait Engine: Send + Sync + Sized + 'static {
    /// Whether the server may still commit a request after its reply was lost, for as long as a call lasts.
    const COMMITS_LATE: bool;

    type Address: ServerAddress;

    /// A connection. It is not used again after a failure, because its next reply might belong to the failed request.
    type Connection: Send + 'static;

    /// Runs a call on a thread that the driver may block. This is the calling thread, unless the driver must not block
    /// inside an asynchronous runtime.
    fn blocking<T: Send>(call: impl FnOnce() -> T + Send) -> io::Result<T> {
        Ok(call())
    }

    /// Returns the server, and the longest time of a call.
    fn target(&self) -> &Target<Self::Address>;

    /// Connects and logs in. A failure says that no request was carried out.
    fn open(&self, until: Moment) -> Result<Self::Connection, Failure>;

    /// Returns whether a connection has ended while it was idle. If it has not, a request on it may still be lost.
    fn is_closed(connection: &mut Self::Connection) -> bool;

    /// Ends leases, and then decides on admissions, each in one step. Returns one answer for each lease and each
    /// admission, in their order.
    fn carry_out(&self, attempt: &mut Attempt<Self::Connection>, request: Request<'_>) -> Result<Answers, Failure>;

    /// Reads which of these names are held, and by whom. Adjacent names of one mutex are read as of one moment.
    fn look(&self, attempt: &mut Attempt<Self::Connection>, names: &[MutexName]) -> Result<Vec<FoundEntry>, Failure>;

    /// Reads the leases with a prefix, or the markers of a mutex.
    fn list(&self, attempt: &mut Attempt<Self::Connection>, names: Names<'_>) -> Result<Vec<FoundEntry>, Failure>;

    /// Reads the records of these events in the log of runs, in no order.
    fn runs(&self, attempt: &mut Attempt<Self::Connection>, events: &[&str]) -> Result<Vec<NumberedRecord>, Failure>;

    /// Writes records into the log of runs. The server numbers runs as they arrive. The caller passes the records of
    /// each event next to one another. A record without an end replaces no other record.
    fn log_runs(&self, attempt: &mut Attempt<Self::Connection>, records: &[RunRecord]) -> Result<(), Failure>;

    /// Drops records from the log of runs. A record that was read without an end stays if it has an end now: the
    /// process that wrote the end then drops the surplus.
    fn drop_runs(&self, attempt: &mut Attempt<Self::Connection>, dropped: &[DroppedRuns<'_>]) -> Result<(), Failure>;

    /// Adds to the numbers of skipped occurrences in the log of runs. A request that is sent twice adds twice.
    fn count_skips(
        &self,
        attempt: &mut Attempt<Self::Connection>,
        event: &str,
        skips: &[SkipCount],
    ) -> Result<(), Failure>;

    /// Reads the numbers of skipped occurrences in the log of runs.
    fn skips(&self, attempt: &mut Attempt<Self::Connection>, event: &str) -> Result<Vec<SkipCount>, Failure>;

    /// Lists the events in the log of runs.
    fn logged_events(&self, attempt: &mut Attempt<Self::Connection>) -> Result<Vec<String>, Failure>;

    /// Reads the state of the server.
    fn health(&self, attempt: &mut Attempt<Self::Connection>) -> Result<Health, Failure>;

    /// Returns the error of the store for a failure, with advice.
    fn error(&self, attempted: String, failure: Failure) -> MutexError {
        failure.into_error(attempted)
    }
}

/// An attempt of a call, on one connection.
pub(crate) struct Attempt<C> {
    pub(crate) connection: C,
    /// The deadline of this attempt. On a connection that was idle, some of the call's time is kept for another attempt.
    pub(crate) until: Moment,
    /// The deadline of the call.
    #[cfg_attr(not(feature = "sql"), expect(dead_code))]
    pub(super) call_until: Moment,
    /// The beginning of the call, if the server may have carried out an earlier attempt.
    pub(crate) asked_since: Option<Moment>,
    /// Whether the connection must not be used again, although the attempt has its answers.
    pub(crate) is_broken: bool,
}

impl<C> Attempt<C> {
    /// Lets the attempt last until the deadline of the call, because no other attempt follows.
    #[cfg(feature = "sql")]
    pub(crate) fn take_all_time(&mut self) {
        self.until = self.call_until;
    }

    /// Returns how long ago the call began, if the server may have carried out an earlier attempt.
    pub(crate) fn asked_before(&self) -> Option<Duration> {
        Some(Clock::system().moment().since(self.asked_since?))
    }
}

/// A request: leases to end, and then admissions.
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

/// The request to end the lease or claim of a name, now or later, if this owner holds it: a release, a minimum hold, or a renewal.
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
    /// At once, and the owner is granted nothing more, because one of its requests may still be on its way. This is the
    /// release of a name that this process may hold without knowing it.
    NowAndRevoked,
    /// One term from now: a renewal, or a minimum hold.
    After(Term),
}

/// The answers to a request.
#[derive(Default)]
pub(crate) struct Answers {
    /// Whether the owner held each name, now or before an earlier attempt of the call.
    pub(crate) ends: Vec<Result<bool, Failure>>,
    pub(crate) admissions: Vec<Result<Admitted, Failure>>,
}

/// A name that is held, and its holder, if the entry can be read.
pub(crate) type FoundEntry = (MutexName, Result<Holder, Failure>);

/// The runs that the log of an event drops, split by whether they had an end when they were read.
pub(crate) struct DroppedRuns<'a> {
    pub(crate) event: &'a str,
    pub(crate) ended: Vec<String>,
    pub(crate) not_ended: Vec<String>,
}

/// The warning of a server that is a replica.
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) const IS_REPLICA: &str = "the server is a replica and can't be written to: connect to its primary";

/// The state of a server.
pub(crate) struct Health {
    /// The time of the server's clock.
    pub(crate) time: Option<DateTime<Utc>>,
    /// How far the grants of live leases lie in the future.
    pub(crate) ahead: Option<Duration>,
    pub(crate) warnings: Vec<StoreWarning>,
}
