//! What a process says to a store before it ends: which leases it gives back, and which it leaves behind.
//!
//! What its last thread worked under is free at once. What other threads work under can't be given back, because they work
//! on for as long as the process takes to end: it is left to end by itself, soon.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::contain::contain;
use crate::hold::tenure::Tenure;
use crate::lease::request::Lease;
use crate::lease::term::Term;
use crate::store::event_mutex::ask_each::outage_in;
use crate::store::event_mutex::{Answers, EventMutex};
use crate::time::clock::Clock;
use crate::time::clock::moment::Moment;

/// A process that ends has gone after that.
pub(super) const FEW_SECONDS: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Farewell {
    pub(super) given_back: Vec<Lease>,
    /// How much longer these are to be held, as was asked for.
    pub(super) held: BTreeMap<Term, Vec<Lease>>,
    /// When these are to end.
    pub(super) shortened: BTreeMap<Term, Vec<Arc<Tenure>>>,
}

impl Farewell {
    /// Nobody works under it any more.
    pub(super) fn give_back(&mut self, tenure: &Tenure) {
        let Some(lease) = tenure.lease() else { return };
        let rest = tenure.rest();
        let lease = tenure.end_renewal().unwrap_or_else(|| lease.clone());
        match rest {
            None => self.given_back.push(lease),
            Some(rest) => put(&mut self.held, in_full_seconds(rest.get()), lease),
        }
    }

    /// Somebody works under it until this process has ended, and is told to stop at `deadline` as things are. What takes
    /// longer to stop does so after the process has ended.
    pub(super) fn leave_behind(&mut self, tenure: &Arc<Tenure>, deadline: Moment, now: Moment) {
        let Some(lease) = tenure.lease() else { return };
        let left = deadline.since(now) + tenure.stopping();
        let soon = in_full_seconds(FEW_SECONDS + tenure.stopping());
        let rest = tenure.rest().map(|rest| in_full_seconds(rest.get().max(left.min(soon))));
        match rest {
            // A command outlives the process, and may keep its lease by that: it is not given back to end then.
            Some(rest) if tenure.stopping().is_zero() => {
                tenure.shorten_until(now.plus(rest));
                put(&mut self.held, rest, lease.clone());
            }
            Some(rest) => put(&mut self.shortened, rest, Arc::clone(tenure)),
            // What ends sooner is not prolonged.
            None if left <= soon => {}
            None => put(&mut self.shortened, soon, Arc::clone(tenure)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.given_back.is_empty() && self.held.is_empty() && self.shortened.is_empty()
    }

    /// Asks the store for all of it, up to the first outage. Nobody is told how that went: subscribers may wait for what the
    /// thread holds that waits for this.
    pub(super) fn say_to(&self, mutex: &dyn EventMutex, clock: &Clock) {
        let mut out = false;
        let mut ask = |ask: &dyn Fn() -> Answers<bool>| {
            out = out || contain(ask).is_ok_and(|answers| outage_in(&answers).is_some());
        };
        if !self.given_back.is_empty() {
            ask(&|| mutex.release(&self.given_back));
        }
        for (rest, leases) in &self.held {
            ask(&|| mutex.release_after(leases, *rest));
        }
        if self.shortened.is_empty() || !contain(|| mutex.can_extend()).unwrap_or(false) {
            return;
        }
        for (term, tenures) in &self.shortened {
            let deadline = clock.moment().plus(term.get());
            for tenure in tenures {
                tenure.shorten_until(deadline);
            }
            let leases: Vec<Lease> = tenures.iter().filter_map(|tenure| tenure.lease().cloned()).collect();
            ask(&|| mutex.extend(&leases, *term));
        }
    }
}

/// So that many are asked for at once.
fn in_full_seconds(rest: Duration) -> Duration {
    Duration::from_secs(rest.as_secs() + u64::from(rest.subsec_nanos() > 0))
}

fn put<T>(into: &mut BTreeMap<Term, Vec<T>>, after: Duration, what: T) {
    into.entry(Term::new(after).unwrap_or(Term::MAX)).or_default().push(what);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::base::error::MutexError;
    use crate::lease::name::MutexName;
    use crate::lease::request::LeaseRequest;
    use crate::lease::token::FencingToken;
    use crate::store::event_mutex::admission::Grant;

    /// A store that can't be reached, or panics; and how often it was asked.
    #[derive(Debug)]
    struct Out {
        panics: bool,
        asked: AtomicUsize,
    }

    impl EventMutex for Out {
        fn create(&self, _: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
            unreachable!("nothing is taken")
        }
        fn exists(&self, _: &MutexName) -> Result<bool, MutexError> {
            unreachable!("nobody looks")
        }
        fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            assert!(!self.panics, "it panics");
            Err(MutexError::unavailable(format!("forget {}", lease.name()), "timed out"))
        }
        fn can_extend(&self) -> bool {
            true
        }
        fn extend(&self, leases: &[Lease], _: Term) -> Answers<bool> {
            leases.iter().map(|lease| self.forget(lease)).collect()
        }
    }

    #[test]
    fn a_store_that_is_out_is_asked_once_and_one_that_panics_for_all() {
        let clock = Clock::system();
        let tenure = |name: &str, at_least: Option<Term>| {
            let name = MutexName::lease(name).expect("a name");
            let lease = LeaseRequest::new(name, Term::MAX, &clock).granted(FencingToken::new(1));
            let grant = Some(Grant::of(lease));
            Arc::new(Tenure::new(clock.clone(), grant, clock.moment(), at_least, Duration::ZERO))
        };
        for (panics, expected) in [(false, 1), (true, 3)] {
            let (now, mut farewell) = (clock.moment(), Farewell::default());
            farewell.give_back(&tenure("given back", None));
            farewell.give_back(&tenure("held", Some(Term::MAX)));
            farewell.leave_behind(&tenure("shortened", None), now.plus(Term::MAX.get()), now);
            let store = Out { panics, asked: AtomicUsize::new(0) };
            farewell.say_to(&store, &clock);
            assert_eq!(store.asked.into_inner(), expected);
        }
    }
}
