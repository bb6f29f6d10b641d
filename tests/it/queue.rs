//! An occurrence that meets a run waits, as far as its policy asks: across all servers, and through their crashes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::observe::{Notice, Step};
use soloist::store::{Admitted, Batch, Held, Holder, Lease, LeaseRequest, Names};
use soloist::time::ManualClock;
use soloist::{
    AddErrorKind, Event, EventMutex, FencingToken, FileMutex, MemoryMutex, MutexError, MutexName, OutagePolicy,
    Overlap, Period, Report, Run, Schedule, Shutdown, SkipReason, TaskResult, Term, Verdict,
};

use crate::scripted::Scripted;
use crate::support::{Diary, NO_THREADS, entry, holder, noon, ran, run_alone, skipped, until};

mod replace;

const EVENT: &str = "report";

/// Longer than a test lets pass by seconds, also while the thread of a waiter stands still.
const DAY: Duration = Duration::from_secs(86_400);

/// Servers that share a store, with tasks that the test ends.
#[derive(Clone)]
struct Fleet {
    store: Arc<dyn EventMutex>,
    diary: Diary,
    ended: Arc<Mutex<BTreeSet<DateTime<Utc>>>>,
    setting: Arc<dyn Fn(Event) -> Event + Send + Sync>,
}

fn minute(number: i64) -> DateTime<Utc> {
    noon() + TimeDelta::minutes(number)
}

fn queue_one(event: Event) -> Event {
    event.every_minute().on_overlap(Overlap::QueueOne)
}

fn queue_three(event: Event) -> Event {
    event.every_minute().on_overlap(Overlap::QueueAll(3))
}

fn replace(event: Event) -> Event {
    event.every_minute().on_overlap(Overlap::Replace)
}

/// All that lets an occurrence wait.
const POLICIES: [Overlap; 3] = [Overlap::QueueOne, Overlap::QueueAll(3), Overlap::Replace];

fn mutex() -> MutexName {
    MutexName::lease(EVENT).unwrap()
}

fn place(number: usize) -> MutexName {
    mutex().mark(EVENT, format!("queue {number}"))
}

fn waiter(occurrence: DateTime<Utc>) -> MutexName {
    mutex().mark(EVENT, format!("waits {}", occurrence.format("%Y-%m-%dT%H:%M:%SZ")))
}

impl Fleet {
    fn on(store: impl EventMutex + 'static, setting: impl Fn(Event) -> Event + Send + Sync + 'static) -> Self {
        Self { store: Arc::new(store), diary: Diary::default(), ended: Arc::default(), setting: Arc::new(setting) }
    }

    fn event(&self) -> Event {
        let fleet = self.clone();
        let task = move |run: &Run| -> TaskResult {
            let minutes = (run.occurrence() - noon()).num_minutes();
            fleet.diary.note(format!("start {minutes}"));
            until(|| run.is_cancelled() || fleet.ended.lock().unwrap().contains(&run.occurrence()))?;
            fleet.diary.note(format!("end {minutes}"));
            Ok(())
        };
        (self.setting)(Event::call(EVENT, task).without_overlapping())
    }

    fn server(&self) -> Schedule {
        let schedule = Schedule::new(Arc::clone(&self.store));
        schedule.add(self.event()).unwrap();
        schedule
    }

    /// Ticks on a new server.
    fn ticks(&self, now: DateTime<Utc>) -> JoinHandle<Report> {
        let server = self.server();
        thread::spawn(move || server.run_due(now))
    }

    fn end(&self, minute: DateTime<Utc>) {
        self.ended.lock().unwrap().insert(minute);
    }

    fn has_noted(&self, line: &str) {
        until(|| self.diary.lines().iter().any(|noted| noted == line))
            .unwrap_or_else(|_| panic!("{:?}", self.diary.lines()));
    }

    /// Waits until this place is held.
    fn waits_at(&self, number: usize) {
        until(|| holder(&*self.store, &place(number)).is_some()).unwrap();
    }

    fn is_free(&self, name: &MutexName) {
        assert!(!self.store.exists(name).unwrap(), "{name}");
    }

    fn takes(&self, name: &MutexName) -> Lease {
        let request = LeaseRequest::new(name.clone(), Term::MAX, &self.store.clock());
        self.store.create(&request).unwrap().expect("it is free")
    }
}

