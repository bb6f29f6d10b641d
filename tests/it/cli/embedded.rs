//! The command line in a program that has a schedule: `examples/schedule_cli.rs`, and one whose events come more often.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Datelike, Month, TimeDelta, Timelike, Utc};
use soloist::{AddError, Event, Schedule};

use super::*;

/// The words that the program below was given.
const WORDS: &str = "SOLOIST_TEST_WORDS";

/// When its events are due.
const EVERY: &str = "SOLOIST_TEST_EVERY";

/// Runs a program with another schedule: this test, in a process of its own.
#[test]
fn a_program_with_events_of_its_own() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let words = std::iter::once("app").chain(words.split_whitespace()).map(str::to_owned).collect::<Vec<_>>();
    // With the subcommand `schedule`, these are the matches of the parser around it, so that they are refused.
    let parser = soloist::cli::command("app").subcommand(soloist::cli::command("schedule"));
    let matches = parser.get_matches_from(words);
    let code = soloist::cli::run_matches(&matches, || {
        let every = |event: Event| match std::env::var(EVERY).as_deref() {
            Ok("second") => event.every_second(),
            Ok("jitter") => event.every_minute().jitter(Duration::from_secs(59)),
            #[cfg(feature = "cron")]
            Ok("20 seconds") => event.on("5/20 * * * * *".parse::<cron::Schedule>().expect("a schedule")),
            #[cfg(feature = "cron")]
            Ok("2098") => event.on("30 15 9 * * Wed 2098".parse::<cron::Schedule>().expect("a schedule")),
            _ => event.every_minute(),
        };
        let store = std::env::var("SOLOIST_STORE").expect("it is said");
        let schedule = Schedule::new(soloist::connect(&store).expect("it is a store")).with_environment("staging");
        let past = Utc::now() - TimeDelta::hours(2);
        let month = u8::try_from((past + TimeDelta::days(180)).month()).expect("it is from 1 to 12");
        let months_away = Month::try_from(month).expect("a month");
        schedule
            .add(every(Event::call("fine", |_| {})).without_overlapping())?
            .add(every(Event::call("broken", |_| Err("no paper".into()))))?
            .add(
                Event::call("past", |_| {})
                    .daily_at(&format!("{:02}:{:02}", past.hour(), past.minute()))
                    .on_one_server(),
            )?
            .add(Event::call("elsewhere", |_| {}).yearly_on(months_away, 1, "12:00").environments(["production"]))?
            .add(
                Event::call("closed", |_| {})
                    .yearly_on(months_away, 1, "12:00")
                    .between("11:00", "13:00")
                    .skip(|_| true),
            )?;
        Ok::<_, AddError>(schedule)
    });
    std::process::exit((0..=u8::MAX).find(|number| ExitCode::from(*number) == code).map_or(-1, i32::from));
}

/// Returns a command for that program.
fn app(place: &Place, words: &str, every: &str) -> Command {
    let this = std::env::current_exe().expect("a running program has a path");
    let mut command = place.program(&this, "cli::embedded::a_program_with_events_of_its_own --exact --nocapture");
    command.env(WORDS, words).env(EVERY, every);
    command
}

/// Returns the output without the test harness's lines.
fn printed(answer: &Answer) -> &str {
    answer.printed.trim_start().trim_start_matches("running 1 test").trim_start()
}

#[test]
fn a_run_from_cron_tells_of_failures_alone_and_on_standard_error() {
    let place = Place::new();
    let failed = answer(&mut app(&place, "run", "minute")).exits_with(1);
    assert_eq!(printed(&failed), "", "cron mails what is printed");
    let lines: Vec<&str> = failed.errors.lines().collect();
    assert!(lines.len() == 1 && lines[0].contains("broken") && lines[0].ends_with("no paper"), "{failed:?}");
}

#[test]
fn a_verbose_run_tells_of_everything_on_standard_output() {
    let place = Place::new();
    let all = answer(&mut app(&place, "run -v", "minute")).exits_with(1);
    let text = printed(&all);
    assert!(text.contains(" UTC: 2 due, 2 ran, 0 skipped, 1 failed\n"), "{all:?}");
    let rows: Vec<&str> = text.lines().skip(1).map(str::trim).collect();
    assert!(rows[0].starts_with("fine ") && rows[0].contains("succeeded in "), "{all:?}");
    assert!(rows[1].starts_with("broken ") && rows[1].ends_with("no paper"), "{all:?}");
    assert_eq!(all.errors, "", "a failure is told once");
}

#[test]
fn the_matches_of_another_parser_are_refused() {
    let place = Place::new();
    answer(&mut app(&place, "schedule list", "minute")).exits_with(1).says(
        "soloist: a schedule has no command `schedule`: pass `run_matches` the matches of the subcommand that `cli::command` \
         made, as in `matches.subcommand_matches(\"schedule\")`\n",
    );
}

