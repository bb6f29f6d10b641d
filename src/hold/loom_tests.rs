//! Tests with `loom`, which runs the steps of the threads in every possible order.
//!
//! The tested files are compiled a second time here, with the atomics and locks of `loom`. In `loom`, a wait with a
//! timeout never times out. So a thread that is not woken waits for ever, and `loom` reports that.

use std::sync::Arc;
use std::task::{self, Context, Poll, Waker};
use std::time::Duration;

use chrono::DateTime;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use crate::lease::{name::MutexName, request::LeaseRequest, term::Term, token::FencingToken};
use crate::outcome::cancel::CancelReason;
use crate::store::event_mutex::admission::Grant;
use crate::time::clock::manual::{ManualClock, Wake};
use crate::time::clock::moment::Moment;
use crate::time::clock::{Clock, Waiting};
use held_lease::{HeldLease, NO_THREAD};
use renewal_plan::{Plan, PlannedJob, RenewalAnswers};
use timer_thread::TimerThread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
}

/// A replacement for the real plan: a list of moments at which a job is due.
mod renewal_plan {
    use crate::time::clock::moment::Moment;

    #[derive(Default)]
    pub(super) struct Plan {
        pub(super) due: Vec<Moment>,
        removed: Vec<Moment>,
        pub(super) is_running: bool,
        pub(super) done: Vec<Moment>,
        /// Whether a signal has come. Then the first job is done at once, even if it is not due yet.
        pub(super) exits: bool,
        pub(super) exits_on: usize,
    }

    pub(super) enum PlanStep {
        Do(PlannedJob),
        SleepUntil(Moment),
        End,
    }

    pub(super) struct PlannedJob(pub(super) Moment);

    pub(super) struct RenewalAnswers;

    impl Plan {
        pub(super) fn next_step(&mut self, now: Moment) -> PlanStep {
            assert!(!self.is_running, "two threads run the plan");
            let exits = std::mem::take(&mut self.exits);
            match self.due.iter().copied().min() {
                Some(first) if exits || first <= now => {
                    self.due.retain(|due| *due != first);
                    self.is_running = true;
                    PlanStep::Do(PlannedJob(first))
                }
                first => first.map_or(PlanStep::End, PlanStep::SleepUntil),
            }
        }

        pub(super) fn take_removed(&mut self) -> Vec<Moment> {
            std::mem::take(&mut self.removed)
        }

        pub(super) fn begin_exit(&mut self, thread: usize) {
            (self.exits, self.exits_on) = (true, thread);
        }

        pub(super) fn has_leases(&self) -> bool {
            !self.due.is_empty()
        }

        pub(super) fn job_done(&mut self, job: &PlannedJob, _: RenewalAnswers, _now: Moment) {
            self.is_running = false;
            self.done.push(job.0);
        }
    }
}

#[path = "timer_thread.rs"]
#[expect(clippy::duplicate_mod, reason = "here, the file uses the locks of `loom`")]
mod timer_thread;

#[allow(dead_code)]
#[path = "change_signal.rs"]
#[expect(clippy::duplicate_mod, reason = "here, the file uses the locks of `loom`")]
mod change_signal;

#[path = "held_lease.rs"]
#[expect(clippy::duplicate_mod, reason = "here, the file uses the locks of `loom`")]
#[expect(dead_code, reason = "functions that do not wait are tested elsewhere")]
mod held_lease;

#[path = "cancellation.rs"]
#[expect(clippy::duplicate_mod, reason = "here, the file uses the locks of `loom`")]
#[expect(dead_code, reason = "functions that do not wait are tested elsewhere")]
mod cancellation;

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const TERM: Duration = Duration::from_secs(60);

fn in_every_order(model: impl Fn() + Send + Sync + 'static) {
    // `loom::model` is not used, because it prints each trace.
    loom::model::Builder::new().check(model);
}

fn clock() -> (ManualClock, Clock) {
    let manual = ManualClock::at(DateTime::UNIX_EPOCH);
    manual.advance(HOUR);
    let clock = Clock::from(&manual);
    (manual, clock)
}