/// Plays one run, one waiter, and those without a place.
fn queues_one(store: impl EventMutex + 'static) {
    let fleet = Fleet::on(store, queue_one);
    let first = fleet.ticks(minute(0));
    fleet.has_noted("start 0");
    let waits = fleet.ticks(minute(1));
    fleet.waits_at(1);
    let another = fleet.ticks(minute(1)).join().unwrap();
    assert!(matches!(skipped(&another, EVENT), SkipReason::Queued(Some(_))), "{another}");
    let next = fleet.ticks(minute(2)).join().unwrap();
    let SkipReason::QueueFull(Some(running)) = skipped(&next, EVENT) else { panic!("{next}") };
    assert_eq!(running.occurrence(), Some(minute(0)), "it names the run, and not the waiter: {next}");
    assert_eq!(fleet.diary.lines(), ["start 0"]);
    let status = fleet.server().status().events.remove(0);
    let waiting = status.waiting.expect("the store says who waits");
    assert_eq!(waiting.iter().map(soloist::store::Holder::occurrence).collect::<Vec<_>>(), [Some(minute(1))]);
    assert_ne!(Some(waiting[0].owner()), status.held_by.map(|holders| holders[0].owner()), "it waits for the run");
    let listed = fleet.store.held(Names::MarksOf(EVENT)).unwrap();
    assert!(listed.iter().any(|mark| *mark.name() == place(1)), "{listed:?}");
    fleet.end(minute(0));
    fleet.has_noted("start 1");
    let late = fleet.ticks(minute(1)).join().unwrap();
    assert!(matches!(skipped(&late, EVENT), SkipReason::RanElsewhere(Some(_))), "{late}");
    let second = fleet.ticks(minute(3));
    fleet.waits_at(1);
    fleet.end(minute(1));
    fleet.end(minute(3));
    for (report, has_waited) in [(first, false), (waits, true), (second, true)] {
        let report = report.join().unwrap();
        let outcome = ran(&report, EVENT);
        assert!(outcome.is_success() && outcome.waited().is_some() == has_waited, "{report}");
        assert_eq!(report.to_string().contains("; it waited "), has_waited, "{report}");
    }
    assert_eq!(fleet.diary.lines(), ["start 0", "end 0", "start 1", "end 1", "start 3", "end 3"]);
    fleet.is_free(&place(1));
    fleet.is_free(&mutex());
}

#[test]
fn in_memory_one_waits_and_starts_when_the_run_ends() {
    queues_one(MemoryMutex::new());
}

#[test]
fn on_a_file_store_one_waits_and_starts_when_the_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    queues_one(FileMutex::in_dir(folder.path()).unwrap());
}

#[cfg(feature = "redis")]
#[test]
fn on_redis_one_waits_and_starts_when_the_run_ends() {
    use crate::servers::redis::Redis;
    for server in [Redis::start(), Redis::cluster_node()] {
        queues_one(soloist::RedisMutex::new(&crate::support::patient_url(&server.url())).unwrap());
    }
}

#[cfg(feature = "mysql")]
#[test]
fn on_mariadb_one_waits_and_starts_when_the_run_ends() {
    let server = crate::servers::mariadb::Mariadb::start();
    let store = soloist::MysqlMutex::new(&crate::support::patient_url(&server.url())).unwrap();
    store.create_table().unwrap();
    queues_one(store);
}

#[cfg(feature = "postgres")]
#[test]
fn on_postgres_one_waits_and_starts_when_the_run_ends() {
    let server = crate::servers::postgres::Postgres::start();
    let store = soloist::PostgresMutex::new(&crate::support::patient_url(&server.url())).unwrap();
    store.create_table().unwrap();
    queues_one(store);
}

#[test]
fn those_in_a_longer_queue_start_in_the_order_in_which_they_came() {
    let fleet = Fleet::on(MemoryMutex::new(), queue_three);
    let mut reports = vec![fleet.ticks(minute(0))];
    fleet.has_noted("start 0");
    for number in 1..=3 {
        reports.push(fleet.ticks(minute(number)));
        fleet.waits_at(number.unsigned_abs().try_into().unwrap());
    }
    let full = fleet.ticks(minute(4)).join().unwrap();
    assert!(matches!(skipped(&full, EVENT), SkipReason::QueueFull(_)), "{full}");
    for number in 0..=3 {
        fleet.has_noted(&format!("start {number}"));
        fleet.end(minute(number));
    }
    for report in reports {
        assert!(ran(&report.join().unwrap(), EVENT).is_success());
    }
    let lines = fleet.diary.lines();
    assert_eq!(lines, ["start 0", "end 0", "start 1", "end 1", "start 2", "end 2", "start 3", "end 3"]);
}

#[test]
fn nobody_overtakes_those_who_wait() {
    for occupied in [1, 2, 3] {
        let fleet = Fleet::on(MemoryMutex::new(), queue_three);
        let another = fleet.takes(&place(occupied));
        fleet.end(minute(0));
        let newcomer = fleet.ticks(minute(0));
        fleet.waits_at(if occupied == 1 { 2 } else { 1 });
        assert_eq!(fleet.diary.lines(), [""; 0], "place {occupied} was taken before");
        fleet.store.forget(&another).unwrap();
        assert!(ran(&newcomer.join().unwrap(), EVENT).is_success());
    }
}

