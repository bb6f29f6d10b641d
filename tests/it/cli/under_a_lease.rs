//! `soloist run`: the environment of the command, the conditions for running it, and its lease.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};

use super::*;
use crate::servers::proxy::{Fault, Proxy};
use crate::support::{group_lives, number_in};

fn time_of(value: &Value) -> DateTime<Utc> {
    value.as_str().expect("it is a time").parse().expect("it is a time")
}

#[test]
fn a_command_has_the_standard_input_and_both_outputs_and_its_arguments() {
    let place = Place::new();
    let text = "0123456789".repeat(100_000);
    let line = "cat >input; printf out; printf err >&2; exit 5";
    let mut child = place.run("", line).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let answer = Answer::from(child.wait_with_output().unwrap()).exits_with(5);
    assert_eq!((&*answer.printed, &*answer.errors), ("out", "err"));
    assert!(place.read("input") == text, "all of it arrived");

    let words = [b"a b".as_slice(), b"", b"--name", b"-v", b"$HOME", b"\xff\n"].map(OsStr::from_bytes);
    let output = place.soloist("run --name j -- printf %s|").args(words).output().unwrap();
    assert_eq!(output.stdout, b"a b||--name|-v|$HOME|\xff\n|", "{output:?}");
}

#[test]
fn a_command_knows_for_what_it_runs_and_under_which_token() {
    let place = Place::new();
    let line = "echo $SOLOIST_EVENT $SOLOIST_TOKEN $SOLOIST_OCCURRENCE $MINE; until [ -e go ]; do sleep 0.05; done";
    let noon = "2026-03-01T12:00:00Z";
    let mut command = place.cron_line("*/5 * * * *", "2026-03-01T12:04:59Z", "", line);
    let running = start(command.env("MINE", "kept").env("SOLOIST_TOKEN", "forged"));
    let token = place.until_held()["token"].to_string();
    place.touch("go");
    assert_eq!(running.ended().exits_with(0).printed, format!("j {token} {noon} kept\n"));
    let next = succeeds(&mut place.run("", "echo $SOLOIST_TOKEN")).printed;
    assert!(next.trim().parse::<u64>().unwrap() > token.parse().unwrap(), "{next} > {token}");
}

#[test]
fn a_second_run_is_refused_as_long_as_the_first_and_all_that_it_started_are_at_work() {
    let place = Place::new();
    let line = "(touch began; until [ -e go ]; do sleep 0.05; done) & exit 4";
    let first = start(&mut place.run("", line));
    place.wait_for("began");
    for _ in 0..3 {
        answer(&mut place.run("", "touch overlap")).exits_with(CONFLICT).is_silent();
    }
    // Other names are free.
    succeeds(place.soloist("run --name other -- true").arg("x"));
    place.touch("go");
    first.ended().exits_with(4);
    place.is_free();
    assert!(!place.path("overlap").exists());
}

#[test]
fn what_was_skipped_is_counted_in_the_log() {
    let place = Place::new();
    let first = start(&mut place.run("--log 5", "until [ -e go ]; do sleep 0.05; done"));
    place.until_held();
    for _ in 0..3 {
        answer(&mut place.run("--log 5", "touch overlap")).exits_with(CONFLICT).is_silent();
    }
    answer(&mut place.run("--log 5 --stuck-after 1ms", "touch overlap")).exits_with(CONFLICT);
    let skips = Place::json(&mut place.soloist("log j"))["skips"].clone();
    let told = [0, 1].map(|reason| (skips[reason]["reason"].as_str(), skips[reason]["count"].as_u64()));
    assert_eq!(told, [(Some("overlapping"), Some(3)), (Some("stuck"), Some(1))], "{skips:#}");
    let text = succeeds(&mut place.soloist("log j")).printed;
    assert!(
        text.contains("\nskipped, overlapping: 3, the latest at ") && text.contains("\nskipped, stuck: 1, "),
        "{text}"
    );
    place.touch("go");
    first.ended().exits_with(0);
}

#[test]
fn a_run_that_is_stuck_is_told_and_fails_even_where_a_conflict_is_none() {
    let place = Place::new();
    let first = start(&mut place.run("", "until [ -e go ]; do sleep 0.05; done"));
    place.until_held();
    let second = |options: &str| answer(&mut place.soloist(&format!("run --name j {options} -- touch overlap")));
    second("-E 0 --stuck-after 1h").exits_with(0).is_silent();
    let stuck = second("-E 0 --stuck-after 1ms").exits_with(1);
    assert!(stuck.errors.starts_with("soloist: j: skipped, still running after "), "{}", stuck.errors);
    second("-E 5 --stuck-after 1ms").exits_with(5);
    place.touch("go");
    first.ended().exits_with(0);
    assert!(!place.path("overlap").exists());
}

