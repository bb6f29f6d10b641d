//! The trait `Engine`: what a store says to its server on one connection. The rest is the same for all kinds of servers.
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

/// What is said to one kind of server. Each method that is given a connection says it there, and hears the answer, before
/// the attempt ends. The core decides when, on which connection, how often, and what an answer means for the caller.
pub(crate) trait Engine: Send + Sync + Sized + 'static {
    /// What the public store is called.
    const STORE: &'static str;

    /// Whether releases and admissions go to the server in one round trip.
    const RELEASES_AND_ADMITS_AT_ONCE: bool;

    /// Whether the server may still carry out a request for as long as a call lasts after its answer was lost.
    const ACTS_LATE: bool;

    /// Whether what has ended leaves something behind, which [`clean_up`](Self::clean_up) deletes.
    const CLEANS_UP: bool;

    type Connection: ServerConnection;

    /// What the part of the server is called that this store uses, and its name, as in `["table", "soloist_mutexes"]`.
    fn namespace(&self) -> [&str; 2];

    /// Lets what is held end, and then decides on admissions, each of one owner and in one step. There is one answer for
    /// each, in the same order.
    ///
    /// A server that does not release and admit at once is asked for one of the two. An error says that all of it failed;
    /// if it is that a name [is locked](Failure::is_locked), the core asks for each alone.
    fn carry_out(&self, turn: &mut ServerTurn<Self::Connection>, asked: Asked<'_>) -> Result<Answers, Failure>;

    /// Reads which of these names are held, and by whom: those of one mutex in a row as of one moment.
    fn look(&self, turn: &mut ServerTurn<Self::Connection>, names: &[MutexName]) -> Result<Vec<FoundEntry>, Failure>;

    /// The leases of all mutexes whose names begin with `prefix`, each of them once.
    fn leases(&self, turn: &mut ServerTurn<Self::Connection>, prefix: &str) -> Result<Vec<FoundEntry>, Failure>;

    /// Reads the records of these events in the log of runs, in no order.
    fn runs(&self, turn: &mut ServerTurn<Self::Connection>, events: &[&str]) -> Result<Vec<NumberedRecord>, Failure>;

    /// Writes into the log of runs, in which the server numbers runs as they come. Those of an event stand together. A record
    /// that has no end undoes none that is there.
    fn log_runs(&self, turn: &mut ServerTurn<Self::Connection>, records: &[RunRecord]) -> Result<(), Failure>;

    /// Drops records from the log of runs. One that had no end is left if it has one now: that makes it the last
    /// success, perhaps, and who wrote that end drops what is too many then.
    fn drop_runs(&self, turn: &mut ServerTurn<Self::Connection>, dropped: &[DroppedRuns<'_>]) -> Result<(), Failure>;

    /// Adds to the numbers of skipped occurrences in the log of runs. Asked twice, it adds twice.
    fn count_skips(
        &self,
        turn: &mut ServerTurn<Self::Connection>,
        event: &str,
        skips: &[SkipCount],
    ) -> Result<(), Failure>;

    /// Reads the numbers of skipped occurrences in the log of runs.
    fn skips(&self, turn: &mut ServerTurn<Self::Connection>, event: &str) -> Result<Vec<SkipCount>, Failure>;

    /// What the server tells of itself.
    fn health(&self, turn: &mut ServerTurn<Self::Connection>) -> Result<Health, Failure>;

    /// Deletes what has ended long ago, at most [a batch](super::housekeeper::BATCH) of it, and waits for nobody. It says how
    /// much that was.
    fn clean_up(&self, _turn: &mut ServerTurn<Self::Connection>) -> Result<u64, Failure> {
        Ok(0)
    }

    /// What a failure is to the caller, with advice.
    fn error(&self, attempted: String, failure: Failure) -> MutexError {
        failure.into_error(attempted)
    }
}

/// A way to talk to the server. One on which something failed is not used again: its next answer might belong to the question
/// before.
pub(crate) trait ServerConnection: Sized + Send + 'static {
    type Address: ServerAddress;

    /// Connects and logs in. Whatever goes wrong, nothing was asked.
    fn open(target: &Target<Self::Address>, until: Moment) -> Result<Self, Failure>;

    /// Whether it ended while it was idle, or is not to be trusted any more. What is sent on one that has not may still be
    /// lost.
    fn is_closed(&mut self) -> bool;
}

/// Where an engine's server is.
pub(crate) type AddressOf<E> = <<E as Engine>::Connection as ServerConnection>::Address;

/// A connection, for one attempt.
pub(crate) struct ServerTurn<C> {
    pub(crate) connection: C,
    pub(crate) attempt: Attempt,
    /// Keeps the connection from being used again: another may lead to a server that is in a better state.
    pub(super) is_spoilt: bool,
}

/// One of the attempts to get an answer.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    /// When nobody waits for it any more.
    pub(crate) until: Moment,
    /// Whether the connection was just made, and never idle.
    pub(crate) is_fresh: bool,
    /// Whether the same was asked before, and may have been done.
    pub(crate) again: bool,
    /// When the first attempt began.
    pub(crate) began: Moment,
}

impl Attempt {
    /// How long ago the first attempt began, if it may have been done then.
    pub(crate) fn asked_before(&self) -> Option<Duration> {
        self.again.then(|| Clock::system().moment().since(self.began))
    }
}

/// What is to end, if this owner holds it.
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

/// What a server is asked for at once: first these end, and then it decides on admissions, each of which is one step.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) releases: &'a [ReleaseRequest],
    pub(crate) admissions: &'a [&'a Admission],
}

impl<'a> Asked<'a> {
    pub(crate) fn releases(releases: &'a [ReleaseRequest]) -> Self {
        Self { releases, admissions: &[] }
    }
}

/// When something ends that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Now,
    /// At once, if it began; and the owner is granted nothing more: a request of this owner may still be on its way.
    ForGood,
    /// One term from now, and no sooner or later.
    After(Term),
}

/// The answers to the releases, and to the admissions.
pub(crate) type Answers = (EachAnswer<Released>, EachAnswer<Decision>);

/// One answer for each name that the server was asked about.
pub(crate) type EachAnswer<T> = Vec<Result<T, Failure>>;

/// What becomes of one admission. The text says why the entry of its name can't be used.
pub(crate) type Decision = Result<Admitted, String>;

/// Who holds a name. A text says why its entry can't be read.
pub(crate) type FoundHolder = Result<Holder, String>;

/// A name that is held, and by whom.
pub(crate) type FoundEntry = (MutexName, FoundHolder);

/// The server's answer to one release, or extension.
#[derive(Clone, Copy)]
pub(crate) struct Released {
    pub(crate) was_ours: bool,
    /// It was not ours any more, because an earlier attempt of the same call has released it, as far as one can tell.
    pub(crate) went_before: bool,
}

/// Runs of an event that its log drops, by whether they had an end.
pub(crate) struct DroppedRuns<'a> {
    pub(crate) event: &'a str,
    pub(crate) ended: Vec<String>,
    pub(crate) not_ended: Vec<String>,
}

/// What a server tells of itself.
pub(crate) struct Health {
    /// What its clock shows.
    pub(crate) time: Option<DateTime<Utc>>,
    /// How far the grants of what is held lie in the future.
    pub(crate) ahead: Option<Duration>,
    pub(crate) warnings: Vec<StoreWarning>,
}
