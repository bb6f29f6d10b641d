//! The output for programs: the exact form of each JSON, and tables without decoration away from a terminal.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};

use super::terminal::on_a_terminal;
use super::*;
use crate::support::number_in;

/// The keys of each object, and the kind of each value. `[text]` is a list of texts, `run?` an object of the kind
/// `run` or `null`.
const FORMS: &[(&str, &[(&str, &str)])] = &[
    (
        "event of list",
        &[
            ("name", "text"),
            ("timetable", "text"),
            ("zone", "text"),
            ("next_due", "[time]"),
            ("next_occurrences", "[time]"),
            ("is_over", "flag"),
            ("protections", "[text]"),
            ("conditions", "[text]"),
        ],
    ),
    ("due time", &[("due", "time"), ("occurrence", "time"), ("event", "text"), ("zone", "text")]),
    ("lock", &[("name", "text"), ("held_by", "holder?")]),
    (
        "holder",
        &[
            ("host", "text"),
            ("pid", "number"),
            ("instance", "text?"),
            ("application", "text?"),
            ("timetable", "text?"),
            ("token", "number"),
            ("since", "time"),
            ("until", "time"),
            ("has_ended", "flag"),
            ("process_group", "number?"),
            ("occurrence", "time?"),
        ],
    ),
    (
        "run",
        &[
            ("occurrence", "time"),
            ("is_backfill", "flag"),
            ("host", "text"),
            ("pid", "number"),
            ("instance", "text?"),
            ("token", "number?"),
            ("started", "time"),
            ("state", "text"),
            ("ended", "time?"),
            ("attempts", "number"),
            ("result", "text?"),
            ("error", "text?"),
        ],
    ),
    ("log", &[("runs", "[run]"), ("skips", "[skips]"), ("waiting", "[holder]")]),
    ("event with a log", &[("event", "text"), ("last_run", "run?"), ("error", "text?")]),
    ("skips", &[("reason", "text"), ("count", "number"), ("latest", "time")]),
    ("pause", &[("by", "holder?"), ("why", "text?")]),
    (
        "status",
        &[
            ("at", "time"),
            ("host", "text"),
            ("pid", "number"),
            ("instance", "text?"),
            ("application", "text?"),
            ("paused", "pause?"),
            ("store_errors", "[text]"),
            ("events", "[event of status]"),
        ],
    ),
    (
        "event of status",
        &[
            ("name", "text"),
            ("timetable", "text"),
            ("zone", "text"),
            ("next_due", "time?"),
            ("next_occurrence", "time?"),
            ("is_over", "flag"),
            ("protections", "[text]"),
            ("mutex", "text?"),
            // A process that only asks has run nothing itself.
            ("running", "nothing"),
            ("held_by", "[holder]?"),
            ("waiting", "[holder]?"),
            ("last_run", "nothing"),
            ("last_success", "nothing"),
            ("consecutive_failures", "number"),
            ("last_skip", "nothing"),
            ("paused", "pause?"),
            ("log", "[run]?"),
            ("other_timetable", "nothing"),
        ],
    ),
];

/// Returns the errors of a value of this kind, a line each; `at` is its path.
fn wrong(value: &Value, kind: &str, at: &str) -> String {
    let is = |fits: bool| if fits { String::new() } else { format!("{at} is no {kind}: {value}\n") };
    if let Some(kind) = kind.strip_suffix('?') {
        return if value.is_null() { String::new() } else { wrong(value, kind, at) };
    }
    if let Some(kind) = kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) {
        let Some(items) = value.as_array() else { return is(false) };
        return items.iter().enumerate().map(|(number, item)| wrong(item, kind, &format!("{at}[{number}]"))).collect();
    }
    match kind {
        "text" => is(value.is_string()),
        "number" => is(value.is_u64()),
        "flag" => is(value.is_boolean()),
        "nothing" => is(value.is_null() || *value == Value::Array(vec![])),
        // In UTC, as RFC 3339 writes it.
        "time" => is(value.as_str().is_some_and(|text| text.ends_with('Z') && text.parse::<DateTime<Utc>>().is_ok())),
        _ => {
            let (_, keys) = FORMS.iter().find(|(name, _)| *name == kind).expect("each object is in the table");
            let Some(object) = value.as_object() else { return is(false) };
            let unknown = object.keys().filter(|key| !keys.iter().any(|(known, _)| known == key));
            let mut found = unknown.fold(String::new(), |mut found, key| {
                let _ = writeln!(found, "{at}.{key} is not in the table");
                found
            });
            for (key, kind) in *keys {
                match object.get(*key) {
                    Some(value) => found += &wrong(value, kind, &format!("{at}.{key}")),
                    None => _ = writeln!(found, "{at}.{key} is missing"),
                }
            }
            found
        }
    }
}

