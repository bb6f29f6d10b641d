//! The log of runs in the store: it keeps no more than its limit, records only real runs, and misses no run of a
//! worker that was not killed.

use std::time::Duration;

use super::{Case, Count, Run, Verdict, beginning, describe, nanoseconds};
use crate::history::{At, Life, Logged};
use crate::plan::ALL_RUNS;

pub(super) fn the_log_tells_what_ran(case: &Case<'_>, verdict: &mut Verdict) {
    let (kept, logged) = &case.history.log;
    for event in &case.history.events {
        let count = logged.iter().filter(|run| run.event == *event).count();
        if count > *kept {
            verdict.violation(format!("the log has {count} runs of {event}, and keeps {kept}"));
        }
    }
    for run in logged {
        verdict.count(Count::Logged);
        attempts_are_told(case, run, verdict);
        let often = logged.iter().filter(|other| same(run, other)).count();
        if often > case.runs.iter().filter(|other| is_of(run, other)).count() && !never_began(case, run) {
            verdict.violation(format!("the log has a run {often} times that its worker did not tell of: {run:?}"));
        }
    }
    if *kept < ALL_RUNS {
        return;
    }
    for run in case.runs.iter().filter(|run| !run.life.was_killed()) {
        if case.was_emptied(run.start, At::MAX) || ended_in_an_outage(case, run.life) {
            continue;
        }
        verdict.count(Count::LoggedForSure);
        if !logged.iter().any(|logged| is_of(logged, run) && logged.has_ended) {
            verdict.violation(format!("the log lacks the end of {}", describe(run, beginning(case.history))));
        }
    }
}

/// Compares the number of attempts with those that the run has written down. A command that was cancelled may not have written.
fn attempts_are_told(case: &Case<'_>, logged: &Logged, verdict: &mut Verdict) {
    for run in case.runs.iter().filter(|run| logged.has_ended && run.failed.is_none() && is_of(logged, run)) {
        if usize::try_from(logged.attempts) != Ok(run.attempts()) {
            let run = describe(run, beginning(case.history));
            verdict.violation(format!("the log has {} attempts of {run}", logged.attempts));
        }
    }
}

/// How long a process that ends tries to write the rest of its log.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// Returns whether the store may have been unavailable when this process ended, and wrote the rest of its log, or the machine may
/// have been too late for it.
fn ended_in_an_outage(case: &Case<'_>, life: &Life) -> bool {
    if case.late() >= nanoseconds(case.history.limit) {
        return true;
    }
    let end = life.lines.last().map_or(life.began, |line| line.at);
    case.outages(end.saturating_sub(case.slack()), end + nanoseconds(LAST_WRITES) + case.slack()).next().is_some()
        || case.assaults(life.pid, end.saturating_sub(case.slack()), end + case.slack()).next().is_some()
}

fn same(one: &Logged, other: &Logged) -> bool {
    let key = |run: &Logged| (run.event.clone(), run.occurrence.clone(), run.pid, run.token);
    key(one) == key(other)
}

fn is_of(logged: &Logged, run: &Run<'_>) -> bool {
    (&*logged.event, &*logged.occurrence, logged.pid, logged.token)
        == (run.event, run.occurrence, run.life.pid, run.token)
}

/// Returns whether the worker was killed before the task could write a word, or says that the task never began.
fn never_began(case: &Case<'_>, run: &Logged) -> bool {
    let was_killed = case.history.lives.iter().any(|life| life.pid == run.pid && life.was_killed());
    let of_this =
        |event: &str, occurrence: &str, pid| (event, occurrence, pid) == (&*run.event, &*run.occurrence, run.pid);
    let never_begun = |skip: &super::Skip<'_>| {
        skip.reason == super::NOT_STARTED && of_this(skip.event, skip.occurrence, skip.life.pid)
    };
    was_killed || case.skips.iter().any(never_begun)
}
