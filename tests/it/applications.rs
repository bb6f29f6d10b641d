//! Two applications with one event. In one namespace each sees the other's lease; in two namespaces they are
//! separate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::TimeDelta;
use soloist::store::Owner;
use soloist::time::ManualClock;
use soloist::{Event, EventMutex, FileMutex, LeaseGuard, MemoryMutex, MutexName, Run, Schedule, SkipReason, Term};

use crate::support::{HOUR, holder, noon, ran, skipped};

type Store = Arc<dyn EventMutex>;

/// The advice in the text of a skip.
const ADVICE: &str = "; two applications share this name: give each a prefix, a table or a folder of its own";

fn file(dir: &Path) -> Store {
    Arc::new(FileMutex::in_dir(dir).unwrap())
}

/// Returns a server of an application at noon. An empty name makes an application without a name.
fn server(store: &Store, application: &str) -> Schedule {
    let schedule = Schedule::new(Arc::clone(store)).with_clock(ManualClock::at(noon()));
    if application.is_empty() { schedule } else { schedule.named(application).unwrap() }
}

fn with_event(schedule: Schedule, event: Event) -> Schedule {
    schedule.add(event.every_minute()).unwrap();
    schedule
}

fn idle(name: &str) -> Event {
    Event::call(name, |_| {})
}

/// Returns the name of an event that no other test has.
fn unused(name: &str) -> String {
    format!("{name} {}", Owner::unique())
}

/// Returns the warnings about names that another application has, too.
fn shared(schedule: &Schedule) -> Vec<String> {
    let warnings = schedule.check().unwrap().into_iter().map(|warning| warning.to_string());
    warnings.filter(|text| text.starts_with("the application ")).collect()
}

/// Asserts that in one namespace a schedule with a name reports that another application took the occurrence.
#[track_caller]
fn assert_claim_reported(store: &Store) {
    let name = unused("cleanup");
    let server = |application| with_event(server(store, application), idle(&name).on_one_server());
    assert_eq!(shared(&server("billing")), [""; 0], "nobody has it yet");
    ran(&server("shop").run_due(noon()), &name);

    let report = server("billing").run_due(noon());
    let reason = skipped(&report, &name);
    assert!(matches!(reason, SkipReason::RanElsewhere(Some(_))), "{reason}");
    assert_eq!(reason.other_application(), Some("shop"));
    let text = reason.to_string();
    assert!(
        text.starts_with("taken by ") && text.contains(", application shop, since ") && text.ends_with(ADVICE),
        "{text}"
    );
    assert!(report.to_string().ends_with(ADVICE) && !report.is_failure(), "{report}");
    let warning = format!(
        "the application shop has the event `{name}`, too, so that each application takes occurrences of the other: give each application a prefix, \
         a table or a folder of its own"
    );
    assert_eq!(shared(&server("billing")), [warning]);

    // Another server of the application, and a server without a name.
    for application in ["shop", ""] {
        let report = server(application).run_due(noon());
        let reason = skipped(&report, &name);
        assert_eq!(reason.other_application(), None);
        let text = reason.to_string();
        assert!(text.contains(", application shop, since ") && !text.contains("share"), "{text}");
        assert_eq!(shared(&server(application)), [""; 0]);
    }
    assert_lease_reported(store);
}

