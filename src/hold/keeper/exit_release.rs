//! What a process asks of a store before it ends: which leases it gives back, and which it shortens.
//!
//! The lease of the run on its last thread is given back at once. The leases of runs on other threads can't be given back,
//! because those threads work on until the process has ended: they are shortened, to end soon after it.

use std::sync::Arc;
use std::time::Duration;

use crate::base::catch_panic::contain;
use crate::hold::held_lease::{HeldLease, HoldsLease};
use crate::lease::{request::Lease, term::Term};
use crate::store::event_mutex::{EventMutex, batch::Batch, slot::Slot};
use crate::time::{clock::Clock, clock::moment::Moment};

/// How long a process takes to end, at most.
pub(super) const FEW_SECONDS: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct ExitRelease {
    /// With the rest for which it stays held, as `hold_at_least` asks.
    given_back: Vec<(Lease, Option<Term>)>,
    shortened: Vec<(Term, Vec<Arc<dyn HoldsLease>>)>,
}

impl ExitRelease {
    /// Gives back the lease, under which nobody works any more.
    pub(super) fn give_back(&mut self, held: &HeldLease) {
        let Some(lease) = held.lease() else { return };
        let rest = held.rest();
        let lease = held.begin_release().unwrap_or_else(|| lease.clone());
        self.given_back.push((lease, rest.map(|rest| term(in_full_seconds(rest.get())))));
    }

    /// Shortens the lease, under which somebody works until this process has ended, and is told to stop at `deadline`
    /// otherwise. A command may take longer to stop than the process to end.
    pub(super) fn shorten(&mut self, holder: &Arc<dyn HoldsLease>, deadline: Moment, now: Moment) {
        let held = holder.held();
        let Some(lease) = held.lease() else { return };
        let left = deadline.since(now) + held.stopping();
        let soon = in_full_seconds(FEW_SECONDS + held.stopping());
        let rest = held.rest().map(|rest| in_full_seconds(rest.get().max(left.min(soon))));
        match rest {
            // A command outlives the process, and may keep its lease by that: it is not given back to end then.
            Some(rest) if held.stopping().is_zero() => {
                held.shorten_until(now.plus(rest));
                self.given_back.push((lease.clone(), Some(term(rest))));
            }
            Some(rest) => self.shorten_to(rest, holder),
            // A lease that ends sooner is not prolonged.
            None if left <= soon => {}
            None => self.shorten_to(soon, holder),
        }
    }

    fn shorten_to(&mut self, rest: Duration, holder: &Arc<dyn HoldsLease>) {
        let (term, holder) = (term(rest), Arc::clone(holder));
        match self.shortened.iter_mut().find(|(known, _)| *known == term) {
            Some((_, holders)) => holders.push(holder),
            None => self.shortened.push((term, vec![holder])),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.given_back.is_empty() && self.shortened.is_empty()
    }

    /// Asks the store for all of it, up to the first outage. It logs nothing: a subscriber may wait for a lock of the thread
    /// that waits for this.
    pub(super) fn send_to(&self, mutex: &dyn EventMutex, clock: &Clock) {
        let mut batch = Batch::new();
        self.given_back.iter().for_each(|(lease, rest)| batch.add_release(lease.clone(), *rest));
        let mut out = false;
        if !batch.is_empty() {
            batch.ask(mutex);
            out = batch.outage().is_some();
        }
        let can_extend = || contain(|| mutex.describe().can_extend()).unwrap_or(false);
        if self.shortened.is_empty() || !can_extend() {
            return;
        }
        for (term, holders) in &self.shortened {
            let deadline = clock.moment().plus(term.get());
            for holder in holders {
                holder.held().shorten_until(deadline);
            }
            let leases = holders.iter().filter_map(|holder| holder.held().lease().cloned());
            let mut slots: Vec<Slot<Lease, bool>> = leases.map(Slot::new).collect();
            let is_asked = !out && contain(|| mutex.extend(&mut slots, *term)).is_ok();
            out |= is_asked && slots.iter().any(|slot| slot.outage().is_some());
        }
    }
}

/// Rounds up, so that one call asks for many.
fn in_full_seconds(rest: Duration) -> Duration {
    Duration::from_secs(rest.as_secs() + u64::from(rest.subsec_nanos() > 0))
}

fn term(rest: Duration) -> Term {
    Term::new(rest).unwrap_or(Term::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::base::error::MutexError;
    use crate::lease::{name::MutexName, request::LeaseRequest, token::FencingToken};
    use crate::store::event_mutex::{admission::Grant, description::Description};

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
        fn describe(&self) -> Description {
            Description::of(self).with_extension()
        }
        fn extend(&self, leases: &mut [Slot<Lease, bool>], _: Term) {
            for slot in leases {
                slot.fill(self.forget(slot.asked()));
            }
        }
    }

    #[test]
    fn a_store_that_is_out_is_asked_once_and_one_that_panics_for_all() {
        let clock = Clock::system();
        let held = |name: &str, at_least: Option<Term>| {
            let name = MutexName::lease(name).expect("a name");
            let lease = LeaseRequest::new(name, Term::MAX, &clock).granted(FencingToken::new(1));
            let grant = Some(Grant::of(lease));
            Arc::new(HeldLease::new(clock.clone(), grant, clock.moment(), at_least, Duration::ZERO))
        };
        for (panics, expected) in [(false, 1), (true, 3)] {
            let (now, mut release) = (clock.moment(), ExitRelease::default());
            release.give_back(&held("given back", None));
            release.give_back(&held("held", Some(Term::MAX)));
            release.shorten(&(held("shortened", None) as _), now.plus(Term::MAX.get()), now);
            let store = Out { panics, asked: AtomicUsize::new(0) };
            release.send_to(&store, &clock);
            assert_eq!(store.asked.into_inner(), expected);
        }
    }
}
