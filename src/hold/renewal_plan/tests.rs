//! Tests that compare the plan with a simple model. The model knows the data of the store, and all grants, requests,
//! answers and releases.

use std::iter;
use std::sync::{Mutex, mpsc};
use std::thread;

use chrono::DateTime;
use fastrand::Rng;

use super::leases_at_exit::FEW_SECONDS;
use super::*;
use crate::hold::held_lease::{NO_THREAD, this_thread};
use crate::lease::request::Lease;
use crate::lease::{owner::Owner, request::LeaseRequest, token::FencingToken};
use crate::store::event_mutex::description::Description;
use crate::store::event_mutex::{EventMutex, admission::Grant, batch::Slot};
use crate::store::memory::MemoryMutex;
use crate::time::{clock::Clock, clock::manual::ManualClock};

const SEQUENCES: u64 = 2_000;
const OPERATIONS: usize = 40;

const MILLISECOND: Duration = Duration::from_millis(1);
/// Requests to stop are read about once a second. This is the longest time between two reads.
const READ_AT_LATEST_AFTER: Duration = Duration::from_millis(1100);
/// There are only four names, so that a name is often acquired again, while it is held or after its lease was lost.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const TERMS: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(60)];

#[test]
fn what_is_held_is_renewed_and_nothing_else_and_no_run_outlives_its_deadline() {
    for seed in 0..SEQUENCES {
        let _shown = Seed(seed);
        let mut world = World::new(Rng::with_seed(seed));
        for _ in 0..OPERATIONS {
            world.go_on();
            world.check();
        }
        world.end();
    }
}

/// A guard that prints the seed of a sequence that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the seed is {}", self.0);
        }
    }
}

/// The owner and the deadline of each name in the store.
type Holders = [Option<(Owner, Moment)>; NAMES.len()];

/// A plan, the data of its store, and a model of its leases.
struct World {
    random: Rng,
    manual: ManualClock,
    clock: Clock,
    plan: Plan,
    /// The moment at which the plan must take its next step.
    alarm: Option<Moment>,
    asked: Option<Asked>,
    /// The indices of the runs whose requests to stop are being read.
    being_read: Option<Vec<usize>>,
    store: Holders,
    known: Vec<Known>,
    /// The number of the exiting thread. `None`: the process does not exit.
    ended_by: Option<usize>,
}

/// A renewal that is not answered yet.
struct Asked {
    job: PlannedJob,
    at: Moment,
    /// The indices of the leases, in the order of the batch.
    whose: Vec<usize>,
    /// The answers of the store. `None`: the store has not received the request yet.
    extended: Option<Vec<bool>>,
}

/// The model of a lease.
#[expect(clippy::struct_excessive_bools, reason = "the facts are independent of each other")]
struct Known {
    run: Arc<HeldLease>,
    id: RunId,
    lease: Lease,
    name: usize,
    renewal: Renewal,
    /// The moment of the grant, and the minimum hold from then on.
    began: Moment,
    at_least: Option<Duration>,
    stopping: Duration,
    /// Whether the task runs on the thread of the test.
    here: bool,
    /// Whether the store was asked to shorten the lease because the process exits.
    shortened: bool,
    /// The moment when the task is cancelled: the time of the last successful request, plus the term, less the time for
    /// stopping.
    deadline: Moment,
    /// The earliest and the latest moment of the next renewal.
    due: (Moment, Moment),
    /// Whether a newer run may replace this run.
    is_replaceable: bool,
    /// The latest moment at which a request to stop is read.
    read_by: Option<Moment>,
    /// Whether the lease was released, or the store said that it is lost.
    over: bool,
    /// Whether an operator or another process has ended the lease in the store.
    broken: bool,
    /// The moment of the task's timeout, and the moment of the warning that the task has not stopped.
    timeout: Option<Moment>,
    overdue: Option<Moment>,
}

impl Known {
    fn is_live(&self, now: Moment) -> bool {
        !self.over && now < self.deadline
    }

    fn asked_for(&mut self, asked: Moment) {
        let term = self.lease.term().get();
        self.deadline = asked.plus(term).minus(self.stopping);
        let due = if self.renewal == Renewal::Never {
            self.deadline
        } else {
            asked.plus(term.saturating_sub(self.stopping) / 3)
        };
        self.due = (due, due);
    }

