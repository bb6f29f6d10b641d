//! What decides whether a due event is admitted: its filters, then its lease and its claim together.

use std::slice;
use std::sync::Arc;

use crate::error::{BoxError, MutexError};
use crate::fault::contain;
use crate::guard::Held;
use crate::lease::{FencingToken, Lease};
use crate::mutex::{Admission, Admitted, Grant, outage_in};
use crate::outcome::SkipReason;
use crate::protection::CLAIM_WINDOW;
use crate::turn::Turn;

/// What an admitted event holds, which is nothing without a protection, or why it is not admitted.
type Admittance = Result<Option<Grant>, SkipReason>;

/// Admits the event and gives what it holds, which is nothing without a protection, or says why not. No I/O before the
/// last step.
pub(crate) fn admit(turn: &Turn<'_>) -> Admittance {
    ask_filters(turn)?;
    refuse_late_claims(turn)?;
    let Some(admission) = asked_of_the_store(turn) else { return Ok(None) };
    match ask_store(turn, slice::from_ref(&admission)) {
        Err(silence) => Err(silence.about(turn, &admission)),
        Ok(mut answers) => {
            let count = Count { asked: 1, given: answers.len() };
            judge(turn, &admission, answers.pop(), count).map(Some)
        }
    }
}

/// Admits an event without filters, and gives back in the same breath what the one before held. The answer to that comes
/// first; there is none if the store gave none, or was not asked.
pub(crate) fn admit_after(turn: &Turn<'_>, ended: &Lease) -> (Option<Result<bool, MutexError>>, Admittance) {
    let admission = match admission(turn) {
        Ok(Some(admission)) => admission,
        Ok(None) => return (None, Ok(None)),
        Err(reason) => return (None, Err(reason)),
    };
    let Turn { mutex, store, clock, round, .. } = turn;
    if let Err(first) = round.outages.may_ask(*store, clock) {
        return (None, Err(Silence::NotAsked(first).about(turn, &admission)));
    }
    let answers = contain(|| mutex.release_then_admit(slice::from_ref(ended), slice::from_ref(&admission)));
    let outage = answers.as_ref().ok().and_then(|(released, admitted)| outage_in(released).or(outage_in(admitted)));
    round.outages.heard(*store, clock, outage);
    match answers {
        Err(message) => (None, Err(Silence::Panicked(message).about(turn, &admission))),
        Ok((mut released, mut admitted)) => {
            let count = Count { asked: 1, given: admitted.len() };
            let decision = judge(turn, &admission, admitted.pop(), count).map(Some);
            (released.pop().filter(|_| released.is_empty()), decision)
        }
    }
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
    refuse_late_claims(turn).map(|()| asked_of_the_store(turn))
}

fn asked_of_the_store(turn: &Turn<'_>) -> Option<Admission> {
    turn.event.protection.admission(turn.claimed(), turn.round.owners, turn.clock)
}

/// Past the window, the claim of whoever ran this occurrence may have expired, and the store would grant it again.
fn refuse_late_claims(turn: &Turn<'_>) -> Result<(), SkipReason> {
    let claims = turn.event.protection.one_server && turn.claimed().is_some();
    if claims && turn.clock.moment().since(turn.round.began) > CLAIM_WINDOW { Err(SkipReason::TooLate) } else { Ok(()) }
}

/// Asks the store, which these turns have in common, for all of `admissions` at once, and decides on each in their order.
/// A fault of one is no fault of another; an outage is everybody's.
pub(crate) fn decide_together(
    turn: &Turn<'_>,
    admissions: &[Admission],
    mut decide: impl FnMut(Result<Grant, SkipReason>),
) {
    match ask_store(turn, admissions) {
        Err(silence) => admissions.iter().for_each(|admission| decide(Err(silence.about(turn, admission)))),
        Ok(answers) => {
            let count = Count { asked: admissions.len(), given: answers.len() };
            let mut answers = answers.into_iter();
            for admission in admissions {
                decide(judge(turn, admission, answers.next(), count));
            }
        }
    }
}

/// Why there are no answers at all.
enum Silence {
    /// The store was out a moment ago, and said this.
    NotAsked(MutexError),
    Panicked(Arc<str>),
}

/// How many answers were given to how many admissions.
#[derive(Clone, Copy)]
struct Count {
    asked: usize,
    given: usize,
}

/// Asks the store, unless it was out a moment ago, and remembers if it is.
#[expect(clippy::inline_always, reason = "an answer that is moved once more costs each due event several nanoseconds")]
#[inline(always)]
fn ask_store(turn: &Turn<'_>, admissions: &[Admission]) -> Result<Vec<Result<Admitted, MutexError>>, Silence> {
    let Turn { mutex, store, clock, round, .. } = turn;
    round.outages.may_ask(*store, clock).map_err(Silence::NotAsked)?;
    let answers = contain(|| mutex.admit(admissions));
    round.outages.heard(*store, clock, answers.as_ref().ok().and_then(|answers| outage_in(answers)));
    answers.map_err(Silence::Panicked)
}

impl Silence {
    fn about(&self, turn: &Turn<'_>, admission: &Admission) -> SkipReason {
        SkipReason::StoreUnavailable(match self {
            Self::NotAsked(first) => MutexError::not_asked_again(admission.attempted(), first),
            Self::Panicked(message) => {
                give_back(turn, asked_for(admission));
                MutexError::panicked(admission.attempted(), message)
            }
        })
    }
}

/// What an answer means for the turn. Where their number is wrong, a refusal may be somebody else's.
#[expect(clippy::inline_always, reason = "an answer that is moved once more costs each due event several nanoseconds")]
#[inline(always)]
fn judge(
    turn: &Turn<'_>,
    admission: &Admission,
    answer: Option<Result<Admitted, MutexError>>,
    Count { asked, given }: Count,
) -> Result<Grant, SkipReason> {
    let unusable = |why: BoxError| SkipReason::StoreUnavailable(MutexError::unusable(admission.attempted(), why));
    match answer {
        Some(Ok(Admitted::Granted(grant))) if grant.is_for(admission) => Ok(grant),
        Some(Ok(Admitted::Granted(grant))) => {
            let ours = |lease: &&Lease| lease.owner() == admission.owner();
            give_back(turn, [grant.lease(), grant.claim()].into_iter().flatten().filter(ours).cloned());
            give_back(turn, asked_for(admission));
            Err(unusable("the store granted something else than was asked for".into()))
        }
        Some(Ok(Admitted::LeaseTaken(holder))) if asked == given => Err(SkipReason::Overlapping(holder)),
        Some(Ok(Admitted::ClaimTaken(holder))) if asked == given => Err(SkipReason::RanElsewhere(holder)),
        // The store knows of it, and gives back what it may have granted.
        Some(Err(error)) => Err(SkipReason::StoreUnavailable(error)),
        None | Some(Ok(_)) => {
            give_back(turn, asked_for(admission));
            Err(unusable(match given {
                0 => "the store gave no answer".into(),
                _ => format!("the store gave {given} answers to {asked} admissions").into(),
            }))
        }
    }
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
