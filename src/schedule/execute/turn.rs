//! The wait of an occurrence for its turn, because it met a run of its event, or somebody who waits already.
//!
//! The queue needs nothing but a store, and every name in it is a mark of the event's mutex:
//!
//! | mark | says | until |
//! | --- | --- | --- |
//! | a place, from 1 on | somebody waits there | its waiter leaves it, or dies: it is renewed |
//! | the waiter of an occurrence | somebody waits with it | the same |
//! | the note of an occurrence | somebody has waited with it | nobody waits for it any more: it outlives its waiter |
//! | the cancellation of a token | the run under this token is to be replaced | nobody waits any more |
//!
//! 1. A newcomer asks for lease and claim unless a place is held, so that nobody overtakes those who wait.
//! 2. If it is refused because of a run, or of a place, it takes the last place and is the waiter of its occurrence, both or
//!    neither: so an occurrence waits once, and no more of them wait than there are places. Then it leaves the note.
//! 3. Whoever waits moves up when the place before its own is free. The first asks for lease and claim.
//! 4. What was admitted leaves its place when it has its lease. If its process dies in between, the next one waits for a term.
//! 5. A waiter that dies frees its place in a term. At the next tick of any server the note tells that the occurrence was
//!    waited for, and it is asked for as a newcomer: see `schedule/missed.rs`.
//! 6. To replace a run, the first writes the cancellation of its token, which the run's keeper looks for. Whoever finds somebody
//!    behind it claims its occurrence, so that nobody else comes with that, and leaves. Nobody joins with an occurrence before
//!    one that waits or had its turn, so that what is behind is later.

use std::iter;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::one_run::{ActiveRun, Pass};
use super::store_request::StoreRequest;
use crate::base::catch_panic::contain;
use crate::base::error::MutexError;
use crate::event::protection::overlap::{self, Queue};
use crate::hold::guard::LeaseGuard;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::term::{Renewal, Term};
use crate::lease::{holder::Holder, name::MutexName, owner::Owner, token::FencingToken};
use crate::observe::notice::Step;
use crate::observe::skip_reason::SkipReason;
use crate::schedule::gate::{self, AdmittedRun};
use crate::schedule::planned_run::PlannedRun;
use crate::schedule::report::Entry;
use crate::schedule::shutdown::Shutdown;
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::event_mutex::batch::Batch;
use crate::store::event_mutex::held::Held;
use crate::time::clock::{about_a_second, moment::Moment, wall_plus};

/// How much longer than anybody waits a mark is kept that outlives its waiter, for servers whose clocks differ.
const MARGIN: Duration = Duration::from_secs(5 * 60);

/// How many later occurrences are asked for at most.
const MOST_LATER_ONES: usize = 10;

/// Waits until the run may start, performs it, and gives back what it holds; or enters why it does not run.
pub(super) fn run_in_turn(pass: Pass<'_>, enter: &mut impl FnMut(usize, Entry)) {
    // The store's panics are contained where it is asked, so this one is of a subscriber of `tracing`. The other runs go on.
    let admitted = contain(|| pass.span.in_scope(|| QueuedRun::take(pass.planned)));
    let panicked =
        |message: Arc<str>| Err(SkipReason::StoreUnavailable(MutexError::panicked("wait in a queue", &message)));
    match admitted.unwrap_or_else(panicked) {
        Ok(admitted) => StoreRequest::run_alone(ActiveRun::new(pass, admitted), enter),
        Err(reason) => pass.skip(reason, enter),
    }
}

/// A wait for the turn of a planned run.
struct QueuedRun<'p, 'a> {
    planned: &'p PlannedRun<'a>,
    queue: &'p Queue,
    /// When it is waited for no longer.
    until: Moment,
    shutdown: Shutdown,
}

/// A place in the queue.
struct QueuePlace {
    /// From 0 on.
    number: usize,
    mark: LeaseGuard,
    /// That of its occurrence.
    waiter: LeaseGuard,
    /// Who held the places that were left for this one, which may not be free yet.
    left: Vec<Owner>,
    /// The last run that it asked to stop.
    cancelled: Option<FencingToken>,
}

impl QueuePlace {
    /// Why it gets nothing while a place behind it is held.
    fn stands_before(&self, behind: Held) -> SkipReason {
        match behind.into_holder() {
            Some(own) if self.left.contains(&own.owner()) => SkipReason::Overlapping(None),
            holder => SkipReason::Replaced(holder),
        }
    }
}

