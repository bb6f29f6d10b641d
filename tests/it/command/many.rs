//! Many commands, and a machine that has no thread to spare.

use std::io::Write;

use super::*;

/// Returns how many descriptors, threads and children this process has.
fn belongings() -> (usize, usize, usize) {
    let count = |what: &str| fs::read_dir(what).expect("Linux has one").count();
    let own = std::process::id();
    let children = processes().iter().filter(|process| process.parent == own).count();
    (count("/proc/self/fd"), count("/proc/self/task"), children)
}

#[test]
fn many_commands_leave_nothing_behind() {
    if run_alone("command::many::many_commands_leave_nothing_behind", &[]).is_some() {
        return;
    }
    let schedule = Schedule::in_process();
    let none: [&str; 0] = [];
    for number in 0..50 {
        let event = Event::command(format!("e{number}"), "/bin/true", none).every_minute().in_background();
        let event = match number {
            0..8 => event.without_overlapping(),
            8..10 => event.output(Output::Keep(10)),
            10 => Event::command("e10", "/no/such/program", none).every_minute().in_background().without_overlapping(),
            _ => event.output(Output::Discard),
        };
        schedule.add(event).unwrap();
    }
    let tick = || assert_eq!(schedule.run_due(noon()).failures().count(), 1);
    tick();
    let before = belongings();
    assert_eq!(before.2, 0, "no child of a command that has ended");
    let began = Instant::now();
    for _ in 0..10 {
        tick();
    }
    println!("500 commands in {:?}", began.elapsed());
    // The renewal thread ends when it has no lease.
    until(|| belongings().1 <= before.1).unwrap();
    let after = belongings();
    assert!(after.0 <= before.0 && after.2 == 0, "{before:?} {after:?}");
}

#[test]
fn many_commands_at_once_are_not_mixed_up() {
    const COMMANDS: u8 = 120;
    let place = Place::new();
    let made = Command::new("mkfifo").arg(place.path("go")).status();
    assert!(made.expect("there is mkfifo").success());
    let schedule = Schedule::in_process();
    for number in 0..COMMANDS {
        // Each command waits until all have started.
        let line = format!(": >here.{number}; read line <go; echo {number}; exit {number}");
        let event = Event::exec(format!("e{number}"), line).every_minute().in_background();
        let event = if number % 2 == 0 { event.without_overlapping() } else { event };
        schedule.add(event.current_dir(place.0.path()).output(Output::Keep(100))).unwrap();
    }
    let running = thread::spawn(move || schedule.run_due(noon()));
    for number in 0..COMMANDS {
        until(|| place.has(&format!("here.{number}"))).unwrap();
    }
    // One line for each command. A command that opens the pipe late finds it open.
    let mut go = fs::File::options().write(true).open(place.path("go")).unwrap();
    go.write_all("\n".repeat(COMMANDS.into()).as_bytes()).unwrap();
    let report = running.join().unwrap();
    for number in 0..COMMANDS {
        let outcome = ran(&report, &format!("e{number}"));
        assert_eq!(outcome.exit_status().and_then(|status| status.code()), Some(number.into()));
        assert_eq!(text_of(outcome), format!("{number}\n"));
    }
}

#[test]
fn where_no_thread_can_be_started_commands_run_all_the_same() {
    let name = "command::many::where_no_thread_can_be_started_commands_run_all_the_same";
    if run_alone(name, &[NO_THREADS]).is_some() {
        return;
    }
    assert!(thread::Builder::new().spawn(|| ()).is_err(), "there are threads");
    let place = Place::new();
    for protect in [|event: Event| event, Event::without_overlapping] {
        let event = place.exec("(sleep 0.2; echo late >>log) & exit 3").apply(protect);
        assert_eq!(said(event), "exited with 3 after 0 µs");
        let event = place.exec("trap '' TERM; : >deaf; sleep 60; :").apply(protect);
        let schedule = Schedule::in_process();
        schedule.add(event.timeout(SECOND).grace(Duration::from_millis(200))).unwrap();
        let (before, report) = (Instant::now(), schedule.run_due(noon()));
        let said = ran(&report, "e").to_string();
        assert!(said.starts_with("timed out after 1.0 s"), "{said}");
        // A shell that has not set its trap yet ends by the first signal.
        assert!(said.ends_with("; ended by signal 9 (SIGKILL)") || !place.has("deaf"), "{said}");
        assert!(before.elapsed() < 2 * SECOND + SLACK);
    }
    assert_eq!(place.read("log"), "late\nlate\n");
    let outcome = outcome(place.exec(": >started").output(Output::Keep(100)));
    let said = outcome.to_string();
    assert!(
        said.starts_with("failed after 0 µs: could not start a thread that keeps the output of the command: "),
        "{said}"
    );
    assert!(!place.has("started") && outcome.exit_status().is_none());
}

#[test]
fn where_no_descriptor_is_left_the_run_fails_and_ends() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let name = "command::many::where_no_descriptor_is_left_the_run_fails_and_ends";
    if run_alone(name, &[]).is_some() {
        return;
    }
    let schedule = Schedule::in_process();
    let event = Event::exec("e", "echo paper").every_minute().without_overlapping().output(Output::Keep(100));
    schedule.add(event).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
    let (before, limit) = (belongings(), getrlimit(Resource::Nofile));
    let mut failures = 0;
    for left in 0..40 {
        let current = Some(u64::try_from(before.0).unwrap() + left);
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
        let report = schedule.run_due(noon());
        setrlimit(Resource::Nofile, limit).unwrap();
        let said = ran(&report, "e").to_string();
        if report.is_failure() {
            assert!(said.ends_with("(os error 24)"), "{left}: {said}");
            failures += 1;
        }
    }
    assert!((1..40).contains(&failures), "{failures}");
    let after = belongings();
    assert!(after.0 <= before.0 && after.2 == 0, "{before:?} {after:?}");
}
