//! The loop of a service: it ticks when something is due, under any step of the clock, and sleeps otherwise.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::observe::{Notice, Step};
use soloist::store::{LeaseRequest, Scope};
use soloist::time::{Clock, ManualClock};
use soloist::{
    Event, EventMutex, MemoryMutex, MutexName, Period, Report, Run, Schedule, Shutdown, SkipReason, Term, Verdict,
};

use crate::scripted::Scripted;
use crate::support::{Diary, HOUR, NO_THREADS, at, run_alone, skipped, until};

const MINUTE: Duration = Duration::from_secs(60);

/// A running loop on a clock that the test moves. It begins at 12:00:30.
struct Loop {
    clock: ManualClock,
    store: Scripted,
    diary: Diary,
    reports: Receiver<Report>,
    shutdown: Shutdown,
    thread: Option<thread::JoinHandle<()>>,
}

impl Loop {
    /// Starts with these events, which write into the diary, and with another that does so every minute.
    fn start(events: impl FnOnce(&Diary, &ManualClock) -> Vec<Event>) -> Self {
        let clock = ManualClock::at(noon() + TimeDelta::seconds(30));
        let (diary, shutdown) = (Diary::default(), Shutdown::new());
        let (sender, reports) = mpsc::channel();
        let sender: Mutex<Sender<Report>> = Mutex::new(sender);
        let store = Scripted::fleet_by(&clock);
        let schedule = Schedule::new(store.clone()).with_clock(&clock);
        schedule.add(Event::call("minute", notes(&diary)).every_minute()).unwrap();
        schedule.add(Event::call("known", notes(&diary)).cron("@yearly").on_one_server().catch_up(MINUTE)).unwrap();
        for event in events(&diary, &clock) {
            schedule.add(event).unwrap();
        }
        let schedule = schedule.on_report(move |report| sender.lock().unwrap().send(report.clone()).unwrap());
        let thread = thread::spawn({
            let shutdown = shutdown.clone();
            move || schedule.work(&shutdown)
        });
        // The first call records the events whose misses count from now on.
        until(|| store.calls() > 0).expect("the loop begins");
        Self { clock, store, diary, reports, shutdown, thread: Some(thread) }
    }

    fn now(&self) -> DateTime<Utc> {
        Clock::from(&self.clock).now()
    }

    /// Lets time pass up to this, and waits for the tick that comes then.
    #[track_caller]
    fn pass_until(&self, time: &str) {
        self.clock.advance((on_the_day(time) - self.now()).to_std().expect("time goes forward"));
        self.wait_for(&format!("minute {}", &time[..5]));
    }

    #[track_caller]
    fn wait_for(&self, line: &str) {
        let found = until(|| self.diary.lines().iter().any(|noted| noted == line));
        found.unwrap_or_else(|why| panic!("{why} for {line:?}: {:?}", self.diary.lines()));
    }

    /// Waits until no run of this event holds its lease: its task has ended earlier.
    #[track_caller]
    fn wait_for_release(&self, event: &str) {
        let lease = MutexName::lease(event).unwrap();
        until(|| !self.store.exists(&lease).unwrap()).expect("the run ends");
    }

    /// Passes a minute without anything to wait for.
    fn pass_a_minute(&self) {
        self.clock.advance(MINUTE);
        thread::sleep(Duration::from_millis(30)); // the loop reads the clock three times
    }

    /// Ends the loop. Returns the diary.
    fn end(mut self) -> Vec<String> {
        self.shutdown.trigger();
        self.thread.take().expect("it is ended once").join().expect("the loop does not panic");
        self.diary.lines()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // A failed test must not leave the loop running.
        self.shutdown.trigger();
    }
}

fn noon() -> DateTime<Utc> {
    on_the_day("12:00")
}

fn on_the_day(time: &str) -> DateTime<Utc> {
    let seconds = if time.len() == 5 { ":00" } else { "" };
    at(&format!("2026-03-01T{time}{seconds}Z"))
}

