//! A backfill runs a range of the past again: each occurrence once, oldest first, and apart from the timetable.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::observe::{Backfill, BackfillError, Notice, OutcomeKind, Step};
use soloist::store::{LeaseRequest, Scope};
use soloist::time::{Clock, ManualClock};
use soloist::{
    Event, EventMutex, MemoryMutex, MutexName, OutagePolicy, Output, Overlap, Report, Run, Schedule, Shutdown, Term,
};

use crate::scripted::Scripted;
use crate::support::{Diary, HOUR, PATIENCE, at, holder, ran, until};

#[cfg(all(unix, feature = "redis", feature = "mysql", feature = "postgres"))]
mod two_operators;

/// Servers and operators that share a clock and a store. It is noon of the day.
struct Place {
    clock: ManualClock,
    store: MemoryMutex,
    diary: Diary,
}

impl Place {
    fn new() -> Self {
        let clock = ManualClock::at(on_the_day("12:00"));
        Self { store: MemoryMutex::with_clock(&clock), clock, diary: Diary::default() }
    }

    fn schedule(&self, event: Event) -> Schedule {
        self.on(self.store.clone(), event)
    }

    fn on(&self, store: impl EventMutex + 'static, event: Event) -> Schedule {
        let schedule = Schedule::new(store).with_clock(&self.clock).named("shop").unwrap();
        schedule.add(event).unwrap();
        schedule
    }

    /// Returns an hourly event that writes down its occurrences.
    fn event(&self) -> Event {
        let diary = self.diary.clone();
        Event::call("e", move |run| diary.note(run.occurrence().format("%R").to_string())).hourly()
    }

    fn tick(&self, schedule: &Schedule, time: &str) -> Report {
        self.clock.advance((on_the_day(time) - Clock::from(&self.clock).now()).to_std().expect("time goes forward"));
        schedule.run_due(on_the_day(time))
    }

    fn ran(&self) -> Vec<String> {
        self.diary.lines()
    }
}

fn on_the_day(time: &str) -> DateTime<Utc> {
    at(&format!("2026-03-01T{time}:00Z"))
}

/// Plans a backfill of the event from this time of the day until that one.
#[track_caller]
fn plan<'a>(schedule: &'a Schedule, from: &str, until: &str) -> Backfill<'a> {
    schedule.backfill("e", on_the_day(from)..on_the_day(until), 100).unwrap()
}

/// Returns the reasons of the occurrences that were skipped, with their times.
fn skips(report: &Report) -> Vec<String> {
    let skip = |entry: &soloist::Entry| match entry.verdict() {
        soloist::Verdict::Skipped(reason) => Some(format!("{} {}", entry.occurrence().format("%R"), reason.keyword())),
        soloist::Verdict::Ran(_) => None,
    };
    report.entries().iter().filter_map(skip).collect()
}

#[test]
fn a_range_runs_again_oldest_first_up_to_its_end_whether_or_not_it_ran() {
    for protect in [|event: Event| event, Event::on_one_server, Event::without_overlapping, Event::in_background] {
        let place = Place::new();
        let schedule = place.schedule(place.event().apply(protect));
        assert!(!place.tick(&schedule, "12:00").is_failure());
        let backfill = plan(&schedule, "09:00", "12:00");
        assert_eq!(backfill.occurrences(), ["09:00", "10:00", "11:00"].map(on_the_day));
        let report = backfill.run();
        assert!(!report.is_failure() && report.entries().iter().all(|entry| entry.missed_by().is_none()), "{report}");
        let _ = place.tick(&schedule, "12:30");
        let _ = plan(&schedule, "12:00", "12:30").run();
        assert_eq!(place.ran(), ["12:00", "09:00", "10:00", "11:00", "12:00"]);
    }
}

#[test]
fn a_task_knows_that_a_backfill_runs_it() {
    let place = Place::new();
    let diary = place.diary.clone();
    let task = move |run: &Run| diary.note(format!("{} {:?}", run.is_backfill(), run.lateness()));
    let schedule = place.schedule(Event::call("e", task).hourly());
    let _ = place.tick(&schedule, "12:00");
    let _ = plan(&schedule, "11:00", "12:00").run();
    assert_eq!(place.ran(), ["false 0ns", "true 3600s"]);
}

