//! What decides whether a due event is admitted: its filters, then its lease and its claim together.

use std::slice;
use std::sync::Arc;

use super::planned_run::Turn;
use crate::base::contain::contain;
use crate::base::error::{BoxError, Chain, MutexError};
use crate::base::escape::OneLine;
use crate::event::catch_up::Missed;
use crate::event::outage_policy::OutagePolicy;
use crate::hold::guard::release_together;
use crate::hold::held::Held;
use crate::hold::tenure::Tenure;
use crate::lease::request::Lease;
use crate::lease::token::FencingToken;
use crate::observe::outcome::RunOutcome;
use crate::observe::skip_reason::SkipReason;
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::event_mutex::steps::outage_in;
use crate::task::run::Run;

/// What an admitted event gets: its run, with all that this holds, which is given back on every way out.
pub(crate) struct Pass<'a> {
    pub(crate) held: Held<&'a dyn EventMutex, Run>,
    /// Why it holds nothing although it should: the store gave no decision, and the event chose to run all the same.
    pub(crate) unprotected: Option<Box<MutexError>>,
}

impl Pass<'_> {
    #[inline]
    pub(crate) fn run(&self) -> &Run {
        self.held.holding()
    }
}

/// How many admissions a store is asked for at once, at most.
pub(crate) const BATCH_SIZE: usize = 100;

/// Admits the event, or says why not. No I/O before the last step, but for a look whether the schedule is paused.
pub(crate) fn admit<'a>(turn: &Turn<'a>) -> Result<Pass<'a>, SkipReason> {
    ask_filters(turn)?;
    let _still = turn.clock.stand_still();
    refuse_late_claims(turn)?;
    let Some(admission) = asked_of_the_store(turn) else { return Ok(pass(turn, None)) };
    let mut unused = Vec::new();
    let decision = match ask_store(turn, |mutex| mutex.admit_one(&admission), outage_of) {
        Err(silence) => Err(silence.about(&admission, &mut unused)),
        Ok(answer) => judge(&admission, Some(answer), Count { asked: 1, given: 1 }, &mut unused),
    };
    let admitted = let_in(turn, decision, &mut unused);
    give_back(turn, unused);
    admitted
}

/// Admits an event without filters, and gives back in the same breath what the one before held. The answer to that comes
/// first; there is none if the store gave none, or was not asked.
pub(crate) fn admit_after<'a>(
    turn: &Turn<'a>,
    ended: &Lease,
) -> (Option<Result<bool, MutexError>>, Result<Pass<'a>, SkipReason>) {
    let _still = turn.clock.stand_still();
    let admission = match admission(turn) {
        Ok(Some(admission)) => admission,
        Ok(None) => return (None, Ok(pass(turn, None))),
        Err(reason) => return (None, Err(reason)),
    };
    let answers = ask_store(
        turn,
        |mutex| mutex.release_then_admit(slice::from_ref(ended), slice::from_ref(&admission)),
        |(released, admitted)| outage_in(released).or(outage_in(admitted)),
    );
    let mut unused = Vec::new();
    let (released, decision) = match answers {
        Err(silence) => (None, Err(silence.about(&admission, &mut unused))),
        Ok((mut released, mut admitted)) => {
            let count = Count { asked: 1, given: admitted.len() };
            let decision = judge(&admission, admitted.pop(), count, &mut unused);
            (released.pop().filter(|_| released.is_empty()), decision)
        }
    };
    let admitted = let_in(turn, decision, &mut unused);
    give_back(turn, unused);
    (released, admitted)
}

pub(crate) fn ask_filters(turn: &Turn<'_>) -> Result<(), SkipReason> {
    refuse_at_the_door(turn)?;
    // Of what was missed they were asked before it was looked for.
    if turn.missed.is_some() { Ok(()) } else { filters_allow(turn) }
}

/// Asks the filters in their order, until one refuses.
pub(crate) fn filters_allow(turn: &Turn<'_>) -> Result<(), SkipReason> {
    for filter in &turn.event.filters {
        if !contain(|| filter.allows(&turn.tick)).map_err(SkipReason::FilterPanicked)? {
            return Err(SkipReason::Filtered);
        }
    }
    Ok(())
}

/// What the event asks the store for, right before that is asked; nothing without a protection.
pub(crate) fn admission(turn: &Turn<'_>) -> Result<Option<Admission>, SkipReason> {
    refuse_at_the_door(turn)?;
    refuse_late_claims(turn).map(|()| asked_of_the_store(turn))
}

/// What was admitted a while ago may start now, or all of it is given back.
pub(crate) fn may_still_start<'a>(turn: &Turn<'a>, pass: Pass<'a>) -> Result<Pass<'a>, SkipReason> {
    match refuse_when_shutting_down(turn) {
        Ok(()) => Ok(pass),
        Err(reason) => {
            give_back(turn, not_started(pass).collect());
            Err(reason)
        }
    }
}

/// All that it holds: nothing has started under it, so that nothing is to be held any longer.
fn not_started(pass: Pass<'_>) -> impl Iterator<Item = Lease> + use<> {
    let run = pass.held.keep();
    let tenure = run.tenure();
    let lease = tenure.lease().cloned().map(|lease| tenure.end_renewal().unwrap_or(lease));
    lease.into_iter().chain(tenure.claim().cloned())
}