/// Returns the JSON, and asserts its form.
#[track_caller]
fn json(command: &mut Command, kind: &str) -> Value {
    let value = Place::json(command);
    assert_eq!(wrong(&value, kind, "it"), "", "{value:#}");
    value
}

/// Makes a place with as much state as possible: a running lease, runs that failed and succeeded, and pauses with
/// and without a reason.
fn busy() -> (Place, Running) {
    let place = Place::new();
    for line in ["exit 3", "true"] {
        answer(place.soloist("run --name carts:remind --log 5 -- sh -c").arg(line));
    }
    let line = "echo $$ >group; sleep 600";
    let at_work = start(place.soloist("run --name carts:remind --log 5 -- sh -c").arg(line));
    number_in(&place.path("group"));
    let logged = || Place::json(&mut place.soloist("log carts:remind"))["runs"].as_array().map_or(0, Vec::len) == 3;
    until(logged).expect("its start is logged");
    succeeds(place.schedule("pause --why").arg("the orders are migrated"));
    succeeds(&mut place.schedule("pause db:backup --for 2h"));
    (place, at_work)
}

#[test]
fn each_json_has_the_keys_and_types_of_the_table() {
    let (place, _at_work) = busy();
    let list = json(&mut place.schedule("list"), "[event of list]");
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["carts:remind", "db:backup", "prices:import"]);
    let two = json(&mut place.schedule("list --next 2"), "[event of list]");
    let count = |list: &Value| list[1]["next_due"].as_array().map(Vec::len);
    assert_eq!((count(&list), count(&two)), (Some(1), Some(2)));
    assert_eq!((&two[1]["zone"], &two[1]["timetable"]), (&"Europe/Berlin".into(), &"daily at 02:30".into()));
    assert_eq!(two[1]["next_due"][0], list[1]["next_due"][0]);

    let next = json(&mut place.schedule("next --for 10m"), "[due time]");
    let times: Vec<&str> = next.as_array().unwrap().iter().map(|due| due["due"].as_str().unwrap()).collect();
    let minutes = next.as_array().unwrap().iter().filter(|due| due["event"] == "carts:remind").count();
    assert!(times.is_sorted() && (9..=10).contains(&minutes), "{next:#}");

    let status = json(&mut place.schedule("status"), "status");
    assert_eq!(status["paused"]["why"], "the orders are migrated");
    let [carts, backup, prices] = [0, 1, 2].map(|event| &status["events"][event]);
    assert!(carts["held_by"][0]["token"].is_u64() && prices["held_by"].is_null(), "{status:#}");
    assert!(backup["paused"]["by"].is_object() && backup["paused"]["why"].is_null(), "{status:#}");

    let locks = json(&mut place.soloist("locks"), "[lock]");
    assert_eq!(locks.as_array().map(Vec::len), Some(1), "neither pauses nor what was given back: {locks:#}");
    assert_eq!(locks[0]["held_by"]["process_group"], number_in(&place.path("group")));
    assert_eq!(json(&mut place.schedule("locks carts:"), "[lock]"), locks);
    assert_eq!(json(&mut place.schedule("locks db:"), "[lock]"), Value::Array(vec![]));

    let log = json(&mut place.soloist("log carts:remind"), "log");
    assert_eq!(json(&mut place.schedule("log carts:remind"), "log"), log, "both programs tell the same");
    let log = &log["runs"];
    let told = [0, 1, 2].map(|run| (log[run]["state"].as_str().unwrap(), log[run]["result"].as_str()));
    assert_eq!(told, [("running", None), ("ended", Some("succeeded")), ("ended", Some("failed"))], "{log:#}");
    assert_eq!((&log[2]["error"], &log[0]["error"]), (&"exited with 3".into(), &Value::Null));
    assert_eq!(log[0]["token"], locks[0]["held_by"]["token"]);
}

#[test]
fn a_store_that_is_out_is_told_in_the_json_and_by_the_exit_code() {
    let place = Place { store: "redis://127.0.0.1:1".into(), ..Place::new() };
    // Each call waits for its timeout.
    let asked = start(&mut place.schedule("status"));
    let told = answer(place.schedule("status").arg("--json"));
    let status: Value = serde_json::from_str(&told.printed).expect("it is printed all the same");
    assert_eq!(wrong(&status, "status", "it"), "");
    assert!(status["store_errors"][0].as_str().is_some_and(|error| error.contains("Connection refused")), "{status:#}");
    assert!(status["events"][0]["held_by"].is_null() && status["events"][0]["log"].is_null(), "{status:#}");
    told.exits_with(3);
    let table = asked.ended().exits_with(3).printed;
    assert!(table.contains("not known") && !table.contains("idle") && !table.contains("no run log"), "{table}");
}

