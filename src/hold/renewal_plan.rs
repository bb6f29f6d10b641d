//! The plan of a renewal thread. It says when each lease is renewed, when requests to stop are read, when tasks time
//! out, and how the leases end when the process exits. The plan has no thread and no clock, and sends no requests to
//! the store.
//!
//! A request to stop is a marker in the store. For a run that a newer run may replace, or that waits for a retry, the
//! marker is read about once a second. For any other run, the marker is read after each renewal of the lease, because
//! an operator can ask the run to stop. If such a run ends before its first renewal, nothing is read.

use std::mem;
use std::ptr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::held_lease::{HeldBy, HeldLease};
use crate::base::error::MutexError;
use crate::lease::holder::Holder;
use crate::lease::name::{MutexName, NameMap};
use crate::lease::term::{Renewal, Term};
use crate::outcome::run_record::RunId;
use crate::store::event_mutex::EventMutex;
use crate::time::clock::{about_a_second, moment::Moment};

pub(super) mod leases_at_exit;

use leases_at_exit::ExitRelease;

/// The number of names that stay in the plan after the release of their leases. The next run of an event usually needs
/// its name again.
const NAMES_AT_LEAST: usize = 256;

/// The leases that this process holds in one store, with the jobs that are planned for them.
#[derive(Default)]
pub(super) struct Plan {
    /// The leases of each name, so that the cost of adding a lease does not grow with their number. Nearly every name has
    /// one lease.
    leases: NameMap<Vec<PlannedLease>>,
    /// The number of names at which released leases are removed: twice the number of the others, and
    /// [`NAMES_AT_LEAST`] more.
    full_at: usize,
    /// Leases that were removed and may have observers, until [`take_removed`](Self::take_removed).
    removed: Vec<Arc<HeldLease>>,
    /// Running tasks that have a timeout.
    timeouts: Vec<TaskTimeout>,
    /// Whether a thread is reading requests to stop from the store.
    is_reading: bool,
    /// The number of the exiting thread, or 0 if the thread is not known. `None`: the process does not exit. During an
    /// exit, no lease is renewed.
    exits_on: Option<usize>,
}

struct PlannedLease {
    held: Arc<HeldLease>,
    /// A weak handle, so that the plan alone does not keep the store alive.
    store: Weak<dyn EventMutex>,
    /// `None`: the lease has a fixed term.
    renewal: Option<NextRenewal>,
    /// The time at which a request to stop the run is read. `None`: the request is read after the next renewal.
    read_at: Option<Moment>,
    /// Whether the run waits for a retry, so that no task is running.
    waits: bool,
    /// Whether the store was asked to shorten the lease because the process exits.
    is_shortened: bool,
}

/// A running task that has a timeout.
struct TaskTimeout {
    held: Arc<HeldLease>,
    run: RunId,
    /// The moment when the task is cancelled. `None`: the moment has passed, and the task was cancelled.
    timeout: Option<Moment>,
    /// The moment when a warning is logged, because the task has not stopped.
    overdue: Moment,
}

struct NextRenewal {
    term: Term,
    due: Moment,
}

impl NextRenewal {
    /// Plans the next renewal. It is due when a third of the usable term has passed since `asked`, so that two thirds
    /// are left for more attempts. The usable term is the term without the time that is kept for stopping the task.
    fn after(asked: Moment, term: Term, held: &HeldLease) -> Self {
        let useful = term.get().saturating_sub(held.stopping);
        Self { term, due: asked.plus(useful / 3) }
    }
}

/// The next step of the renewal thread.
#[derive(Debug)]
pub(super) enum PlanStep {
    Do(PlannedJob),
    /// No job is due before this moment.
    SleepUntil(Moment),
    /// No job is planned, so the thread ends.
    End,
}

/// A job of the renewal thread. The plan is not locked during a job, because the job can take long.
#[derive(Debug)]
pub(super) enum PlannedJob {
    Renew(DueRenewals),
    ReleaseAtExit(ExitRelease),
    /// Wakes and reports the runs whose lease was lost, or whose timeout is over.
    Cancel(Vec<Arc<HeldLease>>),
    /// Reports tasks that did not stop at their timeout.
    ReportOverdue(Vec<(Arc<HeldLease>, RunId)>),
    /// Reads the requests to stop for these runs from the store.
    ReadStopRequests(Vec<Arc<HeldLease>>),
}

