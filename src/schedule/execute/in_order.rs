//! The loop of foreground events: one run after another, on the caller's thread.

use std::collections::HashMap;
use std::thread::{self, Scope};
use std::time::Duration;

use super::awaited_runs::perform_here;
use super::one_run::{ActiveRun, PendingRun};
use super::queue_wait::refuse_or_queue;
use super::store_request::StoreRequest;
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::run_admission::{self, BATCH_SIZE};
use crate::schedule::tick_plan::planned_run::PlannedRun;
use crate::store::event_mutex::held::{Held, Names};
use crate::time::clock::random_below;

/// The longest random pause after the first loss to another server. It doubles with each further loss in a row, up to
/// eight times this value.
const FIRST_PAUSE: Duration = Duration::from_millis(8);

/// Runs these one after another, and records a result for each.
///
/// A run is released before any code of the next event runs. If the next event has no filter and uses the same store,
/// one request carries this release and that admission. Otherwise the release is a request of its own.
pub(super) fn run_in_order<'scope, 'a: 'scope>(planned: &[&'a PlannedRun<'a>], scope: &'scope Scope<'scope, '_>) {
    let (mut request, mut taken, mut ended) = (StoreRequest::default(), TakenClaims::default(), Vec::new());
    for (at, &run) in planned.iter().enumerate() {
        let claimed = taken.claims.remove(&at);
        let joins_release = claimed.is_none() && run.asks_store_first() && request.may_include(run);
        if !joins_release {
            request.ask();
        }
        let pending = PendingRun::new(run);
        let check = || pending.span.in_scope(|| run_admission::check_before_store(run)).err();
        let elsewhere = |claim: Held| SkipReason::RanElsewhere(claim.into_holder());
        let refusal = if joins_release { None } else { check().or_else(|| claimed.map(elsewhere)) };
        let is_asked = refusal.is_none() && run.asks_store();
        match refusal {
            Some(reason) => request.refused.push((pending, reason)),
            None if is_asked => {
                request.admit(pending);
                request.ask();
            }
            None => request.ready.push(ActiveRun::unasked(pending)),
        }
        let is_lost = is_asked && matches!(request.refused[..], [(_, SkipReason::RanElsewhere(_))]);
        request.refused.drain(..).for_each(|(pending, reason)| refuse_or_queue(pending, reason, scope));
        if is_lost {
            taken.read_after_a_loss(run, at, planned);
        } else if is_asked {
            taken = TakenClaims::default(); // A run may take long, and a claim may be released meanwhile.
        }
        ended.extend(request.ready.drain(..).map(perform_here));
        request.release(&mut ended);
    }
    request.ask();
}

/// The claims of other servers on later events of the tick, as far as they were read.
///
/// If another server won one occurrence of a tick, it has usually won more of them. So after a loss, one request reads
/// the claims of the next events, ten at first. An event whose claim was taken is then skipped without a request of its
/// own. Servers that tick at the same moment would meet again at each event. So after a loss, a server pauses for a
/// random time before it reads, and the winner gets ahead.
#[derive(Default)]
struct TakenClaims {
    /// By the place of the event in the list.
    claims: HashMap<usize, Held>,
    /// The losses in a row.
    losses: u32,
}

impl TakenClaims {
    /// Reads the claims of the events after a lost one. After a failure nothing is known about these claims. After an
    /// outage the store is not asked again.
    fn read_after_a_loss(&mut self, lost: &PlannedRun<'_>, at: usize, planned: &[&PlannedRun<'_>]) {
        self.losses += 1;
        // If a store can't read several names at once, it is asked for each name.
        let count = 10_usize.saturating_pow(self.losses).min(BATCH_SIZE);
        let next = planned.iter().enumerate().skip(at + 1);
        let asks = next.filter(|(_, run)| run.claims() && run.store.id == lost.store.id).take(count);
        let (places, names): (Vec<usize>, Vec<_>) = asks.filter_map(|(at, run)| Some((at, run.claim_name()?))).unzip();
        if names.is_empty() {
            return;
        }
        thread::sleep(random_below(FIRST_PAUSE * 2_u32.pow(self.losses.min(4) - 1)));
        let attempted = || "read the claims of a tick".to_owned();
        let outages = &lost.context.outages;
        let held = outages.ask(lost.store, lost.clock, attempted, |mutex| mutex.held(Names::Each(&names)));
        for held in held.unwrap_or_default() {
            let place = names.iter().position(|name| name == held.name()).map(|at| places[at]);
            self.claims.extend(place.map(|place| (place, held)));
        }
    }
}
