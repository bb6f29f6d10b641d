//! The wait of an occurrence for another run. An occurrence of the timetable waits in the queue of its event. An
//! occurrence of a backfill waits only for the lease.
//!
//! An occurrence waits in the queue of its event if a run of the event is running, or if another occurrence is waiting.
//!
//! The queue consists of markers in the store. Their names belong to the mutex of the event:
//!
//! | marker | meaning | exists until |
//! | --- | --- | --- |
//! | a place, with a number from 1 | an occurrence waits in this place | the waiter leaves the place; if its process dies, a term later |
//! | the waiter marker of an occurrence | this occurrence waits | as for a place |
//! | a request to stop, with a token | the run with this token is to be replaced | five minutes after the time limit of the waiter that wrote the marker |
//!
//! The lease of a run also records the occurrence of the run. A place also records the occurrence that waits in it.
//!
//! 1. A new occurrence requests lease and claim, on the condition that no place is held. So it overtakes no waiter.
//! 2. If a run or a place is the reason for a refusal, the process reads all places and leases, and the claim, in one
//!    request. If all places are held, the queue is full. Otherwise the process takes a free place and the waiter marker of the
//!    occurrence, both or neither. So an occurrence waits only once, and the number of places limits the number of
//!    waiters. If another process took the place first, this process reads the places again.
//! 3. Waiters are ordered by the fencing tokens of their places, because tokens rise from grant to grant. Two waiters that
//!    join at one moment may have equal tokens, and are ordered by the names of their places. So a waiter can take any
//!    place, and never moves to another place. The waiter reads the places about once a second.
//!    If the event allows `n` runs at a time, the first `n` waiters request lease and claim.
//! 4. An admitted waiter leaves its place after it has its lease. If its process dies between these steps, the next
//!    waiter waits until the term of the place is over.
//! 5. If the store is unavailable, a waiter continues to wait. If the waiter has lost its place when the store answers
//!    again, the waiter takes a new place. The store may also have granted a request whose answer was lost. The waiter
//!    gives way neither to such a grant nor to its lost place, and waits until they have ended.
//! 6. If the process of a waiter dies, the waiter's place becomes free after a term. A second process may have skipped
//!    the occurrence, because the waiter was in the queue. At its next ticks, the second process checks the occurrence.
//!    If the occurrence no longer waits, and no server has claimed it, the second process runs the occurrence: see
//!    `schedule/run_due/missed_check.rs`.
//! 7. With `Overlap::Replace`, a waiter writes a request to stop the running run. The renewal thread of that run reads
//!    the request, and cancels the run. If a later occurrence is waiting or running, the waiter of an
//!    earlier occurrence claims the earlier occurrence, and leaves the queue. Because of this claim, no other server
//!    runs the earlier occurrence. The waiter of the latest occurrence requests lease and claim, whatever the order of
//!    the tokens.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::mem;
use std::sync::Arc;
use std::thread::Scope;

use super::store_request::{AdmittedRun, PendingRun, StoreRequest, decide, take_best_answer};
use super::workers::start_thread;
use crate::base::catch_panic::contain;
use crate::base::error::MutexError;
use crate::event::protection::{OutagePolicy, claim::CLAIM_MARGIN, queue_markers, queue_markers::Queue};
use crate::hold::guard::LeaseGuard;
use crate::lease::request::Lease;
use crate::lease::term::{Renewal, Term};
use crate::lease::{holder::Holder, name::MutexName, owner::Owner, token::FencingToken};
use crate::observe::notice::Step;
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::run_due::planned_run::PlannedRun;
use crate::schedule::shutdown::Shutdown;
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::event_mutex::batch::Batch;
use crate::store::event_mutex::held::{Held, Names};
use crate::time::clock::{about_a_second, moment::Moment, random_index};

/// The largest number of attempts to take a free place, one after another. If another process was faster each time, the
/// store probably does not report held places correctly, so this process waits about a second before it tries again.
const MOST_RACES: usize = 20;