/// Lets eight servers come at one moment with one occurrence each.
fn all_find_a_place(store: impl EventMutex + 'static) {
    let fleet = Fleet::on(store, |event| {
        event.every_minute().on_overlap(Overlap::QueueAll(8)).within(Duration::from_secs(600))
    });
    let (run, shutdown, barrier) = (fleet.takes(&mutex()), Shutdown::new(), Arc::new(Barrier::new(8)));
    let comes = |number| {
        let (server, barrier) = (fleet.server().with_shutdown(&shutdown), Arc::clone(&barrier));
        thread::spawn(move || {
            barrier.wait();
            server.run_due(minute(number))
        })
    };
    let reports: Vec<_> = (0..8).map(comes).collect();
    let places: Vec<MutexName> = (1..=8).map(place).collect();
    let are_held = || fleet.store.held(Names::Each(&places)).unwrap().len() == 8;
    let all_wait = until(|| are_held() || reports.iter().any(JoinHandle::is_finished)).is_ok() && are_held();
    let full = fleet.ticks(minute(8)).join().unwrap();
    shutdown.trigger();
    for report in reports {
        let report = report.join().unwrap();
        assert!(matches!(skipped(&report, EVENT), SkipReason::ShuttingDown), "{report}");
    }
    assert!(all_wait);
    assert!(matches!(skipped(&full, EVENT), SkipReason::QueueFull(Some(_))), "{full}");
    fleet.store.forget(&run).unwrap();
}

#[test]
fn in_memory_all_who_come_at_once_find_a_place() {
    all_find_a_place(MemoryMutex::new());
}

#[test]
fn on_a_file_store_all_who_come_at_once_find_a_place() {
    let folder = tempfile::tempdir().unwrap();
    all_find_a_place(FileMutex::in_dir(folder.path()).unwrap());
}

#[cfg(feature = "redis")]
#[test]
fn on_redis_all_who_come_at_once_find_a_place() {
    use crate::servers::redis::Redis;
    for server in [Redis::start(), Redis::cluster_node()] {
        all_find_a_place(soloist::RedisMutex::new(&crate::support::patient_url(&server.url())).unwrap());
    }
}

#[cfg(feature = "mysql")]
#[test]
fn on_mariadb_all_who_come_at_once_find_a_place() {
    let server = crate::servers::mariadb::Mariadb::start();
    let store = soloist::MysqlMutex::new(&crate::support::patient_url(&server.url())).unwrap();
    store.create_table().unwrap();
    all_find_a_place(store);
}

#[cfg(feature = "postgres")]
#[test]
fn on_postgres_all_who_come_at_once_find_a_place() {
    let server = crate::servers::postgres::Postgres::start();
    let store = soloist::PostgresMutex::new(&crate::support::patient_url(&server.url())).unwrap();
    store.create_table().unwrap();
    all_find_a_place(store);
}

#[test]
fn a_long_queue_costs_as_many_requests_as_a_short_one() {
    for places in [2, 100] {
        let clock = ManualClock::at(noon());
        let store = Scripted::over(MemoryMutex::with_clock(&clock));
        let fleet = Fleet::on(store.clone(), move |event| {
            event.every_minute().on_overlap(Overlap::QueueAll(places)).within(DAY)
        });
        let (run, another) = (fleet.takes(&mutex()), fleet.takes(&place(1)));
        fleet.end(noon());
        let (server, before) = (fleet.server().with_clock(&clock), store.calls());
        let waits = thread::spawn(move || server.run_due(noon()));
        // Four calls: the refusal of the run, two reads of the queue, and the taking of a place.
        until(|| store.calls() == before + 4).unwrap();
        let in_30_seconds = || {
            let before = store.calls();
            (0..30).for_each(|_| clock.advance(Duration::from_secs(1)));
            store.calls() - before
        };
        let has_read = |count| {
            clock.advance(Duration::from_secs(1));
            store.asked(&["held"]).len() > count
        };
        until(|| has_read(3)).unwrap();
        let in_line = in_30_seconds();
        assert!((25..=40).contains(&in_line), "a read a second, and the renewals: {in_line} in 30 s");
        fleet.store.forget(&another).unwrap();
        let first = in_30_seconds();
        assert!((25..=40).contains(&first), "an admission a second, and the renewals: {first} in 30 s");
        fleet.store.forget(&run).unwrap();
        until(|| {
            clock.advance(Duration::from_secs(1));
            waits.is_finished()
        })
        .unwrap();
        assert!(ran(&waits.join().unwrap(), EVENT).is_success());
    }
}

