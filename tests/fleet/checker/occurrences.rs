//! Promise 2: an occurrence starts once, and somewhere.

use std::collections::BTreeMap;

use super::accounts::last_minute;
use super::answers::{holder_was_running, may_have_been_granted};
use super::queues;
use super::{Case, Count, Double, Run, Skip, Verdict, Why, beginning, describe, nanoseconds};
use crate::history::{Life, written};
use crate::plan::Kind;

pub(super) fn each_starts_once(case: &Case<'_>, verdict: &mut Verdict) {
    if !case.has_claim() {
        return;
    }
    let mut started: BTreeMap<(&str, &str), &Run<'_>> = BTreeMap::new();
    for run in &case.runs {
        let Some(before) = started.insert((run.event, run.occurrence), run) else {
            verdict.count(Count::StartedUnderAClaim);
            continue;
        };
        let tokens = [run.token, before.token].map(|token| token.and_then(|token| i64::try_from(token).ok()));
        verdict.risen.extend(tokens[0].zip(tokens[1]).map(|(second, first)| second - first));
        let why = explain_double(case, before, run);
        verdict.count(Count::StartedTwice(why));
        if why == Double::Unexplained {
            let began = beginning(case.history);
            verdict.violation(format!("started twice: {}, and {}", describe(before, began), describe(run, began)));
        }
    }
}

fn explain_double(case: &Case<'_>, first: &Run<'_>, second: &Run<'_>) -> Double {
    if case.outages(first.since, second.start).any(|fault| fault.kind == Kind::ServerEmptied) {
        Double::Emptied
    } else if case.was_granted_by_two(first, second) {
        Double::FailedOver
    } else {
        Double::Unexplained
    }
}

pub(super) fn none_is_lost(case: &Case<'_>, verdict: &mut Verdict) {
    for event in &case.history.events {
        follow_occurrences_of(case, event, verdict);
    }
    // A process has one claim of each event at a time, and loses these. A killed process may not have logged its
    // skips of the last minute, and it may have been the only one to tick the next.
    let assaults = |is: fn(Kind) -> bool| case.history.faults.iter().filter(|fault| is(fault.kind)).count();
    let kills = 2 * assaults(|kind| kind == Kind::Killed);
    // A failover may lose all that are due meanwhile, as does a machine that stands still for a term.
    let stands_still = usize::from(case.late() >= nanoseconds(case.history.term));
    let cuts = stands_still + assaults(|kind| kind == Kind::Stopped || kind.is_of_the_store());
    for (why, faults) in [(Why::Killed, kills), (Why::CutOff, cuts)] {
        let lost = verdict.of(Count::NotStarted(why));
        if lost > faults * case.history.events.len() {
            verdict.violation(format!("{lost} occurrences were lost, {why:?}, by {faults} faults"));
        }
    }
}

fn follow_occurrences_of(case: &Case<'_>, event: &str, verdict: &mut Verdict) {
    // Before that, no clock says so yet.
    let first = case.history.lives.iter().map(|life| life.minutes.start).min().unwrap_or_default();
    for occurrence in (first..case.history.minutes).map(written) {
        verdict.count(Count::Due);
        if case.runs_of(event).any(|run| run.occurrence == occurrence) {
            verdict.count(Count::Started);
            continue;
        }
        let why = explain(case, event, &occurrence);
        verdict.count(Count::NotStarted(why));
        if why == Why::Unexplained {
            let skips: Vec<String> = of(case, event, &occurrence).map(describe_skip).collect();
            verdict.violation(format!("{event} of {occurrence} started nowhere: {}", skips.join("; ")));
        }
    }
}

fn describe_skip(skip: &Skip<'_>) -> String {
    format!("{} {} by {:?}", skip.life.name, skip.reason, skip.holder)
}

fn of<'a, 'b>(case: &'a Case<'b>, event: &'a str, occurrence: &'a str) -> impl Iterator<Item = &'a Skip<'b>> {
    case.skips.iter().filter(move |skip| (skip.event, skip.occurrence) == (event, occurrence))
}

fn explain(case: &Case<'_>, event: &str, occurrence: &str) -> Why {
    let skips: Vec<&Skip<'_>> = of(case, event, occurrence).collect();
    let is_paused = |skip: &&&Skip<'_>| skip.reason == "paused";
    let answered: Vec<_> = skips.iter().filter(|skip| skip.holder.is_some() && !is_paused(skip)).collect();
    let cut_off: Vec<_> = skips.iter().filter(|skip| may_have_been_granted(case, skip)).collect();
    // These processes had no time to log the outcome.
    let killed: Vec<&Life> =
        case.history.lives.iter().filter(|life| was_killed_at(case, life, event, occurrence)).collect();
    // The holder named in a skip had an earlier grant.
    let lost_by = |skip: &Skip<'_>| {
        let is_holder = |life: &Life| Some(life.pid) == skip.holder;
        if killed.iter().any(|life| is_holder(life)) {
            return Some(Why::Killed);
        }
        let cut = cut_off.iter().find(|cut| is_holder(cut.life) && cut.since <= skip.at)?;
        let has_failed_over = case.outages(cut.since, cut.at).any(|fault| fault.kind.is_failover());
        Some(if has_failed_over { Why::FailedOver } else { Why::CutOff })
    };
    let claimants = || answered.iter().filter(|skip| skip.reason == "ran_elsewhere");
    // A holder without a run got its lease for this occurrence.
    let stranded = answered.iter().filter(|skip| !holder_was_running(case, skip));

    if skips.iter().any(|skip| skip.reason == "replaced") {
        Why::Replaced
    } else if skips.iter().any(|skip| skip.reason == "queued") {
        queues::why_it_did_not_start(case, event, occurrence)
    } else if claimants().next().is_some() {
        claimants().find_map(|skip| lost_by(skip)).unwrap_or(Why::Unexplained)
    } else if let Some(why) = stranded.into_iter().find_map(|skip| lost_by(skip)) {
        why
    } else if skips.iter().any(|skip| is_paused(&skip)) {
        Why::Paused
    } else if !answered.is_empty() {
        Why::Overlapping
    } else if !cut_off.is_empty() {
        Why::Unanswered
    } else if !killed.is_empty() {
        Why::Killed
    } else {
        Why::Unasked
    }
}

/// Returns whether the process was killed in this minute, before it logged the outcome of the event.
pub(super) fn was_killed_at(case: &Case<'_>, life: &Life, event: &str, occurrence: &str) -> bool {
    if !life.was_killed() || life.lines.iter().any(|line| line.event == event && line.occurrence == occurrence) {
        return false;
    }
    // The next minute begins when all that was started has ended.
    let is_at_work = case.runs.iter().any(|run| std::ptr::eq(run.life, life) && !run.ended);
    let latest = last_minute(life).map_or(life.minutes.start, |last| if is_at_work { last } else { last + 1 });
    life.minutes.clone().take_while(|minute| *minute <= latest).any(|minute| written(minute) == occurrence)
}
