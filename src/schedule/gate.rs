//! Decides whether an event may run: its filters first, then one request to the store for its lease and claim together.

use std::slice;
use std::sync::Arc;

use super::planned_run::PlannedRun;
use crate::base::catch_panic::contain;
use crate::base::error::{BoxError, MutexError};
use crate::base::escape::{Chain, OneLine};
use crate::event::{catch_up::Missed, outage_policy::OutagePolicy};
use crate::hold::{release_on_drop::ReleaseOnDrop, release_together::release_together, tenure::Tenure};
use crate::lease::{request::Lease, token::FencingToken};
use crate::observe::{outcome::RunOutcome, skip_reason::SkipReason};
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::{event_mutex::EventMutex, event_mutex::ask_each::outage_in};
use crate::task::run::Run;

/// The run of an admitted event, with all that it holds, which is given back on every way out.
pub(crate) struct AdmittedRun<'a> {
    pub(crate) held: ReleaseOnDrop<&'a dyn EventMutex, Run>,
    /// Set if it runs without its protection: the error of the store, which the event's outage policy ignores.
    pub(crate) unprotected: Option<Box<MutexError>>,
}

impl AdmittedRun<'_> {
    #[inline]
    pub(crate) fn run(&self) -> &Run {
        self.held.holding()
    }
}

/// How many admissions a store is asked for at once, at most.
pub(crate) const BATCH_SIZE: usize = 100;

/// Admits the event, or says why not. The only I/O before the admission itself is the check for a pause.
pub(crate) fn admit<'a>(planned: &PlannedRun<'a>) -> Result<AdmittedRun<'a>, SkipReason> {
    check_before_store(planned)?;
    let _still = planned.clock.stand_still();
    refuse_late_claims(planned)?;
    let Some(admission) = requested_admission(planned) else { return Ok(begin_run(planned, None)) };
    let mut unused = Vec::new();
    let decision = match ask_store(planned, |mutex| mutex.admit_one(&admission), outage_of) {
        Err(no_answer) => Err(no_answer.about(&admission, &mut unused)),
        Ok(answer) => check_answer(&admission, Some(answer), AnswerCount { asked: 1, given: 1 }, &mut unused),
    };
    let admitted = accept_decision(planned, decision, &mut unused);
    give_back(planned, unused);
    admitted
}

/// Admits an event without filters, and releases the lease of the event before it in the same request. The first value is
/// the answer to the release; `None` if the store gave none, or was not asked.
pub(crate) fn admit_after<'a>(
    planned: &PlannedRun<'a>,
    ended: &Lease,
) -> (Option<Result<bool, MutexError>>, Result<AdmittedRun<'a>, SkipReason>) {
    let _still = planned.clock.stand_still();
    let admission = match build_admission(planned) {
        Ok(Some(admission)) => admission,
        Ok(None) => return (None, Ok(begin_run(planned, None))),
        Err(reason) => return (None, Err(reason)),
    };
    let answers = ask_store(
        planned,
        |mutex| mutex.release_then_admit(slice::from_ref(ended), slice::from_ref(&admission)),
        |(released, admitted)| outage_in(released).or(outage_in(admitted)),
    );
    let mut unused = Vec::new();
    let (released, decision) = match answers {
        Err(no_answer) => (None, Err(no_answer.about(&admission, &mut unused))),
        Ok((mut released, mut admitted)) => {
            let count = AnswerCount { asked: 1, given: admitted.len() };
            let decision = check_answer(&admission, admitted.pop(), count, &mut unused);
            (released.pop().filter(|_| released.is_empty()), decision)
        }
    };
    let admitted = accept_decision(planned, decision, &mut unused);
    give_back(planned, unused);
    (released, admitted)
}

pub(crate) fn check_before_store(planned: &PlannedRun<'_>) -> Result<(), SkipReason> {
    refuse_without_store(planned)?;
    // The filters of a missed occurrence were asked before the store was.
    if planned.missed.is_some() { Ok(()) } else { ask_filters(planned) }
}

