//! Promise 16: an occurrence finds its queue full only if all places are held.
//!
//! The logs tell when a process may have waited, and not whether it did. So this counts at least as many waiters
//! as there were: an occurrence that finds its queue full while fewer may have waited found a free place.

use super::occurrences::was_killed_at;
use super::{At, Case, Skip, Verdict, beginning, seconds};
use crate::history::{End, Fault, Life, written};
use crate::plan::{Kind, OnOverlap};

/// A time when a place may have been held.
struct Wait {
    from: At,
    until: At,
}

pub(super) fn a_queue_is_full_when_all_places_are_held(case: &Case<'_>, verdict: &mut Verdict) {
    let OnOverlap::Queue(places) = case.history.on_overlap else { return };
    let began = beginning(case.history);
    for event in case.mutexes() {
        let waits = waits(case, event);
        let full = case.skips.iter().filter(|skip| skip.reason == "queue_full" && case.share(skip.event, event));
        for skip in full {
            let most = most_at_once(&waits, skip.since, skip.at);
            if most < places {
                let Skip { life, event, occurrence, .. } = skip;
                let [since, at] = [skip.since, skip.at].map(|at| seconds(at, began));
                verdict.violation(format!(
                    "{} found the queue full for {event} of {occurrence} between {since} and {at} s, where at most {most} \
                     of {places} places were held",
                    life.name
                ));
            }
        }
    }
}

/// Returns how many places may have been held at one moment in this time.
fn most_at_once(waits: &[Wait], from: At, until: At) -> usize {
    let begin = waits.iter().map(|wait| wait.from).filter(|at| from < *at && *at <= until);
    let held = |at: At| waits.iter().filter(|wait| wait.from <= at && at <= wait.until).count();
    begin.chain([from]).map(held).max().unwrap_or_default()
}

/// Returns the waits of all occurrences that may have waited in the queue of this event.
fn waits(case: &Case<'_>, event: &str) -> Vec<Wait> {
    let mut waits = Vec::new();
    for run in case.runs_under_its_mutex(event) {
        // The run left its place before its start, or at least before its process went on.
        let left = run.start + case.slack();
        add_waits(case, run.life, run.since, run.next.map_or(left, |next| left.min(next)), &mut waits);
    }
    for skip in case.skips.iter().filter(|skip| case.share(skip.event, event) && may_have_waited(case, skip)) {
        add_waits(case, skip.life, skip.since, skip.at, &mut waits);
    }
    for life in &case.history.lives {
        let End::Killed(at) = life.end else { continue };
        // The tick before has ended with its last line.
        let from = life.lines.last().map_or(life.began, |line| line.at);
        unlogged(case, life, event).for_each(|_| add_waits(case, life, from, at, &mut waits));
    }
    waits
}

/// Returns whether the occurrence may have waited before it was skipped: unless it was skipped as a newcomer.
fn may_have_waited(case: &Case<'_>, skip: &Skip<'_>) -> bool {
    // A waiter that has lost its place comes again.
    !matches!(skip.reason, "queued" | "queue_full") || faults(case, skip.life, skip.since, skip.at).next().is_some()
}

/// Adds the times in which a waiter that had left its queue by `left` may have held a place: its own, and for each
/// fault a place that it took without a reply, or could not leave.
fn add_waits(case: &Case<'_>, life: &Life, from: At, left: At, waits: &mut Vec<Wait>) {
    let term = case.term_of_the_waiting() + case.slack();
    let is_disturbed = faults(case, life, from, left).next().is_some();
    waits.push(Wait { from, until: if is_disturbed { left + term } else { left } });
    let lost = faults(case, life, from, left);
    waits.extend(lost.map(|fault| Wait { from: fault.from.max(from), until: fault.until.min(left) + term }));
}

/// Returns the faults of the store and of this process in this time.
fn faults<'a>(case: &'a Case<'_>, life: &Life, from: At, until: At) -> impl Iterator<Item = &'a Fault> {
    let assaults = case.assaults(life.pid, from, until);
    case.outages(from, until).chain(assaults.filter(|fault| matches!(fault.kind, Kind::Killed | Kind::Stopped)))
}

/// Returns the events under the mutex of this one whose outcome the process had not logged when it was killed.
fn unlogged<'a>(case: &'a Case<'_>, life: &'a Life, event: &'a str) -> impl Iterator<Item = &'a String> {
    let is_unlogged =
        |event: &&String| life.minutes.clone().any(|minute| was_killed_at(case, life, event, &written(minute)));
    case.history.events.iter().filter(move |other| case.share(other, event)).filter(is_unlogged)
}
