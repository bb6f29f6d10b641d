//! Events that run in parallel: they are admitted together, released together, and none waits for another.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use soloist::observe::{Notice, Release, Step};
use soloist::store::{LeaseRequest, Scope};
use soloist::time::{Clock, ManualClock};
use soloist::{
    Entry, Event, EventMutex, MemoryMutex, MutexError, MutexName, Report, Schedule, SkipReason, Term, Verdict,
};

use crate::scripted::{Admissions, Releases, Scripted, forward};
use crate::support::{Diary, HOUR, NO_THREADS, PATIENCE, entry, noon, ran, run_alone, skipped, until};

fn protected(event: Event) -> Event {
    event.every_minute().without_overlapping_for(HOUR).on_one_server().in_background()
}

fn background(name: impl Into<Arc<str>>) -> Event {
    Event::call(name, |_| {}).apply(protected)
}

fn schedule(mutex: impl EventMutex + 'static, events: impl IntoIterator<Item = Event>) -> Schedule {
    let schedule = Schedule::new(mutex);
    for event in events {
        schedule.add(event).unwrap();
    }
    schedule
}

#[test]
fn a_thousand_events_ask_their_store_twelve_times() {
    // Each of the two loops has five requests for the next hundred, which carry the releases of the hundred before, and one for
    // the last releases. A worker that gets no turn while the others end comes alone: on a busy machine, one more call.
    const TRIES: usize = 100;
    let calls: Vec<usize> = (0..TRIES).map(|_| calls_of_a_thousand_events()).take_while(|calls| *calls > 12).collect();
    assert!(calls.len() < TRIES, "{calls:?}");
}

#[test]
fn events_with_several_slots_share_a_request() {
    let store = Scripted::fleet();
    let event = |number| Event::call(format!("e{number}"), |_| {}).every_minute().at_most(3).in_background();
    let report = schedule(store.clone(), (0..10).map(event)).run_due(noon());
    assert!(!report.is_failure(), "{report}");
    assert_eq!(store.admissions(), [30]);
}

#[test]
fn the_slots_of_an_event_are_in_one_request_of_at_most_a_hundred() {
    let store = Scripted::fleet();
    let event = |(number, slots)| Event::call(format!("e{number}"), |_| {}).every_minute().at_most(slots);
    let events = [60, 40, 1, 100, 1].into_iter().enumerate().map(event).map(Event::in_background);
    let report = schedule(store.clone(), events).run_due(noon());
    assert!(!report.is_failure(), "{report}");
    assert_eq!(store.admissions(), [100, 1, 100, 1]);
}

#[test]
fn leases_are_released_before_a_filter_is_called() {
    if run_alone("background::leases_are_released_before_a_filter_is_called", &[NO_THREADS]).is_some() {
        return;
    }
    // Without threads, each event after the first hundred has its turn when the run before it has ended.
    let store = MemoryMutex::new();
    let event = |number| {
        let event = background(format!("e{number}"));
        let Some(before) = (number >= 100).then(|| MutexName::lease(format!("e{}", number - 1)).unwrap()) else {
            return event;
        };
        let store = store.clone();
        event.skip(move |_| store.exists(&before).unwrap())
    };
    let report = schedule(store.clone(), (0..103).map(event)).run_due(noon());
    assert!(report.entries().iter().all(|entry| matches!(entry.verdict(), Verdict::Ran(_))), "{report}");
}

#[test]
fn no_lease_begins_before_the_filter_of_another_event_has_returned() {
    // A worker may hand its run back too late for the second turn. Then the test has shown nothing, and is repeated.
    until(releases_go_before_a_slow_filter).expect("the second turn has a release");
}