/// Returns a task that notes its occurrence.
fn notes(diary: &Diary) -> impl Fn(&Run) + Send + Sync + use<> {
    let diary = diary.clone();
    move |run| diary.note(format!("{} {}", run.name(), run.occurrence().format("%R")))
}

#[test]
fn it_begins_with_the_next_minute_and_misses_none() {
    let it = Loop::start(|diary, _| vec![Event::call("hour", notes(diary)).hourly()]);
    thread::sleep(Duration::from_millis(30)); // it would tick now
    for time in ["12:01", "12:02", "12:03"] {
        it.pass_until(time);
    }
    assert_eq!(it.end(), ["minute 12:01", "minute 12:02", "minute 12:03"]);
}

#[test]
fn it_begins_at_once_with_what_its_claim_keeps_from_running_twice() {
    let it = Loop::start(|diary, _| {
        let hour = |name| Event::call(name, notes(diary)).hourly();
        vec![hour("one server").on_one_server(), hour("any"), hour("a day").once_per(Period::Day)]
    });
    it.wait_for("one server 12:00");
    it.wait_for("a day 12:00");
    it.pass_until("12:01");
    assert_eq!(it.end(), ["one server 12:00", "a day 12:00", "minute 12:01"]);
}

#[test]
fn it_begins_with_the_next_occurrence_if_the_claims_are_in_memory() {
    // The claims of an earlier process are gone.
    let it = Loop::start(|diary, clock| {
        let hour = Event::call("hour", notes(diary)).hourly().on_one_server();
        vec![hour.mutex(MemoryMutex::with_clock(clock))]
    });
    it.pass_until("12:01");
    assert_eq!(it.end(), ["minute 12:01"]);
}

#[test]
fn an_occurrence_that_the_beginning_of_the_loop_leaves_out_is_caught_up() {
    let clock = ManualClock::at(on_the_day("11:00"));
    let (store, diary, shutdown) =
        (Scripted::fleet_by(&clock).scope(Scope::Process), Diary::default(), Shutdown::new());
    let schedule = Schedule::new(store.clone()).with_clock(&clock);
    schedule.add(Event::call("hour", notes(&diary)).hourly().on_one_server().catch_up(HOUR / 2)).unwrap();
    assert!(!schedule.run_due(on_the_day("11:00")).is_failure());
    clock.advance(HOUR + MINUTE / 2);
    let calls = store.calls();
    thread::scope(|scope| {
        scope.spawn(|| schedule.work(&shutdown));
        until(|| store.calls() > calls).expect("the loop begins");
        clock.advance(MINUTE / 2);
        let caught_up = until(|| diary.lines().len() == 2);
        shutdown.trigger();
        caught_up.expect("the tick of 12:01 runs the occurrence of 12:00");
    });
    assert_eq!(diary.lines(), ["hour 11:00", "hour 12:00"]);
}

#[test]
fn a_clock_that_is_set_90_minutes_back_runs_nothing_twice_and_loses_nothing() {
    let it = Loop::start(|diary, _| vec![Event::call("quarter", notes(diary)).every_fifteen_minutes()]);
    for minute in 1..=20 {
        it.pass_until(&format!("12:{minute:02}"));
    }
    it.wait_for("quarter 12:15"); // runs of two ticks may overlap
    it.clock.set(on_the_day("10:50"));
    for minute in 51..=120 {
        let time = format!("{:02}:{:02}", 10 + minute / 60, minute % 60);
        it.pass_until(&time);
        if minute % 15 == 0 {
            it.wait_for(&format!("quarter {time}"));
        }
    }
    for _ in 1..=20 {
        it.pass_a_minute();
    }
    assert_eq!(it.now(), on_the_day("12:20"));
    it.pass_until("12:21");
    it.pass_until("12:22");
    // The loop began at 12:00:30: the minutes from 10:51 to 12:00 have not run, and those until 12:20 have. The
    // sleeping loop notices the step at 10:51 at the earliest.
    let shown = (51..=59).map(|minute| (10, minute)).chain((0..=59).map(|minute| (11, minute))).chain([(12, 0)]);
    let minutes = (1..=20).map(|minute| (12, minute)).chain(shown).chain([(12, 21), (12, 22)]);
    let expected: Vec<String> = minutes.map(|(hour, minute)| format!("minute {hour:02}:{minute:02}")).collect();
    let lines = it.end();
    let minutes: Vec<&String> = lines.iter().filter(|line| line.starts_with("minute")).collect();
    assert_eq!(minutes, expected.iter().collect::<Vec<_>>());
    let quarters = lines.iter().filter(|line| line.starts_with("quarter")).map(|line| &line[8..]).collect::<Vec<_>>();
    assert_eq!(quarters, ["12:15", "11:00", "11:15", "11:30", "11:45", "12:00"]);
}

