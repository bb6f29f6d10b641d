//! An orderly end: nothing new starts, runs are cancelled, and no lease stays held.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use soloist::observe::{Ended, Notice, Release, Step};
use soloist::store::Scope;
use soloist::time::{Clock, ManualClock};
use soloist::{
    CancelReason, Event, EventMutex, MemoryMutex, MutexName, Period, Run, Schedule, Shutdown, SkipReason, TaskResult,
};

use tracing::Level;
use tracing::field::{Field, Visit};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use crate::scripted::Scripted;
use crate::support::{
    Diary, HOUR, NO_THREADS, PATIENCE, entry, group_lives, noon, number_in, ran, run_alone, skipped, until,
    with_subscriber,
};

/// Returns a shutdown that cancels at once; `drain` tests the others.
fn without_drain() -> Shutdown {
    Shutdown::new().with_drain(Duration::ZERO)
}

/// Returns a task that notes its start, and goes on until it is cancelled.
fn until_told(diary: &Diary, name: &'static str) -> impl Fn(&Run) -> TaskResult + Send + Sync + use<> {
    let diary = diary.clone();
    move |run| {
        diary.note(format!("{name} begins"));
        let reason = run.wait_cancelled(PATIENCE);
        diary.note(format!("{name} is told: {}", reason.map_or("nothing", CancelReason::keyword)));
        Ok(run.check()?)
    }
}

/// Sets it off when the diary has this line.
fn trigger_after(shutdown: &Shutdown, diary: &Diary, line: &'static str) -> thread::JoinHandle<()> {
    let (shutdown, diary) = (shutdown.clone(), diary.clone());
    thread::spawn(move || {
        until(|| diary.lines().iter().any(|noted| noted == line)).expect("it is noted");
        shutdown.trigger();
    })
}

#[test]
fn what_is_due_after_a_shutdown_began_is_skipped_and_its_store_is_not_asked() {
    let (store, shutdown, diary) = (Scripted::fleet(), without_drain(), Diary::default());
    let schedule = Schedule::new(store.clone()).with_shutdown(&shutdown);
    let triggers = shutdown.clone();
    schedule.add(Event::call("first", move |_| triggers.trigger()).every_minute()).unwrap();
    schedule.add(Event::call("lease", diary.task("lease")).every_minute().without_overlapping()).unwrap();
    let filter = diary.clone();
    let asked = move |_: &soloist::time::Tick| {
        filter.note("asked");
        true
    };
    schedule.add(Event::call("filter", diary.task("filter")).every_minute().when(asked)).unwrap();

    let report = schedule.run_due(noon());
    assert!(ran(&report, "first").is_success());
    for event in ["lease", "filter"] {
        assert!(matches!(skipped(&report, event), SkipReason::ShuttingDown), "{report}");
    }
    assert!(!report.is_failure(), "that is how it should be:\n{report}");
    assert_eq!(skipped(&report, "lease").to_string(), "the process is shutting down");
    assert_eq!(skipped(&report, "lease").keyword(), "shutting_down");
    assert_eq!(diary.lines(), <[&str; 0]>::default(), "neither a filter nor a task is called");
    assert_eq!(store.calls(), 0);
    let by_hand = schedule.run_event("lease", noon()).unwrap();
    assert_eq!(by_hand.verdict().to_string(), "skipped, the process is shutting down");
}

#[test]
fn in_the_background_too_nothing_new_starts() {
    let (shutdown, diary) = (without_drain(), Diary::default());
    let schedule = Schedule::in_process().with_shutdown(&shutdown);
    for name in ["one", "two", "three"] {
        let event = Event::call(name, diary.task(name)).every_minute().without_overlapping().in_background();
        schedule.add(event).unwrap();
    }
    shutdown.trigger();
    let report = schedule.run_due(noon());
    for name in ["one", "two", "three"] {
        assert!(matches!(skipped(&report, name), SkipReason::ShuttingDown), "{report}");
    }
    assert_eq!(diary.lines(), <[&str; 0]>::default());
}

