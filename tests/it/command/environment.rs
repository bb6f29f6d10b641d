//! The environment of a command, its directory and its input.

use super::program::WHOLE_PATH;
use super::*;
use crate::scripted::{Call, Scripted};

/// A line that prints these variables.
const WHICH_RUN: &str = "env | grep ^SOLOIST_ | grep -v ^SOLOIST_TEST_ | sort; :";

fn line(line: &str) -> Event {
    Event::exec("e", line).every_minute()
}

#[test]
fn its_environment_is_that_of_this_process_with_what_is_its_own() {
    let path = std::env::var("PATH").unwrap();
    assert_eq!(written(line("echo $PATH").env("OTHER", "x")), format!("{path}\n"));
    assert_eq!(written(line("echo $HOME,$PGUSER").env("HOME", "/here").env("PGUSER", "a b")), "/here,a b\n");
    assert_eq!(written(line("echo $A$B").env("A", "1").env("B", "").env("A", "1")), "1\n");
    let odd = OsStr::from_bytes(b"\xff");
    let kept = outcome(line("printf %s \"$ODD\"").env("ODD", odd).output(Output::Keep(9)));
    assert_eq!(kept.output().unwrap().bytes(), b"\xff");
}

#[test]
fn a_command_knows_for_what_it_runs() {
    type Way = fn(Event) -> Event;

    let (clock, seen) = (ManualClock::at(noon()), Arc::new(Mutex::new(None)));
    let ways: [Way; 3] =
        [Event::without_overlapping, Event::on_one_server, |event| event.on_one_server().without_overlapping()];
    for way in ways {
        let noted = Arc::clone(&seen);
        let note = move |run: &Run| *noted.lock().unwrap() = Some(run.clone());
        let event = line(WHICH_RUN).apply(way).before(note);
        let store = MemoryMutex::with_clock(&clock);
        let schedule = Schedule::new(store.clone()).with_clock(&clock);
        schedule.add(event.output(Output::Keep(1000))).unwrap();
        let report = schedule.run_due(noon());
        assert!(!report.is_failure(), "{report}");
        let run = seen.lock().unwrap().take().expect("it ran");
        let written = text_of(ran(&report, "e"));
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!(lines[..3], ["SOLOIST_ATTEMPT=1", "SOLOIST_EVENT=e", "SOLOIST_OCCURRENCE=2026-03-01T12:00:00Z"]);
        let owner = lines[3].strip_prefix("SOLOIST_OWNER=").expect("it is protected");
        let of_claim = || holder(&store, &MutexName::lease("e").unwrap().claim("e", noon())).map(|claim| claim.owner());
        assert_eq!(
            Some(owner),
            run.lease().map(Lease::owner).or_else(of_claim).map(|owner| owner.to_string()).as_deref()
        );
        let slot = run.slot().map(|slot| format!("SOLOIST_SLOT={slot}"));
        assert_eq!(slot.is_some(), run.lease().is_some());
        let token = format!("SOLOIST_TOKEN={}", run.fencing_token().expect("it is protected"));
        assert_eq!(lines[4..], slot.into_iter().chain([token]).collect::<Vec<_>>());
    }
}

#[test]
fn an_occurrence_within_a_second_is_told_with_its_fraction() {
    let schedule = Schedule::in_process();
    schedule.add(line("echo $SOLOIST_OCCURRENCE").output(Output::Keep(100))).unwrap();
    let by_hand = schedule.run_event("e", at("2026-03-01T12:00:00.25Z")).unwrap();
    let soloist::Verdict::Ran(outcome) = by_hand.verdict() else { panic!("{by_hand}") };
    assert_eq!(text_of(outcome), "2026-03-01T12:00:00.250Z\n");
}