#[test]
fn a_clock_that_is_set_back_by_more_than_three_hours_begins_anew() {
    let it = Loop::start(|_, _| vec![]);
    it.pass_until("12:01");
    it.clock.set(on_the_day("08:59"));
    // When the loop has seen that, it begins with the minute after. By then, a busy machine may be further on.
    while it.diary.lines().len() == 1 {
        assert!(it.now() < on_the_day("09:30"), "it does not begin anew");
        it.pass_a_minute();
        thread::sleep(Duration::from_millis(300)); // on a busy machine the loop may read the clock later
    }
    let first = on_the_day(&it.diary.lines()[1]["minute ".len()..]);
    assert!(first >= on_the_day("09:00"), "{first}");
    let last = it.now() + TimeDelta::minutes(1);
    it.pass_until(&last.format("%R").to_string());
    let minutes = (0..).map(|minute| first + TimeDelta::minutes(minute)).take_while(|minute| *minute <= last);
    let minutes = minutes.chain([on_the_day("12:01")]).map(|minute| format!("minute {}", minute.format("%R")));
    let mut lines = it.end();
    lines.sort();
    assert_eq!(lines, minutes.collect::<Vec<_>>());
}

#[test]
fn a_clock_that_is_set_three_hours_forward_loses_only_what_does_not_catch_up() {
    let it = Loop::start(|diary, _| {
        let at_two = |name| Event::call(name, notes(diary)).hourly_at(2).on_one_server();
        let too_late = Event::call("too late", notes(diary)).cron("30 12 * * *").on_one_server();
        vec![at_two("two"), at_two("late").catch_up(HOUR), too_late.catch_up(2 * HOUR)]
    });
    it.pass_until("12:01");
    it.pass_until("12:02");
    it.wait_for("late 12:02");
    it.pass_until("12:03");
    it.clock.set(on_the_day("15:03"));
    it.pass_until("15:04");
    it.wait_for("late 15:02");
    it.pass_until("15:05");
    // 13:02 and 14:02 are part of 15:02, and 12:30 is too long ago. A loop that slept sees the step a minute later.
    let mut lines = it.end();
    lines.sort();
    let minutes = ["12:01", "12:02", "12:03", "15:04", "15:05"].map(|time| format!("minute {time}"));
    assert_eq!(
        lines,
        [&["late 12:02".to_owned(), "late 15:02".to_owned()], &minutes[..], &["two 12:02".to_owned()]].concat()
    );
}

#[test]
fn time_that_a_test_lets_pass_has_all_of_its_ticks() {
    let it = Loop::start(|_, _| Vec::new());
    it.pass_until("12:01");
    it.pass_until("12:02"); // from now on, the clock waits for the loop
    it.clock.advance(8 * MINUTE);
    let expected: Vec<String> = (1..=10).map(|minute| format!("minute 12:{minute:02}")).collect();
    for line in &expected {
        it.wait_for(line);
    }
    let mut lines = it.end();
    lines.sort();
    assert_eq!(lines, expected);
}

#[test]
fn a_suspend_of_ten_minutes_loses_only_what_does_not_catch_up() {
    let it = Loop::start(|diary, _| {
        let at_five = |name| Event::call(name, notes(diary)).hourly_at(5).on_one_server();
        vec![at_five("five"), at_five("late").catch_up(HOUR / 2)]
    });
    it.pass_until("12:01");
    it.clock.jump(10 * MINUTE);
    it.wait_for("minute 12:11");
    it.wait_for("late 12:05");
    it.pass_until("12:12");
    let mut lines = it.end();
    lines.sort();
    assert_eq!(lines, ["late 12:05", "minute 12:01", "minute 12:11", "minute 12:12"]);
}

