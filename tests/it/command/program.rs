//! The start of commands, their ends, and the reports about them.

use tracing::field::{Field, Visit};
use tracing::{Id, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use super::*;
use crate::support::{skipped, with_subscriber};

fn line(line: &str) -> Event {
    Event::exec("e", line).every_minute()
}

fn command<const N: usize>(program: &str, arguments: [&str; N]) -> Event {
    Event::command("e", program, arguments).every_minute()
}

#[test]
fn a_command_that_exits_with_0_has_succeeded() {
    for event in [line("exit 0"), command("true", []), command("/bin/sh", ["-c", "exit 0"])] {
        let report = tick(event);
        let outcome = ran(&report, "e");
        assert_eq!(outcome.to_string(), "succeeded in 0 µs");
        assert!(outcome.is_success() && !report.is_failure());
        assert_eq!(outcome.exit_status().and_then(|status| status.code()), Some(0));
        assert!(outcome.output().is_none(), "nothing is kept unless it is asked for");
    }
}

#[test]
fn a_command_that_exits_otherwise_has_failed() {
    for event in [line("exit 3"), command("sh", ["-c", "exit 3"])] {
        let report = tick(event);
        let outcome = ran(&report, "e");
        assert!(matches!(outcome.ended(), Ended::Faulted(Fault::Exited(status)) if status.code() == Some(3)));
        assert_eq!(entry(&report, "e").to_string(), "e  2026-03-01 12:00:00 UTC  exited with 3 after 0 µs");
        assert_eq!(outcome.exit_status().and_then(|status| status.code()), Some(3));
        assert!(!outcome.is_success() && report.is_failure());
    }
}

#[test]
fn a_command_that_a_signal_ended_has_failed() {
    use std::os::unix::process::ExitStatusExt;

    for (name, number) in [("KILL", 9), ("TERM", 15), ("USR1", 10)] {
        let outcome = outcome(line(&format!("kill -s {name} $$")));
        let said = format!("ended by signal {number} (SIG{name})");
        assert_eq!(outcome.to_string(), format!("{said} after 0 µs"));
        let Ended::Faulted(fault @ Fault::Exited(status)) = outcome.ended() else { panic!("{outcome:?}") };
        assert_eq!(fault.to_string(), said);
        assert_eq!((status.signal(), status.code()), (Some(number), None));
        assert_eq!(outcome.exit_status(), Some(*status));
    }
}

/// The advice on a program that is in no folder of `PATH`.
pub(super) const WHOLE_PATH: &str = "write its whole path, or let a shell read the line, with `Event::exec`";

#[test]
fn a_program_that_is_not_there_is_named() {
    let place = Place::new();
    fs::write(place.path("text"), "no program").unwrap();
    let text = place.path("text").display().to_string();
    let missing = "No such file or directory (os error 2)";
    let in_no_folder =
        format!("{missing}: it is in no folder of PATH={}: {WHOLE_PATH}", std::env::var("PATH").unwrap());
    for (program, error) in [
        ("no-such-program", &*in_no_folder),
        ("/no/such/program", missing),
        (&text, "Permission denied (os error 13)"),
        ("two words\n", &in_no_folder),
    ] {
        let outcome = outcome(command(program, ["argument"]).without_overlapping());
        let program = program.replace('\n', "\\n");
        let (short, cut) = program.char_indices().nth(60).map_or((&*program, ""), |(at, _)| (&program[..at], "…"));
        let said = format!("failed after 0 µs: could not start `{short}{cut}`: {error}");
        assert_eq!(outcome.to_string(), said);
        assert!(matches!(outcome.ended(), Ended::Faulted(Fault::Failed(_))));
        assert!(outcome.exit_status().is_none() && outcome.output().is_none());
    }
    // The shell was there, and says it in its own way.
    assert_eq!(
        said(line("no-such-program").output(Output::Discard)),
        "exited with 127 (in a shell: no such command) after 0 µs"
    );
}

#[test]
fn a_line_is_the_shells() {
    let text = r#"echo "a  b" 'c "d"' $((1 + 2)) | tr a-z A-Z && echo "it's" \$HOME; printf %s\\n *"#;
    let place = Place::new();
    place.touch("a file");
    assert_eq!(written(place.exec(text)), "A  B C \"D\" 3\nit's $HOME\na file\n");
    assert_eq!(written(line("echo one\necho two # the end\n")), "one\ntwo\n");
}

#[test]
fn a_line_that_begins_with_a_dash_is_no_option_of_the_shell() {
    let place = Place::new();
    let event = place.exec("-x || echo it is no program").output(Output::Keep(1000));
    let outcome = outcome(event);
    assert!(outcome.is_success() && text_of(&outcome).ends_with("it is no program\n"), "{outcome:?}");
}

#[test]
fn arguments_reach_the_program_as_they_are() {
    let arguments = ["a  b", "", "*", "'\"", "$HOME `id` \\", "-n", "two\nlines", "ü"];
    let event = Event::command("e", "printf", ["%s|"].into_iter().chain(arguments)).every_minute();
    assert_eq!(written(event), arguments.map(|argument| format!("{argument}|")).concat());
}

#[test]
fn arguments_that_are_no_text_reach_the_program_as_they_are() {
    let odd = OsStr::from_bytes(b"\xff\xfe \x01");
    let event = Event::command("e", "printf", [OsStr::new("%s"), odd]).every_minute();
    let kept = outcome(event.output(Output::Keep(100)));
    assert_eq!(kept.output().expect("it is kept").bytes(), odd.as_bytes());

    let line = [b"printf %s ".as_slice(), b"'\xff'"].concat();
    let kept = outcome(Event::exec("e", OsStr::from_bytes(&line)).every_minute().output(Output::Keep(100)));
    assert_eq!(kept.output().expect("it is kept").bytes(), b"\xff");

    let place = Place::new();
    let program = place.0.path().join(OsStr::from_bytes(b"\xff"));
    assert_eq!(
        said(Event::command("e", &program, [""; 0]).every_minute()),
        format!("failed after 0 µs: could not start `{}`: No such file or directory (os error 2)", program.display())
    );
}

#[test]
fn hooks_see_how_the_command_ended() {
    for (line, expected) in
        [("exit 0", ["then Some(0)", "on_success Some(0)"]), ("exit 7", ["then Some(7)", "on_failure Some(7)"])]
    {
        let diary = Diary::default();
        let note = |name: &'static str| {
            let diary = diary.clone();
            move |_: &Run, outcome: &RunOutcome| {
                let code = outcome.exit_status().expect("it was started").code();
                let kept = outcome.output().expect("it is kept").to_string();
                assert_eq!(kept, "paper\n");
                diary.note(format!("{name} {code:?}"));
            }
        };
        let event = Event::exec("e", format!("echo paper; {line}")).every_minute().output(Output::Keep(100));
        let event = event.then(note("then")).on_success(note("on_success")).on_failure(note("on_failure"));
        let report = tick(event);
        assert!(ran(&report, "e").hook_failures().is_empty(), "{report}");
        assert_eq!(diary.lines(), expected);
    }
}