    fn hold_left(&self, now: Moment) -> Option<Duration> {
        let rest = self.began.plus(self.at_least?).since(now);
        (!rest.is_zero()).then_some(rest)
    }

    fn run(&self) -> &Arc<HeldLease> {
        &self.run
    }
}

fn in_seconds(rest: Duration) -> Duration {
    Duration::from_secs_f64(rest.as_secs_f64().ceil())
}

impl World {
    fn new(random: Rng) -> Self {
        let (manual, clock, plan) = start();
        let store = [None; NAMES.len()];
        let (known, alarm, asked, being_read, ended_by) = (Vec::new(), None, None, None, None);
        Self { random, manual, clock, plan, alarm, asked, being_read, store, known, ended_by }
    }

    fn now(&self) -> Moment {
        self.clock.moment()
    }

    /// Takes a random step. While a renewal is under way, no other renewal begins.
    fn go_on(&mut self) {
        match self.random.u8(..19) {
            0..=2 => self.grant(),
            3..=4 => self.let_time_pass(),
            5..=6 => self.sleep(),
            7 => self.release(),
            8 => self.break_one(),
            9 => self.expect_end(),
            10 => self.perform_or_leave(),
            17..=18 => self.answer_read(),
            _ if self.asked.is_some() => self.answer(),
            11..=12 => self.step(),
            _ => {
                self.step();
                self.answer();
            }
        }
    }

    fn let_time_pass(&mut self) {
        let most = [MILLISECOND * 2, MILLISECOND * 120, TERMS[1], TERMS[2] * 2][usize::from(self.random.u8(..4))];
        self.manual.advance(most.mul_f64(self.random.f64()));
    }

    /// Sleeps until the next step of the plan.
    fn sleep(&mut self) {
        if let Some(alarm) = self.alarm {
            self.manual.advance(alarm.since(self.now()));
        }
    }

    fn grant(&mut self) {
        let name = self.random.usize(..NAMES.len());
        let term = self.random.choice(TERMS).and_then(|term| Term::new(term).ok()).expect("the terms are terms");
        let mutex = MutexName::lease(NAMES[name]).expect("the names are names");
        let request = LeaseRequest::new(mutex, term, &self.clock);
        let asked = self.now();
        self.hesitate();
        if self.store[name].is_some_and(|(_, until)| self.now() < until) {
            return;
        }
        self.store[name] = Some((request.owner(), self.now().plus(term.get())));
        self.hesitate();
        let lease = request.granted(FencingToken::new(1));
        let renewal = if self.random.u8(..3) == 0 { Renewal::Never } else { Renewal::WhileItRuns };
        let at_least = [None, None, Some(TERMS[1] * 2), Some(TERMS[2] * 2)][self.random.usize(..4)];
        let stopping = [Duration::ZERO, term.get() / 4][self.random.usize(..2)];
        let (began, grant) = (self.now(), Grant::of(lease.clone()));
        let held_for = at_least.and_then(|at_least| Term::new(at_least).ok());
        let is_replaceable = self.random.u8(..3) == 0;
        let by = if is_replaceable { HeldBy::ReplaceableRun } else { HeldBy::Run };
        let run = HeldLease::new(self.clock.clone(), Some(grant), began, held_for, stopping, by, None);
        let id =
            RunId { event: lease.owner().to_string().into(), occurrence: DateTime::UNIX_EPOCH, is_backfill: false };
        let (kept, due) = self.plan.keep(&run, no_store(), renewal);
        let due = due.expect("it has a lease");
        self.alarm = Some(self.alarm.map_or(due, |alarm| alarm.min(due)));
        // If the store has granted a name that this process renews, the plan refuses the grant. The earlier lease is
        // renewed at once.
        let is_renewed = |known: &&mut Known| known.name == name && known.renewal == renewal && known.is_live(began);
        let doubted = self.known.iter_mut().filter(|_| renewal == Renewal::WhileItRuns).filter(is_renewed);
        let doubted = doubted.map(|known| known.due = (began, began)).count();
        assert_eq!(kept.is_err(), doubted > 0, "whether this process renews the name");
        if kept.is_err() {
            assert_eq!(due, began);
            self.store[name] = None;
            return;
        }
        // The earlier holders of the name have lost it in the store, but do not know that yet.
        self.known.iter_mut().filter(|known| known.name == name).for_each(|known| known.broken = true);
        let mut known = Known {
            run,
            id,
            lease,
            name,
            renewal,
            began,
            at_least,
            stopping,
            here: false,
            shortened: false,
            deadline: asked,
            due: (asked, asked),
            is_replaceable,
            read_by: is_replaceable.then(|| began.plus(READ_AT_LATEST_AFTER)),
            over: false,
            broken: false,
            timeout: None,
            overdue: None,
        };
        known.asked_for(asked);
        let first_read = known.read_by.unwrap_or(Moment::NEVER);
        match self.ended_by {
            Some(_) => assert_eq!(due, Moment::BEGINNING),
            None => assert!(due == known.due.1 || due < known.due.1 && due <= first_read && is_replaceable),
        }
        self.known.push(known);
    }