/// A waker that does nothing, because in these tests no thread waits until another thread moves the clock.
struct Nowhere;

impl Wake for Nowhere {
    fn wake(&self) {}
}

fn run(timer: &TimerThread, clock: &Clock, mut carry_out: impl FnMut(&Moment)) {
    timer.run(clock.waiting(&Arc::new(Nowhere)), |PlannedJob(due)| {
        carry_out(due);
        RenewalAnswers
    });
}

fn add(timer: &TimerThread, due: Moment) -> bool {
    timer.change(|plan| (plan.due.push(due), Some(due))).1
}

#[track_caller]
fn assert_done(timer: &TimerThread, expected: &[Moment]) {
    let (mut done, _) = timer.change(|plan| (plan.done.clone(), None));
    done.sort_unstable();
    assert_eq!(done, expected);
}

#[test]
fn a_thread_that_waits_is_woken_for_what_is_due_before_that() {
    in_every_order(|| {
        let (manual, clock) = clock();
        let timer = Arc::new(TimerThread::new(Plan::default()));
        let (soon, late) = (clock.moment(), clock.moment().plus(HOUR));
        assert!(add(&timer, late));
        let runs = thread::spawn({
            let (timer, clock) = (Arc::clone(&timer), clock.clone());
            // The first job takes an hour, so that the second job is due when the first job ends.
            move || run(&timer, &clock, |_| manual.advance(HOUR))
        });
        assert!(!add(&timer, soon));
        runs.join().expect("it ends when all is done");
        assert_done(&timer, &[soon, late]);
    });
}

#[test]
fn what_is_planned_while_a_job_runs_is_seen_after_it() {
    in_every_order(|| {
        let (manual, clock) = clock();
        let timer = Arc::new(TimerThread::new(Plan::default()));
        let (now, late) = (clock.moment(), clock.moment().plus(HOUR));
        assert!(add(&timer, now.minus(MILLISECOND)));
        assert!(!add(&timer, late));
        let runs = thread::spawn({
            let (timer, clock) = (Arc::clone(&timer), clock.clone());
            move || {
                run(&timer, &clock, |job| {
                    if *job == now {
                        manual.advance(HOUR);
                    }
                });
            }
        });
        assert!(!add(&timer, now));
        runs.join().expect("it ends when all is done");
        assert_done(&timer, &[now.minus(MILLISECOND), now, late]);
    });
}

#[test]
fn a_thread_that_was_woken_for_nothing_is_woken_again() {
    in_every_order(|| {
        let (manual, clock) = clock();
        let timer = Arc::new(TimerThread::new(Plan::default()));
        let (soon, late) = (clock.moment(), clock.moment().plus(HOUR));
        assert!(add(&timer, late));
        let runs = thread::spawn({
            let (timer, clock) = (Arc::clone(&timer), clock.clone());
            move || run(&timer, &clock, |_| manual.advance(HOUR))
        });
        let called_off = soon.plus(MILLISECOND);
        assert!(!add(&timer, called_off));
        let ((), _) = timer.change(|plan| (plan.due.retain(|due| *due != called_off), None));
        assert!(!add(&timer, soon));
        runs.join().expect("it ends when all is done");
        assert_done(&timer, &[soon, late]);
    });
}

#[test]
fn what_is_planned_while_a_thread_is_about_to_end_is_seen_by_it_or_needs_another() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let timer = Arc::new(TimerThread::new(Plan::default()));
        let now = clock.moment();
        assert!(add(&timer, now.minus(MILLISECOND)));
        let runs = thread::spawn({
            let (timer, clock) = (Arc::clone(&timer), clock.clone());
            move || run(&timer, &clock, |_| ())
        });
        if add(&timer, now) {
            run(&timer, &clock, |_| ());
        }
        runs.join().expect("it ends when all is done");
        assert_done(&timer, &[now.minus(MILLISECOND), now]);
    });
}