#[test]
fn a_suspend_of_an_hour_is_made_up_for_as_each_event_says() {
    let it = Loop::start(|diary, _| {
        let every = |name| Event::call(name, notes(diary)).every_ten_minutes().on_one_server();
        vec![
            every("all").catch_up_all(2 * HOUR, 12),
            every("two").catch_up_all(2 * HOUR, 2),
            every("last").catch_up(2 * HOUR),
        ]
    });
    let wait_for_each =
        |time: &str| ["all", "two", "last"].iter().for_each(|name| it.wait_for(&format!("{name} {time}")));
    wait_for_each("12:00"); // runs of two ticks may overlap
    it.pass_until("12:10");
    wait_for_each("12:10");
    it.clock.jump(HOUR);
    wait_for_each("13:10");
    it.pass_until("13:11");
    let lines = it.end();
    let times = |name: &str| lines.iter().filter_map(|line| line.strip_prefix(name)).collect::<Vec<_>>().join("");
    assert_eq!(times("all"), " 12:00 12:10 12:20 12:30 12:40 12:50 13:00 13:10");
    assert_eq!(times("two"), " 12:00 12:10 13:00 13:10");
    assert_eq!(times("last"), " 12:00 12:10 13:10");
    let mut minutes: Vec<_> = lines.iter().filter(|line| line.as_str() > "minute 12:10").collect();
    minutes.retain(|line| line.starts_with("minute"));
    minutes.sort();
    assert_eq!(minutes, ["minute 13:10", "minute 13:11"]);
}

#[test]
fn a_callback_of_five_minutes_delays_none_of_the_ticks_meanwhile() {
    let it = Loop::start(|diary, clock| {
        let (notes, begins, clock) = (notes(diary), diary.task("slow begins"), Clock::from(clock));
        let slow = move |run: &Run| {
            begins(run);
            let ends = run.occurrence() + 5 * MINUTE;
            until(|| clock.now() > ends).expect("five minutes pass");
            notes(run);
        };
        // Of a term that a step of the clock does not end.
        let lease = |event: Event| event.every_minute().without_overlapping_for(HOUR);
        vec![
            lease(Event::call("slow", slow)),
            lease(Event::call("after it", self::notes(diary))).in_background(),
            Event::call("quarter", self::notes(diary)).cron("*/3 * * * *"),
        ]
    });
    for time in ["12:01", "12:02", "12:03", "12:04", "12:05"] {
        it.pass_until(time);
        it.wait_for(&format!("after it {time}"));
        it.wait_for_release("after it");
        it.wait_for("slow begins");
    }
    it.wait_for("quarter 12:03");
    let early: BTreeSet<String> = it.diary.lines().into_iter().collect();
    it.pass_until("12:06");
    it.wait_for("after it 12:06");
    it.clock.advance(MINUTE / 2);
    it.wait_for("slow 12:01");
    let reports: Vec<Report> = (0..6).map(|_| it.reports.recv().unwrap()).collect();
    let of = |name: &'static str| {
        let entries = reports.iter().filter_map(move |report| report.entry(name));
        entries.map(|entry| (entry.occurrence().format("%R").to_string(), entry.verdict().clone()))
    };
    let ran: Vec<String> =
        of("slow").filter(|(_, verdict)| matches!(verdict, Verdict::Ran(_))).map(|(at, _)| at).collect();
    let overlapped =
        of("slow").filter(|(_, verdict)| matches!(verdict, Verdict::Skipped(SkipReason::Overlapping(_)))).count();
    assert_eq!(ran, ["12:01"], "{reports:#?}");
    assert_eq!(overlapped, 5, "12:06 came while it was at work, too");
    assert!(!early.contains("quarter 12:06") && early.len() == 5 + 5 + 1 + 1, "{early:?}");
    it.end();
}

