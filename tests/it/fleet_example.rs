//! The example of a fleet: its picture is true.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{Process, example, processes, until};

const EVENTS: [&str; 3] = ["carts:remind", "reports:generate", "stock:sync"];
const WORKERS: usize = 3;

fn fleet(options: &[&str], svg: &Path) -> Command {
    let mut command = Command::new(example("fleet"));
    command.args(options).arg("--svg").arg(svg).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("it writes text")
}

/// Returns the text and the picture of eight minutes, of a second each. If the machine stands still for a minute,
/// a lease is lost or an occurrence is missed: then once more.
#[track_caller]
fn story(options: &[&str]) -> (String, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let svg = directory.path().join("fleet.svg");
    for _ in 0..5 {
        let output = fleet(options, &svg).output().expect("it runs");
        let (text, errors) = (stdout(&output), String::from_utf8_lossy(&output.stderr));
        println!("{text}{errors}");
        // After the loss of a lease, the next run may begin before the lost one ends.
        let is_lost = errors.contains("the lease was lost at ");
        let overlaps = !is_lost && errors.contains(" overlapped with the run of minute ");
        let broken = [", too", "the token did not rise"];
        assert!(!overlaps && !broken.iter().any(|words| errors.contains(words)), "a promise is broken");
        let picture = std::fs::read_to_string(&svg).expect("the picture is there");
        let somebody_was_skipped = |event| picture.contains(&format!("<title>{event} of minute 1: skipped, "));
        let is_taken_over = text.contains(" took over reports:generate at minute ");
        if output.status.success() && is_taken_over && EVENTS.into_iter().all(somebody_was_skipped) {
            return (text, picture);
        }
    }
    panic!("none of five goes well");
}

#[test]
fn a_kill_is_told_and_no_minute_runs_twice() {
    let (text, picture) = story(&["--workers", "3", "--minutes", "8", "--seed", "7"]);
    assert!(!text.contains('\x1b'), "colours are for terminals: {text:?}");
    assert!(text.contains("seed 7"), "{text}");

    let kills: Vec<&str> = text.lines().filter(|line| line.contains(" is killed during reports:generate")).collect();
    assert_eq!(kills.len(), 1, "{text}");
    let ["minute", at, "worker", victim, ..] = kills[0].split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{kills:?}")
    };
    assert!(
        text.contains(&format!("\nworker {victim} was killed at minute {at}, during reports:generate of minute ")),
        "{text}"
    );
    assert!(text.contains(&format!("\nworker {victim} was back at minute ")), "{text}");
    rows_for_each_worker(&text, victim);

    is_well_formed(&picture);
    assert_eq!(picture.matches(&format!(">killed at {at}<")).count(), 1, "{picture}");
    assert_eq!(picture.matches(", when its worker was killed,").count(), died_in(&text), "{picture}");
    assert!(
        picture.contains(&format!(">worker {victim} was killed at minute {at}, during reports:generate of minute "))
    );
    let starts = starts_in(&picture);
    let different: BTreeSet<&(String, String)> = starts.iter().collect();
    assert_eq!(different.len(), starts.len(), "a minute ran twice: {starts:?}");
    for event in EVENTS {
        assert!(starts.iter().any(|(of, _)| of == event), "{event} never ran: {starts:?}");
    }
    // On files, no event waits for a dead process.
    let skips: Vec<Skip> = skips_in(&picture).into_iter().filter(|skip| skip.event == "reports:generate").collect();
    let is_free = |skip: &Skip| !skip.why.contains("leased");
    assert!(skips.iter().all(is_free), "{skips:?}");
    assert!(skips.iter().any(|skip| skip.why.starts_with("still running: worker ")), "{skips:?}");
    assert!(text.contains("(still running)") && !text.contains("(still leased)"), "{text}");
}

