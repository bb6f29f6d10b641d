//! The loop of foreground events: one run after another, on the caller's thread.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use super::awaited_runs::perform_here;
use super::one_run::{ActiveRun, Pass, Planned};
use super::store_request::StoreRequest;
use super::{Wait, turn_away};
use crate::observe::skip_reason::SkipReason;
use crate::schedule::gate::{self, BATCH_SIZE};
use crate::schedule::{planned_run::PlannedRun, report::Entry};
use crate::store::event_mutex::held::{Held, Names};
use crate::time::clock::random_below;

/// The longest random pause after the first loss to another server. It doubles with each loss in a row, up to eight times this.
const FIRST_PAUSE: Duration = Duration::from_millis(8);

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
        let elsewhere = |claim: Held| SkipReason::RanElsewhere(claim.into_holder());
        let refusal = if joins_release { None } else { check().or_else(|| claimed.map(elsewhere)) };
        let is_asked = refusal.is_none() && run.asks_store();
        match refusal {
            Some(reason) => refused.push((pass, reason)),
            None if is_asked => {
                request.admit(pass);
                request.ask(enter, &mut ready, &mut refused);
            }
            None => ready.push(ActiveRun::new(pass, gate::begin_run(run, None, run.clock.moment()))),
        }
        let is_lost = is_asked && matches!(refused[..], [(_, SkipReason::RanElsewhere(_))]);
        refused.drain(..).for_each(|(pass, reason)| turn_away(pass, reason, enter, wait));
        if is_lost {
            taken.read_after_a_loss(run, &planned[at + 1..]);
        } else if is_asked {
            taken = TakenClaims::default(); // A run may take long, and a claim may be released meanwhile.
        }
        ended.extend(ready.drain(..).map(perform_here));
        request.release(&mut ended, enter);
    }
    request.ask(enter, &mut ready, &mut refused);
}

/// The claims of later events of the tick that other servers have, as far as the store was asked.
///
/// A server that won one occurrence of a tick has mostly won more of them. So after a loss one request reads the claims of the next
/// events, ten at first. An event whose claim was taken then is skipped in its turn, without a request of its own. Servers that
/// tick at one moment would lose to each other at each event: so a server that lost pauses for a random time before it reads, and the winners
/// go ahead meanwhile.
#[derive(Default)]
struct TakenClaims {
    /// By the place of the event in the plan.
    claims: HashMap<usize, Held>,
    /// The losses in a row.
    losses: u32,
}

impl TakenClaims {
    /// Returns the claim of the event at this place, if it is known to be taken.
    fn claim(&mut self, index: usize) -> Option<Held> {
        self.claims.remove(&index)
    }

    /// Reads claims of the events that follow a lost one. After a failure nothing is known of them; if it is an outage, the store
    /// is not asked again.
    fn read_after_a_loss(&mut self, lost: &PlannedRun<'_>, next: &[Planned<'_>]) {
        self.losses += 1;
        // A store that can't read several names at once is asked for one after another.
        let count = 10_usize.saturating_pow(self.losses).min(BATCH_SIZE);
        let asks = next.iter().filter(|(_, run)| run.claims() && run.store.id == lost.store.id).take(count);
        let (places, names): (Vec<usize>, Vec<_>) =
            asks.filter_map(|(index, run)| Some((*index, run.claim_name()?))).unzip();
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