/// Returns whether the release was sent before the filter was called. No run loses its lease in either case.
#[track_caller]
fn releases_go_before_a_slow_filter() -> bool {
    let clock = ManualClock::at(noon());
    let (store, diary) = (MemoryMutex::with_clock(&clock), Diary::default());
    let held = MutexName::lease("refused").unwrap();
    store.create(&LeaseRequest::new(held, Term::MAX, &store.clock())).unwrap().expect("it is free");
    // The request of the first turn is full. In the second turn, the lease of `first` is released.
    let first = Event::call("first", diary.task("first")).every_minute().lease_term(24 * HOUR).at_most(99);
    let fixed = |name| Event::call(name, |_| {}).every_minute().without_overlapping_for(HOUR).in_background();
    let (later, open, was_released) = (clock.clone(), store.clone(), Arc::new(AtomicBool::new(false)));
    let told = Arc::clone(&was_released);
    let events = [
        first.in_background(),
        fixed("refused"),
        fixed("quick"),
        fixed("slow filter").skip(move |_| {
            told.store(!open.exists(&MutexName::lease("first").unwrap()).unwrap(), Ordering::SeqCst);
            later.advance(2 * HOUR);
            false
        }),
    ];
    let has_ended = diary.clone();
    let schedule = schedule(store, events).with_clock(&clock).observe(move |notice: &Notice<'_>| {
        if let (Some("refused"), Step::Skipped(_)) = (notice.event(), notice.step()) {
            until(|| has_ended.lines().len() == 1).expect("the first event ends");
        }
    });
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{report}");
    for name in ["first", "quick", "slow filter"] {
        ran(&report, name);
    }
    was_released.load(Ordering::SeqCst)
}

#[track_caller]
fn assert_admitted_in_batches(store: &Scripted, events: usize) {
    let batches = store.admissions();
    assert_eq!(batches.iter().sum::<usize>(), events);
    assert!(batches.iter().all(|batch| *batch <= 100), "{batches:?}");
}

fn calls_of_a_thousand_events() -> usize {
    let store = Scripted::fleet();
    let schedule = schedule(store.clone(), (0..1_000).map(|number| background(format!("e{number}"))));
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{report}");
    assert!(report.entries().iter().map(Entry::event).eq((0..1_000).map(|number| format!("e{number}"))));
    assert!(report.entries().iter().all(|entry| matches!(entry.verdict(), Verdict::Ran(outcome)
        if outcome.fencing_token().is_some() && matches!(outcome.release(), Some(Release::Released)))));
    assert_admitted_in_batches(&store, 1_000);
    assert_eq!(store.releases().iter().sum::<usize>(), 1_000);
    let all = store.asked(&["create", "exists", "forget", "held", "extend", "release_after"]);
    assert_eq!(all, [0; 0], "nothing else was asked");
    store.calls()
}

#[test]
fn the_lease_of_a_quick_task_is_given_back_while_a_slow_one_runs() {
    for count in [1, 40, 250] {
        let store = MemoryMutex::new();
        let quick: Vec<MutexName> =
            (0..count).map(|number| MutexName::lease(format!("quick {number}")).unwrap()).collect();
        let mut events: Vec<Event> = quick.iter().map(|name| background(name.mutex())).collect();
        for (number, place) in [0, 1, count / 2, count].into_iter().enumerate() {
            let (store, quick) = (store.clone(), quick.clone());
            // The slow task ends only when all others were admitted and released.
            let slow = move |_: &soloist::Run| {
                until(|| quick.iter().all(|name| store.exists(&name.claim(name.mutex(), noon())).unwrap()))?;
                until(|| quick.iter().all(|name| !store.exists(name).unwrap()))
            };
            events.insert(place, Event::call(format!("slow {number}"), slow).apply(protected));
        }
        let report = schedule(store, events).run_due(noon());
        assert!(!report.is_failure(), "{report}");
        assert_eq!(report.entries().len(), count + 4);
    }
}

