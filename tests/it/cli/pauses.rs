//! `pause`, `resume`, `log` and `check`, as the lines of a crontab and a program with a schedule feel them.

use std::time::Instant;

use super::*;

const EVERY: &str = "* * * * *";
const NOON: &str = "2026-03-01T12:00:00Z";

/// Returns a command for a line of a crontab with this name.
fn line_of(place: &Place, name: &str, options: &str) -> Command {
    let mut command = place.soloist(&format!("run --name {name} -E {CONFLICT} --timezone UTC {options} --every"));
    command.args([EVERY, "--", "sh", "-c", "echo $SOLOIST_EVENT >>log"]).env("SOLOIST_TEST_NOW", NOON);
    command
}

#[track_caller]
fn a_pause_stops_the_lines_of_crontabs_until_it_is_resumed(place: &Place) {
    let said = succeeds(place.soloist("pause --for 2h --why").arg("the orders are migrated")).printed;
    assert!(
        said.starts_with("the schedule soloist is paused until ") && said.ends_with(" UTC; `resume` ends the pause\n"),
        "{said}"
    );
    for options in ["", "--on-one-server", "--on-overlap queue-one"] {
        let skipped = answer(&mut line_of(place, "a", &format!("-v {options}"))).exits_with(CONFLICT);
        skipped.says("soloist: a: skipped, paused by ").says(": the orders are migrated");
        // The person who paused knows, and cron would mail it each minute.
        answer(&mut line_of(place, "a", options)).exits_with(CONFLICT).is_silent();
    }
    // Without times, too: it is a script that calls it, and no person.
    answer(&mut place.run("-v", "echo j >>log")).exits_with(CONFLICT).says("skipped, paused by ");
    // A line with another schedule name runs.
    succeeds(&mut line_of(place, "b", "--schedule shop"));
    assert_eq!(succeeds(&mut place.soloist("resume")).printed, "the schedule soloist is resumed\n");
    succeeds(&mut line_of(place, "a", "--on-one-server")).is_silent();
    assert_eq!(place.read("log"), "b\na\n", "a pause has consumed no time");
    answer(&mut place.soloist("resume"))
        .exits_with(1)
        .says("the schedule soloist was not paused; `paused` lists the pauses");
}

#[track_caller]
fn a_pause_of_one_event_stops_no_other(place: &Place) {
    let said = succeeds(place.soloist("pause a --why").arg("it is broken")).printed;
    assert!(
        said.starts_with("a of the schedule soloist is paused until ")
            && said.ends_with(" UTC; `resume a` ends the pause\n"),
        "{said}"
    );
    answer(&mut line_of(place, "a", "-v")).exits_with(CONFLICT).says("paused by ").says(": it is broken");
    succeeds(&mut line_of(place, "b", "")).is_silent();
    answer(&mut place.soloist("resume b"))
        .exits_with(1)
        .says("b of the schedule soloist was not paused; `paused` lists the pauses");
    assert_eq!(
        answer(&mut place.soloist("resume")).exits_with(1).printed,
        "the schedule soloist was not paused; `paused` lists the pauses; another application is named by --schedule or SOLOIST_APP\n"
    );
    answer(&mut line_of(place, "a", "")).exits_with(CONFLICT);
    succeeds(&mut place.soloist("paused")).says("a of the schedule soloist is paused by ");
    assert_eq!(succeeds(&mut place.soloist("resume a")).printed, "a of the schedule soloist is resumed\n");
    succeeds(&mut line_of(place, "a", "")).is_silent();
    assert_eq!(place.read("log"), "b\na\n");
}

#[track_caller]
fn a_log_keeps_the_last_runs_of_every_server(place: &Place) {
    let lines = ["exit 1", "exit 2", "true", "kill -KILL $$", "true"];
    for (minute, line) in lines.into_iter().enumerate() {
        answer(&mut place.cron_line(EVERY, &format!("2026-03-01T12:0{minute}:00Z"), "--log 3", line));
    }
    answer(&mut place.run("--log 3 --timeout 100ms", "sleep 600")).exits_with(124);
    let log = Place::json(&mut place.soloist("log j"));
    let told = |run: &Value| (run["result"].as_str().map(str::to_owned), run["error"].as_str().map(str::to_owned));
    let told: Vec<_> = log["runs"].as_array().unwrap().iter().map(told).collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(told[0].0, text("timed_out"));
    assert_eq!(told[1..], [(text("succeeded"), None), (text("failed"), text("ended by signal 9 (SIGKILL)"))]);
    assert_eq!(
        (&log["runs"][1]["occurrence"], &log["runs"][2]["occurrence"]),
        (&"2026-03-01T12:04:00Z".into(), &"2026-03-01T12:03:00Z".into())
    );
    let [one, next] = [2, 1].map(|run| &log["runs"][run]);
    assert!(next["token"].as_u64() > one["token"].as_u64() && next["pid"] != one["pid"]);
    let table = succeeds(&mut place.soloist("log j")).printed;
    let results: Vec<bool> =
        table.lines().map(|line| line.contains("timed out") || line.contains("succeeded")).collect();
    assert_eq!(results, [false, true, true, false], "{table}");
    // Without a log, nothing is added.
    succeeds(&mut place.run("", "true"));
    assert_eq!(Place::json(&mut place.soloist("log j")), log);
}

