//! A schedule that is changed while it runs: an occurrence belongs to the event that the schedule had at its time, and runs once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use fastrand::Rng;
use soloist::observe::{Notice, OutcomeKind, Step};
use soloist::time::{Clock, ManualClock};
use soloist::{Event, MemoryMutex, Run, Schedule, Shutdown, SkipReason};

use crate::support::{noon, ran, skipped, until};

const CHANGES: usize = 1_000;

/// An occurrence that ran: the event's name, the number of its definition, the instant.
type Occurred = (String, usize, DateTime<Utc>);

#[derive(Clone, Default)]
struct Ran(Arc<Mutex<Vec<Occurred>>>);

impl Ran {
    fn note(&self, run: &Run, number: usize) {
        self.0.lock().unwrap().push((run.name().to_owned(), number, run.occurrence()));
    }

    fn task(&self, number: usize) -> impl Fn(&Run) + Send + Sync + use<> {
        let ran = self.clone();
        move |run| ran.note(run, number)
    }

    /// Returns what ran, in the order of names, definitions and times.
    fn sorted(&self) -> Vec<Occurred> {
        let mut ran = self.0.lock().unwrap().clone();
        ran.sort();
        ran
    }

    fn times_of(&self, name: &str) -> BTreeSet<DateTime<Utc>> {
        self.0.lock().unwrap().iter().filter(|(ran, ..)| ran == name).map(|(.., at)| *at).collect()
    }
}

/// A definition, and the time for which the schedule had it.
struct Lived {
    name: &'static str,
    seconds: i64,
    from: DateTime<Utc>,
    until: Option<DateTime<Utc>>,
}

impl Lived {
    /// Returns the occurrences after the begin of its time, up to the end.
    fn occurrences(&self, end: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
        let (first, last) = (self.from.timestamp() + 1, self.until.unwrap_or(end).timestamp());
        let due = (first..=last).filter(|second| second % self.seconds == 0);
        due.map(|second| DateTime::from_timestamp(second, 0).unwrap())
    }
}

/// Returns an event that is due every so many seconds.
fn every(event: Event, seconds: i64) -> Event {
    match seconds {
        10 => event.every_ten_seconds(),
        15 => event.every_fifteen_seconds(),
        30 => event.every_thirty_seconds(),
        60 => event.every_minute(),
        _ => event.every_two_minutes(),
    }
}

/// Starts a loop on a clock of its own, and returns when it has begun.
pub(crate) fn start(schedule: &Schedule, shutdown: &Shutdown) -> thread::JoinHandle<()> {
    let begun = Arc::new(AtomicBool::new(false));
    let watch = Arc::clone(&begun);
    let schedule = schedule.clone().observe(move |notice: &Notice<'_>| {
        if matches!(notice.step(), Step::LoopAlive) {
            watch.store(true, Ordering::Relaxed);
        }
    });
    let shutdown = shutdown.clone();
    let running = thread::spawn(move || schedule.work(&shutdown));
    until(|| begun.load(Ordering::Relaxed)).expect("the loop begins");
    running
}

#[test]
fn a_thousand_changes_of_a_running_schedule_lose_no_occurrence_and_repeat_none() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let (shutdown, done) = (Shutdown::new(), Ran::default());
    let running = start(&schedule, &shutdown);
    let mut lived: Vec<Lived> = Vec::new();
    for number in 0..CHANGES {
        let name = ["a", "b", "c", "d", "e"][random.usize(..5)];
        let seconds = [10, 15, 30, 60, 120][random.usize(..5)];
        let known = lived.iter_mut().find(|known| known.name == name && known.until.is_none());
        let is_known = known.is_some();
        if let Some(known) = known {
            known.until = Some(clock.now());
        }
        if is_known && random.u8(..) < 64 {
            assert!(schedule.remove(name));
        } else {
            let event = every(Event::call(name, done.task(lived.len())), seconds);
            if !is_known && random.bool() {
                schedule.add(event).unwrap();
            } else {
                assert_eq!(schedule.replace(event).unwrap(), is_known, "change {number}, seed {seed}");
            }
            lived.push(Lived { name, seconds, from: clock.now(), until: None });
        }
        let to_next = 10_000 - clock.now().timestamp_millis().rem_euclid(10_000);
        let pass = [0, random.u64(..100), random.u64(..30_000), to_next.unsigned_abs()][random.usize(..4)];
        clock.advance(Duration::from_millis(pass));
    }
    // Past the last delay.
    let end = clock.now();
    for known in lived.iter_mut().filter(|known| known.until.is_none()) {
        assert!(schedule.remove(known.name));
        known.until = Some(end);
    }
    clock.advance(Duration::from_secs(60));
    let of = |(number, lived): (usize, &Lived)| {
        lived.occurrences(end).map(|at| (lived.name.to_owned(), number, at)).collect::<Vec<_>>()
    };
    let mut expected: Vec<_> = lived.iter().enumerate().flat_map(of).collect();
    expected.sort();
    let all = until(|| done.0.lock().unwrap().len() >= expected.len());
    shutdown.trigger();
    running.join().unwrap();
    let found = done.sorted();
    let lost: Vec<_> = expected.iter().filter(|run| !found.contains(run)).collect();
    assert!(all.is_ok() && lost.is_empty(), "lost with the seed {seed}: {lost:?}");
    assert_eq!(found, expected, "seed {seed}");
}