#[test]
fn of_two_that_plan_something_one_needs_a_thread() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let timer = Arc::new(TimerThread::new(Plan::default()));
        let now = clock.moment();
        let other = thread::spawn({
            let timer = Arc::clone(&timer);
            move || add(&timer, now.minus(MILLISECOND))
        });
        let mut needs = [add(&timer, now), other.join().expect("it adds a job")];
        needs.sort_unstable();
        assert_eq!(needs, [false, true]);
        run(&timer, &clock, |_| ());
        assert_done(&timer, &[now.minus(MILLISECOND), now]);
    });
}

#[test]
fn after_a_thread_that_could_not_be_had_another_is_needed() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let timer = TimerThread::new(Plan::default());
        let now = clock.moment();
        assert!(add(&timer, now.minus(MILLISECOND)));
        timer.thread_failed();
        assert!(add(&timer, now));
        run(&timer, &clock, |_| ());
        assert_done(&timer, &[now.minus(MILLISECOND), now]);
    });
}

/// Signals the timer thread, and waits until it has handled the signal.
fn signal(timer: &TimerThread, exits_on: usize) {
    timer.signal(exits_on);
    timer.wait_until_handled(&Waiting::on_the_machine(), Moment::NEVER);
}

#[test]
fn a_signal_is_handled_by_a_thread_that_starts_or_falls_asleep() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let timer = Arc::new(TimerThread::new(Plan::default()));
        let late = clock.moment().plus(HOUR);
        assert!(add(&timer, late));
        let runs = thread::spawn({
            let (timer, clock) = (Arc::clone(&timer), clock.clone());
            move || run(&timer, &clock, |_| ())
        });
        signal(&timer, 1);
        assert_done(&timer, &[late]);
        runs.join().expect("it ends when all is done");
    });
}

#[test]
fn a_signal_while_a_job_runs_is_handled_after_it() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let timer = TimerThread::new(Plan::default());
        let (now, late) = (clock.moment(), clock.moment().plus(HOUR));
        assert!(add(&timer, now));
        assert!(!add(&timer, late));
        run(&timer, &clock, |job| {
            if *job == now {
                timer.signal(1);
            }
        });
        timer.wait_until_handled(&Waiting::on_the_machine(), Moment::NEVER);
        assert_done(&timer, &[now, late]);
    });
}

#[test]
fn a_signal_to_a_thread_that_is_about_to_end_is_not_waited_for_for_ever() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let timer = Arc::new(TimerThread::new(Plan::default()));
        let now = clock.moment();
        timer.wait_until_handled(&Waiting::on_the_machine(), Moment::NEVER); // there is nothing to handle
        assert!(add(&timer, now));
        let runs = thread::spawn({
            let (timer, clock) = (Arc::clone(&timer), clock.clone());
            move || run(&timer, &clock, |_| ())
        });
        signal(&timer, 1);
        assert_done(&timer, &[now]);
        runs.join().expect("it ends when all is done");
    });
}

// If a process without a lease exits, it must not wait for the timer thread. That thread may not have begun yet.
#[test]
fn a_signal_to_a_thread_that_has_nothing_to_do_is_not_waited_for() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let timer = TimerThread::new(Plan::default());
        let late = clock.moment().plus(HOUR);
        assert!(timer.change(|_| ((), Some(late))).1);
        signal(&timer, 1);
    });
}

#[test]
fn two_signals_are_both_handled_and_the_thread_of_one_stays() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let timer = Arc::new(TimerThread::new(Plan::default()));
        let late = clock.moment().plus(HOUR);
        assert!(add(&timer, late));
        let other = thread::spawn({
            let timer = Arc::clone(&timer);
            move || timer.signal(NO_THREAD)
        });
        timer.signal(1);
        other.join().expect("it only signals");
        run(&timer, &clock, |_| ());
        timer.wait_until_handled(&Waiting::on_the_machine(), Moment::NEVER);
        let (exits_on, _) = timer.change(|plan| (plan.exits_on, None));
        assert_eq!(exits_on, 1);
        assert_done(&timer, &[late]);
    });
}