    /// Lets time pass while a request or a reply is on its way: mostly no time, and sometimes more than a term.
    fn hesitate(&mut self) {
        if self.random.u8(..8) == 0 {
            self.let_time_pass();
        }
    }

    fn release(&mut self) {
        if !self.known.is_empty() {
            let which = self.random.usize(..self.known.len());
            self.release_one(which);
        }
    }

    fn release_one(&mut self, which: usize) {
        let (now, known) = (self.now(), &mut self.known[which]);
        let ended = known.run().begin_release();
        if known.is_live(now) {
            let lease = ended.expect("it is held");
            let deadline = known.deadline.plus(known.stopping);
            assert_eq!(lease.deadline(), deadline, "the released lease has the deadline of its last renewal");
        }
        known.over = true;
        known.timeout = None;
        if known.overdue.take().is_some() {
            self.plan.remove_timeout(&known.run);
        }
        // The request for the release can be lost. Then the lease stays in the store until its deadline.
        let held = &mut self.store[known.name];
        if held.is_some_and(|(owner, _)| owner == known.lease.owner()) && self.random.u8(..4) > 0 {
            *held = None;
        }
    }

    /// Breaks a lease in the store, and in half of the cases grants the name to another process.
    fn break_one(&mut self) {
        let (name, until) = (self.random.usize(..NAMES.len()), self.now().plus(TERMS[1]));
        self.store[name] = self.random.bool().then(|| (Owner::unique(), until));
        self.known.iter_mut().filter(|known| known.name == name).for_each(|known| known.broken = true);
    }

    fn expect_end(&mut self) {
        let timeout = self.now().plus(TERMS[1].mul_f64(self.random.f64()));
        let overdue = timeout.plus(TERMS[1].mul_f64(self.random.f64()));
        if let Some(known) = self.known.last_mut().filter(|known| known.overdue.is_none()) {
            self.plan.add_timeout(&known.run, &known.id, timeout, overdue);
            (known.timeout, known.overdue) = (Some(timeout), Some(overdue));
            self.alarm = Some(self.alarm.map_or(timeout, |alarm| alarm.min(timeout)));
        }
    }

    /// Moves a task to this thread or away from it. In a quarter of the cases, lets the process exit: on this thread,
    /// on another, or on an unknown thread.
    fn perform_or_leave(&mut self) {
        if self.random.u8(..4) > 0 {
            let Some(known) = self.known.last_mut() else { return };
            known.here = !known.here;
            if known.here {
                known.run().enter_thread();
            } else {
                known.run().leave_thread();
            }
            return;
        }
        let said = [NO_THREAD, this_thread(), this_thread() + 1][self.random.usize(..3)];
        self.plan.begin_exit(said);
        self.ended_by = Some(said);
        self.alarm = Some(self.now());
    }