#[test]
fn a_program_and_the_tool_pause_each_other() {
    let place = Place::new();
    succeeds(&mut place.schedule("pause prices:import")); // it fails
    for (pauses, resumes) in [("schedule", "tool"), ("tool", "schedule")] {
        let command = |who: &str, words: &str| match who {
            "tool" => place.soloist(&format!("{words} --schedule shop")),
            _ => place.schedule(words),
        };
        succeeds(&mut command(pauses, "pause --why moving"));
        let status = Place::json(&mut place.schedule("status"));
        assert_eq!(status["paused"]["why"], "moving");
        succeeds(&mut place.schedule("status")).says("the schedule is paused by ").says(": moving\n");
        succeeds(&mut place.schedule("run -v")).says("  carts:remind  ").says("skipped, paused by ");
        answer(&mut line_of(&place, "a", "--schedule shop")).exits_with(CONFLICT);
        succeeds(&mut command(resumes, "resume")).says("the schedule shop is resumed");
        assert!(Place::json(&mut place.schedule("status"))["paused"].is_null());

        succeeds(&mut command(pauses, "pause carts:remind --why slow"));
        let status = Place::json(&mut place.schedule("status"));
        assert_eq!(
            (&status["events"][0]["paused"]["why"], &status["events"][1]["paused"]),
            (&"slow".into(), &Value::Null)
        );
        succeeds(&mut place.schedule("run -v")).says("skipped, paused by ");
        answer(&mut line_of(&place, "carts:remind", "-v --schedule shop")).exits_with(CONFLICT).says(": slow");
        succeeds(&mut command(resumes, "resume carts:remind")).says("carts:remind of the schedule shop is resumed");
    }
    assert_eq!(place.read("log"), "");
}

#[test]
fn who_is_paused_by_whom_until_when_and_why_is_told() {
    let place = Place::new().used();
    let tells = |words: &str| succeeds(&mut place.soloist(words)).printed;
    let denies = |words: &str| answer(&mut place.soloist(words)).exits_with(1).printed;
    assert_eq!(
        denies("paused"),
        "nothing on the schedule soloist is paused; another application is named by --schedule or SOLOIST_APP\n"
    );
    assert_eq!(
        denies("paused a"),
        "a of the schedule soloist is not paused; another application is named by --schedule or SOLOIST_APP\n"
    );

    let pausing = start(place.soloist("pause a --for 2h --why").arg("it is broken"));
    let pid = pausing.id();
    let promised = pausing.ended().exits_with(0).printed;
    let until = promised
        .strip_prefix("a of the schedule soloist is paused until ")
        .and_then(|rest| rest.strip_suffix("; `resume a` ends the pause\n"));
    let until = until.expect(&promised);
    let one = tells("paused a");
    // The store rounds the end of a pause up; the message does not.
    let of = format!(", pid {pid}, since ");
    assert!(one.starts_with("a of the schedule soloist is paused by ") && one.contains(&of), "{one}");
    assert!(until.ends_with(" UTC") && one.ends_with(" UTC: it is broken\n"), "{one}");
    assert_eq!(tells("paused"), one, "each event that is paused is listed");
    assert_eq!(
        denies("paused b"),
        "b of the schedule soloist is not paused; another application is named by --schedule or SOLOIST_APP\n"
    );

    succeeds(&mut place.soloist("pause --for 36h"));
    let both = tells("paused");
    assert!(both.starts_with("the schedule soloist is paused by ") && both.ends_with(&one), "{both}");
    let all = tells("paused b");
    assert_eq!(format!("{all}{one}"), both);
    assert!(all.ends_with(" UTC\n"), "nobody has said why: {all}");
    assert_eq!(tells("paused a"), format!("{all}{one}"), "it is paused twice");
    assert_eq!(tells("paused b"), all);
    assert_eq!(denies("paused --schedule shop"), "nothing on the schedule shop is paused\n");
    assert_eq!(tells("resume"), "the schedule soloist is resumed\n");
    assert_eq!(tells("paused a"), one);
    // A program with a schedule has these commands, too.
    assert_eq!(answer(&mut place.schedule("paused")).exits_with(1).printed, "nothing on the schedule shop is paused\n");
    succeeds(&mut place.schedule("pause carts:remind"));
    succeeds(&mut place.schedule("paused")).says("carts:remind of the schedule shop is paused by ");
    succeeds(&mut place.soloist("paused --schedule shop")).says("carts:remind of the schedule shop is paused by ");
    succeeds(&mut place.schedule("paused carts:remind")).says("carts:remind of the schedule shop is paused by ");
    succeeds(&mut place.soloist("paused carts:remind --schedule shop"))
        .says("carts:remind of the schedule shop is paused by ");
}

