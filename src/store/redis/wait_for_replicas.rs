//! The wait until replicas have confirmed a change, for URLs with `?wait=`.

use redis::cmd;

use super::connection::Connection;
use super::engine::RedisEngine;
use super::scripts::{TOKEN_KEPT, replies};
use super::server_error::read;
use crate::store::event_mutex::admission::Admitted;
use crate::store::server::engine::{Answers, Attempt};
use crate::store::server::failure::{AskAgain, Failure};
use crate::time::clock::Clock;

impl RedisEngine {
    /// Waits until enough replicas have the changes. If too few replicas confirm in time:
    ///
    /// - All requests to end a name fail. A request to end a name that was not held also fails: an earlier request may
    ///   have released the name without a confirmation, or this server has restarted without its data, and a replica
    ///   with the data takes its place.
    /// - The granted admissions fail, as if their answers were lost: a later call releases their leases and claims. The
    ///   refused admissions of the request also fail, because such a lease or claim may have been the reason of the
    ///   refusal.
    pub(super) fn wait_for_replicas(&self, attempt: &mut Attempt<Connection>, answers: &mut Answers) {
        let is_granted = answers.admissions.iter().any(|decided| matches!(decided, Ok(Admitted::Granted(_))));
        if answers.ends.is_empty() && !is_granted {
            return;
        }
        attempt.until = attempt.call_until; // The connection works, so no time is kept for another.
        let Err(failure) = self.confirm(attempt).map_err(|failure| failure.perhaps_done(true)) else { return };
        for was_ours in answers.ends.iter_mut().filter(|was_ours| was_ours.is_ok()) {
            *was_ours = Err(failure.clone());
        }
        if is_granted {
            answers.admissions.fill(Err(failure));
        }
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