#[test]
fn an_idle_tick_asks_the_store_nothing() {
    for policy in POLICIES {
        let store = Scripted::default();
        let fleet = Fleet::on(store.clone(), move |event| event.hourly().on_overlap(policy));
        fleet.end(noon());
        let server = fleet.server();
        assert!(ran(&server.run_due(noon()), EVENT).is_success());
        let before = store.calls();
        for number in 1..=3 {
            // The process that ran it, and another that knows nothing of it, as cron starts one.
            for idle in [&server, &fleet.server()] {
                assert!(idle.run_due(minute(number)).entries().is_empty());
            }
        }
        assert_eq!(store.calls(), before);
    }
}

#[test]
fn what_a_killed_server_waited_with_is_taken_over_by_one_that_was_refused() {
    for policy in POLICIES {
        let fleet = Fleet::on(MemoryMutex::new(), move |event| {
            event.hourly().on_overlap(policy).within(Duration::from_secs(1800))
        });
        let (run, waiter) = (fleet.takes(&mutex()), fleet.takes(&waiter(noon())));
        let refused = [fleet.server(), fleet.server()];
        for server in &refused {
            let report = server.run_due(noon());
            assert!(matches!(skipped(&report, EVENT), SkipReason::Queued(Some(_))), "{report}");
            assert!(server.run_due(minute(1)).entries().is_empty(), "it waits");
        }
        fleet.store.forget(&waiter).unwrap();
        fleet.store.forget(&run).unwrap();
        fleet.end(noon());
        assert!(fleet.server().run_due(minute(1)).entries().is_empty(), "this one knows of no waiter");
        assert!(refused[0].run_due(minute(31)).entries().is_empty(), "it is too late");
        let report = refused[1].run_due(minute(2));
        assert!(ran(&report, EVENT).is_success());
        assert_eq!(entry(&report, EVENT).missed_by(), Some(Duration::from_secs(120)));
        for server in &refused {
            assert!(server.run_due(minute(3)).entries().is_empty(), "it has run");
        }
    }
}

/// Waits for ten periods, a minute at least: as long as its claim may be asked for.
#[test]
fn a_wait_ends_with_its_time() {
    for policy in POLICIES {
        let clock = ManualClock::at(noon());
        let fleet = Fleet::on(MemoryMutex::with_clock(&clock), move |event| event.every_second().on_overlap(policy));
        fleet.takes(&mutex());
        let (told, is_told) = mpsc::channel();
        let told = Mutex::new(told);
        // Only after its first request, the waiter stops the clock while it asks.
        let server = fleet.server().with_clock(&clock).observe(move |notice: &Notice<'_>| {
            if let Step::Queued { .. } = notice.step() {
                told.lock().unwrap().send(()).unwrap();
            }
        });
        let waits = thread::spawn(move || server.run_due(noon()));
        is_told.recv().expect("it waits");
        fleet.waits_at(1);
        clock.advance(Duration::from_secs(25));
        // The place is renewed, or it would end with its first term. Before that, the clock must not reach this end.
        until(|| holder(&*fleet.store, &place(1)).is_some_and(|place| place.until() > noon() + TimeDelta::seconds(60)))
            .unwrap();
        clock.advance(Duration::from_secs(32));
        assert!(!waits.is_finished());
        if policy == Overlap::QueueOne {
            let next = fleet.ticks(noon() + TimeDelta::seconds(1)).join().unwrap();
            assert!(matches!(skipped(&next, EVENT), SkipReason::QueueFull(Some(_))), "{next}");
        }
        clock.advance(Duration::from_secs(5));
        let report = waits.join().unwrap();
        let reason = skipped(&report, EVENT);
        assert!(matches!(reason, SkipReason::QueuedTooLong(Some(_))), "{report}");
        assert!(reason.to_string().contains("`within`"), "{reason}");
        fleet.is_free(&place(1));
        assert_eq!(fleet.diary.lines(), [""; 0]);
    }
}

#[test]
fn who_waits_behind_another_waiter_does_not_take_it_for_a_run_that_is_stuck() {
    let clock = ManualClock::at(noon());
    let fleet = Fleet::on(MemoryMutex::with_clock(&clock), |event| {
        event.every_second().on_overlap(Overlap::QueueAll(3)).stuck_after(Duration::from_secs(10))
    });
    fleet.takes(&place(1));
    clock.advance(Duration::from_secs(60));
    let (server, now) = (fleet.server().with_clock(&clock), clock.now());
    let waits = thread::spawn(move || server.run_due(now));
    fleet.waits_at(2);
    until(|| {
        clock.advance(Duration::from_secs(1));
        waits.is_finished()
    })
    .unwrap();
    let report = waits.join().unwrap();
    assert!(matches!(skipped(&report, EVENT), SkipReason::QueuedTooLong(None)), "{report}");
}

