//! Texts of others that steer a terminal, hide, or break the line of a log: everywhere they are shown, they are escaped.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, TimeDelta};
use soloist::store::{Description, Held, Holder, Lease, LeaseRequest, Names, Owner, Slot};
use soloist::{Event, EventMutex, FencingToken, MutexError, MutexName, OutagePolicy, Schedule, Term, Verdict};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use crate::support::{noon, output_alone, with_subscriber};

/// ESC, CR, NUL, backspace, the CSI of C1, and two that turn the direction of a text.
const HOSTILE: &str = "\u{1b}[2J\r\0\u{8}\u{9b}31m\u{202e}\u{2066}x";

/// The hostile text, as it is shown.
const SHOWN: &str = r"\u{1b}[2J\r\0\u{8}\u{9b}31m\u{202e}\u{2066}x";

/// An error that shows itself to developers too as it is.
struct Raw;

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HOSTILE)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HOSTILE)
    }
}

impl Error for Raw {}

/// The answer of a hostile store to every call.
#[derive(Clone, Copy, Debug)]
enum Says {
    IsTaken,
    Error,
    /// The store's grants cannot be released.
    ErrorAtTheEnd,
    Panic,
}

#[derive(Debug)]
struct HostileStore(Says);

fn holder() -> Holder {
    let since = noon();
    Holder::new(Owner::unique(), FencingToken::new(7), HOSTILE, since, since + TimeDelta::minutes(1))
}

fn out() -> MutexError {
    MutexError::unavailable(format!("ask {HOSTILE}"), Raw)
}

impl EventMutex for HostileStore {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        match self.0 {
            Says::IsTaken => Ok(None),
            Says::Error => Err(out()),
            Says::Panic => panic!("{HOSTILE}"),
            Says::ErrorAtTheEnd => Ok(Some(request.granted(FencingToken::new(1)))),
        }
    }
    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        Ok(!name.is_lease())
    }
    fn forget(&self, _: &Lease) -> Result<bool, MutexError> {
        if let Says::ErrorAtTheEnd = self.0 { Err(out()) } else { Ok(true) }
    }
    fn describe(&self) -> Description {
        Description::of(self).with_extension()
    }
    fn extend(&self, leases: &mut [Slot<Lease, bool>], _: Term) {
        for slot in leases {
            slot.fill(Ok(true));
        }
    }
    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        let Names::Each(names) = names else { return Ok(Vec::new()) };
        Ok(names.iter().map(|name| Held::new(name.clone(), Some(holder()))).collect())
    }
}

/// Returns a schedule with every string of an event hostile.
fn schedule() -> Schedule {
    let schedule = Schedule::in_process();
    let event = |name: &str| Event::call(name, |_| {}).every_minute();
    let on = |name: &str, says| event(name).mutex(HostileStore(says)).without_overlapping();
    for event in vec![
        Event::call("fails", |_| Err(Raw.into())).every_minute(),
        Event::call("fails by its cause", |_| Err(std::io::Error::other(Raw).into())).every_minute(),
        Event::call("panics", |_| panic!("{HOSTILE}")).every_minute(),
        event("filter panics").skip(|_| panic!("{HOSTILE}")),
        event("before fails").before(|_| Err(Raw.into())),
        event("then fails").then(|_, _| Err(Raw.into())).then(|_, _| panic!("{HOSTILE}")),
        Event::exec("is not there", format!("exec {HOSTILE}").replace('\0', ""))
            .every_minute()
            .current_dir(HOSTILE.replace('\0', "")),
        on("is held", Says::IsTaken),
        on("is claimed", Says::IsTaken).on_one_server(),
        on("is out", Says::Error),
        on("has a store that panics", Says::Panic),
        on("runs all the same", Says::Error).on_outage(OutagePolicy::RunUnprotected),
        on("does not go back", Says::ErrorAtTheEnd),
    ] {
        schedule.add(event).unwrap();
    }
    schedule
}

#[track_caller]
fn is_clean(what: &str, text: &str) {
    let odd = text.chars().find(|char| {
        (char.is_control() && !matches!(char, '\n' | '\t'))
            || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    });
    assert_eq!(odd, None, "{what}: {text:?}");
}

#[track_caller]
fn is_shown(what: &str, text: &str) {
    is_clean(what, text);
    assert!(text.contains("[2J"), "{what}: nothing of it is left out: {text}");
}

#[test]
fn a_report_shows_hostile_texts_and_none_of_them_steers() {
    let report = schedule().run_due(noon());
    assert_eq!(report.entries().len(), 13);
    is_clean("the report", &report.to_string());
    is_clean("the report for developers", &format!("{report:?}\n{report:#?}"));
    for entry in report.entries() {
        let name = entry.event();
        for text in [entry.to_string(), entry.verdict().to_string(), format!("{entry:?}")] {
            is_shown(name, &text);
        }
        match entry.verdict() {
            Verdict::Skipped(reason) => {
                is_shown(name, &reason.to_string());
                is_clean(name, &reason.holder().map(|holder| format!("{holder} {holder:?}")).unwrap_or_default());
            }
            Verdict::Ran(outcome) => {
                is_shown(name, &outcome.to_string());
                is_clean(name, &format!("{:?} {:?}", outcome.ended(), outcome.release()));
                outcome.hook_failures().iter().for_each(|failure| is_shown(name, &failure.to_string()));
                outcome.hook_failures().iter().for_each(|failure| is_shown(name, &failure.fault().to_string()));
                outcome.release().into_iter().for_each(|release| is_shown(name, &release.to_string()));
                outcome.unprotected().into_iter().for_each(|error| is_shown(name, &format!("{error} {error:?}")));
            }
        }
    }
    let fails = report.entry("fails").expect("it was due").to_string();
    assert!(fails.ends_with(&format!(": {SHOWN}")), "{fails}");
}

