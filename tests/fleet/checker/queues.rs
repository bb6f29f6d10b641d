//! Promise 16: a waiter starts soon after the run before it, unless its server is killed or cut off. A replaced
//! run ends for a later occurrence, and its report names the process.

use std::time::Duration;

use super::{At, Case, Count, Run, Skip, Verdict, Why, beginning, describe};
use crate::history::{Life, nanoseconds};
use crate::worker_log::Line;

/// How long after the end of the run before it a waiter may start, in addition to a term.
const SOON: Duration = Duration::from_secs(2);

pub(super) fn what_waited_starts_soon(case: &Case<'_>, verdict: &mut Verdict) {
    for skip in &case.skips {
        match skip.reason {
            "queued" => verdict.count(Count::Queued),
            "queue_full" => verdict.count(Count::QueueFull),
            "replaced" => verdict.count(Count::Replaced),
            _ => {}
        }
    }
    for run in case.runs.iter().filter(|run| has_waited(case, run)) {
        let before =
            case.runs_under_its_mutex(run.event).map(|before| before.last).filter(|last| *last < run.start).max();
        let could_start = before.unwrap_or(run.since).max(run.since);
        let latest = could_start + nanoseconds(case.history.term + SOON) + case.slack();
        // An earlier waiter may have been killed or cut off; its place is held for a term.
        let is_excused = case.history.faults.iter().any(|fault| fault.touches(could_start, run.start));
        if run.start > latest && !is_excused {
            let late = Duration::from_nanos(run.start - could_start);
            let began = beginning(case.history);
            verdict.violation(format!("it waited for {late:?} although nobody ran: {}", describe(run, began)));
        }
    }
}

pub(super) fn who_gave_way_says_to_whom(case: &Case<'_>, verdict: &mut Verdict) {
    let began = beginning(case.history);
    for run in &case.runs {
        let was_killed = run.life.was_killed() || run.failed.is_some();
        match (run.gave_way_to, run.replaced_at) {
            (Some(pid), _) if had_a_later_one(case, run.event, run.occurrence, pid) => verdict.count(Count::GaveWay),
            (Some(pid), _) => {
                verdict.violation(format!("it gave way to {pid}, which had nothing later: {}", describe(run, began)));
            }
            (None, Some(_)) if !was_killed => {
                verdict.violation(format!("it gave way, and does not say to whom: {}", describe(run, began)));
            }
            (None, _) => {}
        }
    }
}

/// Returns whether this process had a later occurrence, or may have had no time to say so.
fn had_a_later_one(case: &Case<'_>, event: &str, occurrence: &str, pid: u32) -> bool {
    let is_later = |life: &Life| {
        life.was_killed() || life.lines.iter().any(|line| line.event == event && *line.occurrence > *occurrence)
    };
    case.history.lives.iter().any(|life| life.pid == pid && is_later(life))
}

pub(super) fn meets_a_later_one(case: &Case<'_>, skip: &Skip<'_>) -> bool {
    skip.holder.is_some_and(|pid| had_a_later_one(case, skip.event, skip.occurrence, pid))
}

/// Returns whether others skipped this occurrence as queued while the run waited.
fn has_waited(case: &Case<'_>, run: &Run<'_>) -> bool {
    let of_it =
        |skip: &Skip<'_>| skip.reason == "queued" && (skip.event, skip.occurrence) == (run.event, run.occurrence);
    case.skips.iter().any(|skip| of_it(skip) && skip.holder == Some(run.life.pid))
}

/// Returns whether the named process waited then: it logged an outcome later, or was killed.
pub(super) fn meets_a_waiter(case: &Case<'_>, skip: &Skip<'_>) -> bool {
    let is_it = |life: &&Life| Some(life.pid) == skip.holder;
    let tells = |life: &Life, at: At| {
        let of_this = |line: &Line| (&*line.event, &*line.occurrence) == (skip.event, skip.occurrence);
        life.lines.iter().any(|line| of_this(line) && at <= line.at)
    };
    let asked = skip.since.saturating_sub(case.slack() + case.term_of_the_waiting());
    case.history.lives.iter().filter(is_it).any(|life| life.was_killed() || tells(life, asked))
}

/// Returns why a queued occurrence did not start.
pub(super) fn why_it_did_not_start(case: &Case<'_>, event: &str, occurrence: &str) -> Why {
    let of_it = |skip: &&Skip<'_>| (skip.event, skip.occurrence) == (event, occurrence);
    let waited: Vec<u32> =
        case.skips.iter().filter(of_it).filter(|skip| skip.reason == "queued").filter_map(|skip| skip.holder).collect();
    let lives = || case.history.lives.iter().filter(|life| waited.contains(&life.pid));
    let was_cut_off = |skip: &Skip<'_>| {
        waited.contains(&skip.life.pid)
            && (case.outages(skip.since, skip.at).next().is_some()
                || case.assaults(skip.life.pid, skip.since, skip.at).next().is_some())
    };
    let left_while_paused = |skip: &Skip<'_>| waited.contains(&skip.life.pid) && skip.reason == "paused";
    if lives().any(Life::was_killed) {
        Why::Killed
    } else if case.skips.iter().filter(of_it).any(left_while_paused) {
        Why::Paused
    } else if case.skips.iter().filter(of_it).any(was_cut_off) {
        Why::CutOff
    } else {
        Why::Unexplained
    }
}