/// Records why a run was refused, or lets the run wait for another run. A run by the timetable waits in the queue of
/// its event, on a new thread, so that it delays no other run. A run of a backfill waits for the lease, on the caller's
/// thread, because the occurrences of a backfill run one after another.
pub(super) fn refuse_or_queue<'scope, 'a: 'scope>(
    pending: PendingRun<'a>,
    reason: SkipReason,
    scope: &'scope Scope<'scope, '_>,
) {
    let planned = pending.planned;
    if !matches!(reason, SkipReason::Overlapping(_)) {
        pending.skip(reason);
    } else if planned.id.is_backfill {
        run_when_admitted(pending, || wait_for_lease(planned, reason));
    } else if planned.queue().is_none() {
        pending.skip(reason);
    } else {
        let wait = move || run_when_admitted(pending, || QueuedRun::take(planned));
        if let Err(error) = start_thread(scope, "soloist-queue", wait) {
            PendingRun::new(planned).skip(SkipReason::NoThread(error.to_string().into()));
        }
    }
}

/// Calls `wait`, which returns when the run is admitted or refused. Then performs the run, and releases its lease. If
/// the run was refused, records the reason.
fn run_when_admitted(pending: PendingRun<'_>, wait: impl FnOnce() -> Result<AdmittedRun, SkipReason>) {
    // Panics of the store are caught elsewhere, so only a subscriber of `tracing` can panic here. Its panic is caught,
    // so that the other runs continue.
    let admitted = contain(|| pending.span.in_scope(wait));
    let panicked =
        |message: Arc<str>| Err(SkipReason::StoreUnavailable(MutexError::panicked("wait in a queue", &message)));
    match admitted.unwrap_or_else(panicked) {
        Ok(admitted) => {
            let mut request = StoreRequest::default();
            request.ready.push(pending.active(admitted));
            request.perform_here();
            request.ask();
        }
        Err(reason) => pending.skip(reason),
    }
}

/// Waits until a run of a backfill is admitted. The wait has no time limit, but it ends if the run that holds the lease
/// is stuck.
fn wait_for_lease(planned: &PlannedRun<'_>, mut why: SkipReason) -> Result<AdmittedRun, SkipReason> {
    let shutdown = planned.context.schedule.shutdown.clone().unwrap_or_default();
    let waiting = shutdown.waiting(planned.clock);
    planned.tell(&Step::Queued { place: 1 });
    loop {
        if let stuck @ SkipReason::Stuck { .. } = planned.or_stuck(why.clone()) {
            return Err(stuck);
        }
        if shutdown.sleep_until(planned.clock.moment().plus(about_a_second()), &waiting) {
            return Err(SkipReason::ShuttingDown);
        }
        why = match ask_once(planned, planned.places, |_| ()) {
            Ok(Some(admitted)) => return Ok(admitted),
            Ok(None) => SkipReason::Overlapping(running(planned)?),
            Err(overlapping @ SkipReason::Overlapping(_)) => overlapping,
            Err(reason) => return Err(reason),
        };
    }
}

/// Returns the holder of a run that keeps the event from running. `None`: a run could start, or the store keeps no
/// holders.
fn running(planned: &PlannedRun<'_>) -> Result<Option<Holder>, SkipReason> {
    let leases = planned.event.protection.leases();
    let held = read(planned, leases)?;
    let is_full = held.len() == leases.len();
    Ok(held.into_iter().next().filter(|_| is_full).and_then(Held::into_holder))
}

/// Reads which of these names are held.
fn read(planned: &PlannedRun<'_>, names: &[MutexName]) -> Result<Vec<Held>, SkipReason> {
    planned.store.held(Names::Each(names)).map_err(SkipReason::StoreUnavailable)
}

/// Requests the lease and the claim of a waiting run. `None`: one of the names in `unless` is held. If the store does
/// not answer, or answers too late, the run does not start, even with `OutagePolicy::RunUnprotected`, because an earlier
/// run may still be running. Calls `may_hold` with each owner that may hold a lease or a claim that is not used: the
/// owner of a request without an answer, or of a grant that is released.
fn ask_once(
    planned: &PlannedRun<'_>,
    unless: &[MutexName],
    mut may_hold: impl FnMut(Owner),
) -> Result<Option<AdmittedRun>, SkipReason> {
    let PlannedRun { store, context, clock, .. } = planned;
    let mut batch = Batch::new();
    let mut unused = Batch::new();
    planned.add_admissions(unless, &mut batch)?;
    batch.ask(&*store.mutex);
    let answered = clock.moment();
    for slot in batch.admissions().iter().filter(|slot| slot.answer().is_none_or(Result::is_err)) {
        may_hold(slot.asked().request().owner());
    }
    let answer = take_best_answer(planned, &mut batch, &mut 0);
    if matches!(&answer, Ok(Admitted::Excluded(by)) if unless.contains(by.name())) {
        return Ok(None);
    }
    let decision = decide(planned, answer, answered, OutagePolicy::Skip, &mut unused);
    for slot in unused.releases() {
        may_hold(slot.asked().lease().owner());
    }
    context.outages.carry_out(store, &mut unused);
    unused.log_releases();
    decision.map(Some)
}

