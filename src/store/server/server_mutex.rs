//! The implementation of `EventMutex` for all kinds of servers: the answers for the user, and the releases that follow
//! a lost answer.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::attempts::Server;
use super::engine::{Attempt, End, EndRequest, Engine, FoundEntry, Health, Request};
use super::failure::Failure;
use super::server_run_log::LogEngine;
use super::server_url::ServerAddress;
use crate::base::error::{MutexError, MutexErrorKind};
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{holder::Holder, name::MutexName, owner::Owner, term::Term};
use crate::outcome::paused::{EVENT_PAUSED, PAUSED};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::{Batch, LeaseRelease, Slot};
use crate::store::event_mutex::description::{Description, Scope};
use crate::store::event_mutex::held::{Held, Names};
use crate::store::event_mutex::run_log::RunLog;
use crate::store::event_mutex::warning::StoreWarning;
use crate::store::event_mutex::{EventMutex, attempted_extension, create_by_admission};
use crate::time::clock::{Clock, LITTLE_STEP, shown::HumanDuration};

/// The greatest difference between two clocks that count as synchronised.
const CLOCKS_DIFFER: Duration = Duration::from_secs(10);

/// The failure of a trial, if its marker was not free at first, or was lost within its term.
const NOT_KEPT: &str = "a new entry did not stay as it was written: find out what changes or hides the entries of the store, for \
                        example a trigger, or row-level security";

impl<E: Engine> Server<E> {
    pub(crate) fn address(&self) -> &E::Address {
        &self.engine.target().address
    }

    /// Converts the server's answer to an admission into the user's answer. `again` says that the server may have
    /// carried out an earlier attempt. If the answer is no grant, but an attempt may have been granted, a later call
    /// releases the lease, the claim or the marker.
    fn admitted(
        &self,
        admission: &Admission,
        answer: Result<Admitted, Failure>,
        again: bool,
    ) -> Result<Admitted, MutexError> {
        let may_be_ours = match &answer {
            Ok(Admitted::Granted(_)) => false,
            // This attempt was refused. But an earlier attempt may have been granted, or may still be granted.
            Ok(_) => again,
            Err(failure) => again || failure.may_have_happened,
        };
        if may_be_ours {
            let now = Clock::system().moment();
            let latest = now.plus(2 * self.engine.target().timeout);
            let from = if E::COMMITS_LATE { vec![now, latest] } else { vec![now] };
            // A pause is not released, because another process may have prolonged it meanwhile, under the same owner.
            let is_pause = |name: &MutexName| name.marked().is_some_and(|mark| [PAUSED, EVENT_PAUSED].contains(&mark));
            for request in admission.requests().filter(|request| !is_pause(request.name())) {
                let until = latest.plus(request.term().get());
                self.release_after(request.name(), request.owner(), &from, until, false);
            }
        }
        match answer.map_err(|failure| self.failed(admission.attempted(), failure))? {
            Admitted::LeaseTaken(Some(own)) | Admitted::ClaimTaken(Some(own))
                if again && own.owner() == admission.request().owner() =>
            {
                Err(MutexError::granted_too_late(admission.attempted()))
            }
            admitted => Ok(admitted),
        }
    }

    /// Converts the server's answer to a release into the user's answer. If the release failed, it is sent again with a
    /// later call, but not before the minimum hold is over.
    fn released(&self, asked: &LeaseRelease, answer: Result<bool, Failure>, again: bool) -> Result<bool, MutexError> {
        let (lease, now) = (asked.lease(), Clock::system().moment());
        match answer {
            // If there was an earlier attempt, and the lease's deadline has passed, the lease may have ended by itself
            // before that attempt. The answer is then `false`, because perhaps no release ended the lease.
            Ok(was_ours) => Ok(was_ours && !(again && lease.deadline() <= now)),
            Err(failure) => {
                let from = now.plus(asked.minimum_hold().map_or(Duration::ZERO, Term::get));
                let (until, holds) = (from.plus(lease.term().get()), asked.minimum_hold().is_some());
                self.release_after(lease.name(), lease.owner(), &[from], until, holds);
                Err(self.failed(asked.attempted(), failure))
            }
        }
    }