/// The leases of these runs were asked back already, whether the store was out or not. Under one that was lost before its
/// task, nothing has started: another server can have its occurrence.
#[inline]
pub(crate) fn give_back_claims<'r>(turn: &Turn<'_>, ran: impl Iterator<Item = (&'r RunOutcome, &'r Run)>) {
    let left = ran.filter(|(outcome, _)| outcome.leaves_its_occurrence());
    give_back(turn, left.filter_map(|(_, run)| run.tenure().claim().cloned()).collect());
}

/// Whatever the event itself says.
fn refuse_at_the_door(turn: &Turn<'_>) -> Result<(), SkipReason> {
    refuse_when_shutting_down(turn)?;
    refuse_while_paused(turn)?;
    match &turn.missed {
        Some(Missed::Unknown(reason)) => Err(reason.clone()),
        Some(Missed::Owed) | None => Ok(()),
    }
}

fn refuse_when_shutting_down(turn: &Turn<'_>) -> Result<(), SkipReason> {
    if turn.round.is_shutting_down() { Err(SkipReason::ShuttingDown) } else { Ok(()) }
}

/// Asks the schedule's store, but not for each event: a tick remembers what it was told.
fn refuse_while_paused(turn: &Turn<'_>) -> Result<(), SkipReason> {
    match &turn.round.pause {
        Some(pause) if !turn.event.even_when_paused => pause.allows_start(&turn.round.outages, turn.clock),
        _ => Ok(()),
    }
}

fn asked_of_the_store(turn: &Turn<'_>) -> Option<Admission> {
    turn.event.protection.admission(turn.claimant(), turn.round.owners, turn.clock)
}

/// Past the window, the claim of whoever ran in this occurrence or period may have expired, and the store would grant it again.
fn refuse_late_claims(turn: &Turn<'_>) -> Result<(), SkipReason> {
    if !turn.claims() {
        return Ok(());
    }
    let window = turn.claim_window().saturating_sub(turn.missed_by());
    if turn.clock.moment().since(turn.round.began) > window { Err(SkipReason::TooLate) } else { Ok(()) }
}

/// Asks the store, which these turns have in common, for all of their `admissions` at once, and decides on each in their
/// order. A fault of one is no fault of another; an outage is everybody's. What is not used of all is given back at once.
pub(crate) fn decide_together<'a>(
    turns: &[&Turn<'a>],
    admissions: &[Admission],
    mut decide: impl FnMut(Result<Pass<'a>, SkipReason>),
) {
    let Some(first) = turns.first() else { return };
    let asked = turns.iter().zip(admissions);
    let mut unused = Vec::new();
    match ask_store(first, |mutex| mutex.admit(admissions), |answers| outage_in(answers)) {
        Err(silence) => asked.for_each(|(turn, admission)| {
            let silence = silence.about(admission, &mut unused);
            decide(let_in(turn, Err(silence), &mut unused));
        }),
        Ok(answers) => {
            let count = Count { asked: admissions.len(), given: answers.len() };
            let mut answers = answers.into_iter();
            asked.for_each(|(turn, admission)| {
                let decision = judge(admission, answers.next(), count, &mut unused);
                decide(let_in(turn, decision, &mut unused));
            });
        }
    }
    give_back(first, unused);
}

/// What the store's decision means for the event; what was granted and is not used goes to the `unused`.
#[expect(clippy::inline_always, reason = "a grant that is moved once more costs each due event several nanoseconds")]
#[inline(always)]
fn let_in<'a>(
    turn: &Turn<'a>,
    decision: Result<Grant, SkipReason>,
    unused: &mut Vec<Lease>,
) -> Result<Pass<'a>, SkipReason> {
    match decision {
        Ok(grant) if turn.round.is_shutting_down() => {
            unused.extend([grant.lease(), grant.claim()].into_iter().flatten().cloned());
            Err(SkipReason::ShuttingDown)
        }
        Ok(grant) => take_up(turn, grant, unused),
        Err(reason) => without_protection(turn, reason),
    }
}

/// Nothing is known of who else runs it: the event says whether that keeps it from running.
fn without_protection<'a>(turn: &Turn<'a>, reason: SkipReason) -> Result<Pass<'a>, SkipReason> {
    match (reason, turn.event.protection.on_outage) {
        (SkipReason::StoreUnavailable(error), OutagePolicy::RunUnprotected) => {
            let _ =
                contain(|| tracing::warn!(target: "soloist", error = %OneLine(Chain(&error)), "running unprotected"));
            Ok(Pass { unprotected: Some(Box::new(error)), ..pass(turn, None) })
        }
        (reason, _) => Err(reason),
    }
}