/// A planned run that waits in the queue of its event.
struct QueuedRun<'p, 'a> {
    planned: &'p PlannedRun<'a>,
    queue: &'p Queue,
    /// The time at which the wait ends at the latest. A run that is not admitted by then is skipped.
    until: Moment,
    shutdown: Shutdown,
    /// The owners of this wait's lost places, and of its requests without an answer. The store may show such an owner for
    /// a while. This is no reason to skip the occurrence.
    own: RefCell<Vec<Owner>>,
}

/// A place in the queue, and the marker of the occurrence that waits in it.
struct QueuePlace {
    mark: LeaseGuard,
    waiter: LeaseGuard,
    /// The number of waiters before this waiter at the last read of the places. The number may be too low by a waiter that
    /// joined at the same moment. Then both ask for the run, and the lease decides. `None`: the places were not read since
    /// this waiter joined.
    before: Option<usize>,
    /// The token of the last run that this waiter asked to stop.
    asked_to_stop: Option<FencingToken>,
}

impl QueuePlace {
    /// Returns whether this place was taken before `other`. The place that was taken first has the lower token. If the
    /// tokens are equal, or if the store keeps no holders, the place with the lower name counts as the first.
    fn is_before(&self, other: &Held) -> bool {
        let own = self.mark.lease();
        let by_token = other.holder().map_or(Ordering::Equal, |holder| own.token().cmp(&holder.token()));
        by_token.then_with(|| own.name().cmp(other.name())).is_lt()
    }
}

impl<'p, 'a> QueuedRun<'p, 'a> {
    /// Waits until the run is admitted. `Err`: the reason why it is not admitted.
    fn take(planned: &'p PlannedRun<'a>) -> Result<AdmittedRun, SkipReason> {
        let queue = planned.queue().expect("only an event with a queue has queued runs");
        let until = planned.context.began.plus(queue.within.saturating_sub(planned.lateness));
        let shutdown = planned.context.schedule.shutdown.clone().unwrap_or_default();
        let began = planned.clock.moment();
        let mut admitted = Self { planned, queue, until, shutdown, own: RefCell::default() }.wait()?;
        admitted.details.get_or_insert_default().waited = Some(planned.clock.moment().since(began));
        Ok(admitted)
    }

    fn wait(&self) -> Result<AdmittedRun, SkipReason> {
        let waiting = self.shutdown.waiting(self.planned.clock);
        let mut place: Option<QueuePlace> = None;
        let mut is_noted = false;
        let mut why = SkipReason::QueuedTooLong(None);
        loop {
            let now = self.planned.clock.moment();
            if now >= self.until {
                return Err(why);
            }
            if let Some(lost) = place.take_if(|place| place.mark.is_lost() || place.waiter.is_lost()) {
                self.own.borrow_mut().push(lost.mark.lease().owner());
            }
            let joined = place.take().map_or_else(|| self.join(), Ok);
            let asked = joined.and_then(|joined| self.ask_if_next(place.insert(joined)));
            match asked.map_err(|reason| self.unless_own(reason)) {
                Err(SkipReason::Overlapping(holder)) => why = SkipReason::QueuedTooLong(holder),
                Err(SkipReason::StoreUnavailable(error)) if !error.is_unsupported() => {
                    why = SkipReason::StoreUnavailable(error);
                }
                Err(replaced @ SkipReason::Replaced(_)) => {
                    self.planned.claim_without_running();
                    return Err(replaced);
                }
                // A place becomes free soon, because all waiters leave, except for the waiter of the latest occurrence.
                Err(SkipReason::QueueFull(holder)) if self.queue.replaces => why = SkipReason::QueuedTooLong(holder),
                decided => return decided,
            }
            let before = place.as_ref().and_then(|place| place.before);
            if let Some(before) = before.filter(|_| !mem::replace(&mut is_noted, true)) {
                self.planned.tell(&Step::Queued { place: before + 1 });
            }
            if self.shutdown.sleep_until(now.plus(about_a_second()).min(self.until), &waiting) {
                return Err(SkipReason::ShuttingDown);
            }
        }
    }