    /// Sends the requests of the exit, and compares the data of the store afterwards with the model.
    fn release_at_exit(&mut self, release: &ExitRelease) {
        let (now, ended_by) = (self.now(), self.ended_by.expect("the process goes on"));
        let mut expected = self.store;
        for known in self.known.iter_mut().filter(|known| known.is_live(now)) {
            let ours = |held: &(Owner, Moment)| held.0 == known.lease.owner() && now < held.1;
            let held = expected[known.name].as_mut().filter(|held| ours(held));
            let soon = in_seconds(FEW_SECONDS + known.stopping);
            if known.here && ended_by == this_thread() {
                known.over = true;
                match (held, known.hold_left(now)) {
                    (Some(held), Some(rest)) => held.1 = now.plus(in_seconds(rest)),
                    (Some(_), None) => expected[known.name] = None,
                    (None, _) => {}
                }
            } else if !known.shortened {
                known.shortened = true;
                let left = known.deadline.since(now) + known.stopping;
                let until = match known.hold_left(now) {
                    Some(rest) => now.plus(in_seconds(rest.max(left.min(soon)))),
                    None if left > soon => now.plus(soon),
                    None => continue,
                };
                known.deadline = known.deadline.min(until.minus(known.stopping));
                if let Some(held) = held {
                    held.1 = until;
                }
            }
        }
        release.send_to(&Remote(Mutex::new(&mut self.store), self.clock.clone()), &self.clock);
        assert_eq!(self.store, expected);
        self.alarm = Some(now);
    }

    /// Returns whether a request must be sent to the store because the process exits.
    fn has_something_to_release(&self, now: Moment) -> bool {
        let Some(ended_by) = self.ended_by else { return false };
        self.known.iter().filter(|known| known.is_live(now)).any(|known| {
            let soon = in_seconds(FEW_SECONDS + known.stopping);
            let left = known.deadline.since(now) + known.stopping;
            let is_left = !known.shortened && (known.hold_left(now).is_some() || left > soon);
            is_left || known.here && ended_by == this_thread()
        })
    }

    fn step(&mut self) {
        let now = self.now();
        let releases = self.has_something_to_release(now);
        let overdue = self.known.iter().filter(|known| known.overdue.is_some_and(|overdue| overdue <= now)).count();
        let step = self.plan.next_step(now);
        assert_eq!(
            releases,
            matches!(step, PlanStep::Do(PlannedJob::ReleaseAtExit(_))),
            "the requests of an exit come first"
        );
        match step {
            PlanStep::Do(PlannedJob::ReleaseAtExit(release)) => self.release_at_exit(&release),
            PlanStep::Do(PlannedJob::ReportOverdue(reported)) => {
                assert_eq!(reported.len(), overdue, "every overdue task is reported");
                for run in reported {
                    let known = self.known.iter_mut().find(|known| known.id.event == run.1.event);
                    let overdue = known.and_then(|known| known.overdue.take());
                    assert!(overdue.is_some_and(|overdue| overdue <= now), "reported although it is not overdue");
                }
                self.alarm = Some(now);
            }
            PlanStep::Do(PlannedJob::Cancel(cancelled)) => {
                let timed_out = cancelled.len() - cancelled.iter().filter(|run| run.is_lost()).count();
                let is_due = |known: &&mut Known| known.timeout.is_some_and(|timeout| timeout <= now);
                let due: Vec<&mut Known> = self.known.iter_mut().filter(is_due).collect();
                let is_there = |known: &&&mut Known| cancelled.iter().any(|run| Arc::ptr_eq(run, known.run()));
                assert_eq!(
                    due.iter().filter(is_there).count(),
                    due.len(),
                    "every task that has timed out is cancelled"
                );
                assert!(timed_out <= due.len(), "every cancelled run has lost its lease or has timed out");
                for known in due {
                    known.timeout = None;
                }
                self.alarm = Some(now);
            }
            PlanStep::Do(PlannedJob::ReadStopRequests(runs)) => self.begin_read(&runs),
            PlanStep::Do(PlannedJob::Renew(batch)) => {
                assert_eq!(self.ended_by, None, "nothing is renewed any more");
                let whose = self.whose(&batch, now);
                let asked = Asked { job: PlannedJob::Renew(batch), at: now, whose, extended: None };
                let extended = self.random.bool().then(|| self.extend(&asked.whose));
                self.asked = Some(Asked { extended, ..asked });
                self.alarm = Some(now);
            }
            PlanStep::SleepUntil(until) => {
                assert!(now < until, "the thread would not sleep");
                let reads = |known: &Known| {
                    let due = if self.ended_by.is_some() { known.deadline } else { known.due.1.min(known.deadline) };
                    let read_at = known.read_by.filter(|_| self.ended_by.is_none() && self.being_read.is_none());
                    let due = known.is_live(now).then_some(read_at.map_or(due, |read_at| read_at.min(due)));
                    due.into_iter().chain(known.timeout.or(known.overdue)).min()
                };
                let first = self.known.iter().filter_map(reads).min();
                assert!(first.is_some(), "there is nothing to wait for");
                assert!(Some(until) <= first, "the plan sleeps until {until:?}, but a job is due at {first:?}");
                self.alarm = Some(until);
            }
            PlanStep::End => {
                let left = self.known.iter().filter(|known| known.is_live(now) || known.overdue.is_some());
                assert_eq!(left.count(), 0, "forgotten");
                self.alarm = None;
            }
        }
    }