    /// Tries the requests of a run: two owners ask for a marker, which only the first is granted. Then the marker is
    /// read, renewed and released. After a failure, the marker ends with its term. No other request has the marker's
    /// name.
    fn try_marker(&self) -> Result<(), Failure> {
        let soloist = MutexName::lease("soloist").expect("it is a name");
        let id = Owner::unique();
        let [marker, free] = ["", ", a free name"].map(|what| soloist.mark("soloist", format!("check {id}{what}")));
        let request = || LeaseRequest::new(marker.clone(), Term::DEFAULT, &Clock::system());
        let (ours, theirs) = (request(), request());
        let owner = ours.owner();
        let admissions = [Admission::of(ours).unless(free), Admission::of(theirs)];
        let (_, decided) = self.decide(Request { ends: &[], admissions: &admissions.each_ref() });
        let decided = decided.answers.into_iter().collect::<Result<Vec<Admitted>, Failure>>()?;
        let mut is_kept = matches!(decided[..], [Admitted::Granted(_), Admitted::ClaimTaken(_)]);
        for (_, holder) in self.call(|attempt| self.engine.held(attempt, Names::of(&marker)))? {
            is_kept &= holder?.owner() == owner;
        }
        for end in [End::After(Term::DEFAULT), End::Now] {
            let (ended, _) = self.decide(Request::to_end(&[EndRequest { name: marker.clone(), owner, end }]));
            for was_ours in ended.answers {
                is_kept &= was_ours?;
            }
        }
        if !is_kept {
            return Err(Failure::unusable(NOT_KEPT));
        }
        self.call(|attempt| self.engine.try_clean_up(attempt))
    }

    /// Calls the server as [`call`](Self::call) does, and describes a failure with the text `attempted`.
    pub(crate) fn ask<T>(
        &self,
        attempted: impl fmt::Display,
        exchange: impl FnMut(&mut Attempt<E::Connection>) -> Result<T, Failure>,
    ) -> Result<T, MutexError> {
        self.call(exchange).map_err(|failure| self.failed(attempted, failure))
    }

    pub(crate) fn failed(&self, attempted: impl fmt::Display, failure: Failure) -> MutexError {
        failure.into_error(format!("{attempted} in {}", self.address()))
    }
}

/// Shows the server under the name of its public type, such as `RedisMutex`.
#[expect(clippy::missing_fields_in_debug, reason = "its connections and pending releases are no part of its identity")]
impl<E: Engine> fmt::Debug for Server<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.engine.target();
        f.debug_struct(E::Address::STORE)
            .field("server", &target.address.to_string())
            .field(E::Address::NAMESPACE, &target.namespace)
            .finish()
    }
}

impl<E: LogEngine> EventMutex for Server<E> {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        create_by_admission(self, request)
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.ask(format_args!("read {name}"), |attempt| Ok(!self.engine.held(attempt, Names::of(name))?.is_empty()))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        let mut batch = Batch::new();
        batch.release(lease.clone());
        self.carry_out(&mut batch);
        batch.releases()[0].answer().cloned().expect("each slot is filled")
    }

    fn describe(&self) -> Description {
        Description::of(self).with_scope(Scope::Fleet).with_extension()
    }

    fn carry_out(&self, batch: &mut Batch) {
        let (releases, admissions) = batch.slots_mut();
        let end = |slot: &Slot<LeaseRelease, bool>| {
            EndRequest::of(slot.asked().lease(), slot.asked().minimum_hold().map_or(End::Now, End::After))
        };
        let ends: Vec<EndRequest> = releases.iter().map(end).collect();
        let asked: Vec<&Admission> = admissions.iter().map(Slot::asked).collect();
        let (ended, decided) = self.decide(Request { ends: &ends, admissions: &asked });
        for (slot, answer) in admissions.iter_mut().zip(decided.answers) {
            slot.fill(self.admitted(slot.asked(), answer, decided.again));
        }
        for (slot, answer) in releases.iter_mut().zip(ended.answers) {
            slot.fill(self.released(slot.asked(), answer, ended.again));
        }
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        let ends: Vec<EndRequest> = leases.iter().map(|slot| EndRequest::of(slot.asked(), End::After(term))).collect();
        let (ended, _) = self.decide(Request::to_end(&ends));
        for (slot, answer) in leases.iter_mut().zip(ended.answers) {
            slot.fill(answer.map_err(|failure| self.failed(attempted_extension(slot.asked()), failure)));
        }
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        let look_up = |name: &MutexName| format!("read {}", name.in_words());
        let attempted = match names {
            Names::Each([]) => return Ok(Vec::new()),
            Names::Each([first, ..]) => look_up(first),
            Names::LeasesWithPrefix(_) => "list the leases".to_owned(),
            Names::MarksOf(_) => "list the markers".to_owned(),
        };
        let found = self.ask(attempted, |attempt| self.engine.held(attempt, names))?;
        let held = |(name, holder): FoundEntry| match (holder, names) {
            (Err(failure), Names::Each(_)) => Err(self.failed(look_up(&name), failure)),
            // In a list, an entry that can't be read must not hide the others.
            (holder, _) => Ok(Held::new(name, holder.ok())),
        };
        found.into_iter().map(held).collect()
    }

    fn break_lease(&self, name: &MutexName) -> Result<Option<Held>, MutexError> {
        let held = self.held(Names::of(name))?.pop();
        // The request names the owner that was just read. So it breaks no other lease, even if it arrives late or
        // twice. It is also sent if the name is free, because replicas may still have to confirm an earlier release.
        let holder = held.as_ref().and_then(Held::holder);
        let owner = holder.map_or_else(Owner::unique, Holder::owner);
        let end = EndRequest { name: name.clone(), owner, end: End::Now };
        let (mut ended, _) = self.decide(Request::to_end(&[end]));
        let failed = |failure| self.failed(format_args!("break {}", name.in_words()), failure);
        let ended = ended.answers.remove(0).map_err(failed)?;
        Ok(held.filter(|_| ended))
    }

    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        let failed = |failure: Failure| failure.into_error(format!("check {}", self.address()));
        let asked = Clock::system().now();
        let health = self.call(|attempt| self.engine.health(attempt));
        let heard = Clock::system().now();
        let Health { time, ahead, skips_trial, mut warnings } = health.map_err(failed)?;
        match if skips_trial { Ok(()) } else { self.try_marker() } {
            Err(failure) if failure.kind == MutexErrorKind::Unavailable => return Err(failed(failure)),
            trial => warnings.extend(trial.err().as_ref().map(refusal_warning)),
        }
        let is_overheard = || {
            StoreWarning::new(format_args!(
                "the connection to another host is not encrypted: others on the network can read the password and change answers; \
                 use TLS, with {} in the url",
                E::Address::TLS
            ))
        };
        warnings.extend(self.address().is_overheard().then(is_overheard));
        warnings.extend(difference_warning(asked, time, heard));
        warnings.extend(ahead.and_then(set_back_warning));
        Ok(warnings)
    }

    fn run_log(&self) -> Option<&dyn RunLog> {
        Some(self)
    }
}

