//! Promise 5: what a killed process held is free again; for how long it was not. (Who is skipped for its sake later than
//! that is skipped without cause.)

use std::time::Duration;

use super::{Case, SLACK, Verdict, beginning, told};
use crate::history::{End, nanoseconds};

pub(super) fn how_soon_the_events_of_killed_processes_ran_again(case: &Case<'_>, verdict: &mut Verdict) {
    if !case.has_lease() {
        return;
    }
    for life in &case.history.lives {
        let End::Killed(at) = life.end else { continue };
        for run in case.runs.iter().filter(|run| std::ptr::eq(run.life, life) && !run.ended) {
            let mut others = case.runs_of(run.event).filter(|other| !std::ptr::eq(other.life, life));
            let Some(next) = others.find(|other| at < other.start) else { continue };
            verdict.recoveries.push(Duration::from_nanos(next.start - at));
            // A command lives on, on file; and while the store is out, nobody can have it.
            let lives_on = case.history.outlives && case.history.frees_at_once;
            let is_undisturbed = !lives_on && case.outages(at, next.start).next().is_none();
            if is_undisturbed && next.start - at > case.term_of_the_dead() + nanoseconds(SLACK) {
                let (dead, next) = (told(run, beginning(case.history)), told(next, beginning(case.history)));
                verdict.violation(format!("recovered from too late: {dead}, and then {next}"));
            }
        }
    }
}