    /// Returns the leases of a batch. Checks that the batch has all held leases of its term, and that at least one
    /// lease is due.
    #[track_caller]
    fn whose(&self, batch: &DueRenewals, now: Moment) -> Vec<usize> {
        let whose: Vec<_> = batch.leases.iter().map(|(held, _)| self.place(held)).collect();
        let renewed = |known: &Known| known.renewal == Renewal::WhileItRuns && known.lease.term() == batch.term;
        let held = |known: &Known| known.is_live(now) && renewed(known);
        let mut sorted = whose.clone();
        sorted.sort_unstable();
        let expected = (0..self.known.len()).filter(|which| held(&self.known[*which]));
        assert!(
            sorted.iter().copied().eq(expected),
            "{sorted:?} are not the leases that are held for {:?}",
            batch.term
        );
        assert!(whose.iter().any(|which| self.known[*which].due.0 <= now), "none of {whose:?} is due");
        let leases = whose.iter().map(|which| self.known[*which].lease.clone());
        assert!(leases_of(batch).eq(leases), "the batch has exactly these leases");
        whose
    }

    fn place(&self, held: &Arc<HeldLease>) -> usize {
        self.known.iter().position(|known| Arc::ptr_eq(known.run(), held)).expect("it was granted")
    }

    /// Begins to read the requests to stop for `runs`. Checks that `runs` has all runs whose requests are due to be
    /// read, and no other runs.
    fn begin_read(&mut self, runs: &[Arc<HeldLease>]) {
        let now = self.now();
        assert!(self.ended_by.is_none() && self.being_read.is_none(), "one read at a time");
        let being_read: Vec<usize> = runs.iter().map(|run| self.place(run)).collect();
        for which in &being_read {
            assert!(self.known[*which].read_by.take().is_some(), "{which} is not due");
        }
        let is_forgotten = |known: &Known| known.is_live(now) && known.read_by.is_some_and(|read_at| read_at <= now);
        assert!(!self.known.iter().any(is_forgotten), "forgotten");
        self.being_read = Some(being_read);
        self.alarm = Some(now);
    }

    fn answer_read(&mut self) {
        let Some(being_read) = self.being_read.take() else { return };
        let (now, is_answered) = (self.now(), self.random.bool());
        let runs: Vec<_> = being_read.iter().map(|which| Arc::clone(self.known[*which].run())).collect();
        for which in being_read {
            let known = &mut self.known[which];
            if known.is_replaceable || !is_answered {
                known.read_by.get_or_insert(now.plus(READ_AT_LATEST_AFTER));
            }
        }
        let due = self.plan.read_ended(&runs, is_answered, now);
        self.alarm = self.alarm.into_iter().chain(due).min();
    }

    fn extend(&mut self, whose: &[usize]) -> Vec<bool> {
        let now = self.now();
        let mut extend = |which: &usize| {
            let Known { lease, name, .. } = &self.known[*which];
            let ours = self.store[*name].filter(|(owner, until)| *owner == lease.owner() && now < *until);
            self.store[*name] = ours.map(|(owner, _)| (owner, now.plus(lease.term().get()))).or(self.store[*name]);
            ours.is_some()
        };
        whose.iter().map(&mut extend).collect()
    }