/// Changes a schedule at random while `work` runs it in real time. All of its events are due at each second. `control` is never
/// changed; of the seconds at which it ran, each of the others has to run at those of its time.
fn change_in_real_time<W: Send + 'static>(
    schedule: &Schedule,
    event: impl Fn(&'static str, usize, &Ran) -> Event,
    work: impl FnOnce(Schedule, Shutdown) -> W + Send + 'static,
) {
    const REPLACED: [&str; 3] = ["a", "b", "c"];
    let mut random = Rng::new();
    let (shutdown, done) = (Shutdown::new(), Ran::default());
    let define = |name, number| event(name, number, &done).every_second();
    for name in ["control"].into_iter().chain(REPLACED) {
        schedule.add(define(name, 0)).unwrap();
    }
    let running = thread::spawn({
        let (schedule, shutdown) = (schedule.clone(), shutdown.clone());
        move || work(schedule, shutdown)
    });
    until(|| !done.times_of("control").is_empty()).unwrap();
    let now = || Clock::system().now();
    // The times of the guest: just before and just after it was added, and just before and just after it was removed.
    let mut times: Vec<[DateTime<Utc>; 4]> = Vec::new();
    let mut added: Option<[DateTime<Utc>; 2]> = None;
    for number in 1..=CHANGES {
        let before = now();
        match (random.usize(..4), added) {
            (0, None) => {
                schedule.add(define("guest", times.len())).unwrap();
                added = Some([before, now()]);
            }
            (0, Some([from, since])) => {
                assert!(schedule.remove("guest"));
                times.push([from, since, before, now()]);
                added = None;
            }
            (which, _) => assert!(schedule.replace(define(REPLACED[which - 1], number)).unwrap()),
        }
        thread::sleep(Duration::from_millis(random.u64(..8))); // the time between two changes
    }
    if let Some([from, since]) = added {
        let before = now();
        assert!(schedule.remove("guest"));
        times.push([from, since, before, now()]);
    }
    let end = done.times_of("control").into_iter().max().unwrap();
    let control = || done.times_of("control").range(..=end).copied().collect::<BTreeSet<_>>();
    let have_ended = || REPLACED.iter().all(|name| control().is_subset(&done.times_of(name)));
    let ended = until(|| have_ended() && done.times_of("control").range(end + TimeDelta::seconds(1)..).count() > 0);
    // A tick comes to the guest last, and the shutdown skips runs that have not begun. Missing runs are found below.
    let of_guest = |number: usize| -> BTreeSet<_> {
        done.sorted().into_iter().filter(|run| run.0 == "guest" && run.1 == number).map(|run| run.2).collect()
    };
    let has_run = |(number, [_, since, before, _]): (usize, &[DateTime<Utc>; 4])| {
        let own = of_guest(number);
        control().iter().filter(|at| since < *at && *at <= before).all(|at| own.contains(at))
    };
    let _ = until(|| times.iter().enumerate().all(has_run));
    shutdown.trigger();
    running.join().unwrap();
    ended.expect("each second runs");
    let mut counts: BTreeMap<(String, DateTime<Utc>), usize> = BTreeMap::new();
    for (name, _, at) in done.sorted() {
        *counts.entry((name, at)).or_default() += 1;
    }
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "run twice: {twice:?}");
    let guests: Vec<_> = done.sorted().into_iter().filter(|(name, ..)| name == "guest").collect();
    for (number, [from, since, before, gone]) in times.into_iter().enumerate() {
        let own: BTreeSet<_> = guests.iter().filter(|guest| guest.1 == number).map(|guest| guest.2).collect();
        assert!(own.iter().all(|at| from < *at && *at <= gone), "{own:?} of {from} to {gone}");
        let its_own: Vec<_> = control().into_iter().filter(|at| since < *at && *at <= before).collect();
        assert!(its_own.iter().all(|at| own.contains(at)), "{own:?} of {its_own:?}");
    }
}

#[test]
fn a_thousand_changes_in_real_time_lose_no_occurrence_and_repeat_none() {
    let event = |name, number, ran: &Ran| Event::call(name, ran.task(number));
    change_in_real_time(&Schedule::in_process(), event, |schedule, shutdown| schedule.work(&shutdown));
}