#[test]
fn an_occurrence_that_has_no_thread_for_its_wait_is_a_failure() {
    if run_alone("queue::an_occurrence_that_has_no_thread_for_its_wait_is_a_failure", &[NO_THREADS]).is_some() {
        return;
    }
    let fleet = Fleet::on(MemoryMutex::new(), |event| event.every_minute().on_overlap(Overlap::QueueOne));
    let _run = fleet.takes(&mutex());
    let report = fleet.server().run_due(noon());
    assert!(matches!(skipped(&report, EVENT), SkipReason::NoThread(_)) && report.is_failure(), "{report}");
}

#[test]
fn a_shutdown_and_a_pause_leave_what_waits_to_others() {
    for (is_shutdown, policy) in [true, false].into_iter().flat_map(|is| POLICIES.map(|policy| (is, policy))) {
        let fleet = Fleet::on(MemoryMutex::new(), move |event| {
            event.hourly().on_overlap(policy).within(Duration::from_secs(600))
        });
        let run = fleet.takes(&mutex());
        let (shutdown, another) = (Shutdown::new(), fleet.server());
        let server = fleet.server().with_shutdown(&shutdown).named("shop").unwrap();
        let other = server.clone();
        let waits = thread::spawn(move || server.run_due(minute(0)));
        fleet.waits_at(1);
        let refused = another.run_due(minute(0));
        assert!(matches!(skipped(&refused, EVENT), SkipReason::Queued(Some(_))), "{refused}");
        if is_shutdown {
            shutdown.trigger();
        } else {
            other.pause(Utc::now() + TimeDelta::minutes(1), "").unwrap();
        }
        let report = waits.join().unwrap();
        let reason = skipped(&report, EVENT);
        assert!(
            if is_shutdown {
                matches!(reason, SkipReason::ShuttingDown)
            } else {
                matches!(reason, SkipReason::Paused(_))
            },
            "{reason}"
        );
        fleet.is_free(&place(1));
        fleet.store.forget(&run).unwrap();
        fleet.end(noon());
        assert!(ran(&another.run_due(minute(1)), EVENT).is_success());
    }
}

#[test]
fn what_waits_goes_on_to_wait_while_its_store_is_out() {
    for policy in POLICIES {
        let is_out = Arc::new(AtomicBool::new(false));
        let out = Arc::clone(&is_out);
        // The outage begins with the wait: a run that is replaced ends soon after.
        let store = Scripted::default().before(move |call| {
            if call.is("admit") && call.names == [place(1)] {
                out.store(true, Ordering::SeqCst);
            }
            let asks_for_the_run = call.is("admit") && call.names == [mutex()];
            if out.load(Ordering::SeqCst) && asks_for_the_run { call.times_out() } else { Ok(()) }
        });
        let fleet = Fleet::on(store.clone(), move |event| event.every_minute().on_overlap(policy));
        let first = fleet.ticks(minute(0));
        fleet.has_noted("start 0");
        let waits = fleet.ticks(minute(1));
        fleet.waits_at(1);
        fleet.end(minute(0));
        fleet.end(minute(1));
        assert!(ran(&first.join().unwrap(), EVENT).is_success());
        let asked = store.calls();
        until(|| store.calls() > asked + 1).unwrap();
        assert_eq!(fleet.diary.lines(), ["start 0", "end 0"]);
        is_out.store(false, Ordering::SeqCst);
        assert!(ran(&waits.join().unwrap(), EVENT).is_success());
    }
}

#[test]
fn who_comes_late_with_an_occurrence_that_runs_finds_its_claim_and_not_a_full_queue() {
    let fleet = Fleet::on(MemoryMutex::new(), |event| queue_one(event).on_one_server());
    let first = fleet.ticks(minute(0));
    fleet.has_noted("start 0");
    let waits = fleet.ticks(minute(1));
    fleet.waits_at(1);
    let late = fleet.ticks(minute(0)).join().unwrap();
    assert!(matches!(skipped(&late, EVENT), SkipReason::RanElsewhere(Some(_))), "{late}");
    for (number, server) in [(0, first), (1, waits)] {
        fleet.end(minute(number));
        assert!(ran(&server.join().unwrap(), EVENT).is_success());
    }
}

