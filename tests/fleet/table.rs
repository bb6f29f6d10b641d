//! The figures of a campaign, and the table of all campaigns with one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::checker::{Count, Verdict};
use crate::history::History;
use crate::plan::Kind;

/// The rounds of one store.
pub(crate) struct Campaign {
    store: &'static str,
    seed: u64,
    rounds: u32,
    pub(crate) took: Duration,
    /// How late the machine was at most.
    late: Duration,
    faults: BTreeMap<Kind, usize>,
    pub(crate) verdict: Verdict,
}

/// In the order of the table.
const STORES: [&str; 7] = ["memory", "file", "redis", "sentinel", "cluster", "mariadb", "postgres"];

impl Campaign {
    pub(crate) fn of(store: &'static str, seed: u64) -> Self {
        let (faults, verdict) = (BTreeMap::new(), Verdict::default());
        Self { store, seed, rounds: 0, took: Duration::ZERO, late: Duration::ZERO, faults, verdict }
    }

    pub(crate) fn add(&mut self, history: &History, verdict: Verdict) {
        self.rounds += 1;
        self.late = self.late.max(history.late);
        for fault in &history.faults {
            *self.faults.entry(fault.kind).or_default() += 1;
        }
        self.verdict.add(verdict);
    }

    /// Expects futures of a longer campaign.
    pub(crate) fn expect_futures(&mut self) {
        if self.rounds >= 5 && self.verdict.of(Count::Futures) == 0 {
            self.verdict.violation(format!("there were no {}", Count::Futures));
        }
    }

    fn column(&self) -> Value {
        let done = |is_start: bool| -> BTreeMap<String, usize> {
            let of_this = self.faults.iter().filter(|(kind, _)| kind.is_of_the_start() == is_start);
            of_this.map(|(kind, count)| (kind.to_string(), *count)).collect()
        };
        json!({
            "store": self.store,
            "seed": self.seed,
            "rounds": self.rounds,
            "seconds": self.took.as_secs(),
            "late": self.late.as_millis(),
            "violations": self.verdict.violations.len(),
            "counts": Count::ALL.map(|what| self.verdict.of(what)).to_vec(),
            "recoveries": self.verdict.recoveries.iter().map(Duration::as_millis).collect::<Vec<_>>(),
            "faults": done(false),
            "starts": done(true),
        })
    }
}

/// Saves the campaign's column, and saves and prints the table of all columns with its seed.
pub(crate) fn publish(campaign: &Campaign) {
    // Campaigns that end together write one after another.
    static PUBLISHING: Mutex<()> = Mutex::new(());
    let _alone = PUBLISHING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("under-fire");
    fs::create_dir_all(&folder).expect("cargo builds there");
    let file = |store: &str| folder.join(store).with_extension("json");
    fs::write(file(campaign.store), campaign.column().to_string()).expect("the folder takes a file");
    let read = |store| serde_json::from_slice::<Value>(&fs::read(file(store)).ok()?).ok();
    // A column with another seed belongs to another campaign.
    let columns: Vec<Value> =
        STORES.into_iter().filter_map(read).filter(|column| column["seed"] == campaign.seed).collect();
    let table = table(&columns);
    fs::write(folder.join("table.md"), &table).expect("the folder takes a file");
    println!("{table}");
}

/// Returns a table of the results of each store, of its faults and their durations, and of the sum of all stores.
fn table(columns: &[Value]) -> String {
    let mut text = String::new();
    let mut row = |title: &str, cells: Vec<String>| {
        let _ = writeln!(text, "| {title} | {} |", cells.join(" | "));
    };
    let of_all = |count: &dyn Fn(&Value) -> u64| {
        let counts: Vec<u64> = columns.iter().map(count).collect();
        counts.iter().chain([&counts.iter().sum()]).map(ToString::to_string).collect::<Vec<_>>()
    };
    let number = |name: &str| of_all(&|column| column[name].as_u64().unwrap_or_default());
    let stores = columns.iter().map(|column| column["store"].as_str().unwrap_or_default().to_owned());
    row("", stores.chain(["all".into()]).collect());
    row("---", vec!["---:".into(); columns.len() + 1]);
    row("**promises broken**", number("violations"));
    for (at, what) in Count::ALL.iter().enumerate() {
        row(&what.to_string(), of_all(&|column| column["counts"][at].as_u64().unwrap_or_default()));
    }
    // Files are free at once and servers after a term: together they say nothing.
    let of_each = |pick: fn(&[u64]) -> Option<u64>| {
        let cell = |column| pick(&recoveries(column)).map_or("–".into(), in_seconds);
        columns.iter().map(cell).chain([String::new()]).collect()
    };
    row("from a kill to the next run: median", of_each(median));
    row("from a kill to the next run: at most", of_each(|of| of.iter().max().copied()));
    for (total, what) in [("faults", "fault"), ("starts", "start")] {
        row(total, of_all(&|column| done(column, total).values().sum()));
        let kinds: BTreeSet<String> = columns.iter().flat_map(|column| done(column, total).into_keys()).collect();
        for kind in kinds {
            let often = |column: &Value| done(column, total).get(&kind).copied().unwrap_or_default();
            row(&format!("{what}: {kind}"), of_all(&often));
        }
    }
    let late = columns.iter().map(|column| in_seconds(column["late"].as_u64().unwrap_or_default()));
    row("the machine was late: at most", late.chain([String::new()]).collect());
    row("rounds", number("rounds"));
    row("seconds", number("seconds"));
    text
}

/// Returns how often each fault was done.
fn done(column: &Value, what: &str) -> BTreeMap<String, u64> {
    let kinds = column[what].as_object().into_iter().flatten();
    kinds.filter_map(|(kind, count)| Some((kind.clone(), count.as_u64()?))).collect()
}

fn in_seconds(milliseconds: u64) -> String {
    format!("{:.1} s", Duration::from_millis(milliseconds).as_secs_f64())
}

/// Returns the times of recovery in milliseconds.
fn recoveries(column: &Value) -> Vec<u64> {
    column["recoveries"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

fn median(of: &[u64]) -> Option<u64> {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}