/// Refuses `pause 2h`: the pause of an event with that name would be noticed late.
#[test]
fn a_time_is_no_event_to_pause() {
    let place = Place::new().used();
    for (words, time) in [("pause 2h", "2h"), ("pause 90", "90"), ("pause 1.5 --why moving", "1.5")] {
        let refused = answer(&mut place.soloist(words)).exits_with(2);
        let message = format!("soloist: `{time}` is a time, and no event: write `pause --for {time}`\n");
        assert_eq!((&*refused.printed, &*refused.errors), ("", &*message));
        answer(&mut place.soloist(&format!("paused {time}"))).exits_with(1);
    }
    answer(&mut place.soloist("paused")).exits_with(1);
}

/// Runs by hand during a pause: the person knows why.
#[test]
fn a_run_by_hand_goes_on_during_a_pause() {
    let place = Place::new();
    succeeds(&mut place.schedule("pause"));
    answer(&mut place.schedule("run-one prices:import")).exits_with(1).says("the supplier is out");
    answer(&mut place.schedule("run-one carts:remind --claim")).exits_with(1).says("skipped, paused by ");
}

#[test]
fn a_pause_is_over_at_its_end() {
    let place = Place::new().used();
    let began = Instant::now();
    succeeds(&mut place.soloist("pause --for 3"));
    let paused = answer(&mut place.run("", "true"));
    assert!(paused.code == Some(CONFLICT) || began.elapsed() > Duration::from_secs(3), "{paused:?}");
    until(|| answer(&mut place.run("", "true")).code == Some(0)).expect("it runs after three seconds");
    // A second pause changes the end of the first, and not its reason.
    succeeds(place.soloist("pause --why").arg("the first"));
    let said = succeeds(place.soloist("pause --for 3h --why").arg("the second"));
    assert!(said.printed.starts_with("the schedule soloist is paused until "), "{said:?}");
    answer(&mut place.run("-v", "true")).exits_with(CONFLICT).says(": the first");
}

#[test]
fn a_check_warns_of_a_store_that_forgets() {
    let server = Redis::start();
    let place = Place { store: server.url(), ..Place::new() };
    assert_eq!(succeeds(&mut place.soloist("check")).printed, "the store answers, and nothing is wrong with it\n");
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    for command in [&mut place.soloist("check"), &mut place.schedule("check")] {
        let warned = answer(command).exits_with(1);
        assert!(warned.printed.contains("maxmemory-policy allkeys-lru") && warned.errors.is_empty(), "{warned:?}");
    }
    server.kill();
    answer(&mut place.soloist("check")).exits_with(3).says("Connection refused");
}

#[cfg(all(feature = "mysql", feature = "postgres"))]
#[test]
fn a_check_tells_of_a_missing_table() {
    let server = crate::servers::postgres::Postgres::start();
    let place = Place { store: server.url(), ..Place::new() };
    answer(&mut place.soloist("check")).exits_with(3).says("create");
    answer(&mut place.run("", "true")).exits_with(66).says("create");
}

mod on_file {
    use super::*;

    #[test]
    fn a_pause_stops_the_lines_of_crontabs_until_it_is_resumed() {
        super::a_pause_stops_the_lines_of_crontabs_until_it_is_resumed(&Place::new().used());
    }

    #[test]
    fn a_pause_of_one_event_stops_no_other() {
        super::a_pause_of_one_event_stops_no_other(&Place::new().used());
    }

    #[test]
    fn a_log_keeps_the_last_runs_of_every_server() {
        super::a_log_keeps_the_last_runs_of_every_server(&Place::new());
    }
}

mod on_redis {
    use super::*;

    #[test]
    fn a_pause_stops_the_lines_of_crontabs_until_it_is_resumed() {
        let server = Redis::start();
        super::a_pause_stops_the_lines_of_crontabs_until_it_is_resumed(&Place::on(&server));
    }

    #[test]
    fn a_pause_of_one_event_stops_no_other() {
        let server = Redis::start();
        super::a_pause_of_one_event_stops_no_other(&Place::on(&server));
    }

    #[test]
    fn a_log_keeps_the_last_runs_of_every_server() {
        let server = Redis::start();
        super::a_log_keeps_the_last_runs_of_every_server(&Place::on(&server));
    }
}
