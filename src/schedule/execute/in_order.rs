//! The loop of foreground events: one run after another, on the caller's thread.

use std::collections::BTreeMap;
use std::thread::{self, Scope};
use std::time::Duration;

use super::one_run::{ActiveRun, PendingRun};
use super::queue_wait::refuse_or_queue;
use super::store_request::StoreRequest;
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::run_admission::{self, BATCH_SIZE};
use crate::schedule::run_due::planned_run::PlannedRun;
use crate::store::event_mutex::held::{Held, Names};
use crate::time::clock::random_below;

/// The limit of the random wait after another server has won a claim. Each further loss in a row doubles the limit, up
/// to 64 milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(8);

/// Performs these runs one after another, and records a result for each run.
///
/// The lease of a run is released before any code of the next event is called. One request carries this release and the
/// next admission, if the next run needs no check before its admission, and if both runs use one store. Otherwise the
/// release is a separate request.
pub(super) fn run_in_order<'scope, 'a: 'scope>(planned: &[&'a PlannedRun<'a>], scope: &'scope Scope<'scope, '_>) {
    let (mut request, mut taken) = (StoreRequest::default(), TakenClaims::default());
    for (at, &run) in planned.iter().enumerate() {
        let claimed = taken.claims.remove(&at);
        // Filters are called, and pauses are read, after the release of the run before.
        let needs_check = !run.event.filters.is_empty() || (run.pauses.is_some() && !run.admission_checks_pauses);
        let joins_release = claimed.is_none() && run.asks_store && !needs_check && request.may_include(run);
        if !joins_release {
            request.ask();
        }
        let pending = PendingRun::new(run);
        let check = || pending.span.in_scope(|| run_admission::check_before_store(run)).err();
        let elsewhere = |claim: Held| SkipReason::RanElsewhere(claim.into_holder());
        let refusal = if joins_release { None } else { check().or_else(|| claimed.map(elsewhere)) };
        let is_asked = refusal.is_none() && run.asks_store;
        match refusal {
            Some(reason) => request.refused.push((pending, reason)),
            None if is_asked => {
                request.admit(pending);
                request.ask();
            }
            None => request.perform_here(ActiveRun::unasked(pending)),
        }
        let is_lost = is_asked && matches!(request.refused[..], [(_, SkipReason::RanElsewhere(_))]);
        request.refused.drain(..).for_each(|(pending, reason)| refuse_or_queue(pending, reason, scope));
        if is_lost {
            taken.read_after_a_loss(run, at, planned);
        } else if is_asked {
            taken = TakenClaims::default(); // A run may take long, so the claims are read again later.
        }
        while let Some(run) = request.ready.pop() {
            request.perform_here(run);
        }
    }
    request.ask();
}

/// The known claims of other servers on later events of the tick.
///
/// If another server has won one occurrence of a tick, it has usually won further occurrences. So after a loss, one
/// request reads the claims of the next events: ten at first. An event whose claim is taken is then skipped without a
/// further request. Servers that tick at the same moment would compete again for each event. So a server that has lost
/// waits for a random time before it reads, and the winner gets ahead.
#[derive(Default)]
struct TakenClaims {
    /// The key is the index of the run in the list.
    claims: BTreeMap<usize, Held>,
    /// The losses in a row.
    losses: u32,
}

impl TakenClaims {
    /// Reads the claims of the events that follow the run `lost`, which has the index `at`. If the request fails, no
    /// claims are added. If the store was unavailable a moment ago, no request is sent.
    fn read_after_a_loss(&mut self, lost: &PlannedRun<'_>, at: usize, planned: &[&PlannedRun<'_>]) {
        self.losses += 1;
        // Some stores send a request for each name, so only a few names are read after the first loss.
        let count = 10_usize.saturating_pow(self.losses).min(BATCH_SIZE);
        let next = planned.iter().enumerate().skip(at + 1).filter(|(_, run)| run.store.id == lost.store.id);
        let claims = next.filter_map(|(at, run)| Some((at, run.claim()?.0)));
        let (places, names): (Vec<usize>, Vec<_>) = claims.take(count).unzip();
        if names.is_empty() {
            return;
        }
        thread::sleep(random_below(FIRST_PAUSE * 2_u32.pow(self.losses.min(4) - 1)));
        let attempted = || "read the claims of a tick".to_owned();
        let outages = &lost.context.outages;
        let held = outages.ask(lost.store, attempted, |mutex| mutex.held(Names::Each(&names)));
        for held in held.unwrap_or_default() {
            let place = names.iter().position(|name| name == held.name()).map(|at| places[at]);
            self.claims.extend(place.map(|place| (place, held)));
        }
    }
}
