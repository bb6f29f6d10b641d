//! What decides whether a due event is admitted: its filters, then its lease and its claim together.

use crate::error::MutexError;
use crate::fault::contain;
use crate::mutex::{Admission, Admitted, EventMutex, Grant};
use crate::outcome::SkipReason;
use crate::protection::CLAIM_WINDOW;
use crate::turn::Turn;

/// Admits the event and gives what it holds, which is nothing without a protection, or says why not. No I/O before the
/// last step.
pub(crate) fn admit(turn: &Turn<'_>) -> Result<Option<Grant>, SkipReason> {
    ask_filters(turn)?;
    refuse_late_claims(turn)?;
    match turn.event.protection.admission(turn.claimed(), turn.round.owners, turn.clock) {
        None => Ok(None),
        Some(admission) => ask_store(turn.mutex, &admission).map(Some),
    }
}

fn ask_filters(turn: &Turn<'_>) -> Result<(), SkipReason> {
    for allows in &turn.event.filters {
        if !contain(|| allows(&turn.tick)).map_err(SkipReason::FilterPanicked)? {
            return Err(SkipReason::Filtered);
        }
    }
    Ok(())
}

/// Past the window, the claim of whoever ran this occurrence may have expired, and the store would grant it again.
fn refuse_late_claims(turn: &Turn<'_>) -> Result<(), SkipReason> {
    let claims = turn.event.protection.one_server && turn.claimed().is_some();
    if claims && turn.clock.moment().since(turn.round.began) > CLAIM_WINDOW { Err(SkipReason::TooLate) } else { Ok(()) }
}

fn ask_store(mutex: &dyn EventMutex, admission: &Admission) -> Result<Grant, SkipReason> {
    let answer = contain(|| mutex.admit(std::slice::from_ref(admission)).pop());
    let attempted = || format!("admit {}", admission.name());
    let answer = answer.unwrap_or_else(|message| Some(Err(MutexError::panicked(attempted(), &message))));
    let answer = answer.unwrap_or_else(|| Err(MutexError::unavailable(attempted(), "the store gave no answer")));
    match answer.map_err(SkipReason::StoreUnavailable)? {
        Admitted::Granted(grant) if grant.is_for(admission) => Ok(grant),
        Admitted::Granted(_) => {
            let error = MutexError::unavailable(attempted(), "the store granted something else than was asked for");
            Err(SkipReason::StoreUnavailable(error))
        }
        Admitted::LeaseTaken(holder) => Err(SkipReason::Overlapping(holder)),
        Admitted::ClaimTaken(holder) => Err(SkipReason::RanElsewhere(holder)),
    }
}
