//! An admission: a read of its rows, and a transaction that writes them.

use std::collections::BTreeSet;
use std::mem;
use std::thread;
use std::time::Duration;

use super::admission_plan::AdmissionPlan;
use super::engine::SqlEngine;
use super::row_key::RowKey;
use super::session::{Session, TRIES, count, list, rows};
use super::snapshot::Snapshot;
use crate::lease::token::FencingToken;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::server::{engine::Attempt, failure::Failure, server_url::ServerAddress};
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

/// The message if other processes were faster each time, and no read showed the rows that they wrote.
const UNSEEN: &str = "it lost the race to other processes each time, and no read showed their rows: if a proxy sends reads to a \
                      replica, connect to the primary";

/// The reason why a transaction wrote nothing, although the earlier read had found all rows free.
enum Lost {
    /// Another process was faster. `was_elected: true`: this process could write, but another process had written since
    /// the read. `false`, on PostgreSQL only: several processes asked at the same moment, and another process was
    /// elected to write.
    ToAnother { was_elected: bool },
    /// Another transaction had locked a row. The duration is the time that the failed write took.
    ToLock(Failure, Duration),
}

impl<S: Session> SqlEngine<S> {
    /// Reads the rows, and writes the rows of the granted admissions. If another process wins the race between the read
    /// and the write, the admission starts again.
    ///
    /// After a lock timeout, the rows are read again. If the rows have changed, another admission held the lock, and
    /// this admission goes on with the new rows. If the rows are unchanged, a transaction that is still open holds the
    /// lock, and this admission fails.
    pub(super) fn admit(
        &self,
        attempt: &mut Attempt<S>,
        admissions: &[&Admission],
    ) -> Result<Vec<Result<Admitted, Failure>>, Failure> {
        let until = attempt.until;
        let asked = admissions.iter().flat_map(|admission| admission.requests());
        let asked: BTreeSet<RowKey> = asked.map(|request| RowKey::of(request.name())).collect();
        let excluding = admissions.iter().flat_map(|admission| admission.excluded_by()).map(RowKey::of).collect();
        // The number of this attempt, up to `TRIES`. The number rises after a conflict of transactions. The number also
        // rises after a lost race, if this process was elected, and the next read does not show the winner's rows. A
        // read that shows these rows resets the number to 1.
        let mut tries = 1;
        let (mut last, mut has_lost): (Option<(Snapshot, Lost)>, _) = (None, false);
        loop {
            let look = self.look_and_shorten(attempt, &asked, &excluding)?;
            let plan = AdmissionPlan::new(admissions, &look, NO_TOKEN);
            if plan.rows.is_empty() {
                return Ok(plan.decisions);
            }
            let began = Clock::system().moment();
            match last.take() {
                Some((before, Lost::ToLock(failure, _))) if look.is_as(&before) => return Err(failure),
                Some((_, Lost::ToLock(failure, took))) if began.plus(took) >= until => {
                    return Err(failure.advised(CROWD));
                }
                None | Some((_, Lost::ToLock(..))) => {}
                Some((before, Lost::ToAnother { was_elected })) if look.is_as(&before) => {
                    tries += u32::from(was_elected);
                }
                Some((_, Lost::ToAnother { .. })) => tries = 1, // The read shows the winners: go on until the deadline.
            }
            if tries > TRIES || has_lost && began >= until {
                return Err(Failure::lost_each_race(if tries > TRIES { UNSEEN } else { CROWD }));
            }
            match self.write(attempt, &plan, &look) {
                Ok((0, token)) => last = Some((look, Lost::ToAnother { was_elected: token != NO_TOKEN })),
                Ok((_, token)) => return Ok(AdmissionPlan::new(admissions, &look, token).decisions),
                Err(failure) if failure.is_of_one_name() => {
                    last = Some((look, Lost::ToLock(failure, Clock::system().moment().since(began))));
                    continue;
                }
                Err(failure) if !failure.is_conflict() || tries == TRIES => return Err(failure),
                Err(_) => tries += 1,
            }
            // After the first lost race there is no pause, because the next read usually shows the winner.
            if mem::replace(&mut has_lost, true) {
                let now = Clock::system().moment();
                let longest = LONGEST_PAUSE.min(until.since(now) / 4);
                thread::sleep(random_below(longest.min(4 * now.since(began))));
            }
        }
    }

    /// Reads the rows. If the end of an asked name is more than one term away, the server's clock was set back after
    /// the last grant or renewal. In this case, the end is moved to one term from now, and the rows are read again. A
    /// living holder renews its lease before this new end.
    fn look_and_shorten(
        &self,
        attempt: &mut Attempt<S>,
        asked: &BTreeSet<RowKey>,
        excluding: &BTreeSet<RowKey>,
    ) -> Result<Snapshot, Failure> {
        let look = |attempt: &mut _| {
            self.look_at(attempt, asked.union(excluding)).map_err(|failure| failure.undone().of_the_store())
        };
        let first = look(attempt)?;
        let longer: Vec<&RowKey> = asked.iter().filter(|key| first.outlasts_its_term(key)).collect();
        if longer.is_empty() {
            return Ok(first);
        }
        rows(attempt, S::SHORTEN, &[("names", &list(longer))]).map_err(Failure::undone)?;
        look(attempt)
    }

    /// Writes the rows of a plan, all or none, and then cleans up if that is due. Returns the number of written rows,
    /// and their token. On PostgreSQL, the token is 0 if another process was elected to write.
    fn write(
        &self,
        attempt: &mut Attempt<S>,
        plan: &AdmissionPlan,
        look: &Snapshot,
    ) -> Result<(u64, FencingToken), Failure> {
        let until = attempt.until;
        let statements = plan.statements::<S>(attempt.connection.tables(), look, until);
        let answer = attempt.connection.query(&statements, until)?;
        let (written, token) = (count::<S>(&answer)?, answer.last().and_then(|row| row.get(1)?.parse().ok()));
        let token = token.ok_or_else(|| Failure::not_understood(&answer, S::Address::KIND))?;
        if written > 0 {
            self.uncleaned.add(plan.rows.len(), attempt);
        }
        Ok((written, FencingToken::new(token)))
    }
}