/// Plays requests that the store grants, and whose answers are lost. The store releases later what it has granted.
#[test]
fn what_waits_gives_way_to_no_request_of_its_own() {
    for policy in POLICIES {
        let of_the_run = [mutex(), mutex().claim(EVENT, noon())];
        for granted in [of_the_run, [place(1), waiter(noon())]] {
            let are_lost = Arc::new(AtomicBool::new(false));
            let (lost, asked) = (Arc::clone(&are_lost), granted[..1].to_vec());
            let store = Scripted::default().after(move |call| {
                let is_lost = lost.load(Ordering::SeqCst) && call.is("admit") && call.names == asked;
                if is_lost { call.times_out() } else { Ok(()) }
            });
            let fleet = Fleet::on(store.clone(), move |event| event.every_minute().on_one_server().on_overlap(policy));
            let run = fleet.takes(&mutex());
            fleet.end(noon());
            are_lost.store(granted[0] == place(1), Ordering::SeqCst);
            let waits = fleet.ticks(noon());
            if granted[0] == mutex() {
                fleet.waits_at(1);
                are_lost.store(true, Ordering::SeqCst);
                fleet.store.forget(&run).unwrap();
            }
            until(|| fleet.store.exists(&granted[1]).unwrap()).unwrap();
            are_lost.store(false, Ordering::SeqCst);
            let asked = store.calls();
            until(|| store.calls() > asked + 2).unwrap();
            for name in &granted {
                fleet.store.break_lease(name).unwrap().expect("it is held");
            }
            fleet.store.forget(&run).unwrap();
            assert!(ran(&waits.join().unwrap(), EVENT).is_success(), "{policy:?}, {granted:?}");
        }
    }
}

/// Gives equal tokens to all, as a store may give to claims that are requested at one moment.
#[derive(Debug, Default)]
struct OneToken(MemoryMutex);

impl OneToken {
    const TOKEN: FencingToken = FencingToken::new(7);
}

impl EventMutex for OneToken {
    fn inner(&self) -> Option<&dyn EventMutex> {
        Some(&self.0)
    }

    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        Ok(self.0.create(request)?.map(|_| request.granted(Self::TOKEN)))
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.0.exists(name)
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.0.forget(lease)
    }

    fn carry_out(&self, batch: &mut Batch) {
        self.0.carry_out(batch);
        for slot in
            batch.slots_mut().1.iter_mut().filter(|slot| matches!(slot.answer(), Some(Ok(Admitted::Granted(_)))))
        {
            slot.fill(Ok(Admitted::Granted(slot.asked().granted(Self::TOKEN))));
        }
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        let held = self.0.held(names)?.into_iter().map(|held| {
            let holder = held.holder().expect("it has one");
            let one = Holder::new(holder.owner(), Self::TOKEN, holder.host(), holder.since(), holder.until());
            Held::new(held.name().clone(), Some(one.with_occurrence(holder.occurrence())))
        });
        Ok(held.collect())
    }
}

#[test]
fn those_with_equal_tokens_start_one_after_another() {
    let fleet = Fleet::on(OneToken::default(), queue_three);
    let before = [mutex(), place(1)].map(|name| fleet.takes(&name));
    let waiting = [(1, 2), (2, 3)].map(|(number, place)| {
        fleet.end(minute(number));
        let waits = fleet.ticks(minute(number));
        fleet.waits_at(place);
        waits
    });
    for lease in before {
        assert!(fleet.store.forget(&lease).unwrap());
    }
    until(|| waiting.iter().all(JoinHandle::is_finished)).unwrap();
    for report in waiting {
        assert!(ran(&report.join().unwrap(), EVENT).is_success());
    }
}

#[test]
fn what_waits_goes_on_to_wait_through_an_outage_that_is_longer_than_its_term() {
    for policy in POLICIES {
        let (clock, is_out) = (ManualClock::at(noon()), Arc::new(AtomicBool::new(false)));
        let out = Arc::clone(&is_out);
        let store = Scripted::over(MemoryMutex::with_clock(&clock))
            .before(move |call| if out.load(Ordering::SeqCst) { call.times_out() } else { Ok(()) });
        let fleet = Fleet::on(store, move |event| {
            event.every_minute().on_overlap(policy).lease_term(Duration::from_secs(5)).within(DAY)
        });
        let run = fleet.takes(&mutex());
        fleet.end(noon());
        let server = fleet.server().with_clock(&clock);
        let waits = thread::spawn(move || server.run_due(noon()));
        fleet.waits_at(1);
        is_out.store(true, Ordering::SeqCst);
        (0..30).for_each(|_| clock.advance(Duration::from_secs(1)));
        assert!(!waits.is_finished());
        is_out.store(false, Ordering::SeqCst);
        fleet.is_free(&place(1));
        until(|| {
            clock.advance(Duration::from_secs(1));
            fleet.store.exists(&place(1)).unwrap()
        })
        .unwrap();
        fleet.store.forget(&run).unwrap();
        until(|| {
            clock.advance(Duration::from_secs(1));
            waits.is_finished()
        })
        .unwrap();
        assert!(ran(&waits.join().unwrap(), EVENT).is_success());
    }
}

