//! Rounds whose events make up for all that they missed: each occurrence starts once, whatever is killed, stopped, out or paused.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::checker::Verdict;
use crate::fire::{asked_for, perform, print_facts};
use crate::history::{History, written};
use crate::plan::{Kind, Round};
use crate::site::Site;

#[test]
fn on_files_all_that_was_missed_is_made_up_for() {
    all_is_made_up_for("file", &Site::file());
}

#[test]
fn on_redis_all_that_was_missed_is_made_up_for() {
    all_is_made_up_for("redis", &Site::redis());
}

#[test]
fn on_mariadb_all_that_was_missed_is_made_up_for() {
    all_is_made_up_for("mariadb", &Site::mariadb());
}

#[test]
fn on_postgres_all_that_was_missed_is_made_up_for() {
    all_is_made_up_for("postgres", &Site::postgres());
}

/// Plays rounds for as long as was asked for, and one at the least.
fn all_is_made_up_for(store: &str, site: &Site) {
    let [seed, seconds] = ["SOLOIST_FIRE_SEED", "SOLOIST_FIRE_SECONDS"].map(asked_for);
    let (began, mut late) = (Instant::now(), 0);
    for seed in seed.unwrap_or(1).. {
        let round = Round::that_makes_up(seed);
        let history = perform(&round, site);
        let verdict = judge(&history);
        late += late_starts(&history);
        if !verdict.violations.is_empty() {
            print_facts(store, &round, &history, &verdict);
        }
        assert!(verdict.violations.is_empty(), "{store}: {}", verdict.violations.join("\n"));
        if began.elapsed() >= Duration::from_secs(seconds.unwrap_or(0)) {
            break;
        }
    }
    println!("{store}: {late} occurrences were made up for");
    assert!(late > 0, "nothing was missed: the rounds have no fault that matters");
}

/// Returns how often each occurrence of an event has started.
fn starts(history: &History) -> BTreeMap<(&str, &str), usize> {
    let mut starts = BTreeMap::new();
    for line in history.lives.iter().flat_map(|life| &life.lines).filter(|line| line.what == "start") {
        *starts.entry((&*line.event, &*line.occurrence)).or_default() += 1;
    }
    starts
}

/// Returns how many runs started a minute of their schedule or more after their occurrence.
fn late_starts(history: &History) -> usize {
    let lines = history.lives.iter().flat_map(|life| &life.lines);
    lines.filter(|line| line.what == "start" && line.late_ms.is_some_and(|late| late >= 60_000)).count()
}

/// Decides whether the promises were kept. A killed process loses the occurrence of each event that it has just claimed.
fn judge(history: &History) -> Verdict {
    let starts = starts(history);
    let first = history.lives.iter().map(|life| life.minutes.start).min().unwrap_or_default();
    let (mut verdict, mut lost) = (Verdict::default(), 0);
    for event in &history.events {
        for occurrence in (first..history.minutes).map(written) {
            match starts.get(&(&**event, &*occurrence)) {
                Some(1) => {}
                Some(count) => verdict.violation(format!("{event} of {occurrence} started {count} times")),
                None => lost += 1,
            }
        }
    }
    let kills = history.faults.iter().filter(|fault| fault.kind == Kind::Killed).count();
    if lost > kills * history.events.len() {
        verdict.violation(format!("{lost} occurrences started nowhere, although {kills} processes were killed"));
    }
    verdict
}