/// Kills a worker on a server: its event is held for the rest of its term, and shown as leased, not as running.
#[cfg(feature = "redis")]
#[test]
fn on_a_server_what_a_killed_worker_leaves_behind_is_told_apart_from_a_run() {
    let server = crate::servers::redis::Redis::start();
    let (text, picture) = story(&["--workers", "3", "--minutes", "8", "--seed", "7", &server.url()]);
    assert!(text.starts_with("3 workers on one redis store, "), "{text}");

    let kill = text.lines().find(|line| line.contains(" was killed at minute ")).expect("somebody was killed");
    let (victim, rest) = kill.split_once(" was killed at minute ").expect("it says when");
    let at = rest.split_once(',').expect("it says of what").0;
    let next = at.split_once('.').and_then(|(minute, _)| minute.parse().ok()).map_or(0, |minute: u32| minute + 1);
    let line = text.lines().find(|line| line.starts_with(&format!("minute {next} "))).expect("each minute has one");
    // On a busy machine the holder may be unknown yet.
    assert!(line.contains("(still leased)") || line.contains("(no worker yet)"), "{text}");
    let leased =
        format!("leased to {victim}, which was killed at minute {at}: free when its term of 2 minutes is over");
    let skips = skips_in(&picture);
    assert!(skips.iter().any(|skip| skip.event == "reports:generate" && skip.why == leased), "{skips:?}");
}

/// Asserts that there is a row for each worker under each event, with the kill in one of them.
#[track_caller]
fn rows_for_each_worker(text: &str, victim: &str) {
    let timeline = text.split("\nminute            0").nth(1).expect("there is a timeline");
    for event in EVENTS {
        let after = timeline.split(&format!("\n{event}, on_one_server")).nth(1).expect("each event is in it");
        for (number, row) in (1..=WORKERS).zip(after.lines().skip(1)) {
            assert!(row.starts_with(&format!("  worker {number}  ")), "{row:?} in:\n{text}");
            let has_kill = event == "reports:generate" && number.to_string() == victim;
            assert!(!has_kill || row.contains('X'), "{row:?} in:\n{text}");
            assert!(row.contains('█') || row.contains('·') || row.contains('○'), "{row:?} in:\n{text}");
        }
    }
}

/// Returns how many runs died, by the tally.
fn died_in(text: &str) -> usize {
    let tally = text.split(" killed  failed ").nth(1).expect("there is a tally");
    let killed = |event: &str| -> usize {
        let row = tally.lines().find(|line| line.starts_with(event)).expect("each event is in it");
        row.split_whitespace().nth(2).and_then(|killed| killed.parse().ok()).expect("a number")
    };
    EVENTS.into_iter().map(killed).sum()
}

/// Returns event and minute of each bar.
fn starts_in(picture: &str) -> Vec<(String, String)> {
    let titles = picture.split("<title>").skip(1).filter_map(|rest| rest.split_once("</title>"));
    let runs = titles.filter(|(title, _)| title.contains(", token "));
    runs.map(|(title, _)| {
        let (event, rest) = title.split_once(" of minute ").expect("a run has its minute");
        (event.to_owned(), rest.split_once(" on worker ").expect("a run has its worker").0.to_owned())
    })
    .collect()
}

#[derive(Debug)]
struct Skip {
    event: String,
    why: String,
}

/// Returns the skips of the picture that have a tooltip.
fn skips_in(picture: &str) -> Vec<Skip> {
    let titles = picture.split("<title>").skip(1).filter_map(|rest| rest.split_once("</title>"));
    let skip = |title: &str| {
        let (of, why) = title.split_once(": skipped, ")?;
        let (event, _) = of.split_once(" of minute ").expect("a skip has its minute");
        Some(Skip { event: event.into(), why: why.into() })
    };
    titles.filter_map(|(title, _)| skip(title)).collect()
}