#[cfg(feature = "tokio")]
#[test]
fn a_thousand_changes_beside_the_loop_of_a_runtime_lose_no_occurrence_and_repeat_none() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let spawn = |name, number, ran: &Ran| {
        let ran = ran.clone();
        let task = move |run: Run| {
            let ran = ran.clone();
            async move { ran.note(&run, number) }
        };
        Event::spawn(name, task)
    };
    let handle = runtime.handle().clone();
    let schedule = Schedule::in_process().with_runtime(handle.clone());
    change_in_real_time(&schedule, spawn, move |schedule, shutdown| handle.block_on(schedule.work_async(&shutdown)));
}

#[test]
fn a_thousand_changes_between_ticks_are_seen_by_the_next_one() {
    let mut random = Rng::new();
    let (schedule, done) = (Schedule::in_process(), Ran::default());
    let (mut known, mut expected) = (BTreeMap::new(), Vec::new());
    for number in 0..CHANGES {
        let name = ["a", "b", "c"][random.usize(..3)];
        if random.u8(..) < 64 {
            assert_eq!(schedule.remove(name), known.remove(name).is_some());
        } else {
            let event = Event::call(name, done.task(number)).every_minute();
            assert_eq!(schedule.replace(event).unwrap(), known.insert(name, number).is_some());
        }
        if random.bool() {
            let minute = noon() + TimeDelta::minutes(i64::try_from(number).unwrap());
            assert_eq!(schedule.run_due(minute).entries().len(), known.len());
            expected.extend(known.iter().map(|(name, number)| ((*name).to_owned(), *number, minute)));
        }
    }
    expected.sort();
    assert_eq!(done.sorted(), expected);
}

#[test]
fn a_replaced_event_keeps_its_place_its_history_and_its_run() {
    let (begun, begins) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let ends = Mutex::new(ends);
    let task = move |_: &Run| {
        begun.send(()).unwrap();
        let _ = ends.lock().unwrap().recv(); // until the test lets it end
    };
    let schedule = Schedule::in_process().with_run_log(10).unwrap();
    schedule.add(Event::call("first", task).every_minute().without_overlapping()).unwrap();
    schedule.add(Event::call("last", |_| {}).yearly()).unwrap();
    let replaced = || Event::call("first", |_| Err("no ink".into())).hourly().without_overlapping();
    thread::scope(|scope| {
        let first = scope.spawn(|| schedule.run_due(noon()));
        begins.recv().unwrap();
        assert!(schedule.replace(replaced()).unwrap());
        let status = schedule.status();
        assert_eq!(status.events.iter().map(|event| &*event.name).collect::<Vec<_>>(), ["first", "last"]);
        assert_eq!(status.events[0].running.len(), 1, "the run of the old event is running");
        let report = schedule.run_due(noon() + TimeDelta::hours(1));
        assert!(matches!(skipped(&report, "first"), SkipReason::Overlapping(_)), "{report}");
        drop(end);
        assert!(ran(&first.join().unwrap(), "first").is_success(), "it ends in peace");
    });
    let of_first = || schedule.status().events.swap_remove(0);
    assert_eq!(of_first().last_run.map(|run| run.result), Some(OutcomeKind::Succeeded));
    let _ = schedule.run_due(noon() + TimeDelta::hours(2));
    let status = of_first();
    assert_eq!(status.last_run.map(|run| run.occurrence), Some(noon() + TimeDelta::hours(2)));
    assert_eq!(status.last_success.map(|run| run.occurrence), Some(noon()), "it is that of the old event");
    assert_eq!(schedule.runs("first").unwrap().len(), 2);
    // An event that was removed has no history any more.
    assert!(schedule.remove("first"));
    assert!(!schedule.replace(replaced()).unwrap());
    assert!(schedule.status().event("first").unwrap().last_run.is_none());
}

#[test]
fn a_wrong_event_replaces_nothing() {
    let schedule = Schedule::in_process();
    let shared = |name: &'static str, count| Event::call(name, |_| {}).hourly().mutex_name("shared").at_most(count);
    schedule.add(shared("a", 2)).unwrap();
    assert!(schedule.replace(shared("a", 3)).unwrap(), "its own number of runs counts no more");
    schedule.add(shared("b", 3)).unwrap();
    let error = schedule.replace(shared("b", 2)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "event `b`: the mutex \"shared\" is shared, but this event allows 2 at a time, and the event `a` allows 3: use \
         one number in `at_most(..)` for all events that share the mutex, and leave `without_overlapping()` out"
    );
    assert!(schedule.replace(Event::call("a", |_| {}).cron("no times")).is_err());
    assert_eq!(schedule.event("a").unwrap().timetable(), "hourly");
    assert!(schedule.remove("a"));
    assert!(schedule.replace(shared("b", 2)).unwrap(), "the number of an event that was removed counts no more");
}
