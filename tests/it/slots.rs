//! Up to so many runs at a time, over all servers: each holds a slot of its own.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::store::LeaseRequest;
use soloist::time::ManualClock;
use soloist::{
    AddErrorKind, Event, EventMutex, FileMutex, MemoryMutex, MutexName, Overlap, Report, Run, Schedule, SkipReason,
    TaskResult, Term, Verdict,
};

use crate::scripted::Scripted;
use crate::support::{HOUR, noon, ran, skipped, until};

const EVENT: &str = "resize";
const SLOTS: usize = 3;

fn minute(number: i64) -> DateTime<Utc> {
    noon() + TimeDelta::minutes(number)
}

fn slot(number: usize) -> MutexName {
    let lease = MutexName::lease(EVENT).unwrap();
    if number == 0 { lease } else { lease.mark(EVENT, format!("slot {number}")) }
}

/// The runs at one time.
#[derive(Clone, Default)]
struct Crowd {
    slots: Arc<Mutex<BTreeSet<usize>>>,
    most: Arc<AtomicUsize>,
    runs: Arc<AtomicUsize>,
    may_end: Arc<AtomicUsize>,
}

impl Crowd {
    /// Returns an event whose task ends when so many have begun.
    fn event(&self, begun: usize) -> Event {
        let crowd = self.clone();
        Event::call(EVENT, move |run: &Run| -> TaskResult {
            let slot = run.slot().expect("it has one");
            let mut slots = crowd.slots.lock().unwrap();
            assert!(slots.insert(slot) && slot < SLOTS, "slot {slot} is free, of {slots:?}");
            crowd.most.fetch_max(slots.len(), Ordering::SeqCst);
            drop(slots);
            crowd.runs.fetch_add(1, Ordering::SeqCst);
            let ends = until(|| {
                crowd.runs.load(Ordering::SeqCst) >= begun
                    || crowd.may_end.load(Ordering::SeqCst) > 0
                    || run.is_cancelled()
            });
            crowd.slots.lock().unwrap().remove(&slot);
            ends
        })
        .every_minute()
        .at_most(SLOTS)
    }
}

fn server(store: &Arc<dyn EventMutex>, event: Event) -> Schedule {
    let schedule = Schedule::new(Arc::clone(store));
    schedule.add(event).unwrap();
    schedule
}

/// Lets eight servers tick eight occurrences: three run, and five meet them.
fn three_of_eight_run(store: impl EventMutex + 'static, setting: fn(Event) -> Event) {
    let store: Arc<dyn EventMutex> = Arc::new(store);
    let crowd = Crowd::default();
    let ticks: Vec<_> = (0..8)
        .map(|number| {
            let server = server(&store, setting(crowd.event(usize::MAX)));
            thread::spawn(move || server.run_due(minute(number)))
        })
        .collect();
    let are_at_work = || crowd.runs.load(Ordering::SeqCst) == SLOTS;
    until(|| are_at_work() && ticks.iter().filter(|tick| tick.is_finished()).count() == 5).unwrap();
    crowd.may_end.store(1, Ordering::SeqCst);
    let reports: Vec<Report> = ticks.into_iter().map(|tick| tick.join().unwrap()).collect();
    let ran = reports.iter().filter(|report| matches!(report.entries()[0].verdict(), Verdict::Ran(_))).count();
    assert_eq!((ran, crowd.most.load(Ordering::SeqCst)), (SLOTS, SLOTS));
    for report in &reports {
        match report.entries()[0].verdict() {
            Verdict::Ran(outcome) => assert!(outcome.is_success() && !report.is_failure(), "{report}"),
            Verdict::Skipped(SkipReason::Overlapping(Some(_))) => {}
            Verdict::Skipped(other) => panic!("{other}"),
        }
    }
    for number in 0..SLOTS {
        assert!(!store.exists(&slot(number)).unwrap(), "slot {number} was given back");
    }
}

/// Tries a store with each of the other protections.
fn on(open: impl Fn() -> Arc<dyn EventMutex>) {
    three_of_eight_run(open(), |event| event);
    three_of_eight_run(open(), Event::on_one_server);
}

#[test]
fn in_memory_as_many_run_as_may() {
    on(|| Arc::new(MemoryMutex::new()));
}

#[test]
fn on_a_file_store_as_many_run_as_may() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let next = AtomicUsize::new(0);
    on(|| Arc::new(FileMutex::in_dir(folders[next.fetch_add(1, Ordering::SeqCst)].path()).unwrap()));
}

