//! A paused schedule starts nothing on any server, and a tick reads the pauses no more often than it must.

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::observe::PauseError;
use soloist::store::{Held, Holder, Lease, LeaseRequest, Names, Scope};
use soloist::time::{Clock, ManualClock};
use soloist::{
    Event, EventMutex, FileMutex, MemoryMutex, MutexError, MutexName, OutagePolicy, Report, Run, Schedule, SkipReason,
    Term, Verdict,
};

use crate::decorator::Plain;
use crate::outage::Flaky;
use crate::scripted::Scripted;
use crate::support::{Diary, HOUR, at, example, noon, ran, skipped, until};

fn event(name: &str) -> Event {
    Event::call(name, |_| {}).every_minute()
}

/// Returns a server with these events, which is named `shop`.
fn server(mutex: impl EventMutex + 'static, events: impl IntoIterator<Item = Event>) -> Schedule {
    let schedule = Schedule::new(mutex).named("shop").unwrap();
    for event in events {
        schedule.add(event).unwrap();
    }
    schedule
}

#[track_caller]
fn paused<'a>(report: &'a Report, event: &str) -> Option<&'a Holder> {
    match skipped(report, event) {
        SkipReason::Paused(holder) => holder.as_ref(),
        reason => panic!("{event}: {reason}"),
    }
}

/// Asserts that the schedule is paused until about `end`, on a store that names holders.
#[track_caller]
fn assert_paused_until(schedule: &Schedule, end: DateTime<Utc>) {
    let report = schedule.run_due(noon());
    let holder = paused(&report, "e").expect("the store says who");
    let off = holder.until() - end;
    assert!(off.abs() < TimeDelta::seconds(30), "{off} off: {report}");
    assert_eq!(schedule.paused().unwrap().expect("it is").holder().map(Holder::owner), Some(holder.owner()));
}

/// Asserts that every server obeys a pause. `open` opens the store as another server does; the name is free for
/// this test.
#[track_caller]
pub(crate) fn everybody_minds_a_pause_on(open: &dyn Fn() -> Arc<dyn EventMutex>, name: &str) {
    let server = || {
        let schedule = Schedule::new(open()).named(name).unwrap();
        schedule.add(event("e")).unwrap().add(event("heartbeat").even_when_paused()).unwrap();
        schedule
    };
    let (here, there) = (server(), server());
    assert!(!there.resume().unwrap() && there.paused().unwrap().is_none());
    assert!(ran(&there.run_due(noon()), "e").is_success());

    // Put here, longer from there, shorter from here; the last call wins.
    for (pausing, hours) in [(&here, 2), (&there, 3), (&here, 1)] {
        let end = Utc::now() + TimeDelta::hours(hours);
        pausing.pause(end, "").unwrap();
        for schedule in [&here, &there, &server()] {
            assert_paused_until(schedule, end);
        }
    }
    let report = there.run_due(noon());
    assert_eq!(paused(&report, "e").map(Holder::pid), Some(std::process::id()));
    assert!(ran(&report, "heartbeat").is_success() && !report.is_failure(), "{report}");

    assert!(there.resume().unwrap() && !here.resume().unwrap());
    assert!(ran(&here.run_due(noon()), "e").is_success());

    // By itself.
    here.pause(Utc::now() + TimeDelta::hours(1), "").unwrap();
    // On a busy machine, the end may have passed when it is asked for.
    until(|| here.pause(Utc::now() + TimeDelta::milliseconds(300), "").is_ok()).unwrap();
    until(|| there.paused().unwrap().is_none()).unwrap();
    assert!(ran(&there.run_due(noon()), "e").is_success() && !here.resume().unwrap());
}

