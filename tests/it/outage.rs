//! A store that is unavailable costs a tick one wait, and only events of that store; one bad name costs that name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use soloist::observe::Release;
use soloist::store::{Admission, Admitted, Batch, LeaseRequest};
use soloist::time::ManualClock;
use soloist::{
    Event, EventMutex, FileMutex, LeaseGuard, MemoryMutex, MutexError, MutexName, Report, Schedule, SkipReason, Term,
};

use crate::scripted::{Call, Scripted};
use crate::support::{Diary, HOUR, noon, ran, skipped};

/// A store of three methods that gives no answer while `out`, and counts the calls that waited for one.
#[derive(Clone)]
pub(crate) struct Flaky {
    pub(crate) store: Scripted,
    pub(crate) out: Arc<AtomicBool>,
    waits: Arc<AtomicUsize>,
}

impl Flaky {
    pub(crate) fn out() -> Self {
        Self::out_for(|_| true)
    }

    /// Returns a store that is unavailable for these calls only.
    fn out_for(is_out_for: fn(&Call) -> bool) -> Self {
        let (out, waits) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicUsize>::default());
        let (is_out, waited) = (Arc::clone(&out), Arc::clone(&waits));
        let store = Scripted::default().three_methods().before(move |call| {
            if !is_out.load(Ordering::SeqCst) || !is_out_for(call) {
                return Ok(());
            }
            waited.fetch_add(1, Ordering::SeqCst);
            // Long enough for others to come and wait too, if they could.
            std::thread::sleep(Duration::from_millis(50));
            call.times_out()
        });
        Self { store, out, waits }
    }

    pub(crate) fn waits(&self) -> usize {
        self.waits.load(Ordering::SeqCst)
    }
}

/// The place of an event, by its number.
type Place = fn(Event, usize) -> Event;

/// The answer of a store to a bad name.
type Fault = fn() -> MutexError;

fn protected(name: impl Into<Arc<str>>) -> Event {
    Event::call(name, |_| {}).every_minute().without_overlapping_for(HOUR).on_one_server()
}

fn schedule(mutex: impl EventMutex + 'static, events: impl IntoIterator<Item = Event>) -> Schedule {
    let schedule = Schedule::new(mutex);
    for event in events {
        schedule.add(event).unwrap();
    }
    schedule
}

#[track_caller]
fn error<'a>(report: &'a Report, event: &str) -> &'a MutexError {
    match skipped(report, event) {
        SkipReason::StoreUnavailable(error) => error,
        reason => panic!("{event}: {reason}"),
    }
}

/// The end of the message about a store that did not answer.
const NEXT_STEP: &str = "; test the store with `soloist check`";

#[test]
fn a_hundred_events_wait_once_for_a_store_that_is_out_and_the_others_run() {
    let foreground = |event: Event, _: usize| event;
    let background = |event: Event, _: usize| event.in_background();
    let both = |event: Event, number: usize| if number.is_multiple_of(2) { event } else { event.in_background() };
    let kinds: [(&str, Place); 3] = [("foreground", foreground), ("background", background), ("both at once", both)];
    for (kind, place) in kinds {
        let (store, diary) = (Flaky::out(), Diary::default());
        let mut events: Vec<Event> = (0..250).map(|number| place(protected(format!("e{number}")), number)).collect();
        events.insert(100, place(Event::call("unprotected", diary.task("unprotected")).every_minute(), 0));
        events.insert(101, place(protected("elsewhere").before(diary.task("elsewhere")).mutex(MemoryMutex::new()), 0));
        let schedule = schedule(store.store.clone(), events);
        let report = schedule.run_due(noon());
        assert_eq!(store.waits(), 1, "{kind}");
        assert_eq!(report.failures().count(), 250, "{kind}");
        assert!(ran(&report, "unprotected").is_success() && ran(&report, "elsewhere").is_success());
        assert_eq!(diary.lines().len(), 2, "{kind}");
        let first = "the store did not answer: could not read claim/";
        let not_again = ": the store was not asked again, because an earlier request failed: could not read claim/";
        let texts = (0..250).map(|number| (number, skipped(&report, &format!("e{number}")).to_string()));
        let (first, again): (Vec<_>, Vec<_>) = texts
            .inspect(|(_, text)| assert!(text.ends_with(&format!(": timed out{NEXT_STEP}")), "{text}"))
            .partition(|(_, text)| text.starts_with(first));
        assert_eq!((first.len(), again.len()), (1, 249), "{kind}");
        for (number, text) in again {
            let start = format!("the store did not answer: could not admit lease/e{number}");
            assert!(text.starts_with(&start) && text[start.len()..].starts_with(not_again), "{text}");
        }

        store.out.store(false, Ordering::SeqCst);
        assert!(!schedule.run_due(noon()).is_failure(), "the next tick asks again: {kind}");
    }
}

