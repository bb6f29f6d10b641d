//! An occurrence that replaces a run, and never overlaps with it if the run can be stopped.

use soloist::{CancelReason, MemoryMutex, RunOutcome};

use super::*;

/// A fleet whose tasks end only when the test ends them, and note their cancellation.
struct Stubborn(Fleet);

impl Stubborn {
    fn on(store: impl EventMutex + 'static, setting: impl Fn(Event) -> Event + Send + Sync + 'static) -> Self {
        Self(Fleet::on(store, setting))
    }

    fn server(&self) -> Schedule {
        let fleet = self.0.clone();
        let schedule = Schedule::new(Arc::clone(&fleet.store));
        let setting = Arc::clone(&fleet.setting);
        let task = move |run: &Run| -> TaskResult {
            let minutes = (run.occurrence() - noon()).num_minutes();
            fleet.diary.note(format!("start {minutes}"));
            until(|| run.is_cancelled() || fleet.ended.lock().unwrap().contains(&run.occurrence()))?;
            if let Some(reason) = run.cancel_reason() {
                fleet.diary.note(format!("{minutes} is told: {}", reason.keyword()));
            }
            until(|| fleet.ended.lock().unwrap().contains(&run.occurrence()))?;
            fleet.diary.note(format!("end {minutes}"));
            Ok(())
        };
        schedule.add(setting(Event::call(EVENT, task)).without_overlapping()).unwrap();
        schedule
    }

    fn ticks(&self, now: DateTime<Utc>) -> JoinHandle<Report> {
        let server = self.server();
        thread::spawn(move || server.run_due(now))
    }
}

/// Lets seconds pass until then.
fn seconds_until(clock: &ManualClock, is_over: impl Fn() -> bool) {
    until(|| {
        let is_over = is_over();
        if !is_over {
            clock.advance(Duration::from_secs(1));
        }
        is_over
    })
    .unwrap();
}

fn cancellation(token: u64) -> MutexName {
    mutex().mark(EVENT, format!("cancel {token}"))
}

fn token(outcome: &RunOutcome) -> u64 {
    outcome.fencing_token().unwrap().get()
}

fn replaces(store: impl EventMutex + 'static) {
    let fleet = Fleet::on(store, replace);
    let first = fleet.ticks(minute(0));
    fleet.has_noted("start 0");
    fleet.end(minute(1));
    let second = fleet.ticks(minute(1)).join().unwrap();
    assert_eq!(fleet.diary.lines(), ["start 0", "end 0", "start 1", "end 1"]);
    let first = first.join().unwrap();
    let outcome = ran(&first, EVENT);
    assert_eq!(outcome.cancel_reason(), Some(CancelReason::Replaced));
    assert_eq!(outcome.asked_to_stop_by().unwrap().pid(), std::process::id());
    assert!(outcome.to_string().contains("because a later occurrence takes its place: "), "{outcome}");
    assert!(ran(&second, EVENT).is_success() && ran(&second, EVENT).cancel_reason().is_none(), "{second}");
    assert!(token(outcome) < token(ran(&second, EVENT)));
    for late in [0, 1] {
        let report = fleet.ticks(minute(late)).join().unwrap();
        assert!(matches!(skipped(&report, EVENT), SkipReason::RanElsewhere(Some(_))), "{report}");
    }
    for number in 1..=4 {
        fleet.is_free(&place(number));
    }
    fleet.is_free(&mutex());
}

#[test]
fn in_memory_an_occurrence_takes_the_place_of_a_run() {
    replaces(MemoryMutex::new());
}

#[test]
fn on_a_file_store_an_occurrence_takes_the_place_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    replaces(FileMutex::in_dir(folder.path()).unwrap());
}

#[cfg(feature = "redis")]
#[test]
fn on_redis_an_occurrence_takes_the_place_of_a_run() {
    use crate::servers::redis::Redis;
    for server in [Redis::start(), Redis::cluster_node()] {
        replaces(soloist::RedisMutex::new(&crate::support::patient_url(&server.url())).unwrap());
    }
}

#[cfg(feature = "mysql")]
#[test]
fn on_mariadb_an_occurrence_takes_the_place_of_a_run() {
    let server = crate::servers::mariadb::Mariadb::start();
    let store = soloist::MysqlMutex::new(&crate::support::patient_url(&server.url())).unwrap();
    store.create_table().unwrap();
    replaces(store);
}

