//! An admission: a read of its rows, and a transaction that writes them.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use super::admission_plan::AdmissionPlan;
use super::clean_up::clean_up_at_times;
use super::row_key::row_key;
use super::session::{Session, last_number, list, rows};
use super::snapshot::Snapshot;
use crate::lease::token::FencingToken;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::server::{engine::Attempt, failure::Failure};
use crate::time::clock::{Clock, random_below};

/// The longest pause after a lost race; after the first lost race, there is no pause. A pause is random, so that
/// processes that ask for one name do not retry together. A pause is also at most four times as long as the failed
/// write took.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Placeholder: no token was assigned, because nothing was written.
const NO_TOKEN: FencingToken = FencingToken::new(0);

/// The message if other processes were faster each time.
const CROWD: &str =
    "too many processes ask for this name at the same moment, and this one lost each race until its timeout";

/// The advice if other processes were faster each time, but no read returned the rows of the fastest.
const PROXY: &str = "if a proxy sends reads to a replica, connect to the primary";

/// Reads the rows, and writes the rows of the granted admissions. If another process wins the race between the read
/// and the write, or if the transaction conflicts with another, the admission starts again, until the deadline.
///
/// After a lock timeout, the rows are read again. If the rows have changed, another admission held the lock, and
/// this admission goes on with the new rows. If the rows are unchanged, a transaction that is still open holds the
/// lock, and this admission fails.
pub(super) fn admit<S: Session>(
    attempt: &mut Attempt<S>,
    admissions: &[&Admission],
) -> Result<Vec<Result<Admitted, Failure>>, Failure> {
    let asked = admissions.iter().flat_map(|admission| admission.requests());
    let asked: BTreeSet<String> = asked.map(|request| row_key(request.name())).collect();
    let excluding = admissions.iter().flat_map(|admission| admission.excluded_by()).map(row_key).collect();
    let mut lost: Option<Failure> = None;
    // The rows before a lock timeout, the server's error, and the time that the failed write took.
    let mut locked: Option<(Snapshot, Failure, Duration)> = None;
    loop {
        let look = look_and_shorten(attempt, &asked, &excluding)?;
        let plan = AdmissionPlan::new(admissions, &look, NO_TOKEN);
        if plan.rows.is_empty() {
            return Ok(plan.decisions);
        }
        let began = Clock::system().moment();
        match locked.take() {
            Some((before, failure, _)) if look.is_as(&before) => return Err(failure),
            Some((_, failure, took)) if began.plus(took) >= attempt.until => return Err(failure.advised(CROWD)),
            _ => {}
        }
        if began >= attempt.until
            && let Some(failure) = lost
        {
            return Err(failure);
        }
        let written = write(attempt, &plan, &look);
        attempt.until = attempt.call_until; // The connection works, so no time is kept for another.
        let failure = match written {
            Ok(None) => Failure::unreadable(CROWD).advised(PROXY),
            Ok(Some(token)) => return Ok(AdmissionPlan::new(admissions, &look, token).decisions),
            Err(failure) if failure.is_conflict() => failure.of_one_name().advised(CROWD),
            Err(failure) if failure.is_of_one_name() => {
                locked = Some((look, failure, Clock::system().moment().since(began)));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        // After the first lost race there is no pause, because the next read usually shows the winner.
        if lost.replace(failure).is_some() {
            let now = Clock::system().moment();
            let longest = LONGEST_PAUSE.min(attempt.until.since(now) / 4);
            thread::sleep(random_below(longest.min(4 * now.since(began))));
        }
    }
}

/// Reads the rows. If the end of an asked name is more than one term away, the server's clock was set back after
/// the last grant or renewal. In this case, the end is moved to one term from now, and the rows are read again. A
/// living holder renews its lease before this new end.
fn look_and_shorten<S: Session>(
    attempt: &mut Attempt<S>,
    asked: &BTreeSet<String>,
    excluding: &BTreeSet<String>,
) -> Result<Snapshot, Failure> {
    let look = |attempt: &mut _| {
        Snapshot::of_keys(attempt, asked.union(excluding)).map_err(|failure| failure.undone().of_the_store())
    };
    let first = look(attempt)?;
    let longer: Vec<&String> = asked.iter().filter(|key| first.outlasts_its_term(key)).collect();
    if longer.is_empty() {
        return Ok(first);
    }
    rows(attempt, S::SHORTEN, &[("names", &list(longer))]).map_err(Failure::undone)?;
    look(attempt)
}

/// Writes the rows of a plan, all or none, and then cleans up at times. Returns the token of the rows, or
/// `None` if another process was faster.
fn write<S: Session>(
    attempt: &mut Attempt<S>,
    plan: &AdmissionPlan,
    look: &Snapshot,
) -> Result<Option<FencingToken>, Failure> {
    let until = attempt.until;
    let statements = plan.statements::<S>(attempt.connection.tables(), look, until);
    let answer = attempt.connection.query(&statements, until)?;
    if last_number::<S, u64>(&answer, 0)? == 0 {
        return Ok(None);
    }
    let token = last_number::<S, u64>(&answer, 1)?;
    clean_up_at_times(attempt, plan.rows.len());
    Ok(Some(FencingToken::new(token)))
}