#[test]
fn it_ends_its_runs_when_it_is_told_to_stop() {
    let shutdown = Shutdown::new().with_drain(Duration::ZERO);
    let (sender, begun) = mpsc::channel();
    let sender = Mutex::new(sender);
    let diary = Diary::default();
    let schedule = Schedule::in_process();
    let noted = diary.clone();
    let task = move |run: &Run| {
        sender.lock().unwrap().send(()).ok();
        noted.note(format!("told to stop: {}", run.wait_cancelled(10 * MINUTE).is_some()));
    };
    schedule.add(Event::call("e", task).every_second().without_overlapping()).unwrap();
    let noted = diary.clone();
    let schedule = schedule.on_report(move |_| noted.note("reported"));
    thread::scope(|scope| {
        let work = scope.spawn(|| schedule.work(&shutdown));
        begun.recv().unwrap();
        shutdown.trigger();
        work.join().unwrap();
    });
    // A tick that meets the run is reported, too, if the trigger comes late.
    let told = || diary.lines().into_iter().filter(|line| line.starts_with("told")).collect::<Vec<_>>();
    assert_eq!(told(), ["told to stop: true"]);
    assert_eq!(diary.lines().last().unwrap(), "reported");
    // After the trigger, a new loop starts nothing.
    schedule.work(&shutdown);
    assert_eq!(told().len(), 1);
}

#[test]
fn who_is_told_of_reports_may_panic_and_the_loop_goes_on() {
    let diary = Diary::default();
    let shutdown = Shutdown::new();
    let schedule = Schedule::in_process();
    schedule.add(Event::call("e", notes(&diary)).every_second()).unwrap();
    let schedule = schedule.on_report(|_| panic!("out of paper"));
    thread::scope(|scope| {
        scope.spawn(|| schedule.work(&shutdown));
        let three = until(|| diary.lines().len() >= 3);
        shutdown.trigger();
        three.unwrap();
    });
}

#[test]
fn a_tick_without_a_thread_is_refused_and_told_and_the_loop_goes_on() {
    if run_alone("work::a_tick_without_a_thread_is_refused_and_told_and_the_loop_goes_on", &[NO_THREADS]).is_some() {
        return;
    }
    let (diary, shutdown, reports) = (Diary::default(), Shutdown::new(), Arc::<Mutex<Vec<Report>>>::default());
    let schedule = Schedule::in_process();
    schedule.add(Event::call("may hang", diary.task("runs")).every_second()).unwrap();
    schedule.add(Event::call("missed", diary.task("runs")).every_second().on_one_server().catch_up(MINUTE)).unwrap();
    let (told, ends) = (Arc::clone(&reports), shutdown.clone());
    let schedule = schedule.on_report(move |report| {
        let mut told = told.lock().unwrap();
        told.push(report.clone());
        if told.len() == 3 {
            ends.trigger();
        }
    });
    schedule.work(&shutdown);
    assert_eq!(diary.lines(), [""; 0]);
    let reports = reports.lock().unwrap();
    for report in reports.iter().filter(|report| report.entry("may hang").is_some()) {
        let reason = skipped(report, "may hang");
        assert!(reason.keyword() == "no_thread" && report.is_failure(), "{report}");
        assert!(reason.to_string().starts_with("could not start a thread: "), "{reason}");
    }
    assert!(reports.last().is_some_and(|report| report.entries().len() == 2), "{reports:?}");
}