    /// Passes the store's reply to the plan. Sometimes passes an error instead, as if the reply were lost.
    fn answer(&mut self) {
        let Some(asked) = self.asked.take() else { return };
        let extended = match asked.extended {
            Some(extended) => extended,
            None => self.extend(&asked.whose),
        };
        self.hesitate();
        let now = self.now();
        let out = self.random.u8(..4) == 0;
        let mut answer = |held| if out || self.random.u8(..8) == 0 { Err(outage()) } else { Ok(held) };
        let answers: Vec<_> = extended.into_iter().map(&mut answer).collect();
        for (which, answer) in asked.whose.iter().zip(&answers) {
            let known = &mut self.known[*which];
            match answer {
                Ok(true) if known.is_live(now) => {
                    known.asked_for(asked.at);
                    if !known.is_replaceable {
                        known.read_by.get_or_insert(now);
                    }
                }
                Ok(true) => {}
                Ok(false) => known.over = true,
                Err(_) => {
                    let longest = (known.lease.term().get() / 30).max(MILLISECOND);
                    known.due = (now.plus(MILLISECOND), now.plus(longest));
                }
            }
        }
        self.plan.job_done(&asked.job, answers, now);
        self.alarm = Some(now);
    }

    /// Checks that each run knows its deadline, and never relies on a later deadline than the store has.
    fn check(&self) {
        let now = self.now();
        for (which, known) in self.known.iter().enumerate() {
            let live = known.is_live(now);
            assert_eq!(known.run().deadline_at(now), live.then_some(known.deadline), "the deadline of {which}");
            assert_eq!(known.run().gone_by(now).is_none(), live, "whether lease {which} is held");
            assert_eq!(known.run().reason().is_none(), live, "whether run {which} may go on");
            if live && !known.broken {
                let held = self.store[known.name].filter(|(owner, _)| *owner == known.lease.owner());
                assert!(
                    held.is_some_and(|(_, until)| known.deadline.plus(known.stopping) <= until),
                    "{which} relies on a later deadline than the store has"
                );
            }
        }
    }

    /// Ends all runs, and checks that no job is planned any more.
    fn end(mut self) {
        (0..self.known.len()).for_each(|which| self.release_one(which));
        self.answer();
        // There are two steps, because the first step may report leases that were lost earlier.
        (0..2).for_each(|_| self.step());
        assert_eq!(self.alarm, None, "no job is planned");
        self.check();
    }
}

/// The data of the store as an `EventMutex`, for the requests of an exit.
#[derive(Debug)]
struct Remote<'a>(Mutex<&'a mut Holders>, Clock);

impl Remote<'_> {
    /// Ends the lease at the moment `until`, or now for `None`. Returns `false` if `lease` does not hold the name any
    /// more.
    fn end(&self, lease: &Lease, until: Option<Moment>) -> bool {
        let mut holders = self.0.lock().expect("nothing panics while it is held");
        let name = NAMES.iter().position(|name| *name == lease.name().mutex()).expect("it has one of the names");
        let ours = holders[name].is_some_and(|(owner, end)| owner == lease.owner() && self.1.moment() < end);
        if ours {
            holders[name] = until.map(|until| (lease.owner(), until));
        }
        ours
    }
}

impl EventMutex for Remote<'_> {
    fn create(&self, _: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        unreachable!("nothing is taken")
    }
    fn exists(&self, _: &MutexName) -> Result<bool, MutexError> {
        unreachable!("nothing is read")
    }
    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        Ok(self.end(lease, None))
    }
    fn describe(&self) -> Description {
        Description::of(self).with_extension()
    }
    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        for slot in leases {
            slot.fill(Ok(self.end(slot.asked(), Some(self.1.moment().plus(term.get())))));
        }
    }
}

fn outage() -> MutexError {
    MutexError::unusable("extend lease/a".to_owned(), "no answer".to_owned())
}

/// Makes a clock, and a plan without leases.
fn start() -> (ManualClock, Clock, Plan) {
    let manual = ManualClock::at(DateTime::UNIX_EPOCH);
    manual.advance(Duration::from_secs(1000));
    let clock = Clock::from(&manual);
    (manual, clock, Plan::default())
}