#[test]
fn a_release_that_gets_no_answer_is_an_outage_too() {
    let store = Flaky::out_for(|call| call.is("forget"));
    let report = schedule(store.store.clone(), (0..3).map(|number| protected(format!("e{number}")))).run_due(noon());
    assert!(matches!(ran(&report, "e0").release(), Some(Release::Failed(error)) if error.is_unavailable()));
    for name in ["e1", "e2"] {
        assert!(error(&report, name).is_unavailable());
        let text = skipped(&report, name).to_string();
        let end = format!("because an earlier request failed: could not forget lease/e0: timed out{NEXT_STEP}");
        assert!(text.ends_with(&end), "{text}");
    }
    assert_eq!(store.waits(), 1);

    // Together, they wait once, unless the machine is too busy to let them come together.
    assert!((0..20).any(|_| waits_of_three_that_end_together() < 3), "all were released one by one");
}

fn waits_of_three_that_end_together() -> usize {
    let store = Flaky::out_for(|call| call.is("forget"));
    let (ended, all) = (Arc::new(AtomicUsize::new(0)), 3);
    let event = |number: usize| {
        let ended = Arc::clone(&ended);
        let task = move |_: &soloist::Run| {
            ended.fetch_add(1, Ordering::SeqCst);
            while ended.load(Ordering::SeqCst) < all {
                std::thread::yield_now();
            }
        };
        Event::call(format!("e{number}"), task).every_minute().without_overlapping_for(HOUR).in_background()
    };
    let report = schedule(store.store.clone(), (0..all).map(event)).run_due(noon());
    assert_eq!(report.failures().count(), 3, "{report}");
    assert!((0..all).all(|number| matches!(ran(&report, &format!("e{number}")).release(), Some(Release::Failed(_)))));
    store.waits()
}

#[test]
fn a_name_that_may_be_granted_without_an_answer_is_released_at_once_and_costs_one_more_wait() {
    let store = Flaky::out_for(|call| call.is("create") || call.is("forget"));
    let report = schedule(store.store.clone(), (0..3).map(|number| protected(format!("e{number}")))).run_due(noon());
    assert_eq!((report.failures().count(), store.waits()), (3, 2), "{report}");
}

#[test]
fn a_store_that_was_out_is_asked_again_when_a_minute_has_passed() {
    let (store, clock) = (Flaky::out(), ManualClock::at(noon()));
    let slow = {
        let (store, clock) = (store.clone(), clock.clone());
        move |_: &soloist::Run| {
            store.out.store(false, Ordering::SeqCst);
            clock.advance(Duration::from_secs(60));
        }
    };
    let events = [protected("waits"), protected("not asked"), Event::call("slow", slow).every_minute(), protected("e")];
    let schedule = schedule(store.store.clone(), events).with_clock(&clock);
    let report = schedule.run_due(noon());
    assert!(error(&report, "waits").is_unavailable() && error(&report, "not asked").is_unavailable());
    assert!(ran(&report, "e").is_success());
    assert_eq!(store.waits(), 1);
}

