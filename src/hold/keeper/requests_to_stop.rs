//! Which runs of this process somebody else may ask to stop, and when to look whether somebody does. It knows no thread, no store
//! and no clock.
//!
//! For a run that another one may replace, the store is asked about once a second. For any other it is asked with each renewal of
//! its lease, for operators who free it: a run that ends before its first renewal costs nothing.

use std::collections::HashSet;
use std::sync::Arc;

use crate::hold::held_lease::HoldsLease;
use crate::hold::timer_thread::{TimedJobs, TimedStep};
use crate::lease::name::MutexName;
use crate::time::clock::{about_a_second, moment::Moment};

/// The runs that may be asked to stop.
#[derive(Default)]
pub(super) struct RequestsToStop {
    watched: Vec<WatchedRun>,
}

struct WatchedRun {
    run: Arc<dyn HoldsLease>,
    /// What asks it to stop.
    mark: MutexName,
    /// Whether another run may replace it. If not, the store is asked about it once.
    is_replaceable: bool,
    /// When the store is asked.
    due: Moment,
}

/// Runs, each with the mark that asks it to stop.
pub(super) type Marked = Vec<(Arc<dyn HoldsLease>, MutexName)>;

/// The marks that are looked for, to tell their runs to stop.
#[derive(Debug)]
pub(super) struct StopRequestLook {
    /// Those of runs that may be replaced.
    pub(super) replaceable: Marked,
    /// Those of runs whose leases were renewed: only if an operator asks any run of the store to stop.
    pub(super) renewed: Marked,
}

impl RequestsToStop {
    /// Watches a run that was just admitted, and returns when the store is asked for the first time.
    pub(super) fn watch(&mut self, run: Arc<dyn HoldsLease>, mark: MutexName, now: Moment) -> Moment {
        let due = now.plus(about_a_second());
        self.watched.push(WatchedRun { run, mark, is_replaceable: true, due });
        due
    }

    /// Asks once about those of these runs that are not watched.
    pub(super) fn look_once(&mut self, runs: Vec<Arc<dyn HoldsLease>>, now: Moment) {
        let watched: HashSet<usize> = self.watched.iter().map(|watched| address(&watched.run)).collect();
        for run in runs {
            let Some(lease) = run.held().lease() else { continue };
            if !watched.contains(&address(&run)) && !run.gives_way() {
                let mark = lease.name().request_to_stop(lease.token());
                self.watched.push(WatchedRun { run, mark, is_replaceable: false, due: now });
            }
        }
    }
}

fn address(run: &Arc<dyn HoldsLease>) -> usize {
    Arc::as_ptr(run).cast::<()>().addr()
}

impl TimedJobs for RequestsToStop {
    type Job = StopRequestLook;
    /// Whether the store has answered.
    type Answer = bool;

    fn next_step(&mut self, now: Moment) -> TimedStep<StopRequestLook> {
        self.watched.retain(|watched| watched.run.held().deadline_at(now).is_some());
        let (mut replaceable, mut renewed) = (Marked::new(), Marked::new());
        for WatchedRun { run, mark, is_replaceable, .. } in self.watched.iter().filter(|watched| watched.due <= now) {
            let looks = if *is_replaceable { &mut replaceable } else { &mut renewed };
            looks.push((Arc::clone(run), mark.clone()));
        }
        if !replaceable.is_empty() || !renewed.is_empty() {
            return TimedStep::Do(StopRequestLook { replaceable, renewed });
        }
        self.watched.iter().map(|watched| watched.due).min().map_or(TimedStep::Rest, TimedStep::Wait)
    }

    fn on_signal(&mut self, _: usize) {}

    fn heeds_signals(&self) -> bool {
        false
    }

    fn job_done(&mut self, look: &StopRequestLook, is_answered: bool, now: Moment) {
        let StopRequestLook { replaceable, renewed } = look;
        let looked_for: HashSet<usize> = replaceable.iter().chain(renewed).map(|(run, _)| address(run)).collect();
        self.watched.retain_mut(|watched| {
            if !looked_for.contains(&address(&watched.run)) {
                return true;
            }
            watched.due = now.plus(about_a_second());
            // A look without an answer is made again.
            !watched.run.gives_way() && (watched.is_replaceable || !is_answered)
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hold::{cancellation::Cancellation, held_lease::HeldLease};
    use crate::lease::{request::LeaseRequest, term::Term, token::FencingToken};
    use crate::store::event_mutex::admission::Grant;
    use crate::time::clock::Clock;

    fn run(name: &str) -> Arc<dyn HoldsLease> {
        let (clock, name) = (Clock::system(), MutexName::lease(name).unwrap());
        let lease = LeaseRequest::new(name, Term::MAX, &clock).granted(FencingToken::new(7));
        let held = HeldLease::new(clock.clone(), Some(Grant::of(lease)), clock.moment(), None, Duration::ZERO);
        Arc::new(Cancellation::new(held))
    }

    #[test]
    fn a_run_that_an_operator_asked_to_stop_is_renewed_on_while_the_store_is_out() {
        let (asked, other) = (run("asked"), run("other"));
        let (mut requests, now) = (RequestsToStop::default(), Clock::system().moment());
        requests.look_once(vec![Arc::clone(&asked), Arc::clone(&other)], now);
        let TimedStep::Do(look) = requests.next_step(now) else { panic!("both are looked for") };
        asked.give_way(None);
        requests.job_done(&look, false, now); // the store answered about the first one only
        let later = now.plus(Duration::from_secs(60));
        let TimedStep::Do(look) = requests.next_step(later) else { panic!("the other one is looked for again") };
        let StopRequestLook { replaceable, renewed } = &look;
        assert!(replaceable.is_empty() && renewed.len() == 1 && Arc::ptr_eq(&renewed[0].0, &other));
        requests.job_done(&look, true, later);
        assert!(requests.watched.is_empty());
    }
}
