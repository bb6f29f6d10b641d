//! Whether an occurrence that was missed is owed: what the store says of it.

use super::gate::{self, BATCH_SIZE};
use super::planned_run::Turn;
use super::report::Verdict;
use crate::base::error::MutexError;
use crate::event::catch_up::{CatchUp, Missed};
use crate::lease::request::LeaseRequest;
use crate::lease::term::Term;
use crate::observe::skip_reason::SkipReason;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::steps::outage_in;

impl Turn<'_> {
    /// Whether its occurrence, which may be owed, is: by its filters, and then by one look at the store, and another one
    /// while nobody has claimed it. An occurrence that filters refuse may wait until they don't.
    pub(crate) fn look_for_what_is_owed(&self) -> Option<Missed> {
        let catch_up = self.event.catch_up.as_ref()?;
        let occurrence = self.tick.occurrence();
        let missed = match gate::filters_allow(self) {
            _ if self.round.is_shutting_down() => None,
            Ok(()) => match self.owes(catch_up) {
                Ok(true) => Some(Missed::Owed),
                Ok(false) => {
                    catch_up.settle(occurrence);
                    None
                }
                Err(error) => Some(Missed::Unknown(SkipReason::StoreUnavailable(error))),
            },
            Err(SkipReason::Filtered) => None,
            Err(reason) => Some(Missed::Unknown(reason)),
        };
        if missed.is_none() {
            catch_up.let_go(occurrence);
        }
        missed
    }

    fn owes(&self, catch_up: &CatchUp) -> Result<bool, MutexError> {
        let outages = &self.round.outages;
        let Some(claim) = self.claim_name() else { return Ok(false) };
        let look = || format!("look at {claim}");
        if outages.ask(self.store, self.clock, look, |mutex| mutex.exists(&claim))? {
            return Ok(false);
        }
        let note = || format!("note {}", catch_up.mark);
        match outages.ask(self.store, self.clock, note, |mutex| mutex.admit_one(&self.mark(catch_up)))? {
            // It is new.
            Admitted::Granted(_) => Ok(false),
            Admitted::ClaimTaken(Some(holder)) => Ok(holder.since() <= self.tick.occurrence()),
            Admitted::ClaimTaken(None) | Admitted::LeaseTaken(_) => {
                Err(MutexError::unsupported("tell since when it has held a mark, which `catch_up` needs"))
            }
        }
    }

    fn mark(&self, catch_up: &CatchUp) -> Admission {
        let owners = self.round.owners;
        Admission::claim_only(LeaseRequest::by(owners, catch_up.mark.clone(), Term::MAX, self.clock))
    }

    /// Notes what became of its turn. The claim of somebody else is no more than taken: it may be given back, as long as
    /// nothing has started under it, as ours is when its lease was lost before.
    pub(crate) fn note_what_became_of_it(&self, verdict: &Verdict) {
        let Some(catch_up) = self.event.catch_up.as_ref().filter(|_| self.claims()) else { return };
        if matches!(verdict, Verdict::Ran(outcome) if !outcome.leaves_its_occurrence()) {
            catch_up.settle(self.tick.occurrence());
        }
        catch_up.let_go(self.tick.occurrence());
    }
}

/// Sees to it that stores know these events from now on, where that is not known: as many at once as a gate asks for.
/// Whoever is asked next finds out what is wrong with a store, and the next tick tries again.
pub(crate) fn note_that_they_were_seen(turns: &[Turn<'_>]) {
    let all = turns.iter().filter_map(|turn| Some((turn, turn.event.catch_up.as_ref()?)));
    let mut unknown: Vec<_> = all.filter(|(turn, catch_up)| !catch_up.is_noted(turn.clock)).collect();
    while let Some((Turn { store, .. }, _)) = unknown.first() {
        let (these, others) = unknown.into_iter().partition::<Vec<_>, _>(|(turn, _)| turn.store.id == store.id);
        these.chunks(BATCH_SIZE).for_each(note_together);
        unknown = others;
    }
}

/// These have their store in common.
fn note_together(these: &[(&Turn<'_>, &CatchUp)]) {
    let Some((Turn { store, round, clock, .. }, _)) = these.first() else { return };
    let marks: Vec<Admission> = these.iter().map(|(turn, catch_up)| turn.mark(catch_up)).collect();
    let attempted = || "note which events there are".to_owned();
    let answers = round.outages.ask(store, clock, attempted, |mutex| {
        let answers = mutex.admit(&marks);
        outage_in(&answers).cloned().map_or(Ok(answers), Err)
    });
    for ((_, catch_up), answer) in these.iter().zip(answers.into_iter().flatten()) {
        if answer.is_ok() {
            catch_up.has_been_noted(clock);
        }
    }
}