#[test]
fn all_that_are_due_run_at_once_up_to_two_hundred_and_no_lease_waits_for_a_worker() {
    let (store, running, most) = (Scripted::fleet(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let one_has_left = Arc::new(AtomicBool::new(false));
    let task = || {
        let (store, running, most) = (store.clone(), Arc::clone(&running), Arc::clone(&most));
        let one_has_left = Arc::clone(&one_has_left);
        move |_: &soloist::Run| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // The first two hundred leave together.
            let all_are_there = until(|| most.load(Ordering::SeqCst) >= 200);
            let admitted: usize = store.admissions().iter().sum();
            let is_first = !one_has_left.swap(true, Ordering::SeqCst);
            running.fetch_sub(1, Ordering::SeqCst);
            all_are_there?;
            if is_first && admitted != 200 { Err("more were admitted than there are workers".into()) } else { Ok(()) }
        }
    };
    let events = (0..425).map(|number| Event::call(format!("e{number}"), task()).apply(protected));
    let report = schedule(store.clone(), events).run_due(noon());
    assert!(!report.is_failure() && report.entries().len() == 425, "{report}");
    assert_eq!(most.load(Ordering::SeqCst), 200);
    assert_admitted_in_batches(&store, 425);
}

#[test]
fn slow_tasks_delay_no_others_while_there_are_threads() {
    let quick_ones_ran = Arc::new(AtomicUsize::new(0));
    let task = |number: usize| {
        let ran = Arc::clone(&quick_ones_ran);
        move |_: &soloist::Run| {
            if number < 150 {
                return until(|| ran.load(Ordering::SeqCst) == 351);
            }
            ran.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    };
    let events = (0..501).map(|number| Event::call(format!("e{number}"), task(number)).apply(protected));
    let report = schedule(MemoryMutex::new(), events).run_due(noon());
    assert!(!report.is_failure(), "{report}");
}

#[test]
fn of_two_that_share_a_mutex_the_first_runs_and_the_other_is_overlapping() {
    let shared = |name: &str| background(name).mutex_name("shared");
    let report = schedule(MemoryMutex::new(), [shared("a"), shared("b"), background("c")]).run_due(noon());
    assert!(ran(&report, "a").is_success() && ran(&report, "c").is_success(), "{report}");
    assert!(matches!(skipped(&report, "b"), SkipReason::Overlapping(Some(_))), "{report}");
}

#[test]
fn each_store_is_asked_for_its_own_events_whatever_handle_they_have() {
    let (own, others) = (Scripted::fleet(), Scripted::fleet());
    let shared: Arc<dyn EventMutex> = Arc::new(own.clone());
    let event = |number: usize| match number % 3 {
        0 => background(format!("e{number}")),
        1 => background(format!("e{number}")).mutex(own.clone()),
        _ => background(format!("e{number}")).mutex(Arc::clone(&shared)),
    };
    let report = schedule(others.clone(), (0..180).map(event)).run_due(noon());
    assert!(!report.is_failure(), "{report}");
    assert_admitted_in_batches(&own, 120);
    assert_admitted_in_batches(&others, 60);
    assert_eq!((own.releases().iter().sum::<usize>(), others.releases().iter().sum()), (120, 60));
}

#[test]
fn what_asks_no_store_waits_for_none() {
    let ran_beside = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&ran_beside);
    let slow = move |asked: &mut Admissions, decided: &Admissions| {
        until(|| seen.load(Ordering::SeqCst) == 1).expect("the unprotected event runs while the store is asked");
        asked.clone_from_slice(decided);
    };
    let store = odd(&MemoryMutex::new(), slow);
    let task = move |_: &soloist::Run| {
        ran_beside.fetch_add(1, Ordering::SeqCst);
    };
    let unprotected = Event::call("unprotected", task).every_minute().in_background();
    let report = schedule(store, [background("a"), unprotected, background("b")]).run_due(noon());
    assert!(!report.is_failure(), "{report}");
    assert!(report.entries().iter().map(Entry::event).eq(["a", "unprotected", "b"]));
}

#[test]
fn a_store_that_is_slow_holds_up_no_event_of_another_store() {
    let foreground = |event: Event| event.every_minute().without_overlapping_for(HOUR).on_one_server();
    let beside: fn(Event) -> Event = protected;
    for [slow_place, place] in [[beside, beside], [beside, foreground], [foreground, beside]] {
        let (store, lease) = (MemoryMutex::new(), MutexName::lease("quick").unwrap());
        let seen = store.clone();
        let slow = odd(&MemoryMutex::new(), move |asked, decided| {
            until(|| seen.exists(&lease.claim("quick", noon())).unwrap()).expect("the other one runs");
            until(|| !seen.exists(&lease).unwrap()).expect("and is released");
            asked.clone_from_slice(decided);
        });
        let slow = Event::call("slow", |_| {}).apply(slow_place).mutex(slow);
        let report = schedule(store, [slow, Event::call("quick", |_| {}).apply(place)]).run_due(noon());
        assert!(ran(&report, "slow").is_success() && ran(&report, "quick").is_success(), "{report}");
    }
}

#[test]
fn what_is_filtered_or_unprotected_or_not_let_in_is_told_as_in_the_foreground() {
    let store = Scripted::fleet();
    let held = LeaseRequest::new(MutexName::lease("held").unwrap(), soloist::Term::MAX, &Clock::system());
    store.create(&held).unwrap().expect("nobody holds it");
    let diary = Diary::default();
    let events = [
        background("filtered").skip(|_| true),
        background("filter panics").skip(|_| panic!("no such flag")),
        Event::call("unprotected", diary.task("unprotected")).every_minute().in_background(),
        Event::call("task panics", |_| panic!("no paper")).apply(protected),
        background("held"),
        Event::call("hooks", diary.task("task")).apply(protected).before(diary.task("before")).then(diary.hook("then")),
    ];
    let report = schedule(store.clone(), events).run_due(noon());
    assert!(matches!(skipped(&report, "filtered"), SkipReason::Filtered(_)));
    assert_eq!(skipped(&report, "filter panics").to_string(), "a filter panicked: no such flag");
    assert!(ran(&report, "unprotected").release().is_none());
    assert!(ran(&report, "task panics").to_string().ends_with(": no paper"));
    assert!(matches!(ran(&report, "task panics").release(), Some(Release::Released)));
    assert!(matches!(skipped(&report, "held"), SkipReason::Overlapping(Some(_))));
    let lines = diary.lines();
    assert_eq!(lines.iter().filter(|line| *line != "unprotected").collect::<Vec<_>>(), ["before", "task", "then"]);
    assert_eq!(store.admissions(), [3]);
    assert!(report.failures().map(Entry::event).eq(["filter panics", "task panics"]));
}

#[test]
fn hooks_run_while_the_lease_is_held() {
    let store = MemoryMutex::new();
    let held = |store: &MemoryMutex| {
        let store = store.clone();
        move |run: &soloist::Run| match store.exists(run.lease().unwrap().name()) {
            Ok(true) => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    };
    let (before, task, then) = (held(&store), held(&store), held(&store));
    let event = Event::call("a", task).apply(protected).before(before).then(move |run, _| then(run));
    let report = schedule(store.clone(), [event, background("b")]).run_due(noon());
    assert!(!report.is_failure(), "{report}");
    assert!(!store.exists(&MutexName::lease("a").unwrap()).unwrap());
}

#[test]
fn background_events_run_beside_the_others_and_the_tick_waits_for_them() {
    let (to_background, from_foreground) = mpsc::channel();
    let (to_foreground, from_background) = mpsc::channel();
    let (from_foreground, from_background) =
        (std::sync::Mutex::new(from_foreground), std::sync::Mutex::new(from_background));
    let diary = Diary::default();
    let (a, b) = (diary.clone(), diary.clone());
    let schedule = Schedule::in_process();
    // Each waits for the other: neither order one after the other would end.
    let background = move |_: &soloist::Run| {
        to_foreground.send(()).unwrap();
        from_foreground.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        a.note("background");
    };
    let foreground = move |_: &soloist::Run| {
        from_background.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        to_background.send(()).unwrap();
        b.note("foreground");
    };
    schedule.add(Event::call("background", background).every_minute().in_background()).unwrap();
    schedule.add(Event::call("foreground", foreground).every_minute()).unwrap();
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{report}");
    assert_eq!(diary.lines().len(), 2);
    assert!(report.entries().iter().map(soloist::Entry::event).eq(["background", "foreground"]), "{report}");
}

/// Makes a store that fills the slots of admissions in its own way: `answer` fills them, and sees the decisions of
/// the inner store.
fn odd(inner: &MemoryMutex, answer: impl Fn(&mut Admissions, &Admissions) + Send + Sync + 'static) -> Scripted {
    let store = Scripted::over(inner.clone()).scope(Scope::Unknown);
    store.on_admit(move |inner, asked| {
        let mut decided = asked.to_vec();
        forward(inner, &mut [], &mut decided);
        answer(asked, &decided);
    })
}

/// Runs `a`, `b` and `c` on the odd store, and another event on another store.
#[track_caller]
fn tick(answer: impl Fn(&mut Admissions, &Admissions) + Send + Sync + 'static) -> (Report, MemoryMutex) {
    let inner = MemoryMutex::new();
    let odd = odd(&inner, answer);
    let others = background("another's").mutex(MemoryMutex::new());
    let report = schedule(odd, [background("a"), background("b"), others, background("c")]).run_due(noon());
    assert!(ran(&report, "another's").is_success());
    (report, inner)
}

/// Lets `a`, `b` and `c` end together, and their store release them oddly.
#[track_caller]
fn tick_and_release(
    release: impl Fn(&dyn EventMutex, &mut Releases) + Send + Sync + 'static,
) -> HashMap<&'static str, (String, bool)> {
    let (inner, end) = (MemoryMutex::new(), Arc::new(Barrier::new(3)));
    let releases_oddly = Scripted::over(inner.clone()).scope(Scope::Unknown).on_release(release);
    let event = |name| {
        let end = Arc::clone(&end);
        background(name).then(move |_, _| {
            end.wait();
        })
    };
    let events = [event("a"), event("b"), event("c"), background("another's").mutex(MemoryMutex::new())];
    let report = schedule(releases_oddly, events).run_due(noon());
    assert!(ran(&report, "another's").is_success());
    answers_of(&report, &inner)
}

/// Returns the report's word for each event, and whether its occurrence is still free. Asserts that no lease is
/// left.
#[track_caller]
fn answers_of(report: &Report, inner: &MemoryMutex) -> HashMap<&'static str, (String, bool)> {
    for name in ["a", "b", "c"] {
        assert!(!inner.exists(&MutexName::lease(name).unwrap()).unwrap(), "{name} is held: {report}");
    }
    let told = |name: &'static str| {
        let text = match entry(report, name).verdict() {
            Verdict::Ran(outcome) => outcome.release().unwrap().to_string(),
            Verdict::Skipped(reason) => reason.to_string(),
        };
        let claim = MutexName::lease(name).unwrap().claim(name, noon());
        (name, (text, !inner.exists(&claim).unwrap()))
    };
    ["a", "b", "c"].map(told).into()
}

