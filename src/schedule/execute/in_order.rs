//! The loop of foreground events: one run after another, on the caller's thread.

use std::collections::HashMap;

use super::awaited_runs::perform_here;
use super::one_run::{ActiveRun, Pass, Planned};
use super::store_request::StoreRequest;
use super::{Wait, turn_away};
use crate::observe::skip_reason::SkipReason;
use crate::schedule::gate::{self, BATCH_SIZE};
use crate::schedule::{planned_run::PlannedRun, report::Entry};
use crate::store::event_mutex::held::{Held, Names};

/// Runs these one after another, and enters a result for each under its place.
///
/// A run is released before any code of the next event runs. So the request that admits the next event also carries this release,
/// if that event has no filter and is of the same store; otherwise the release is a request of its own.
pub(super) fn run_in_order<'a>(
    planned: &[Planned<'a>],
    enter: &mut impl FnMut(usize, Entry),
    wait: Option<Wait<'_, 'a>>,
) {
    let (mut request, mut taken) = (StoreRequest::default(), TakenClaims::default());
    let (mut ready, mut ended, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for (at, &(index, run)) in planned.iter().enumerate() {
        let claimed = taken.claim(index);
        let joins_release = claimed.is_none() && run.asks_store_first() && request.may_include(run);
        if !joins_release {
            request.ask(enter, &mut ready, &mut refused);
        }
        let pass = Pass::new(index, run);
        let check = || pass.span.in_scope(|| gate::check_before_store(run)).err();
        match if joins_release {
            None
        } else {
            check().or_else(|| claimed.map(|claim| SkipReason::RanElsewhere(claim.into_holder())))
        } {
            Some(reason) => refused.push((pass, reason)),
            None if run.asks_store() => {
                request.admit(pass);
                request.ask(enter, &mut ready, &mut refused);
                if let Some((_, SkipReason::RanElsewhere(_))) = refused.first() {
                    taken.read(run, &planned[at + 1..]);
                }
            }
            None => ready.push(ActiveRun::new(pass, gate::begin_run(run, None, run.clock.moment()))),
        }
        refused.drain(..).for_each(|(pass, reason)| turn_away(pass, reason, enter, wait));
        ended.extend(ready.drain(..).map(perform_here));
        request.release(&mut ended, enter);
    }
    request.ask(enter, &mut ready, &mut refused);
}

/// The claims of later events of the tick that another server has, as far as the store was asked.
///
/// A server that won one occurrence of a tick has mostly won them all. So after the first refusal one request reads the claims of
/// the next hundred events. An event whose claim was taken then is skipped in its turn, without a request of its own.
#[derive(Default)]
struct TakenClaims {
    /// By the place of the event in the plan.
    claims: HashMap<usize, Held>,
    /// The place up to which claims were read.
    read_to: usize,
}

impl TakenClaims {
    /// Returns the claim of the event at this place, if it is known to be taken.
    fn claim(&mut self, index: usize) -> Option<Held> {
        self.claims.remove(&index)
    }

    /// Reads the claims of the events that follow a refused one, unless they were read already. After a failure nothing is known
    /// of them; if it is an outage, the store is not asked again.
    fn read(&mut self, refused: &PlannedRun<'_>, next: &[Planned<'_>]) {
        let next = &next[..next.len().min(BATCH_SIZE)];
        let Some((last, _)) = next.last().filter(|(first, _)| *first >= self.read_to) else { return };
        self.read_to = last + 1;
        let asks = next.iter().filter(|(_, run)| run.claims() && run.store.id == refused.store.id);
        let (places, names): (Vec<usize>, Vec<_>) =
            asks.filter_map(|(index, run)| Some((*index, run.claim_name()?))).unzip();
        if names.is_empty() {
            return;
        }
        let attempted = || "read the claims of a tick".to_owned();
        let outages = &refused.context.outages;
        let held = outages.ask(refused.store, refused.clock, attempted, |mutex| mutex.held(Names::Each(&names)));
        for held in held.unwrap_or_default() {
            let place = names.iter().position(|name| name == held.name()).map(|at| places[at]);
            self.claims.extend(place.map(|place| (place, held)));
        }
    }
}
