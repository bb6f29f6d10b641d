//! A fault stays one fault: the others run, the report names fault and place, the lease is free.

use std::panic::panic_any;
use std::path::{Path, PathBuf};
use std::time::Duration;

use soloist::{
    Event, EventMutex, FileMutex, LeaseGuard, MemoryMutex, MutexError, MutexName, Report, Retry, Run, Schedule,
    SkipReason, Term,
};

use crate::scripted::Scripted;
use crate::support::{Diary, HOUR, noon, ran, skipped, with_subscriber};

/// Runs `faulty` between two events that have nothing to do with it, and sees that those run.
#[track_caller]
fn tick(mutex: impl EventMutex + 'static, faulty: Event, diary: &Diary) -> Report {
    let schedule = Schedule::new(mutex);
    schedule.add(Event::call("first", diary.task("first")).every_minute()).unwrap();
    schedule.add(faulty.every_minute().without_overlapping_for(HOUR).on_one_server()).unwrap();
    schedule.add(Event::call("last", diary.task("last")).every_minute()).unwrap();
    let report = schedule.run_due(noon());
    let lines = diary.lines();
    assert!(lines.first().is_some_and(|line| line == "first") && lines.last().is_some_and(|line| line == "last"));
    assert!(report.is_failure());
    assert_eq!(report.failures().map(soloist::Entry::event).collect::<Vec<_>>(), ["faulty"]);
    report
}

fn is_free(mutex: &MemoryMutex) -> bool {
    !mutex.exists(&MutexName::lease("faulty").unwrap()).unwrap()
}

#[test]
fn a_filter_that_panics() {
    let (mutex, diary) = (MemoryMutex::new(), Diary::default());
    let faulty = Event::call("faulty", diary.task("task")).skip(|_| panic!("no such flag"));
    let report = tick(mutex.clone(), faulty, &diary);
    assert!(matches!(skipped(&report, "faulty"), SkipReason::FilterPanicked(message) if &**message == "no such flag"));
    assert_eq!(skipped(&report, "faulty").to_string(), "a filter panicked: no such flag");
    assert_eq!(diary.lines(), ["first", "last"]);
    assert!(is_free(&mutex));
}

#[test]
fn a_task_that_panics() {
    let (mutex, diary) = (MemoryMutex::new(), Diary::default());
    let faulty = Event::call("faulty", |_| -> () { panic!("at row {}", 7) });
    let faulty = faulty.then(diary.hook("then")).on_failure(diary.hook("failure")).on_success(diary.hook("success"));
    let report = tick(mutex.clone(), faulty, &diary);
    assert!(ran(&report, "faulty").to_string().ends_with(": at row 7"));
    assert_eq!(diary.lines(), ["first", "then", "failure", "last"]);
    assert!(is_free(&mutex));
}

#[test]
fn a_task_that_panics_with_something_that_panics_when_it_is_dropped() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("and again");
        }
    }
    let (mutex, diary) = (MemoryMutex::new(), Diary::default());
    let report = tick(mutex.clone(), Event::call("faulty", |_| panic_any(Bomb)), &diary);
    assert!(ran(&report, "faulty").to_string().ends_with(": the value of the panic is not a text"));
    assert!(is_free(&mutex));
}

#[test]
fn an_error_that_panics_when_it_is_dropped_before_the_next_attempt() {
    #[derive(Debug, thiserror::Error)]
    #[error("no paper")]
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("and again");
        }
    }
    for place in [|event| event, Event::in_background] {
        let (mutex, diary) = (MemoryMutex::new(), Diary::default());
        let fails = |run: &Run| Err(if run.attempt() == 1 { Bomb.into() } else { "no ink".into() });
        let faulty = Event::call("faulty", fails).retry(Retry::times(1).after(Duration::from_millis(1)));
        let report = tick(mutex.clone(), place(faulty), &diary);
        let outcome = ran(&report, "faulty");
        assert_eq!(outcome.attempts(), 2);
        assert!(outcome.to_string().ends_with(": no ink"), "{outcome}");
        assert!(is_free(&mutex));
    }
}