#[cfg(unix)]
#[test]
fn a_command_knows_that_a_backfill_runs_it() {
    let place = Place::new();
    let line = Event::exec("e", "echo \"backfill: $SOLOIST_BACKFILL\"").hourly().output(Output::Keep(100));
    let schedule = place.schedule(line);
    let written = |report: &Report| {
        let kept = ran(report, "e").output().expect("it is kept");
        String::from_utf8_lossy(kept.bytes()).into_owned()
    };
    assert_eq!(written(&place.tick(&schedule, "12:00")), "backfill: \n");
    assert_eq!(written(&plan(&schedule, "11:00", "12:00").run()), "backfill: 1\n");
}

#[test]
fn an_occurrence_is_backfilled_once_in_thirty_days_unless_it_is_wanted_again() {
    let place = Place::new();
    let operator = || place.schedule(place.event());
    let (one, other) = (operator(), operator());
    // Both see the open occurrences, and one of them is quicker.
    let (first, second) = (plan(&one, "08:00", "11:00"), plan(&other, "10:00", "12:00"));
    assert_eq!(skips(&first.run()), [] as [&str; 0]);
    assert_eq!(skips(&second.run()), ["10:00 ran_elsewhere"]);
    assert_eq!(place.ran(), ["08:00", "09:00", "10:00", "11:00"]);
    assert!(plan(&one, "08:00", "12:00").occurrences().is_empty());

    let again = |schedule, label: &str| plan(schedule, "08:00", "10:00").again(label).unwrap();
    let (first, second) = (again(&one, "new prices"), again(&other, "new prices"));
    let _ = first.run();
    assert_eq!(skips(&second.run()), ["08:00 ran_elsewhere", "09:00 ran_elsewhere"]);
    assert!(again(&one, "new prices").occurrences().is_empty());
    assert_eq!(again(&one, "newer prices").run().entries().len(), 2);
    assert_eq!(place.ran()[4..], ["08:00", "09:00", "08:00", "09:00"]);

    place.clock.advance(Duration::from_secs(30 * 24 * 3600 - 60));
    assert!(plan(&one, "08:00", "10:00").occurrences().is_empty());
    place.clock.advance(Duration::from_secs(60));
    assert_eq!(plan(&one, "08:00", "10:00").occurrences().len(), 2);
}

#[test]
fn a_timetable_and_a_backfill_know_nothing_of_each_others_claims() {
    let place = Place::new();
    let event = || place.event().on_one_server().catch_up_all(12 * HOUR, 12);
    let schedule = place.schedule(event());
    let _ = place.tick(&schedule, "12:00");
    // The ticks of 13:00 and 14:00 are missed; an operator runs one of them, and the present one.
    place.clock.advance(3 * HOUR);
    let report = plan(&schedule, "14:00", "15:00").run();
    assert_eq!(report.entries().len(), 1);
    let _ = schedule.run_due(on_the_day("15:00"));
    assert_eq!(place.ran(), ["12:00", "14:00", "13:00", "14:00", "15:00"]);
    assert!(place.tick(&schedule, "15:01").entries().is_empty());
    let another = place.schedule(event());
    assert!(place.tick(&another, "15:02").entries().is_empty());
    assert_eq!(plan(&schedule, "13:00", "15:01").run().entries().len(), 2, "13:00 and 15:00");
}