/// Leases that are renewed in one request. Each has the time that was left until its deadline, less the time for
/// stopping.
#[derive(Debug)]
pub(super) struct DueRenewals {
    pub(super) term: Term,
    asked: Moment,
    pub(super) leases: Vec<(Arc<HeldLease>, Duration)>,
}

/// The store's answers to a renewal, one for each lease. Empty for any other job.
pub(super) type RenewalAnswers = Vec<Result<bool, MutexError>>;

impl Plan {
    /// Adds a lease that was just granted. Returns the time of the first job for the lease, or `None` if there is no
    /// lease. The lease takes the place of a released lease of its name, if there is one. The caller drops that lease
    /// without holding a lock. If the plan already renews a lease of this name, that lease was lost, and the result is
    /// its holder.
    pub(super) fn keep(
        &mut self,
        held: &Arc<HeldLease>,
        store: Weak<dyn EventMutex>,
        renewal: Renewal,
    ) -> (Result<Option<Arc<HeldLease>>, Holder>, Option<Moment>) {
        let Some(lease) = held.lease() else { return (Ok(None), None) };
        if renewal == Renewal::WhileItRuns
            && let Some(first) = self.doubt(lease.name(), held.granted_at)
        {
            return (Err(first), Some(held.granted_at));
        }
        let next = || NextRenewal::after(lease.asked_at(), lease.term(), held);
        let renewal = (renewal == Renewal::WhileItRuns).then(next);
        let due = renewal.as_ref().map_or(lease.deadline().minus(held.stopping), |renewal| renewal.due);
        let read_at = (held.by == HeldBy::ReplaceableRun).then(|| held.granted_at.plus(about_a_second()));
        let due = read_at.map_or(due, |read_at| read_at.min(due));
        if self.leases.len() >= self.full_at {
            let released = self.take_leases(HeldLease::was_released);
            self.removed.extend(released);
        }
        let (name, held) = (lease.name(), Arc::clone(held));
        let planned = PlannedLease { held, store, renewal, read_at, waits: false, is_shortened: false };
        let mut of_name = self.leases.get_mut(name).into_iter().flatten();
        let released = if let Some(place) = of_name.find(|known| known.held.was_released()) {
            Some(mem::replace(place, planned).held)
        } else {
            self.leases.entry(name.clone()).or_default().push(planned);
            None
        };
        (Ok(released), Some(if self.exits_on.is_some() { Moment::BEGINNING } else { due }))
    }

    /// Removes all leases for which `is_gone` returns `true`, and returns them.
    fn take_leases(&mut self, is_gone: impl Fn(&HeldLease) -> bool) -> Vec<Arc<HeldLease>> {
        let mut gone = Vec::new();
        self.leases.retain(|_, of_name| {
            gone.extend(of_name.extract_if(.., |planned| is_gone(&planned.held)).map(|planned| planned.held));
            !of_name.is_empty()
        });
        self.full_at = 2 * self.leases.len() + NAMES_AT_LEAST;
        gone
    }

    fn all_leases(&self) -> impl Iterator<Item = &PlannedLease> + Clone {
        self.leases.values().flatten()
    }

    /// Returns the jobs that are planned for a lease. `None`: the lease was removed.
    fn planned(&mut self, held: &HeldLease) -> Option<&mut PlannedLease> {
        let lease = held.lease()?;
        self.leases.get_mut(lease.name())?.iter_mut().find(|planned| ptr::eq(Arc::as_ptr(&planned.held), held))
    }

    /// Returns the leases that were removed since the last call. The caller drops them without holding a lock.
    pub(super) fn take_removed(&mut self) -> Vec<Arc<HeldLease>> {
        mem::take(&mut self.removed)
    }

    /// Returns a handle to the store. `None`: all users of the store have dropped their handles.
    pub(super) fn store(&self) -> Option<Arc<dyn EventMutex>> {
        self.all_leases().find_map(|planned| planned.store.upgrade())
    }

    /// Plans an immediate renewal of the lease `name`, because the store may have lost the lease. Returns the holder of
    /// the lease. `None`: this process renews no lease with this name. A lease with a fixed term is ignored, because it
    /// is never renewed.
    fn doubt(&mut self, name: &MutexName, now: Moment) -> Option<Holder> {
        let mut holder = None;
        for PlannedLease { held, renewal, .. } in self.leases.get_mut(name).into_iter().flatten() {
            if let Some(renewal) = renewal
                && held.deadline_at(now).is_some()
            {
                renewal.due = now;
                holder = holder.or_else(|| held.holder());
            }
        }
        holder
    }