#[test]
fn an_observer_that_does_not_return_holds_up_no_tick() {
    let (clock, shutdown) = (ManualClock::at(noon() + TimeDelta::seconds(30)), Shutdown::new());
    let (diary, stuck, is_awake) = (Diary::default(), Arc::new(Mutex::new(())), Arc::<AtomicBool>::default());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    schedule.add(Event::call("minute", notes(&diary)).every_minute()).unwrap();
    let (waits, awake) = (Arc::clone(&stuck), Arc::clone(&is_awake));
    let schedule = schedule.observe(move |notice: &Notice<'_>| {
        if let Step::LoopAlive = notice.step() {
            awake.store(true, Ordering::SeqCst);
            drop(waits.lock().unwrap());
        }
    });
    thread::scope(|scope| {
        let does_not_return = stuck.lock().unwrap();
        scope.spawn(|| schedule.work(&shutdown));
        let ticked = until(|| is_awake.load(Ordering::SeqCst)).and_then(|()| {
            (1..=5).try_for_each(|minute| {
                clock.advance(if minute == 1 { MINUTE / 2 } else { MINUTE });
                until(|| diary.lines().len() == minute)
            })
        });
        drop(does_not_return);
        shutdown.trigger();
        ticked.unwrap();
    });
    let expected: Vec<String> = (1..=5).map(|minute| format!("minute 12:{minute:02}")).collect();
    assert_eq!(diary.lines(), expected);
}

#[test]
fn it_ticks_at_each_second_that_an_event_needs_and_at_no_other() {
    let seconds = Arc::new(Mutex::new(Vec::new()));
    let shutdown = Shutdown::new();
    let schedule = Schedule::in_process();
    let noted = Arc::clone(&seconds);
    let task = move |run: &Run| noted.lock().unwrap().push(run.occurrence());
    schedule.add(Event::call("e", task).every_two_seconds()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| schedule.work(&shutdown));
        let four = until(|| seconds.lock().unwrap().len() >= 4);
        shutdown.trigger();
        four.unwrap();
    });
    let seconds = seconds.lock().unwrap();
    let occurrences: BTreeSet<DateTime<Utc>> = seconds.iter().copied().collect();
    assert_eq!(occurrences.len(), seconds.len(), "none runs twice: {seconds:?}");
    assert!(occurrences.iter().all(|occurrence| occurrence.timestamp() % 2 == 0), "{seconds:?}");
}

#[test]
fn a_minute_runs_what_is_due_several_times_in_it() {
    let clock = ManualClock::at(noon() + TimeDelta::seconds(2));
    let diary = Diary::default();
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let note = |name: &'static str| {
        let diary = diary.clone();
        Event::call(name, move |run| diary.note(format!("{name} {}", run.occurrence().format("%T"))))
    };
    let (slow_clock, slow_diary) = (Clock::from(&clock), diary.clone());
    let slow = Event::call("slow", move |run| {
        let begun = slow_clock.moment();
        slow_diary.note(format!("slow {}", run.occurrence().format("%T")));
        until(|| slow_clock.moment().since(begun) >= Duration::from_secs(12)).expect("twelve seconds pass");
    });
    schedule.add(slow.every_ten_seconds().without_overlapping()).unwrap();
    schedule.add(note("quick").every_twenty_seconds().on_one_server().in_background()).unwrap();
    schedule.add(note("once").every_minute()).unwrap();
    let told = diary.clone();
    let schedule = schedule.on_report(move |report| {
        let entry = report.entry("slow").expect("it is due in each of these ticks");
        let what = if matches!(entry.verdict(), Verdict::Skipped(_)) { "skipped" } else { "told of" };
        told.note(format!("{what} {}", entry.occurrence().format("%T")));
    });
    let report = thread::scope(|scope| {
        let minute = scope.spawn(|| schedule.run_minute(noon() + TimeDelta::seconds(2)));
        let wait_for = |what: &str, second: u32| {
            until(|| diary.lines().contains(&format!("{what} 12:00:{second:02}"))).unwrap();
        };
        for begins in [0, 20, 40] {
            wait_for("quick", begins);
            wait_for("slow", begins);
            clock.advance(Duration::from_secs(if begins == 0 { 8 } else { 10 }));
            wait_for("skipped", begins + 10); // the slow one overlaps
            clock.advance(Duration::from_secs(4));
            wait_for("told of", begins); // it has ended
            clock.advance(Duration::from_secs(6));
        }
        minute.join().unwrap()
    });
    let mut lines = diary.lines();
    lines.retain(|line| !line.starts_with("skipped") && !line.starts_with("told of"));
    lines.sort();
    let times = ["12:00:00", "12:00:20", "12:00:40"];
    let expected = [vec!["once 12:00:00".to_owned()], times.map(|time| format!("quick {time}")).into()].concat();
    assert_eq!(lines[..4], expected);
    // The times do not drift: overlapping occurrences are skipped, and the next one begins on time.
    assert_eq!(lines[4..], times.map(|time| format!("slow {time}")));
    let skips = report.entries().iter().filter(|entry| matches!(entry.verdict(), Verdict::Skipped(_)));
    let skips: Vec<String> =
        skips.map(|entry| format!("{} {}", entry.event(), entry.occurrence().format("%T"))).collect();
    assert_eq!(skips, ["slow 12:00:10", "slow 12:00:30", "slow 12:00:50"], "{report}");
    assert_eq!(report.at(), noon() + TimeDelta::seconds(2));
}