/// Asks the filters in their order, until one refuses.
pub(crate) fn ask_filters(planned: &PlannedRun<'_>) -> Result<(), SkipReason> {
    for filter in &planned.event.filters {
        if !contain(|| filter.allows(&planned.tick)).map_err(SkipReason::FilterPanicked)? {
            return Err(SkipReason::Filtered);
        }
    }
    Ok(())
}

/// The admission to ask the store for, built right before it is sent; `None` without a protection.
pub(crate) fn build_admission(planned: &PlannedRun<'_>) -> Result<Option<Admission>, SkipReason> {
    refuse_without_store(planned)?;
    refuse_late_claims(planned).map(|()| requested_admission(planned))
}

/// Checks once more before a run that was admitted a while ago; if it may not start, gives back all that it holds.
pub(crate) fn may_still_start<'a>(
    planned: &PlannedRun<'a>,
    admitted_run: AdmittedRun<'a>,
) -> Result<AdmittedRun<'a>, SkipReason> {
    match refuse_when_shutting_down(planned) {
        Ok(()) => Ok(admitted_run),
        Err(reason) => {
            give_back(planned, not_started(admitted_run).collect());
            Err(reason)
        }
    }
}

/// All that a run holds which has not started: `hold_at_least` does not apply to it.
fn not_started(admitted_run: AdmittedRun<'_>) -> impl Iterator<Item = Lease> + use<> {
    let run = admitted_run.held.into_inner();
    let tenure = run.tenure();
    let lease = tenure.lease().cloned().map(|lease| tenure.end_renewal().unwrap_or(lease));
    lease.into_iter().chain(tenure.claim().cloned())
}

/// Gives back the claims of runs that lost their lease before the task started, so that another server can run the
/// occurrence. Their leases were released already.
#[inline]
pub(crate) fn give_back_claims<'r>(planned: &PlannedRun<'_>, ran: impl Iterator<Item = (&'r RunOutcome, &'r Run)>) {
    let left = ran.filter(|(outcome, _)| outcome.leaves_its_occurrence());
    give_back(planned, left.filter_map(|(_, run)| run.tenure().claim().cloned()).collect());
}

/// The refusals that need neither filters nor claims: shutdown, pause, and a missed occurrence whose store is out.
fn refuse_without_store(planned: &PlannedRun<'_>) -> Result<(), SkipReason> {
    refuse_when_shutting_down(planned)?;
    refuse_while_paused(planned)?;
    match &planned.missed {
        Some(Missed::Unknown(reason)) => Err(reason.clone()),
        Some(Missed::Confirmed) | None => Ok(()),
    }
}

fn refuse_when_shutting_down(planned: &PlannedRun<'_>) -> Result<(), SkipReason> {
    if planned.context.is_shutting_down() { Err(SkipReason::ShuttingDown) } else { Ok(()) }
}

/// The tick asks the store for its pause once, not for each event.
fn refuse_while_paused(planned: &PlannedRun<'_>) -> Result<(), SkipReason> {
    match &planned.context.pause {
        Some(pause) if !planned.event.even_when_paused => pause.allows_start(&planned.context.outages, planned.clock),
        _ => Ok(()),
    }
}

fn requested_admission(planned: &PlannedRun<'_>) -> Option<Admission> {
    planned.event.protection.admission(planned.claimant(), planned.context.owners, planned.clock)
}

/// After the window, the claim of the server that ran this occurrence or period may have expired, and the store would
/// grant it twice.
fn refuse_late_claims(planned: &PlannedRun<'_>) -> Result<(), SkipReason> {
    if !planned.claims() {
        return Ok(());
    }
    let window = planned.claim_window().saturating_sub(planned.missed_by());
    if planned.clock.moment().since(planned.context.began) > window { Err(SkipReason::TooLate) } else { Ok(()) }
}

