//! The requests to stop: another process writes them into the store, for example to replace a run. This process reads
//! them, and cancels the runs that are asked to stop.

use std::io;
use std::sync::Arc;

use crate::base::error::if_supported;
use crate::hold::held_lease::HeldLease;
use crate::lease::name::MutexName;
use crate::observe::tell::trace;
use crate::store::event_mutex::{EventMutex, held::Names};

/// Reads the requests to stop from the store, and cancels the runs that are asked to stop. Calls `cancelled` with each
/// of these runs. Returns whether the store has answered.
pub(super) fn read_stop_requests(
    store: &dyn EventMutex,
    runs: &[Arc<HeldLease>],
    cancelled: impl Fn(&Arc<HeldLease>),
) -> bool {
    let marker = |held: &Arc<HeldLease>| {
        let lease = held.lease().expect("only a run with a lease is in the plan");
        lease.name().request_to_stop(lease.token())
    };
    let markers: Vec<MutexName> = runs.iter().map(marker).collect();
    let found = match if_supported(store.held(Names::Each(&markers))) {
        Err(error) if error.is_outage() => return false,
        // The store has answered, but could not read all markers. Now each marker is read by a separate request, so
        // that an unreadable marker does not hide the others.
        Err(_) => markers.iter().flat_map(|marker| store.held(Names::of(marker)).unwrap_or_default()).collect(),
        Ok(found) => found,
    };
    for request in found {
        for (held, _) in runs.iter().zip(&markers).filter(|(_, marker)| *marker == request.name()) {
            held.ask_to_stop(request.holder().cloned());
            cancelled(held);
        }
    }
    true
}

pub(super) fn log_no_requests(error: &io::Error) {
    trace::no_thread("requests to stop", "runs are not asked to stop", error);
}