#[test]
fn a_minute_without_such_events_is_one_tick() {
    let diary = Diary::default();
    let schedule = Schedule::in_process();
    schedule.add(Event::call("minute", notes(&diary)).every_minute()).unwrap();
    schedule.add(Event::call("not now", notes(&diary)).every_ten_seconds().daily_at("03:00")).unwrap();
    assert_eq!(schedule.run_minute(noon()).entries().len(), 1);
    assert_eq!(diary.lines(), ["minute 12:00"]);
    assert!(Schedule::in_process().run_minute(noon()).entries().is_empty());
}

#[test]
fn the_last_occurrence_of_a_minute_runs_although_the_process_wakes_up_late() {
    let clock = ManualClock::at(noon());
    let diary = Diary::default();
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let note = diary.clone();
    let event = Event::call("e", move |run| note.note(run.occurrence().format("%T").to_string()));
    schedule.add(event.every_ten_seconds()).unwrap();
    let report = thread::scope(|scope| {
        let minute = scope.spawn(|| schedule.run_minute(noon()));
        for second in ["00", "10", "20", "30", "40"] {
            until(|| diary.lines().last().is_some_and(|last| *last == format!("12:00:{second}"))).unwrap();
            if second == "40" {
                clock.jump(Duration::from_secs(25)); // as if the machine slept
            } else {
                clock.advance(Duration::from_secs(10));
            }
        }
        minute.join().unwrap()
    });
    assert_eq!(diary.lines().last().map(String::as_str), Some("12:00:50"), "{report}");
}

#[test]
fn a_minute_ends_when_the_process_is_to_end() {
    let shutdown = Shutdown::new();
    let schedule = Schedule::in_process().with_shutdown(&shutdown);
    let triggers = shutdown.clone();
    schedule.add(Event::call("e", move |_| triggers.trigger()).every_second()).unwrap();
    let report = schedule.run_minute(noon());
    assert_eq!(report.entries().len(), 1, "{report}");
}

#[test]
fn what_is_owed_is_tried_once_a_minute_however_often_something_else_is_due() {
    let clock = ManualClock::at(noon() - TimeDelta::minutes(1));
    let mutex = MemoryMutex::with_clock(&clock);
    let held = LeaseRequest::new(MutexName::lease("hour").unwrap(), Term::MAX, &Clock::from(&clock));
    mutex.create(&held).unwrap().expect("it is free");
    let schedule = Schedule::new(mutex).with_clock(&clock);
    schedule.add(Event::call("hour", |_| {}).hourly().on_one_server().without_overlapping().catch_up(HOUR)).unwrap();
    let diary = Diary::default();
    schedule.add(Event::call("often", diary.task("often")).every_ten_seconds()).unwrap();
    let _ = schedule.run_due(noon() - TimeDelta::minutes(1));
    clock.advance(2 * MINUTE);
    let before = diary.lines().len();
    let report = thread::scope(|scope| {
        let minute = scope.spawn(|| schedule.run_minute(noon() + TimeDelta::minutes(1)));
        for slot in 1..=6 {
            until(|| diary.lines().len() == before + slot).unwrap();
            clock.advance(Duration::from_secs(10));
        }
        minute.join().unwrap()
    });
    let entries_of = |name| report.entries().iter().filter(|entry| entry.event() == name).count();
    assert_eq!((entries_of("hour"), entries_of("often")), (1, 6), "{report}");
}