#[test]
fn a_script_without_a_first_line_that_names_its_shell_runs_with_a_protection_and_without() {
    let place = Place::new();
    // Another process writes the script: no other command that is started meanwhile has it open.
    let write = "echo 'echo $0 $1; exit 3' >script && chmod 755 script";
    let written = Command::new("sh").args(["-c", write]).current_dir(place.0.path()).status();
    assert!(written.expect("there is a shell").success());
    let script = place.path("script");
    for protect in [|event: Event| event, Event::without_overlapping] {
        let event = Event::command("e", &script, ["word"]).every_minute().output(Output::Keep(1000));
        let outcome = outcome(event.apply(protect));
        assert_eq!(outcome.exit_status().and_then(|status| status.code()), Some(3), "{outcome}");
        assert_eq!(text_of(&outcome), format!("{} word\n", script.display()));
    }
}

#[test]
fn an_occurrence_whose_command_a_server_could_not_start_is_left_to_another() {
    let (place, clock) = (Place::new(), ManualClock::at(noon()));
    let tick = |store: &MemoryMutex, event: Event| {
        let schedule = Schedule::new(store.clone()).with_clock(&clock);
        schedule.add(event.on_one_server().without_overlapping().hold_at_least(HOUR / 61)).unwrap();
        schedule.run_due(noon())
    };
    let missing = place.path("missing");
    for not_started in [
        Event::command("e", &missing, [""; 0]).every_minute(),
        line("true").current_dir(&missing),
        line("true").output(Output::File(missing.join("output"))),
    ] {
        let store = MemoryMutex::with_clock(&clock);
        let report = tick(&store, not_started);
        assert!(report.is_failure() && ran(&report, "e").exit_status().is_none(), "{report}");
        assert!(matches!(ran(&report, "e").release(), Some(Release::Released)), "{report}");
        assert!(ran(&tick(&store, line("exit 0")), "e").is_success(), "its occurrence and its lease are free");
    }
    // A command that has begun uses the occurrence.
    let store = MemoryMutex::with_clock(&clock);
    assert_eq!(ran(&tick(&store, line("exit 3")), "e").exit_status().and_then(|status| status.code()), Some(3));
    assert_eq!(skipped(&tick(&store, line("exit 0")), "e").keyword(), "ran_elsewhere");
}