    /// Plans to cancel the task at `timeout`, and to log a warning at `overdue` if the task has not ended by then.
    pub(super) fn add_timeout(&mut self, held: &Arc<HeldLease>, run: &RunId, timeout: Moment, overdue: Moment) {
        let (held, run) = (Arc::clone(held), run.clone());
        self.timeouts.push(TaskTimeout { held, run, timeout: Some(timeout), overdue });
    }

    pub(super) fn remove_timeout(&mut self, held: &Arc<HeldLease>) {
        self.timeouts.retain(|timeout| !Arc::ptr_eq(&timeout.held, held));
    }

    /// Notes that the run of this lease waits for a retry, and that no task is running. From now on, requests to stop
    /// the run are read about once a second. Returns the time of the next job for the lease.
    pub(super) fn begin_wait(&mut self, held: &Arc<HeldLease>, now: Moment) -> Option<Moment> {
        let is_exiting = self.exits_on.is_some();
        let planned = self.planned(held)?;
        planned.waits = true;
        if held.is_asked_to_stop() {
            return is_exiting.then_some(now);
        }
        let read_at = now.plus(about_a_second());
        let read_at = *planned.read_at.insert(planned.read_at.map_or(read_at, |known| known.min(read_at)));
        Some(if is_exiting { Moment::BEGINNING } else { read_at })
    }

    /// Notes that the run of this lease is about to start its task again. `false`: the task must not start, because the
    /// process exits.
    pub(super) fn end_wait(&mut self, held: &Arc<HeldLease>) -> bool {
        if let Some(planned) = self.planned(held) {
            planned.waits = false;
        }
        self.exits_on.is_none()
    }

    /// Notes that the process exits on `thread`. Zero means an unknown thread. The next step releases or shortens the
    /// leases.
    pub(super) fn begin_exit(&mut self, thread: usize) {
        self.exits_on = Some(thread);
    }

    /// Returns whether a lease must be released or shortened when the process exits.
    pub(super) fn has_leases(&self) -> bool {
        self.all_leases().any(|planned| !planned.held.was_released())
    }

    /// Returns the next step. If the renewal of a lease is due, all leases with its term and its observers are renewed
    /// in one batch. So for each schedule, one batch in each third of the term is enough, even if the leases were
    /// granted at different times. A lease whose deadline has passed is lost, and is not renewed.
    pub(super) fn next_step(&mut self, now: Moment) -> PlanStep {
        let job = self.release_at_exit(now).map(PlannedJob::ReleaseAtExit);
        let job = job.or_else(|| non_empty(self.take_cancelled(now)).map(PlannedJob::Cancel));
        let job = job.or_else(|| non_empty(self.take_overdue(now)).map(PlannedJob::ReportOverdue));
        let job = job.or_else(|| self.due_renewals(now).map(PlannedJob::Renew));
        let job = job.or_else(|| non_empty(self.take_due_reads(now)).map(PlannedJob::ReadStopRequests));
        job.map_or_else(|| self.next_due().map_or(PlanStep::End, PlanStep::SleepUntil), PlanStep::Do)
    }

    /// Returns the requests to send to the store because the process exits. The leases of the exiting thread, and of
    /// runs that wait for a retry, are released. Every other lease is shortened once. `None`: there is nothing to
    /// request, or the process does not exit.
    fn release_at_exit(&mut self, now: Moment) -> Option<ExitRelease> {
        let exits_on = self.exits_on?;
        let mut release = ExitRelease::default();
        for PlannedLease { held, waits, is_shortened, .. } in self.leases.values_mut().flatten() {
            let Some(deadline) = held.deadline_at(now) else { continue };
            if *waits || held.is_running_on(exits_on) {
                release.release(held);
            } else if !mem::replace(is_shortened, true) {
                release.shorten(held, deadline, now);
            }
        }
        (!release.is_empty()).then_some(release)
    }

    /// Returns the runs that must be cancelled: their lease was lost, or their timeout is over. Removes lost and
    /// released leases from the plan.
    fn take_cancelled(&mut self, now: Moment) -> Vec<Arc<HeldLease>> {
        let gone = self.take_leases(|held| held.deadline_at(now).is_none());
        let (mut cancelled, released): (Vec<_>, Vec<_>) = gone.into_iter().partition(|held| held.is_lost());
        self.removed.extend(released);
        for TaskTimeout { held, timeout, .. } in &mut self.timeouts {
            if timeout.take_if(|timeout| *timeout <= now).is_some() {
                cancelled.push(Arc::clone(held));
            }
        }
        cancelled
    }