#[test]
fn a_store_that_gives_some_answers_or_none_leaves_nothing_behind() {
    let ran = || ("the lease was released".to_owned(), false);
    let out =
        |name: &str, why: &str| (format!("the store could not be used: could not admit lease/{name}: {why}"), true);
    let nothing = "the store gave no answer";

    let (report, inner) = tick(|asked, decided| asked[..2].clone_from_slice(&decided[..2]));
    assert_eq!(answers_of(&report, &inner), [("a", ran()), ("b", ran()), ("c", out("c", nothing))].into());

    let (report, inner) = tick(|_, _| {});
    assert_eq!(answers_of(&report, &inner), ["a", "b", "c"].map(|name| (name, out(name, nothing))).into());

    // Answers from before the panic count.
    let (report, inner) = tick(|asked, decided| {
        asked[1] = decided[1].clone();
        panic!("index out of bounds")
    });
    let panicked = |name| (name, out(name, "the store panicked: index out of bounds"));
    assert_eq!(answers_of(&report, &inner), [panicked("a"), ("b", ran()), panicked("c")].into());
}

#[test]
fn a_release_that_goes_wrong_is_tried_again_for_each_alone() {
    let failed =
        |name: &str, why: &str| (format!("the lease was not released: could not forget lease/{name}: {why}"), false);
    let released = || ("the lease was released".to_owned(), false);

    // All were released, but one has no answer.
    let told = tick_and_release(|inner, asked| {
        let mut decided = asked.to_vec();
        forward(inner, &mut decided, &mut []);
        for (slot, decided) in
            asked.iter_mut().zip(decided).filter(|(slot, _)| slot.asked().lease().name().mutex() != "b")
        {
            slot.fill(decided.answer().unwrap().clone());
        }
    });
    let unknown = failed("b", "the store gave no answer");
    assert_eq!(told, [("a", released()), ("b", unknown), ("c", released())].into());

    let told = tick_and_release(|_, _| panic!("index out of bounds"));
    assert_eq!(told, ["a", "b", "c"].map(|name| (name, released())).into());

    let told = tick_and_release(|_, _| {});
    assert_eq!(told, ["a", "b", "c"].map(|name| (name, released())).into());

    let told = tick_and_release(|inner, asked| {
        forward(inner, asked, &mut []);
        for slot in asked.iter_mut().filter(|slot| slot.asked().lease().name().mutex() == "b") {
            slot.fill(Err(MutexError::unusable("forget lease/b", "it is a list")));
        }
    });
    assert_eq!(told, [("a", released()), ("b", failed("b", "it is a list")), ("c", released())].into());
}