/// Begins the run, unless what was granted is worth nothing.
#[expect(clippy::inline_always, reason = "a grant that is moved once more costs each due event several nanoseconds")]
#[inline(always)]
fn take_up<'a>(turn: &Turn<'a>, grant: Grant, unused: &mut Vec<Lease>) -> Result<Pass<'a>, SkipReason> {
    let pass = pass(turn, Some(grant));
    let tenure = pass.run().tenure();
    let Some(terms) = turn.event.protection.lease else { return Ok(pass) };
    if tenure.lease().is_some() && tenure.deadline_at(tenure.began()).is_none() {
        let error = MutexError::granted_too_late(format!("admit {}", turn.event.protection.mutex));
        let decision = without_protection(turn, SkipReason::StoreUnavailable(error));
        // Who runs all the same runs for everybody, in this occurrence or period.
        let is_used = |lease: &Lease| decision.is_ok() && lease.name().is_claim();
        unused.extend(not_started(pass).filter(|lease| !is_used(lease)));
        return decision;
    }
    match turn.round.keepers.with(turn.store, turn.clock, |keeper| keeper.keep(turn.store, tenure, terms.renewal)) {
        Ok(()) => Ok(pass),
        Err(holder) => {
            unused.extend(not_started(pass));
            Err(SkipReason::Overlapping(holder))
        }
    }
}

#[expect(clippy::inline_always, reason = "a grant that is moved once more costs each due event several nanoseconds")]
#[inline(always)]
pub(crate) fn pass<'a>(turn: &Turn<'a>, grant: Option<Grant>) -> Pass<'a> {
    let at_least = turn.event.protection.lease.and_then(|terms| terms.at_least);
    let stopping = turn.event.work.stopping();
    let tenure = Tenure::new(turn.clock.clone(), grant, turn.clock.moment(), at_least, stopping);
    let run = Run::new(Arc::clone(&turn.event.name), turn.occurrence(), turn.lateness(), tenure);
    Pass { held: Held::new(turn.mutex(), run), unprotected: None }
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
fn ask_store<A>(
    turn: &Turn<'_>,
    ask: impl FnOnce(&dyn EventMutex) -> A,
    outage: impl FnOnce(&A) -> Option<&MutexError>,
) -> Result<A, Silence> {
    let Turn { store, clock, round, .. } = turn;
    round.outages.may_ask(store.id, clock).map_err(Silence::NotAsked)?;
    let answer = contain(|| ask(turn.mutex()));
    round.outages.heard(store.id, clock, answer.as_ref().ok().and_then(outage));
    answer.map_err(Silence::Panicked)
}

/// What says that the store as a whole is out.
fn outage_of(answer: &Result<Admitted, MutexError>) -> Option<&MutexError> {
    answer.as_ref().err().filter(|error| error.is_outage())
}

impl Silence {
    fn about(&self, admission: &Admission, unused: &mut Vec<Lease>) -> SkipReason {
        SkipReason::StoreUnavailable(match self {
            Self::NotAsked(first) => MutexError::not_asked_again(admission.attempted(), first),
            Self::Panicked(message) => {
                unused.extend(asked_for(admission));
                MutexError::panicked(admission.attempted(), message)
            }
        })
    }
}

/// What an answer means for the turn. Where their number is wrong, a refusal may be somebody else's.
#[expect(clippy::inline_always, reason = "an answer that is moved once more costs each due event several nanoseconds")]
#[inline(always)]
fn judge(
    admission: &Admission,
    answer: Option<Result<Admitted, MutexError>>,
    Count { asked, given }: Count,
    unused: &mut Vec<Lease>,
) -> Result<Grant, SkipReason> {
    let unusable = |why: BoxError| SkipReason::StoreUnavailable(MutexError::unusable(admission.attempted(), why));
    match answer {
        Some(Ok(Admitted::Granted(grant))) if grant.is_for(admission) => Ok(grant),
        Some(Ok(Admitted::Granted(grant))) => {
            let ours = |lease: &&Lease| lease.owner() == admission.owner();
            unused.extend([grant.lease(), grant.claim()].into_iter().flatten().filter(ours).cloned());
            unused.extend(asked_for(admission));
            Err(unusable("the store granted something else than was asked for".into()))
        }
        Some(Ok(Admitted::LeaseTaken(holder))) if asked == given => Err(SkipReason::Overlapping(holder)),
        Some(Ok(Admitted::ClaimTaken(holder))) if asked == given => Err(SkipReason::RanElsewhere(holder)),
        // The store knows of it, and gives back what it may have granted.
        Some(Err(error)) => Err(SkipReason::StoreUnavailable(error)),
        None | Some(Ok(_)) => {
            unused.extend(asked_for(admission));
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

/// Asks the store to take all of this back at once, whether it was out a moment ago or not: one that is makes up only for
/// what it was asked. Nothing has started under it, and what is not ours is left alone.
fn give_back(turn: &Turn<'_>, leases: Vec<Lease>) {
    if leases.is_empty() {
        return;
    }
    let Turn { store, clock, round, .. } = *turn;
    let held = leases.into_iter().map(|lease| Held::new(&store.mutex, lease)).collect();
    let released = release_together(&store.mutex, held);
    if let Some(outage) = released.iter().find_map(|(_, release)| release.as_ref()?.outage()) {
        round.outages.heard(store.id, clock, Some(outage));
    }
}