#[test]
fn of_more_than_it_may_run_the_latest_are_planned_and_the_plan_says_what_it_runs() {
    let place = Place::new();
    let schedule = place.schedule(place.event());
    let three = schedule.backfill("e", on_the_day("00:00")..on_the_day("12:00"), 3).unwrap();
    assert_eq!(
        three.to_string(),
        "e: 3 occurrences to run, oldest first\n  2026-03-01 09:00:00 UTC\n  2026-03-01 10:00:00 UTC\n  2026-03-01 11:00:00 UTC\n\
         left out: 9 before 2026-03-01 09:00:00 UTC, because of the limit of this backfill\n\
         the store of this event is in memory: other processes do not see the claims of this backfill"
    );
    let _ = three.run();
    let rest = plan(&schedule, "08:00", "12:00").to_string();
    assert!(rest.starts_with("e: 1 occurrence to run, oldest first\n  2026-03-01 08:00:00 UTC\nleft out: "), "{rest}");
    assert!(
        rest.contains(
            "left out: 3, because a backfill of the last 30 days has run them; `again` with a label (`--again LABEL`) runs them"
        ),
        "{rest}"
    );
    let none = plan(&schedule, "09:00", "12:00").to_string();
    assert!(none.starts_with("e: 0 occurrences to run, oldest first\nleft out: 3, because a backfill"), "{none}");

    let place = Place::new();
    let minutes = place.schedule(Event::call("e", |_| {}).every_minute());
    let many = plan(&minutes, "11:00", "12:00").to_string();
    let lines: Vec<&str> = many.lines().collect();
    assert_eq!(lines[5..8], ["  2026-03-01 11:04:00 UTC", "  (50 more)", "  2026-03-01 11:55:00 UTC"], "{many}");
    let eleven = plan(&minutes, "11:00", "11:11").to_string();
    assert_eq!(eleven.matches("2026-03-01 11:").count(), 11, "{eleven}");
}

#[test]
fn a_range_without_an_occurrence_is_an_empty_plan_that_says_why() {
    let place = Place::new();
    let schedule = place.schedule(Event::call("e", |_| {}).daily_at("09:30"));
    let nothing = plan(&schedule, "10:00", "12:00");
    assert_eq!(
        nothing.to_string(),
        "e is not due from 2026-03-01 10:00:00 UTC until 2026-03-01 12:00:00 UTC; it is due daily at 09:30, UTC, and next at \
         2026-03-02 09:30:00 UTC"
    );
    assert!(nothing.run().entries().is_empty());
    let elsewhere = Schedule::new(place.store.clone()).with_clock(&place.clock).with_environment("staging");
    elsewhere.add(Event::call("e", |_| {}).hourly().environments(["production"])).unwrap();
    assert_eq!(plan(&elsewhere, "10:00", "12:00").to_string(), "e is never due in this environment");
}

#[test]
fn a_wrong_order_is_refused_with_what_to_do() {
    let place = Place::new();
    let schedule = place.schedule(place.event());
    schedule.add(Event::call("busy", |_| {}).every_second()).unwrap();
    let refused = |event: &str, from: &str, until: &str, most| {
        let error = schedule.backfill(event, at(from)..at(until), most).unwrap_err();
        (error.clone(), error.to_string())
    };
    let day = ("2026-02-01T00:00:00Z", "2026-02-02T00:00:00Z");
    let (error, text) = refused("a", day.0, day.1, 10);
    assert!(matches!(error, BackfillError::UnknownEvent(_)) && text.contains("`e` and `busy`"), "{text}");
    for most in [0, 10_001] {
        let (error, text) = refused("e", day.0, day.1, most);
        assert_eq!(text, format!("the limit of a backfill can't be {most} occurrences: use 1 to 10,000"));
        assert!(matches!(error, BackfillError::Most { .. }));
    }
    for (from, until) in [(day.1, day.0), (day.0, day.0)] {
        let (error, text) = refused("e", from, until, 10);
        assert!(matches!(error, BackfillError::EmptyRange { .. }), "{text}");
        let [from, until] = [from, until].map(|time| at(time).format("%F %T UTC"));
        assert_eq!(
            text,
            format!(
                "the range from {from} until {until} is empty: write the earlier time first; the end is not part of the range"
            )
        );
    }
    let (error, text) = refused("e", day.0, "2026-03-01T12:00:01Z", 10);
    assert!(matches!(error, BackfillError::Future { .. }), "{text}");
    assert!(
        text.starts_with("the range ends at 2026-03-01 12:00:01 UTC, but now it is 2026-03-01 12:00:00 UTC: "),
        "{text}"
    );
    let (error, text) = refused("busy", "2026-02-01T00:00:00Z", "2026-02-12T13:46:41Z", 10);
    assert!(matches!(error, BackfillError::TooManyInRange { .. }), "{text}");
    assert!(text.starts_with("more than 1,000,000 occurrences are due from ") && text.contains("shorter"), "{text}");
    let most = schedule.backfill("busy", at("2026-02-01T00:00:00Z")..at("2026-02-12T13:46:40Z"), 10_000).unwrap();
    assert_eq!(most.occurrences().len(), 10_000);
    let long = "x".repeat(101);
    for label in ["", " ", "a\nb", &long] {
        let error = plan(&schedule, "09:00", "12:00").again(label).unwrap_err();
        assert!(matches!(error, BackfillError::Label(_)), "{error}");
        assert!(error.to_string().starts_with("the label of `again` "), "{error}");
    }
}

