//! What decides whether a due event is admitted: its filters, then its lease and its claim together.

use std::slice;

use crate::error::MutexError;
use crate::fault::contain;
use crate::guard::Held;
use crate::lease::{FencingToken, Lease};
use crate::mutex::{Admission, Admitted, Grant};
use crate::outcome::SkipReason;
use crate::protection::CLAIM_WINDOW;
use crate::turn::Turn;

/// Admits the event and gives what it holds, which is nothing without a protection, or says why not. No I/O before the
/// last step.
pub(crate) fn admit(turn: &Turn<'_>) -> Result<Option<Grant>, SkipReason> {
    ask_filters(turn)?;
    let Some(admission) = admission(turn)? else { return Ok(None) };
    let mut decision = None;
    ask_store(turn, slice::from_ref(&admission), |decided| decision = Some(decided));
    decision.expect("each admission is decided on").map(Some)
}

pub(crate) fn ask_filters(turn: &Turn<'_>) -> Result<(), SkipReason> {
    for allows in &turn.event.filters {
        if !contain(|| allows(&turn.tick)).map_err(SkipReason::FilterPanicked)? {
            return Err(SkipReason::Filtered);
        }
    }
    Ok(())
}

/// What the event asks the store for, right before that is asked; nothing without a protection.
pub(crate) fn admission(turn: &Turn<'_>) -> Result<Option<Admission>, SkipReason> {
    refuse_late_claims(turn)?;
    Ok(turn.event.protection.admission(turn.claimed(), turn.round.owners, turn.clock))
}

/// Past the window, the claim of whoever ran this occurrence may have expired, and the store would grant it again.
fn refuse_late_claims(turn: &Turn<'_>) -> Result<(), SkipReason> {
    let claims = turn.event.protection.one_server && turn.claimed().is_some();
    if claims && turn.clock.moment().since(turn.round.began) > CLAIM_WINDOW { Err(SkipReason::TooLate) } else { Ok(()) }
}

/// Asks the store of this turn for all of `admissions` at once, and decides on each, in their order. A fault of one is
/// no fault of another; an outage is everybody's for the rest of the tick.
pub(crate) fn ask_store(turn: &Turn<'_>, admissions: &[Admission], mut decide: impl FnMut(Result<Grant, SkipReason>)) {
    let Turn { mutex, store, clock, round, .. } = *turn;
    if let Err(first) = round.outages.may_ask(store, clock) {
        for admission in admissions {
            decide(Err(SkipReason::StoreUnavailable(MutexError::not_asked_again(attempted(admission), &first))));
        }
        return;
    }
    let answers = contain(|| mutex.admit(admissions));
    let outage = answers.iter().flatten().filter_map(|answer| answer.as_ref().err()).find(|e| e.is_unavailable());
    round.outages.heard(store, clock, outage);
    let panicked = answers.as_ref().err().cloned();
    let mut answers = answers.unwrap_or_default().into_iter();
    let given = answers.len();
    for admission in admissions {
        let wrong = || match &panicked {
            Some(message) => MutexError::panicked(attempted(admission), message),
            None if given == 0 => MutexError::unusable(attempted(admission), "the store gave no answer"),
            None => {
                let count = format!("the store gave {given} answers to {} admissions", admissions.len());
                MutexError::unusable(attempted(admission), count)
            }
        };
        decide(match answers.next() {
            Some(Ok(Admitted::Granted(grant))) => accept(turn, admission, grant),
            // An error is the store's last word on it, whoever else it may have mixed up.
            Some(Err(error)) => Err(SkipReason::StoreUnavailable(error)),
            Some(Ok(Admitted::LeaseTaken(holder))) if given == admissions.len() => Err(SkipReason::Overlapping(holder)),
            Some(Ok(Admitted::ClaimTaken(holder))) if given == admissions.len() => {
                Err(SkipReason::RanElsewhere(holder))
            }
            None | Some(Ok(Admitted::LeaseTaken(_) | Admitted::ClaimTaken(_))) => {
                give_back(turn, asked_for(admission));
                Err(SkipReason::StoreUnavailable(wrong()))
            }
        });
    }
}

fn attempted(admission: &Admission) -> String {
    format!("admit {}", admission.name())
}

fn accept(turn: &Turn<'_>, admission: &Admission, grant: Grant) -> Result<Grant, SkipReason> {
    if grant.is_for(admission) {
        return Ok(grant);
    }
    let ours = |lease: &&Lease| lease.owner() == admission.owner();
    give_back(turn, [grant.lease(), grant.claim()].into_iter().flatten().filter(ours).cloned());
    give_back(turn, asked_for(admission));
    let why = "the store granted something else than was asked for";
    Err(SkipReason::StoreUnavailable(MutexError::unusable(attempted(admission), why)))
}

/// All that the store may have granted to this admission.
fn asked_for(admission: &Admission) -> impl Iterator<Item = Lease> {
    let asked = [admission.lease(), admission.claim()].into_iter().flatten();
    asked.map(|request| request.granted(FencingToken::new(0)))
}

/// Gives back what the store may have granted without saying so. Nothing has started under it, and what is not ours is
/// left alone.
fn give_back(turn: &Turn<'_>, leases: impl Iterator<Item = Lease>) {
    let Turn { mutex, store, clock, round, .. } = *turn;
    for lease in leases {
        if round.outages.may_ask(store, clock).is_ok() {
            let answer = Held::new(mutex, lease).release();
            round.outages.heard(store, clock, answer.as_ref().err().filter(|error| error.is_unavailable()));
        }
    }
}