#[test]
fn a_task_that_fails_says_why_down_to_the_cause() {
    #[derive(Debug, thiserror::Error)]
    #[error("could not write the report")]
    struct Failed(#[source] std::io::Error);

    let (mutex, diary) = (MemoryMutex::new(), Diary::default());
    let faulty = Event::call("faulty", |_| Err(Failed(std::io::Error::other("disk full")).into()));
    let report = tick(mutex.clone(), faulty, &diary);
    assert!(ran(&report, "faulty").to_string().ends_with(": could not write the report: disk full"));
    assert!(is_free(&mutex));
}

#[test]
fn a_before_hook_that_panics_keeps_the_task_from_starting() {
    let (mutex, diary) = (MemoryMutex::new(), Diary::default());
    let faulty = Event::call("faulty", diary.task("task")).before(diary.task("before")).before(|_| panic!("no paper"));
    let faulty = faulty.before(diary.task("third")).then(diary.hook("then")).on_failure(diary.hook("failure"));
    let report = tick(mutex.clone(), faulty, &diary);
    assert_eq!(ran(&report, "faulty").to_string(), "not started; `before` hook 2 panicked: no paper");
    assert_eq!(diary.lines(), ["first", "before", "then", "failure", "last"]);
    assert!(is_free(&mutex));
}

#[test]
fn a_then_hook_that_panics_keeps_no_other_hook_from_running() {
    let (mutex, diary) = (MemoryMutex::new(), Diary::default());
    let faulty = Event::call("faulty", diary.task("task")).then(diary.hook("then 1")).then(|_, _| panic!("no network"));
    let faulty = faulty.on_success(|_, _| Err("no printer".into())).then(diary.hook("then 3"));
    let report = tick(mutex.clone(), faulty, &diary);
    let outcome = ran(&report, "faulty");
    assert!(outcome.is_success() && outcome.is_failure());
    let text = outcome.to_string();
    let expected = ", but `then` hook 2 panicked: no network; `on_success` hook 1 failed: no printer";
    assert!(text.ends_with(expected), "{text}");
    assert_eq!(diary.lines(), ["first", "task", "then 1", "then 3", "last"]);
    assert!(is_free(&mutex));
}

#[test]
fn a_store_that_panics_or_gives_no_answer_is_a_store_that_is_out() {
    let panics = Scripted::default().on_admit(|_, _| panic!("index out of bounds"));
    let gives_no_answer = Scripted::default().on_admit(|_, _| {});
    for (store, why) in
        [(panics, "the store panicked: index out of bounds"), (gives_no_answer, "the store gave no answer")]
    {
        let diary = Diary::default();
        let report = tick(store, Event::call("faulty", diary.task("task")), &diary);
        assert!(matches!(skipped(&report, "faulty"), SkipReason::StoreUnavailable(_)));
        let said = skipped(&report, "faulty").to_string();
        assert_eq!(said, format!("the store could not be used: could not admit lease/faulty: {why}"));
        assert_eq!(diary.lines(), ["first", "last"]);
    }
}

#[test]
fn a_release_that_fails_is_in_the_report() {
    let on_forget = |fault: fn() -> MutexError| {
        Scripted::default().in_steps().before(move |call| if call.is("forget") { Err(fault()) } else { Ok(()) })
    };
    let panics = on_forget(|| panic!("index out of bounds"));
    let fails = on_forget(|| MutexError::unavailable("forget lease/faulty", "connection reset"));
    for (store, why) in [(panics, "the store panicked: index out of bounds"), (fails, "connection reset")] {
        let diary = Diary::default();
        let report = tick(store, Event::call("faulty", diary.task("task")), &diary);
        let said = ran(&report, "faulty").to_string();
        let expected = format!(", but the lease was not released: could not forget lease/faulty: {why}");
        assert!(said.ends_with(&expected), "{said}");
        assert_eq!(diary.lines(), ["first", "task", "last"]);
    }
}

#[test]
fn a_directory_that_vanished_or_takes_no_files_or_holds_a_foreign_one_is_a_store_that_is_out() {
    let vanished = tempfile::tempdir().unwrap();
    let vanishing = FileMutex::in_dir(vanished.path()).unwrap();
    vanished.close().unwrap();

    let foreign = tempfile::tempdir().unwrap();
    let mutex = FileMutex::in_dir(foreign.path()).unwrap();
    drop(LeaseGuard::acquire(&mutex, MutexName::lease("faulty").unwrap(), Term::MAX).unwrap());
    let state = the_state_in(foreign.path());
    std::fs::write(&state, "somebody's shopping list").unwrap();

    // No user can create files there.
    let read_only = FileMutex::in_dir("/sys/kernel").unwrap();
    for (mutex, what, said) in [
        (vanishing, "did not answer", "No such file or directory"),
        (
            mutex,
            "could not be used",
            &*format!(
                "in {}: it begins with `somebody's shopping list` and not with `soloist-state v1`",
                state.display()
            ),
        ),
        (read_only, "could not be used", "/sys/kernel/faulty-"),
    ] {
        let diary = Diary::default();
        let report = tick(mutex, Event::call("faulty", diary.task("task")), &diary);
        assert!(matches!(skipped(&report, "faulty"), SkipReason::StoreUnavailable(_)));
        let text = skipped(&report, "faulty").to_string();
        assert!(text.starts_with(&format!("the store {what}: could not admit lease/faulty in /")), "{text}");
        assert!(text.contains(said), "{text}");
        assert_eq!(diary.lines(), ["first", "last"]);
    }
}

#[test]
fn a_state_that_is_cut_heals() {
    let dir = tempfile::tempdir().unwrap();
    let schedule = Schedule::new(FileMutex::in_dir(dir.path()).unwrap());
    schedule.add(Event::call("e", |_| {}).every_minute().without_overlapping_for(HOUR)).unwrap();
    let first = ran(&schedule.run_due(noon()), "e").fencing_token();
    let state = the_state_in(dir.path());
    let whole = std::fs::read(&state).unwrap();
    for length in [0, 1, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&state, &whole[..length]).unwrap();
        let report = schedule.run_due(noon());
        assert!(!report.is_failure(), "{report}");
        assert!(ran(&report, "e").fencing_token() > first, "tokens rise over what was lost");
    }
}