#[track_caller]
fn who_waits_long_enough_runs_when_the_other_has_ended(place: &Place) {
    let first = start(&mut place.run("", "echo first >>log; until [ -e go ]; do sleep 0.05; done; echo ended >>log"));
    place.until_held();
    let began = Instant::now();
    answer(&mut place.run("--wait 1s", "echo impatient >>log")).exits_with(CONFLICT).is_silent();
    assert!(began.elapsed() >= Duration::from_secs(1));
    let mut second = start(&mut place.run("-v -w 60s", "echo second >>log"));
    std::thread::sleep(Duration::from_secs(3)); // it has met the first one by then
    assert!(!second.has_ended());
    place.touch("go");
    second.ended().exits_with(0).says("; it waited ");
    first.ended().exits_with(0);
    assert_eq!(place.read("log"), "first\nended\nsecond\n");
}

#[test]
fn who_waits_long_enough_runs_when_the_other_has_ended_on_file() {
    who_waits_long_enough_runs_when_the_other_has_ended(&Place::new());
}

#[test]
fn who_waits_long_enough_runs_when_the_other_has_ended_on_redis() {
    let server = Redis::start();
    who_waits_long_enough_runs_when_the_other_has_ended(&Place::on(&server));
}

#[test]
fn who_waits_is_ended_by_a_signal() {
    let place = Place::new();
    let _first = start(&mut place.run("", "sleep 600"));
    place.until_held();
    let mut second = start(&mut place.run("--wait 1h", "touch overlap"));
    std::thread::sleep(Duration::from_millis(500)); // it asks several times
    assert!(!second.has_ended());
    second.signal("TERM");
    assert_eq!(second.ended().signal, Some(SIGTERM));
    assert!(!place.path("overlap").exists());
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_all_that_it_started() {
    let place = Place::new();
    let line = "echo $$ >group; trap 'echo TERM >>told' TERM; sleep 600 & wait; sleep 600";
    let began = Instant::now();
    // So long that a busy shell receives the signal.
    let answer = answer(&mut place.run("--timeout 8s --grace 8s", line));
    assert!(began.elapsed() >= Duration::from_secs(16), "its grace was left to it");
    answer.exits_with(124).says("timed out after 8.0 s");
    assert_eq!(place.read("told"), "TERM\n");
    assert!(!group_lives(number_in(&place.path("group"))));
    place.is_free();
    succeeds(&mut place.run("--timeout 60s", "true")).is_silent();
}

#[test]
fn a_command_under_two_leases_ends_when_the_first_of_them_ends_the_second() {
    // The second store does not answer, so the command has no second lease.
    for store in ["", "--store redis://127.0.0.1:1 --on-outage run"] {
        let place = Place::new();
        let mut command = place.soloist("run --name outer --grace 100ms --");
        // No process waits for the command's output.
        let line = "exec >/dev/null 2>&1; trap '' TERM; echo $$ >group; sleep 60; sleep 60";
        command.arg(SOLOIST).args(["run", "--name", "j"]).args(store.split_whitespace());
        let outer = start(command.args(["--", "sh", "-c", line]));
        let group = number_in(&place.path("group"));
        outer.signal("TERM");
        assert_eq!(outer.ended().signal, Some(SIGTERM));
        until(|| !group_lives(group)).expect("the second one has a grace of 5 s, and was killed in it");
        until(|| !place.has_locks()).expect("its lease is free");
    }
}

#[test]
fn a_lease_is_held_for_as_long_as_was_asked_although_the_command_is_quicker() {
    let place = Place::new();
    let began = Instant::now();
    succeeds(&mut place.run("--hold-at-least 60s", "true")).is_silent();
    assert!(began.elapsed() < Duration::from_secs(60), "nobody waits for that");
    let holder = place.holder().expect("it is held on purpose");
    assert!((time_of(&holder["until"]) - time_of(&holder["since"])).num_milliseconds() >= 59_900, "{holder}");
    answer(&mut place.run("", "true")).exits_with(CONFLICT);

    let place = Place::new();
    let began = Instant::now();
    succeeds(&mut place.run("--hold-at-least 3s", "true")).is_silent();
    succeeds(&mut place.run("--wait 30s", "true"));
    assert!(began.elapsed() >= Duration::from_secs(3));
}

/// Waits for longer than a term.
#[track_caller]
fn a_lease_is_renewed_while_its_command_works(place: &Place) {
    let running = start(&mut place.run("--term 15s --grace 0s", "until [ -e go ]; do sleep 0.05; done"));
    let first = place.until_held();
    let is_renewed = || {
        a_moment();
        let holder = place.holder().expect("it is held");
        assert_eq!((&holder["token"], &holder["pid"]), (&first["token"], &running.id().into()));
        time_of(&holder["until"]) - time_of(&first["until"]) > TimeDelta::seconds(15)
    };
    until(is_renewed).expect("its end moves by more than a term");
    place.touch("go");
    running.ended().exits_with(0).is_silent();
    place.is_free();
}

#[test]
fn a_lease_is_renewed_while_its_command_works_on_file() {
    a_lease_is_renewed_while_its_command_works(&Place::new());
}

#[test]
fn a_lease_is_renewed_while_its_command_works_on_redis() {
    let server = Redis::start();
    a_lease_is_renewed_while_its_command_works(&Place::on(&server));
}

/// Takes the lease by an operator's force from an endless command.
#[track_caller]
fn a_command_whose_lease_is_lost_is_ended(place: &Place) {
    let line = "trap '' TERM; sleep 600 & echo $$ >group; wait; sleep 600";
    let running = start(&mut place.run("--term 9s --grace 0s", line));
    let group = number_in(&place.path("group"));
    succeeds(&mut place.soloist("unlock --force j"));
    running.ended().exits_with(75).says("the lease was lost at ");
    assert!(!group_lives(group));
    place.is_free();
}

#[test]
fn a_command_whose_lease_is_lost_is_ended_on_file() {
    a_command_whose_lease_is_lost_is_ended(&Place::new());
}

#[test]
fn a_command_whose_lease_is_lost_is_ended_on_redis() {
    let server = Redis::start();
    a_command_whose_lease_is_lost_is_ended(&Place::on(&server));
}

#[test]
fn a_command_whose_store_goes_out_is_ended_before_its_lease_is() {
    let server = Redis::start();
    let place = Place { store: server.url(), ..Place::new() };
    let running = start(&mut place.run("--term 4s", "echo $$ >group; sleep 600"));
    let group = number_in(&place.path("group"));
    server.kill();
    let killed = Instant::now();
    running.ended().exits_with(75).says("the lease was lost at ");
    assert!(killed.elapsed() < Duration::from_secs(30) && !group_lives(group));
}

#[test]
fn a_command_that_rather_runs_twice_than_not_at_all_runs_while_its_store_is_out() {
    let place = Place { store: "redis://127.0.0.1:1".into(), ..Place::new() };
    let answer = answer(&mut place.run("--on-outage run", "echo token: $SOLOIST_TOKEN; exit 3")).exits_with(3);
    assert_eq!(answer.printed, "token:\n");
    answer.says("unprotected, because the store gave no decision");
    // 0 would say that it succeeded under its lease.
    super::answer(&mut place.run("--on-outage run", "true"))
        .exits_with(66)
        .says("succeeded in ")
        .says("but unprotected");
    // While the store answers, it is protected, and a pause counts.
    let server = Redis::start();
    let place = Place::on(&server);
    let _first = start(&mut place.run("", "sleep 600"));
    place.until_held();
    super::answer(&mut place.run("--on-outage run", "true")).exits_with(CONFLICT);
    succeeds(&mut place.soloist("pause other"));
    super::answer(&mut place.soloist("run -v --name other --on-outage run -- true")).exits_with(1).says("paused by ");
}

#[test]
fn a_command_that_succeeded_and_whose_lease_can_not_be_released_does_not_exit_with_0() {
    let server = Redis::start();
    let place = Place { store: server.url(), ..Place::new() };
    let running = start(&mut place.run("", "touch began; until [ -e go ]; do sleep 0.05; done"));
    place.wait_for("began");
    server.kill();
    place.touch("go");
    running.ended().exits_with(66).says("succeeded in ").says("the lease was not released: ");
}

#[test]
fn a_command_that_would_run_while_its_store_is_out_asks_it_once_and_a_pause_counts_when_it_answers() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    succeeds(Place::on(&server).soloist("pause --why").arg("a move"));
    let place = Place { store: proxy.url(), ..Place::new() };
    proxy.fault(Fault::Answer(b"-ERR out of order\r\n"));
    let asks = |options, code| {
        let met = proxy.met();
        let answer = answer(&mut place.run(options, "echo ran; exit 3")).exits_with(code);
        (proxy.met() - met, answer)
    };
    let (by_default, _) = asks("", 66);
    // During an outage nothing is known of a pause, also before the second attempt.
    let (asked, ran) = asks("--on-outage run --retry 1 --retry-after 1s", 3);
    assert_eq!(ran.printed, "ran\nran\n");
    ran.says("unprotected, because the store gave no decision");
    assert_eq!(asked, by_default, "an outage costs a tick one timeout");
    proxy.mend();
    answer(&mut place.run("-v --on-outage run", "touch ran")).exits_with(CONFLICT).says("skipped, paused by ");
    assert!(!place.path("ran").exists());
}

