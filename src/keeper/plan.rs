//! Which leases are renewed when: no thread, no store, no clock.

use std::sync::Arc;
use std::time::Duration;

use super::watch::{Duty, Step};
use crate::clock::Moment;
use crate::lease::{Lease, MutexName, NameMap, Term};
use crate::mutex::Answers;
use crate::protection::Renewal;
use crate::task::Run;
use crate::tenure::Tenure;

/// All leases of one store that this process has in hand, by name.
#[derive(Default)]
pub(super) struct Plan {
    entries: NameMap<Entry>,
    /// How many names there may be before those that were given back are looked for.
    purge_above: usize,
    /// Tasks that have a timeout.
    timed: Vec<Timed>,
}

/// A task at work, and when it is told of because it did not stop.
struct Timed {
    run: Run,
    overdue: Moment,
}

/// So many names are no burden: those of events come again, and are found in their place.
const PURGE_NEVER_BELOW: usize = 1024;

struct Entry {
    tenure: Arc<Tenure>,
    /// `None`: its term is fixed.
    next: Option<Next>,
}

/// When a lease is renewed for the next time.
struct Next {
    term: Term,
    due: Moment,
    /// How long to wait after the next failure, if there was one.
    pause: Option<Duration>,
}

impl Next {
    /// A third of the term after it was asked for the last time, so that two more thirds are left for failures.
    #[inline]
    fn before(deadline: Moment, term: Term) -> Self {
        Self { term, due: deadline.minus(term.get() / 3 * 2), pause: None }
    }

    /// The next attempt after a failed one: not so soon that a store in trouble is flooded, and often enough that the
    /// rest of a term has room for a dozen.
    fn again(&mut self, now: Moment) {
        let first = || (self.term.get() / 300).clamp(Duration::from_millis(1), Duration::from_millis(200));
        let pause = self.pause.unwrap_or_else(first);
        self.due = now.plus(pause);
        self.pause = Some((pause * 2).min(self.term.get() / 30));
    }
}

/// What is done while others take leases and give them back.
#[derive(Debug)]
pub(super) enum Errand {
    Renew(Batch),
    /// To tell of these, which did not stop.
    Tell(Vec<Run>),
}

/// Leases that are renewed together.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) term: Term,
    asked: Moment,
    tenures: Vec<Arc<Tenure>>,
}

impl Batch {
    pub(super) fn leases(&self) -> Vec<Lease> {
        self.tenures.iter().filter_map(|tenure| tenure.lease().cloned()).collect()
    }
}

impl Plan {
    /// Keeps a lease that was just granted, and says when there is something to do for it, if ever.
    pub(super) fn keep(&mut self, tenure: &Arc<Tenure>, renewal: Renewal) -> Option<Moment> {
        let lease = tenure.lease()?;
        let next = (renewal == Renewal::WhileItRuns).then(|| Next::before(lease.deadline(), lease.term()));
        let due = next.as_ref().map(|next| next.due);
        let entry = Entry { tenure: Arc::clone(tenure), next };
        if let Some(before) = self.entries.get_mut(lease.name()) {
            // Whoever still relies on it here has lost it, or the store would not have granted it again.
            let granted = tenure.began();
            if before.tenure.deadline_at(granted).is_some() {
                before.tenure.lose(granted);
            }
            *before = entry;
            return due;
        }
        if self.entries.len() >= self.purge_above {
            self.entries.retain(|_, entry| entry.tenure.gone_since().is_none());
            self.purge_above = (self.entries.len() * 2).max(PURGE_NEVER_BELOW);
        }
        self.entries.insert(lease.name().clone(), entry);
        due
    }

    /// Who in this process holds the name, as far as it knows.
    pub(super) fn holder(&self, name: &MutexName) -> Option<Arc<Tenure>> {
        let tenure = &self.entries.get(name)?.tenure;
        tenure.gone_since().is_none().then(|| Arc::clone(tenure))
    }
}

impl Plan {
    /// Tells of a task that has not ended at this moment.
    pub(super) fn expect_end(&mut self, run: &Run, overdue: Moment) {
        self.timed.push(Timed { run: run.clone(), overdue });
    }

    pub(super) fn has_ended(&mut self, run: &Run) {
        self.timed.retain(|timed| !Arc::ptr_eq(timed.run.tenure(), run.tenure()));
    }

    fn take_overdue(&mut self, now: Moment) -> Vec<Run> {
        self.timed.extract_if(.., |timed| timed.overdue <= now).map(|timed| timed.run).collect()
    }
}

impl Duty for Plan {
    type Errand = Errand;
    type Answer = Answers<bool>;

    /// Who is due is renewed with all others of the same term, so that many leases become one batch for each third of
    /// the term, whenever they were granted. Whose deadline has passed is cancelled, and not renewed.
    fn step(&mut self, now: Moment) -> Step<Errand> {
        let overdue = self.take_overdue(now);
        if !overdue.is_empty() {
            return Step::Do(Errand::Tell(overdue));
        }
        self.entries.retain(|_, entry| entry.tenure.deadline_at(now).is_some());
        let kept = || self.entries.values().filter_map(|entry| Some((&entry.tenure, entry.next.as_ref()?)));
        let first = kept().map(|(_, next)| next).min_by_key(|next| next.due);
        if let Some(first) = first.filter(|first| first.due <= now) {
            let together = kept().filter(|(tenure, next)| next.term == first.term && tenure.ask(now));
            let tenures: Vec<_> = together.map(|(tenure, _)| Arc::clone(tenure)).collect();
            if !tenures.is_empty() {
                return Step::Do(Errand::Renew(Batch { term: first.term, asked: now, tenures }));
            }
        }
        // Looked at when its deadline passes, too, so that a loss is told then.
        let looks = kept().filter_map(|(tenure, next)| Some(next.due.min(tenure.deadline_at(now)?)));
        looks.chain(self.timed.iter().map(|timed| timed.overdue)).min().map_or(Step::Rest, Step::Wait)
    }

    fn done(&mut self, errand: &Errand, answers: Answers<bool>, now: Moment) {
        let Errand::Renew(batch) = errand else { return };
        for (tenure, answer) in batch.tenures.iter().zip(answers) {
            let entry = tenure.lease().and_then(|lease| self.entries.get_mut(lease.name()));
            // Another may have the name by now.
            let entry = entry.filter(|entry| Arc::ptr_eq(&entry.tenure, tenure));
            let next = entry.and_then(|entry| entry.next.as_mut());
            match answer {
                Ok(true) => {
                    let deadline = batch.asked.plus(batch.term.get());
                    tenure.renewed_until(deadline, now);
                    if let Some(next) = next {
                        *next = Next::before(deadline, batch.term);
                    }
                }
                Ok(false) => tenure.lose(now),
                Err(_) => {
                    tenure.not_renewed();
                    if let Some(next) = next {
                        next.again(now);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
