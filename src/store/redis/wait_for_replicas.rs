//! The wait until replicas have confirmed a change, for URLs with `?wait=`.

use redis::cmd;

use super::connection::Connection;
use super::engine::RedisEngine;
use super::scripts::{TOKEN_KEPT, replies};
use super::server_error::read;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::server::engine::{Answers, Attempt, End, EndRequest, Request};
use crate::store::server::failure::{AskAgain, Failure};
use crate::time::clock::Clock;

impl RedisEngine {
    /// Waits until enough replicas have the changes. If too few replicas confirm in time:
    ///
    /// - All requests to end a name fail. A request to end a name that was not held also fails: an earlier request may
    ///   have released the name without a confirmation, or this server has restarted without its data, and a replica
    ///   with the data takes its place.
    /// - The granted admissions fail. The last attempt of the call releases their leases and claims. The refused
    ///   admissions of the request also fail, because a released lease or claim may have been the reason of the refusal.
    pub(super) fn wait_for_replicas(
        &self,
        attempt: &mut Attempt<Connection>,
        admissions: &[&Admission],
        answers: &mut Answers,
    ) {
        let is_granted = |decided: &_| matches!(decided, Ok(Admitted::Granted(_)));
        let granted = admissions.iter().zip(&answers.admissions).filter(|(_, decided)| is_granted(decided));
        let granted: Vec<&Admission> = granted.map(|(admission, _)| *admission).collect();
        if answers.ends.is_empty() && granted.is_empty() {
            return;
        }
        let Err(failure) = self.confirm(attempt) else { return };
        // After a failure on an idle connection, another attempt follows. So nothing is released on an idle connection:
        // the release could arrive after the other attempt has confirmed the grant, and would end the lease of a run.
        let is_released = attempt.until >= attempt.call_until && self.give_up(attempt, &granted);
        for was_ours in answers.ends.iter_mut().filter(|was_ours| was_ours.is_ok()) {
            *was_ours = Err(failure.clone().perhaps_done(true));
        }
        if !granted.is_empty() {
            answers.admissions.fill(Err(failure.perhaps_done(!is_released || attempt.asked_since.is_some())));
        }
    }

    /// Releases the leases and claims of granted admissions. Returns whether all of them were released.
    fn give_up(&self, attempt: &mut Attempt<Connection>, granted: &[&Admission]) -> bool {
        let requests = granted.iter().flat_map(|admission| admission.requests());
        let given_up =
            requests.map(|request| EndRequest { name: request.name().clone(), owner: request.owner(), end: End::Now });
        let released = self.call_script(attempt, Request::to_end(&given_up.collect::<Vec<_>>()));
        released.is_ok_and(|answers| answers.ends.iter().all(Result::is_ok))
    }

    /// Waits until enough replicas have all writes of the server. The wait takes at most half of the time that is left.
    fn confirm(&self, attempt: &mut Attempt<Connection>) -> Result<(), Failure> {
        let left = attempt.until.since(Clock::system().moment());
        let needed = self.target.address.replicas;
        let wait = cmd("WAIT").arg(needed).arg((left.as_millis() / 2).max(1)).take();
        // `WAIT` waits only for the writes of this connection, but an earlier attempt may have written the grant on
        // another connection. So a harmless write on this connection comes first: a replica that has this write has all
        // earlier writes, too. It needs no memory, so that a server whose memory is full still renews and releases.
        let write = cmd("PEXPIRE").arg(self.prefix.with("token")).arg(TOKEN_KEPT.as_millis()).take();
        let answers = replies(attempt, [write, wait])?;
        let count: u32 = read(&answers[1])?;
        if count < needed {
            let what = format!(
                "only {count} of {needed} replicas confirmed the change in time: check the replicas, or lower `wait` in the url"
            );
            return Err(Failure::unavailable(what, AskAgain::Never));
        }
        Ok(())
    }
}