/// Plays a grant that comes after the deadline of its lease. The store does not take its release.
#[test]
fn what_waits_uses_no_grant_that_came_too_late_and_gives_way_to_none() {
    for policy in POLICIES {
        let (clock, is_late) = (ManualClock::at(noon()), Arc::new(AtomicBool::new(false)));
        let (moved, late) = (clock.clone(), Arc::clone(&is_late));
        let refuses = Arc::new(AtomicBool::new(false));
        let was_late = Arc::clone(&refuses);
        let store = Scripted::over(MemoryMutex::with_clock(&clock))
            .before(move |call| match call.verb {
                "release" if refuses.swap(false, Ordering::SeqCst) => call.times_out(),
                _ => Ok(()),
            })
            .after(move |call| {
                if call.is("admit") && call.names == [mutex()] && late.swap(false, Ordering::SeqCst) {
                    was_late.store(true, Ordering::SeqCst);
                    moved.jump(Duration::from_secs(60));
                }
                Ok(())
            });
        let fleet = Fleet::on(store, move |event| {
            event.every_minute().on_overlap(policy).on_outage(OutagePolicy::RunUnprotected).within(DAY)
        });
        let run = fleet.takes(&mutex());
        fleet.end(noon());
        let server = fleet.server().with_clock(&clock);
        let waits = thread::spawn(move || server.run_due(noon()));
        fleet.waits_at(1);
        let seconds_pass = |until_when: &dyn Fn() -> bool| {
            until(|| {
                clock.advance(Duration::from_secs(1));
                until_when()
            })
            .unwrap();
        };
        is_late.store(true, Ordering::SeqCst);
        fleet.store.forget(&run).unwrap();
        let claim = mutex().claim(EVENT, noon());
        seconds_pass(&|| fleet.store.exists(&claim).unwrap());
        (0..30).for_each(|_| clock.advance(Duration::from_secs(1)));
        assert!(!waits.is_finished() && fleet.diary.lines().is_empty(), "{policy:?}: {:?}", fleet.diary.lines());
        fleet.store.break_lease(&claim).unwrap().expect("it is held");
        seconds_pass(&|| waits.is_finished());
        let report = waits.join().unwrap();
        assert!(ran(&report, EVENT).is_success() && ran(&report, EVENT).fencing_token().is_some(), "{report}");
    }
}

#[test]
fn what_waits_delays_no_other_event() {
    let fleet = Fleet::on(MemoryMutex::new(), queue_one);
    let run = fleet.takes(&mutex());
    let schedule = fleet.server();
    schedule.add(Event::call("behind it", fleet.diary.task("behind it")).every_minute()).unwrap();
    fleet.end(minute(0));
    let ticks = thread::spawn(move || schedule.run_due(minute(0)));
    fleet.has_noted("behind it");
    fleet.store.forget(&run).unwrap();
    let report = ticks.join().unwrap();
    assert!(ran(&report, EVENT).is_success() && ran(&report, "behind it").is_success());
    assert_eq!(fleet.diary.lines(), ["behind it", "start 0", "end 0"]);
}

#[test]
fn by_hand_nothing_waits() {
    for policy in POLICIES {
        let fleet = Fleet::on(MemoryMutex::new(), move |event| event.every_minute().on_overlap(policy));
        fleet.takes(&mutex());
        let entry = fleet.server().run_event(EVENT, minute(0)).unwrap();
        assert!(matches!(entry.verdict(), Verdict::Skipped(SkipReason::Overlapping(Some(_)))), "{entry}");
    }
}

