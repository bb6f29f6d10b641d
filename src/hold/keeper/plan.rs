//! The plan of a keeper: which leases it renews when, and what it does with them when the process ends. It knows no thread,
//! no store and no clock.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::exit_release::ExitRelease;
use crate::base::error::MutexError;
use crate::hold::tenure::Tenure;
use crate::hold::timer_thread::{Step, TimedJobs};
use crate::lease::term::{Renewal, Term};
use crate::lease::{name::MutexName, request::Lease};
use crate::observe::run_id::RunId;
use crate::time::clock::moment::Moment;

/// All leases of one store that this process has in hand.
#[derive(Default)]
pub(super) struct Plan {
    /// Some were given back, and are soon replaced.
    entries: Vec<KeptLease>,
    /// At this many entries, those that were given back are removed.
    purge_above: usize,
    /// Tasks that have a timeout.
    timed: Vec<Timed>,
    /// Set when the process ends: the number of the thread that ends it, or 0. Nothing is renewed from then on.
    ended_by: Option<usize>,
}

/// Mostly fewer leases than this are held at once.
const PURGE_NEVER_BELOW: usize = 256;

struct KeptLease {
    tenure: Arc<Tenure>,
    /// `None`: it has a fixed term.
    next: Option<Next>,
    /// Whether the store was asked to shorten it because this process ends.
    shortened: bool,
}

/// A task at work that has a timeout, and when a warning says that it did not stop.
struct Timed {
    tenure: Arc<Tenure>,
    run: RunId,
    overdue: Moment,
}

/// When a lease is renewed for the next time.
struct Next {
    term: Term,
    due: Moment,
    /// How long to wait after the next failure, if there was one.
    pause: Option<Duration>,
}

impl Next {
    /// Due when a third of the time has passed for which the last renewal lets the run go on, so that two thirds are left for
    /// failed attempts. The time for stopping does not count.
    #[inline]
    fn after(asked: Moment, term: Term, tenure: &Tenure) -> Self {
        let useful = term.get().saturating_sub(tenure.stopping());
        Self { term, due: asked.plus(useful / 3), pause: None }
    }

    /// Schedules the next attempt after a failed one: not so soon that it floods a store in trouble, and often enough that
    /// the rest of a term has room for a dozen.
    fn again(&mut self, now: Moment) {
        let first = || (self.term.get() / 300).clamp(Duration::from_millis(1), Duration::from_millis(200));
        let pause = self.pause.unwrap_or_else(first);
        self.due = now.plus(pause);
        self.pause = Some((pause * 2).min(self.term.get() / 30));
    }
}

/// What a keeper does while others take leases and give them back.
#[derive(Debug)]
pub(super) enum KeeperJob {
    Renew(DueRenewals),
    /// The process ends.
    ReleaseAtExit(ExitRelease),
    /// The tasks of these runs did not stop at their timeout.
    LogOverdue(Vec<RunId>),
    LogLost(Vec<Arc<Tenure>>),
}

/// Leases that are renewed together.
#[derive(Debug)]
pub(super) struct DueRenewals {
    pub(super) term: Term,
    asked: Moment,
    tenures: Vec<Arc<Tenure>>,
}

impl DueRenewals {
    pub(super) fn leases(&self) -> impl Iterator<Item = Lease> {
        self.tenures.iter().filter_map(|tenure| tenure.lease().cloned())
    }
}

impl Plan {
    /// Keeps a lease that was just granted, and returns when there is something to do for it.
    #[inline]
    pub(super) fn keep(&mut self, tenure: &Arc<Tenure>, lease: &Lease, renewal: Renewal) -> Moment {
        let next = (renewal == Renewal::WhileItRuns)
            .then(|| Next::after(lease.deadline().minus(lease.term().get()), lease.term(), tenure));
        let due = next.as_ref().map_or_else(|| lease.deadline().minus(tenure.stopping()), |next| next.due);
        let entry = KeptLease { tenure: Arc::clone(tenure), next, shortened: false };
        match self.entries.last_mut() {
            // One run after another needs one place.
            Some(last) if last.tenure.has_ended() => *last = entry,
            _ => self.add(entry),
        }
        if self.ended_by.is_some() { Moment::BEGINNING } else { due }
    }

    fn add(&mut self, entry: KeptLease) {
        if self.entries.len() >= self.purge_above {
            self.entries.retain(|entry| !entry.tenure.has_ended());
            self.purge_above = (self.entries.len() * 2).max(PURGE_NEVER_BELOW);
        }
        self.entries.push(entry);
    }

    /// The run in this process that holds the name under a renewed lease, as far as it knows. A fixed term does not count:
    /// nobody asks the store whether such a lease is still held.
    pub(super) fn holder(&self, name: &MutexName, now: Moment) -> Option<Arc<Tenure>> {
        let renewed = self.entries.iter().filter(|entry| entry.next.is_some());
        renewed.map(|entry| &entry.tenure).find(|tenure| has(tenure, name, now)).cloned()
    }