#[cfg(feature = "redis")]
#[test]
fn on_redis_as_many_run_as_may() {
    use crate::servers::redis::Redis;
    for start in [Redis::start, Redis::cluster_node] {
        let servers = std::cell::RefCell::new(Vec::new());
        on(|| {
            let server = start();
            let store = soloist::RedisMutex::builder(&server.url()).timeout(crate::support::PATIENCE).build().unwrap();
            servers.borrow_mut().push(server);
            Arc::new(store)
        });
    }
}

#[cfg(feature = "mysql")]
#[test]
fn on_mariadb_as_many_run_as_may() {
    let server = crate::servers::mariadb::Mariadb::start();
    let next = AtomicUsize::new(0);
    on(|| {
        let table = format!("soloist_{}", next.fetch_add(1, Ordering::SeqCst));
        let builder = soloist::MysqlMutex::builder(&server.url()).table(&table);
        let store = builder.timeout(crate::support::PATIENCE).build().unwrap();
        store.create_table().unwrap();
        Arc::new(store)
    });
}

#[cfg(feature = "postgres")]
#[test]
fn on_postgres_as_many_run_as_may() {
    let server = crate::servers::postgres::Postgres::start();
    let next = AtomicUsize::new(0);
    on(|| {
        let table = format!("soloist_{}", next.fetch_add(1, Ordering::SeqCst));
        let builder = soloist::PostgresMutex::builder(&server.url()).table(&table);
        let store = builder.timeout(crate::support::PATIENCE).build().unwrap();
        store.create_table().unwrap();
        Arc::new(store)
    });
}

#[test]
fn an_occurrence_starts_on_one_server_though_there_are_slots() {
    let store: Arc<dyn EventMutex> = Arc::new(MemoryMutex::new());
    let crowd = Crowd::default();
    let ticks: Vec<_> = (0..8)
        .map(|_| {
            let server = server(&store, crowd.event(1).on_one_server());
            thread::spawn(move || server.run_due(noon()))
        })
        .collect();
    for tick in ticks {
        let report = tick.join().unwrap();
        match report.entries()[0].verdict() {
            Verdict::Ran(_) | Verdict::Skipped(SkipReason::RanElsewhere(Some(_))) => {}
            other @ Verdict::Skipped(_) => panic!("{other:?}"),
        }
    }
    assert_eq!(crowd.runs.load(Ordering::SeqCst), 1);
}

#[test]
fn all_slots_are_tried_in_one_request_and_the_first_that_is_free_is_taken() {
    let store = Scripted::fleet();
    let shared: Arc<dyn EventMutex> = Arc::new(store.clone());
    let take = |number| {
        let request = LeaseRequest::new(slot(number), Term::MAX, &shared.clock());
        shared.create(&request).unwrap().expect("it is free")
    };
    let taken = [take(0), take(1)];
    let server =
        server(&shared, Event::call(EVENT, |run: &Run| assert_eq!(run.slot(), Some(2))).every_minute().at_most(SLOTS));
    let before = store.calls();
    assert!(ran(&server.run_due(noon()), EVENT).is_success());
    assert_eq!(store.calls() - before, 2, "what was admitted, and given back");
    take(2);
    assert!(matches!(skipped(&server.run_due(minute(1)), EVENT), SkipReason::Overlapping(Some(_))));
    assert!(shared.forget(&taken[0]).unwrap());
    let entry = server.run_event(EVENT, noon()).unwrap();
    let Verdict::Ran(outcome) = entry.verdict() else { panic!("by hand too: {entry}") };
    assert!(outcome.to_string().contains("panicked"), "its slot is 0: {outcome}");
    assert!(!shared.exists(&slot(0)).unwrap());
}

#[test]
fn events_that_share_a_mutex_share_its_slots() {
    let store: Arc<dyn EventMutex> = Arc::new(MemoryMutex::new());
    let crowd = Crowd::default();
    let schedule = Schedule::new(Arc::clone(&store));
    for number in 0..5 {
        let crowd = crowd.clone();
        let task = move |run: &Run| -> TaskResult {
            crowd.slots.lock().unwrap().insert(run.slot().unwrap());
            until(|| crowd.may_end.load(Ordering::SeqCst) > 0)
        };
        let event = Event::call(format!("import-{number}"), task).every_minute().mutex_name("warehouse");
        schedule.add(event.at_most(SLOTS).in_background()).unwrap();
    }
    let ticks = thread::spawn({
        let schedule = schedule.clone();
        move || schedule.run_due(noon())
    });
    until(|| crowd.slots.lock().unwrap().len() == SLOTS).unwrap();
    crowd.may_end.store(1, Ordering::SeqCst);
    let report = ticks.join().unwrap();
    let skips = report.entries().iter().filter(|entry| matches!(entry.verdict(), Verdict::Skipped(_))).count();
    assert_eq!(skips, 2, "{report}");
}