/// Accepts the options of `flock`, for lines that used it before.
#[test]
fn what_is_so_anyway_may_be_said() {
    let place = Place::new();
    for options in ["-n", "--nonblock", "--nb", "-x", "-e", "--exclusive", "-nx", "-ne"] {
        assert_eq!(succeeds(&mut place.run(options, "echo ran")).printed, "ran\n", "{options}");
    }
    let _first = start(&mut place.run("", "sleep 600"));
    place.until_held();
    for options in ["-n", "-x", "--nb -e"] {
        answer(&mut place.run(options, "touch overlap")).exits_with(CONFLICT).is_silent();
    }
    let help = succeeds(&mut place.soloist("run --help")).printed;
    assert!(!help.contains("--nonblock") && !help.contains("--exclusive"), "{help}");
}

/// Ignores SIGCHLD, as `cron` and some supervisors do.
#[test]
fn the_exit_code_is_the_commands_although_whoever_started_this_hears_of_no_child() {
    let place = Place::new();
    for (code, line) in [(7, "exit 7"), (0, "true"), (137, "kill -KILL $$"), (4, "sleep 600 & kill $!; wait; exit 4")] {
        let usual = place.run("", line);
        let mut command = Command::new("env");
        command.arg("--ignore-signal=CHLD").args(usual.get_args()).current_dir(place.folder.path());
        command.env("SOLOIST_STORE", &place.store).stdin(Stdio::null());
        answer(&mut command).exits_with(code).is_silent();
        place.is_free();
    }
}