#[test]
fn a_fault_of_one_name_takes_no_other_with_it() {
    // Answers for all names but one.
    let bad = |fault: Fault| {
        let is_bad = |call: &Call| call.is("create") && call.names[0].mutex() == "bad";
        Scripted::default().three_methods().before(move |call| if is_bad(call) { Err(fault()) } else { Ok(()) })
    };
    let faults: [(Fault, &str); 3] = [
        (|| MutexError::unusable("create lease/bad", "it is a list"), "could not create lease/bad: it is a list"),
        (|| panic!("not that one"), "could not admit lease/bad: the store panicked: not that one"),
        (|| MutexError::unsupported("keep this name"), "this store can't keep this name"),
    ];
    for place in [|event: Event| event, Event::in_background] {
        for (fault, text) in faults {
            let events = ["a", "bad", "b", "c"].map(|name| protected(name).apply(place));
            let report = schedule(bad(fault), events).run_due(noon());
            assert_eq!(skipped(&report, "bad").to_string(), format!("the store could not be used: {text}"));
            assert!(!error(&report, "bad").is_unavailable());
            assert!(["a", "b", "c"].iter().all(|name| ran(&report, name).is_success()), "{report}");
        }
    }
}

#[test]
fn a_foreign_state_takes_no_other_event_with_it_and_a_missing_directory_does() {
    for place in [|event: Event| event, Event::in_background] {
        let dir = tempfile::tempdir().unwrap();
        let mutex = FileMutex::in_dir(dir.path()).unwrap();
        drop(LeaseGuard::acquire(&mutex, MutexName::lease("bad").unwrap(), Term::MAX).unwrap());
        let files = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
        let mut states = files.filter(|path| path.extension().is_some_and(|kind| kind == "state"));
        std::fs::write(states.next().expect("there is one"), "somebody's shopping list").unwrap();
        let events = ["a", "bad", "b"].map(|name| protected(name).apply(place));
        let schedule = schedule(mutex, events);
        let report = schedule.run_due(noon());
        assert!(error(&report, "bad").is_unusable());
        assert!(ran(&report, "a").is_success() && ran(&report, "b").is_success(), "{report}");

        dir.close().unwrap();
        let report = schedule.run_due("2026-03-01T12:01:00Z".parse().unwrap());
        for name in ["a", "bad", "b"] {
            assert!(error(&report, name).is_unavailable(), "{report}");
        }
    }
}

#[test]
fn the_answers_of_the_default_end_with_the_outage() {
    let store = Flaky::out();
    let clock = soloist::time::Clock::system();
    let request = |name: &str| LeaseRequest::new(MutexName::lease(name).unwrap(), Term::MAX, &clock);
    let mut batch = Batch::new();
    for name in ["a", "b"] {
        batch.release(request(name).granted(soloist::FencingToken::new(1)));
    }
    batch.admit(Admission::lease_only(request("c")));
    store.store.carry_out(&mut batch);
    assert_eq!(store.waits(), 1);
    let mut errors: Vec<_> = batch.releases().iter().filter_map(|slot| slot.answer()?.as_ref().err()).collect();
    errors.extend(batch.admissions().iter().filter_map(|slot| slot.answer()?.as_ref().err()));
    let first = "could not forget lease/a: timed out";
    let again =
        |asked| format!("could not {asked}: the store was not asked again, because an earlier request failed: {first}");
    let expected = [first.to_owned(), again("forget lease/b"), again("admit lease/c")];
    assert_eq!(errors.into_iter().map(|error| format!("{error:?}")).collect::<Vec<_>>(), expected);

    // Each call asks anew.
    store.out.store(false, Ordering::SeqCst);
    let mut batch = Batch::new();
    for name in ["a", "b"] {
        batch.admit(Admission::lease_only(request(name)));
    }
    store.store.carry_out(&mut batch);
    assert!(batch.admissions().iter().all(|slot| matches!(slot.answer(), Some(Ok(Admitted::Granted(_))))));
}