/// Asserts that the schedule reports the other application's run as the holder of the lease.
#[track_caller]
fn assert_lease_reported(store: &Store) {
    let (name, mutex) = (unused("import"), unused("warehouse"));
    let [own, on_purpose] = [idle(&name), idle(&name).mutex_name(mutex.as_str())]
        .map(|event| with_event(server(store, "billing"), event.without_overlapping_for(HOUR)));
    let (met, meets) = (name.clone(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&meets);
    let task = move |run: &Run| {
        let (schedule, other) = if run.name() == met { (&own, Some("shop")) } else { (&on_purpose, None) };
        let report = schedule.run_due(noon());
        let reason = skipped(&report, &met);
        assert!(matches!(reason, SkipReason::Overlapping(Some(_))), "{reason}");
        assert_eq!(reason.other_application(), other, "{reason}");
        assert_eq!(reason.to_string().ends_with(ADVICE), other.is_some());
        assert_eq!(shared(schedule).len(), usize::from(other.is_some()));
        count.fetch_add(1, Ordering::Relaxed);
    };
    let shop = server(store, "shop");
    let task = Arc::new(task);
    for (event, mutex) in [(&name, &name), (&mutex, &mutex)] {
        let task = Arc::clone(&task);
        let event = Event::call(event.as_str(), move |run| task(run)).every_minute().mutex_name(mutex.as_str());
        shop.add(event.without_overlapping_for(HOUR)).unwrap();
    }
    let report = shop.run_due(noon());
    assert!(!report.is_failure(), "{report}");
    assert_eq!(meets.load(Ordering::Relaxed), 2);
}

/// Asserts that in a namespace each both run their events, and know nothing of each other.
#[track_caller]
fn are_apart(stores: [Store; 2]) {
    let name = unused("cleanup");
    for (store, application) in stores.iter().zip(["shop", "billing"]) {
        let schedule = with_event(server(store, application), idle(&name).on_one_server().without_overlapping());
        ran(&schedule.run_due(noon()), &name);
        assert_eq!(shared(&schedule), [""; 0]);
        schedule.pause(noon() + TimeDelta::hours(1), "").unwrap();
    }
    let guards = stores.map(|store| LeaseGuard::acquire(&store, MutexName::lease(&*name).unwrap(), Term::DEFAULT));
    assert!(guards.iter().all(|guard| guard.as_ref().is_ok_and(Option::is_some)), "{guards:?}");
}

/// Asserts that the instance of a process stands in holders, in pauses and in the log of runs.
#[track_caller]
fn have_instances(store: &Store) {
    let (name, application) = (unused("instances"), unused("shop"));
    let event = || {
        let open = Arc::clone(store);
        let task = move |run: &Run| {
            let holder = holder(&open, &MutexName::lease(run.name())?).expect("it has the lease");
            assert_eq!(holder.instance(), Some("web 1"));
            assert!(holder.to_string().contains(", instance `web 1`, application `shop "), "{holder}");
            Ok(())
        };
        Event::call(name.as_str(), task).without_overlapping_for(HOUR)
    };
    let named = || Schedule::new(Arc::clone(store)).named(application.as_str()).unwrap();
    // In any order.
    let schedules = [
        named().with_instance("web 1").unwrap().with_run_log(10).unwrap(),
        named().with_run_log(10).unwrap().with_instance("web 1").unwrap(),
    ];
    for schedule in schedules {
        let schedule = with_event(schedule, event());
        let report = schedule.run_due(noon());
        assert!(!report.is_failure(), "{report}");
        let run = schedule.runs(&name).unwrap().remove(0);
        assert_eq!(run.record().instance(), Some("web 1"), "{run}");
        assert!(run.to_string().contains(", instance `web 1`"), "{run}");
        assert_eq!(schedule.status().instance.as_deref(), Some("web 1"));
        schedule.pause(chrono::Utc::now() + TimeDelta::hours(1), "").unwrap();
        let pause = schedule.paused().unwrap().expect("it was just paused");
        assert!(pause.to_string().contains(", instance `web 1`, since "), "{pause}");
        assert!(schedule.resume().unwrap());
    }
}

#[test]
fn on_memory() {
    let open = || -> Store { Arc::new(MemoryMutex::new()) };
    assert_claim_reported(&open());
    are_apart([open(), open()]);
    have_instances(&open());
}

#[test]
fn on_files() {
    let dir = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| file(&dir.path().join(name)));
    assert_claim_reported(&one);
    have_instances(&one);
    are_apart([one, other]);
}