#[test]
fn a_run_gets_the_answer_to_the_release_of_its_lease_and_not_of_its_claim() {
    let store = Scripted::over(MemoryMutex::new()).scope(Scope::Unknown).on_release(|inner, asked| {
        forward(inner, asked, &mut []);
        for slot in asked.iter_mut().filter(|slot| slot.asked().lease().name().occurrence().is_some()) {
            slot.fill(Err(MutexError::unusable("forget a claim", "it is a list")));
        }
    });
    let does_not_start = |name| Event::command(name, "./no-such-program", [""; 0]).apply(protected);
    let report = schedule(store.clone(), ["a", "b"].map(does_not_start)).run_due(noon());
    for name in ["a", "b"] {
        assert!(matches!(ran(&report, name).release(), Some(Release::Released)), "{report}");
    }
    assert_eq!(store.releases().iter().sum::<usize>(), 4, "the occurrences are left to other servers");
}

#[test]
fn a_store_that_panics_for_one_name_step_by_step_takes_no_other_with_it() {
    let inner = MemoryMutex::new();
    let store = Scripted::over(inner.clone()).three_methods();
    let store = store.before(|call| {
        assert!(!call.is("create") || call.names[0].mutex() != "b", "b is too much");
        Ok(())
    });
    let store = store.after(|call| {
        assert!(!call.is("forget") || call.names[0].mutex() != "c", "c is too much");
        Ok(())
    });
    let report = schedule(store, ["a", "b", "c", "d"].map(background)).run_due(noon());
    for name in ["a", "d"] {
        assert!(matches!(ran(&report, name).release(), Some(Release::Released)), "{report}");
    }
    let text = skipped(&report, "b").to_string();
    assert_eq!(text, "the store could not be used: could not admit lease/b: the store panicked: b is too much");
    let text = ran(&report, "c").release().unwrap().to_string();
    assert_eq!(text, "the lease was not released: could not forget lease/c: the store panicked: c is too much");
    assert!(["a", "b", "c", "d"].iter().all(|name| !inner.exists(&MutexName::lease(*name).unwrap()).unwrap()));
}