#[test]
fn a_callback_is_told_its_hooks_run_and_its_lease_goes_back_last() {
    let (store, shutdown, diary) = (MemoryMutex::new(), without_drain(), Diary::default());
    let schedule = Schedule::new(store.clone()).with_shutdown(&shutdown);
    let (hook, held) = (diary.clone(), store.clone());
    let name = MutexName::lease("reports").unwrap();
    let asked = name.clone();
    schedule
        .add(
            Event::call("reports", until_told(&diary, "reports"))
                .every_minute()
                .without_overlapping_for(Duration::from_secs(24 * 3600))
                .then(move |run, outcome| {
                    hook.note(format!("held: {}", held.exists(&asked).unwrap()));
                    hook.note(outcome.to_string().split(" after ").next().unwrap());
                    assert_eq!(run.remaining(), Some(Duration::ZERO));
                }),
        )
        .unwrap();
    let trigger = trigger_after(&shutdown, &diary, "reports begins");
    let report = schedule.run_due(noon());
    trigger.join().unwrap();
    assert_eq!(
        diary.lines(),
        ["reports begins", "reports is told: shutting_down", "held: true", "cancelled"],
        "{report}"
    );
    let outcome = ran(&report, "reports");
    assert!(outcome.to_string().ends_with(", because the process is shutting down"), "{outcome}");
    assert!(matches!(outcome.release(), Some(Release::Released)));
    assert!(!store.exists(&name).unwrap());
    assert!(report.is_failure(), "its work was not done");
}

#[test]
fn every_run_at_work_is_told_in_the_background_too() {
    let (shutdown, diary) = (without_drain(), Diary::default());
    let schedule = Schedule::in_process().with_shutdown(&shutdown);
    for name in ["one", "two", "three"] {
        schedule.add(Event::call(name, until_told(&diary, name)).every_minute().in_background()).unwrap();
    }
    let (triggers, begun) = (shutdown.clone(), diary.clone());
    let trigger = thread::spawn(move || {
        until(|| begun.lines().iter().filter(|line| line.ends_with("begins")).count() == 3).unwrap();
        triggers.trigger();
    });
    let report = schedule.run_due(noon());
    trigger.join().unwrap();
    assert_eq!(diary.lines().iter().filter(|line| line.ends_with("is told: shutting_down")).count(), 3, "{report}");
}

#[test]
fn a_task_that_ends_well_all_the_same_has_succeeded() {
    let (shutdown, diary) = (without_drain(), Diary::default());
    let schedule = Schedule::in_process().with_shutdown(&shutdown);
    let triggers = shutdown.clone();
    let task = move |run: &Run| {
        triggers.trigger();
        assert_eq!(run.cancel_reason(), Some(CancelReason::ShuttingDown));
    };
    schedule.add(Event::call("reports", task).every_minute().on_success(diary.hook("success"))).unwrap();
    let report = schedule.run_due(noon());
    let outcome = ran(&report, "reports");
    assert!(matches!(outcome.ended(), Ended::Succeeded), "{report}");
    assert_eq!(outcome.cancel_reason(), Some(CancelReason::ShuttingDown));
    let text = outcome.to_string();
    assert!(text.ends_with(", after it was cancelled, because the process is shutting down"), "{text}");
    assert_eq!(diary.lines(), ["success"]);
}

#[test]
fn the_first_reason_to_stop_stays_the_reason() {
    for shut_down_first in [true, false] {
        let clock = ManualClock::at(noon());
        let (shutdown, moved) = (without_drain(), clock.clone());
        let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock).with_shutdown(&shutdown);
        let triggers = shutdown.clone();
        let task = move |run: &Run| {
            let (time_out, ask) = (|| moved.advance(Duration::from_secs(60)), || triggers.trigger());
            let reasons: [&dyn Fn(); 2] = [&ask, &time_out];
            reasons[usize::from(!shut_down_first)]();
            moved.advance(Duration::from_secs(1));
            reasons[usize::from(shut_down_first)]();
            let first = if shut_down_first { CancelReason::ShuttingDown } else { CancelReason::TimedOut };
            assert_eq!(run.cancel_reason(), Some(first));
        };
        schedule.add(Event::call("reports", task).every_minute().timeout(Duration::from_secs(30))).unwrap();
        let report = schedule.run_due(noon());
        assert!(matches!(ran(&report, "reports").ended(), Ended::TimedOut { fault: None, .. }), "{report}");
    }
}

/// Returns a store that triggers the shutdown during an admission.
fn shuts_down(inner: &MemoryMutex, shutdown: &Shutdown) -> Scripted {
    let shutdown = shutdown.clone();
    Scripted::over(inner.clone()).scope(Scope::Unknown).after(move |call| {
        if call.is("admit") {
            shutdown.trigger();
        }
        Ok(())
    })
}