#[cfg(feature = "postgres")]
#[test]
fn on_postgres_an_occurrence_takes_the_place_of_a_run() {
    let server = crate::servers::postgres::Postgres::start();
    let store = soloist::PostgresMutex::new(&crate::support::patient_url(&server.url())).unwrap();
    store.create_table().unwrap();
    replaces(store);
}

#[test]
fn a_run_that_does_not_stop_is_waited_for_and_never_overlapped() {
    let fleet = Stubborn::on(MemoryMutex::new(), |event| replace(event).within(Duration::from_secs(600)));
    let first = fleet.ticks(minute(0));
    fleet.0.has_noted("start 0");
    let second = fleet.ticks(minute(1));
    fleet.0.has_noted("0 is told: replaced");
    fleet.0.end(minute(1));
    fleet.0.end(minute(0));
    assert!(ran(&second.join().unwrap(), EVENT).is_success());
    let first = first.join().unwrap();
    assert!(!first.is_failure(), "{first}");
    assert_eq!(fleet.0.diary.lines(), ["start 0", "0 is told: replaced", "end 0", "start 1", "end 1"]);
}

#[test]
fn of_those_who_wait_the_latest_runs() {
    let fleet = Stubborn::on(MemoryMutex::new(), |event| replace(event).within(Duration::from_secs(600)));
    let first = fleet.ticks(minute(0));
    fleet.0.has_noted("start 0");
    let mut waiting: Vec<JoinHandle<Report>> = Vec::new();
    let places: Vec<MutexName> = (1..=4).map(place).collect();
    for number in 1..=3 {
        waiting.push(fleet.ticks(minute(number)));
        let waits = || fleet.0.store.held(Names::Each(&places)).unwrap().len() == 1;
        let (_, earlier) = waiting.split_last().unwrap();
        until(|| earlier.iter().all(JoinHandle::is_finished) && waits()).unwrap();
    }
    fleet.0.has_noted("0 is told: replaced");
    fleet.0.end(minute(3));
    fleet.0.end(minute(0));
    let reports: Vec<Report> = waiting.into_iter().map(|waits| waits.join().unwrap()).collect();
    for replaced in &reports[..2] {
        assert!(matches!(skipped(replaced, EVENT), SkipReason::Replaced(Some(_))), "{replaced}");
    }
    assert!(ran(&reports[2], EVENT).is_success());
    assert_eq!(fleet.0.diary.lines(), ["start 0", "0 is told: replaced", "end 0", "start 3", "end 3"]);
    assert!(ran(&first.join().unwrap(), EVENT).is_success());
    let late = fleet.ticks(minute(2)).join().unwrap();
    assert!(matches!(skipped(&late, EVENT), SkipReason::RanElsewhere(Some(_))), "nobody comes with it: {late}");
}

/// Clears the places. Then a newcomer can pass an earlier occurrence that waits, which must not cancel it.
#[test]
fn who_waits_asks_no_later_run_to_stop() {
    let clock = ManualClock::at(noon());
    let fleet = Stubborn::on(MemoryMutex::with_clock(&clock), |event| replace(event).within(DAY));
    let first = fleet.ticks(minute(0));
    fleet.0.has_noted("start 0");
    let second = fleet.ticks(minute(1));
    let is_told = || fleet.0.diary.lines().contains(&"0 is told: replaced".to_owned());
    seconds_until(&clock, is_told);
    for number in 1..=4 {
        let _ = fleet.0.store.break_lease(&place(number)).unwrap();
    }
    fleet.0.end(minute(0));
    assert!(ran(&first.join().unwrap(), EVENT).is_success());
    let third = fleet.ticks(minute(2));
    fleet.0.has_noted("start 2");
    seconds_until(&clock, || second.is_finished());
    let second = second.join().unwrap();
    assert!(matches!(skipped(&second, EVENT), SkipReason::Replaced(Some(_))), "{second}");
    fleet.0.end(minute(2));
    assert!(ran(&third.join().unwrap(), EVENT).is_success());
    assert_eq!(fleet.0.diary.lines(), ["start 0", "0 is told: replaced", "end 0", "start 2", "end 2"]);
}