#[test]
fn where_no_thread_can_be_started_the_caller_does_it_all() {
    if run_alone("background::where_no_thread_can_be_started_the_caller_does_it_all", &[NO_THREADS]).is_some() {
        return;
    }
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "there are threads");
    for with_foreground in [false, true] {
        let (store, diary) = (Scripted::fleet(), Diary::default());
        let events = (0..230).map(|number| {
            let name = format!("e{number}");
            let event = Event::call(name.as_str(), diary.task(&name)).apply(protected);
            let seen = store.clone();
            event.before(move |_| {
                let gated: usize = seen.admissions().iter().sum();
                let released: usize = seen.releases().iter().sum();
                // The first batch of each of the two loops is admitted before it is known that no thread starts.
                if (101..=200).contains(&gated) && gated - released > 1 {
                    Err("it holds leases that nobody works under".into())
                } else {
                    Ok(())
                }
            })
        });
        let foreground = Event::call("foreground", diary.task("foreground")).every_minute();
        let schedule = schedule(store.clone(), events);
        if with_foreground {
            schedule.add(foreground).unwrap();
        }
        let report = schedule.run_due(noon());
        assert!(!report.is_failure(), "{report}");
        assert_eq!(diary.lines().len(), 230 + usize::from(with_foreground));
        assert_eq!(store.releases().iter().sum::<usize>(), 230);
    }
}