#[test]
fn what_was_admitted_while_it_began_is_given_back_with_its_occurrence() {
    for beside in [false, true] {
        let (inner, shutdown, diary) = (MemoryMutex::new(), without_drain(), Diary::default());
        let store = shuts_down(&inner, &shutdown);
        let (seen, noted) = (inner.clone(), diary.clone());
        let observer = move |notice: &Notice<'_>| {
            if let (Some(event), Step::Skipped(_)) = (notice.event(), notice.step()) {
                let claim = MutexName::lease(event).unwrap().claim(event, noon());
                if seen.exists(&claim).unwrap() {
                    noted.note("skipped, and still claimed");
                }
            }
        };
        let schedule = Schedule::new(store).with_shutdown(&shutdown).observe(observer);
        let names = if beside { vec!["one", "two"] } else { vec!["one"] };
        for name in &names {
            let event = Event::call(*name, diary.task(name)).every_minute().without_overlapping().on_one_server();
            schedule.add(if beside { event.in_background() } else { event }).unwrap();
        }
        let report = schedule.run_due(noon());
        for name in names {
            assert!(matches!(skipped(&report, name), SkipReason::ShuttingDown), "{report}");
            let lease = MutexName::lease(name).unwrap();
            assert!(!inner.exists(&lease).unwrap());
            assert!(!inner.exists(&lease.claim(name, noon())).unwrap(), "another server may have it");
        }
        assert_eq!(diary.lines(), <[&str; 0]>::default());
    }
}

#[test]
fn a_permit_that_was_admitted_while_it_began_is_given_back_with_its_lease() {
    let (inner, shutdown, diary) = (MemoryMutex::new(), without_drain(), Diary::default());
    let store = shuts_down(&inner, &shutdown);
    let schedule = Schedule::new(store).with_shutdown(&shutdown);
    let event = || Event::call("e", diary.task("ran")).every_minute().without_overlapping().once_per(Period::Day);
    schedule.add(event()).unwrap();
    let report = schedule.run_due(noon());
    assert!(matches!(skipped(&report, "e"), SkipReason::ShuttingDown), "{report}");
    let elsewhere = Schedule::new(inner);
    elsewhere.add(event()).unwrap();
    let report = elsewhere.run_due(noon());
    assert!(ran(&report, "e").is_success(), "another server has it: {report}");
    assert_eq!(diary.lines(), ["ran"]);
}

#[test]
fn what_was_admitted_and_waited_for_a_thread_does_not_start_and_its_occurrence_is_given_back() {
    // Without threads, events that were admitted together run one after another.
    if run_alone(
        "shutdown::what_was_admitted_and_waited_for_a_thread_does_not_start_and_its_occurrence_is_given_back",
        &[NO_THREADS],
    )
    .is_some()
    {
        return;
    }
    let (store, shutdown, diary) = (MemoryMutex::new(), without_drain(), Diary::default());
    let schedule = Schedule::new(store.clone()).with_shutdown(&shutdown);
    let protected = |event: Event| {
        let held = event.daily_at("12:00").without_overlapping().hold_at_least(HOUR);
        held.on_one_server().in_background()
    };
    let triggers = shutdown.clone();
    schedule.add(Event::call("first", move |_| triggers.trigger()).apply(protected)).unwrap();
    schedule.add(Event::call("second", diary.task("second")).apply(protected).before(diary.task("before"))).unwrap();
    let report = schedule.run_due(noon());
    assert!(ran(&report, "first").is_success(), "{report}");
    assert!(matches!(skipped(&report, "second"), SkipReason::ShuttingDown), "{report}");
    assert!(!report.is_failure(), "{report}");
    assert_eq!(diary.lines(), <[&str; 0]>::default());
    for (name, claimed) in [("first", true), ("second", false)] {
        let lease = MutexName::lease(name).unwrap();
        assert_eq!(store.exists(&lease).unwrap(), claimed, "what did not start is held no longer");
        assert_eq!(store.exists(&lease.claim(name, noon())).unwrap(), claimed, "{name}");
    }
}

/// Runs a command that ignores TERM, and shuts down. Returns whether the group was alive at each release.
#[track_caller]
fn shut_down_beside(directory: &Path, grace: Duration, shutdown: &Shutdown) -> (soloist::Report, Vec<bool>) {
    let (file, lives) = (directory.join("group"), Arc::<Mutex<Vec<bool>>>::default());
    let (number, seen) = (file.clone(), Arc::clone(&lives));
    let store = Scripted::default().in_steps().before(move |call| {
        if call.is("forget") {
            seen.lock().unwrap().push(group_lives(number_in(&number)));
        }
        Ok(())
    });
    let schedule = Schedule::new(store).with_shutdown(shutdown);
    let line = format!("trap '' TERM; (sleep 600 & echo $$ > {}; sleep 600)", file.display());
    let event = Event::exec("stubborn", line).every_minute().without_overlapping_for(Duration::from_secs(24 * 3600));
    schedule.add(event.grace(grace)).unwrap();
    let (triggers, started) = (shutdown.clone(), file.clone());
    let trigger = thread::spawn(move || {
        number_in(&started);
        triggers.trigger();
    });
    let report = schedule.run_due(noon());
    trigger.join().unwrap();
    assert!(!group_lives(number_in(&file)));
    let lives = lives.lock().unwrap().clone();
    (report, lives)
}