    fn take_overdue(&mut self, now: Moment) -> Vec<(Arc<HeldLease>, RunId)> {
        let overdue = self.timeouts.extract_if(.., |timeout| timeout.overdue <= now);
        overdue.map(|timeout| (timeout.held, timeout.run)).collect()
    }

    fn due_renewals(&self, now: Moment) -> Option<DueRenewals> {
        let renewed = self.all_leases().filter(|_| self.exits_on.is_none());
        let renewed = renewed.filter_map(|planned| Some((&planned.held, planned.renewal.as_ref()?)));
        let (of_first, first) = renewed.clone().min_by_key(|(_, renewal)| renewal.due)?;
        if first.due > now {
            return None;
        }
        // One report goes to the observers of all these leases.
        let together = renewed.filter(|(held, renewal)| {
            renewal.term == first.term && held.observers().are(of_first.observers()) && held.begin_renewal(now)
        });
        let leases = together.map(|(held, _)| (Arc::clone(held), held.deadline().since(now)));
        non_empty(leases.collect()).map(|leases| DueRenewals { term: first.term, asked: now, leases })
    }

    /// Returns the runs whose requests to stop are due to be read. Returns no runs while another thread is reading
    /// requests.
    fn take_due_reads(&mut self, now: Moment) -> Vec<Arc<HeldLease>> {
        if self.is_reading || self.exits_on.is_some() {
            return Vec::new();
        }
        let mut reads = Vec::new();
        for PlannedLease { held, read_at, .. } in self.leases.values_mut().flatten() {
            if read_at.take_if(|read_at| *read_at <= now).is_some() {
                reads.push(Arc::clone(held));
            }
        }
        self.is_reading = !reads.is_empty();
        reads
    }

    /// Returns the time of the next job. A deadline counts as a job, too, because a loss is reported as soon as the
    /// deadline passes.
    fn next_due(&self) -> Option<Moment> {
        let leases = self.all_leases().flat_map(|planned| {
            let renewal = planned.renewal.as_ref().map(|renewal| renewal.due);
            let read_at = planned.read_at.filter(|_| !self.is_reading);
            let due = renewal.into_iter().chain(read_at).filter(|_| self.exits_on.is_none());
            due.chain([planned.held.deadline()])
        });
        leases.chain(self.timeouts.iter().map(|timeout| timeout.timeout.unwrap_or(timeout.overdue))).min()
    }

    /// Notes the answers to a job.
    pub(super) fn job_done(&mut self, job: &PlannedJob, answers: RenewalAnswers, now: Moment) {
        let PlannedJob::Renew(DueRenewals { term, asked, leases }) = job else { return };
        for ((held, _), answer) in leases.iter().zip(answers) {
            let planned = self.planned(held);
            match answer {
                Ok(true) => {
                    held.renewed_until(asked.plus(term.get()), now);
                    if let Some(PlannedLease { renewal, read_at, .. }) = planned {
                        *renewal = Some(NextRenewal::after(*asked, *term, held));
                        if held.by == HeldBy::Run && !held.is_asked_to_stop() {
                            read_at.get_or_insert(now);
                        }
                    }
                }
                Ok(false) => held.lose(now),
                Err(_) => {
                    held.renewal_failed();
                    if let Some(renewal) = planned.and_then(|planned| planned.renewal.as_mut()) {
                        // The pause is long enough to spare a store in trouble, and short enough for a dozen attempts
                        // before the deadline.
                        renewal.due = now.plus(renewal.term.get() / 30);
                    }
                }
            }
        }
    }

    /// Notes that the requests to stop for these runs were read. `is_answered` is whether the store has answered.
    /// Returns the time of the next read, or `None` if no read is planned.
    pub(super) fn read_ended(&mut self, runs: &[Arc<HeldLease>], is_answered: bool, now: Moment) -> Option<Moment> {
        self.is_reading = false;
        for held in runs.iter().filter(|held| !held.is_asked_to_stop()) {
            if let Some(PlannedLease { read_at, waits, .. }) = self.planned(held)
                && (!is_answered || *waits || held.by == HeldBy::ReplaceableRun)
            {
                read_at.get_or_insert(now.plus(about_a_second()));
            }
        }
        self.all_leases().filter_map(|planned| planned.read_at).min()
    }
}

fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests;