#[cfg(feature = "redis")]
#[test]
fn on_redis() {
    let url = crate::servers::redis::Redis::shared().url();
    let store = soloist::connect(&format!("{url}?timeout=1m")).unwrap();
    assert_claim_reported(&store);
    have_instances(&store);
    are_apart(
        ["shop", "bill%69ng"].map(|prefix| soloist::connect(&format!("{url}?prefix={prefix}&timeout=1m")).unwrap()),
    );
}

#[cfg(all(feature = "mysql", feature = "postgres"))]
mod on_tables {
    use super::{are_apart, assert_claim_reported, have_instances};
    use crate::servers::{mariadb::Mariadb, postgres::Postgres};
    use crate::sql::SqlServer;

    #[test]
    fn of_mariadb() {
        in_tables::<Mariadb>();
    }

    #[test]
    fn of_postgres() {
        in_tables::<Postgres>();
    }

    #[track_caller]
    fn in_tables<S: SqlServer>() {
        let url = S::shared().url();
        let store = soloist::connect(&format!("{url}?timeout=1m")).unwrap();
        assert_claim_reported(&store);
        have_instances(&store);
        are_apart(["shop_mutexes", "billing_mutexes"].map(|table| {
            let url = format!("{url}?timeout=1m&table={table}");
            S::create_table(&S::open(&url, std::time::Duration::from_secs(60))).unwrap();
            soloist::connect(&url).unwrap()
        }));
    }
}

#[test]
fn clones_with_different_names_share_events_and_not_the_names_in_their_claims() {
    let store: Store = Arc::new(MemoryMutex::new());
    let shop = with_event(server(&store, "shop"), idle("cleanup").on_one_server());
    let billing = shop.clone().named("billing").unwrap();
    for (minute, [schedule, late]) in (0..).zip([[&shop, &billing], [&billing, &shop], [&shop, &billing]]) {
        let now = noon() + TimeDelta::minutes(minute);
        ran(&schedule.run_due(now), "cleanup");
        let report = late.run_due(now);
        let SkipReason::RanElsewhere(Some(holder)) = skipped(&report, "cleanup") else { panic!("{report}") };
        let application = if minute == 1 { "billing" } else { "shop" };
        assert_eq!((holder.application(), holder.timetable()), (Some(application), Some("every minute, UTC")));
    }
}

#[test]
fn a_name_that_people_can_not_read_is_refused() {
    let too_long = "x".repeat(101);
    let long = "has 101 characters, the limit is 100";
    for (name, why) in [("", "is empty"), (" shop", "begins or ends with a space: leave it out"), (&*too_long, long)] {
        let error = Schedule::in_process().with_instance(name).unwrap_err();
        assert_eq!(error.to_string(), format!("the instance of `with_instance(..)` {why}"));
        let error = Schedule::in_process().named(name).unwrap_err();
        assert_eq!(error.to_string(), format!("the name of the schedule {why}"));
    }
    let error = Schedule::in_process().with_instance("web\n1").unwrap_err();
    assert!(error.to_string().contains("`\\n`"), "{error}");
    assert!(Schedule::in_process().named("😀".repeat(100)).unwrap().with_instance("😀".repeat(100)).is_ok());
}

#[test]
fn the_instance_is_the_variables_unless_it_is_set() {
    let name = "applications::the_instance_is_the_variables_unless_it_is_set";
    if crate::support::run_alone(name, &[("SOLOIST_INSTANCE", " web-1 ")]).is_some() {
        return;
    }
    let (store, lease) = (MemoryMutex::new(), MutexName::lease("by hand").unwrap());
    let instance = || holder(&store, &lease).and_then(|holder| holder.instance().map(str::to_owned));
    let guard = LeaseGuard::acquire(&store, lease.clone(), Term::DEFAULT).unwrap().expect("it is free");
    assert_eq!(instance().as_deref(), Some("web-1"));
    drop(guard);
    let schedule = Schedule::new(store.clone());
    assert_eq!(schedule.status().instance.as_deref(), Some("web-1"));
    let schedule = schedule.with_instance("web-2").unwrap();
    assert_eq!(schedule.status().instance.as_deref(), Some("web-2"));
}