#[test]
fn several_lines_of_an_assertion_stay_lines_of_a_report() {
    let schedule = Schedule::in_process();
    schedule.add(Event::call("e", |_| panic!("left: 1\n\tright: 2\rover it")).every_minute()).unwrap();
    let text = schedule.run_due(noon()).to_string();
    assert!(text.contains("left: 1\n") && text.ends_with("\tright: 2\\rover it"), "{text}");
}

#[test]
fn an_error_of_a_definition_or_of_a_call_shows_what_is_wrong_and_does_not_steer() {
    let schedule = Schedule::in_process().named("shop").unwrap();
    let error = Schedule::in_process().named(HOSTILE).unwrap_err();
    is_clean("no such name", &format!("{error} {error:?}"));
    let without_nul = HOSTILE.replace('\0', "");
    let event = |name: &str| Event::call(name, |_| {});
    for wrong in [
        event(HOSTILE),
        event("a").cron(HOSTILE),
        event("b").daily_at(HOSTILE),
        event("c").daily().timezone(HOSTILE),
        event("d").daily().environments([HOSTILE]),
        Event::exec("f", HOSTILE).daily(),
        Event::exec("g", "true").daily().env(format!("{without_nul}=").as_str(), "1"),
        Event::exec(HOSTILE, "true").daily(),
    ] {
        is_clean("an event for developers", &format!("{wrong:?}"));
        let error = schedule.add(wrong).map(drop).unwrap_err();
        is_shown("refused", &format!("{error} {error:?} {:?}", error.kind()));
    }
    let error = schedule.run_event(HOSTILE, noon()).unwrap_err();
    is_shown("no such event", &format!("{error} {error:?}"));
    let error = schedule.pause(DateTime::UNIX_EPOCH, "").unwrap_err();
    is_clean("no such pause", &format!("{error} {error:?}"));
    is_shown("a holder", &holder().to_string());
    let paused =
        Schedule::new(HostileStore(Says::IsTaken)).named("shop").unwrap().paused().unwrap().expect("it is paused");
    is_shown("a pause", &paused.to_string());
    is_shown("an error of a store", &out().to_string());
    is_shown("an error of a store, for developers", &format!("{:?}", out()));
}

#[test]
fn a_log_of_hostile_texts_has_a_line_for_each_event() {
    /// Every value as subscribers write it down that write text.
    #[derive(Clone, Default)]
    struct Values(Arc<Mutex<Vec<String>>>);

    struct Fields<'a>(&'a mut Vec<String>);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0.push(format!("{field}={value:?}"));
        }
    }

    impl<S: Subscriber> Layer<S> for Values {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            event.record(&mut Fields(&mut self.0.lock().unwrap()));
        }
        fn on_new_span(&self, span: &tracing::span::Attributes<'_>, _: &tracing::Id, _: Context<'_, S>) {
            span.record(&mut Fields(&mut self.0.lock().unwrap()));
        }
    }

    let values = Values::default();
    with_subscriber(Registry::default().with(values.clone()), || {
        let schedule = schedule();
        schedule.add(Event::call("two lines", |_| Err("one\ntwo".into())).every_minute()).unwrap();
        assert!(schedule.run_due(noon()).is_failure());
    });
    let values = values.0.lock().unwrap();
    for value in &*values {
        is_clean("a field", value);
        assert!(!value.contains('\n'), "{value:?}");
    }
    assert!(values.iter().any(|value| value.starts_with("error=") && value.contains("[2J")), "{values:#?}");
}

#[test]
fn the_name_of_what_is_left_behind_is_told_apart_from_what_is_said_of_it() {
    let name = "hostile::the_name_of_what_is_left_behind_is_told_apart_from_what_is_said_of_it";
    if let Some(ended) = output_alone(name, &[]) {
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(said.contains("`two words`: left behind: still running"), "{said}");
        return;
    }
    let shutdown = soloist::Shutdown::on_signals().unwrap().with_drain(std::time::Duration::ZERO);
    let shutdown = shutdown.with_grace(std::time::Duration::from_millis(100));
    let schedule = Schedule::in_process().with_shutdown(&shutdown);
    let is_left_behind = |_: &soloist::Run| {
        signal_hook::low_level::raise(signal_hook::consts::SIGTERM)?;
        crate::support::until(|| false)
    };
    schedule.add(Event::call("two words", is_left_behind).every_minute()).unwrap();
    unreachable!("it has ended: {:?}", schedule.run_due(noon()));
}
