//! The figures of a campaign, and the table of all that were made with the same seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::checker::{Verdict, Why};
use crate::history::History;
use crate::plan::Kind;

/// What one store went through.
pub(crate) struct Campaign {
    store: &'static str,
    seed: u64,
    rounds: u32,
    pub(crate) took: Duration,
    faults: BTreeMap<Kind, usize>,
    pub(crate) verdict: Verdict,
}

/// In the order of the table.
const STORES: [&str; 5] = ["memory", "file", "redis", "mariadb", "postgres"];

impl Campaign {
    pub(crate) fn of(store: &'static str, seed: u64) -> Self {
        Self { store, seed, rounds: 0, took: Duration::ZERO, faults: BTreeMap::new(), verdict: Verdict::default() }
    }

    pub(crate) fn add(&mut self, history: &History, verdict: Verdict) {
        self.rounds += 1;
        for fault in &history.faults {
            *self.faults.entry(fault.kind).or_default() += 1;
        }
        self.verdict.add(verdict);
    }

    fn lost(&self, why: Why) -> usize {
        self.verdict.lost.get(&why).copied().unwrap_or_default()
    }

    fn column(&self) -> Value {
        let Verdict { runs, unexcused, unfenced, fenced, doubled, doubled_by_an_empty_store, .. } = &self.verdict;
        let faults: BTreeMap<String, usize> =
            self.faults.iter().map(|(kind, count)| (kind.to_string(), *count)).collect();
        json!({
            "store": self.store,
            "seed": self.seed,
            "rounds": self.rounds,
            "seconds": self.took.as_secs(),
            "faults": faults,
            "counts": [
                runs,
                unexcused,
                unfenced,
                fenced,
                doubled - doubled_by_an_empty_store,
                doubled_by_an_empty_store,
                self.lost(Why::Unexplained),
                self.lost(Why::Overlapping),
                self.lost(Why::Killed),
                self.lost(Why::CutOff),
                self.lost(Why::Unanswered),
                self.lost(Why::Unasked),
            ],
            "recoveries": self.verdict.recoveries.iter().map(Duration::as_millis).collect::<Vec<_>>(),
        })
    }
}

/// What is counted, in the order of the counts.
const COUNTS: [&str; 12] = [
    "runs",
    "… during which nothing was done that a lease need not bear",
    "runs that overlapped under live leases",
    "runs that were fenced: stopped or cut off past their term",
    "occurrences that started twice",
    "… after the store had lost its data",
    "occurrences that were lost without cause",
    "occurrences that started nowhere: all met a live lease",
    "… whose worker was killed between gate and start",
    "… whose worker was stopped or cut off there",
    "… while the store answered nobody",
    "… for which nobody asked: all workers were killed, or had not begun",
];

/// Writes the campaign's column down, and the table of all with the same seed, which is printed too.
pub(crate) fn publish(campaign: &Campaign) {
    // Campaigns that end together write one after another.
    static PUBLISHING: Mutex<()> = Mutex::new(());
    let _alone = PUBLISHING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("under-fire");
    fs::create_dir_all(&folder).expect("cargo builds there");
    let file = |store: &str| folder.join(store).with_extension("json");
    fs::write(file(campaign.store), campaign.column().to_string()).expect("the folder takes a file");
    let read = |store| serde_json::from_slice::<Value>(&fs::read(file(store)).ok()?).ok();
    // What a store went through another time has nothing to do with this.
    let columns: Vec<Value> =
        STORES.into_iter().filter_map(read).filter(|column| column["seed"] == campaign.seed).collect();
    let table = table(&columns);
    fs::write(folder.join("table.md"), &table).expect("the folder takes a file");
    println!("{table}");
}

/// What happened to each store, what was done to it, and how long that took; and both for all of them.
fn table(columns: &[Value]) -> String {
    let mut text = String::new();
    let mut row = |title: &str, cells: Vec<String>| {
        let _ = writeln!(text, "| {title} | {} |", cells.join(" | "));
    };
    let each = |cell: &dyn Fn(&Value) -> String| columns.iter().map(cell).collect::<Vec<_>>();
    let of_all = |count: &dyn Fn(&Value) -> u64| {
        let counts: Vec<u64> = columns.iter().map(count).collect();
        counts.iter().chain([&counts.iter().sum()]).map(ToString::to_string).collect::<Vec<_>>()
    };
    let stores = each(&|column| column["store"].as_str().unwrap_or_default().to_owned());
    row("", stores.into_iter().chain(["all".into()]).collect());
    row("---", vec!["---:".into(); columns.len() + 1]);
    for (at, title) in COUNTS.iter().enumerate() {
        row(title, of_all(&|column| column["counts"][at].as_u64().unwrap_or_default()));
    }
    let recoveries: Vec<Vec<u64>> = columns.iter().map(recoveries).collect();
    let cells = |pick: fn(&[u64]) -> Option<u64>| {
        let all = recoveries.concat();
        let cell = |of: &Vec<u64>| {
            pick(of).map_or("–".into(), |milliseconds| {
                format!("{:.1} s", Duration::from_millis(milliseconds).as_secs_f64())
            })
        };
        recoveries.iter().chain([&all]).map(cell).collect()
    };
    row("from a kill to the next run, median", cells(median));
    row("… at most", cells(|of| of.iter().max().copied()));
    row("faults", of_all(&|column| faults(column).values().sum()));
    let kinds: BTreeSet<String> = columns.iter().flat_map(|column| faults(column).into_keys()).collect();
    for kind in kinds {
        row(&format!("… {kind}"), of_all(&|column| faults(column).get(&kind).copied().unwrap_or_default()));
    }
    row("rounds", of_all(&|column| column["rounds"].as_u64().unwrap_or_default()));
    row("seconds", of_all(&|column| column["seconds"].as_u64().unwrap_or_default()));
    text
}

fn faults(column: &Value) -> BTreeMap<String, u64> {
    let faults = column["faults"].as_object().into_iter().flatten();
    faults.filter_map(|(kind, count)| Some((kind.clone(), count.as_u64()?))).collect()
}

/// In milliseconds.
fn recoveries(column: &Value) -> Vec<u64> {
    column["recoveries"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

fn median(of: &[u64]) -> Option<u64> {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}
