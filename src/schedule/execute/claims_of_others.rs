//! The claims that other servers have taken on later events of the tick. The loop of foreground events reads them after
//! another server has won a claim.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crate::schedule::run_due::planned_run::PlannedRun;
use crate::store::event_mutex::batch::BATCH_SIZE;
use crate::store::event_mutex::held::{Held, Names};
use crate::time::clock::random_below;

/// The limit of the random wait after another server has won a claim. Each further loss in a row doubles the limit, up
/// to 64 milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(8);

/// The known claims of other servers on later events of the tick.
///
/// If another server has won one occurrence of a tick, it has usually won further occurrences. So after a loss, one
/// request reads the claims of the next events: ten at first. An event whose claim is taken is then skipped without a
/// further request. Servers that tick at the same moment would compete again for each event. So a server that has lost
/// waits for a random time before it reads, and the winner gets ahead.
#[derive(Default)]
pub(super) struct ClaimsOfOthers {
    /// The key is the index of the run in the list.
    pub(super) claims: BTreeMap<usize, Held>,
    /// The losses in a row.
    losses: u32,
}

impl ClaimsOfOthers {
    /// Reads the claims of the events that follow the run `lost`, which has the index `at`. If the request fails, no
    /// claims are added. If the store was unavailable a moment ago, no request is sent.
    pub(super) fn read_after_a_loss(&mut self, lost: &PlannedRun<'_>, at: usize, planned: &[&PlannedRun<'_>]) {
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