#[track_caller]
fn granted(plan: &mut Plan, name: &str, term: Duration, clock: &Clock) -> Arc<HeldLease> {
    let (name, term) = (MutexName::lease(name).expect("a name"), Term::new(term).expect("a term"));
    let lease = LeaseRequest::new(name, term, clock).granted(FencingToken::new(1));
    let grant = Some(Grant::of(lease.clone()));
    let run = HeldLease::for_test(clock, grant, None, Duration::ZERO);
    plan.keep(&run, no_store(), Renewal::WhileItRuns).1.expect("it has a lease");
    run
}

fn leases_of(batch: &DueRenewals) -> impl Iterator<Item = Lease> {
    batch.leases.iter().filter_map(|(held, _)| held.lease().cloned())
}

/// Returns a handle to a store that does not exist.
fn no_store() -> Weak<dyn EventMutex> {
    Weak::<MemoryMutex>::new()
}

/// Moves the clock to the next renewal, and returns the job. `None`: no lease is left.
fn next_batch(plan: &mut Plan, clock: &ManualClock) -> Option<PlannedJob> {
    loop {
        let now = Clock::from(clock).moment();
        match plan.next_step(now) {
            PlanStep::Do(PlannedJob::Cancel(_)) => {}
            PlanStep::Do(PlannedJob::ReadStopRequests(runs)) => {
                plan.read_ended(&runs, true, now);
            }
            PlanStep::Do(job) => return Some(job),
            PlanStep::SleepUntil(until) => {
                assert!(now < until, "the thread would not sleep");
                clock.advance(until.since(now));
            }
            PlanStep::End => return None,
        }
    }
}

#[test]
fn ten_errors_and_then_a_success_keep_the_lease() {
    for term in TERMS {
        let (manual, clock, mut plan) = start();
        let run = granted(&mut plan, "reports", term, &clock);
        for _ in 0..10 {
            let job = next_batch(&mut plan, &manual).expect("it is renewed");
            plan.job_done(&job, vec![Err(outage())], clock.moment());
        }
        let job = next_batch(&mut plan, &manual).expect("it is renewed");
        let asked = clock.moment();
        manual.advance(term / 100);
        plan.job_done(&job, vec![Ok(true)], clock.moment());
        assert_eq!(run.deadline_at(clock.moment()), Some(asked.plus(term)), "{term:?}");
    }
}

#[test]
fn a_store_that_is_out_is_asked_a_dozen_times_and_more_until_the_deadline_and_not_all_the_time() {
    for term in TERMS {
        let (manual, clock, mut plan) = start();
        let run = granted(&mut plan, "reports", term, &clock);
        let mut asked = Vec::new();
        while let Some(job) = next_batch(&mut plan, &manual) {
            asked.push(clock.moment());
            assert!(asked.len() < 1000, "{term:?}: the store is asked again at once");
            plan.job_done(&job, vec![Err(outage())], clock.moment());
        }
        assert_eq!(run.gone_by(clock.moment()), Some(clock.moment()), "it is found lost at its deadline");
        assert!((12..30).contains(&asked.len()), "{term:?}: asked {} times", asked.len());
        let pauses: Vec<_> = asked.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        assert!(pauses.is_sorted() && pauses[0] >= MILLISECOND && pauses[11] == term / 30, "{pauses:?}");
    }
}

#[test]
fn two_hundred_leases_are_one_batch_for_each_third_of_their_term() {
    let (manual, clock, mut plan) = start();
    let (first, term) = (clock.moment(), TERMS[2]);
    let mut random = Rng::with_seed(200);
    for name in 0..200 {
        granted(&mut plan, &format!("report {name}"), term, &clock);
        manual.advance(Duration::from_millis(5).mul_f64(random.f64()));
    }
    for third in 1..=30 {
        let job = next_batch(&mut plan, &manual).expect("they are renewed");
        assert_eq!(clock.moment(), first.plus(term / 3 * third));
        let PlannedJob::Renew(batch) = &job else { panic!("it is a renewal") };
        assert_eq!(leases_of(batch).count(), 200);
        manual.advance(MILLISECOND * 100);
        plan.job_done(&job, iter::repeat_n(Ok(true), 200).collect(), clock.moment());
    }
}