/// Clears the places, which the waiters do not know yet. The latest takes any of them, but none that its process still renews for
/// another waiter.
#[test]
fn who_waits_takes_no_place_behind_a_later_occurrence() {
    let clock = ManualClock::at(noon());
    let fleet = Stubborn::on(MemoryMutex::with_clock(&clock), |event| replace(event).within(DAY));
    let first = fleet.ticks(minute(0));
    fleet.0.has_noted("start 0");
    let waiting: Vec<_> = [1, 2, 3]
        .map(|number| {
            let waits = fleet.ticks(minute(i64::try_from(number).unwrap()));
            fleet.0.waits_at(number);
            waits
        })
        .into();
    for number in 1..=4 {
        let _ = fleet.0.store.break_lease(&place(number)).unwrap();
    }
    let latest = fleet.ticks(minute(4));
    seconds_until(&clock, || (1..=4).any(|number| holder(&*fleet.0.store, &place(number)).is_some()));
    seconds_until(&clock, || waiting.iter().all(JoinHandle::is_finished) || latest.is_finished());
    fleet.0.end(minute(4));
    fleet.0.end(minute(0));
    seconds_until(&clock, || latest.is_finished());
    for replaced in waiting {
        let report = replaced.join().unwrap();
        assert!(matches!(skipped(&report, EVENT), SkipReason::Replaced(Some(_))), "{report}");
    }
    assert!(ran(&latest.join().unwrap(), EVENT).is_success());
    assert!(ran(&first.join().unwrap(), EVENT).is_success());
}

#[test]
fn who_leaves_for_a_later_occurrence_leaves_it_the_period() {
    let fleet = Stubborn::on(MemoryMutex::new(), |event| {
        replace(event).once_per(Period::Hour).within(Duration::from_secs(600))
    });
    let first = fleet.ticks(minute(59));
    fleet.0.has_noted("start 59");
    let earlier = fleet.ticks(minute(60));
    fleet.0.has_noted("59 is told: replaced");
    let later = fleet.ticks(minute(61));
    assert!(matches!(skipped(&earlier.join().unwrap(), EVENT), SkipReason::Replaced(Some(_))));
    fleet.0.end(minute(61));
    fleet.0.end(minute(59));
    let later = later.join().unwrap();
    assert!(ran(&later, EVENT).is_success(), "{later}");
    assert!(ran(&first.join().unwrap(), EVENT).is_success());
}

#[test]
fn an_earlier_occurrence_replaces_no_later_one() {
    let fleet = Stubborn::on(MemoryMutex::new(), |event| replace(event).within(Duration::from_secs(600)));
    let run = fleet.ticks(minute(2));
    fleet.0.has_noted("start 2");
    let behind = fleet.ticks(minute(1)).join().unwrap();
    assert!(matches!(skipped(&behind, EVENT), SkipReason::Replaced(Some(_))), "a later one is at work: {behind}");
    let waits = fleet.ticks(minute(4));
    fleet.0.waits_at(1);
    let behind = fleet.ticks(minute(3)).join().unwrap();
    assert!(matches!(skipped(&behind, EVENT), SkipReason::Replaced(Some(_))), "a later one waits: {behind}");
    fleet.0.has_noted("2 is told: replaced");
    fleet.0.end(minute(2));
    fleet.0.end(minute(4));
    assert!(ran(&run.join().unwrap(), EVENT).is_success() && ran(&waits.join().unwrap(), EVENT).is_success());
    assert_eq!(fleet.0.diary.lines(), ["start 2", "2 is told: replaced", "end 2", "start 4", "end 4"]);
}

#[test]
fn an_earlier_occurrence_replaces_no_later_one_however_many_lie_between() {
    let fleet = Stubborn::on(MemoryMutex::new(), |event| event.every_second().on_overlap(Overlap::Replace));
    let run = fleet.ticks(minute(5));
    fleet.0.has_noted("start 5");
    let behind = fleet.ticks(minute(1)).join().unwrap();
    let SkipReason::Replaced(Some(later)) = skipped(&behind, EVENT) else { panic!("a later one runs: {behind}") };
    assert_eq!(later.occurrence(), Some(minute(5)));
    assert_eq!(fleet.0.diary.lines(), ["start 5"]);
    fleet.0.end(minute(5));
    assert!(ran(&run.join().unwrap(), EVENT).is_success());
    assert_eq!(fleet.0.diary.lines(), ["start 5", "end 5"]);
}