/// Asserts that every server obeys the pause of one event.
#[track_caller]
pub(crate) fn everybody_minds_the_pause_of_an_event_on(open: &dyn Fn() -> Arc<dyn EventMutex>, name: &str) {
    const WHY: &str = "the supplier (in Łódź) is out for 2 days: it's 100 % down";
    let server = || {
        let schedule = Schedule::new(open()).named(name).unwrap();
        let protected = |event: Event| event.without_overlapping().on_one_server();
        schedule.add(protected(event("e"))).unwrap().add(event("other")).unwrap();
        schedule.add(event("heartbeat").even_when_paused()).unwrap();
        schedule.add(protected(event("filtered").when(|_| true))).unwrap();
        schedule
    };
    let (here, there) = (server(), server());
    let refused = here.paused_event("heartbeat").unwrap_err();
    assert!(matches!(refused, PauseError::EvenWhenPaused { .. }));
    assert_eq!(
        refused.to_string(),
        "the event `heartbeat` can't be paused, because its definition has `even_when_paused()`"
    );
    for stopped in ["e", "filtered", "other"] {
        assert!(there.paused_event(stopped).unwrap().is_none() && !there.resume_event(stopped).unwrap());
        let end = Utc::now() + TimeDelta::hours(2);
        here.pause_event(stopped, end, WHY).unwrap();
        for schedule in [&here, &there, &server()] {
            let report = schedule.run_due(noon());
            let holder = paused(&report, stopped).expect("the store says who");
            assert!((holder.until() - end).abs() < TimeDelta::seconds(30), "{report}");
            assert_eq!((holder.pid(), holder.host().contains(' ')), (std::process::id(), false));
            assert!(report.to_string().contains(WHY), "{report}");
            for entry in report.entries().iter().filter(|entry| entry.event() != stopped) {
                let is_paused = matches!(entry.verdict(), Verdict::Skipped(SkipReason::Paused(_)));
                assert!(!is_paused, "{stopped} alone is paused: {report}");
            }
        }
        let pause = there.paused_event(stopped).unwrap().expect("it is paused");
        assert_eq!(pause.why(), Some(WHY));
        assert!(there.paused().unwrap().is_none(), "its schedule is not");
        assert!(there.run_event(stopped, noon()).unwrap().to_string().contains("succeeded"), "by hand it runs");
        assert!(there.resume_event(stopped).unwrap() && !here.resume_event(stopped).unwrap());
    }
    assert!(ran(&here.run_due(noon() + TimeDelta::minutes(1)), "e").is_success());
}

#[track_caller]
pub(crate) fn calls_at_once_replace_one_another_on(open: &dyn Fn() -> Arc<dyn EventMutex>, name: &str) {
    const CALLERS: i64 = 8;
    let server = || Schedule::new(open()).named(name).unwrap();
    let end = |caller: i64| at("2033-01-01T00:00:00Z") + TimeDelta::days(caller);
    // In the first round the callers find no pause.
    let servers: Vec<Schedule> = (0..CALLERS).map(|_| server()).collect();
    for again in [false, true] {
        let at_work = AtomicUsize::new(servers.len());
        thread::scope(|scope| {
            for (caller, server) in (0..).zip(&servers) {
                let at_work = &at_work;
                scope.spawn(move || {
                    for _ in 0..5 {
                        server.pause(end(caller), "").unwrap();
                    }
                    at_work.fetch_sub(1, Ordering::SeqCst);
                });
            }
            // Once there is a pause, there is no moment without one.
            let watcher = server();
            while again && at_work.load(Ordering::SeqCst) > 0 {
                assert!(watcher.paused().unwrap().is_some());
            }
        });
    }
    let pause = servers[0].paused().unwrap().expect("it is paused");
    let until = pause.holder().expect("the store says who").until();
    let near = |caller| (until - end(caller)).abs() < TimeDelta::minutes(1);
    assert!((0..CALLERS).any(near), "nobody said {until}");
}

#[test]
fn a_pause_is_minded_by_all_who_share_a_store_in_memory() {
    let memory = MemoryMutex::new();
    everybody_minds_a_pause_on(&|| Arc::new(memory.clone()), "shop");
    // A store with a decorator around it.
    everybody_minds_a_pause_on(&|| Arc::new(Plain(memory.clone())), "shop");
    everybody_minds_the_pause_of_an_event_on(&|| Arc::new(memory.clone()), "shop");
}

#[test]
fn a_pause_is_minded_by_all_who_share_a_store_on_file() {
    let dir = tempfile::tempdir().unwrap();
    everybody_minds_a_pause_on(&|| Arc::new(FileMutex::in_dir(dir.path()).unwrap()), "shop");
    everybody_minds_the_pause_of_an_event_on(&|| Arc::new(FileMutex::in_dir(dir.path()).unwrap()), "shop");
}