#[track_caller]
fn the_state_in(dir: &Path) -> PathBuf {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let mut states = files.filter(|path| path.extension().is_some_and(|kind| kind == "state"));
    let state = states.next().expect("there is a state");
    assert_eq!(states.next(), None, "there is one state");
    state
}

#[test]
fn what_a_store_may_have_created_without_saying_so_is_given_back() {
    // Creates, and then the answer is lost; or the claim's code panics.
    let lossy = |mutex: &MemoryMutex, lost: &'static str| {
        let store = Scripted::over(mutex.clone()).in_steps();
        let store = store.before(|call| if call.is("held") { call.times_out() } else { Ok(()) });
        store.on_create(move |inner, request| {
            let created = inner.create(request)?;
            match (lost, request.name().is_lease()) {
                ("lease", true) | ("claim", false) => Err(MutexError::unavailable("create it", "timed out")),
                ("panic", false) => panic!("index out of bounds"),
                _ => Ok(created),
            }
        })
    };
    for lost in ["lease", "claim", "panic"] {
        let (mutex, diary) = (MemoryMutex::new(), Diary::default());
        let report = tick(lossy(&mutex, lost), Event::call("faulty", diary.task("task")), &diary);
        assert!(matches!(skipped(&report, "faulty"), SkipReason::StoreUnavailable(_)), "{lost}: {report}");
        assert_eq!(diary.lines(), ["first", "last"]);
        assert!(is_free(&mutex), "{lost}");
        let claim = MutexName::lease("faulty").unwrap().claim("faulty", noon());
        assert!(!mutex.exists(&claim).unwrap(), "{lost}: the occurrence is still to be had");
    }

    // A refusal is certain, also when the holder is unknown.
    let mutex = MemoryMutex::new();
    let _held = LeaseGuard::acquire(&mutex, MutexName::lease("e").unwrap(), Term::MAX).unwrap();
    let schedule = Schedule::new(lossy(&mutex, ""));
    schedule.add(Event::call("e", |_| {}).every_minute().without_overlapping_for(HOUR)).unwrap();
    let report = schedule.run_due(noon());
    assert!(matches!(skipped(&report, "e"), SkipReason::Overlapping(None)), "{report}");
}

#[test]
fn an_error_whose_own_text_panics_ends_nothing() {
    struct Mute;
    impl std::fmt::Debug for Mute {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no words")
        }
    }
    impl std::fmt::Display for Mute {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no words")
        }
    }
    impl std::error::Error for Mute {}

    /// A subscriber that formats each event.
    struct Formats;
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Formats {
        fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            struct Format;
            impl tracing::field::Visit for Format {
                fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                    let _ = format!("{value:?}");
                }
            }
            event.record(&mut Format);
        }
    }
    let subscriber = tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::Registry::default(), Formats);
    with_subscriber(subscriber, || {
        let (mutex, diary) = (MemoryMutex::new(), Diary::default());
        let _ = tick(mutex.clone(), Event::call("faulty", |_| Err(Mute.into())), &diary);
        assert!(is_free(&mutex));
    });
}