/// Puts a program in the place of the `sleep` of `carts:remind`.
pub(super) fn instead_of_sleep(place: &Place, script: &str) -> impl Fn(&mut Command) -> &mut Command + use<> {
    let folder = place.path("bin");
    // By another process: a child of another test may inherit a file that this process writes, and nothing can run the
    // file then.
    let mut writes = Command::new("sh");
    writes.args([
        "-c",
        r#"mkdir -p bin && printf '#!/bin/sh\n%s\n' "$1" >bin/sleep && chmod 755 bin/sleep"#,
        "sh",
        script,
    ]);
    succeeds(writes.current_dir(place.folder.path()));
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    move |command| command.env("PATH", &path)
}

/// Waits, if the next minute is near.
fn early_in_a_minute() {
    while Utc::now().second() > 39 {
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_due_time_that_is_claimed_runs_once_however_often_and_wherever_it_is_asked_for() {
    let place = Place::new();
    let quick = instead_of_sleep(&place, "echo $SOLOIST_OCCURRENCE >>log");
    succeeds(&mut place.schedule("pause prices:import")); // it fails
    early_in_a_minute();
    let ran = succeeds(quick(&mut place.schedule("run-one carts:remind --claim"))).printed;
    assert!(ran.starts_with("carts:remind  20") && ran.contains("  succeeded in "), "{ran}");
    for words in ["run-one carts:remind --claim", "run-one --claim --wait 5s carts:remind"] {
        let skipped = answer(quick(&mut place.schedule(words))).exits_with(1).printed;
        assert!(skipped.starts_with("carts:remind  20") && skipped.contains("  skipped, taken by "), "{skipped}");
    }
    succeeds(quick(&mut place.schedule("run"))).is_silent();
    assert_eq!(place.read("log").lines().count(), 1, "the tick from cron finds it taken, too");
    assert!(place.read("log").ends_with(":00Z\n"), "it runs for its minute");
    // By hand it runs in any case, and for no minute.
    succeeds(quick(&mut place.schedule("run-one carts:remind"))).says("succeeded in ");
    assert_eq!(place.read("log").lines().count(), 2);
}

#[test]
fn a_due_time_that_is_long_past_is_not_claimed() {
    let place = Place::new();
    let refused = answer(&mut app(&place, "run-one past --claim", "minute")).exits_with(1);
    assert_eq!(refused.errors, "soloist: past was not due in the last 5 minutes: run it without `--claim`\n");
    answer(&mut app(&place, "run-one past", "minute")).exits_with(0).says("succeeded in ");
}

#[test]
fn one_event_by_hand_waits_for_the_other_run_if_it_is_asked_to() {
    let place = Place::new();
    let quick = instead_of_sleep(&place, "echo by hand >>log");
    let line = "until [ -e go ]; do /bin/sleep 0.05; done; echo by cron >>log";
    let other = start(place.soloist("run --name carts:remind -- sh -c").arg(line));
    until(|| place.has_locks()).expect("it is taken");
    let refused = answer(quick(&mut place.schedule("run-one carts:remind"))).exits_with(1);
    refused.says("skipped, still running: ").says(&format!(", pid {}, ", other.id()));
    answer(quick(&mut place.schedule("run-one carts:remind --wait 500ms"))).exits_with(1);
    let mut waiting = start(quick(&mut place.schedule("run-one carts:remind -w 60s")));
    thread::sleep(Duration::from_millis(500)); // it asks several times
    assert!(!waiting.has_ended());
    place.touch("go");
    waiting.ended().exits_with(0).says("succeeded in ");
    other.ended().exits_with(0);
    assert_eq!(place.read("log"), "by cron\nby hand\n");
}

#[test]
fn one_event_is_tried_outside_of_its_window_only_if_that_is_asked_for() {
    let place = Place::new();
    let skipped = answer(&mut app(&place, "run-one closed", "minute")).exits_with(1).printed;
    assert!(skipped.contains("skipped, filtered out by `"), "{skipped}");
    answer(&mut app(&place, "run-one closed --ignore-filters", "minute")).exits_with(0).says("succeeded in ");
    answer(&mut app(&place, "run-one elsewhere --ignore-filters", "minute"))
        .exits_with(1)
        .says("filtered out by `environments production`\n");
    answer(&mut app(&place, "run-one past --ignore-filters --claim", "minute"))
        .exits_with(2)
        .says("cannot be used with");
    let listed = answer(&mut app(&place, "list", "minute")).exits_with(0).printed;
    let row = listed.lines().find(|row| row.starts_with("closed ")).expect(&listed);
    assert!(row.contains(" at 12:00") && row.ends_with("between 11:00 and 13:00; skip"), "{listed}");
}

#[test]
fn one_event_that_fails_says_so_and_exits_with_1() {
    let place = Place::new();
    let fails = instead_of_sleep(&place, "echo no more sheep; exit 7");
    let failed = answer(fails(&mut place.schedule("run-one carts:remind"))).exits_with(1);
    failed.says("exited with 7 after ");
    answer(&mut place.schedule("run-one sideways")).exits_with(2).says("there is no event `sideways` in the schedule");
    assert!(answer(&mut place.schedule("run-one")).exits_with(2).printed.is_empty());
}

/// Ignores SIGCHLD, as `cron` and some supervisors do.
#[test]
fn the_exit_code_of_a_command_is_read_although_the_program_was_started_with_sigchld_ignored() {
    let place = Place::new();
    let fails = instead_of_sleep(&place, "exit 7");
    let program = example("schedule_cli").display().to_string();
    for words in
        ["run-one carts:remind", "backfill -y carts:remind --from 2025-03-02T10:00:00Z --to 2025-03-02T10:01:00Z"]
    {
        let words = format!("--ignore-signal=CHLD {program} {words}");
        answer(fails(&mut place.program(Path::new("env"), &words))).exits_with(1).says("exited with 7 after ");
    }
}

#[test]
fn a_second_signal_ends_one_event_by_hand_and_its_lease() {
    for (number, name) in ASKING {
        let place = Place::new();
        let sleeps = instead_of_sleep(&place, "touch began; exec /bin/sleep 20");
        let mut running = start(sleeps(&mut place.schedule("run-one db:backup")));
        place.wait_for("began"); // A signal before that would keep it from beginning.
        running.signal(name);
        thread::sleep(Duration::from_millis(500)); // two signals at once count as one
        assert!(!running.has_ended(), "it may finish within the drain");
        running.signal(name);
        assert_eq!(running.ended().signal, Some(number));
        assert_eq!(Place::json(&mut place.soloist("locks")), Value::Array(vec![]));
    }
}

#[track_caller]
fn work_prints_a_plain_line_for_each_step_and_ends_by(number: i32, name: &str) {
    let place = Place::new();
    let shown = std::fs::File::create(place.path("shown")).expect("the folder is ours");
    let working = start(app(&place, "work", "second").stdout(shown));
    let has = |text: &str| place.read("shown").lines().any(|line| line.contains(text));
    let steps = [
        "5 events; Ctrl-C ends this",
        " UTC fine: started under token ",
        " UTC fine: succeeded in ",
        " UTC broken: started",
        ": no paper",
    ];
    for step in steps {
        until(|| has(step)).unwrap_or_else(|why| panic!("{why} for {step} in {}", place.read("shown")));
    }
    let ends = || place.read("shown").matches(" UTC fine: succeeded in ").count();
    until(|| ends() >= 3).expect("it goes on for some seconds");
    working.signal(name);
    let answer = working.ended();
    assert_eq!((answer.signal, &*answer.errors), (Some(number), ""), "{answer:?}");
    let shown = place.read("shown");
    assert!(!shown.contains('\x1b') && shown.ends_with('\n'), "{shown:?}");
    assert_eq!(shown.matches(" UTC broken: started\n").count(), shown.matches(": no paper\n").count(), "{shown}");
    assert_eq!(Place::json(&mut place.soloist("locks")), Value::Array(vec![]));
}

#[test]
fn work_prints_a_plain_line_for_each_step_and_ends_by_its_signal() {
    thread::scope(|scope| {
        for (number, name) in ASKING {
            scope.spawn(move || work_prints_a_plain_line_for_each_step_and_ends_by(number, name));
        }
    });
}

#[test]
fn work_lets_a_run_finish_and_starts_no_other() {
    let place = Place::new();
    let shown = std::fs::File::create(place.path("shown")).expect("the folder is ours");
    let working = start(place.schedule("work").stdout(shown));
    until(|| place.read("shown").contains("3 events")).expect("it works");
    working.signal("TERM");
    assert_eq!(working.ended().signal, Some(SIGTERM));
    assert_eq!(place.read("shown").lines().next(), Some("3 events; Ctrl-C ends this"));
}

#[test]
fn work_goes_on_when_nobody_reads_it_any_more() {
    let place = Place::new();
    let mut working = start(&mut place.schedule("work"));
    working.0.as_mut().expect("it was started").stdout = None;
    thread::sleep(Duration::from_secs(4)); // the lines of a run
    assert!(!working.has_ended());
    working.signal("TERM");
    let answer = working.ended();
    assert_eq!((answer.signal, &*answer.errors), (Some(SIGTERM), ""), "{answer:?}");
}

#[test]
fn a_script_of_completions_is_one_that_the_shell_understands() {
    let place = Place::new();
    let commands = ["run-one", "unlock", "completions", "--claim"];
    for (program, words) in
        [(place.schedule("completions bash"), &commands[..]), (place.soloist("completions bash"), &["--on-one-server"])]
    {
        let mut program = program;
        let script = succeeds(&mut program).printed;
        assert!(words.iter().all(|word| script.contains(word)), "{script}");
        std::fs::write(place.path("script"), &script).expect("the folder is ours");
        succeeds(Command::new("bash").arg("-n").arg(place.path("script"))).is_silent();
        // The shell completes a command by its first letters.
        let name = if words.len() > 1 { "schedule_cli" } else { "soloist" };
        let line = format!(
            ". {}; COMP_WORDS=({name} unl); COMP_CWORD=1; _{name} {name} unl {name}; echo \"${{COMPREPLY[*]}}\"",
            place.path("script").display()
        );
        assert_eq!(succeeds(Command::new("bash").args(["-c", &line])).printed, "unlock\n");
    }
}

#[test]
fn a_schedule_that_is_not_made_is_told_but_for_its_help() {
    let place = Place { store: "nowhere:".into(), ..Place::new() };
    for words in ["list", "run", "work", "status", "locks", "run-one carts:remind"] {
        let failed = answer(&mut place.schedule(words)).exits_with(1);
        assert!(
            failed.printed.is_empty() && failed.errors.starts_with("soloist: no store has the scheme nowhere"),
            "{failed:?}"
        );
    }
    for words in ["--help", "run --help", "--version", "completions bash"] {
        succeeds(&mut place.schedule(words));
    }
}

/// Returns the JSON that the program prints for these words.
fn json_of(place: &Place, words: &str, every: &str) -> Value {
    let answer = answer(&mut app(place, &format!("{words} --json"), every)).exits_with(0);
    serde_json::from_str(printed(&answer)).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn times(value: &Value) -> Vec<DateTime<Utc>> {
    let time = |value: &Value| value.as_str().and_then(|text| text.parse().ok()).expect("a time");
    value.as_array().map_or_else(|| vec![time(value)], |values| values.iter().map(time).collect())
}

#[test]
fn starts_and_their_occurrences_are_shown_where_they_differ() {
    let place = Place::new();
    let list = json_of(&place, "list --next 5", "jitter");
    let next = json_of(&place, "next --for 10m", "jitter");
    let status = json_of(&place, "status", "jitter");
    let of_next = |key: &str| {
        let due = next.as_array().expect("a list").iter().filter(|due| due["event"] == "fine");
        due.flat_map(|due| times(&due[key])).collect::<Vec<_>>()
    };
    let pairs = [
        (times(&list[0]["next_due"]), times(&list[0]["next_occurrences"])),
        (of_next("due"), of_next("occurrence")),
        (times(&status["events"][0]["next_due"]), times(&status["events"][0]["next_occurrence"])),
    ];
    for (starts, occurrences) in &pairs {
        assert!(!starts.is_empty() && starts.len() == occurrences.len(), "{pairs:?}");
        assert!(occurrences.iter().all(|occurrence| occurrence.second() == 0), "{pairs:?}");
        let delays = starts.iter().zip(occurrences).map(|(start, occurrence)| (*start - *occurrence).num_seconds());
        assert!(delays.clone().all(|delay| (0..60).contains(&delay)) && starts.is_sorted(), "{pairs:?}");
    }
    assert!(pairs[0].0 != pairs[0].1, "one of five is delayed");
    let text = answer(&mut app(&place, "list --next 5", "jitter")).exits_with(0);
    assert!(printed(&text).contains("every minute, plus a jitter of 59s at most"), "{text:?}");
    assert!(printed(&text).contains(" s, for "), "{text:?}");
}

#[test]
#[cfg(feature = "cron")]
fn the_seconds_and_years_of_a_schedule_are_shown() {
    let place = Place::new();
    let next = json_of(&place, "next --for 2m", "20 seconds");
    let due = next.as_array().expect("a list").iter().filter(|due| due["event"] == "fine");
    let seconds: Vec<u32> = due.flat_map(|due| times(&due["due"])).map(|due| due.second()).collect();
    assert!(seconds.len() == 6 && seconds.iter().all(|second| [5, 25, 45].contains(second)), "{next:#}");

    let list = answer(&mut app(&place, "list", "2098")).exits_with(0);
    let status = answer(&mut app(&place, "status", "2098")).exits_with(0);
    let words = "at 09:15, on Wednesdays, at the seconds 30, in 2098";
    assert!(printed(&list).contains(words), "{list:?}");
    for answer in [&list, &status] {
        assert!(printed(answer).contains("2098-01-01 09:15:30 UTC, in "), "{answer:?}");
    }
}