/// Asks the store that these runs share for all of their `admissions` in one request, and passes each decision to `decide`
/// in their order. An error for one does not affect the others, except an outage. Unused grants are given back together.
pub(crate) fn admit_batch<'a>(
    planned_runs: &[&PlannedRun<'a>],
    admissions: &[Admission],
    mut decide: impl FnMut(Result<AdmittedRun<'a>, SkipReason>),
) {
    let Some(first) = planned_runs.first() else { return };
    let asked = planned_runs.iter().zip(admissions);
    let mut unused = Vec::new();
    match ask_store(first, |mutex| mutex.admit(admissions), |answers| outage_in(answers)) {
        Err(no_answer) => asked.for_each(|(planned, admission)| {
            let no_answer = no_answer.about(admission, &mut unused);
            decide(accept_decision(planned, Err(no_answer), &mut unused));
        }),
        Ok(answers) => {
            let count = AnswerCount { asked: admissions.len(), given: answers.len() };
            let mut answers = answers.into_iter();
            asked.for_each(|(planned, admission)| {
                let decision = check_answer(admission, answers.next(), count, &mut unused);
                decide(accept_decision(planned, decision, &mut unused));
            });
        }
    }
    give_back(first, unused);
}

/// Turns the decision of the store into a run or a reason to skip it; a grant that is not used goes to `unused`.
fn accept_decision<'a>(
    planned: &PlannedRun<'a>,
    decision: Result<Grant, SkipReason>,
    unused: &mut Vec<Lease>,
) -> Result<AdmittedRun<'a>, SkipReason> {
    match decision {
        Ok(grant) if planned.context.is_shutting_down() => {
            unused.extend([grant.lease(), grant.claim()].into_iter().flatten().cloned());
            Err(SkipReason::ShuttingDown)
        }
        Ok(grant) => accept_grant(planned, grant, unused),
        Err(reason) => apply_outage_policy(planned, reason),
    }
}

/// The store gave no decision: the event's outage policy says whether it runs all the same.
fn apply_outage_policy<'a>(planned: &PlannedRun<'a>, reason: SkipReason) -> Result<AdmittedRun<'a>, SkipReason> {
    match (reason, planned.event.protection.on_outage) {
        (SkipReason::StoreUnavailable(error), OutagePolicy::RunUnprotected) => {
            let _ =
                contain(|| tracing::warn!(target: "soloist", error = %OneLine(Chain(&error)), "running unprotected"));
            Ok(AdmittedRun { unprotected: Some(Box::new(error)), ..begin_run(planned, None) })
        }
        (reason, _) => Err(reason),
    }
}

/// Begins the run and the renewal of its lease, unless the grant came too late, or this process still renews a lease of
/// that name, which the store has forgotten.
fn accept_grant<'a>(
    planned: &PlannedRun<'a>,
    grant: Grant,
    unused: &mut Vec<Lease>,
) -> Result<AdmittedRun<'a>, SkipReason> {
    let admitted_run = begin_run(planned, Some(grant));
    let tenure = admitted_run.run().tenure();
    let Some(terms) = planned.event.protection.lease else { return Ok(admitted_run) };
    if tenure.lease().is_some() && tenure.deadline_at(tenure.began()).is_none() {
        let error = MutexError::granted_too_late(format!("admit {}", planned.event.protection.mutex));
        let decision = apply_outage_policy(planned, SkipReason::StoreUnavailable(error));
        // If it runs without a lease, its claim still counts for the other servers.
        let is_used = |lease: &Lease| decision.is_ok() && lease.name().is_claim();
        unused.extend(not_started(admitted_run).filter(|lease| !is_used(lease)));
        return decision;
    }
    match planned
        .context
        .keepers
        .with(planned.store, planned.clock, |keeper| keeper.keep(planned.store, tenure, terms.renewal))
    {
        Ok(()) => Ok(admitted_run),
        Err(holder) => {
            unused.extend(not_started(admitted_run));
            Err(SkipReason::Overlapping(holder))
        }
    }
}

pub(crate) fn begin_run<'a>(planned: &PlannedRun<'a>, grant: Option<Grant>) -> AdmittedRun<'a> {
    let at_least = planned.event.protection.lease.and_then(|terms| terms.at_least);
    let stopping = planned.event.work.stopping();
    let tenure = Tenure::new(planned.clock.clone(), grant, planned.clock.moment(), at_least, stopping);
    let run = Run::new(Arc::clone(&planned.event.name), planned.occurrence(), planned.lateness(), tenure);
    AdmittedRun { held: ReleaseOnDrop::new(planned.mutex(), run), unprotected: None }
}