#[test]
fn a_log_that_cannot_be_read_hides_no_other() {
    let place = Place::new();
    for name in ["damaged", "whole"] {
        succeeds(&mut place.soloist(&format!("run --name {name} --log 5 -- true")));
    }
    let files = std::fs::read_dir(place.path("store")).unwrap().map(|entry| entry.unwrap().path());
    let is_damaged = |path: &PathBuf| {
        path.extension().is_some_and(|kind| kind == "runs")
            && path.file_name().unwrap().to_string_lossy().starts_with("damaged-")
    };
    let log = files.into_iter().find(is_damaged).expect("it has a log");
    let later = std::fs::read_to_string(&log).unwrap().replacen("soloist-runs v1", "soloist-runs v9", 1);
    std::fs::write(&log, later).unwrap();

    let told = answer(place.soloist("log").arg("--json"));
    let logs: Value = serde_json::from_str(&told.printed).expect("it is printed all the same");
    assert_eq!(wrong(&logs, "[event with a log]", "it"), "");
    told.exits_with(3);
    assert_eq!((&logs[0]["event"], &logs[0]["last_run"]["result"]), (&"whole".into(), &"succeeded".into()));
    assert_eq!((&logs[0]["error"], &logs[1]["event"]), (&Value::Null, &"damaged".into()));
    assert!(logs[1]["error"].as_str().is_some_and(|error| error.contains("soloist-runs v9")), "{logs:#}");

    let table = answer(&mut place.soloist("log")).exits_with(3).printed;
    let [told, _, whole, damaged] = &table.lines().collect::<Vec<_>>()[..] else { panic!("{table}") };
    assert!(told.starts_with("store: could not read the log of runs in ") && told.contains("/damaged-"), "{table}");
    assert!(whole.starts_with("whole ") && whole.contains(" succeeded "), "{table}");
    assert!(damaged.starts_with("damaged ") && damaged.contains(" not known"), "{table}");
}

#[test]
fn a_run_that_is_not_in_the_log_is_told_and_keeps_its_exit_code() {
    let server = Redis::start();
    let place = Place::on(&server);
    server.ask(&["RPUSH", "{soloist}:runs/j", "x"]);
    let told = answer(&mut place.run("--log 5", "exit 7")).exits_with(7);
    assert_eq!(told.errors.lines().count(), 1, "{told:?}");
    told.says("soloist: j: the run is not in the log: could not write the log of runs of j in ");
    server.ask(&["DEL", "{soloist}:runs/j"]);
    answer(&mut place.run("--log 5", "exit 7")).exits_with(7).is_silent();
}

#[test]
fn the_check_of_a_form_finds_what_is_wrong() {
    let due = serde_json::json!([{"due": "2026-03-01T12:00:00Z", "occurrence": "2026-03-01T12:00:00Z", "event": "a", "zone": "UTC"}]);
    assert_eq!(wrong(&due, "[due time]", "it"), "");
    let other = serde_json::json!([{"due": "noon", "event": 1, "more": true}, {}]);
    let found = wrong(&other, "[due time]", "it");
    let places = ["it[0].more is not", "it[0].due is no time", "it[0].event is no text", "it[1].zone is missing"];
    assert!(places.iter().all(|place| found.contains(place)), "{found}");
    assert!(!wrong(&due, "text?", "it").is_empty() && !wrong(&due[0], "[text]", "it").is_empty());
}

/// Every command that prints a table.
const TABLES: [&str; 6] = ["list", "list --next 3", "next --for 10m", "status", "log carts:remind", "locks"];

#[test]
fn a_table_that_nobody_looks_at_is_plain_and_each_row_a_line() {
    let (place, _at_work) = busy();
    for words in TABLES {
        let table = succeeds(&mut place.schedule(words)).printed;
        assert!(!table.contains('\x1b') && !table.contains('│') && !table.contains('\t'), "{words}: {table:?}");
        let mut lines = table.lines();
        let head = lines.find(|line| line.to_uppercase() == **line && !line.is_empty());
        assert!(head.is_some() && lines.count() > 0, "{words}: {table}");
        assert!(table.lines().all(|line| line == line.trim_end() && !line.is_empty()), "{words}: {table:?}");
    }
    let log = succeeds(&mut place.soloist("log carts:remind")).printed;
    assert!(log.lines().any(|line| line.contains("failed") && line.ends_with("exited with 3")), "{log}");
    // `awk '{print $1}'` finds the names.
    let locks = succeeds(&mut place.soloist("locks")).printed;
    assert_eq!(locks.lines().nth(1).and_then(|row| row.split_whitespace().next()), Some("carts:remind"));
}

