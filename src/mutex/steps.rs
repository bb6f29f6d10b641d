//! An admission step by step, for stores that can't decide in one.

use super::{Admission, Admitted, EventMutex, Grant};
use crate::error::MutexError;
use crate::guard::Held;
use crate::lease::{FencingToken, Lease, LeaseRequest};

/// The default of [`EventMutex::admit`]: claim looked at, lease, claim; and whatever may be ours is given back unless
/// all of it is.
pub(crate) fn admit_in_steps<M: EventMutex + ?Sized>(mutex: &M, admission: &Admission) -> Result<Admitted, MutexError> {
    // That it is taken is certain; who has it is for people.
    let holder = |name| mutex.holder(name).unwrap_or(None);
    if let Some(claim) = admission.claim()
        && mutex.exists(claim.name())?
    {
        return Ok(Admitted::ClaimTaken(holder(claim.name())));
    }
    let lease = match admission.lease() {
        None => None,
        Some(request) => match create_or_give_back(mutex, request)? {
            None => return Ok(Admitted::LeaseTaken(holder(request.name()))),
            // Goes back by itself, also if the store panics, until the claim is there as well.
            Some(lease) => Some(Held::new(mutex, lease)),
        },
    };
    let claim = match admission.claim() {
        None => None,
        Some(request) => match create_or_give_back(mutex, request)? {
            None => return Ok(Admitted::ClaimTaken(holder(request.name()))),
            claim => claim,
        },
    };
    let lease = lease.map(Held::keep);
    let token = lease.as_ref().or(claim.as_ref()).map_or(FencingToken::new(0), Lease::token);
    Ok(Admitted::Granted(Grant { lease, claim, token }))
}

/// If the store does not answer, it may have created it all the same; nothing has started under it, so it is given back
/// as far as the store lets us.
fn create_or_give_back<M: EventMutex + ?Sized>(mutex: &M, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
    mutex.create(request).inspect_err(|_| {
        // What the store says to that changes nothing: it is ours or nobody's, and expires by itself.
        let _ = mutex.forget(&request.granted(FencingToken::new(0)));
    })
}
