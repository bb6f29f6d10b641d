//! Promises 1, 6 and 7: one run at a time; where there are two, the first was told, and the second has the higher token.

use std::collections::BTreeSet;
use std::time::Duration;

use super::answers::may_lose_its_lease;
use super::{Case, Run, SLACK, Verdict, beginning, told};
use crate::history::{End, nanoseconds};
use crate::plan::Kind;

/// Of the clocks of stores, and of two readings of ours.
const GRAIN: Duration = Duration::from_millis(1);

pub(super) fn one_at_a_time(case: &Case<'_>, verdict: &mut Verdict) {
    let began = beginning(case.history);
    for event in &case.history.events {
        let runs: Vec<&Run<'_>> = case.runs_of(event).collect();
        tokens_rise(case, &runs, verdict);
        if !case.has_lease() {
            continue;
        }
        // Whoever goes on for too long may meet several.
        let mut fenced = BTreeSet::new();
        for (at, first) in runs.iter().enumerate() {
            let meanwhile = runs[at + 1..].iter().take_while(|second| second.start < first.last);
            for second in meanwhile {
                // Whoever was stopped between its grant and its start starts late.
                let (stale, live) = if first.token <= second.token { (first, second) } else { (second, first) };
                if stale.token < live.token && is_fenced(case, stale, live) {
                    fenced.insert(stale.token);
                } else {
                    verdict.unfenced += 1;
                    verdict.violation(format!("overlap: {}, and {}", told(stale, began), told(live, began)));
                }
            }
        }
        verdict.fenced += fenced.len();
    }
}

/// Whether something was done that explains it, and the stale run knew of no right of its own any more when the other
/// began, was told, and stopped.
fn is_fenced(case: &Case<'_>, stale: &Run<'_>, live: &Run<'_>) -> bool {
    if !may_lose_its_lease(case, stale) {
        return false;
    }
    let slack = nanoseconds(SLACK);
    // What is taken away at the store it can't know of before its next renewal, or its deadline if that fails.
    let since = stale.start.saturating_sub(slack);
    let was_taken = case.was_emptied(since, live.start) || case.was_broken(stale.event, since, live.start);
    if let End::Killed(at) = stale.life.end
        && !stale.ended
    {
        // It was past being told. A command that lives on has no such excuse.
        let until = live.start + slack + if was_taken { nanoseconds(case.history.term) } else { 0 };
        return at <= until && !case.history.outlives;
    }
    let knew = stale.lost_at.is_some_and(|lost| lost <= live.start + nanoseconds(GRAIN));
    // One that stands still stops when it goes on.
    let goes_on = case.assaults(stale.life.pid, stale.start, stale.last).map(|fault| fault.until).max();
    let latest = if was_taken { live.start + nanoseconds(case.history.term) } else { live.start };
    stale.told && (knew || was_taken) && stale.last <= latest.max(goes_on.unwrap_or_default()) + slack
}

fn tokens_rise(case: &Case<'_>, runs: &[&Run<'_>], verdict: &mut Verdict) {
    let began = beginning(case.history);
    let mut known = BTreeSet::new();
    let mut highest: Option<&Run<'_>> = None;
    for run in runs {
        if run.token.is_none() {
            verdict.violation(format!("no token: {}", told(run, began)));
        }
        if !known.insert(run.token) {
            verdict.violation(format!("tokens: one that was there before, {}", told(run, began)));
        }
        if let Some(before) = highest.filter(|before| before.token > run.token) {
            if !starts_late(case, before, run) {
                verdict.violation(format!("tokens: {}, and then {}", told(before, began), told(run, began)));
            }
        } else {
            highest = Some(run);
        }
    }
}

/// Whether a run may start after another that was granted later: it was stopped before, or its lease was taken away; or
/// there is no lease, and both start at about the same time.
fn starts_late(case: &Case<'_>, before: &Run<'_>, run: &Run<'_>) -> bool {
    let slack = nanoseconds(SLACK);
    let since = before.start.saturating_sub(slack);
    let was_stopped = case.assaults(run.life.pid, since, run.start).any(|fault| fault.kind == Kind::Stopped);
    let was_taken = case.was_emptied(since, run.start) || case.was_broken(run.event, since, run.start);
    if case.has_lease() {
        (was_stopped || was_taken) && run.told
    } else {
        was_stopped || run.start <= before.start + slack
    }
}