/// Returns the times in `text`, as `2026-03-01 12:00:07 UTC`. Fails if there is a time in another form.
fn times_for_people(text: &str) -> Vec<&str> {
    let at = |(at, _)| text.get(at..at + 23).filter(|time| time.ends_with(" UTC"));
    let is_time = |time: &&str| chrono::NaiveDateTime::parse_from_str(time, "%Y-%m-%d %H:%M:%S UTC").is_ok();
    let times: Vec<&str> = text.match_indices("20").filter_map(at).filter(is_time).collect();
    let rest = times.iter().fold(text.to_owned(), |rest, time| rest.replacen(time, "", 1));
    let rest = rest.replace(", UTC ", ""); // the zone of a timetable
    assert!([" UTC", "CET", "Z ", "Z\n"].iter().all(|other| !rest.contains(other)), "{rest}");
    times
}

/// Checks a rule of `docs/guide/operators.md`. Its other half is that each time in JSON is in RFC 3339: see
/// `each_json_has_the_keys_and_types_of_the_table`. The event `db:backup` has a zone of its own.
#[test]
fn each_time_for_people_has_one_form_and_is_in_utc() {
    let (place, _at_work) = busy();
    for words in [
        "list --next 2",
        "next --for 26h",
        "status",
        "locks",
        "log carts:remind",
        "log",
        "paused",
        "run -v",
        "run-one carts:remind --wait 0",
        "backfill --dry-run db:backup --from 2025-07-01 --to 2025-07-03",
    ] {
        let text = answer(&mut place.schedule(words)).printed;
        assert!(!times_for_people(&text).is_empty(), "{words}: {text}");
    }
    let text = answer(&mut place.soloist("unlock carts:remind --wait 0")).errors;
    assert!(!times_for_people(&text).is_empty(), "{text}");
}

#[test]
fn list_shows_one_event_on_one_line_where_nobody_looks_and_several_on_a_terminal() {
    let place = Place::new();
    let list = succeeds(&mut place.schedule("list --next 2")).printed;
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 4, "a head and three events: {list}");
    assert!(lines[1].starts_with("carts:remind ") && lines[1].contains("without_overlapping; on_one_server"), "{list}");
    let heads = ["EVENT", "TIMETABLE", "NEXT DUE", "PROTECTIONS", "CONDITIONS"];
    assert!(heads.iter().all(|head| lines[0].contains(head)), "{list}");
    let line = format!("{} list", example("schedule_cli").display());
    let seen = answer(&mut on_a_terminal(&place, &line)).printed;
    let rows: Vec<&str> = seen.lines().collect();
    assert!(
        rows.len() > 4 && rows.iter().any(|row| row.contains("on_one_server") && !row.contains("without")),
        "{seen}"
    );
}

#[test]
fn an_empty_store_says_so_in_words() {
    let place = Place::new().used();
    let empty: [(&str, &str); 3] = [
        ("locks", "nothing is held\n"),
        ("log j", "no run of this event is on record: `log` without a name lists the events that have a log\n"),
        ("check", "the store answers, and nothing is wrong with it\n"),
    ];
    for (words, text) in empty {
        assert_eq!(succeeds(&mut place.soloist(words)).printed, text);
    }
    assert_eq!(Place::json(&mut place.soloist("locks")), Value::Array(vec![]));
    assert_eq!(Place::json(&mut place.soloist("log j")), serde_json::json!({"runs": [], "skips": [], "waiting": []}));
    assert_eq!(succeeds(&mut place.schedule("next --for 1ms")).printed, "nothing is due within 1ms\n");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let place = Place::new().used();
    let line = format!("{SOLOIST} sideways");
    let coloured = answer(&mut on_a_terminal(&place, &line)).printed;
    assert!(coloured.contains('\x1b') && coloured.contains("sideways"), "{coloured:?}");
    let plain = answer(on_a_terminal(&place, &line).env("NO_COLOR", "1")).printed;
    assert!(!plain.contains('\x1b') && plain.contains("sideways"), "{plain:?}");
    let elsewhere = answer(&mut place.soloist("sideways")).exits_with(2).errors;
    assert!(!elsewhere.contains('\x1b') && elsewhere.contains("sideways"), "{elsewhere:?}");
    let table = answer(&mut on_a_terminal(&place, &format!("{SOLOIST} locks"))).printed;
    assert_eq!(table, "nothing is held\r\n", "a table has no colours");
}
