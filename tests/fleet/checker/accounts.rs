//! Every process ends as it should, and logs an outcome for each event of each tick.

use super::{Case, Verdict, beginning, describe};
use crate::history::{End, Life, written};

pub(super) fn every_process_accounts_for_every_tick(case: &Case<'_>, verdict: &mut Verdict) {
    for life in &case.history.lives {
        if let End::Badly(why) = &life.end {
            verdict.violation(format!("{} ended badly: {why}", life.name));
            continue;
        }
        let unended = case.runs.iter().filter(|run| std::ptr::eq(run.life, life) && !run.ended && !life.was_killed());
        for run in unended {
            verdict.violation(format!("it started and did not end: {}", describe(run, beginning(case.history))));
        }
        let last = last_minute(life);
        for minute in life.minutes.clone() {
            for event in &case.history.events {
                let count = entries(case, life, event, &written(minute));
                // A killed process may not have logged its last outcomes.
                let in_time = life.was_killed() && last.is_none_or(|last| minute >= last);
                if count > 1 || (count == 0 && !in_time) {
                    let occurrence = written(minute);
                    verdict.violation(format!("{} tells {count} times of {event} at {occurrence}", life.name));
                }
            }
        }
    }
}

/// Returns the last minute with a line of the process.
pub(super) fn last_minute(life: &Life) -> Option<u32> {
    let last = life.lines.last()?;
    life.minutes.clone().find(|minute| written(*minute) == last.occurrence)
}

/// Returns how many entries the process has for this event: runs and skips.
fn entries(case: &Case<'_>, life: &Life, event: &str, occurrence: &str) -> usize {
    let of_this = |of: &Life, name: &str, at: &str| std::ptr::eq(of, life) && (name, at) == (event, occurrence);
    let runs = case.runs.iter().filter(|run| of_this(run.life, run.event, run.occurrence)).count();
    runs + case.skips.iter().filter(|skip| of_this(skip.life, skip.event, skip.occurrence)).count()
}