#[test]
fn calls_at_once_replace_one_another_in_memory_and_on_file() {
    let memory = MemoryMutex::new();
    calls_at_once_replace_one_another_on(&|| Arc::new(memory.clone()), "shop");
    let dir = tempfile::tempdir().unwrap();
    calls_at_once_replace_one_another_on(&|| Arc::new(FileMutex::in_dir(dir.path()).unwrap()), "shop");
}

#[test]
fn calls_at_once_are_no_error_where_a_store_can_t_extend() {
    // After `break_lease`, another caller pauses for ten years.
    let (memory, overtakes) = (MemoryMutex::new(), Arc::new(AtomicBool::new(false)));
    let (inner, is_overtaken) = (memory.clone(), Arc::clone(&overtakes));
    let store = Scripted::over(memory).in_steps().scope(Scope::Unknown).can_extend(false).after(move |call| {
        if call.is("break_lease") && is_overtaken.load(Ordering::SeqCst) {
            let pause = LeaseRequest::new(call.names[0].clone(), Term::MAX, &Clock::system());
            inner.create(&pause)?.expect("it is free");
        }
        Ok(())
    });
    everybody_minds_a_pause_on(&|| Arc::new(store.clone()), "shop");
    let schedule = server(store.clone(), [event("e")]);
    schedule.pause(Utc::now() + HOUR, "").unwrap();
    overtakes.store(true, Ordering::SeqCst);
    schedule.pause(Utc::now() + 2 * HOUR, "").unwrap();
    assert_paused_until(&schedule, Utc::now() + TimeDelta::days(3650));
}

#[test]
fn a_pause_ends_at_its_time_and_not_before() {
    let clock = ManualClock::at(at("2026-03-01T11:00:00.000700Z"));
    let dir = tempfile::tempdir().unwrap();
    let file = FileMutex::builder(dir.path()).clock(&clock).open().unwrap();
    let stores: [Arc<dyn EventMutex>; 2] = [Arc::new(MemoryMutex::with_clock(&clock)), Arc::new(file)];
    let schedules = stores.map(|store| server(store, [event("e")]).with_clock(&clock));
    for schedule in &schedules {
        schedule.pause(noon(), "").unwrap();
    }
    clock.advance(Duration::from_micros(3_600_000_000 - 701));
    for schedule in &schedules {
        assert!(paused(&schedule.run_due(noon()), "e").is_some());
        assert!(schedule.clone().paused().unwrap().is_some(), "a clone is the same schedule");
    }
    clock.advance(Duration::from_millis(1));
    for schedule in &schedules {
        assert!(ran(&schedule.run_due(noon()), "e").is_success() && schedule.paused().unwrap().is_none());
    }
}

fn operator(arguments: &[&str]) -> Output {
    Command::new(example("pause")).args(arguments).output().expect("it runs")
}