fn granted(clock: &Clock) -> Arc<HeldLease> {
    let (name, term) = (MutexName::lease("reports").expect("a name"), Term::new(TERM).expect("a term"));
    let lease = LeaseRequest::new(name, term, clock).granted(FencingToken::new(1));
    HeldLease::for_test(clock, Some(Grant::of(lease)), None, Duration::ZERO)
}

/// A thread that sleeps until it is woken.
#[derive(Default)]
struct Sleeper {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl task::Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.is_woken.lock().expect("no thread panics") = true;
        self.woken.notify_one();
    }
}

/// Waits like a task: polls the future once, and again each time after its waker was called.
fn reason_in_a_task(run: &Arc<HeldLease>) -> CancelReason {
    let sleeper = Arc::new(Sleeper::default());
    let (waker, mut cancelled) = (Waker::from(Arc::clone(&sleeper)), Box::pin(run.cancelled()));
    loop {
        if let Poll::Ready(reason) = cancelled.as_mut().poll(&mut Context::from_waker(&waker)) {
            return reason;
        }
        let mut is_woken = sleeper.is_woken.lock().expect("no thread panics");
        while !std::mem::take(&mut *is_woken) {
            is_woken = sleeper.woken.wait(is_woken).expect("no thread panics");
        }
    }
}

/// Asserts that a call of `happens` wakes a waiting thread, and that the thread gets the reason `expected`. Asserts
/// this for a waiting task, too.
fn assert_all_are_woken(expected: CancelReason, happens: fn(&HeldLease, Moment)) {
    type Wait = fn(&Arc<HeldLease>) -> Option<CancelReason>;
    let waits: [Wait; 2] = [|run| run.wait(HOUR), |run| Some(reason_in_a_task(run))];
    for wait in waits {
        in_every_order(move || {
            let (_manual, clock) = clock();
            let run = granted(&clock);
            let waiter = thread::spawn({
                let run = Arc::clone(&run);
                move || wait(&run)
            });
            happens(&run, clock.moment());
            assert_eq!(waiter.join().expect("it waits"), Some(expected));
        });
    }
}

#[test]
fn a_waiter_is_woken_by_the_loss() {
    assert_all_are_woken(CancelReason::LeaseLost, |run, now| {
        run.lose(now);
        run.wake(); // as the renewal thread does
    });
}

#[test]
fn a_waiter_is_woken_by_the_timeout() {
    assert_all_are_woken(CancelReason::TimedOut, HeldLease::limit_task_until);
}

#[test]
fn a_waiter_is_woken_by_the_shutdown() {
    assert_all_are_woken(CancelReason::ShuttingDown, |run, _| run.shut_down(Duration::ZERO, HOUR, None));
}

#[test]
fn a_waiter_is_woken_by_the_end_of_the_run() {
    assert_all_are_woken(CancelReason::LeaseLost, |run, _| {
        let _ = run.begin_release();
        run.wake(); // as the release does
    });
}

#[test]
fn a_task_is_woken_while_another_stops_waiting() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let run = granted(&clock);
        let task = thread::spawn({
            let run = Arc::clone(&run);
            move || reason_in_a_task(&run)
        });
        let mut stops_waiting = Box::pin(run.cancelled());
        assert!(stops_waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(stops_waiting);
        run.shut_down(Duration::ZERO, HOUR, None);
        assert_eq!(task.join().expect("it waits"), CancelReason::ShuttingDown);
    });
}

#[test]
fn two_that_wait_are_both_woken_by_the_loss() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let run = granted(&clock);
        assert!(run.begin_renewal(clock.moment()));
        let waiters = [0, 1].map(|_| {
            let run = Arc::clone(&run);
            thread::spawn(move || run.wait(HOUR))
        });
        run.lose(clock.moment());
        for waiter in waiters {
            assert_eq!(waiter.join().expect("it waits"), Some(CancelReason::LeaseLost));
        }
    });
}