#[test]
fn the_lease_of_a_command_goes_back_when_nothing_is_left_of_its_group() {
    let directory = tempfile::tempdir().unwrap();
    let (report, lives) = shut_down_beside(directory.path(), Duration::from_millis(200), &without_drain());
    assert_eq!(lives, [false], "{report}");
    let outcome = ran(&report, "stubborn");
    let text = outcome.to_string();
    assert!(text.starts_with("cancelled after ") && text.contains(", because the process is shutting down"), "{text}");
    assert!(text.ends_with("; ended by signal 9 (SIGKILL)"), "{text}");
    assert!(matches!(outcome.release(), Some(Release::Released)));
}

#[test]
fn a_command_has_no_more_time_to_stop_than_the_process_has() {
    let (directory, shutdown) = (tempfile::tempdir().unwrap(), without_drain().with_grace(Duration::from_secs(2)));
    let began = Clock::system().moment();
    let (report, lives) = shut_down_beside(directory.path(), Duration::from_secs(3000), &shutdown);
    assert_eq!(lives, [false], "{report}");
    assert!(Clock::system().moment().since(began) < Duration::from_secs(600), "it was not waited for");
    assert!(entry(&report, "stubborn").is_failure());
}

#[test]
fn whoever_waits_for_it_is_woken_and_whoever_does_not_want_it_waits_in_vain() {
    let shutdown = without_drain();
    assert!(!shutdown.wait(Duration::from_millis(1)));
    let waits = shutdown.clone();
    let waiting = thread::spawn(move || waits.wait(PATIENCE));
    shutdown.trigger();
    shutdown.trigger();
    assert!(waiting.join().unwrap());
    assert!(shutdown.is_triggered() && shutdown.clone().is_triggered() && shutdown.wait(Duration::ZERO));
    shutdown.finish();
    assert_eq!(format!("{shutdown:?}"), "Shutdown { triggered: true, .. }");
}

#[test]
fn an_orderly_end_is_told_as_no_error() {
    /// The level and message of each event.
    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<(Level, String)>>>);

    struct Text(String);

    impl Visit for Text {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            match field.name() {
                "message" => self.0 = format!("{value:?}{}", self.0),
                "reason" | "error" => self.0 = format!("{} {field}={value:?}", self.0),
                _ => {}
            }
        }
    }

    impl<S: tracing::Subscriber> Layer<S> for Captured {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            let mut text = Text(String::new());
            event.record(&mut text);
            self.0.lock().unwrap().push((*event.metadata().level(), text.0));
        }
    }

    let (heard, shutdown) = (Captured::default(), without_drain());
    with_subscriber(Registry::default().with(heard.clone().with_filter(LevelFilter::INFO)), || {
        let schedule = Schedule::in_process().with_shutdown(&shutdown);
        let triggers = shutdown.clone();
        let passes_it_on = move |run: &Run| {
            triggers.trigger();
            Ok(run.check()?)
        };
        schedule.add(Event::call("passes it on", passes_it_on).every_minute()).unwrap();
        assert!(schedule.run_due(noon()).is_failure(), "its work was not done");
        let shutdown = without_drain();
        let schedule = Schedule::in_process().with_shutdown(&shutdown);
        let triggers = shutdown.clone();
        let in_its_words = move |run: &Run| {
            triggers.trigger();
            Ok(run.check().map_err(|_| "the other side has gone")?)
        };
        schedule.add(Event::call("says it in its words", in_its_words).every_minute()).unwrap();
        schedule.add(Event::call("is due after it", |_| {}).every_minute()).unwrap();
        assert!(schedule.run_due(noon()).is_failure());
    });
    let heard = heard.0.lock().unwrap().clone();
    let expected = [
        (Level::INFO, "started"),
        (Level::INFO, "shutting down"),
        (Level::INFO, "the run is asked to stop reason=\"shutting_down\""),
        (Level::WARN, "cancelled reason=\"shutting_down\""),
        (Level::INFO, "started"),
        (Level::INFO, "shutting down"),
        (Level::INFO, "the run is asked to stop reason=\"shutting_down\""),
        (Level::WARN, "cancelled reason=\"shutting_down\" error=failed: the other side has gone"),
        (Level::INFO, "skipped reason=\"shutting_down\""),
    ];
    assert_eq!(heard, expected.map(|(level, text)| (level, text.to_owned())));
}
