//! Promise 5: the lease of a killed process is free again, and how long that took. A later skip that names the
//! killed process has no cause. How soon another process requests the next occurrence does not depend on the
//! store.

use std::time::Duration;

use super::{Case, Verdict};
use crate::history::End;

pub(super) fn how_soon_the_events_of_killed_processes_ran_again(case: &Case<'_>, verdict: &mut Verdict) {
    if !case.has_lease() {
        return;
    }
    for life in &case.history.lives {
        let End::Killed(at) = life.end else { continue };
        for run in case.runs.iter().filter(|run| std::ptr::eq(run.life, life) && !run.ended) {
            let mut others = case.runs_under_its_mutex(run.event).filter(|other| !std::ptr::eq(other.life, life));
            if let Some(next) = others.find(|other| at < other.start) {
                verdict.recoveries.push(Duration::from_nanos(next.start - at));
            }
        }
    }
}
