//! The plan of a keeper: which leases it renews when, and what it does with them when the process ends. It knows no thread,
//! no store and no clock.

use std::collections::HashMap;
use std::mem;
use std::ptr::addr_eq;
use std::sync::Arc;
use std::time::Duration;

use super::exit_release::ExitRelease;
use crate::base::error::MutexError;
use crate::hold::held_lease::{HeldLease, HoldsLease};
use crate::hold::timer_thread::{TimedJobs, TimedStep};
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
    /// Who has each name under a renewed lease, and some who have given it back; and at how many names these are removed.
    names: HashMap<MutexName, Vec<Arc<dyn HoldsLease>>>,
    purge_names_above: usize,
    /// Tasks that have a timeout.
    timed: Vec<Timed>,
    /// Set when the process ends: the number of the thread that ends it, or 0. Nothing is renewed from then on.
    ended_by: Option<usize>,
}

/// Mostly fewer leases than this are held at once.
const PURGE_NEVER_BELOW: usize = 256;

struct KeptLease {
    holder: Arc<dyn HoldsLease>,
    /// `None`: it has a fixed term.
    next: Option<Next>,
    /// Whether the store was asked to shorten it because this process ends.
    shortened: bool,
}

/// A task at work that has a timeout, and when a warning says that it did not stop.
struct Timed {
    holder: Arc<dyn HoldsLease>,
    run: RunId,
    /// When it is woken if it waits; `None`: it was.
    timeout: Option<Moment>,
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
    fn after(asked: Moment, term: Term, held: &HeldLease) -> Self {
        let useful = term.get().saturating_sub(held.stopping());
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
    LogOverdue(Vec<(Arc<dyn HoldsLease>, RunId)>),
    TellLost(Vec<Arc<dyn HoldsLease>>),
    /// Their tasks may wait for that.
    WakeTimedOut(Vec<Arc<dyn HoldsLease>>),
}

/// Leases that are renewed together.
#[derive(Debug)]
pub(super) struct DueRenewals {
    pub(super) term: Term,
    asked: Moment,
    pub(super) holders: Vec<Arc<dyn HoldsLease>>,
}

impl DueRenewals {
    pub(super) fn leases(&self) -> impl Iterator<Item = Lease> {
        self.holders.iter().filter_map(|holder| holder.held().lease().cloned())
    }

    /// Who holds them, and how long each lasted when it was asked for.
    pub(super) fn held(&self) -> impl Iterator<Item = (&HeldLease, Duration)> {
        self.holders.iter().map(|holder| holder.held()).map(|held| (held, held.end().since(self.asked)))
    }
}

impl Plan {
    /// Keeps a lease that was just granted, and returns when there is something to do for it.
    #[inline]
    pub(super) fn keep(&mut self, holder: Arc<dyn HoldsLease>, renewal: Renewal) -> Option<Moment> {
        let held = holder.held();
        let lease = held.lease()?;
        let next = (renewal == Renewal::WhileItRuns)
            .then(|| Next::after(lease.deadline().minus(lease.term().get()), lease.term(), held));
        let due = next.as_ref().map_or_else(|| lease.deadline().minus(held.stopping()), |next| next.due);
        let entry = KeptLease { holder, next, shortened: false };
        match self.entries.last_mut() {
            // One run after another needs one place.
            Some(last) if last.holder.held().was_given_back() => *last = entry,
            _ => self.add(entry),
        }
        Some(if self.ended_by.is_some() { Moment::BEGINNING } else { due })
    }

    fn add(&mut self, entry: KeptLease) {
        if self.entries.len() >= self.purge_above {
            self.entries.retain(|entry| !entry.holder.held().was_given_back());
            self.purge_above = (self.entries.len() * 2).max(PURGE_NEVER_BELOW);
        }
        self.entries.push(entry);
    }

    /// Who in this process holds the name under a renewed lease, as far as it knows. A fixed term does not count: nobody
    /// asks the store whether such a lease is still held.
    pub(super) fn holder(&self, name: &MutexName, now: Moment) -> Option<&HeldLease> {
        self.names.get(name)?.iter().map(|holder| holder.held()).find(|held| has(held, name, now))
    }

    /// From here on [`holder`](Self::holder) knows the name of this renewed lease.
    pub(super) fn note_name(&mut self, holder: &Arc<dyn HoldsLease>) {
        let is_there = |holder: &Arc<dyn HoldsLease>| !holder.held().was_given_back();
        if self.names.len() >= self.purge_names_above {
            self.names.retain(|_, holders| holders.iter().any(is_there));
            self.purge_names_above = (self.names.len() * 2).max(PURGE_NEVER_BELOW);
        }
        if let Some(lease) = holder.held().lease() {
            let holders = self.names.entry(lease.name().clone()).or_default();
            holders.retain(is_there);
            holders.push(Arc::clone(holder));
        }
    }

    /// Renews the name at once, to learn whether it is still ours.
    pub(super) fn doubt(&mut self, name: &MutexName, now: Moment) {
        let doubted = self.entries.iter_mut().filter(|entry| has(entry.holder.held(), name, now));
        doubted.filter_map(|entry| entry.next.as_mut()).for_each(|next| next.due = now);
    }

    /// Wakes the task at its timeout, and logs a warning if it has not ended at the second moment.
    pub(super) fn expect_end(&mut self, holder: Arc<dyn HoldsLease>, run: &RunId, timeout: Moment, overdue: Moment) {
        self.timed.push(Timed { holder, run: run.clone(), timeout: Some(timeout), overdue });
    }

