//! The attempts of a run: under its token, one after another, before any other run, and none during a pause.

use super::pauses::begins_while_paused;
use super::{At, Case, Count, Run, Verdict, beginning, describe};
use crate::plan::OnOverlap;

impl Run<'_> {
    /// Returns how often its task was started, as far as it has written down.
    pub(super) fn attempts(&self) -> usize {
        1 + self.retries.len()
    }
}

pub(super) fn each_is_a_part_of_its_run(case: &Case<'_>, verdict: &mut Verdict) {
    let began = beginning(case.history);
    let most = case.history.retries.map_or(0, |retries| retries.times as usize);
    for run in &case.runs {
        let mut wrong = |what: &str| verdict.violation(format!("{what}: {}", describe(run, began)));
        if run.retries.len() > most {
            wrong("it was retried too often");
        }
        for (at, token) in &run.retries {
            if *token != run.token {
                wrong("an attempt has another token");
            }
            if begins_after_another_run(case, run, *at) {
                wrong("an attempt began when another run had");
            }
            if begins_while_paused(case, run, *at) {
                wrong("an attempt began during a pause");
            }
        }
        // A command that was cancelled may not have written its last attempt down.
        let told = run.told.map(attempts_of);
        if told.is_some_and(|told| told < run.attempts() || told > run.attempts() && run.failed.is_none()) {
            wrong(&format!("the report tells of {told:?} attempts"));
        }
        run.retries.iter().for_each(|_| verdict.count(Count::Retries));
        if run.told.is_some_and(|text| text.contains(NOT_RETRIED)) {
            verdict.count(Count::WaitsEnded);
        }
    }
}

/// The words of a report before the reason why a run was not retried.
const NOT_RETRIED: &str = "not retried, because ";

/// Returns the number of attempts in a report: `and 3 attempts`.
fn attempts_of(text: &str) -> usize {
    let number = text.split_once(" attempts").and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok());
    number.unwrap_or(1)
}

/// Returns whether another run of its mutex, or of its slot, had begun under a later grant. A process does not know yet if its lease
/// was taken away at the store.
fn begins_after_another_run(case: &Case<'_>, run: &Run<'_>, attempt: At) -> bool {
    let is_later = |other: &Run<'_>| {
        other.token > run.token
            && (case.history.slots == 1 || other.slot == run.slot)
            && other.start < attempt
            && !case.was_granted_by_two(run, other)
    };
    case.has_lease()
        && !case.was_emptied(run.since, attempt)
        && !case.was_broken(run.event, run.since, attempt)
        && case.runs_under_its_mutex(run.event).any(is_later)
}

/// Returns whether a task that is told to fail explains this report: all of its attempts failed, or something ended the wait.
pub(super) fn may_have_failed(case: &Case<'_>, run: &Run<'_>, text: &str) -> bool {
    let Some(retries) = case.history.retries else { return false };
    if !text.contains("it was told to fail") && !text.contains("exited with 3") {
        return false;
    }
    match text.split_once(NOT_RETRIED) {
        None => retries.fails > retries.times && attempts_of(text) == retries.times as usize + 1,
        Some((_, why)) if why.starts_with("it is paused") => {
            case.history.pauses.iter().any(|pause| pause.event == run.event && pause.from <= run.failed_at())
        }
        Some((_, why)) if why.starts_with("a later occurrence takes its place") => {
            case.history.on_overlap == OnOverlap::Replace
        }
        Some(_) => false,
    }
}

impl Run<'_> {
    fn failed_at(&self) -> At {
        self.failed.map_or(At::MAX, |(at, _)| at)
    }
}