#[test]
fn a_queue_that_can_not_be_is_refused() {
    #[track_caller]
    fn is_refused(store: Arc<dyn EventMutex>, setting: fn(Event) -> Event, kind: AddErrorKind, message: &str) {
        let event = setting(Event::call(EVENT, |_| {}));
        let error = Schedule::new(store).add(event).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let memory = || -> Arc<dyn EventMutex> { Arc::new(MemoryMutex::new()) };
    is_refused(memory(), queue_one, AddErrorKind::Missing, "it has an `on_overlap(..)`, but no lease");
    let in_vain: fn(Event) -> Event =
        |event| event.every_minute().without_overlapping().within(Duration::from_secs(60));
    let never = "it has a `within(1m)`, but its occurrences never wait: ";
    let add = format!("{never}add `on_overlap(Overlap::QueueOne)`");
    is_refused(memory(), in_vain, AddErrorKind::Missing, &add);
    let skips: fn(Event) -> Event =
        |event| event.every_minute().without_overlapping().on_overlap(Overlap::Skip).within(Duration::from_secs(60));
    let instead = format!("{never}write `Overlap::QueueOne` instead of `Overlap::Skip`");
    is_refused(memory(), skips, AddErrorKind::Conflict, &instead);
    for places in [0, 101] {
        let setting: fn(Event) -> Event = match places {
            0 => |event| event.every_minute().without_overlapping().on_overlap(Overlap::QueueAll(0)),
            _ => |event| event.every_minute().without_overlapping().on_overlap(Overlap::QueueAll(101)),
        };
        let message = format!("`Overlap::QueueAll({places})`: use 1 to 100");
        is_refused(memory(), setting, AddErrorKind::OutOfRange, &message);
    }
    let too_long: fn(Event) -> Event =
        |event| queue_one(event.without_overlapping()).within(Duration::from_secs(86_401));
    is_refused(memory(), too_long, AddErrorKind::OutOfRange, "`within(86401s)`: use 1s to 1d");
    let fixed = Scripted::default().three_methods();
    let with_fixed_term: fn(Event) -> Event =
        |event| queue_one(event.without_overlapping_for(Duration::from_secs(600)));
    is_refused(Arc::new(fixed), with_fixed_term, AddErrorKind::Store, "an occurrence can't wait in a queue");
}

#[test]
fn what_waits_starts_when_the_lease_of_a_killed_server_has_ended() {
    for policy in POLICIES {
        let clock = ManualClock::at(noon());
        let fleet = Fleet::on(MemoryMutex::with_clock(&clock), move |event| event.every_minute().on_overlap(policy));
        let term = Term::new(Duration::from_secs(30)).unwrap();
        fleet.store.create(&LeaseRequest::new(mutex(), term, &fleet.store.clock())).unwrap().expect("it is free");
        fleet.end(noon());
        let server = fleet.server().with_clock(&clock);
        let waits = thread::spawn(move || server.run_due(noon()));
        fleet.waits_at(1);
        for _ in 0..29 {
            clock.advance(Duration::from_secs(1));
        }
        assert_eq!(fleet.diary.lines(), [""; 0]);
        clock.advance(Duration::from_secs(3));
        assert!(ran(&waits.join().unwrap(), EVENT).is_success());
    }
}

#[test]
fn a_period_that_is_used_up_is_not_waited_for_in_vain() {
    for policy in POLICIES {
        let fleet =
            Fleet::on(MemoryMutex::new(), move |event| event.every_minute().on_overlap(policy).once_per(Period::Hour));
        let first = fleet.ticks(minute(0));
        fleet.has_noted("start 0");
        let second = fleet.ticks(minute(1)).join().unwrap();
        assert!(matches!(skipped(&second, EVENT), SkipReason::RanElsewhere(Some(_))), "{second}");
        fleet.end(minute(0));
        assert!(ran(&first.join().unwrap(), EVENT).is_success());
        // The lease is held by another run, and its period is still free.
        let run = fleet.takes(&mutex());
        let waits = fleet.ticks(minute(60));
        fleet.waits_at(1);
        fleet.takes(&mutex().permit(EVENT, "hour@2026-03-01T13+00:00"));
        fleet.store.forget(&run).unwrap();
        let report = waits.join().unwrap();
        assert!(matches!(skipped(&report, EVENT), SkipReason::RanElsewhere(Some(_))), "{report}");
    }
}

#[test]
fn what_waits_is_not_missed() {
    for policy in POLICIES {
        let fleet = Fleet::on(MemoryMutex::new(), move |event| {
            event.hourly().on_overlap(policy).catch_up(Duration::from_secs(1800))
        });
        fleet.end(noon());
        fleet.end(minute(-60));
        assert!(
            ran(&fleet.ticks(minute(-60)).join().unwrap(), EVENT).is_success(),
            "the store knows the event from here on"
        );
        let run = fleet.takes(&mutex());
        let waits = fleet.ticks(noon());
        fleet.waits_at(1);
        assert!(fleet.server().run_due(minute(5)).entries().is_empty(), "somebody waits with it");
        fleet.store.forget(&run).unwrap();
        assert!(ran(&waits.join().unwrap(), EVENT).is_success());
        assert!(fleet.server().run_due(minute(6)).entries().is_empty(), "it has run");
    }
}

#[test]
fn events_that_share_a_mutex_share_its_queue() {
    let fleet = Fleet::on(MemoryMutex::new(), |event| queue_one(event).mutex_name("warehouse"));
    let warehouse = MutexName::lease("warehouse").unwrap();
    let place = warehouse.mark("warehouse", "queue 1");
    let run = fleet.takes(&warehouse);
    fleet.end(minute(0));
    let waits = fleet.ticks(minute(0));
    until(|| holder(&*fleet.store, &place).is_some()).unwrap();
    let schedule = Schedule::new(Arc::clone(&fleet.store));
    let export = queue_one(Event::call("export", |_| {})).mutex_name("warehouse").without_overlapping();
    schedule.add(export).unwrap();
    let report = schedule.run_due(minute(0));
    assert!(matches!(skipped(&report, "export"), SkipReason::QueueFull(Some(_))), "{report}");
    fleet.store.forget(&run).unwrap();
    assert!(ran(&waits.join().unwrap(), EVENT).is_success());
    assert!(ran(&schedule.run_due(minute(1)), "export").is_success());
}