    pub(super) fn has_ended(&mut self, holder: &dyn HoldsLease) {
        self.timed.retain(|timed| !addr_eq(Arc::as_ptr(&timed.holder), holder));
    }

    fn renewed(&self) -> impl Iterator<Item = (&Arc<dyn HoldsLease>, &Next)> {
        let entries = if self.ended_by.is_none() { &self.entries[..] } else { &[] };
        entries.iter().filter_map(|entry| Some((&entry.holder, entry.next.as_ref()?)))
    }

    /// What the store is asked for because this process ends: it shortens each lease once, and gives back those of the last
    /// thread, as often as there are any.
    fn release_at_exit(&mut self, now: Moment) -> Option<ExitRelease> {
        let ended_by = self.ended_by?;
        let mut release = ExitRelease::default();
        for KeptLease { holder, shortened, .. } in &mut self.entries {
            let Some(deadline) = holder.held().deadline_at(now) else { continue };
            if holder.is_at_work_on(ended_by) {
                release.give_back(holder.held());
            } else if !mem::replace(shortened, true) {
                release.shorten(holder, deadline, now);
            }
        }
        (!release.is_empty()).then_some(release)
    }

    fn take_timed_out(&mut self, now: Moment) -> Vec<Arc<dyn HoldsLease>> {
        let timed_out = self.timed.iter_mut().filter(|timed| timed.timeout.is_some_and(|timeout| timeout <= now));
        timed_out
            .map(|timed| {
                timed.timeout = None;
                Arc::clone(&timed.holder)
            })
            .collect()
    }

    fn take_overdue(&mut self, now: Moment) -> Vec<(Arc<dyn HoldsLease>, RunId)> {
        let overdue = self.timed.extract_if(.., |timed| timed.overdue <= now);
        overdue.map(|timed| (timed.holder, timed.run)).collect()
    }
}

impl TimedJobs for Plan {
    type Job = KeeperJob;
    type Answer = Vec<Result<bool, MutexError>>;

    /// A lease that is due is renewed with all others of the same term, so that many leases become one batch for each third
    /// of the term, whenever they were granted. A lease whose deadline has passed is lost, and not renewed.
    fn next_step(&mut self, now: Moment) -> TimedStep<KeeperJob> {
        if let Some(release) = self.release_at_exit(now) {
            return TimedStep::Do(KeeperJob::ReleaseAtExit(release));
        }
        let timed_out = self.take_timed_out(now);
        if !timed_out.is_empty() {
            return TimedStep::Do(KeeperJob::WakeTimedOut(timed_out));
        }
        let overdue = self.take_overdue(now);
        if !overdue.is_empty() {
            return TimedStep::Do(KeeperJob::LogOverdue(overdue));
        }
        let is_live = |entry: &mut KeptLease| entry.holder.held().deadline_at(now).is_some();
        let gone = self.entries.extract_if(.., |entry| !is_live(entry)).map(|entry| entry.holder);
        let lost: Vec<_> = gone.filter(|holder| holder.held().is_lost()).collect();
        if !lost.is_empty() {
            return TimedStep::Do(KeeperJob::TellLost(lost));
        }
        let first = self.renewed().map(|(_, next)| next).min_by_key(|next| next.due);
        if let Some(first) = first.filter(|first| first.due <= now) {
            let together =
                self.renewed().filter(|(holder, next)| next.term == first.term && holder.held().begin_renewal(now));
            let holders: Vec<_> = together.map(|(holder, _)| Arc::clone(holder)).collect();
            if !holders.is_empty() {
                return TimedStep::Do(KeeperJob::Renew(DueRenewals { term: first.term, asked: now, holders }));
            }
        }
        // A deadline counts too, so that a loss is logged when it passes.
        let deadlines = self.entries.iter().filter_map(|entry| entry.holder.held().deadline_at(now));
        let renewals =
            self.renewed().filter(|(holder, _)| holder.held().deadline_at(now).is_some()).map(|(_, next)| next.due);
        deadlines
            .chain(renewals)
            .chain(self.timed.iter().map(|timed| timed.timeout.unwrap_or(timed.overdue)))
            .min()
            .map_or(TimedStep::Rest, TimedStep::Wait)
    }

    fn on_signal(&mut self, value: usize) {
        self.ended_by = Some(value);
    }

    fn heeds_signals(&self) -> bool {
        self.entries.iter().any(|entry| !entry.holder.held().was_given_back())
    }

    fn job_done(&mut self, job: &KeeperJob, answers: Vec<Result<bool, MutexError>>, now: Moment) {
        let KeeperJob::Renew(batch) = job else { return };
        for (holder, answer) in batch.holders.iter().zip(answers) {
            let entry = self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.holder, holder));
            let next = entry.and_then(|entry| entry.next.as_mut());
            match answer {
                Ok(true) => {
                    holder.held().renewed_until(batch.asked.plus(batch.term.get()), now);
                    if let Some(next) = next {
                        *next = Next::after(batch.asked, batch.term, holder.held());
                    }
                }
                Ok(false) => holder.held().lose(now),
                Err(_) => {
                    holder.held().renewal_failed();
                    if let Some(next) = next {
                        next.again(now);
                    }
                }
            }
        }
    }
}

fn has(held: &HeldLease, name: &MutexName, now: Moment) -> bool {
    !held.was_given_back() && held.lease().is_some_and(|lease| lease.name() == name) && held.deadline_at(now).is_some()
}

#[cfg(test)]
mod tests;