/// Lets more of them come than there are places.
#[test]
fn of_many_who_come_at_once_the_latest_runs() {
    let fleet = Stubborn::on(MemoryMutex::new(), |event| replace(event).within(Duration::from_secs(600)));
    let run = fleet.ticks(minute(0));
    fleet.0.has_noted("start 0");
    let mut waiting: Vec<_> = (1..=9).map(|number| fleet.ticks(minute(number))).collect();
    until(|| waiting.iter().filter(|waits| waits.is_finished()).count() == 8).unwrap();
    fleet.0.has_noted("0 is told: replaced");
    fleet.0.end(minute(9));
    fleet.0.end(minute(0));
    let latest = waiting.pop().unwrap().join().unwrap();
    assert!(ran(&latest, EVENT).is_success(), "{latest}");
    for earlier in waiting {
        let earlier = earlier.join().unwrap();
        assert!(matches!(skipped(&earlier, EVENT), SkipReason::Replaced(Some(_))), "{earlier}");
    }
    assert!(ran(&run.join().unwrap(), EVENT).is_success());
    assert_eq!(fleet.0.diary.lines(), ["start 0", "0 is told: replaced", "end 0", "start 9", "end 9"]);
}

#[test]
fn who_is_asked_to_stop_is_one_run_and_not_the_one_after_it() {
    let clock = ManualClock::at(noon());
    let fleet = Fleet::on(MemoryMutex::with_clock(&clock), |event| replace(event).within(DAY));
    let ticks = |number| {
        let server = fleet.server().with_clock(&clock);
        thread::spawn(move || server.run_due(minute(number)))
    };
    let first = ticks(0);
    fleet.has_noted("start 0");
    let asked = cancellation(holder(&*fleet.store, &mutex()).unwrap().token().get());
    let second = ticks(1);
    seconds_until(&clock, || fleet.diary.lines().iter().any(|line| line == "start 1"));
    assert!(fleet.store.exists(&asked).unwrap(), "it outlasts the run");
    (0..5).for_each(|_| clock.advance(Duration::from_secs(1))); // as many reads
    fleet.end(minute(1));
    let report = second.join().unwrap();
    assert!(ran(&report, EVENT).cancel_reason().is_none(), "{report}");
    assert_eq!(ran(&first.join().unwrap(), EVENT).cancel_reason(), Some(CancelReason::Replaced));
}

#[cfg(unix)]
#[test]
fn a_command_that_is_replaced_is_terminated() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("began");
    let schedule = Schedule::in_process();
    let line = format!("test -e {0} || {{ touch {0}; exec sleep 600; }}", flag.display());
    schedule.add(replace(Event::exec(EVENT, line).without_overlapping())).unwrap();
    let server = schedule.clone();
    let first = thread::spawn(move || server.run_due(minute(0)));
    until(|| flag.exists()).unwrap();
    let second = schedule.run_due(minute(1));
    assert!(ran(&second, EVENT).is_success(), "{second}");
    let first = first.join().unwrap();
    assert_eq!(ran(&first, EVENT).cancel_reason(), Some(CancelReason::Replaced));
    assert!(!ran(&first, EVENT).is_success() && !first.is_failure(), "{first}");
}

#[cfg(feature = "tokio")]
#[test]
fn a_future_that_is_replaced_is_dropped_after_its_grace() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let diary = Diary::default();
    let schedule = Schedule::in_process().with_runtime(runtime.handle().clone());
    let noted = diary.clone();
    let task = move |run: Run| {
        let noted = noted.clone();
        async move {
            let minutes = (run.occurrence() - noon()).num_minutes();
            noted.note(format!("start {minutes}"));
            if minutes == 0 {
                noted.note(format!("told: {}", run.cancelled().await.keyword()));
                std::future::pending::<()>().await;
            }
        }
    };
    let event = replace(Event::spawn(EVENT, task).without_overlapping()).grace(Duration::from_secs(1));
    schedule.add(event).unwrap();
    let server = schedule.clone();
    let first = thread::spawn(move || server.run_due(minute(0)));
    until(|| diary.lines() == ["start 0"]).unwrap();
    let second = schedule.run_due(minute(1));
    assert!(ran(&second, EVENT).is_success(), "{second}");
    let first = first.join().unwrap();
    assert_eq!(ran(&first, EVENT).cancel_reason(), Some(CancelReason::Replaced));
    assert!(!first.is_failure(), "{first}");
    assert_eq!(diary.lines(), ["start 0", "told: replaced", "start 1"]);
}

