//! What is given back on every way out, with its store.

use std::borrow::Cow;
use std::slice;

use crate::base::contain::contain;
use crate::base::error::MutexError;
use crate::base::process;
use crate::lease::request::Lease;
use crate::lease::term::Term;
use crate::observe::log::tell_instead;
use crate::observe::release::Release;
use crate::store::event_mutex::{Answers, EventMutex, attempted_release};

/// What a guard gives back: a lease, or all that a run holds.
pub(crate) trait Holding {
    /// The lease is about to be given back, and is not renewed from here on; now or after a while.
    fn end(&self) -> Option<Ending<'_>>;

    /// Whether there is a lease among it that is not to be held any longer.
    fn is_released_now(&self) -> bool;

    /// Which process acquired it, if there is anything among it.
    fn pid(&self) -> Option<u32>;
}

pub(crate) struct Ending<'a> {
    pub(super) lease: Cow<'a, Lease>,
    /// How long it is to be held yet.
    pub(super) rest: Option<Term>,
}

impl Holding for Lease {
    fn end(&self) -> Option<Ending<'_>> {
        Some(Ending { lease: Cow::Borrowed(self), rest: None })
    }

    fn is_released_now(&self) -> bool {
        true
    }

    fn pid(&self) -> Option<u32> {
        Some(self.owner().pid())
    }
}

/// What is given back when this goes, with its store.
#[derive(Debug)]
pub(crate) struct Held<M: EventMutex, H: Holding> {
    mutex: M,
    /// Gone when it was given back.
    holding: Option<H>,
}

impl<M: EventMutex, H: Holding> Held<M, H> {
    /// Holds what was just granted.
    #[inline]
    pub(crate) fn new(mutex: M, holding: H) -> Self {
        Self { mutex, holding: Some(holding) }
    }

    #[inline]
    pub(crate) fn holding(&self) -> &H {
        self.holding.as_ref().expect("it is given back by what takes the whole of this")
    }

    /// Leaves it to whoever gets it from here.
    #[inline]
    pub(crate) fn keep(mut self) -> H {
        self.holding.take().expect("it is given back by what takes the whole of this")
    }

    /// Gives back the lease, if there is one among it.
    #[expect(
        clippy::inline_always,
        reason = "what is held that is moved once more costs each due event several nanoseconds"
    )]
    #[inline(always)]
    pub(crate) fn release(self) -> (H, Option<Release>) {
        let release = self.give_back();
        (self.keep(), release)
    }

    /// The lease, which the store is asked elsewhere to take back, now or after a rest.
    pub(crate) fn end(&self) -> Option<(Lease, Option<Term>)> {
        if self.is_inherited() {
            return None;
        }
        self.holding().end().map(|Ending { lease, rest }| (lease.into_owned(), rest))
    }

    /// The store was asked elsewhere to take `lease` back, and said this.
    pub(crate) fn given_back(
        self,
        lease: &Lease,
        rest: Option<Term>,
        answer: Result<bool, MutexError>,
    ) -> (H, Option<Release>) {
        (self.keep(), Some(Release::of(lease, rest, answer)))
    }

    /// Whether this is a child's copy of what its parent holds, and goes on to hold.
    #[inline]
    fn is_inherited(&self) -> bool {
        self.holding().pid().is_some_and(|pid| pid != process::id())
    }

    #[expect(
        clippy::inline_always,
        reason = "what is held that is moved once more costs each due event several nanoseconds"
    )]
    #[inline(always)]
    fn give_back(&self) -> Option<Release> {
        if self.is_inherited() {
            return Some(Release::Lost);
        }
        let Ending { lease, rest } = self.holding().end()?;
        let answer = contain(|| match rest {
            None => self.mutex.forget(&lease),
            Some(rest) => only(self.mutex.release_after(slice::from_ref(&*lease), rest), &lease),
        });
        let answer = answer.unwrap_or_else(|message| Err(MutexError::panicked(attempted_release(&lease), &message)));
        Some(Release::of(&lease, rest, answer))
    }
}

fn only(mut answers: Answers<bool>, lease: &Lease) -> Result<bool, MutexError> {
    match answers.pop() {
        Some(answer) if answers.is_empty() => answer,
        _ => Err(MutexError::unusable(attempted_release(lease), "the store did not give one answer")),
    }
}

impl<M: EventMutex, H: Holding> Drop for Held<M, H> {
    fn drop(&mut self) {
        if self.holding.is_some() {
            // Subscribers were told what came of it.
            if let Some(failed @ Release::Failed(_)) = self.give_back() {
                tell_instead(failed);
            }
        }
    }
}
