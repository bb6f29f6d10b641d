//! A line in the crontabs of three hosts, on one Redis, while some of its processes are killed.
//!
//! Two hours, minute after minute: no time runs twice, no two runs overlap, and each missing time is explained by
//! a kill or by a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use super::*;
use crate::lateness::Watch;
use crate::support::at;

const MINUTES: i64 = 120;

/// How many minutes are under way at a time. More than one, so that a run meets the one before it.
const AT_A_TIME: usize = 2;

/// In one of so many minutes, all processes that were started so far are killed at some moment.
const KILLED: usize = 10;

/// The command: it logs each of its steps with its token.
const LINE: &str = "tell() { echo $SOLOIST_TOKEN $1 $SOLOIST_OCCURRENCE >>log; }; tell start; sleep 0.02; tell step; sleep 0.01; tell end";

/// The runs of one minute.
struct Minute {
    at: DateTime<Utc>,
    /// The answers of the processes that were not killed.
    answers: Vec<Answer>,
    is_killed: bool,
}

impl Minute {
    /// Returns whether each of the processes met a run of the event.
    fn met_a_run(&self) -> bool {
        self.answers.iter().all(|answer| answer.code == Some(CONFLICT))
    }
}

fn minute(number: i64) -> DateTime<Utc> {
    at("2026-03-01T00:00:00Z") + TimeDelta::minutes(number)
}

/// Starts the line on three hosts, as cron does.
fn tick(place: &Place, at: DateTime<Utc>, random: &mut fastrand::Rng) -> Minute {
    let now = at.to_rfc3339_opts(SecondsFormat::Secs, true);
    let line = || {
        let mut command = Command::new(SOLOIST);
        command.args(["run", "--name", "j", "--on-one-server", "--every", "* * * * *"]);
        command.args(["--term", "4s", "--grace", "0s", "-E"]);
        command.args([&CONFLICT.to_string(), "--store", &place.store, "--", "sh", "-c", LINE]);
        command.env("SOLOIST_TEST_NOW", &now).current_dir(place.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let killed_after = (random.usize(..KILLED) == 0).then(|| random.usize(..3));
    let mut hosts = Vec::new();
    for host in 0..3 {
        // Their clocks differ: one is late for the run, and another comes when it has ended.
        thread::sleep(Duration::from_micros(random.u64(..50_000)));
        hosts.push(line());
        if killed_after == Some(host) {
            thread::sleep(Duration::from_micros(random.u64(..60_000))); // before, during or after its run
            for mut victim in hosts.drain(..) {
                victim.kill().expect("it is ours");
                victim.wait().expect("it is ours");
            }
        }
    }
    let answers = hosts.into_iter().map(|host| Answer::from(host.wait_with_output().expect("it is ours")));
    Minute { at, answers: answers.collect(), is_killed: killed_after.is_some() }
}

/// Reads a line of the log: a token, a step, and the time of the run.
fn parse(line: &str) -> (u64, &str, DateTime<Utc>) {
    let words: Vec<&str> = line.split(' ').collect();
    let [token, step, occurrence] = words[..] else { panic!("half a line: {line:?}") };
    (token.parse().expect(line), step, occurrence.parse().expect(line))
}

#[test]
fn two_hours_of_cron_lines_on_three_hosts_with_kills_run_no_time_twice_and_lose_none_unexplained() {
    // A lease is lost if the machine stands still for two thirds of its term.
    for _ in 0..3 {
        let (watch, server) = (Watch::start(), Redis::start());
        let place = Place::on(&server);
        let minutes = two_hours(&place);
        // On a busy machine, most lines meet a run.
        if watch.end() < Duration::from_secs(2) && judge(&minutes, &place.read("log")) > 30 {
            return;
        }
    }
    panic!("in each of three attempts, the machine stood still, or 30 minutes or fewer had a run");
}

fn two_hours(place: &Place) -> Vec<Minute> {
    let (next, minutes) = (Mutex::new(0..MINUTES), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for seed in 0..AT_A_TIME as u64 {
            let (next, minutes) = (&next, &minutes);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                loop {
                    let Some(number) = next.lock().unwrap().next() else { return };
                    let minute = tick(place, minute(number), &mut random);
                    if !minute.answers.is_empty() && minute.met_a_run() {
                        thread::sleep(Duration::from_millis(200)); // a lease that a kill left behind is over in four seconds
                    }
                    minutes.lock().unwrap().push(minute);
                }
            });
        }
    });
    minutes.into_inner().unwrap()
}

/// Returns how many of the minutes had a run.
fn judge(minutes: &[Minute], log: &str) -> usize {
    assert_eq!(minutes.len(), usize::try_from(MINUTES).unwrap());
    for Minute { at, answers, .. } in minutes {
        let is_usual = |answer: &Answer| answer.errors.is_empty() && matches!(answer.code, Some(0 | CONFLICT));
        assert!(answers.iter().all(is_usual), "{at}: {answers:?}");
    }
    let lines: Vec<(u64, &str, DateTime<Utc>)> = log.lines().map(parse).collect();
    for pair in lines.windows(2) {
        assert!(
            pair[0].0 <= pair[1].0,
            "{pair:?}: the one has not ended when the other is at work, or its token is lower"
        );
    }
    let mut steps: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for (token, step, _) in &lines {
        steps.entry(*token).or_default().push(step);
    }
    let starts: Vec<DateTime<Utc>> =
        lines.iter().filter(|(_, step, _)| *step == "start").map(|(_, _, at)| *at).collect();
    let started: BTreeSet<DateTime<Utc>> = starts.iter().copied().collect();
    assert_eq!(started.len(), starts.len(), "a time ran twice");
    let finished = steps.values().filter(|steps| **steps == ["start", "step", "end"]).count();
    let killed = minutes.iter().filter(|minute| minute.is_killed).count();
    assert!(steps.len() - finished <= killed, "a run was cut short although nobody killed its process: {steps:?}");

    let mut met_a_run = 0;
    for minute in minutes {
        let Minute { at, answers, is_killed } = minute;
        if !started.contains(at) {
            assert!(*is_killed || minute.met_a_run(), "{at} ran nowhere, and nobody was killed: {answers:?}");
            met_a_run += usize::from(minute.met_a_run());
        }
        assert!(
            !minute.met_a_run() || *is_killed || !started.contains(at),
            "{at} ran, and nobody says so: {answers:?}"
        );
    }
    println!(
        "{} of {MINUTES} ran, {met_a_run} met a run, {killed} lost processes, {} runs were cut short",
        started.len(),
        steps.len() - finished
    );
    assert!(killed > 3, "{killed} lost processes");
    started.len()
}
