//! Every refusal and every cancellation has its cause.

use super::occurrences::was_killed_at;
use super::pauses::meets_a_pause;
use super::queues::{meets_a_later_one, meets_a_waiter};
use super::{Case, Count, NOT_STARTED, Run, Skip, Verdict, beginning, describe, seconds};
use crate::history::{At, Fault, Life, nanoseconds};
use crate::plan::{Kind, OnOverlap};

/// A lease is renewed within this part of its term if the store is available, also after failed attempts.
const RENEWED_IN: u32 = 4;

pub(super) fn every_answer_has_its_cause(case: &Case<'_>, verdict: &mut Verdict) {
    let began = beginning(case.history);
    for skip in &case.skips {
        let is_explained = match skip.reason {
            "overlapping" => {
                case.has_lease() && case.history.on_overlap == OnOverlap::Skip && meets_a_live_lease(case, skip)
            }
            "queued" => case.history.on_overlap != OnOverlap::Skip && meets_a_waiter(case, skip),
            // Between two runs it names no holder. Whether the queue was full is another rule.
            "queue_full" => {
                matches!(case.history.on_overlap, OnOverlap::Queue(_))
                    && (skip.holder.is_none() || meets_a_live_lease(case, skip) || meets_an_unheard_grant(case, skip))
            }
            "replaced" => case.history.on_overlap == OnOverlap::Replace && meets_a_later_one(case, skip),
            "ran_elsewhere" => case.has_claim() && meets_a_claim(case, skip),
            "paused" => meets_a_pause(case, skip),
            "store_unavailable" => was_cut_off(case, skip),
            NOT_STARTED => was_cut_off(case, skip) || case.was_broken(skip.event, skip.since, skip.at),
            _ => false,
        };
        if !is_explained {
            let Skip { event, occurrence, reason, holder, .. } = skip;
            let at = seconds(skip.at, began);
            let name = &skip.life.name;
            verdict.violation(format!(
                "{name} skipped {event} of {occurrence} as {reason} by {holder:?} at {at} s without cause"
            ));
        }
    }
    for run in &case.runs {
        let is_excused = may_lose_its_lease(case, run);
        verdict.count(Count::Runs);
        if case.has_lease() {
            verdict.count(Count::RunsUnderALease);
            if !is_excused {
                verdict.count(Count::UndisturbedRuns);
            }
        }
        if run.was_cancelled && !is_excused {
            verdict.violation(format!("a lease was lost without cause: {}", describe(run, began)));
        }
        if !run.was_cancelled && !may_fail(case, run) {
            verdict.violation(format!("a run failed without cause: {}", describe(run, began)));
        }
    }
}

/// Returns whether the run did not fail, its task was ordered to panic, or the store was unavailable for its
/// release.
fn may_fail(case: &Case<'_>, run: &Run<'_>) -> bool {
    let Some((failed, text)) = run.failed else { return true };
    if text.contains("panicked") {
        // An ordered panic happens in the next task.
        let was_told_to = |fault: &Fault| fault.kind == Kind::Panicked && fault.from <= failed;
        return case.history.faults.iter().any(was_told_to);
    }
    super::attempts::may_have_failed(case, run, text)
        || text.contains("the lease was not released")
            && (case.outages(run.last, failed).next().is_some() || may_exceed_its_limit(case, run.last, failed))
}

/// Returns whether the named process ran this occurrence, or had no time to start or to say so.
fn meets_a_claim(case: &Case<'_>, skip: &Skip<'_>) -> bool {
    let is_it = |pid: u32, event: &str, occurrence: &str| {
        skip.holder == Some(pid) && (event, occurrence) == (skip.event, skip.occurrence)
    };
    let ran = case.runs.iter().any(|run| is_it(run.life.pid, run.event, run.occurrence));
    let mut skips = case.skips.iter().filter(|other| is_it(other.life.pid, other.event, other.occurrence));
    let mut of_the_holder = case.history.lives.iter().filter(|life| skip.holder == Some(life.pid));
    // A waiter that leaves for a later occurrence claims its own, so that no other process runs it.
    let was_granted = |other: &Skip<'_>| {
        other.reason == "replaced" || may_have_been_granted(case, other) || may_have_lost_a_grant(case, other)
    };
    ran || skips.any(|other| other.since <= skip.at && was_granted(other))
        || of_the_holder.any(|life| was_killed_at(case, life, skip.event, skip.occurrence))
}

/// Returns whether the named process had the lease, or may have had it, when the admission was requested.
fn meets_a_live_lease(case: &Case<'_>, skip: &Skip<'_>) -> bool {
    let Some(pid) = skip.holder else { return false };
    let since = skip.since.saturating_sub(case.slack() + case.term_of_the_dead());
    // The holder may have had no time to start, or to log the outcome, for as long as a start takes.
    let was_attacked = || {
        let mut assaults = case.assaults(pid, since, skip.at + case.slack());
        assaults.any(|fault| matches!(fault.kind, Kind::Killed | Kind::Stopped))
    };
    holder_was_running(case, skip) || was_attacked() || may_have_a_grant(case, skip, pid, since)
}

/// Returns whether the named process may wait with a grant that it has not heard of: a fault of the store took the reply, and the
/// process logged an outcome later, or was killed.
fn meets_an_unheard_grant(case: &Case<'_>, skip: &Skip<'_>) -> bool {
    let since = skip.since.saturating_sub(case.slack() + nanoseconds(case.history.term));
    let waits = |life: &&Life| {
        life.was_killed() || life.lines.iter().any(|line| case.share(&line.event, skip.event) && since <= line.at)
    };
    case.outages(since, skip.at).next().is_some()
        && case.history.lives.iter().filter(|life| Some(life.pid) == skip.holder).any(|life| waits(&life))
}