#[test]
fn a_command_without_a_lease_is_given_none_of_another() {
    let name = "command::environment::a_command_without_a_lease_is_given_none_of_another";
    let of_another = [
        ("SOLOIST_EVENT", "other"),
        ("SOLOIST_OCCURRENCE", "never"),
        ("SOLOIST_BACKFILL", "1"),
        ("SOLOIST_ATTEMPT", "9"),
        ("SOLOIST_OWNER", "other"),
        ("SOLOIST_TOKEN", "1"),
        ("SOLOIST_SLOT", "1"),
    ];
    if run_alone(name, &of_another).is_some() {
        return;
    }
    let which = "SOLOIST_ATTEMPT=1\nSOLOIST_EVENT=e\nSOLOIST_OCCURRENCE=2026-03-01T12:00:00Z\n";
    assert_eq!(written(line(WHICH_RUN)), which);
    // Also without a lease, because its store is unavailable.
    let event =
        line(WHICH_RUN).without_overlapping().on_outage(OutagePolicy::RunUnprotected).output(Output::Keep(1000));
    let report = tick_on(Scripted::default().before(Call::times_out), event);
    assert!(ran(&report, "e").unprotected().is_some(), "{report}");
    assert_eq!(text_of(ran(&report, "e")), which);
}

#[test]
fn it_runs_in_its_directory() {
    let place = Place::new();
    let here = fs::canonicalize(place.0.path()).unwrap();
    assert_eq!(written(place.exec("pwd -P")), format!("{}\n", here.display()));
    let own = std::env::current_dir().and_then(fs::canonicalize).unwrap();
    assert_eq!(written(line("pwd -P")), format!("{}\n", own.display()));
}

#[test]
fn a_directory_that_is_not_there_is_named_and_nothing_is_started() {
    let place = Place::new();
    let missing = place.path("missing");
    place.touch("file");
    for (directory, error) in
        [(missing.clone(), "No such file or directory (os error 2)"), (place.path("file"), "not a directory")]
    {
        for protect in [|event: Event| event, Event::without_overlapping] {
            let said = said(line("pwd").current_dir(&directory).apply(protect));
            let directory = directory.display();
            assert_eq!(said, format!("failed after 0 µs: could not start `pwd` in {directory}: {error}"));
        }
    }
    let error = "No such file or directory (os error 2): a relative path begins at the current directory, ";
    let here = std::env::current_dir().unwrap();
    let relative = format!("could not start `pwd` in no-such-folder: {error}{}: write the whole path", here.display());
    assert_eq!(said(line("pwd").current_dir("no-such-folder")), format!("failed after 0 µs: {relative}"));
    // The program is searched for at each run.
    let schedule = Schedule::in_process();
    schedule.add(line(": >here").current_dir(&missing)).unwrap();
    assert!(schedule.run_due(noon()).is_failure());
    fs::create_dir(&missing).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
    assert!(place.has("missing/here"));
}

#[test]
fn a_program_that_is_not_there_is_told_from_its_directory() {
    let place = Place::new();
    let event = Event::command("e", "no-such-program", [""; 0]).every_minute().current_dir(place.0.path());
    let missing = "No such file or directory (os error 2)";
    let path = std::env::var("PATH").unwrap();
    let why = format!("{missing}: it is in no folder of PATH={path}: {WHOLE_PATH}");
    assert_eq!(said(event), format!("failed after 0 µs: could not start `no-such-program`: {why}"));
    let event = Event::command("e", "ls", [""; 0]).every_minute().env("PATH", "/no/bin");
    let why = format!("{missing}: it is in no folder of PATH=/no/bin: {WHOLE_PATH}");
    assert_eq!(said(event), format!("failed after 0 µs: could not start `ls`: {why}"));
    let here = std::env::current_dir().unwrap();
    let event = || Event::command("e", "./no-such-program", [""; 0]).every_minute();
    for (event, directory) in [(event(), &*here), (event().current_dir(place.0.path()), place.0.path())] {
        let directory = directory.display();
        let why = format!("a relative path begins at the current directory, {directory}: write the whole path");
        assert_eq!(said(event), format!("failed after 0 µs: could not start `./no-such-program`: {missing}: {why}"));
    }
}

#[test]
fn it_reads_nothing() {
    const READS: &str = "SOLOIST_TEST_READS";
    if std::env::var_os(READS).is_some() {
        let line = line("cat; read -r line || echo nothing to read");
        return assert_eq!(written(line), "nothing to read\n");
    }
    // There is something to be read where it runs.
    let mut child = Command::new(std::env::current_exe().expect("a running program has a path"));
    child.args(["command::environment::it_reads_nothing", "--exact", "--nocapture"]).env(READS, "1");
    let place = Place::new();
    fs::write(place.path("input"), "something\n").unwrap();
    let output = child.stdin(fs::File::open(place.path("input")).unwrap()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