/// Asserts a part of XML's rules: elements end where they should, attributes are quoted, and text is escaped.
#[track_caller]
fn is_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in xml.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("no end: <{piece}"));
        assert!(!text.contains('>'), "{text:?} is not escaped");
        assert!(text.split('&').skip(1).all(|rest| rest.starts_with('#') && rest.contains(';')), "{text:?}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "in {xml}");
        } else {
            assert!(tag.matches('"').count() % 2 == 0, "<{tag}>");
            assert!(!open.is_empty() || tag.starts_with("svg xmlns=\"http://www.w3.org/2000/svg\""), "<{tag}>");
            let name = tag.split([' ', '/']).next().expect("there is a first piece");
            open.extend((!tag.ends_with('/')).then_some(name));
        }
    }
    assert_eq!(open, [""; 0], "elements are open at the end");
}

#[test]
fn no_worker_outlives_a_leader_that_is_killed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = format!("file:{}", directory.path().join("store").display());
    // Much longer than we wait: they don't end because they are done.
    let mut leader =
        fleet(&["--workers", "3", "--minutes", "30", &store], &directory.path().join("svg")).spawn().expect("it runs");
    let workers = || processes().into_iter().filter(|process| process.parent == leader.id()).collect::<Vec<Process>>();
    until(|| workers().len() == WORKERS).expect("the workers start");
    let ids: BTreeSet<u32> = workers().iter().map(|worker| worker.id).collect();
    leader.kill().expect("it is at work");
    leader.wait().expect("it is ours");
    let alive = || processes().into_iter().any(|process| process.is_alive && ids.contains(&process.id));
    until(|| !alive()).expect("they end by themselves");
}

#[test]
fn an_interrupted_leader_takes_its_workers_along_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = fleet(&["--workers", "3"], &directory.path().join("svg"));
    let temporary = directory.path().join("temporary");
    std::fs::create_dir(&temporary).expect("it can be made");
    let leader = command.env("TMPDIR", &temporary).spawn().expect("it runs");
    let id = leader.id();
    let workers = || processes().into_iter().filter(|process| process.parent == id).collect::<Vec<Process>>();
    until(|| workers().len() == WORKERS).expect("the workers start");
    let ids: BTreeSet<u32> = workers().iter().map(|worker| worker.id).collect();
    assert!(Command::new("kill").args(["-TERM", &id.to_string()]).status().expect("there is kill").success());
    let output = leader.wait_with_output().expect("it is ours");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "fleet: interrupted\n");
    // The example has waited for them, so that there is not even a zombie.
    assert!(!processes().iter().any(|process| ids.contains(&process.id)), "a worker is left");
    assert_eq!(std::fs::read_dir(&temporary).expect("it is there").count(), 0, "the store is left");
}

#[test]
fn wrong_arguments_are_told_in_one_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("it can be written");
    let below = format!("file:{}", file.join("store").display());
    let cases: [(&[&str], &str); 10] = [
        (&["--sideways"], "--sideways"),
        (&["--workers", "1"], "fleet: --workers is a whole number from 2 to 20, not \"1\" (see --help)"),
        (&["--minutes", "7"], "fleet: --minutes is a whole number from 8 to 30, not \"7\" (see --help)"),
        (&["--minutes", "ten"], "fleet: --minutes is a whole number from 8 to 30, not \"ten\" (see --help)"),
        (&["--seed", "abc"], "fleet: --seed is a whole number, not \"abc\" (see --help)"),
        (&["nowhere:"], "fleet: no store has the scheme nowhere"),
        // Not taken for an own store in files.
        (&["redis"], "fleet: the url of a store does not begin with a scheme: "),
        (&[""], "fleet: the url of a store does not begin with a scheme: "),
        (&["memory:"], "use file:/path or redis://host"),
        (&[&below], "store"),
    ];
    for (options, message) in cases {
        let output = fleet(options, &directory.path().join("svg")).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{options:?}: {stderr}");
        assert!(stderr.starts_with("fleet: ") && stderr.lines().count() == 1, "{options:?}: {stderr}");
        assert!(stderr.contains(message), "{options:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{options:?}: {}", stdout(&output));
    }
}
