//! An event that is paused does not start, from the confirmation of its pause until it is resumed or over.

use super::{At, Case, Count, Run, Skip, Verdict, beginning, describe, seconds};
use crate::history::Pause;
use crate::plan::Kind;

pub(super) fn no_paused_event_starts(case: &Case<'_>, verdict: &mut Verdict) {
    let began = beginning(case.history);
    for _ in case.skips.iter().filter(|skip| skip.reason == "paused") {
        verdict.count(Count::SkippedWhilePaused);
    }
    for pause in &case.history.pauses {
        let Some(confirmed) = pause.confirmed else { continue };
        verdict.count(Count::Paused);
        let until = until(case, pause);
        let meanwhile = case.runs_of(&pause.event).filter(|run| confirmed < run.start && run.start < until);
        for run in meanwhile.filter(|run| is_admitted_after(case, run, confirmed)) {
            let [confirmed, until] = [confirmed, until].map(|at| seconds(at, began));
            verdict
                .violation(format!("it started while paused, from {confirmed} to {until} s: {}", describe(run, began)));
        }
    }
}

/// Returns whether an attempt after the first of its run began in a pause. The store is asked for pauses right before it begins.
pub(super) fn begins_while_paused(case: &Case<'_>, run: &Run<'_>, attempt: At) -> bool {
    case.history.pauses.iter().filter(|pause| pause.event == run.event).any(|pause| {
        let Some(confirmed) = pause.confirmed else { return false };
        let is_disturbed = || {
            case.outages(confirmed.saturating_sub(case.slack()), attempt).next().is_some()
                || case.assaults(run.life.pid, confirmed, attempt).next().is_some()
        };
        confirmed + case.slack() < attempt && attempt < until(case, pause) && !is_disturbed()
    })
}

/// Returns until when the pause lasts for sure: a store that lost its data knows of no pause.
fn until(case: &Case<'_>, pause: &Pause) -> At {
    let emptied = case.outages(pause.from, pause.until).filter(|fault| fault.kind == Kind::ServerEmptied);
    emptied.map(|fault| fault.from).fold(pause.until, At::min)
}

/// Returns whether a run asked for its admission after this moment. A tick that began before may go on to start events with
/// filters. For an event without filters the store decides at the admission, which a run follows at once: unless its process
/// was stopped, or the reply was delayed.
fn is_admitted_after(case: &Case<'_>, run: &Run<'_>, confirmed: At) -> bool {
    let follows_at_once = || {
        !case.history.is_filtered
            && case.outages(confirmed.saturating_sub(case.slack()), run.start).next().is_none()
            && case.assaults(run.life.pid, confirmed, run.start).next().is_none()
    };
    confirmed < run.since || confirmed + case.slack() < run.start && follows_at_once()
}

/// Returns whether an operator had paused the event when this occurrence was skipped.
pub(super) fn meets_a_pause(case: &Case<'_>, skip: &Skip<'_>) -> bool {
    let is_met = |pause: &Pause| {
        pause.event == skip.event
            && skip.holder.is_none_or(|pid| pid == pause.by)
            && pause.from <= skip.at
            && skip.since <= pause.over.saturating_add(case.slack())
    };
    case.history.pauses.iter().any(is_met)
}
