//! What a subscriber of `tracing` is told, held against the table in the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use soloist::{
    Clock, Event, EventMutex, LeaseRequest, ManualClock, MemoryMutex, MutexError, MutexName, Schedule, Term,
};
use tracing::field::{Field, Visit};
use tracing::span::Attributes;
use tracing::{Id, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::support::{HOUR, noon};

/// By name of the span or message of the event: its level, and every field that was ever set.
type Told = BTreeMap<String, (String, BTreeSet<String>)>;

#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Told>>);

#[derive(Default)]
struct Fields {
    message: Option<String>,
    names: BTreeSet<String>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.message = Some(format!("{value:?}"));
        } else {
            self.names.insert(field.name().to_owned());
        }
    }
}

impl Listener {
    fn told(&self, name: String, level: tracing::Level, fields: Fields) {
        let mut told = self.0.lock().expect("nothing panics while it is held");
        let entry = told.entry(name).or_insert_with(|| (level.to_string().to_lowercase(), BTreeSet::new()));
        assert_eq!(entry.0, level.to_string().to_lowercase(), "one message, one level");
        entry.1.extend(fields.names);
    }
}

impl<S: Subscriber> Layer<S> for Listener {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        self.told(format!("span {}", attributes.metadata().name()), *attributes.metadata().level(), fields);
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.message.clone().expect("every event has a message");
        self.told(message, *event.metadata().level(), fields);
    }
}

/// A store that admits and then does not answer.
#[derive(Debug)]
struct Deaf(MemoryMutex);

impl EventMutex for Deaf {
    fn create(&self, request: &LeaseRequest) -> Result<Option<soloist::Lease>, MutexError> {
        self.0.create(request)
    }
    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.0.exists(name)
    }
    fn forget(&self, _: &soloist::Lease) -> Result<bool, MutexError> {
        Err(MutexError::unavailable("forget it", "timed out"))
    }
}

/// The rows of the table in the documentation: name, level, fields.
fn documented() -> Told {
    let text = include_str!("../../src/lib.rs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let fields = cells[2].split(", ").filter(|field| !field.is_empty());
        let fields = fields.map(|field| field.trim_matches('`').to_owned()).collect();
        (cells[0].trim_end_matches('`').to_owned(), (cells[1].to_owned(), fields))
    })
    .collect()
}

#[test]
fn the_documented_table_is_what_subscribers_are_told() {
    let listener = Listener::default();
    let subscriber = Registry::default().with(listener.clone());
    tracing::subscriber::with_default(subscriber, || {
        let clock = ManualClock::at(noon());
        let mutex = MemoryMutex::with_clock(&clock);
        let request = LeaseRequest::new(MutexName::lease("held").unwrap(), Term::MAX, &Clock::from(&clock));
        mutex.create(&request).unwrap().expect("nobody holds it");
        let mut schedule = Schedule::new(mutex).with_clock(&clock);
        let event = |name: &str| Event::call(name, |_| {}).every_minute();
        let over_its_term = move |_: &soloist::Run| clock.advance(Term::MAX.get());
        let deaf = Deaf(MemoryMutex::new());
        let vanishing = tempfile::tempdir().unwrap();
        for event in [
            event("succeeds").on_one_server(),
            event("held").without_overlapping(),
            Event::call("fails", |_| Err("no paper")).every_minute().on_one_server(),
            event("not started").before(|_| Err("no paper")).on_one_server(),
            event("filter panics").skip(|_| panic!("no flag")),
            event("deaf").mutex(deaf).without_overlapping_for(HOUR),
            Event::call("loses", over_its_term).every_minute().without_overlapping(),
            event("out").mutex(soloist::FileMutex::in_dir(vanishing.path()).unwrap()).without_overlapping(),
        ] {
            schedule.add(event).unwrap();
        }
        vanishing.close().unwrap();
        assert!(schedule.run_due(noon()).is_failure());
        let guard = soloist::LeaseGuard::acquire(
            &Arc::new(Deaf(MemoryMutex::new())),
            MutexName::lease("g").unwrap(),
            Term::MAX,
        );
        drop(guard.unwrap().expect("nobody holds it"));
    });
    let mut told = listener.0.lock().unwrap().clone();
    // Only said when the system has no thread left to give.
    let mut documented = documented();
    assert!(documented.remove("no thread for background events: they run on fewer").is_some());
    // Only said of an error whose own code panics.
    assert!(documented.remove("error that can't be shown").is_some());
    for (name, expected) in &documented {
        assert_eq!(told.remove(name).as_ref(), Some(expected), "{name}");
    }
    assert_eq!(told, Told::new(), "these are not in the table");
}

#[test]
fn what_is_gated_and_released_together_is_told_within_the_span_of_each_run() {
    /// The event that a span names.
    struct Named(String);

    impl Visit for Named {
        fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
        fn record_str(&mut self, field: &Field, value: &str) {
            if field.name() == "event" {
                value.clone_into(&mut self.0);
            }
        }
    }

    /// Which message came within the span of which event.
    #[derive(Clone, Default)]
    struct Within(Arc<Mutex<BTreeSet<(String, String)>>>);

    impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Within {
        fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
            let mut named = Named(String::new());
            attributes.record(&mut named);
            context.span(id).expect("it is new").extensions_mut().insert(named);
        }

        fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let spans = context.event_scope(event).into_iter().flatten();
            let names: Vec<String> = spans.map(|span| span.extensions().get::<Named>().unwrap().0.clone()).collect();
            self.0.lock().unwrap().insert((names.join(" in "), fields.message.expect("every event has a message")));
        }
    }

    let within = Within::default();
    tracing::subscriber::with_default(Registry::default().with(within.clone()), || {
        let mut schedule = Schedule::in_process();
        for name in ["a", "b"] {
            schedule.add(Event::call(name, |_| {}).every_minute().without_overlapping().in_background()).unwrap();
        }
        schedule.add(Event::call("c", |_| {}).every_minute().in_background().skip(|_| true)).unwrap();
        assert!(!schedule.run_due(noon()).is_failure());
    });
    let told = within.0.lock().unwrap().clone();
    // The outer one is the tick's.
    let expected = [("a in ", "succeeded"), ("b in ", "succeeded"), ("c in ", "skipped")];
    let expected: BTreeSet<_> = expected.map(|(span, message)| (span.to_owned(), message.to_owned())).into();
    assert!(told.is_superset(&expected), "{told:?}");
}
