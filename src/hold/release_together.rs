//! The release of several leases of one store in one call.

use std::collections::BTreeMap;

use super::release_on_drop::{Releasable, ReleaseOnDrop};
use crate::base::error::MutexError;
use crate::lease::{request::Lease, term::Term};
use crate::observe::release::Release;
use crate::store::event_mutex::ask_each::ask_together;
use crate::store::event_mutex::{EventMutex, attempted_release};

/// Gives back all of these, in one call for each rest, and returns how that went, in their order.
pub(crate) fn release_together<M: EventMutex, H: Releasable>(
    mutex: M,
    held: Vec<ReleaseOnDrop<M, H>>,
) -> Vec<(H, Option<Release>)> {
    if held.len() < 2 {
        return held.into_iter().map(ReleaseOnDrop::release).collect();
    }
    let pending: Vec<_> = held.iter().map(ReleaseOnDrop::begin_release).collect();
    let mut by_rest = BTreeMap::<Option<Term>, Vec<Lease>>::new();
    for (lease, rest) in pending.iter().flatten() {
        by_rest.entry(*rest).or_default().push(lease.clone());
    }
    let ask = |(rest, leases): (Option<Term>, Vec<Lease>)| {
        let answers = ask_together(leases.len(), || match rest {
            None => mutex.release(&leases),
            Some(rest) => mutex.release_after(&leases, rest),
        });
        (rest, answers.map(Vec::into_iter))
    };
    // The answers for each rest are in the order of its leases.
    let mut answers: BTreeMap<_, _> = by_rest.into_iter().map(ask).collect();
    let conclude = |(held, pending): (ReleaseOnDrop<M, H>, _)| {
        let Some((lease, rest)) = pending else { return held.release() };
        match answers.get_mut(&rest).map(|answers| answers.as_mut().map(Iterator::next)) {
            Some(Ok(Some(answer))) => held.released(&lease, rest, answer),
            // It is tried again alone. A lease that is not ours any more may be one that went back.
            Some(Err(why)) => match held.release() {
                (holding, Some(Release::Lost)) => {
                    let error = MutexError::unusable(attempted_release(&lease), why.clone());
                    (holding, Some(Release::Failed(error)))
                }
                released => released,
            },
            _ => held.release(),
        }
    };
    held.into_iter().zip(pending).map(conclude).collect()
}