/// Returns the warning that the trial of a check was refused.
fn refusal_warning(refusal: &Failure) -> StoreWarning {
    StoreWarning::new(format_args!(
        "the store refused a trial, so that protected events may not run as they should: {refusal}"
    ))
}

/// Returns a warning if the server's `time` lies far before `asked` or far after `heard`. This host sent the request at
/// `asked`, and got the reply at `heard`.
fn difference_warning(asked: DateTime<Utc>, time: DateTime<Utc>, heard: DateTime<Utc>) -> Option<StoreWarning> {
    let by = (asked - time).max(time - heard).to_std().unwrap_or_default();
    let text = format_args!(
        "the clocks of the server and of this host differ by {:.1} s: synchronise both with NTP",
        by.as_secs_f64()
    );
    (by > CLOCKS_DIFFER).then(|| StoreWarning::new(text))
}

/// Returns a warning if the server's clock was set back. `ahead` is the time from now, by the server's clock, until the
/// latest grant. A small `ahead` gives no warning, because it comes from a usual correction of the clock.
fn set_back_warning(ahead: Duration) -> Option<StoreWarning> {
    let text = format_args!(
        "the server's clock was set back by {} or more: the lease of a dead process blocks its event for one more term, from \
         the next tick that asks for it; find out what set the clock; if the clock is wrong now, correct it while nothing runs",
        HumanDuration(ahead)
    );
    (ahead > LITTLE_STEP).then(|| StoreWarning::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_that_is_a_little_ahead_is_no_warning() {
        assert_eq!(set_back_warning(Duration::from_secs(1)), None);
        assert_eq!(
            set_back_warning(Duration::from_secs(23 * 3600)).unwrap().to_string(),
            "the server's clock was set back by 23 h 0 min or more: the lease of a dead process blocks its event for one more \
             term, from the next tick that asks for it; find out what set the clock; if the clock is wrong now, correct it while \
             nothing runs"
        );
    }

    #[test]
    fn a_clock_that_differs_by_more_than_ten_seconds_is_warned_of() {
        let at = |seconds: i64| DateTime::from_timestamp(1_772_366_400 + seconds, 0).unwrap();
        for (asked, time, heard) in [(0, 10, 0), (10, 0, 10), (0, 5, 10), (0, 0, 60)] {
            assert_eq!(difference_warning(at(asked), at(time), at(heard)), None);
        }
        for (asked, time, heard) in [(0, 12, 1), (11, 0, 15)] {
            let warning = difference_warning(at(asked), at(time), at(heard)).unwrap().to_string();
            let said = "the clocks of the server and of this host differ by 11.0 s: synchronise both with NTP";
            assert_eq!(warning, said);
        }
    }
}
