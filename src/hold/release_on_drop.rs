//! A guard around a lease, or all that a run holds, which gives it back to its store when it is dropped.

use std::borrow::Cow;
use std::slice;

use crate::base::process_id;
use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::{request::Lease, term::Term};
use crate::observe::{log::print_unless_logged, release::Release};
use crate::store::event_mutex::ask_each::ask_together;
use crate::store::event_mutex::{EventMutex, attempted_release};

/// A lease, or all that a run holds.
pub(crate) trait Releasable {
    /// Ends the renewal of the lease, if there is one, because it is about to be given back.
    fn begin_release(&self) -> Option<LeaseRelease<'_>>;

    /// Whether there is a lease that is to be given back at once, not after a rest.
    fn is_released_now(&self) -> bool;

    /// The process that acquired it, if it holds anything.
    fn pid(&self) -> Option<u32>;
}

/// A lease that is about to be given back.
pub(crate) struct LeaseRelease<'a> {
    pub(crate) lease: Cow<'a, Lease>,
    /// How much longer it is to be held; `None`: it is given back at once.
    pub(crate) rest: Option<Term>,
}

impl Releasable for Lease {
    fn begin_release(&self) -> Option<LeaseRelease<'_>> {
        Some(LeaseRelease { lease: Cow::Borrowed(self), rest: None })
    }

    fn is_released_now(&self) -> bool {
        true
    }

    fn pid(&self) -> Option<u32> {
        Some(self.owner().pid())
    }
}

/// Gives back what it holds when it is dropped.
#[derive(Debug)]
pub(crate) struct ReleaseOnDrop<M: EventMutex, H: Releasable> {
    mutex: M,
    /// `None` once it was given back.
    holding: Option<H>,
}

impl<M: EventMutex, H: Releasable> ReleaseOnDrop<M, H> {
    /// Holds what was just granted.
    #[inline]
    pub(crate) fn new(mutex: M, holding: H) -> Self {
        Self { mutex, holding: Some(holding) }
    }

    #[inline]
    pub(crate) fn holding(&self) -> &H {
        self.holding.as_ref().expect("it is given back by what takes the whole of this")
    }

    /// Takes it out, without giving it back.
    #[inline]
    pub(crate) fn into_inner(mut self) -> H {
        self.holding.take().expect("it is given back by what takes the whole of this")
    }

    /// Gives back the lease, if there is one among it.
    pub(crate) fn release(self) -> (H, Option<Release>) {
        let release = self.give_back();
        (self.into_inner(), release)
    }

    /// Ends the renewal of the lease, which the caller asks the store to take back, now or after a rest.
    pub(crate) fn begin_release(&self) -> Option<(Lease, Option<Term>)> {
        if self.is_inherited() {
            return None;
        }
        self.holding().begin_release().map(|LeaseRelease { lease, rest }| (lease.into_owned(), rest))
    }

    /// The caller asked the store to take `lease` back, and this is its answer.
    pub(crate) fn released(
        self,
        lease: &Lease,
        rest: Option<Term>,
        answer: Result<bool, MutexError>,
    ) -> (H, Option<Release>) {
        (self.into_inner(), Some(Release::of(lease, rest, answer)))
    }

    /// Whether this is a child's copy of what its parent holds, and goes on to hold.
    #[inline]
    fn is_inherited(&self) -> bool {
        self.holding().pid().is_some_and(|pid| pid != process_id::current())
    }

    fn give_back(&self) -> Option<Release> {
        if self.is_inherited() {
            return Some(Release::Lost);
        }
        let LeaseRelease { lease, rest } = self.holding().begin_release()?;
        let answer = match rest {
            None => contain(|| self.mutex.forget(&lease))
                .unwrap_or_else(|message| Err(MutexError::panicked(attempted_release(&lease), &message))),
            Some(rest) => ask_together(1, || self.mutex.release_after(slice::from_ref(&*lease), rest))
                .unwrap_or_else(|why| vec![Err(MutexError::unusable(attempted_release(&lease), why))])
                .remove(0),
        };
        Some(Release::of(&lease, rest, answer))
    }
}

impl<M: EventMutex, H: Releasable> Drop for ReleaseOnDrop<M, H> {
    fn drop(&mut self) {
        if self.holding.is_some() {
            // Subscribers were told what came of it.
            if let Some(failed @ Release::Failed(_)) = self.give_back() {
                print_unless_logged(failed);
            }
        }
    }
}