#[test]
fn whatever_the_answer_no_release_waits_for_it_any_longer() {
    for answer in [Ok(true), Ok(false), Err(outage())] {
        let (manual, clock, mut plan) = start();
        let run = granted(&mut plan, "reports", TERMS[1], &clock);
        let job = next_batch(&mut plan, &manual).expect("it is renewed");
        plan.job_done(&job, vec![answer.clone()], clock.moment());
        let (end, ended) = mpsc::channel();
        thread::spawn(move || {
            run.wait_for_renewal(Moment::NEVER);
            end.send(())
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(30)), Ok(()), "{answer:?}");
    }
}

#[test]
fn a_released_lease_is_not_remembered_for_ever() {
    let (_manual, clock, mut plan) = start();
    let kept = granted(&mut plan, "reports", TERMS[2], &clock);
    for name in 0..3 * NAMES_AT_LEAST {
        granted(&mut plan, &format!("report {name}"), TERMS[2], &clock).begin_release();
    }
    assert!(plan.leases.len() <= NAMES_AT_LEAST + 2, "the lease that is held, and the last that were released");
    let name = kept.lease().expect("it was granted").name();
    assert_eq!(plan.doubt(name, clock.moment()), kept.holder());
}

#[test]
fn a_renewal_that_is_never_answered_is_waited_for_until_the_lease_is_over() {
    let (manual, clock, mut plan) = start();
    let run = granted(&mut plan, "reports", TERMS[1], &clock);
    next_batch(&mut plan, &manual).expect("it is renewed");
    let (end, ended) = mpsc::channel();
    let deadline = run.lease().expect("it was granted").deadline();
    thread::spawn(move || {
        run.wait_for_renewal(deadline);
        end.send(())
    });
    assert!(ended.recv_timeout(MILLISECOND * 50).is_err(), "it is waited for");
    manual.advance(TERMS[1]);
    assert_eq!(ended.recv_timeout(Duration::from_secs(30)), Ok(()));
}

#[test]
fn a_run_that_an_operator_asked_to_stop_is_renewed_on_while_the_store_is_out() {
    let (manual, clock, mut plan) = start();
    let (asked, other) = (granted(&mut plan, "asked", TERMS[2], &clock), granted(&mut plan, "other", TERMS[2], &clock));
    let job = next_batch(&mut plan, &manual).expect("both are renewed");
    plan.job_done(&job, vec![Ok(true), Ok(true)], clock.moment());
    let reads = |plan: &mut Plan| match plan.next_step(clock.moment()) {
        PlanStep::Do(PlannedJob::ReadStopRequests(runs)) => runs,
        step => panic!("{step:?}"),
    };
    let read = reads(&mut plan);
    assert_eq!(read.len(), 2);
    asked.ask_to_stop(None);
    plan.read_ended(&read, false, clock.moment()).expect("it is asked again"); // the store has answered for the first run only
    manual.advance(READ_AT_LATEST_AFTER);
    let again = reads(&mut plan);
    assert!(again.len() == 1 && Arc::ptr_eq(&again[0], &other));
    assert_eq!(plan.read_ended(&again, true, clock.moment()), None);
    assert!(
        next_batch(&mut plan, &manual)
            .is_some_and(|job| matches!(job, PlannedJob::Renew(due) if due.leases.len() == 2))
    );
}

#[test]
fn a_read_that_hangs_delays_no_renewal() {
    let (manual, clock, mut plan) = start();
    let run = granted(&mut plan, "reports", TERMS[2], &clock);
    let job = next_batch(&mut plan, &manual).expect("it is renewed");
    plan.job_done(&job, vec![Ok(true)], clock.moment());
    assert!(matches!(plan.next_step(clock.moment()), PlanStep::Do(PlannedJob::ReadStopRequests(_))));
    let renewed = clock.moment();
    let PlanStep::SleepUntil(due) = plan.next_step(renewed) else { panic!("no second read begins") };
    assert_eq!(due, renewed.plus(TERMS[2] / 3));
    manual.advance(due.since(renewed));
    let PlanStep::Do(job @ PlannedJob::Renew(_)) = plan.next_step(due) else { panic!("it is renewed") };
    plan.job_done(&job, vec![Ok(true)], clock.moment());
    assert_eq!(run.deadline_at(clock.moment()), Some(due.plus(TERMS[2])));
}