#[test]
fn a_run_replaces_or_waits_in_a_queue_as_asked() {
    let place = Place::new();
    let minute = |minute: u32| format!("2026-03-01T12:0{minute}:00Z");
    // However it takes that.
    let line = "trap 'exit 5' TERM; : >ready; while :; do sleep 0.05; done";
    let first = start(&mut place.cron_line("* * * * *", &minute(0), "--on-overlap replace", line));
    place.wait_for("ready");
    succeeds(&mut place.cron_line("* * * * *", &minute(1), "--on-overlap replace", "echo second >>log"));
    first.ended().exits_with(143);

    let line = "echo third >>log; until [ -e go ]; do sleep 0.05; done";
    let third = start(&mut place.cron_line("* * * * *", &minute(2), "--on-overlap queue-one", line));
    place.until_held();
    let mut queued =
        start(&mut place.cron_line("* * * * *", &minute(3), "--on-overlap queue-one", "echo fourth >>log"));
    std::thread::sleep(Duration::from_millis(500)); // it takes its place
    assert!(!queued.has_ended());
    place.touch("go");
    queued.ended().exits_with(0);
    third.ended().exits_with(0);
    assert_eq!(place.read("log"), "second\nthird\nfourth\n");
}

/// Starts the line more often than its interval passes, as cron does.
#[test]
fn each_time_of_an_interval_runs_once() {
    let place = Place::new();
    let at = |time: &str, options: &str| {
        let mut line = place.cron_line("90m", &format!("2026-03-01T{time}Z"), options, "echo $SOLOIST_OCCURRENCE");
        let ended = line.output().expect("it starts");
        assert_eq!(ended.status.code(), Some(0), "at {time}: {ended:?}");
        [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).expect("it is text"))
    };
    let ran = |time: &str| [format!("2026-03-01T{time}Z\n"), String::new()];
    let nothing = || [String::new(), String::new()];
    assert_eq!(at("11:59:30", ""), nothing());
    assert_eq!(at("12:00:30", ""), ran("12:00:00"));
    assert_eq!(at("12:01:30", ""), nothing());
    assert_eq!(at("12:04:00", "--on-one-server"), nothing());
    assert_eq!(at("12:07:00", ""), nothing());
    // The host of that minute was down, and the next one is in time.
    assert_eq!(at("13:33:00", ""), ran("13:30:00"));
    let [_, told] = at("13:36:00", "-v");
    assert_eq!(told, "soloist: j: it is not due: its next time is 2026-03-01 15:00:00 UTC\n");
    let mut wrong = place.cron_line("90x", "2026-03-01T12:00:00Z", "", "true");
    let wrong = wrong.output().expect("it starts");
    let message = "soloist: --every `90x` is neither five fields of a crontab, such as '*/5 * * * *', nor an interval with a unit, such as 90m\n";
    assert_eq!((wrong.status.code(), String::from_utf8(wrong.stderr)), (Some(64), Ok(message.to_owned())));
}