    /// Returns the reason to go on waiting, if `reason` names an own request as the holder. Otherwise returns `reason`.
    fn unless_own(&self, reason: SkipReason) -> SkipReason {
        match reason {
            SkipReason::Queued(holder) | SkipReason::RanElsewhere(holder) if self.is_own(holder.as_ref()) => {
                SkipReason::Overlapping(holder)
            }
            reason => reason,
        }
    }

    fn is_own(&self, holder: Option<&Holder>) -> bool {
        holder.is_some_and(|holder| self.own.borrow().contains(&holder.owner()))
    }

    /// Takes a free place. If another process takes the place first, reads the places again.
    fn join(&self) -> Result<QueuePlace, SkipReason> {
        let PlannedRun { event, .. } = self.planned;
        let waiter = queue_markers::waiter(&event.protection.mutex, &event.name, self.planned.id.occurrence);
        let runs = event.protection.leases();
        let claim = &self.planned.claim().map(|(name, _)| name);
        let mut names = [&self.queue.places, runs].concat();
        names.extend([waiter.clone()].into_iter().chain(claim.clone()));
        for race in 0..MOST_RACES {
            self.planned.refuse_without_store()?;
            let (running, mut held): (Vec<_>, Vec<_>) =
                read(self.planned, &names)?.into_iter().partition(|held| runs.contains(held.name()));
            if let Some(at) = held.iter().position(|held| Some(held.name()) == claim.as_ref()) {
                return Err(SkipReason::RanElsewhere(held.swap_remove(at).into_holder()));
            }
            // If the server's clock was set back, a dead waiter would keep its markers for longer than a term. A request
            // for these markers lets them end in a term.
            if race == 0 {
                held.retain(|held| held.holder().is_none_or(|holder| holder.clock_set_back_by().is_none()));
            }
            if let Some(at) = held.iter().position(|held| *held.name() == waiter) {
                return Err(SkipReason::Queued(held.swap_remove(at).into_holder()));
            }
            let is_free = |place: &&MutexName| !held.iter().any(|held| held.name() == *place);
            let free: Vec<&MutexName> = self.queue.places.iter().filter(is_free).collect();
            self.leave_to_a_later_one(&held)?;
            if free.is_empty() {
                let is_own = held.iter().any(|held| self.is_own(held.holder()));
                let run = running.into_iter().next().and_then(Held::into_holder);
                return Err(if is_own { SkipReason::Overlapping(run) } else { SkipReason::QueueFull(run) });
            }
            // After a lost race the place is random. Otherwise the processes of that race would compete for one place
            // again.
            let place = if race == 0 { free[0] } else { free[random_index(free.len())] };
            if let Some(place) = self.take_place(place, &waiter)? {
                return Ok(place);
            }
        }
        Err(SkipReason::Overlapping(None))
    }

    /// Takes `place` and the marker `waiter` of the occurrence, both or neither. `None`: one of them is held.
    fn take_place(&self, place: &MutexName, waiter: &MutexName) -> Result<Option<QueuePlace>, SkipReason> {
        let PlannedRun { clock, store, .. } = self.planned;
        let place = self.planned.request(place.clone(), self.queue.term, clock.moment());
        let waiter = place.with(waiter.clone(), self.queue.term);
        let owner = place.owner();
        let mut admission = Admission::both(place, waiter);
        self.planned.exclude_pauses(&mut admission);
        let Grant { lease, claim } = match admission.ask(&*store.mutex) {
            Ok(Admitted::Granted(grant)) => grant,
            Ok(Admitted::LeaseTaken(_) | Admitted::ClaimTaken(_)) => return Ok(None),
            Ok(Admitted::Excluded(pause)) => return Err(SkipReason::Paused(pause.into_holder())),
            Err(error) => {
                self.own.borrow_mut().push(owner);
                return Err(SkipReason::StoreUnavailable(error));
            }
        };
        let hold = |mark: Option<Lease>| {
            let mark = mark.expect("all that was asked for was granted");
            LeaseGuard::hold(store, clock, mark, Renewal::WhileItRuns).map_err(SkipReason::StoreUnavailable)
        };
        let (mark, waiter) = (hold(lease), hold(claim));
        // `hold` returns `None` if this process already holds the marker, for another waiter. The store has granted the
        // marker a second time, because it has lost the first.
        let (Some(mark), Some(waiter)) = (mark?, waiter?) else { return Ok(None) };
        let before = self.queue.replaces.then_some(0);
        Ok(Some(QueuePlace { mark, waiter, before, asked_to_stop: None }))
    }

