//! The claims that other servers have taken on later events of the tick. The loop of foreground events reads them after
//! another server has won a claim.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crate::schedule::run_due::planned_run::PlannedRun;
use crate::store::event_mutex::batch::BATCH_SIZE;
use crate::store::event_mutex::held::{Held, Names};
use crate::time::clock::random_below;

/// The limit of the random wait after another server has won a claim.
const LONGEST_WAIT: Duration = Duration::from_millis(32);

/// Reads the claims of the events that follow the run `lost`, which has the index `at`: a hundred at most. Returns the
/// taken claims, each with the index of its run. If the request fails, no claims are returned. If the store was
/// unavailable a moment ago, no request is sent.
///
/// If another server has won one occurrence of a tick, it has usually won further occurrences. An event whose claim is
/// taken is skipped without a further request. Servers that tick at the same moment would compete again for each event.
/// So a server that has lost waits for a random time before it reads, and the winner gets ahead.
pub(super) fn claims_of_others(at: usize, lost: &PlannedRun<'_>, planned: &[&PlannedRun<'_>]) -> BTreeMap<usize, Held> {
    let next = planned.iter().enumerate().skip(at + 1).filter(|(_, run)| run.store.id == lost.store.id);
    let claims = next.filter_map(|(at, run)| Some((at, run.claim()?.0)));
    let (places, names): (Vec<usize>, Vec<_>) = claims.take(BATCH_SIZE).unzip();
    if names.is_empty() {
        return BTreeMap::new();
    }
    thread::sleep(random_below(LONGEST_WAIT));
    let attempted = || "read the claims of a tick".to_owned();
    let held = lost.context.outages.ask(lost.store, attempted, |mutex| mutex.held(Names::Each(&names)));
    let place = |held: Held| Some((places[names.iter().position(|name| name == held.name())?], held));
    held.unwrap_or_default().into_iter().filter_map(place).collect()
}
