//! Which leases are renewed when, and what becomes of them when this process ends: no thread, no store, no clock.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::exit_release::Farewell;
use super::watch::{Duty, Step};
use crate::hold::tenure::Tenure;
use crate::lease::name::MutexName;
use crate::lease::request::Lease;
use crate::lease::term::{Renewal, Term};
use crate::store::event_mutex::Answers;
use crate::task::run::Run;
use crate::time::clock::Moment;

/// All leases of one store that this process has in hand.
#[derive(Default)]
pub(super) struct Plan {
    /// Also what was given back since this was looked at, which is soon replaced.
    entries: Vec<Entry>,
    /// How many there may be before those that were given back are looked for.
    purge_above: usize,
    /// Tasks that have a timeout.
    timed: Vec<Timed>,
    /// This process ends, on this thread if it has a number: nothing is renewed any more.
    ended_by: Option<usize>,
}

/// More than are in hand at once, mostly.
const PURGE_NEVER_BELOW: usize = 256;

struct Entry {
    tenure: Arc<Tenure>,
    /// `None`: it has a fixed term.
    next: Option<Next>,
    /// Whether the store was told that this process ends.
    parted: bool,
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
    /// When a third of the time has passed for which the last asking lets the run go on, so that two more thirds are left
    /// for failures. What stopping takes is not among it.
    #[inline]
    fn after(asked: Moment, term: Term, tenure: &Tenure) -> Self {
        let useful = term.get().saturating_sub(tenure.stopping());
        Self { term, due: asked.plus(useful / 3), pause: None }
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
    /// What this process says to the store before it ends.
    Part(Farewell),
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
    /// Keeps a lease that was just granted, and says when there is something to do for it.
    #[inline]
    pub(super) fn keep(&mut self, tenure: &Arc<Tenure>, lease: &Lease, renewal: Renewal) -> Moment {
        let next = (renewal == Renewal::WhileItRuns)
            .then(|| Next::after(lease.deadline().minus(lease.term().get()), lease.term(), tenure));
        let due = next.as_ref().map_or_else(|| lease.deadline().minus(tenure.stopping()), |next| next.due);
        let entry = Entry { tenure: Arc::clone(tenure), next, parted: false };
        match self.entries.last_mut() {
            // One run after another needs one place.
            Some(last) if last.tenure.has_ended() => *last = entry,
            _ => self.add(entry),
        }
        if self.ended_by.is_some() { Moment::BEGINNING } else { due }
    }

    fn add(&mut self, entry: Entry) {
        if self.entries.len() >= self.purge_above {
            self.entries.retain(|entry| !entry.tenure.has_ended());
            self.purge_above = (self.entries.len() * 2).max(PURGE_NEVER_BELOW);
        }
        self.entries.push(entry);
    }

    /// Who in this process holds the name, as far as it knows, under a lease that is renewed. What was granted for a fixed
    /// term is whoever's it is now: nobody asks the store whether that is still the first one.
    pub(super) fn holder(&self, name: &MutexName, now: Moment) -> Option<Arc<Tenure>> {
        let renewed = self.entries.iter().filter(|entry| entry.next.is_some());
        renewed.map(|entry| &entry.tenure).find(|tenure| has(tenure, name, now)).cloned()
    }

    /// Asks the store as soon as possible whether the name is still ours, and says when that is.
    pub(super) fn doubt(&mut self, name: &MutexName, now: Moment) -> Moment {
        let doubted = self.entries.iter_mut().filter(|entry| has(&entry.tenure, name, now));
        doubted.filter_map(|entry| entry.next.as_mut()).for_each(|next| next.due = now);
        now
    }

    /// Tells of a task that has not ended at this moment.
    pub(super) fn expect_end(&mut self, run: &Run, overdue: Moment) {
        self.timed.push(Timed { run: run.clone(), overdue });
    }

    pub(super) fn has_ended(&mut self, run: &Run) {
        self.timed.retain(|timed| !Arc::ptr_eq(timed.run.tenure(), run.tenure()));
    }

    fn renewed(&self) -> impl Iterator<Item = (&Arc<Tenure>, &Next)> {
        let entries = if self.ended_by.is_none() { &self.entries[..] } else { &[] };
        entries.iter().filter_map(|entry| Some((&entry.tenure, entry.next.as_ref()?)))
    }

    /// What the store is told because this process ends: once of each lease, and again of what its last thread works under.
    fn part(&mut self, now: Moment) -> Option<Farewell> {
        let ended_by = self.ended_by?;
        let mut farewell = Farewell::default();
        for Entry { tenure, parted, .. } in &mut self.entries {
            let Some(deadline) = tenure.deadline_at(now) else { continue };
            if tenure.is_performed_on(ended_by) {
                farewell.give_back(tenure);
            } else if !mem::replace(parted, true) {
                farewell.leave_behind(tenure, deadline, now);
            }
        }
        (!farewell.is_empty()).then_some(farewell)
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
        if let Some(farewell) = self.part(now) {
            return Step::Do(Errand::Part(farewell));
        }
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
        let first = self.renewed().map(|(_, next)| next).min_by_key(|next| next.due);
        if let Some(first) = first.filter(|first| first.due <= now) {
            let together = self.renewed().filter(|(tenure, next)| next.term == first.term && tenure.ask(now));
            let tenures: Vec<_> = together.map(|(tenure, _)| Arc::clone(tenure)).collect();
            if !tenures.is_empty() {
                return Step::Do(Errand::Renew(Batch { term: first.term, asked: now, tenures }));
            }
        }
        // Looked at when its deadline passes, too, so that a loss is told then.
        let deadlines = self.entries.iter().filter_map(|entry| entry.tenure.deadline_at(now));
        let renewals = self.renewed().filter(|(tenure, _)| tenure.deadline_at(now).is_some()).map(|(_, next)| next.due);
        deadlines
            .chain(renewals)
            .chain(self.timed.iter().map(|timed| timed.overdue))
            .min()
            .map_or(Step::Rest, Step::Wait)
    }

    fn hear(&mut self, said: usize) {
        self.ended_by = Some(said);
    }

    fn done(&mut self, errand: &Errand, answers: Answers<bool>, now: Moment) {
        let Errand::Renew(batch) = errand else { return };
        for (tenure, answer) in batch.tenures.iter().zip(answers) {
            let entry = self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.tenure, tenure));
            let next = entry.and_then(|entry| entry.next.as_mut());
            match answer {
                Ok(true) => {
                    let asked = if cfg!(soloist_mutation = "deadline_after_reply") { now } else { batch.asked };
                    tenure.renewed_until(asked.plus(batch.term.get()), now);
                    if let Some(next) = next {
                        *next = Next::after(batch.asked, batch.term, tenure);
                    }
                }
                Ok(false) => tenure.lose(now),
                Err(_) if cfg!(soloist_mutation = "renewal_gives_up") => tenure.lose(now),
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