#[test]
fn a_pause_outlives_the_process_that_paused() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("file:{}", dir.path().display());
    let said = |order: &[&str]| {
        let output = operator(&[&[&*store, "shop"], order].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(said(&[]), "shop is not paused\n");
    let schedule = server(FileMutex::in_dir(dir.path()).unwrap(), [event("e")]);
    let text = said(&["90"]);
    let report = schedule.run_due(noon());
    let holder = paused(&report, "e").expect("the store says who");
    assert_ne!(holder.pid(), std::process::id());
    assert_eq!(holder.application(), Some("shop"));
    assert!(text.starts_with(&format!("shop is paused by {}, pid {}, since ", holder.host(), holder.pid())), "{text}");
    assert!(said(&[]).starts_with("shop is paused by "));
    assert_eq!(said(&["resume"]), "resumed\nshop is not paused\n");
    assert_eq!(said(&["resume"]), "there was nothing to resume\nshop is not paused\n");
    assert!(ran(&schedule.run_due(noon()), "e").is_success());
    for wrong in [&[][..], &[&*store], &[&*store, "shop", "9", "why", "more"]] {
        assert_eq!(operator(wrong).status.code(), Some(2));
    }
    assert!(!operator(&[&*store, "shop", "-1"]).status.success());
    let output = operator(&[&*store, "shop/e", "90", "the orders are migrated"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("shop/e is paused by ") && text.ends_with(": the orders are migrated\n"), "{text}");
    let report = schedule.run_due(noon());
    assert_eq!(paused(&report, "e").and_then(Holder::reason), Some("the orders are migrated"));
    assert!(operator(&[&*store, "shop/e", "resume"]).status.success());
    assert!(ran(&schedule.run_due(noon()), "e").is_success());
}

#[test]
fn an_event_that_can_t_be_paused_is_refused() {
    let schedule = Schedule::in_process();
    schedule.add(event("e")).unwrap();
    let end = Utc::now() + HOUR;
    assert!(matches!(schedule.pause_event("e", end, ""), Err(PauseError::Unnamed)));
    let schedule = schedule.named("shop").unwrap();
    for refused in [
        schedule.pause_event("E", end, "").unwrap_err(),
        schedule.resume_event("E").unwrap_err(),
        schedule.paused_event("E").map(|_| ()).unwrap_err(),
    ] {
        assert!(matches!(refused, PauseError::UnknownEvent(_)), "{refused}");
    }
    let long = "a".repeat(201);
    for (why, wrong) in [
        ("two\nlines", "has the control or invisible character `\\n`: leave it out"),
        (&*long, "has 201 characters, the limit is 200"),
        (" space", "begins or ends with a space: leave it out"),
    ] {
        for refused in [schedule.pause(end, why), schedule.pause_event("e", end, why)].map(Result::unwrap_err) {
            assert!(matches!(refused, PauseError::Reason(_)), "{refused}");
            assert_eq!(refused.to_string(), format!("the reason for the pause {wrong}"));
        }
    }
    schedule.pause(end, &long[1..]).unwrap();
    assert!(matches!(schedule.pause_event("e", noon(), ""), Err(PauseError::Over { .. })));
}

#[test]
fn a_paused_event_costs_no_request_more_where_the_gate_asks_and_one_where_it_does_not() {
    let store = Scripted::fleet();
    let schedule =
        server(store.clone(), [event("protected").without_overlapping(), event("plain"), event("plain too")]);
    schedule.pause_event("protected", Utc::now() + HOUR, "").unwrap();
    let (before, looks) = (store.calls(), looks_at(&store));
    let report = schedule.run_due(noon());
    assert!(paused(&report, "protected").is_some() && ran(&report, "plain").is_success());
    assert_eq!(looks_at(&store), looks + 1, "for the schedule, and for each event without a gate");
    assert_eq!(store.calls() - before, 2, "and the admission");
}

/// Lets two operators pause two events, one of them between two requests of the other.
#[test]
fn events_that_are_paused_at_one_moment_are_paused_until_their_own_ends() {
    let mut requests = 1;
    let mut between = 0;
    while between < requests {
        let clock = ManualClock::at(noon());
        let memory = MemoryMutex::with_clock(&clock);
        let events = || [event("long"), event("short")];
        let other = server(memory.clone(), events()).with_clock(&clock);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let store = Scripted::over(memory).before(move |_| {
            if counted.fetch_add(1, Ordering::SeqCst) == between {
                other.pause_event("long", noon() + TimeDelta::hours(3), "").expect("it answers");
            }
            Ok(())
        });
        let schedule = server(store, events()).with_clock(&clock);
        schedule.pause_event("short", noon() + TimeDelta::minutes(1), "").unwrap();
        requests = count.load(Ordering::SeqCst);
        clock.advance(Duration::from_secs(2 * 3600));
        let report = schedule.run_due(noon());
        assert!(paused(&report, "long").is_some(), "before request {between} of {requests}: {report}");
        assert!(ran(&report, "short").is_success(), "before request {between} of {requests}: {report}");
        between += 1;
    }
}

#[test]
fn the_pause_of_one_event_does_not_shorten_that_of_another() {
    let clock = ManualClock::at(noon());
    let schedule = server(MemoryMutex::with_clock(&clock), [event("long"), event("short")]).with_clock(&clock);
    schedule.pause_event("long", noon() + TimeDelta::hours(3), "").unwrap();
    schedule.pause_event("short", noon() + TimeDelta::hours(1), "").unwrap();
    clock.advance(2 * Duration::from_secs(3600));
    let report = schedule.run_due(noon());
    assert!(paused(&report, "long").is_some() && ran(&report, "short").is_success(), "{report}");
}

#[test]
fn after_the_pause_of_an_event_the_latest_occurrence_is_made_up_for_and_no_other() {
    let clock = ManualClock::at(noon());
    let event = Event::call("e", |_| {}).every_five_minutes().on_one_server().catch_up(HOUR_OF_CATCH_UP);
    let schedule = server(MemoryMutex::with_clock(&clock), [event]).with_clock(&clock);
    assert!(ran(&schedule.run_due(noon()), "e").is_success());
    schedule.pause_event("e", clock.now() + TimeDelta::hours(3), "a migration").unwrap();
    let mut runs = Vec::new();
    for minute in 1..=40 {
        clock.advance(Duration::from_secs(60));
        if minute == 33 {
            assert!(schedule.resume_event("e").unwrap());
        }
        for entry in schedule.run_due(clock.now()).entries() {
            if matches!(entry.verdict(), Verdict::Ran(_)) {
                runs.push((minute, (entry.occurrence() - noon()).num_minutes()));
            }
        }
    }
    assert_eq!(runs, [(33, 30), (35, 35), (40, 40)], "minute, and the occurrence that ran in it");
}

#[test]
fn what_waits_in_a_queue_leaves_it_when_its_event_is_paused() {
    let memory = MemoryMutex::new();
    let e = MutexName::lease("e").unwrap();
    memory.create(&LeaseRequest::new(e.clone(), Term::MAX, &Clock::system())).unwrap().expect("it is free");
    let event = event("e").without_overlapping().on_overlap(soloist::Overlap::QueueOne);
    let schedule = server(memory.clone(), [event.within(Duration::from_secs(600))]);
    let waits = thread::spawn({
        let schedule = schedule.clone();
        move || schedule.run_due(noon())
    });
    until(|| memory.exists(&e.mark("e", "queue 1")).unwrap()).unwrap();
    schedule.pause_event("e", Utc::now() + HOUR, "enough").unwrap();
    let report = waits.join().unwrap();
    assert_eq!(paused(&report, "e").and_then(Holder::reason), Some("enough"));
}

const HOUR_OF_CATCH_UP: Duration = Duration::from_secs(3600);

#[test]
fn nothing_of_a_paused_event_is_asked_and_nothing_of_it_is_used_up() {
    let (memory, diary) = (MemoryMutex::new(), Diary::default());
    let (note, task) = (diary.clone(), diary.task("ran"));
    let guarded = Event::call("e", task).every_minute().on_one_server().without_overlapping();
    let guarded = guarded.before(diary.task("before")).when(move |_| {
        note.note("filter");
        true
    });
    let elsewhere = event("own store").mutex(MemoryMutex::new()).on_one_server();
    let schedule = server(memory, [guarded, elsewhere]);
    schedule.pause(Utc::now() + HOUR, "").unwrap();
    let report = schedule.run_due(noon());
    assert!(paused(&report, "e").is_some() && paused(&report, "own store").is_some());
    assert!(!report.is_failure() && diary.lines().is_empty(), "{report}");
    assert!(schedule.resume().unwrap());
    assert!(!schedule.run_due(noon()).is_failure(), "its occurrence can still be had");
    assert_eq!(diary.lines(), ["filter", "before", "ran"]);
}

#[test]
fn what_follows_a_heartbeat_with_a_lease_is_paused_all_the_same() {
    // One request releases the lease of the first event, and admits the second.
    let store = Scripted::fleet();
    let protected = |name| event(name).without_overlapping();
    let schedule = server(store.clone(), [protected("heartbeat").even_when_paused(), protected("e"), protected("f")]);
    schedule.pause(Utc::now() + HOUR, "").unwrap();
    let before = store.calls();
    let report = schedule.run_due(noon());
    assert!(ran(&report, "heartbeat").is_success() && !report.is_failure(), "{report}");
    assert!(paused(&report, "e").is_some() && paused(&report, "f").is_some());
    assert_eq!((store.admissions(), store.releases()), (vec![1; 3], vec![1]));
    assert_eq!(store.calls() - before, 3, "each is told of the pause by the gate, and no pause is read");
}

#[test]
fn a_pause_is_for_those_who_have_its_name() {
    let memory = MemoryMutex::new();
    let shop = server(memory.clone(), [event("shop")]);
    let mut others = [Schedule::new(memory.clone()), Schedule::new(memory.clone()).named("warehouse").unwrap()];
    for other in &mut others {
        other.add(event("shop").without_overlapping()).unwrap();
    }
    shop.pause(Utc::now() + HOUR, "").unwrap();
    assert!(paused(&shop.run_due(noon()), "shop").is_some());
    for other in others {
        assert!(ran(&other.run_due(noon()), "shop").is_success());
    }
}

/// Returns how often a store was read.
fn looks_at(store: &Scripted) -> usize {
    store.asked(&["exists", "held"]).len()
}

#[test]
fn by_hand_an_event_runs_although_the_schedule_is_paused() {
    let store = Scripted::default();
    let schedule = server(store.clone(), [event("e")]);
    schedule.pause(Utc::now() + HOUR, "").unwrap();
    assert!(matches!(schedule.run_event("e", noon()).unwrap().verdict(), Verdict::Ran(_)));
    assert_eq!(looks_at(&store), 0, "it is not asked whether it is");
}

#[test]
fn a_tick_looks_once_and_only_for_what_minds_a_pause() {
    let daily = || Event::call("daily", |_| {}).daily_at("02:30");
    let many = |place: fn(Event, usize) -> Event| {
        let events = (0..250).map(move |number| place(event(&format!("e{number}")), number));
        events.chain([event("heartbeat").even_when_paused(), Event::call("daily", |_| {}).daily_at("02:30")])
    };
    let both = |event: Event, number: usize| if number.is_multiple_of(2) { event } else { event.in_background() };
    let elsewhere = MemoryMutex::new();
    let own_store = |number| event(&format!("e{number}")).without_overlapping().mutex(elsewhere.clone());
    // The number of events that obey the pause, and of reads: after a refused admission that names the pause,
    // there is no read.
    let cases: Vec<(&str, Vec<Event>, usize, usize)> = vec![
        ("nothing is due", vec![daily()], 0, 0),
        ("nothing that is due minds", vec![daily(), event("heartbeat").even_when_paused()], 0, 0),
        ("in the foreground", many(|event, _| event).collect(), 250, 1),
        ("in the background", many(|event, _| event.in_background()).collect(), 250, 1),
        ("both", many(both).collect(), 250, 1),
        ("protected", many(|event, _| event.without_overlapping()).collect(), 250, 0),
        ("protected in the background", many(|event, _| event.on_one_server().in_background()).collect(), 250, 0),
        ("protected, with a filter", many(|event, _| event.without_overlapping().when(|_| true)).collect(), 250, 1),
        ("protected, on a store of their own", (0..250).map(own_store).collect(), 250, 1),
    ];
    for (what, events, minding, looks) in cases {
        let store = Scripted::default();
        let schedule = server(store.clone(), events);
        assert!(!schedule.run_due(noon()).is_failure());
        assert_eq!(looks_at(&store), looks, "{what}: for the schedule, and for all of its events");
        schedule.pause(Utc::now() + HOUR, "").unwrap();
        let before = looks_at(&store);
        let report = schedule.run_due(noon());
        let skips = report.entries().iter().filter(|entry| matches!(entry.verdict(), Verdict::Skipped(_)));
        assert_eq!(skips.count(), minding, "{what}");
        assert_eq!(looks_at(&store) - before, looks, "{what}");
    }
    let store = Scripted::default();
    let unnamed = Schedule::new(store.clone());
    unnamed.add(event("e")).unwrap();
    assert!(!unnamed.run_due(noon()).is_failure());
    assert_eq!(looks_at(&store), 0);
}

#[test]
fn a_tick_that_takes_long_looks_again_each_minute() {
    let (clock, store) = (ManualClock::at(noon()), MemoryMutex::new());
    let (operator, moved) = (server(store.clone(), []), clock.clone());
    let slow = move |_: &Run| {
        operator.pause(Utc::now() + HOUR, "")?;
        moved.advance(Duration::from_secs(59));
        Ok(())
    };
    let moved = clock.clone();
    let slower = move |_: &Run| moved.advance(Duration::from_secs(1));
    let events = [Event::call("slow", slow).every_minute(), Event::call("slower", slower).every_minute(), event("e")];
    let schedule = server(store, events).with_clock(&clock);
    let report = schedule.run_due(noon());
    assert!(ran(&report, "slow").is_success() && ran(&report, "slower").is_success());
    assert!(paused(&report, "e").is_some(), "{report}");
}

#[test]
fn a_pause_that_begins_in_a_tick_stops_the_next_event_that_asks_the_same_store() {
    let places: [fn(Event) -> Event; 2] = [Event::without_overlapping, Event::on_one_server];
    for protect in places {
        let store = MemoryMutex::new();
        let operator = server(store.clone(), []);
        let pauses = move |_: &Run| Ok(operator.pause(Utc::now() + HOUR, "")?);
        let first = Event::call("first", pauses).every_minute();
        let schedule = server(store.clone(), [first.apply(protect), event("e").apply(protect)]);
        let report = schedule.run_due(noon());
        assert!(ran(&report, "first").is_success() && paused(&report, "e").is_some(), "{report}");
        assert!(schedule.resume().unwrap());
        let elsewhere = server(store, [event("e").apply(protect)]);
        assert!(ran(&elsewhere.run_due(noon()), "e").is_success(), "nothing of it was used up");
    }
}

#[test]
fn while_the_store_is_out_only_what_does_not_mind_a_pause_runs_and_the_tick_waits_once() {
    let places: [fn(Event) -> Event; 2] = [|event| event, Event::in_background];
    // The first reader may be the admission of one event, or the read for all.
    for (place, looks_last) in places.into_iter().flat_map(|place| [(place, false), (place, true)]) {
        let store = Flaky::out();
        let protected = |name| event(name).without_overlapping_for(HOUR).on_one_server();
        let mut events = vec![
            event("heartbeat").even_when_paused(),
            event("e"),
            protected("protected"),
            protected("rather twice").on_outage(OutagePolicy::RunUnprotected),
            protected("protected heartbeat").even_when_paused(),
            protected("heartbeat, rather twice").even_when_paused().on_outage(OutagePolicy::RunUnprotected),
        ];
        if looks_last {
            events.reverse();
        }
        let schedule = server(store.store.clone(), events.into_iter().map(place));
        let report = schedule.run_due(noon());
        for name in ["e", "protected", "rather twice", "protected heartbeat"] {
            assert_eq!(skipped(&report, name).keyword(), "store_unavailable", "{report}");
        }
        let said = skipped(&report, "e").to_string();
        let is_told = said.starts_with("the store did not answer: could not read ");
        assert!(is_told && said.ends_with(": timed out; test the store with `soloist check`"), "{said}");
        assert!(ran(&report, "heartbeat").is_success());
        assert!(ran(&report, "heartbeat, rather twice").unprotected().is_some());
        assert_eq!(store.waits(), 1, "{report}");

        let error = schedule.pause(Utc::now() + HOUR, "").unwrap_err();
        assert!(error.is_unavailable());
        assert_eq!(format!("{error:?}"), "could not create mark/shop/shop/paused: timed out");
        assert!(schedule.paused().unwrap_err().is_unavailable());
        store.out.store(false, Ordering::SeqCst);
        assert!(!schedule.run_due(noon()).is_failure(), "the next tick asks again");
    }
}

#[test]
fn a_store_of_three_methods_can_be_paused_and_says_what_it_can_t_do() {
    let schedule = server(Scripted::default().three_methods(), [event("e")]);
    assert!(!schedule.resume().unwrap(), "it was not paused");
    schedule.pause(Utc::now() + HOUR, "").unwrap();
    let report = schedule.run_due(noon());
    assert!(paused(&report, "e").is_none() && !report.is_failure());
    assert_eq!(skipped(&report, "e").to_string(), "paused");
    assert_eq!(schedule.paused().unwrap().expect("it is").to_string(), "paused");
    let error = schedule.resume().unwrap_err();
    assert!(matches!(error, PauseError::CannotEnd));
    assert_eq!(
        error.to_string(),
        "this store can't break a lease, so a pause can't end early: to run events during the pause, run them by hand, or \
         give the schedule another name"
    );
    let error = schedule.pause(Utc::now() + HOUR, "").unwrap_err();
    assert_eq!(error.to_string(), "this store can't break a lease");
    assert!(schedule.paused().unwrap().is_some());
}

#[test]
fn what_a_store_does_not_say_of_a_pause_does_not_end_it() {
    /// The answer of a store to whether the first of these names is held.
    #[derive(Debug)]
    struct Says(fn(&MutexName) -> Result<Vec<Held>, MutexError>);

    impl EventMutex for Says {
        fn create(&self, _: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
            Ok(None)
        }
        fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
            Ok(!(self.0)(name)?.is_empty())
        }
        fn forget(&self, _: &Lease) -> Result<bool, MutexError> {
            Ok(false)
        }
        fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
            match names {
                Names::Each(names) => (self.0)(&names[0]),
                _ => Ok(Vec::new()),
            }
        }
    }

    let of = |store| {
        let report = server(store, [event("e"), event("heartbeat").even_when_paused()]).run_due(noon());
        assert!(ran(&report, "heartbeat").is_success());
        skipped(&report, "e").to_string()
    };
    assert_eq!(of(Says(|name| Ok(vec![Held::new(name.clone(), None)]))), "paused");
    let unsupported = of(Says(|_| Err(MutexError::unsupported("say what is held"))));
    assert!(unsupported.ends_with("this store can't say what is held"), "{unsupported}");
    let out = |_: &MutexName| Err(MutexError::unavailable("read", "timed out"));
    let next = "; test the store with `soloist check`";
    assert_eq!(of(Says(out)), format!("the store did not answer: could not read: timed out{next}"));
    let panicked = "the store could not be used: could not read the pause of shop: the store panicked: no such row";
    assert_eq!(of(Says(|_| panic!("no such row"))), panicked);
}