/// Returns the schedule, and a receiver of the occurrences that wait.
fn told_of_waits(schedule: Schedule) -> (Schedule, mpsc::Receiver<Option<DateTime<Utc>>>) {
    let (waits, waiting) = mpsc::channel();
    let schedule = schedule.observe(move |notice: &Notice<'_>| {
        if let Step::Queued { .. } = notice.step() {
            let _ = waits.send(notice.occurrence());
        }
    });
    (schedule, waiting)
}

#[test]
fn it_waits_for_a_run_of_its_event_and_never_runs_beside_it() {
    let place = Place::new();
    let schedule = place.schedule(place.event().without_overlapping());
    let (schedule, waiting) = told_of_waits(schedule);
    let request = LeaseRequest::new(MutexName::lease("e").unwrap(), Term::MAX, &(&place.clock).into());
    let run = place.store.create(&request).unwrap().expect("it is free");
    let report = std::thread::scope(|scope| {
        let operator = scope.spawn(|| plan(&schedule, "10:00", "12:00").run());
        assert_eq!(waiting.recv_timeout(PATIENCE).unwrap(), Some(on_the_day("10:00")));
        for _ in 0..10 {
            place.clock.advance(Duration::from_secs(1));
        }
        assert_eq!(place.ran(), [] as [&str; 0]);
        place.store.forget(&run).unwrap();
        until(|| {
            place.clock.advance(Duration::from_secs(1));
            operator.is_finished()
        })
        .unwrap();
        operator.join().unwrap()
    });
    assert!(!report.is_failure() && skips(&report).is_empty(), "{report}");
    assert_eq!(place.ran(), ["10:00", "11:00"]);
    assert_eq!(waiting.try_iter().count(), 0, "it is told once, and only of an occurrence that waits");
    assert!(schedule.status().event("e").is_some_and(|event| event.last_skip.is_none()), "to wait is not to skip");
}

#[test]
fn it_does_not_wait_for_a_run_that_is_stuck() {
    let place = Place::new();
    let schedule = place.schedule(place.event().without_overlapping().stuck_after(HOUR));
    let request = LeaseRequest::new(MutexName::lease("e").unwrap(), Term::MAX, &(&place.clock).into());
    let _run = place.store.create(&request).unwrap().expect("it is free");
    place.clock.advance(2 * HOUR);
    let shutdown = Shutdown::new();
    let schedule = schedule.with_shutdown(&shutdown);
    let report = std::thread::scope(|scope| {
        let operator = scope.spawn(|| plan(&schedule, "10:00", "12:00").run());
        let _ = until(|| operator.is_finished());
        shutdown.trigger();
        operator.join().unwrap()
    });
    assert_eq!(skips(&report), ["10:00 stuck"]);
    assert!(report.is_failure() && place.ran().is_empty());
    assert_eq!(plan(&schedule, "10:00", "12:00").occurrences().len(), 2, "none is claimed");
}

#[test]
fn it_ends_at_a_run_that_is_stuck_also_behind_one_that_waits() {
    let place = Place::new();
    let event = place.event().on_one_server().without_overlapping().on_overlap(Overlap::QueueOne);
    let schedule = place.schedule(event.stuck_after(HOUR));
    let lease = MutexName::lease("e").unwrap();
    let waiter = lease.mark("e", "queue 1");
    for name in [lease, waiter] {
        let request = LeaseRequest::new(name, Term::MAX, &(&place.clock).into());
        place.store.create(&request).unwrap().expect("it is free");
        place.clock.advance(2 * HOUR);
    }
    let report = std::thread::scope(|scope| {
        let operator = scope.spawn(|| plan(&schedule, "10:00", "12:00").run());
        until(|| {
            place.clock.advance(Duration::from_secs(1));
            operator.is_finished()
        })
        .unwrap();
        operator.join().unwrap()
    });
    assert_eq!(skips(&report), ["10:00 stuck"]);
}

