//! A tick's foreground events, one after another in the order in which they were added.
//!
//! Where a store is a round trip away, what one event held is given back in the trip that asks for the next: half of the
//! trips, in the same order.

use std::borrow::Borrow;

use tracing::Span;

use crate::error::MutexError;
use crate::gate;
use crate::guard::Held;
use crate::lease::Lease;
use crate::mutex::{EventMutex, Scope};
use crate::outcome::RunOutcome;
use crate::report::{Entry, Verdict};
use crate::turn::Turn;

/// Takes the turns, and hands out an entry for each in their order.
pub(crate) fn take_turns<'a, T: Borrow<Turn<'a>>>(turns: impl Iterator<Item = T>, mut enter: impl FnMut(Entry)) {
    let mut last: Option<Ended<'a, T>> = None;
    for turn in turns {
        let this: &Turn<'a> = turn.borrow();
        if let Some(ended) = last.take_if(|last| !last.is_released_with(this)) {
            enter(ended.release());
        }
        if this.mutex.scope() != Scope::Fleet {
            enter(this.take());
            continue;
        }
        let span = this.span();
        let ended = last.take();
        let (released, decision) = span.in_scope(|| match &ended {
            None => (None, gate::admit(this)),
            Some(ended) => gate::admit_after(this, ended.held.lease()),
        });
        // Held before anything else is done.
        let admitted = decision.map(|grant| {
            let run = this.begin(grant);
            let held = run.lease().map(|lease| Held::new(this.mutex, lease.clone()));
            (run, held)
        });
        if let Some(ended) = ended {
            enter(ended.conclude(released));
        }
        match admitted {
            Err(reason) => enter(span.in_scope(|| this.conclude(Verdict::Skipped(reason)))),
            Ok((run, held)) => {
                let outcome = span.in_scope(|| this.perform(&run));
                match held {
                    None => enter(span.in_scope(|| this.conclude(Verdict::Ran(outcome)))),
                    Some(held) => last = Some(Ended { turn, span, outcome, held }),
                }
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
    held: Held<&'a dyn EventMutex, Lease>,
}

impl<'a, T: Borrow<Turn<'a>>> Ended<'a, T> {
    /// Whether the next turn asks the same store, and nobody's code before that.
    fn is_released_with(&self, next: &Turn<'_>) -> bool {
        self.turn.borrow().store == next.store && next.event.protection.is_some() && next.event.filters.is_empty()
    }

    fn release(self) -> Entry {
        self.conclude(None)
    }

    /// The store was asked to take it back and said `released`, or is asked now.
    fn conclude(self, released: Option<Result<bool, MutexError>>) -> Entry {
        let Self { turn, span, mut outcome, held } = self;
        span.in_scope(|| {
            let answer = match released {
                Some(answer) => held.given_back(answer),
                None => held.release(),
            };
            outcome.release = Some(turn.borrow().released(answer));
            turn.borrow().conclude(Verdict::Ran(outcome))
        })
    }
}