#[test]
fn an_outage_between_the_markers_of_two_events_is_an_outage_of_both() {
    // One of the markers is damaged, so each is read alone.
    let store = Scripted::default().before(|call| match &call.names[..] {
        [mark] if call.is("held") && mark.event() == Some("b") => call.times_out(),
        [_, _, ..] if call.is("held") => Err(MutexError::unusable("read the markers", "one is damaged")),
        _ => Ok(()),
    });
    let report = server(store, [event("a"), event("b")]).run_due(noon());
    for name in ["a", "b"] {
        let reason = skipped(&report, name);
        assert!(matches!(reason, SkipReason::StoreUnavailable(error) if error.is_unavailable()), "{report}");
    }
}

#[test]
fn the_report_says_who_paused_and_until_when() {
    let clock = ManualClock::at(at("2026-03-01T11:00:07Z"));
    let events = [event("berlin").timezone("Europe/Berlin"), event("utc")];
    let schedule = server(MemoryMutex::with_clock(&clock), events).with_clock(&clock);
    schedule.pause(at("2026-03-01T13:30:00Z"), "").unwrap();
    let report = schedule.run_due(noon());
    let text = report.to_string();
    let pid = std::process::id();
    let expected = format!(", pid {pid}, since 2026-03-01 11:00:07 UTC, until 2026-03-01 13:30:00 UTC");
    assert_eq!(text.matches(&expected).count(), 2, "{text}");
    let reason = skipped(&report, "utc");
    assert_eq!((reason.keyword(), reason.is_failure()), ("paused", false));
    assert!(reason.to_string().starts_with("paused by ") && reason.to_string().ends_with(&expected), "{reason}");
    assert_eq!(reason.to_string(), schedule.paused().unwrap().expect("it is").to_string());
    assert_eq!(SkipReason::Paused(None).to_string(), "paused");
}

#[test]
fn what_can_t_be_paused_says_what_to_do() {
    let until = Utc::now() + HOUR;
    let schedule = Schedule::in_process();
    schedule.add(event("e").even_when_paused()).unwrap();
    let error = "a schedule without a name can't be paused: name it with `Schedule::named(..)`";
    assert_eq!(schedule.pause(until, "").unwrap_err().to_string(), error);
    assert_eq!(schedule.resume().unwrap_err().to_string(), error);
    assert_eq!(schedule.paused().unwrap_err().to_string(), error);
    assert!(ran(&schedule.run_due(noon()), "e").is_success());
    for (name, why) in [("", "is empty"), (&*"x".repeat(101), "has 101 characters, the limit is 100")] {
        let error = Schedule::in_process().named(name).unwrap_err();
        assert_eq!(error.to_string(), format!("the name of the schedule {why}"));
    }
    let schedule = server(MemoryMutex::new(), [event("e")]);
    for wrong in [at("1999-12-31T23:59:59Z"), Utc::now() + TimeDelta::days(3651)] {
        schedule.pause(wrong, "").unwrap_err();
        assert!(schedule.paused().unwrap().is_none(), "{wrong}");
    }
}