    /// Renews the name at once, to learn whether it is still ours; returns when that is.
    pub(super) fn doubt(&mut self, name: &MutexName, now: Moment) -> Moment {
        let doubted = self.entries.iter_mut().filter(|entry| has(&entry.tenure, name, now));
        doubted.filter_map(|entry| entry.next.as_mut()).for_each(|next| next.due = now);
        now
    }

    /// Logs a warning if the task has not ended at this moment.
    pub(super) fn expect_end(&mut self, tenure: &Arc<Tenure>, run: &RunId, overdue: Moment) {
        self.timed.push(Timed { tenure: Arc::clone(tenure), run: run.clone(), overdue });
    }

    pub(super) fn has_ended(&mut self, tenure: &Arc<Tenure>) {
        self.timed.retain(|timed| !Arc::ptr_eq(&timed.tenure, tenure));
    }

    fn renewed(&self) -> impl Iterator<Item = (&Arc<Tenure>, &Next)> {
        let entries = if self.ended_by.is_none() { &self.entries[..] } else { &[] };
        entries.iter().filter_map(|entry| Some((&entry.tenure, entry.next.as_ref()?)))
    }

    /// What the store is asked for because this process ends: it shortens each lease once, and gives back those of the last
    /// thread, as often as there are any.
    fn release_at_exit(&mut self, now: Moment) -> Option<ExitRelease> {
        let ended_by = self.ended_by?;
        let mut release = ExitRelease::default();
        for KeptLease { tenure, shortened, .. } in &mut self.entries {
            let Some(deadline) = tenure.deadline_at(now) else { continue };
            if tenure.is_performed_on(ended_by) {
                release.give_back(tenure);
            } else if !mem::replace(shortened, true) {
                release.shorten(tenure, deadline, now);
            }
        }
        (!release.is_empty()).then_some(release)
    }

    fn take_overdue(&mut self, now: Moment) -> Vec<RunId> {
        self.timed.extract_if(.., |timed| timed.overdue <= now).map(|timed| timed.run).collect()
    }
}

impl TimedJobs for Plan {
    type Job = KeeperJob;
    type Answer = Vec<Result<bool, MutexError>>;

    /// A lease that is due is renewed with all others of the same term, so that many leases become one batch for each third
    /// of the term, whenever they were granted. A lease whose deadline has passed is lost, and not renewed.
    fn next_step(&mut self, now: Moment) -> Step<KeeperJob> {
        if let Some(release) = self.release_at_exit(now) {
            return Step::Do(KeeperJob::ReleaseAtExit(release));
        }
        let overdue = self.take_overdue(now);
        if !overdue.is_empty() {
            return Step::Do(KeeperJob::LogOverdue(overdue));
        }
        let is_live = |entry: &mut KeptLease| entry.tenure.deadline_at(now).is_some();
        let gone = self.entries.extract_if(.., |entry| !is_live(entry)).map(|entry| entry.tenure);
        let lost: Vec<_> = gone.filter(|tenure| tenure.is_lost()).collect();
        if !lost.is_empty() {
            return Step::Do(KeeperJob::LogLost(lost));
        }
        let first = self.renewed().map(|(_, next)| next).min_by_key(|next| next.due);
        if let Some(first) = first.filter(|first| first.due <= now) {
            let together = self.renewed().filter(|(tenure, next)| next.term == first.term && tenure.ask(now));
            let tenures: Vec<_> = together.map(|(tenure, _)| Arc::clone(tenure)).collect();
            if !tenures.is_empty() {
                return Step::Do(KeeperJob::Renew(DueRenewals { term: first.term, asked: now, tenures }));
            }
        }
        // A deadline counts too, so that a loss is logged when it passes.
        let deadlines = self.entries.iter().filter_map(|entry| entry.tenure.deadline_at(now));
        let renewals = self.renewed().filter(|(tenure, _)| tenure.deadline_at(now).is_some()).map(|(_, next)| next.due);
        deadlines
            .chain(renewals)
            .chain(self.timed.iter().map(|timed| timed.overdue))
            .min()
            .map_or(Step::Rest, Step::Wait)
    }

    fn on_signal(&mut self, value: usize) {
        self.ended_by = Some(value);
    }

    fn job_done(&mut self, job: &KeeperJob, answers: Vec<Result<bool, MutexError>>, now: Moment) {
        let KeeperJob::Renew(batch) = job else { return };
        for (tenure, answer) in batch.tenures.iter().zip(answers) {
            let entry = self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.tenure, tenure));
            let next = entry.and_then(|entry| entry.next.as_mut());
            match answer {
                Ok(true) => {
                    tenure.renewed_until(batch.asked.plus(batch.term.get()), now);
                    if let Some(next) = next {
                        *next = Next::after(batch.asked, batch.term, tenure);
                    }
                }
                Ok(false) => tenure.lose(now),
                Err(_) => {
                    tenure.answered();
                    if let Some(next) = next {
                        next.again(now);
                    }
                }
            }
        }
    }
}

fn has(tenure: &Tenure, name: &MutexName, now: Moment) -> bool {
    !tenure.has_ended() && tenure.lease().is_some_and(|lease| lease.name() == name) && tenure.deadline_at(now).is_some()
}

#[cfg(test)]
mod tests;