    /// Returns whether the occurrence of `holder` is later than the occurrence of this run.
    fn is_later(&self, holder: &Holder) -> bool {
        holder.occurrence().is_some_and(|occurrence| occurrence > self.planned.id.occurrence)
    }

    /// Refuses the occurrence of this waiter if the event has `Overlap::Replace`, and a later occurrence waits in one
    /// of the places in `held`.
    fn leave_to_a_later_one(&self, held: &[Held]) -> Result<(), SkipReason> {
        let later = held.iter().filter_map(Held::holder).find(|holder| self.queue.replaces && self.is_later(holder));
        match later {
            Some(later) => Err(SkipReason::Replaced(Some(later.clone()))),
            None => Ok(()),
        }
    }

    /// Requests lease and claim, if this waiter is one of the first `n`; `n` is the number of runs that the event
    /// allows at a time. With `Overlap::Replace`, the waiter of the latest occurrence requests them.
    fn ask_if_next(&self, place: &mut QueuePlace) -> Result<AdmittedRun, SkipReason> {
        if self.queue.replaces {
            return self.ask_as_the_latest(place);
        }
        let at_a_time = self.planned.event.protection.slots.len();
        if place.before.is_none_or(|before| before >= at_a_time) {
            let runs = self.planned.event.protection.leases();
            let held = read(self.planned, &[&self.queue.places, runs].concat())?;
            let (running, mut before): (Vec<_>, Vec<_>) = held.into_iter().partition(|held| runs.contains(held.name()));
            before.retain(|held| held.name() != place.mark.lease().name() && !place.is_before(held));
            place.before = Some(before.len());
            if before.len() >= at_a_time {
                return Err(SkipReason::Overlapping(running.into_iter().next().and_then(Held::into_holder)));
            }
        }
        self.ask_for_the_run(place, &[])?.ok_or(SkipReason::Overlapping(None))
    }

    /// Requests lease and claim for an occurrence that replaces a run, unless a later occurrence waits. Earlier
    /// occurrences do not count, because they are about to leave the queue.
    fn ask_as_the_latest(&self, place: &mut QueuePlace) -> Result<AdmittedRun, SkipReason> {
        let mut others = self.queue.places.clone();
        others.retain(|name| name != place.mark.lease().name());
        if let Some(run) = self.ask_for_the_run(place, &others)? {
            return Ok(run);
        }
        let held = read(self.planned, &self.queue.places)?;
        self.leave_to_a_later_one(&held)?;
        others.retain(|name| held.iter().all(|held| held.name() != name));
        self.ask_for_the_run(place, &others)?.ok_or(SkipReason::Overlapping(None))
    }

    /// Requests lease and claim. If another run holds the lease and is to be replaced, asks that run to stop. `None`:
    /// one of the places in `unless` is held.
    fn ask_for_the_run(&self, place: &mut QueuePlace, unless: &[MutexName]) -> Result<Option<AdmittedRun>, SkipReason> {
        let decision = ask_once(self.planned, unless, |owner| self.own.borrow_mut().push(owner));
        if let Err(SkipReason::Overlapping(run)) = &decision
            && self.queue.replaces
        {
            self.ask_to_stop(run.as_ref(), place)?;
        }
        decision
    }

    /// Asks `run`, which holds the lease, to stop, but only once. If `run` has a later occurrence than this waiter,
    /// refuses the occurrence of this waiter instead.
    fn ask_to_stop(&self, run: Option<&Holder>, place: &mut QueuePlace) -> Result<(), SkipReason> {
        let PlannedRun { event, clock, store, .. } = self.planned;
        let unknown = || MutexError::unsupported("tell who holds a lease, which `Overlap::Replace` needs");
        let run = run.ok_or_else(|| SkipReason::StoreUnavailable(unknown()))?;
        if self.is_later(run) {
            return Err(SkipReason::Replaced(Some(run.clone())));
        }
        let token = run.token();
        if place.asked_to_stop != Some(token) {
            let now = clock.moment();
            let term = Term::new(self.until.since(now) + CLAIM_MARGIN).unwrap_or(Term::MAX);
            let request = self.planned.request(event.protection.mutex.request_to_stop(token), term, now);
            if Admission::claim_only(request).ask(&*store.mutex).is_ok() {
                place.asked_to_stop = Some(token);
            }
        }
        Ok(())
    }
}
