//! Which leases are renewed when: no thread, no store, no clock.

use std::sync::Arc;
use std::time::Duration;

use super::watch::{Duty, Step};
use crate::clock::Moment;
use crate::lease::{Lease, MutexName, Term};
use crate::mutex::Answers;
use crate::task::Run;
use crate::tenure::Tenure;

/// All leases of one store that this process has in hand and renews.
#[derive(Default)]
pub(super) struct Plan {
    /// Also what was given back since this was looked at, which is soon replaced.
    entries: Vec<Entry>,
    /// How many there may be before those that were given back are looked for.
    purge_above: usize,
    /// Tasks that have a timeout.
    timed: Vec<Timed>,
}

/// More than are in hand at once, mostly.
const PURGE_NEVER_BELOW: usize = 256;

struct Entry {
    tenure: Arc<Tenure>,
    next: Next,
}

/// A task at work, and when it is told of because it did not stop.
struct Timed {
    run: Run,
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
    /// A third of the term after it was asked for the last time, so that two more thirds are left for failures.
    #[inline]
    fn before(deadline: Moment, term: Term) -> Self {
        Self { term, due: deadline.minus(term.get()).plus(term.get() / 3), pause: None }
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
    TellOfOverdue(Vec<Run>),
    /// To tell of these, which were lost.
    TellOfLost(Vec<Arc<Tenure>>),
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
    /// Keeps a lease that was just granted, and says when it is to be renewed.
    #[inline]
    pub(super) fn keep(&mut self, tenure: &Arc<Tenure>, lease: &Lease) -> Moment {
        let next = Next::before(lease.deadline(), lease.term());
        let due = next.due;
        let entry = Entry { tenure: Arc::clone(tenure), next };
        match self.entries.last_mut() {
            // One run after another needs one place.
            Some(last) if last.tenure.has_ended() => *last = entry,
            _ => self.add(entry),
        }
        due
    }

    fn add(&mut self, entry: Entry) {
        if self.entries.len() >= self.purge_above {
            self.entries.retain(|entry| !entry.tenure.has_ended());
            self.purge_above = (self.entries.len() * 2).max(PURGE_NEVER_BELOW);
        }
        self.entries.push(entry);
    }

    /// Who in this process holds the name, as far as it knows.
    pub(super) fn holder(&self, name: &MutexName, now: Moment) -> Option<Arc<Tenure>> {
        self.entries.iter().map(|entry| &entry.tenure).find(|tenure| has(tenure, name, now)).cloned()
    }

    /// Asks the store as soon as possible whether the name is still ours, and says when that is.
    pub(super) fn doubt(&mut self, name: &MutexName, now: Moment) -> Moment {
        let doubted = self.entries.iter_mut().filter(|entry| has(&entry.tenure, name, now));
        doubted.for_each(|entry| entry.next.due = now);
        now
    }

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
            return Step::Do(Errand::TellOfOverdue(overdue));
        }
        let is_live = |entry: &mut Entry| entry.tenure.deadline_at(now).is_some();
        let gone = self.entries.extract_if(.., |entry| !is_live(entry)).map(|entry| entry.tenure);
        let lost: Vec<_> = gone.filter(|tenure| tenure.is_lost()).collect();
        if !lost.is_empty() {
            return Step::Do(Errand::TellOfLost(lost));
        }
        let first = self.entries.iter().map(|entry| &entry.next).min_by_key(|next| next.due);
        if let Some(first) = first.filter(|first| first.due <= now) {
            let together = self.entries.iter().filter(|entry| entry.next.term == first.term && entry.tenure.ask(now));
            let tenures: Vec<_> = together.map(|entry| Arc::clone(&entry.tenure)).collect();
            if !tenures.is_empty() {
                return Step::Do(Errand::Renew(Batch { term: first.term, asked: now, tenures }));
            }
        }
        // Looked at when its deadline passes, too, so that a loss is told then.
        let looks = self.entries.iter().filter_map(|entry| Some(entry.next.due.min(entry.tenure.deadline_at(now)?)));
        looks.chain(self.timed.iter().map(|timed| timed.overdue)).min().map_or(Step::Rest, Step::Wait)
    }

    fn done(&mut self, errand: &Errand, answers: Answers<bool>, now: Moment) {
        let Errand::Renew(batch) = errand else { return };
        for (tenure, answer) in batch.tenures.iter().zip(answers) {
            let entry = self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.tenure, tenure));
            let next = entry.map(|entry| &mut entry.next);
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

fn has(tenure: &Tenure, name: &MutexName, now: Moment) -> bool {
    !tenure.has_ended() && tenure.lease().is_some_and(|lease| lease.name() == name) && tenure.deadline_at(now).is_some()
}

#[cfg(test)]
mod tests;