#[test]
fn an_occurrence_that_waits_in_the_queue_goes_first() {
    let place = Place::new();
    let event = place.event().on_one_server().without_overlapping().on_overlap(Overlap::QueueOne);
    // It waits for longer than that, but it is no run.
    let (schedule, waiting) = told_of_waits(place.schedule(event.stuck_after(HOUR)));
    let mark = MutexName::lease("e").unwrap().mark("e", "queue 1");
    let request = LeaseRequest::new(mark, Term::MAX, &(&place.clock).into());
    let waiter = place.store.create(&request).unwrap().expect("it is free");
    place.clock.advance(2 * HOUR);
    std::thread::scope(|scope| {
        let operator = scope.spawn(|| plan(&schedule, "11:00", "12:00").run());
        waiting.recv_timeout(PATIENCE).expect("it waits");
        place.store.forget(&waiter).unwrap();
        until(|| {
            place.clock.advance(Duration::from_secs(1));
            operator.is_finished()
        })
        .unwrap();
    });
    assert_eq!(place.ran(), ["11:00"]);
}

#[test]
fn a_shutdown_ends_it_between_occurrences_also_while_it_waits() {
    let place = Place::new();
    let shutdown = Shutdown::new();
    let (begins, stops) = (shutdown.clone(), on_the_day("10:00"));
    let diary = place.diary.clone();
    let task = move |run: &Run| {
        diary.note(run.occurrence().format("%R").to_string());
        if run.occurrence() == stops {
            begins.trigger();
        }
    };
    let schedule = place.schedule(Event::call("e", task).hourly().without_overlapping()).with_shutdown(&shutdown);
    let report = plan(&schedule, "09:00", "12:00").run();
    assert_eq!(skips(&report), ["11:00 shutting_down"]);
    assert_eq!(place.ran(), ["09:00", "10:00"]);
    assert_eq!(plan(&schedule, "09:00", "12:00").occurrences(), [on_the_day("11:00")], "it is left for a later one");

    let shutdown = Shutdown::new();
    let schedule = schedule.with_shutdown(&shutdown);
    let request = LeaseRequest::new(MutexName::lease("e").unwrap(), Term::MAX, &(&place.clock).into());
    let _run = place.store.create(&request).unwrap().expect("it is free");
    let report = std::thread::scope(|scope| {
        let operator = scope.spawn(|| plan(&schedule, "11:00", "12:00").run());
        std::thread::sleep(Duration::from_millis(20)); // most of the time it waits by then
        shutdown.trigger();
        operator.join().unwrap()
    });
    assert_eq!(skips(&report), ["11:00 shutting_down"]);
}

#[test]
fn a_pause_ends_it_and_leaves_the_rest_for_later() {
    for event in [|event: Event| event, |event: Event| event.when(|_| true), |event: Event| event.without_overlapping()]
    {
        let place = Place::new();
        let schedule = place.schedule(event(place.event()));
        schedule.pause_event("e", on_the_day("13:00"), "").unwrap();
        assert_eq!(skips(&plan(&schedule, "09:00", "12:00").run()), ["09:00 paused"]);
        assert!(schedule.run_event("e", on_the_day("12:00")).is_ok_and(|entry| !entry.is_failure()));
        schedule.resume_event("e").unwrap();
        assert_eq!(skips(&plan(&schedule, "09:00", "12:00").run()), [] as [&str; 0]);
        assert_eq!(place.ran().len(), 4);
    }
    let place = Place::new();
    let schedule = place.schedule(place.event().even_when_paused());
    schedule.pause(on_the_day("13:00"), "").unwrap();
    assert_eq!(plan(&schedule, "10:00", "12:00").run().entries().len(), 2);
}