/// Begins the loop with a clock that is two hours ahead, and sets it right: later misses are made up for.
#[test]
fn a_clock_that_was_ahead_when_the_loop_began_loses_nothing_within_its_window() {
    let clock = ManualClock::at(on_the_day("09:30"));
    let (diary, shutdown) = (Diary::default(), Shutdown::new());
    let store = Scripted::fleet_by(&clock);
    let schedule = Schedule::new(store.clone()).with_clock(&clock);
    let event = Event::call("e", notes(&diary)).cron("30 9,12 * * *").on_one_server().catch_up(HOUR);
    schedule.add(event).unwrap();
    let _ = schedule.run_due(on_the_day("09:30"));
    schedule.add(Event::call("known", notes(&diary)).yearly().on_one_server().catch_up(MINUTE)).unwrap();
    let before = store.calls();
    clock.set(on_the_day("14:00") + TimeDelta::seconds(10)); // the RTC is ahead
    thread::scope(|scope| {
        scope.spawn(|| schedule.work(&shutdown));
        // The first call records the events whose misses count from now on.
        until(|| store.calls() > before).unwrap();
        clock.set(on_the_day("12:00") + TimeDelta::seconds(10)); // NTP sets it right
        for minute in 1..=150 {
            clock.advance(MINUTE);
            thread::sleep(Duration::from_millis(30)); // the loop reads the clock three times
            if minute == 30 {
                until(|| diary.lines().len() == 2).unwrap(); // it is 12:30, however busy the machine is
            }
        }
        shutdown.trigger();
    });
    assert_eq!(diary.lines(), ["e 09:30", "e 12:30"]);
}

#[test]
fn catching_up_costs_a_tick_one_round_trip_for_all_its_events() {
    let calls = |catch_up: bool| {
        let clock = ManualClock::at(noon());
        let store = Scripted::fleet_by(&clock);
        let schedule = Schedule::new(store.clone()).with_clock(&clock);
        for name in ["a", "b", "c", "d", "e", "f"] {
            let event = Event::call(name, |_| {}).every_minute().on_one_server().in_background();
            schedule.add(if catch_up { event.catch_up(HOUR) } else { event }).unwrap();
        }
        let _ = schedule.run_due(noon());
        store.calls()
    };
    assert_eq!(calls(true), calls(false) + 1);
}

#[test]
fn events_that_catch_up_are_noted_a_hundred_at_once() {
    let clock = ManualClock::at(noon());
    let store = Scripted::fleet_by(&clock);
    let schedule = Schedule::new(store.clone()).with_clock(&clock);
    for number in 0..250 {
        let event = Event::call(format!("e{number}"), |_| {}).every_minute().on_one_server().catch_up(HOUR);
        schedule.add(event.in_background()).unwrap();
    }
    assert_eq!(schedule.run_due(noon()).entries().len(), 250);
    assert_eq!(store.admissions()[..3], [100, 100, 50]);
    assert!(store.admissions().iter().all(|together| *together <= 100), "{:?}", store.admissions());
}

#[test]
fn reports_are_told_of_every_tick_in_which_something_was_due() {
    let diary = Diary::default();
    let told = diary.clone();
    let schedule = Schedule::in_process();
    schedule.add(Event::call("e", |_| {}).hourly()).unwrap();
    let schedule = schedule.on_report(move |report| told.note(report.at().format("%R").to_string()));
    for minute in [0, 1, 60] {
        let now = noon() + TimeDelta::minutes(minute);
        let (due, minutes) = (schedule.run_due(now).entries().len(), schedule.run_minute(now).entries().len());
        assert_eq!((due, minutes), if minute == 1 { (0, 0) } else { (1, 1) });
    }
    assert_eq!(diary.lines(), ["12:00", "12:00", "13:00", "13:00"]);
}
