//! A tick's foreground events, one after another in the order in which they were added.
//!
//! Where a store is a round trip away, what one event held is given back in the trip that asks for the next: half of the
//! trips, in the same order.

use std::borrow::Borrow;

use tracing::Span;

use crate::base::error::MutexError;
use crate::hold::held::Holding as _;
use crate::lease::request::Lease;
use crate::observe::outcome::RunOutcome;
use crate::schedule::gate::{self, Pass};
use crate::schedule::planned_run::Turn;
use crate::schedule::report::Entry;
use crate::store::event_mutex::Scope;

/// Takes the turns, and hands out an entry for each in their order.
pub(crate) fn run_all<'a, T: Borrow<Turn<'a>>>(turns: impl Iterator<Item = T>, mut enter: impl FnMut(Entry)) {
    let mut last: Option<Ended<'a, T>> = None;
    for turn in turns {
        let this: &Turn<'a> = turn.borrow();
        if let Some(ended) = last.take_if(|last| !last.is_released_with(this)) {
            enter(ended.release());
        }
        if this.store.scope != Scope::Fleet {
            enter(this.take());
            continue;
        }
        let span = this.span();
        let ended = last.take();
        // What is released with the next has no rest.
        let lease = ended.as_ref().and_then(|ended| ended.pass.held.end()).map(|(lease, _)| lease);
        let (released, admitted) = span.in_scope(|| match &lease {
            None => (None, gate::admit(this)),
            Some(lease) => gate::admit_after(this, lease),
        });
        if let Some(ended) = ended {
            enter(ended.conclude(lease.zip(released)));
        }
        match admitted {
            Err(reason) => enter(span.in_scope(|| this.skip(reason))),
            Ok(pass) => {
                let outcome = span.in_scope(|| this.perform(&pass));
                last = Some(Ended { turn, span, outcome, pass });
            }
        }
    }
    if let Some(ended) = last {
        enter(ended.release());
    }
}

/// A turn that was taken, but for its release.
struct Ended<'a, T> {
    turn: T,
    span: Span,
    outcome: RunOutcome,
    pass: Pass<'a>,
}

impl<'a, T: Borrow<Turn<'a>>> Ended<'a, T> {
    /// Whether what it holds is given back now, and the next turn asks the same store, and nobody's code before that.
    fn is_released_with(&self, next: &Turn<'_>) -> bool {
        let is_asked_next = next.event.protection.is_some() && next.event.filters.is_empty();
        is_asked_next && self.turn.borrow().store.id == next.store.id && self.pass.held.holding().is_released_now()
    }

    fn release(self) -> Entry {
        self.conclude(None)
    }

    /// The store was asked to take the lease back and said this, or is asked now.
    fn conclude(self, released: Option<(Lease, Result<bool, MutexError>)>) -> Entry {
        let Self { turn, span, outcome, pass } = self;
        span.in_scope(|| {
            let released = match released {
                Some((lease, answer)) => pass.held.given_back(&lease, None, answer),
                None => pass.held.release(),
            };
            turn.borrow().conclude(outcome, released)
        })
    }
}
