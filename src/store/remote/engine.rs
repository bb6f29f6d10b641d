//! The trait `Engine`: the requests of a store on one connection. The rest is alike for all kinds of servers.
//!
//! A new kind is an address, a connection, and an engine: the statements that are sent there.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::failure::Failure;
use super::server_builder::Target;
use super::server_url::ServerAddress;
use crate::base::error::MutexError;
use crate::lease::{holder::Holder, name::MutexName, owner::Owner, request::Lease, term::Term};
use crate::observe::run_record::{RunRecord, numbered_record::NumberedRecord, skip_count::SkipCount};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::warning::StoreWarning;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The requests to one kind of server. Each method sends its request on the connection of an attempt, and reads the reply
/// before the attempt ends. The core decides when, on which connection, how often, and what an answer means for the caller.
pub(crate) trait Engine: Send + Sync + Sized + 'static {
    /// The name of the public store.
    const STORE: &'static str;

    /// Whether the server may still commit a request for as long as a call lasts after its answer was lost.
    const COMMITS_LATE: bool;

    type Connection: ServerConnection;

    /// Returns the kind and the name of the part of the server that this store uses, as in `["table", "soloist_mutexes"]`.
    fn namespace(&self) -> [&str; 2];

    /// Releases, and then decides on admissions, each in one step. There is one answer for each, in their order.
    fn carry_out(&self, turn: &mut Attempt<Self::Connection>, request: Request<'_>) -> Result<Answers, Failure>;

    /// Reads which of these names are held, and by whom: those of one mutex in a row as of one moment.
    fn look(&self, turn: &mut Attempt<Self::Connection>, names: &[MutexName]) -> Result<Vec<FoundEntry>, Failure>;

    /// Reads the leases of all mutexes whose names begin with `prefix`, each of them once.
    fn leases(&self, turn: &mut Attempt<Self::Connection>, prefix: &str) -> Result<Vec<FoundEntry>, Failure>;

    /// Reads the records of these events in the log of runs, in no order.
    fn runs(&self, turn: &mut Attempt<Self::Connection>, events: &[&str]) -> Result<Vec<NumberedRecord>, Failure>;

    /// Writes into the log of runs, in which the server numbers runs as they come. Those of an event stand together. A record
    /// that has no end undoes none that is there.
    fn log_runs(&self, turn: &mut Attempt<Self::Connection>, records: &[RunRecord]) -> Result<(), Failure>;

    /// Drops records from the log of runs. One that had no end is left if it has one now: that makes it the last
    /// success, perhaps, and who wrote that end drops what is too many then.
    fn drop_runs(&self, turn: &mut Attempt<Self::Connection>, dropped: &[DroppedRuns<'_>]) -> Result<(), Failure>;

    /// Adds to the numbers of skipped occurrences in the log of runs. Asked twice, it adds twice.
    fn count_skips(
        &self,
        turn: &mut Attempt<Self::Connection>,
        event: &str,
        skips: &[SkipCount],
    ) -> Result<(), Failure>;

    /// Reads the numbers of skipped occurrences in the log of runs.
    fn skips(&self, turn: &mut Attempt<Self::Connection>, event: &str) -> Result<Vec<SkipCount>, Failure>;

    /// Reads what the server tells of itself.
    fn health(&self, turn: &mut Attempt<Self::Connection>) -> Result<Health, Failure>;

    /// Returns the error of the store for a failure, with advice.
    fn error(&self, attempted: String, failure: Failure) -> MutexError {
        failure.into_error(attempted)
    }
}

/// A connection to the server. One on which something failed is not used again: its next answer might belong to the question
/// before.
pub(crate) trait ServerConnection: Sized + Send + 'static {
    type Address: ServerAddress;

    /// Connects and logs in. Whatever goes wrong, nothing was asked.
    fn open(target: &Target<Self::Address>, until: Moment) -> Result<Self, Failure>;

    /// Returns whether it ended while it was idle, or is not to be trusted any more. A request on another may still be lost.
    fn is_closed(&mut self) -> bool;
}

/// The address of an engine's server.
pub(crate) type AddressOf<E> = <<E as Engine>::Connection as ServerConnection>::Address;

/// An attempt to carry out a call, on one connection.
pub(crate) struct Attempt<C> {
    pub(crate) connection: C,
    /// The deadline of this attempt. Some of the call's time is kept for another one, if the connection was idle.
    pub(crate) until: Moment,
    /// The deadline of the call.
    #[cfg_attr(not(feature = "sql"), expect(dead_code))]
    pub(crate) call_until: Moment,
    /// The beginning of the call, if an earlier attempt of it may have been carried out.
    pub(crate) began_before: Option<Moment>,
    /// Whether no call may use the connection again, although this one has its answers.
    pub(crate) is_broken: bool,
}

impl<C> Attempt<C> {
    /// Returns how long ago the call began, if an earlier attempt of it may have been carried out.
    pub(crate) fn asked_before(&self) -> Option<Duration> {
        Some(Clock::system().moment().since(self.began_before?))
    }
}

/// A request: releases, and then admissions.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) releases: &'a [ReleaseRequest],
    pub(crate) admissions: &'a [&'a Admission],
}

impl<'a> Request<'a> {
    pub(crate) fn releases(releases: &'a [ReleaseRequest]) -> Self {
        Self { releases, admissions: &[] }
    }
}

/// The release of a name, if this owner holds it.
#[derive(Clone, Debug)]
pub(crate) struct ReleaseRequest {
    pub(crate) name: MutexName,
    pub(crate) owner: Owner,
    pub(crate) ending: Ending,
}

impl ReleaseRequest {
    pub(crate) fn of(lease: &Lease, ending: Ending) -> Self {
        Self { name: lease.name().clone(), owner: lease.owner(), ending }
    }
}

/// The time at which a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Now,
    /// At once, if it began; and the owner is granted nothing more: a request of this owner may still be on its way.
    ForGood,
    /// One term from now, and no sooner or later.
    After(Term),
}

/// The answers to a request.
#[derive(Default)]
pub(crate) struct Answers {
    /// Whether the owner held each name, now or when an earlier attempt of the call has released it, as far as one can tell.
    pub(crate) releases: Vec<Result<bool, Failure>>,
    pub(crate) admissions: Vec<Result<Admitted, Failure>>,
}

/// A name that is held, and its holder, if its entry can be read.
pub(crate) type FoundEntry = (MutexName, Result<Holder, Failure>);

/// The runs of an event that its log drops, by whether they had an end.
pub(crate) struct DroppedRuns<'a> {
    pub(crate) event: &'a str,
    pub(crate) ended: Vec<String>,
    pub(crate) not_ended: Vec<String>,
}

/// The server's own words about its state.
pub(crate) struct Health {
    /// The time that its clock shows.
    pub(crate) time: Option<DateTime<Utc>>,
    /// How far the grants of what is held lie in the future.
    pub(crate) ahead: Option<Duration>,
    pub(crate) warnings: Vec<StoreWarning>,
}