#[test]
fn the_slot_of_a_killed_server_comes_back_with_its_term_and_a_run_renews_its_own() {
    let clock = ManualClock::at(noon());
    let store: Arc<dyn EventMutex> = Arc::new(MemoryMutex::with_clock(&clock));
    let term = Term::new(Duration::from_secs(60)).unwrap();
    for number in 0..SLOTS {
        store.create(&LeaseRequest::new(slot(number), term, &store.clock())).unwrap().expect("it is free");
    }
    let crowd = Crowd::default();
    let first = server(&store, crowd.event(usize::MAX)).with_clock(&clock);
    assert!(matches!(skipped(&first.run_due(minute(0)), EVENT), SkipReason::Overlapping(Some(_))));
    clock.advance(Duration::from_secs(61));
    let runs = thread::spawn(move || first.run_due(minute(1)));
    until(|| crowd.runs.load(Ordering::SeqCst) == 1).unwrap();
    clock.advance(Duration::from_secs(600));
    assert!(store.exists(&slot(0)).unwrap());
    crowd.may_end.store(1, Ordering::SeqCst);
    assert!(ran(&runs.join().unwrap(), EVENT).is_success());
}

#[test]
fn a_slot_is_held_as_long_as_it_should_be() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn EventMutex>; 2] =
        [Arc::new(MemoryMutex::new()), Arc::new(FileMutex::in_dir(folder.path()).unwrap())];
    for store in stores {
        let event = Event::call(EVENT, |_| {}).every_minute().at_most(1).hold_at_least(Duration::from_secs(59));
        let server = server(&store, event);
        assert!(ran(&server.run_due(minute(0)), EVENT).is_success());
        assert!(matches!(skipped(&server.run_due(minute(1)), EVENT), SkipReason::Overlapping(Some(_))));
    }
}

#[test]
fn who_waits_in_a_queue_takes_the_first_slot_that_is_free() {
    let store: Arc<dyn EventMutex> = Arc::new(MemoryMutex::new());
    let taken: Vec<_> = (0..SLOTS)
        .map(|number| store.create(&LeaseRequest::new(slot(number), Term::MAX, &store.clock())).unwrap().unwrap())
        .collect();
    let event = Event::call(EVENT, |run: &Run| assert_eq!(run.slot(), Some(1))).every_minute().at_most(SLOTS);
    let server = server(&store, event.on_overlap(Overlap::QueueOne));
    let waits = thread::spawn(move || server.run_due(noon()));
    until(|| store.exists(&MutexName::lease(EVENT).unwrap().mark(EVENT, "queue 1")).unwrap()).unwrap();
    assert!(!waits.is_finished());
    store.forget(&taken[1]).unwrap();
    let report = waits.join().unwrap();
    assert!(ran(&report, EVENT).is_success(), "{report}");
}

/// Lets as many ask as may run at a time, so that slots that become free at once are taken at once.
#[test]
fn the_first_of_those_who_wait_ask_for_the_slots_and_the_others_read() {
    let clock = ManualClock::at(noon());
    let scripted = Scripted::over(MemoryMutex::with_clock(&clock));
    let store: Arc<dyn EventMutex> = Arc::new(scripted.clone());
    let taken: Vec<_> = (0..SLOTS)
        .map(|number| store.create(&LeaseRequest::new(slot(number), Term::MAX, &store.clock())).unwrap().unwrap())
        .collect();
    let crowd = Crowd::default();
    let waiting: Vec<_> = (0..=SLOTS)
        .map(|number| {
            let event = crowd.event(SLOTS).on_overlap(Overlap::QueueAll(5)).within(24 * HOUR);
            let server = server(&store, event);
            let waits = thread::spawn(move || server.run_due(minute(number.try_into().unwrap())));
            // Each waiter reads the queue, takes a place, and reads whether it is the first.
            until(|| scripted.asked(&["held"]).len() == 2 * (number + 1)).unwrap();
            waits
        })
        .collect();
    let slots_asked_for = || scripted.admissions().into_iter().filter(|asked| *asked == SLOTS).count();
    let counted = |seconds| {
        let (asked, read) = (slots_asked_for(), scripted.asked(&["held"]).len());
        clock.advance(Duration::from_secs(seconds));
        (slots_asked_for() - asked, scripted.asked(&["held"]).len() - read)
    };
    until(|| matches!(counted(1), (SLOTS.., 1..))).unwrap();
    let (asked, read) = counted(10);
    assert!(
        (9 * SLOTS..=12 * SLOTS).contains(&asked) && (9..=12).contains(&read),
        "{asked} asked, {read} read in 10 s"
    );
    for lease in &taken {
        assert!(store.forget(lease).unwrap());
    }
    until(|| {
        clock.advance(Duration::from_secs(1));
        waiting.iter().all(thread::JoinHandle::is_finished)
    })
    .unwrap();
    assert_eq!(crowd.most.load(Ordering::SeqCst), SLOTS);
    for waits in waiting {
        assert!(ran(&waits.join().unwrap(), EVENT).is_success());
    }
}

