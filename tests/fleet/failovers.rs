//! Failovers, one a round: how many occurrences start twice, and which lost claims explain that.
//!
//! `cargo test` has one failover with Sentinels and one in a cluster. By hand, with a table in the end:
//!
//! ```text
//! tests/failovers --failovers 20 sentinel cluster
//! ```
//!
//! Each is played without and with `wait=1`. Some workers are behind the others, and ask for an occurrence after a failover that
//! has started before: if its claim was lost, the occurrence starts twice.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::checker::{Count, Double, Overlap, Verdict, judge};
use crate::fire::{asked_for, perform, print_facts};
use crate::plan::{ALL_RUNS, FAILOVERS, Kind, OnOverlap, Protection, Round, Start, Task, Trouble};
use crate::site::Site;

/// The options of the URL, in the order of the columns.
const COLUMNS: [&str; 2] = ["", "?wait=1"];

#[test]
fn sentinel_fails_over() {
    fail_over("sentinel", Site::sentinel);
}

#[test]
fn cluster_fails_over() {
    fail_over("cluster", Site::cluster);
}

/// The rounds of one kind on one store.
struct Rounds {
    failovers: usize,
    /// How many claims were lost, and how many of them after their occurrence had started.
    lost: usize,
    lost_after_start: usize,
    verdict: Verdict,
}

fn fail_over(store: &'static str, site: fn(&'static str) -> Site) {
    let count = asked_for("SOLOIST_FAILOVERS");
    let kinds = if count.is_some() { &FAILOVERS[..] } else { &[Kind::PrimaryCutOff] };
    let play = |options| {
        let site = site(options);
        let rounds = kinds.iter().map(|kind| {
            let count = if *kind == Kind::PrimaryBehind { 1 } else { count.unwrap_or(1) };
            play_rounds(store, options, &site, *kind, count)
        });
        rounds.collect::<Vec<Rounds>>()
    };
    let columns = thread::scope(|scope| {
        let columns = COLUMNS.map(|options| scope.spawn(move || play(options)));
        columns.map(|column| column.join().expect("servers do as they are told"))
    });
    let table = table(store, kinds, &columns);
    println!("{table}");
    if count.is_some() {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("failovers");
        fs::create_dir_all(&folder).expect("cargo builds there");
        fs::write(folder.join(store).with_extension("md"), &table).expect("the folder takes a file");
    }
    let violations: Vec<&String> = columns.iter().flatten().flat_map(|rounds| &rounds.verdict.violations).collect();
    assert!(violations.is_empty(), "{store}: {violations:#?}");
    let doubled: usize = columns[1].iter().map(|rounds| rounds.verdict.risen.len()).sum();
    assert_eq!(doubled, 0, "{store}: started twice, although a replica had each claim");
}

fn play_rounds(store: &str, options: &str, site: &Site, kind: Kind, count: u64) -> Rounds {
    let mut rounds = Rounds { failovers: 0, lost: 0, lost_after_start: 0, verdict: Verdict::default() };
    for number in 0..count {
        let round = round(kind, number);
        let history = perform(&round, site);
        let verdict = judge(&history);
        if std::env::var_os("SHOW").is_some() || !verdict.violations.is_empty() {
            print_facts(store, &round, &history, &verdict);
            println!("it was {kind} number {number}, with {options:?}");
        }
        let failovers = history.faults.iter().filter(|fault| fault.kind == kind);
        rounds.failovers += failovers.clone().count();
        let lost: Vec<u64> = failovers.flat_map(|fault| fault.lost.iter().copied()).collect();
        rounds.lost += lost.len();
        let starts = history.lives.iter().flat_map(|life| &life.lines).filter(|line| line.what == "start");
        rounds.lost_after_start += starts.filter(|line| line.token.is_some_and(|token| lost.contains(&token))).count();
        rounds.verdict.add(verdict);
    }
    rounds
}

/// Returns a round with one failover. Its workers are up to three minutes behind, which are longer than a failover.
fn round(kind: Kind, number: u64) -> Round {
    let is_long = number % 2 == 1;
    let minute = Duration::from_secs(2);
    let pause = 2 * minute + Duration::from_millis(number * 271 % 2000);
    Round {
        // Each round has events of its own.
        seed: 1000 * (kind as u64) + number,
        lasts: 12 * minute,
        protection: Protection::Both,
        on_overlap: OnOverlap::Skip,
        slots: 1,
        shares_mutex: false,
        task: Task::Callback(Duration::from_millis(if is_long { 900 } else { 50 })),
        retries: None,
        minute,
        events: 4,
        latency: Duration::ZERO,
        start: Start::Staggered, // Workers that ask at one moment meet the lease, and not the claim.
        skews: [0, 0, 0, -1, -1, -2, -3, -3],
        assaults: Vec::new(),
        outages: vec![Trouble { pause, kind, way: 0, lasts: minute }],
        pauses: Vec::new(),
        makes_up: false,
        is_filtered: false,
        logged_runs: ALL_RUNS,
    }
}

/// Returns the figures of each kind, without and with `wait=1`.
fn table(store: &str, kinds: &[Kind], columns: &[Vec<Rounds>; 2]) -> String {
    let mut text = format!("| {store} | without `wait` | `wait=1` |\n| --- | ---: | ---: |\n");
    for (at, kind) in kinds.iter().enumerate() {
        let mut row = |title: &str, figure: &dyn Fn(&Rounds) -> String| {
            let [without, with] = [0, 1].map(|column| figure(&columns[column][at]));
            let _ = writeln!(text, "| {title} | {without} | {with} |");
        };
        let count = |what: Count| move |rounds: &Rounds| rounds.verdict.of(what).to_string();
        row(&format!("**{kind}**"), &|rounds| rounds.failovers.to_string());
        row("starts", &count(Count::Runs));
        row("claims that the failovers lost", &|rounds| rounds.lost.to_string());
        row("of these, the occurrence had started", &|rounds| rounds.lost_after_start.to_string());
        row("overlaps: the lease of the first was lost", &count(Count::Overlapped(Overlap::TakenAway)));
        row("overlaps: two servers were the primary", &count(Count::Overlapped(Overlap::TwoPrimaries)));
        row("occurrences that started twice", &|rounds| rounds.verdict.risen.len().to_string());
        row("of these, the claim of one of the two was lost", &count(Count::StartedTwice(Double::FailedOver)));
        row("of these, the second had the higher token", &|rounds| {
            rounds.verdict.risen.iter().filter(|risen| **risen > 0).count().to_string()
        });
        row("the token fell by at most", &|rounds| {
            let fell = rounds.verdict.risen.iter().filter(|risen| **risen <= 0).min();
            fell.map_or("–".into(), |fell| {
                format!("{:.3} s", Duration::from_micros(fell.unsigned_abs()).as_secs_f64())
            })
        });
    }
    text
}
