//! The requests to a store when the process exits.
//!
//! The lease of the run on the exiting thread is released at once. Other threads run until the process has ended, so
//! the leases of their runs can't be released. These leases are shortened, so that they end soon after the process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::catch_panic::contain;
use crate::hold::held_lease::HeldLease;
use crate::lease::{request::Lease, term::Term};
use crate::store::event_mutex::{EventMutex, batch::Batch, batch::Slot};
use crate::time::{clock::Clock, clock::moment::Moment};

/// The longest time that the exit of a process is expected to take.
pub(in crate::hold) const FEW_SECONDS: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(in crate::hold) struct ExitRelease {
    /// The leases to release, each with the time after which the store must free the name. `None`: immediately.
    released: Vec<(Lease, Option<Term>)>,
    /// The leases to shorten, grouped by their new terms.
    shortened: HashMap<Term, Vec<Arc<HeldLease>>>,
}

impl ExitRelease {
    /// Adds a lease that the exit releases, because its task does not run any more.
    pub(super) fn release(&mut self, held: &HeldLease) {
        let minimum_hold = held.minimum_hold_left().map(|left| full_seconds(left.get()));
        self.released.extend(held.begin_release().map(|lease| (lease, minimum_hold)));
    }

    /// Adds a lease that the exit shortens, because its task can run until the process has ended. `deadline` is the
    /// lease's deadline, less the time for stopping.
    pub(super) fn shorten(&mut self, held: &Arc<HeldLease>, deadline: Moment, now: Moment) {
        let Some(lease) = held.lease() else { return };
        let left = deadline.since(now) + held.stopping;
        let soon = full_seconds(FEW_SECONDS + held.stopping);
        match held.minimum_hold_left() {
            Some(minimum_hold) => {
                let term = full_seconds(minimum_hold.get().max(left.min(soon.get())));
                // A task with a time for stopping can be a command. A command can run on after this process has ended.
                // So the lease of the command is not released, but gets a new deadline.
                if held.stopping.is_zero() {
                    held.shorten_until(now.plus(term.get()));
                    self.released.push((lease.clone(), Some(term)));
                } else {
                    self.shortened.entry(term).or_default().push(Arc::clone(held));
                }
            }
            // The lease already ends sooner, and must not be prolonged.
            None if left <= soon.get() => {}
            None => self.shortened.entry(soon).or_default().push(Arc::clone(held)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.released.is_empty() && self.shortened.is_empty()
    }

    /// Sends all requests to the store, but none after the first outage. Logs nothing: a subscriber could need a lock
    /// of the exiting thread, and the exiting thread waits for the renewal thread.
    pub(in crate::hold) fn send_to(&self, store: &dyn EventMutex, clock: &Clock) {
        let mut batch = Batch::new();
        for (lease, minimum_hold) in &self.released {
            batch.add_release(lease.clone(), *minimum_hold);
        }
        let mut is_out = !batch.is_empty() && batch.ask(store).is_some();
        let can_extend = || contain(|| store.describe().can_extend()).unwrap_or(false);
        if self.shortened.is_empty() || !can_extend() {
            return;
        }
        for (term, leases) in &self.shortened {
            let deadline = clock.moment().plus(term.get());
            for held in leases {
                held.shorten_until(deadline);
            }
            let leases = leases.iter().filter_map(|held| held.lease().cloned());
            let mut slots: Vec<Slot<Lease, bool>> = leases.map(Slot::new).collect();
            is_out = is_out
                || contain(|| store.extend(&mut slots, *term)).is_ok()
                    && slots.iter().any(|slot| slot.outage().is_some());
        }
    }
}

/// Rounds up to full seconds, so that many leases get an equal term. One call shortens all leases with an equal term.
fn full_seconds(time: Duration) -> Term {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    Term::new(Duration::from_secs(seconds)).unwrap_or(Term::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::base::error::MutexError;
    use crate::lease::{name::MutexName, request::LeaseRequest, token::FencingToken};
    use crate::store::event_mutex::{admission::Grant, description::Description};

    /// A store that is unavailable, or that panics. `asked` counts the requests.
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
            unreachable!("nothing is read")
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

    // A run can release its lease itself while the process exits.
    #[test]
    fn what_the_exit_has_released_keeps_its_minimum_hold() {
        let clock = Clock::system();
        let name = MutexName::lease("reports").expect("a name");
        let lease = LeaseRequest::new(name, Term::MAX, &clock).granted(FencingToken::new(1));
        let held = HeldLease::for_test(&clock, Some(Grant::of(lease)), Some(Term::MAX), Duration::ZERO);
        ExitRelease::default().release(&held);
        assert!(held.was_released() && held.minimum_hold_left().is_some());
    }

    #[test]
    fn a_store_that_is_out_is_asked_once_and_one_that_panics_for_all() {
        let clock = Clock::system();
        let held = |name: &str, at_least: Option<Term>| {
            let name = MutexName::lease(name).expect("a name");
            let lease = LeaseRequest::new(name, Term::MAX, &clock).granted(FencingToken::new(1));
            let grant = Some(Grant::of(lease));
            HeldLease::for_test(&clock, grant, at_least, Duration::ZERO)
        };
        for (panics, expected) in [(false, 1), (true, 3)] {
            let (now, mut release) = (clock.moment(), ExitRelease::default());
            release.release(&held("released", None));
            release.release(&held("held", Some(Term::MAX)));
            release.shorten(&held("shortened", None), now.plus(Term::MAX.get()), now);
            let store = Out { panics, asked: AtomicUsize::new(0) };
            release.send_to(&store, &clock);
            assert_eq!(store.asked.into_inner(), expected);
        }
    }
}
