//! The wait of an occurrence for its turn, because it met a run of its event, or somebody who waits already.
//!
//! The queue needs nothing but a store, and every name in it is a mark of the event's mutex:
//!
//! | mark | says | until |
//! | --- | --- | --- |
//! | a place, from 1 on | somebody waits there | its waiter leaves it, or dies: it is renewed |
//! | the waiter of an occurrence | somebody waits with it | the same |
//! | the note of an occurrence | somebody has waited with it | nobody waits for it any more: it outlives its waiter |
//!
//! 1. A newcomer asks for lease and claim unless a place is held, so that nobody overtakes those who wait.
//! 2. If it is refused because of a run, or of a place, it takes the last place and is the waiter of its occurrence, both or
//!    neither: so an occurrence waits once, and no more of them wait than there are places. Then it leaves the note.
//! 3. Whoever waits moves up when the place before its own is free. The first asks for lease and claim.
//! 4. What was admitted leaves its place when it has its lease. If its process dies in between, the next one waits for a term.
//! 5. A waiter that dies frees its place in a term. At the next tick of any server the note tells that the occurrence was
//!    waited for, and it is asked for as a newcomer: see `schedule/missed.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::one_run::{ActiveRun, Pass};
use super::store_request::StoreRequest;
use crate::base::catch_panic::contain;
use crate::base::error::MutexError;
use crate::event::protection::overlap::{self, Queue};
use crate::hold::guard::{LeaseGuard, rest};
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::term::{Renewal, Term};
use crate::observe::notice::Notice;
use crate::observe::skip_reason::SkipReason;
use crate::observe::tell::tell;
use crate::schedule::gate::{self, AdmittedRun};
use crate::schedule::planned_run::PlannedRun;
use crate::schedule::report::Entry;
use crate::schedule::shutdown::Shutdown;
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::event_mutex::batch::Batch;
use crate::time::clock::moment::Moment;

/// How much longer than anybody waits a note is kept, for servers whose clocks differ.
const NOTE_MARGIN: Duration = Duration::from_secs(5 * 60);

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
        tell(&Notice::Queued { place: place.number + 1 });
        let mut why = SkipReason::QueuedTooLong(None);
        loop {
            let now = self.planned.clock.moment();
            if now >= self.until {
                return Err(why);
            }
            if self.shutdown.sleep_until(now.plus(rest()).min(self.until), &waiting) {
                return Err(SkipReason::ShuttingDown);
            }
            if place.mark.is_lost() || place.waiter.is_lost() {
                drop(place);
                place = self.join()?;
            }
            self.move_up(&mut place);
            if place.number > 0 {
                continue;
            }
            match self.ask_for_the_run() {
                Err(SkipReason::Overlapping(holder)) => why = SkipReason::QueuedTooLong(holder),
                Err(out @ SkipReason::StoreUnavailable(_)) => why = out,
                decided => return decided,
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
        let admission = self.planned.unless_paused(Admission::both(place, waiter));
        let Grant { lease, claim, .. } = match admission.ask(&*store.mutex) {
            Ok(Admitted::Granted(grant)) => grant,
            Ok(Admitted::ClaimTaken(holder)) => return Err(SkipReason::Queued(holder)),
            Ok(Admitted::LeaseTaken(holder)) => return Err(SkipReason::QueueFull(holder)),
            Ok(Admitted::Excluded(pause)) => return Err(SkipReason::Paused(pause.into_holder())),
            Err(error) => return Err(SkipReason::StoreUnavailable(error)),
        };
        let (mark, waiter) = (self.hold(lease), self.hold(claim));
        let place = QueuePlace { number, mark: mark?, waiter: waiter? };
        // Should it fail, nobody takes the occurrence over if this process dies.
        let patience = self.until.since(clock.moment()) + NOTE_MARGIN;
        let note = overlap::note(mutex, &event.name, occurrence);
        let note = LeaseRequest::new(note, Term::new(patience).unwrap_or(Term::MAX), clock);
        let _ = Admission::claim_only(note).ask(&*store.mutex);
        Ok(place)
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

    /// Moves up as long as the place before is free.
    fn move_up(&self, place: &mut QueuePlace) {
        let PlannedRun { clock, store, .. } = self.planned;
        while place.number > 0 {
            let before = LeaseRequest::new(self.queue.places[place.number - 1].clone(), self.queue.term, clock);
            let Ok(Admitted::Granted(grant)) = Admission::lease_only(before).ask(&*store.mutex) else { return };
            let Ok(before) = self.hold(grant.lease) else { return };
            place.mark = before;
            place.number -= 1;
        }
    }

    /// Asks for lease and claim. Without an answer it does not run, whatever its outage policy is: what it waits for may be at
    /// work.
    fn ask_for_the_run(&self) -> Result<AdmittedRun<'a>, SkipReason> {
        let PlannedRun { store, context, clock, .. } = self.planned;
        let (mut batch, mut unused) = (Batch::new(), Batch::new());
        batch.admit(gate::admission(self.planned)?);
        batch.ask(&*store.mutex);
        let answer = batch.take_admission(0).map_err(SkipReason::StoreUnavailable)?;
        let decision = gate::decide(self.planned, Ok(answer), &mut unused);
        if !unused.is_empty() {
            context.outages.carry_out(store, clock, &mut unused);
            unused.log_releases();
        }
        decision
    }
}
