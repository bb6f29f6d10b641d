//! Promises 1, 6 and 7: one run at a time. If two overlap, the first was cancelled, and the second has the higher
//! token.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::answers::may_lose_its_lease;
use super::{Case, Count, Overlap, Run, Verdict, beginning, describe};
use crate::history::{End, nanoseconds};
use crate::plan::{Kind, LIMIT_OF_A_CALL};

/// The precision of stores' clocks, and of two readings of the local clock.
const GRAIN: Duration = Duration::from_millis(1);

pub(super) fn one_at_a_time(case: &Case<'_>, verdict: &mut Verdict) {
    let began = beginning(case.history);
    // Each slot of an event allows one run. Without a lease there are no slots.
    let slots = || (0..case.history.slots).map(Some);
    for run in case.runs.iter().filter(|run| case.history.slots > 1 && slots().all(|slot| slot != run.slot)) {
        verdict.violation(format!("it has no slot of its event, but {:?}: {}", run.slot, describe(run, began)));
    }
    for (event, slot) in case.mutexes().iter().flat_map(|event| slots().map(move |slot| (event, slot))) {
        let is_in_it = |run: &&Run<'_>| case.history.slots == 1 || run.slot == slot;
        let runs: Vec<&Run<'_>> = case.runs_under_its_mutex(event).filter(is_in_it).collect();
        tokens_rise(case, &runs, verdict);
        if !case.has_lease() {
            continue;
        }
        // A run that goes on for too long may meet several others.
        let mut explained = BTreeMap::new();
        for (at, first) in runs.iter().enumerate() {
            let meanwhile = runs[at + 1..].iter().take_while(|second| second.start < first.last);
            for second in meanwhile {
                // A process that was stopped between its grant and its start starts late.
                let is_in_order = first.token <= second.token || case.was_set_back(first.since, second.start);
                let (stale, live) = if is_in_order { (first, second) } else { (second, first) };
                let why = match explain(case, stale, live) {
                    Overlap::Unexplained if case.was_granted_by_two(first, second) => Overlap::TwoPrimaries,
                    why => why,
                };
                if why == Overlap::Unexplained {
                    verdict.count(Count::Overlapped(why));
                    verdict.violation(format!("overlap: {}, and {}", describe(stale, began), describe(live, began)));
                } else {
                    explained.insert(stale.token, why);
                }
            }
        }
        for why in explained.into_values() {
            verdict.count(Count::Overlapped(why));
        }
    }
}

/// Returns the fault that explains the overlap: the stale run's lease had ended by its own clock when the live run
/// began, and the stale run was cancelled and stopped.
fn explain(case: &Case<'_>, stale: &Run<'_>, live: &Run<'_>) -> Overlap {
    let has_risen = live.token > stale.token || case.was_set_back(stale.since, live.start);
    if !has_risen || !may_lose_its_lease(case, stale) {
        return Overlap::Unexplained;
    }
    let was_taken = case.was_emptied(stale.since, live.start) || case.was_broken(stale.event, stale.since, live.start);
    let is_told = stale.lost_at.is_some_and(|lost| lost <= live.start + nanoseconds(GRAIN));
    // If the process was stopped when the live run began, it was cancelled when it continued. If it was killed before
    // its report, nothing tells when it lost its lease.
    let stood_still = || case.assaults(stale.life.pid, live.start, live.start).any(|fault| fault.kind == Kind::Stopped);
    let is_silenced = stale.lost_at.is_none() && stale.life.was_killed() && stale.was_cancelled && stood_still();
    let knew = is_told || is_silenced;
    let why = if was_taken && !knew { Overlap::TakenAway } else { Overlap::PastItsTerm };
    // The stale run notices a loss at the store with its next renewal, or at its deadline if that fails.
    let knows = live.start + if was_taken { nanoseconds(case.history.term) } else { 0 };
    let is_fenced = match stale.life.end {
        // A killed process could not be cancelled, if it was killed soon after it continued. A command that lives on has
        // no such excuse.
        End::Killed(at) if !stale.ended => {
            let stops = case.assaults(stale.life.pid, stale.start, at).filter(|fault| fault.kind == Kind::Stopped);
            let goes_on = stops.map(|fault| fault.until).max().unwrap_or_default();
            at <= knows.max(goes_on) + case.slack() && !case.history.outlives
        }
        _ => {
            // A stopped process ends its run only after it continues.
            let goes_on = case.assaults(stale.life.pid, stale.start, stale.last).map(|fault| fault.until).max();
            let stops = if was_taken { knows } else { stale.lost_at.unwrap_or(knows) };
            let latest = stops.max(goes_on.unwrap_or_default()) + case.slack();
            // A worker that was killed in its tick reports no release. A run of a store that was emptied may end before
            // its next renewal, and another fault of the store may hide the answer to its release.
            let is_unheard = || {
                let mut outages = case.outages(stale.since, live.start);
                let was_emptied = outages.any(|fault| fault.kind == Kind::ServerEmptied);
                let answered_by = stale.last + nanoseconds(LIMIT_OF_A_CALL);
                was_emptied && stale.ended && case.outages(stale.last, answered_by).next().is_some()
            };
            let is_killed = stale.next.is_none() && stale.life.was_killed();
            let is_cancelled = stale.was_cancelled || is_killed || is_unheard();
            is_cancelled && (knew || was_taken) && stale.last <= latest
        }
    };
    if is_fenced { why } else { Overlap::Unexplained }
}

fn tokens_rise(case: &Case<'_>, runs: &[&Run<'_>], verdict: &mut Verdict) {
    let began = beginning(case.history);
    let mut known = BTreeSet::new();
    let mut highest: Option<&Run<'_>> = None;
    for run in runs {
        if run.token.is_none() {
            verdict.violation(format!("no token: {}", describe(run, began)));
        }
        // Without a lease, each occurrence is granted by itself.
        let granted_for = if case.has_lease() { "" } else { run.occurrence };
        if !known.insert((granted_for, run.token)) {
            verdict.violation(format!("tokens: one that was there before, {}", describe(run, began)));
        }
        if let Some(before) = highest.filter(|before| before.token > run.token) {
            if !starts_late(case, before, run) && !case.was_set_back(before.since, run.start) {
                verdict.violation(format!("tokens: {}, and then {}", describe(before, began), describe(run, began)));
            }
        } else {
            highest = Some(run);
        }
    }
}

/// Returns whether a run may start after another that was granted later. Either it was stopped before, or its
/// lease was taken away; or there is no lease, and its admission was pending when the other started.
fn starts_late(case: &Case<'_>, before: &Run<'_>, run: &Run<'_>) -> bool {
    if run.since > before.start {
        return false;
    }
    let was_stopped = || case.assaults(run.life.pid, run.since, run.start).any(|fault| fault.kind == Kind::Stopped);
    let was_taken = || case.was_emptied(run.since, run.start) || case.was_broken(run.event, run.since, run.start);
    // A killed process could not be cancelled.
    let is_cancelled = run.was_cancelled || !run.ended && run.life.was_killed();
    !case.has_lease() || (was_stopped() || was_taken()) && is_cancelled
}