#[test]
fn a_waiter_is_woken_when_the_lease_is_to_end_sooner() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let run = granted(&clock);
        let waiter = thread::spawn({
            let run = Arc::clone(&run);
            move || run.wait(HOUR)
        });
        run.shorten_until(clock.moment());
        assert_eq!(waiter.join().expect("it waits"), Some(CancelReason::LeaseLost));
    });
}

#[test]
fn a_waiter_at_the_deadline_waits_on_when_the_lease_was_renewed_in_time() {
    in_every_order(|| {
        let (manual, clock) = clock();
        let run = granted(&clock);
        let (asked, deadline) = (clock.moment(), clock.moment().plus(TERM));
        manual.advance(TERM);
        let waiter = thread::spawn({
            let run = Arc::clone(&run);
            move || run.wait(HOUR)
        });
        run.renewed_until(asked.plus(TERM * 2), deadline.minus(MILLISECOND));
        run.lose(deadline);
        assert_eq!(waiter.join().expect("it waits"), Some(CancelReason::LeaseLost));
    });
}

#[test]
fn a_lease_that_one_thread_has_seen_gone_is_gone_for_all_and_no_renewal_brings_it_back() {
    in_every_order(|| {
        let (manual, clock) = clock();
        let run = granted(&clock);
        let deadline = clock.moment().plus(TERM);
        manual.advance(TERM);
        let looks = thread::spawn({
            let (run, clock) = (Arc::clone(&run), clock.clone());
            move || (run.reason().is_some(), run.gone_by(clock.moment()).is_some())
        });
        let renews = thread::spawn({
            let run = Arc::clone(&run);
            move || run.renewed_until(deadline.plus(TERM), deadline.minus(MILLISECOND))
        });
        let seen = run.gone_by(clock.moment());
        let (first, second) = looks.join().expect("it looks");
        renews.join().expect("it renews");
        let gone = run.gone_by(clock.moment()).is_some();
        assert!(gone || (seen, first, second) == (None, false, false), "a lost lease is held again");
        assert!(first <= second, "a lost lease is held again");
        assert_eq!(run.remaining(), Some(if gone { Duration::ZERO } else { TERM }));
    });
}

#[test]
fn a_released_lease_stays_released_whatever_is_noted_at_that_moment() {
    in_every_order(|| {
        let (_manual, clock) = clock();
        let run = granted(&clock);
        let asked = clock.moment();
        let renews = thread::spawn({
            let run = Arc::clone(&run);
            move || run.renewed_until(asked.plus(TERM * 2), asked)
        });
        let _ = run.begin_release();
        assert!(run.gone_by(clock.moment()).is_some());
        renews.join().expect("it renews");
        assert!(run.gone_by(clock.moment()).is_some(), "a released lease is held again");
        assert!(!run.begin_renewal(asked), "it is renewed again");
    });
}

#[test]
fn a_release_waits_for_the_renewal_and_no_other_follows() {
    let renewed = |held: &HeldLease, now: Moment| held.renewed_until(now.plus(TERM), now);
    let answers: [fn(&HeldLease, Moment); 3] = [renewed, |held, _| held.renewal_failed(), HeldLease::lose];
    for answer in answers {
        in_every_order(move || {
            let (_manual, clock) = clock();
            let (run, now) = (granted(&clock), clock.moment());
            let under_way = Arc::new(AtomicBool::new(false));
            let renewal_thread = thread::spawn({
                let (run, under_way) = (Arc::clone(&run), Arc::clone(&under_way));
                move || {
                    for _ in 0..2 {
                        if run.begin_renewal(now) {
                            under_way.store(true, Ordering::Release);
                            under_way.store(false, Ordering::Release);
                            answer(&run, now);
                        }
                    }
                }
            });
            let _ = run.begin_release();
            run.wait_for_renewal(Moment::NEVER);
            assert!(!under_way.load(Ordering::Acquire), "it is being renewed");
            renewal_thread.join().expect("it ends");
        });
    }
}