/// Returns whether the named process ran the event at that time, or just before.
pub(super) fn holder_was_running(case: &Case<'_>, skip: &Skip<'_>) -> bool {
    let mut of_the_holder = case.runs_under_its_mutex(skip.event).filter(|run| Some(run.life.pid) == skip.holder);
    of_the_holder.any(|run| run.since <= skip.at && skip.since <= case.held_until(run))
}

/// Returns whether that process requested the event then, and may have been granted it.
fn may_have_a_grant(case: &Case<'_>, skip: &Skip<'_>, pid: u32, since: u64) -> bool {
    let mut asked = case.skips.iter().filter(|other| other.life.pid == pid && case.share(other.event, skip.event));
    let was_granted = |other: &Skip<'_>| may_have_been_granted(case, other) || may_have_lost_a_grant(case, other);
    asked.any(|other| other.since <= skip.at && since <= other.at && was_granted(other))
}

/// Returns whether the skipped occurrence may have been granted by a store that lost its data before the reply
/// came: the process asked again, and another process had come first.
fn may_have_lost_a_grant(case: &Case<'_>, skip: &Skip<'_>) -> bool {
    matches!(skip.reason, "overlapping" | "ran_elsewhere") && case.was_emptied(skip.since, skip.at)
}

/// Returns whether the skipped occurrence may have been granted. The process was cut off from the reply, or came
/// too late to start. Or at its second request the lease was over, or another process had it, or the event was
/// paused.
pub(super) fn may_have_been_granted(case: &Case<'_>, skip: &Skip<'_>) -> bool {
    let may_be = match skip.reason {
        "store_unavailable" | "paused" | NOT_STARTED => true,
        "overlapping" | "queue_full" => {
            skip.since + nanoseconds(case.history.term) <= skip.at || case.was_emptied(skip.since, skip.at)
        }
        _ => false,
    };
    may_be && was_cut_off(case, skip)
}

/// Returns whether a call between these moments may have exceeded its limit, because the machine was late.
fn may_exceed_its_limit(case: &Case<'_>, from: At, until: At) -> bool {
    let limit = nanoseconds(case.history.limit);
    case.late() >= limit && until.saturating_sub(from) >= limit
}

/// Returns whether the store or this process had a fault while the admission may have been requested, or just before, or the machine
/// was too late for the reply.
fn was_cut_off(case: &Case<'_>, skip: &Skip<'_>) -> bool {
    let stopped = |fault: &Fault| {
        // Without a server, a process that is stopped while it writes a record keeps the others waiting.
        let is_met = fault.pid == Some(skip.life.pid) || case.history.frees_at_once;
        fault.kind == Kind::Stopped && is_met && fault.touches(skip.since, skip.at)
    };
    let since = skip.since.saturating_sub(nanoseconds(case.history.lingers));
    case.outages(skip.since, skip.at).next().is_some()
        || case.outages(since, skip.at).any(|fault| fault.kind == Kind::ReplyDropped)
        || case.history.faults.iter().any(stopped)
        || may_exceed_its_limit(case, skip.since, skip.at)
}

/// Returns whether a fault that a lease need not survive fell into the last term before it was lost, or into its
/// run.
pub(super) fn may_lose_its_lease(case: &Case<'_>, run: &Run<'_>) -> bool {
    // Without a time, the run learned of the loss from the reply to its release.
    let released = run.failed.map_or(run.last, |(at, _)| at);
    let until = run.lost_at.unwrap_or(released).max(run.start);
    let since =
        run.lost_at.map_or(run.since, |lost| lost.saturating_sub(nanoseconds(case.history.term)).min(run.since));
    case.outages(since, until).any(|fault| !is_soon_seen(case, fault.kind))
        || case.assaults(run.life.pid, since, until).any(|fault| fault.kind == Kind::Stopped)
        || case.was_broken(run.event, since, until)
        || match run.lost_at {
            Some(lost) => !could_be_renewed(case, lost),
            // The term may be over before the server receives the release.
            None => {
                case.outages(run.last, released).next().is_some()
                    || case.late() >= nanoseconds(case.history.term) * 2 / 3
            }
        }
}

/// Returns whether a request notices the fault when it is over at the latest, so that it is sent again. Where each
/// reply is slow, no fault is noticed soon.
fn is_soon_seen(case: &Case<'_>, kind: Kind) -> bool {
    use Kind::{ConnectionsKilled, Cut, ServerRestarted, ServerStopped};
    matches!(kind, ConnectionsKilled | Cut | ServerRestarted | ServerStopped) && !case.history.is_slow
}

/// Returns whether the store was available for long enough in the last two thirds of the term, which are meant for
/// retries.
fn could_be_renewed(case: &Case<'_>, lost: At) -> bool {
    let term = nanoseconds(case.history.term);
    let mut there_since = lost.saturating_sub(term / 3 * 2);
    let mut outages: Vec<&Fault> = case.outages(there_since, lost).collect();
    outages.sort_by_key(|fault| fault.from);
    let needed = term / u64::from(RENEWED_IN) + case.late();
    let is_enough = |from: At, until: At| until.saturating_sub(from) >= needed;
    for fault in outages {
        if is_enough(there_since, fault.from) {
            return true;
        }
        there_since = there_since.max(fault.until);
    }
    is_enough(there_since, lost)
}