#[test]
fn a_command_whose_preparation_fails_is_not_started() {
    let place = Place::new();
    let outcome = outcome(place.exec(": >started").before(|_| Err("no paper".into())));
    assert_eq!(outcome.to_string(), "not started; `before` hook 1 failed: no paper");
    assert!(!place.has("started") && outcome.exit_status().is_none());
}

#[test]
fn commands_run_by_hand_and_in_the_background_like_other_tasks() {
    let place = Place::new();
    let schedule = Schedule::in_process();
    schedule.add(place.exec("echo ran >>log; exit 4").without_overlapping().in_background()).unwrap();
    for report in [schedule.run_due(noon()), schedule.run_due(noon())] {
        assert_eq!(ran(&report, "e").exit_status().unwrap().code(), Some(4));
    }
    let by_hand = schedule.run_event("e", noon()).unwrap();
    assert!(by_hand.to_string().starts_with("e  2026-03-01 12:00:00 UTC  exited with 4 after "), "{by_hand}");
    assert_eq!(place.read("log"), "ran\n".repeat(3));
}

/// A layer that notes the event at a run's end: level, message, fields.
#[derive(Clone, Default)]
struct Captured(Diary);

impl<S: Subscriber> Layer<S> for Captured {
    fn on_new_span(&self, _: &tracing::span::Attributes<'_>, _: &Id, _: Context<'_, S>) {}

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        #[derive(Default)]
        struct Fields(String, Vec<String>);
        impl Visit for Fields {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                match field.name() {
                    "message" => self.0 = format!("{value:?}"),
                    name => self.1.push(format!("{name}={value:?}")),
                }
            }
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.note(format!("{} {}: {}", event.metadata().level(), fields.0, fields.1.join(" ")));
    }
}

#[test]
fn subscribers_are_told_how_it_ended() {
    for (event, told) in [
        (line("exit 0"), "INFO succeeded: took_ms=0"),
        (line("exit 3"), "ERROR failed: took_ms=0 error=exited with 3"),
        (line("kill -s KILL $$"), "ERROR failed: took_ms=0 error=ended by signal 9 (SIGKILL)"),
        (
            command("/no/such/program", []),
            "ERROR failed: took_ms=0 error=failed: could not start `/no/such/program`: No such file or directory (os \
             error 2)",
        ),
    ] {
        let heard = Captured::default();
        with_subscriber(Registry::default().with(heard.clone().with_filter(LevelFilter::INFO)), || drop(tick(event)));
        assert_eq!(heard.0.lines(), ["INFO started: ", told]);
    }
}

#[test]
fn subscribers_are_told_of_a_command_that_was_stopped() {
    let limit = 30 * SECOND;
    let timed = "ERROR timed out: took_ms=30000 limit_ms=30000 error=failed: the run was cancelled, because it took \
                 longer than its timeout";
    let lost = "ERROR failed: token=1772366400000000 took_ms=30000 error=failed: the run was cancelled, because its lease \
                was lost";
    for protected in [false, true] {
        let (place, clock, heard) = (Place::new(), ManualClock::at(noon()), Captured::default());
        let event = place.exec("echo $$ >pid; exec sleep 60");
        let event = if protected { event.without_overlapping_for(36 * SECOND) } else { event.timeout(limit) };
        let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
        schedule.add(event).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                place.pid("pid");
                clock.advance(limit);
            });
            let listens = Registry::default().with(heard.clone().with_filter(LevelFilter::INFO));
            with_subscriber(listens, || assert!(schedule.run_due(noon()).is_failure()));
        });
        let lines = heard.0.lines();
        assert_eq!(lines.last().map(String::as_str), Some(if protected { lost } else { timed }), "{lines:?}");
    }
}