#[test]
fn an_outage_ends_it_and_nothing_runs_unprotected() {
    let place = Place::new();
    let is_out = Arc::new(AtomicBool::new(false));
    let out = Arc::clone(&is_out);
    let store = Scripted::over(place.store.clone())
        .before(move |call| if out.load(Ordering::SeqCst) { call.times_out() } else { Ok(()) });
    let event = place.event().without_overlapping().on_outage(OutagePolicy::RunUnprotected);
    // A schedule without a name can't be paused, so that nothing else keeps it from running.
    let schedule = Schedule::new(store).with_clock(&place.clock);
    schedule.add(event).unwrap();
    let planned = plan(&schedule, "09:00", "12:00");
    is_out.store(true, Ordering::SeqCst);
    let report = planned.run();
    assert_eq!(skips(&report), ["09:00 store_unavailable"]);
    assert!(report.is_failure() && place.ran().is_empty());
    let error = schedule.backfill("e", on_the_day("09:00")..on_the_day("12:00"), 3).unwrap_err();
    assert!(matches!(error, BackfillError::Store(_)), "{error}");
    is_out.store(false, Ordering::SeqCst);
    assert_eq!(skips(&plan(&schedule, "09:00", "12:00").run()), [] as [&str; 0]);
}

#[test]
fn filters_are_asked_with_the_present_and_the_old_time() {
    let place = Place::new();
    let clock = place.clock.clone();
    let event = place.event().skip(|tick| tick.occurrence() == on_the_day("10:00")).when(move |tick| {
        let is_present = tick.now() == Clock::from(&clock).now();
        clock.advance(Duration::from_secs(60)); // each is asked at its own time
        is_present
    });
    let schedule = place.schedule(event);
    assert_eq!(skips(&plan(&schedule, "09:00", "12:00").run()), ["10:00 filtered"]);
    assert_eq!(place.ran(), ["09:00", "11:00"]);
    assert_eq!(plan(&schedule, "09:00", "12:00").occurrences(), [on_the_day("10:00")], "it is not claimed");
    // A window limits the occurrences, and the time at which they run.
    let night = place.schedule(place.event().between("00:00", "03:00"));
    let planned = plan(&night, "00:00", "12:00");
    assert_eq!(planned.occurrences().len(), 4);
    assert_eq!(skips(&planned.run()).len(), 4, "it is noon");
}

#[test]
fn a_failed_run_does_not_end_it_and_is_not_repeated() {
    let place = Place::new();
    let fails = |run: &Run| if run.occurrence() == on_the_day("10:00") { Err("no paper".into()) } else { Ok(()) };
    let schedule = place.schedule(Event::call("e", fails).hourly());
    let report = plan(&schedule, "09:00", "12:00").run();
    assert_eq!((report.entries().len(), report.failures().count()), (3, 1));
    assert!(plan(&schedule, "09:00", "12:00").occurrences().is_empty());
}

#[test]
fn a_backfill_is_known_as_one_wherever_its_runs_are_seen() {
    let place = Place::new();
    let (seen, count) = (Diary::default(), Arc::new(AtomicUsize::new(0)));
    let (steps, backfills) = (seen.clone(), Arc::clone(&count));
    let (store, inside) = (place.store.clone(), seen.clone());
    let task = move |_: &Run| {
        let holder = holder(&store, &MutexName::lease("e").unwrap()).expect("it runs");
        inside.note(format!("{:?}, for {:?}: {holder}", holder.reason(), holder.occurrence().map(|at| at.to_string())));
    };
    let schedule = Schedule::new(place.store.clone()).with_clock(&place.clock).with_run_log(10).unwrap();
    let schedule = schedule.observe(move |notice: &Notice<'_>| {
        if let Step::Started { .. } | Step::Ended(_) | Step::Released(_) = notice.step() {
            steps.note(format!("backfill {}", notice.is_backfill()));
            backfills.fetch_add(usize::from(notice.is_backfill()), Ordering::SeqCst);
        }
    });
    schedule.add(Event::call("e", task).hourly().without_overlapping()).unwrap();
    let _ = place.tick(&schedule, "12:00");
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let _ = plan(&schedule, "11:00", "12:00").run();
    assert_eq!(count.load(Ordering::SeqCst), 3, "{:?}", seen.lines());
    let during = seen.lines().into_iter().find(|line| line.starts_with("Some(\"backfill\")")).expect("it was seen");
    assert!(during.contains("2026-03-01 11:00:00 UTC") && during.contains(", in a backfill, since "), "{during}");

    let log = schedule.runs("e").unwrap();
    assert_eq!(log.iter().map(|run| run.record().is_backfill()).collect::<Vec<_>>(), [true, false]);
    assert!(log[0].to_string().starts_with("2026-03-01 11:00:00 UTC (backfill) succeeded in "), "{}", log[0]);
    let status = schedule.status();
    let last = status.event("e").and_then(|event| event.last_run.clone()).expect("it ran");
    assert!(last.is_backfill && last.occurrence == on_the_day("11:00") && last.result == OutcomeKind::Succeeded);

    // A skip of a backfill is not one of the timetable, whose number the log keeps.
    schedule.pause_event("e", on_the_day("13:00"), "").unwrap_err();
    let named = schedule.named("shop").unwrap();
    named.pause_event("e", on_the_day("13:00"), "").unwrap();
    let _ = plan(&named, "10:00", "11:00").run();
    assert!(named.status().event("e").and_then(|event| event.last_skip.clone()).is_some_and(|skip| skip.is_backfill));
    assert!(named.skips("e").unwrap().is_empty());
}