#[test]
fn what_a_killed_server_wanted_to_replace_a_run_with_is_taken_over() {
    let fleet = Fleet::on(MemoryMutex::new(), |event| {
        event.hourly().on_overlap(Overlap::Replace).within(Duration::from_secs(1800))
    });
    let first = fleet.ticks(minute(-60));
    fleet.has_noted("start -60");
    let token = holder(&*fleet.store, &mutex()).unwrap().token().get();
    let (waiter, server) = (fleet.takes(&waiter(noon())), fleet.server());
    let refused = server.run_due(noon());
    assert!(matches!(skipped(&refused, EVENT), SkipReason::Queued(Some(_))), "{refused}");
    // The waiter cancels the run, and dies: its place and its waiter are free after a term.
    fleet.takes(&cancellation(token));
    assert_eq!(ran(&first.join().unwrap(), EVENT).cancel_reason(), Some(CancelReason::Replaced));
    fleet.store.forget(&waiter).unwrap();
    fleet.end(noon());
    assert!(ran(&server.run_due(minute(2)), EVENT).is_success());
}

#[test]
fn without_a_word_of_who_holds_a_lease_nothing_is_replaced_and_the_report_says_so() {
    let hidden = Scripted::default().before(|call| {
        if call.is("held") { Err(soloist::MutexError::unsupported("tell who holds a name")) } else { Ok(()) }
    });
    let fleet = Fleet::on(hidden.in_steps(), replace);
    let run = fleet.takes(&mutex());
    let report = fleet.ticks(minute(0)).join().unwrap();
    let reason = skipped(&report, EVENT);
    assert!(matches!(reason, SkipReason::StoreUnavailable(error) if error.is_unsupported()), "{reason}");
    assert!(fleet.store.exists(run.name()).unwrap());
}

#[test]
fn a_run_by_hand_is_replaced_and_replaces_nothing() {
    let fleet = Fleet::on(MemoryMutex::new(), replace);
    let server = fleet.server();
    let by_hand = thread::spawn(move || server.run_event(EVENT, minute(0)).unwrap());
    fleet.has_noted("start 0");
    let entry = fleet.server().run_event(EVENT, minute(1)).unwrap();
    assert!(matches!(entry.verdict(), Verdict::Skipped(SkipReason::Overlapping(Some(_)))), "{entry}");
    fleet.end(minute(1));
    assert!(ran(&fleet.ticks(minute(1)).join().unwrap(), EVENT).is_success());
    let Verdict::Ran(outcome) = by_hand.join().unwrap().verdict().clone() else { panic!("it ran") };
    assert_eq!(outcome.cancel_reason(), Some(CancelReason::Replaced));
}

#[test]
fn who_waits_and_who_is_watched_ask_about_once_a_second() {
    let clock = ManualClock::at(noon());
    let store = Scripted::over(MemoryMutex::with_clock(&clock));
    let fleet = Stubborn::on(store.clone(), |event| replace(event).within(DAY));
    let server = fleet.server().with_clock(&clock);
    let first = thread::spawn(move || server.run_due(minute(0)));
    fleet.0.has_noted("start 0");
    let before = store.calls();
    (0..30).for_each(|_| clock.advance(Duration::from_secs(1)));
    let alone = store.calls() - before;
    assert!((25..=36).contains(&alone), "the look, and one renewal: {alone} in 30 s");
    let server = fleet.server().with_clock(&clock);
    let second = thread::spawn(move || server.run_due(minute(1)));
    fleet.0.waits_at(1);
    seconds_until(&clock, || fleet.0.diary.lines().iter().any(|line| line == "0 is told: replaced"));
    let before = store.calls();
    (0..30).for_each(|_| clock.advance(Duration::from_secs(1)));
    let both = store.calls() - before;
    assert!((25..=40).contains(&both), "one that waits, and the renewals: {both} in 30 s");
    fleet.0.end(minute(0));
    fleet.0.end(minute(1));
    seconds_until(&clock, || first.is_finished() && second.is_finished());
    assert!(ran(&first.join().unwrap(), EVENT).is_success() && ran(&second.join().unwrap(), EVENT).is_success());
}

#[test]
fn a_replacement_that_can_not_be_is_refused() {
    let event = replace(Event::call(EVENT, |_| {}).without_overlapping()).mutex_name("warehouse");
    let refused = Schedule::in_process().add(event).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), AddErrorKind::Conflict);
    assert!(refused.to_string().contains("by which it would cancel runs of other events"), "{refused}");
}
