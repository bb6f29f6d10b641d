//! Events that run although their store is unavailable.

use super::*;

/// The error that a store gives instead of a decision.
type Answer = fn(&Admission) -> MutexError;

/// Returns a store that never decides, and the number of its calls.
fn out(answer: Answer) -> (Store, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let admit = move |_: &dyn EventMutex, admissions: &mut Admissions| {
        counted.fetch_add(1, Ordering::SeqCst);
        fill_each(admissions, answer);
    };
    (odd(&MemoryMutex::new(), Scope::Unknown, admit), asked)
}

fn fill_each(admissions: &mut Admissions, answer: Answer) {
    for slot in admissions {
        let error = answer(slot.asked());
        slot.fill(Err(error));
    }
}

fn attempted(admission: &Admission) -> String {
    format!("admit {}", admission.lease().expect("it asks for a lease").name())
}

fn silent(admission: &Admission) -> MutexError {
    MutexError::unavailable(attempted(admission), "timed out")
}

fn unprotected(event: Event) -> Event {
    event.without_overlapping().on_outage(OutagePolicy::RunUnprotected)
}

#[test]
fn an_event_does_not_run_while_its_store_is_out_unless_it_says_so() {
    for place in [|event: Event| event, Event::in_background] {
        let ((store, asked), clock, diary) = (out(silent), ManualClock::at(noon()), Diary::default());
        let event = |name: &str| Event::call(name, diary.task(name)).every_minute().apply(place);
        let events = [
            event("default").without_overlapping(),
            event("runs").apply(unprotected),
            event("skips").without_overlapping().on_outage(OutagePolicy::Skip),
            event("also runs").apply(unprotected),
        ];
        let report = schedule(&store, &clock, events).run_due(noon());
        let mut lines = diary.lines();
        lines.sort();
        assert_eq!(lines, ["also runs", "runs"]);
        for name in ["default", "skips"] {
            assert!(matches!(skipped(&report, name), SkipReason::StoreUnavailable(_)), "{report}");
        }
        for name in ["runs", "also runs"] {
            let outcome = ran(&report, name);
            assert!(outcome.unprotected().is_some_and(MutexError::is_unavailable));
            assert!(outcome.is_success() && outcome.is_failure());
            assert!(outcome.fencing_token().is_none() && outcome.release().is_none());
            let text = outcome.to_string();
            let mark = "succeeded in 0 µs, but unprotected, because the store gave no decision: could not admit ";
            assert!(text.starts_with(mark) && text.ends_with(": timed out"), "{text}");
        }
        assert_eq!(report.failures().count(), 4, "somebody has to learn of the outage");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "the tick waits for it once");
    }
}

#[test]
fn a_store_that_panics_or_keeps_nonsense_gives_no_decision_either() {
    let answers: [(Answer, &str); 3] = [
        (silent, "could not admit lease/e: timed out"),
        (
            |admission| MutexError::unusable(attempted(admission), "it is a list"),
            "could not admit lease/e: it is a list",
        ),
        (|_| panic!("index out of bounds"), "could not admit lease/e: the store panicked: index out of bounds"),
    ];
    for (answer, why) in answers {
        let (clock, (store, _)) = (ManualClock::at(noon()), out(answer));
        let task = |run: &Run| {
            assert!(run.lease().is_none() && run.fencing_token().is_none() && run.remaining().is_none());
            Ok(())
        };
        let report = tick(&store, &clock, unprotected, task);
        let said = format!("succeeded in 0 µs, but unprotected, because the store gave no decision: {why}");
        assert_eq!(ran(&report, "e").to_string(), said);
        assert!(report.is_failure());
    }
}

#[test]
fn a_fleets_store_that_goes_out_between_two_events_lets_the_next_one_choose_too() {
    let clock = ManualClock::at(noon());
    let (inner, counted) = (MemoryMutex::with_clock(&clock), AtomicUsize::new(0));
    let only_the_first =
        move |inner: &dyn EventMutex, admissions: &mut Admissions| match counted.fetch_add(1, Ordering::SeqCst) {
            0 => forward(inner, &mut [], admissions),
            _ => fill_each(admissions, silent),
        };
    let store: Store = odd(&inner, Scope::Fleet, only_the_first);
    let events = ["first", "next"].map(|name| Event::call(name, |_| {}).every_minute().apply(unprotected));
    let report = schedule(&store, &clock, events).run_due(noon());
    assert!(matches!(ran(&report, "first").release(), Some(Release::Released)), "{report}");
    assert!(ran(&report, "first").unprotected().is_none() && ran(&report, "next").unprotected().is_some());
    assert_eq!(report.failures().count(), 1);
}

#[test]
fn a_refusal_is_a_decision() {
    let clock = ManualClock::at(noon());
    let store = in_memory(&clock);
    let request = LeaseRequest::new(lease("e"), Term::MAX, &Clock::from(&clock));
    store.create(&request).unwrap().expect("nobody holds it");
    let report = tick(&store, &clock, unprotected, |_| Err("it may not run".into()));
    assert!(matches!(skipped(&report, "e"), SkipReason::Overlapping(Some(_))), "{report}");
}

#[test]
fn a_store_that_answers_protects_whatever_the_event_says_about_outages() {
    let clock = ManualClock::at(noon());
    let task = |run: &Run| {
        assert!(run.lease().is_some());
        Ok(())
    };
    let report = tick(&in_memory(&clock), &clock, unprotected, task);
    assert!(!report.is_failure() && ran(&report, "e").unprotected().is_none(), "{report}");
}