#[test]
fn a_number_of_runs_that_can_not_be_is_refused() {
    #[track_caller]
    fn is_refused(settings: &[fn(Event) -> Event], kind: AddErrorKind, message: &str) {
        let schedule = Schedule::in_process();
        let named = |number: usize| Event::call(format!("event {number}"), |_| {}).every_minute();
        let mut added =
            settings.iter().enumerate().map(|(number, setting)| schedule.add(setting(named(number))).map(|_| ()));
        let error = added.find_map(Result::err).expect("one is refused");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    is_refused(&[|event| event.at_most(0)], AddErrorKind::OutOfRange, "`at_most(0)`: use 1 to 100");
    is_refused(&[|event| event.at_most(101)], AddErrorKind::OutOfRange, "`at_most(101)`: use 1 to 100");
    let fixed: fn(Event) -> Event = |event| event.at_most(2).without_overlapping_for(Duration::from_secs(9));
    is_refused(&[fixed], AddErrorKind::Conflict, "whose lease is renewed, and a `without_overlapping_for(..)`");
    let [one_replaces, replaces]: [fn(Event) -> Event; 2] =
        [|event| event.at_most(1).on_overlap(Overlap::Replace), |event| event.at_most(2).on_overlap(Overlap::Replace)];
    let which =
        "event `event 1`: it has an `at_most(..)`, and an `Overlap::Replace`, which can't tell which of several runs";
    is_refused(&[one_replaces, replaces], AddErrorKind::Conflict, which);
    let two: fn(Event) -> Event = |event| event.at_most(2).mutex_name("warehouse");
    let three: fn(Event) -> Event = |event| event.at_most(3).mutex_name("warehouse");
    let one: fn(Event) -> Event = |event| event.without_overlapping().mutex_name("warehouse");
    let (allows_three, allows_one) = (
        "allows 3 at a time, and the event `event 0` allows 2",
        "allows 1 at a time, and the event `event 0` allows 2",
    );
    for (other, message) in [(three, allows_three), (one, allows_one)] {
        is_refused(&[two, two, other], AddErrorKind::Conflict, message);
    }
    let fixed = Scripted::default().three_methods();
    let error = Schedule::new(fixed).add(Event::call(EVENT, |_| {}).every_minute().at_most(2)).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), AddErrorKind::Store, "{error}");
    assert!(error.to_string().contains("it can't extend a lease"), "{error}");
}

#[test]
fn who_says_one_is_one_of_those_who_say_several() {
    let store: Arc<dyn EventMutex> = Arc::new(MemoryMutex::new());
    let crowd = Crowd::default();
    let several = server(&store, crowd.event(usize::MAX));
    let runs = thread::spawn(move || several.run_due(minute(0)));
    until(|| crowd.runs.load(Ordering::SeqCst) == 1).unwrap();
    // As before the deploy that allows several.
    let alone = server(
        &store,
        Event::call(EVENT, |run: &Run| assert_eq!(run.slot(), Some(0))).every_minute().without_overlapping(),
    );
    assert!(matches!(skipped(&alone.run_due(minute(1)), EVENT), SkipReason::Overlapping(Some(_))));
    crowd.may_end.store(1, Ordering::SeqCst);
    assert!(ran(&runs.join().unwrap(), EVENT).is_success());
    assert!(ran(&alone.run_due(minute(2)), EVENT).is_success());
    let both = Schedule::new(Arc::clone(&store));
    both.add(Event::call("a", |_| {}).every_minute().at_most(1).mutex_name("m")).unwrap();
    both.add(Event::call("b", |_| {}).every_minute().without_overlapping().mutex_name("m")).unwrap();
}

#[cfg(unix)]
#[test]
fn a_command_knows_its_slot() {
    let schedule = Schedule::in_process();
    let event = Event::exec(EVENT, "test \"$SOLOIST_SLOT\" = 0").every_minute().at_most(2);
    schedule.add(event).unwrap();
    schedule.add(Event::exec("alone", "test -z \"$SOLOIST_SLOT\"").every_minute()).unwrap();
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{report}");
}