#[test]
fn a_run_knows_its_old_occurrence_and_is_not_late() {
    let place = Place::new();
    let diary = place.diary.clone();
    let event = Event::call("e", move |run| diary.note(format!("{} {}s", run.occurrence(), run.lateness().as_secs())));
    let schedule = place.schedule(event.hourly());
    let report = plan(&schedule, "09:00", "10:00").run();
    assert_eq!(place.ran(), ["2026-03-01 09:00:00 UTC 10800s"]);
    assert!(report.to_string().contains("2026-03-01 09:00:00 UTC  succeeded in "), "{report}");
    assert!(report.entries().iter().all(|entry| !entry.to_string().contains("late")), "{report}");
}

#[test]
fn an_event_with_slots_or_a_store_of_its_own_keeps_its_claims_there() {
    let place = Place::new();
    let own = MemoryMutex::with_clock(&place.clock);
    let schedule = place.schedule(place.event().at_most(2).mutex(own.clone()));
    assert_eq!(plan(&schedule, "10:00", "12:00").run().entries().len(), 2);
    let claim = MutexName::lease("e").unwrap().mark("e", "backfill 2026-03-01T10:00:00Z");
    let claimed = holder(&own, &claim).expect("it is claimed");
    assert_eq!((claimed.reason(), claimed.until() - claimed.since()), (Some("backfill"), TimeDelta::days(30)));
    assert!(holder(&place.store, &claim).is_none());
    assert!(plan(&schedule, "10:00", "12:00").occurrences().is_empty());
}

#[test]
fn a_store_with_the_required_methods_alone_keeps_the_claims_too() {
    let place = Place::new();
    let store = Scripted::over(place.store.clone()).three_methods().scope(Scope::Fleet);
    let schedule = place.on(store, place.event().without_overlapping_for(HOUR));
    let planned = plan(&schedule, "10:00", "12:00");
    assert!(!planned.to_string().contains("the store of this event is in memory"), "{planned}");
    assert_eq!(skips(&planned.run()), [] as [&str; 0]);
    assert!(plan(&schedule, "10:00", "12:00").occurrences().is_empty());
    assert_eq!(place.ran(), ["10:00", "11:00"]);
}

#[cfg(feature = "tokio")]
#[test]
fn a_future_runs_in_a_backfill_from_a_thread_of_its_own_and_from_its_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let place = Place::new();
    let diary = place.diary.clone();
    runtime.block_on(async {
        let task = move |run: Run| {
            let diary = diary.clone();
            async move {
                tokio::task::yield_now().await;
                diary.note(run.occurrence().format("%R").to_string());
            }
        };
        let schedule = Arc::new(place.schedule(Event::spawn("e", task).hourly().without_overlapping()));
        assert!(!plan(&schedule, "09:00", "10:00").run().is_failure());
        let there = Arc::clone(&schedule);
        let report = tokio::task::spawn_blocking(move || plan(&there, "10:00", "12:00").run()).await.unwrap();
        assert!(!report.is_failure(), "{report}");
    });
    assert_eq!(place.ran(), ["09:00", "10:00", "11:00"]);
}