impl<'p, 'a> QueuedRun<'p, 'a> {
    /// Waits until the run is admitted, or for the reason why it is not.
    fn take(planned: &'p PlannedRun<'a>) -> Result<AdmittedRun<'a>, SkipReason> {
        let queue = planned.queue().expect("only what has a queue comes here");
        let within = queue.within(&planned.event.timetable, planned.occurrence());
        let until = planned.context.began.plus(within.saturating_sub(planned.lateness()));
        let shutdown = planned.context.shutdown.cloned().unwrap_or_default();
        Self { planned, queue, until, shutdown }.wait()
    }

    fn wait(&self) -> Result<AdmittedRun<'a>, SkipReason> {
        let waiting = self.shutdown.waiting(self.planned.clock);
        let mut place = self.join()?;
        let (mut is_told, mut why) = (false, SkipReason::QueuedTooLong(None));
        loop {
            let now = self.planned.clock.moment();
            if now >= self.until {
                return Err(why);
            }
            if place.mark.is_lost() || place.waiter.is_lost() {
                drop(place);
                place = self.join()?;
            }
            match self.move_up(&mut place).and_then(|()| self.ask_for_the_run(&mut place)) {
                Err(SkipReason::Overlapping(holder)) => why = SkipReason::QueuedTooLong(holder),
                Err(SkipReason::StoreUnavailable(error)) if !error.is_unsupported() => {
                    why = SkipReason::StoreUnavailable(error);
                }
                Err(replaced @ SkipReason::Replaced(_)) => {
                    self.settle();
                    return Err(replaced);
                }
                decided => return decided,
            }
            if !mem::replace(&mut is_told, true) {
                self.planned.tell(&Step::Queued { place: place.number + 1 });
            }
            if self.shutdown.sleep_until(now.plus(about_a_second()).min(self.until), &waiting) {
                return Err(SkipReason::ShuttingDown);
            }
        }
    }

    /// Takes the last place.
    fn join(&self) -> Result<QueuePlace, SkipReason> {
        gate::refuse_without_store(self.planned)?;
        let PlannedRun { event, clock, store, .. } = self.planned;
        let (mutex, occurrence) = (&event.protection.mutex, self.planned.occurrence());
        let number = self.queue.places.len() - 1;
        let place = LeaseRequest::new(self.queue.places[number].clone(), self.queue.term, clock);
        let waiter = place.with(overlap::waiter(mutex, &event.name, occurrence), self.queue.term);
        let later = self.later_ones();
        let admission = self.planned.unless_paused(Admission::both(place, waiter));
        let admission = later.iter().cloned().fold(admission, Admission::unless);
        let Grant { lease, claim, .. } = match admission.ask(&*store.mutex) {
            Ok(Admitted::Granted(grant)) => grant,
            Ok(Admitted::ClaimTaken(holder)) => return Err(SkipReason::Queued(holder)),
            Ok(Admitted::LeaseTaken(holder)) => return Err(SkipReason::QueueFull(holder)),
            Ok(Admitted::NotDecided) => return Err(SkipReason::QueueFull(None)),
            Ok(Admitted::Excluded(later_one)) if later.contains(later_one.name()) => {
                return Err(SkipReason::Replaced(later_one.into_holder()));
            }
            Ok(Admitted::Excluded(pause)) => return Err(SkipReason::Paused(pause.into_holder())),
            Err(error) => return Err(SkipReason::StoreUnavailable(error)),
        };
        let (mark, waiter) = (self.hold(lease), self.hold(claim));
        let place = QueuePlace { number, mark: mark?, waiter: waiter?, left: Vec::new(), cancelled: None };
        // Should it fail, nobody takes the occurrence over if this process dies.
        let note = overlap::note(mutex, &event.name, occurrence);
        let note = LeaseRequest::new(note, self.term_of_notes(), clock);
        let _ = Admission::claim_only(note).ask(&*store.mutex);
        Ok(place)
    }

    /// What says that a later occurrence waits, or had its turn, where the latest is to run: of those that may be due already for
    /// servers whose clocks are ahead.
    fn later_ones(&self) -> Vec<MutexName> {
        let PlannedRun { event, tick, .. } = self.planned;
        if self.queue.patience.is_none() {
            return Vec::new();
        }
        let (mutex, horizon) = (&event.protection.mutex, wall_plus(tick.now(), MARGIN));
        let next = |occurrence: &DateTime<Utc>| event.timetable.next(*occurrence);
        let later = iter::successors(next(&self.planned.occurrence()), next).take_while(|later| *later <= horizon);
        let names = |later| [overlap::waiter(mutex, &event.name, later), mutex.claim(Arc::clone(&event.name), later)];
        later.take(MOST_LATER_ONES).flat_map(names).collect()
    }

    /// Holds a mark that was just granted, and renews it.
    fn hold(&self, mark: Option<Lease>) -> Result<LeaseGuard, SkipReason> {
        let PlannedRun { clock, store, .. } = self.planned;
        let mark = mark.expect("all that was asked for was granted");
        match LeaseGuard::hold(store, clock, mark, Renewal::WhileItRuns) {
            Ok(Some(guard)) => Ok(guard),
            Ok(None) => Err(SkipReason::Queued(None)), // By this process, whose store has lost its data.
            Err(error) => Err(SkipReason::StoreUnavailable(error)),
        }
    }

    /// Moves up as long as the place before is free. `Overlapping`: it is not the first yet. If the store has lost its data, a later
    /// occurrence may have passed this one: then it leaves.
    fn move_up(&self, place: &mut QueuePlace) -> Result<(), SkipReason> {
        let PlannedRun { clock, store, .. } = self.planned;
        while place.number > 0 {
            let later = self.later_ones();
            let before = LeaseRequest::new(self.queue.places[place.number - 1].clone(), self.queue.term, clock);
            let unless = later.iter().chain(self.behind(place)).cloned();
            let admission = unless.fold(Admission::lease_only(before), Admission::unless);
            match admission.ask(&*store.mutex).map_err(SkipReason::StoreUnavailable)? {
                Admitted::Granted(grant) => {
                    let mark = self.hold(grant.lease).map_err(|_| SkipReason::Overlapping(None))?;
                    place.left.push(place.mark.lease().owner());
                    place.mark = mark;
                }
                Admitted::Excluded(later_one) if later.contains(later_one.name()) => {
                    return Err(SkipReason::Replaced(later_one.into_holder()));
                }
                Admitted::Excluded(behind) => return Err(place.stands_before(behind)),
                Admitted::LeaseTaken(holder) | Admitted::ClaimTaken(holder) => {
                    return Err(SkipReason::Overlapping(holder));
                }
                Admitted::NotDecided => return Err(SkipReason::Overlapping(None)),
            }
            place.number -= 1;
        }
        Ok(())
    }

    /// The places behind it: while one of them is held, nothing is granted to who waits to replace a run.
    fn behind(&self, place: &QueuePlace) -> &[MutexName] {
        self.queue.patience.map_or(&[], |_| &self.queue.places[place.number + 1..])
    }

    /// Asks for lease and claim. Without an answer it does not run, whatever its outage policy is: what it waits for may be at
    /// work.
    fn ask_for_the_run(&self, place: &mut QueuePlace) -> Result<AdmittedRun<'a>, SkipReason> {
        let PlannedRun { store, context, clock, .. } = self.planned;
        let (mut batch, mut unused) = (Batch::new(), Batch::new());
        gate::ask_unless(self.planned, self.behind(place), &mut batch)?;
        let asked = clock.moment();
        batch.ask(&*store.mutex);
        let answered = clock.moment();
        let gate = answered.since(asked);
        let answer = gate::take_answer(self.planned, &mut batch, 0).map_err(SkipReason::StoreUnavailable)?;
        let answer = match answer {
            Admitted::Excluded(behind) if self.queue.places.contains(behind.name()) => {
                return Err(place.stands_before(behind));
            }
            answer => answer,
        };
        let decision = gate::decide(self.planned, Ok(answer), answered, &mut unused);
        if !unused.is_empty() {
            context.outages.carry_out(store, clock, &mut unused);
            unused.log_releases();
        }
        if let Err(SkipReason::Overlapping(run)) = &decision
            && self.queue.patience.is_some()
        {
            self.cancel_run(run.as_ref(), place)?;
        }
        decision.map(|admitted| AdmittedRun { gate, ..admitted })
    }

    /// Asks the run that is in the way to stop, once. Since nobody had the claim, it is not a run of this occurrence. If a
    /// later occurrence has passed this one, because the store had lost its data, it asks nobody and leaves.
    fn cancel_run(&self, run: Option<&Holder>, place: &mut QueuePlace) -> Result<(), SkipReason> {
        let PlannedRun { event, clock, store, .. } = self.planned;
        let unknown = || {
            SkipReason::StoreUnavailable(MutexError::unsupported(
                "tell who holds a lease, which `Overlap::Replace` needs",
            ))
        };
        let token = run.ok_or_else(unknown)?.token();
        if place.cancelled != Some(token) {
            let mark = event.protection.mutex.request_to_stop(token);
            let mark = LeaseRequest::new(mark, self.term_of_notes(), clock);
            let admission = self.later_ones().into_iter().fold(Admission::claim_only(mark), Admission::unless);
            match admission.ask(&*store.mutex) {
                Ok(Admitted::Excluded(later_one)) => return Err(SkipReason::Replaced(later_one.into_holder())),
                Ok(_) => place.cancelled = Some(token),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Claims its occurrence, which does not run. Should it fail, a server that is late may still come with it. A period is left
    /// to the later occurrence.
    fn settle(&self) {
        let PlannedRun { event, clock, store, .. } = self.planned;
        let claim = self.planned.claimant().and_then(|claimant| event.protection.claim(claimant));
        if let Some((claim, term)) = claim.filter(|(claim, _)| claim.occurrence().is_some()) {
            let _ = Admission::claim_only(LeaseRequest::new(claim, term, clock)).ask(&*store.mutex);
        }
    }

    /// For how long a mark is kept that outlives its waiter.
    fn term_of_notes(&self) -> Term {
        let patience = self.until.since(self.planned.clock.moment()) + MARGIN;
        Term::new(patience).unwrap_or(Term::MAX)
    }
}
