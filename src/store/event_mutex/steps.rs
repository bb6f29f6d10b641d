//! Admissions and releases step by step, for stores that can't decide in one.

use std::slice;

use super::admission::{Admission, Admitted, Grant};
use super::{Answers, EventMutex};
use crate::base::contain::contain;
use crate::base::error::MutexError;
#[cfg(not(soloist_mutation = "claim_before_lease"))]
use crate::hold::held::Held;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::token::FencingToken;

/// The default of [`EventMutex::admit`].
pub(crate) fn admit_each<M: EventMutex + ?Sized>(mutex: &M, admissions: &[Admission]) -> Answers<Admitted> {
    ask_for_each(admissions, Admission::attempted, |admission| admit_in_steps(mutex, admission))
}

/// The default of [`EventMutex::admit_one`]. A store that gives several answers to one question, or none, may have granted
/// it all the same.
pub(crate) fn admit_one<M: EventMutex + ?Sized>(mutex: &M, admission: &Admission) -> Result<Admitted, MutexError> {
    let mut answers = mutex.admit(slice::from_ref(admission));
    if answers.len() == 1 {
        return answers.remove(0);
    }
    let count = answers.len();
    let granted =
        |answer: &Result<Admitted, _>| matches!(answer, Ok(Admitted::Granted(grant)) if grant.is_for(admission));
    if let Some(granted) = answers.into_iter().find(granted) {
        return granted;
    }
    for request in [admission.lease(), admission.claim()].into_iter().flatten() {
        // What it says to that changes nothing: it is ours or nobody's, and expires by itself.
        let _ = mutex.forget(&request.granted(FencingToken::new(0)));
    }
    let why =
        if count == 0 { "the store gave no answer".into() } else { format!("the store gave {count} answers to one") };
    Err(MutexError::unusable(admission.attempted(), why))
}

/// The default of [`EventMutex::release`].
pub(crate) fn release_each<M: EventMutex + ?Sized>(mutex: &M, leases: &[Lease]) -> Answers<bool> {
    ask_for_each(leases, |lease| format!("forget {}", lease.name()), |lease| mutex.forget(lease))
}

/// The default of [`EventMutex::release_then_admit`]: a store that is out at the first is not waited for at the second.
pub(crate) fn release_then_admit<M: EventMutex + ?Sized>(
    mutex: &M,
    ended: &[Lease],
    admissions: &[Admission],
) -> (Answers<bool>, Answers<Admitted>) {
    let released = mutex.release(ended);
    let admitted = match outage_in(&released) {
        None => mutex.admit(admissions),
        Some(first) => {
            admissions.iter().map(|asked| Err(MutexError::not_asked_again(asked.attempted(), first))).collect()
        }
    };
    (released, admitted)
}

/// The error that says that the store as a whole is out, if there is one among the answers.
pub(crate) fn outage_in<T>(answers: &[Result<T, MutexError>]) -> Option<&MutexError> {
    answers.iter().filter_map(|answer| answer.as_ref().err()).find(|error| error.is_outage())
}

/// Asks one after another, up to the first outage: whoever waits for a store that is out waits once. A panic is an
/// answer to one question.
fn ask_for_each<Q, A>(
    questions: &[Q],
    attempted: impl Fn(&Q) -> String,
    ask: impl Fn(&Q) -> Result<A, MutexError>,
) -> Answers<A> {
    let mut outage: Option<MutexError> = None;
    let answer = |question| {
        if let Some(first) = &outage {
            return Err(MutexError::not_asked_again(attempted(question), first));
        }
        let answer = contain(|| ask(question));
        let answer = answer.unwrap_or_else(|message| Err(MutexError::panicked(attempted(question), &message)));
        outage = answer.as_ref().err().filter(|error| error.is_outage()).cloned();
        answer
    };
    questions.iter().map(answer).collect()
}

/// The order in which a lost race for the lease has used up the occurrence.
#[cfg(soloist_mutation = "claim_before_lease")]
pub(crate) fn admit_in_steps<M: EventMutex + ?Sized>(mutex: &M, admission: &Admission) -> Result<Admitted, MutexError> {
    let mut granted = [None, None];
    for (request, lease) in [admission.claim(), admission.lease()].into_iter().zip(&mut granted) {
        let Some(request) = request else { continue };
        *lease = create_or_give_back(mutex, request)?;
        let holder = || mutex.holder(request.name()).unwrap_or(None);
        match (&lease, admission.claim().is_some_and(|claim| std::ptr::eq(claim, request))) {
            (Some(_), _) => {}
            (None, true) => return Ok(Admitted::ClaimTaken(holder())),
            (None, false) => return Ok(Admitted::LeaseTaken(holder())),
        }
    }
    let [claim, lease] = granted;
    let token = lease.as_ref().or(claim.as_ref()).map_or(FencingToken::new(0), Lease::token);
    Ok(Admitted::Granted(Grant { lease, claim, token }))
}

/// One admission: claim looked at, lease, claim; and whatever may be ours is given back unless all of it is.
#[cfg(not(soloist_mutation = "claim_before_lease"))]
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
