//! Two servers with different timetables for one event: that is told when it lasts for an hour, and forgotten when they agree.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use soloist::observe::OtherTimetable;
use soloist::store::{Held, Names};
use soloist::time::ManualClock;
use soloist::{Event, EventMutex, MutexName, Run, Schedule, SkipReason};
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::scripted::Scripted;
use crate::support::{noon, ran, skipped, with_subscriber};

/// The servers of a fleet, each with a schedule of the event `e`.
struct Fleet {
    clock: ManualClock,
    servers: Vec<Schedule>,
    warnings: Warnings,
}

/// The warnings of a difference, with their fields.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if fields.0.contains("timetables differ") {
            self.0.lock().unwrap().push(format!("{} {}", event.metadata().level(), fields.0));
        }
    }
}

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

fn event(timetable: impl FnOnce(Event) -> Event) -> Event {
    timetable(Event::call("e", |_| {}).on_one_server())
}

impl Fleet {
    fn of(timetables: Vec<fn(Event) -> Event>) -> Self {
        let clock = ManualClock::at(noon());
        let store = Scripted::fleet_by(&clock);
        let server = |(number, timetable)| {
            let schedule =
                Schedule::new(store.clone()).with_clock(&clock).with_instance(format!("web-{number}")).unwrap();
            schedule.add(event(timetable)).unwrap();
            schedule
        };
        let servers = timetables.into_iter().enumerate().map(server).collect();
        Self { clock, servers, warnings: Warnings::default() }
    }

    /// Ticks on each server in the order in which they win, every quarter of an hour up to this time, which comes last.
    fn tick_until(&self, minutes: i64, order: &[usize]) {
        let end = noon() + TimeDelta::minutes(minutes);
        let tick = || {
            let report = |server: &usize| self.servers[*server].run_due(self.clock.now());
            let reports: Vec<_> = order.iter().map(report).collect();
            ran(&reports[0], "e");
            reports[1..].iter().for_each(|report| {
                assert!(matches!(skipped(report, "e"), SkipReason::RanElsewhere(_)), "{report}");
            });
        };
        let subscriber = tracing_subscriber::registry().with(self.warnings.clone());
        with_subscriber(subscriber, || {
            tick();
            while self.clock.now() < end {
                self.clock.advance(Duration::from_secs(15 * 60));
                tick();
            }
        });
    }

    fn seen_by(&self, server: usize) -> Option<OtherTimetable> {
        self.servers[server].status().events[0].other_timetable.clone()
    }

    fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.0.lock().unwrap())
    }
}

#[test]
fn a_difference_that_lasts_for_an_hour_is_told_once_and_forgotten_when_the_servers_agree() {
    let fleet = Fleet::of(vec![Event::every_fifteen_minutes, Event::every_five_minutes]);
    fleet.tick_until(45, &[0, 1]);
    assert_eq!((fleet.take_warnings(), fleet.seen_by(1)), (Vec::new(), None), "a deploy may take so long");
    fleet.clock.advance(Duration::from_secs(15 * 60));
    fleet.tick_until(120, &[0, 1]);
    let other = fleet.seen_by(1).expect("it has lasted");
    assert_eq!((&*other.timetable, other.since), ("every 15 minutes, UTC", noon()));
    assert!(other.server.ends_with(", instance web-0"), "{}", other.server);
    let warnings = fleet.take_warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in
        ["WARN ", "event=\"e\"", "timetable=\"every 5 minutes, UTC\"", "other_timetable=\"every 15 minutes, UTC\""]
    {
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
    assert_eq!(fleet.seen_by(0), None, "this server has met no claim of the other one");
    // A replaced event is compared anew.
    fleet.servers[1].replace(event(Event::every_fifteen_minutes)).unwrap();
    fleet.clock.advance(Duration::from_secs(15 * 60));
    fleet.tick_until(240, &[0, 1]);
    assert_eq!((fleet.take_warnings(), fleet.seen_by(1)), (Vec::new(), None));
}

#[test]
fn a_difference_is_forgotten_an_hour_after_the_other_server_has_changed() {
    let fleet = Fleet::of(vec![Event::every_five_minutes, Event::every_fifteen_minutes]);
    fleet.tick_until(60, &[0, 1]);
    assert!(fleet.seen_by(1).is_some());
    fleet.servers[0].replace(event(Event::every_fifteen_minutes)).unwrap();
    fleet.clock.advance(Duration::from_secs(15 * 60));
    fleet.tick_until(105, &[0, 1]);
    assert!(fleet.seen_by(1).is_some(), "it may be about to come back");
    fleet.clock.advance(Duration::from_secs(15 * 60));
    fleet.tick_until(120, &[0, 1]);
    assert_eq!(fleet.seen_by(1), None);
    assert_eq!(fleet.take_warnings().len(), 1);
}

#[test]
fn a_difference_is_told_although_other_servers_agree_in_between_and_forgotten_when_this_one_wins() {
    let fleet = Fleet::of(vec![Event::every_five_minutes, Event::every_fifteen_minutes, Event::every_fifteen_minutes]);
    for quarter in 0..=4 {
        let order = if quarter % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] };
        fleet.tick_until(quarter * 15, &order);
        fleet.clock.advance(Duration::from_secs(15 * 60));
    }
    assert!(fleet.seen_by(1).is_some());
    assert_eq!(fleet.take_warnings().len(), 2, "one of each server that agrees with the third");
    fleet.tick_until(120, &[1, 0, 2]);
    assert_eq!(fleet.seen_by(1), None);
}

#[test]
fn a_claim_and_its_lease_carry_the_timetable_and_another_lease_does_not() {
    let store = Scripted::fleet_by(ManualClock::at(noon()));
    let told = Arc::new(Mutex::new(Vec::new()));
    let look = || {
        let (store, told) = (store.clone(), Arc::clone(&told));
        move |run: &Run| {
            let lease = MutexName::lease("e").unwrap();
            let names = [lease.clone(), lease.claim("e", run.occurrence())];
            let held = store.held(Names::Each(&names)).unwrap();
            let timetable = |held: &Held| held.holder().unwrap().timetable().map(str::to_owned);
            told.lock().unwrap().extend(held.iter().map(timetable));
        }
    };
    let schedule = Schedule::new(store.clone());
    let tick = |event: Event| {
        schedule.replace(event.every_minute().timezone("Europe/Berlin")).unwrap();
        assert!(!schedule.run_due(noon()).is_failure());
        std::mem::take(&mut *told.lock().unwrap())
    };
    let text = Some("every minute, Europe/Berlin".to_owned());
    assert_eq!(tick(Event::call("e", look()).on_one_server().without_overlapping()), [text.clone(), text.clone()]);
    let claim_of_before = text;
    assert_eq!(tick(Event::call("e", look()).without_overlapping()), [None, claim_of_before]);
}