/// Why a request has no answers at all.
enum NoAnswer {
    /// The store was out a moment ago, with this error.
    NotAsked(MutexError),
    Panicked(Arc<str>),
}

/// How many admissions were asked for, and how many answers came.
#[derive(Clone, Copy)]
struct AnswerCount {
    asked: usize,
    given: usize,
}

/// Asks the store, unless it was out a moment ago, and records an outage.
fn ask_store<A>(
    planned: &PlannedRun<'_>,
    ask: impl FnOnce(&dyn EventMutex) -> A,
    outage: impl FnOnce(&A) -> Option<&MutexError>,
) -> Result<A, NoAnswer> {
    let PlannedRun { store, clock, context, .. } = planned;
    context.outages.may_ask(store.id, clock).map_err(NoAnswer::NotAsked)?;
    let answer = contain(|| ask(planned.mutex()));
    context.outages.record(store.id, clock, answer.as_ref().ok().and_then(outage));
    answer.map_err(NoAnswer::Panicked)
}

/// The error, if it says that the store as a whole is out.
fn outage_of(answer: &Result<Admitted, MutexError>) -> Option<&MutexError> {
    answer.as_ref().err().filter(|error| error.is_outage())
}

impl NoAnswer {
    fn about(&self, admission: &Admission, unused: &mut Vec<Lease>) -> SkipReason {
        SkipReason::StoreUnavailable(match self {
            Self::NotAsked(first) => MutexError::not_asked_again(admission.attempted(), first),
            Self::Panicked(message) => {
                unused.extend(possible_grants(admission));
                MutexError::panicked(admission.attempted(), message)
            }
        })
    }
}

/// Checks one answer. If the number of answers is wrong, a refusal may belong to another admission.
fn check_answer(
    admission: &Admission,
    answer: Option<Result<Admitted, MutexError>>,
    AnswerCount { asked, given }: AnswerCount,
    unused: &mut Vec<Lease>,
) -> Result<Grant, SkipReason> {
    let unusable = |why: BoxError| SkipReason::StoreUnavailable(MutexError::unusable(admission.attempted(), why));
    match answer {
        Some(Ok(Admitted::Granted(grant))) if grant.is_for(admission) => Ok(grant),
        Some(Ok(Admitted::Granted(grant))) => {
            let ours = |lease: &&Lease| lease.owner() == admission.owner();
            unused.extend([grant.lease(), grant.claim()].into_iter().flatten().filter(ours).cloned());
            unused.extend(possible_grants(admission));
            Err(unusable("the store granted something else than was asked for".into()))
        }
        Some(Ok(Admitted::LeaseTaken(holder))) if asked == given => Err(SkipReason::Overlapping(holder)),
        Some(Ok(Admitted::ClaimTaken(holder))) if asked == given => Err(SkipReason::RanElsewhere(holder)),
        // The store itself gives back what it may have granted before the error.
        Some(Err(error)) => Err(SkipReason::StoreUnavailable(error)),
        None | Some(Ok(_)) => {
            unused.extend(possible_grants(admission));
            Err(unusable(match given {
                0 => "the store gave no answer".into(),
                _ => format!("the store gave {given} answers to {asked} admissions").into(),
            }))
        }
    }
}

/// Everything that the store may have granted for this admission.
fn possible_grants(admission: &Admission) -> impl Iterator<Item = Lease> {
    let asked = [admission.lease(), admission.claim()].into_iter().flatten();
    asked.map(|request| request.granted(FencingToken::new(0)))
}

/// Gives all of these back in one request, even if the store was out a moment ago: it can only release what it is asked to,
/// now or when it answers again. It leaves alone what this process does not own.
fn give_back(planned: &PlannedRun<'_>, leases: Vec<Lease>) {
    if leases.is_empty() {
        return;
    }
    let PlannedRun { store, clock, context, .. } = *planned;
    let held = leases.into_iter().map(|lease| ReleaseOnDrop::new(&store.mutex, lease)).collect();
    let released = release_together(&store.mutex, held);
    if let Some(outage) = released.iter().find_map(|(_, release)| release.as_ref()?.outage()) {
        context.outages.record(store.id, clock, Some(outage));
    }
}
