//! Foreground runs of a tick: one after another, in the order in which the events were added.
//!
//! With a store of a fleet, one request releases the lease of an event and admits the next: half of the round trips, in the
//! same order.

use std::borrow::Borrow;

use tracing::Span;

use crate::base::error::MutexError;
use crate::hold::release_on_drop::Releasable as _;
use crate::lease::request::Lease;
use crate::observe::outcome::RunOutcome;
use crate::schedule::gate::{self, AdmittedRun};
use crate::schedule::{planned_run::PlannedRun, report::Entry};
use crate::store::event_mutex::Scope;

/// Runs these, and passes an entry for each to `enter` in their order.
pub(crate) fn run_all<'a, T: Borrow<PlannedRun<'a>>>(
    planned_runs: impl Iterator<Item = T>,
    mut enter: impl FnMut(Entry),
) {
    let mut last: Option<LastRun<'a, T>> = None;
    for planned in planned_runs {
        let this: &PlannedRun<'a> = planned.borrow();
        if let Some(ended) = last.take_if(|last| !last.is_released_with(this)) {
            enter(ended.release());
        }
        if this.store.scope != Scope::Fleet {
            enter(this.run());
            continue;
        }
        let span = this.span();
        let ended = last.take();
        // `is_released_with` has checked that nothing of it is kept.
        let lease = ended.as_ref().and_then(|ended| ended.admitted_run.held.begin_release()).map(|(lease, _)| lease);
        let (released, admitted) = span.in_scope(|| match &lease {
            None => (None, gate::admit(this)),
            Some(lease) => gate::admit_after(this, lease),
        });
        if let Some(ended) = ended {
            enter(ended.conclude(lease.zip(released)));
        }
        match admitted {
            Err(reason) => enter(span.in_scope(|| this.skip(reason))),
            Ok(admitted_run) => {
                let outcome = span.in_scope(|| this.perform(&admitted_run));
                last = Some(LastRun { planned, span, outcome, admitted_run });
            }
        }
    }
    if let Some(ended) = last {
        enter(ended.release());
    }
}

/// A run that has ended and is not released yet.
struct LastRun<'a, T> {
    planned: T,
    span: Span,
    outcome: RunOutcome,
    admitted_run: AdmittedRun<'a>,
}

impl<'a, T: Borrow<PlannedRun<'a>>> LastRun<'a, T> {
    /// Whether its lease can be released in the request that admits the next run: it is to be released now, the next run
    /// asks the same store, and no filter runs in between.
    fn is_released_with(&self, next: &PlannedRun<'_>) -> bool {
        let is_asked_next = next.event.protection.is_some() && next.event.filters.is_empty();
        is_asked_next
            && self.planned.borrow().store.id == next.store.id
            && self.admitted_run.held.holding().is_released_now()
    }

    fn release(self) -> Entry {
        self.conclude(None)
    }

    /// Enters the result, with the answer of the store to the release, or releases now.
    fn conclude(self, released: Option<(Lease, Result<bool, MutexError>)>) -> Entry {
        let Self { planned, span, outcome, admitted_run } = self;
        span.in_scope(|| {
            let released = match released {
                Some((lease, answer)) => admitted_run.held.released(&lease, None, answer),
                None => admitted_run.held.release(),
            };
            planned.borrow().conclude(outcome, released)
        })
    }
}
