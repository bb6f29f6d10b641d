//! Prints the ratios that the README quotes, from what the other benches measured last.

use std::path::Path;

use serde_json::Value;

/// What is compared, by how many things one iteration of each handles, and the ratio that is promised.
const PAIRS: [(&str, &str, Option<f64>); 27] = [
    ("idle/soloist/100", "idle/raw masks/100", None),
    ("idle/soloist/10000", "idle/raw masks/10000", None),
    ("idle/soloist/100000", "idle/raw masks/100000", Some(2.5 / 1.1)),
    ("idle/soloist, worst minute/100000", "idle/raw masks/100000", Some(4.0 / 1.1)),
    ("idle/soloist/100000", "idle/clokwerk/100000", None),
    ("idle/soloist/10000", "idle/cron crate/10000", None),
    ("due/bare", "due/clokwerk beside bare", None),
    ("due/lease", "due/clokwerk beside lease", Some(3.0)),
    ("due/lease", "due/lease for a fixed term", None),
    ("due/claim", "due/clokwerk beside claim", None),
    ("due/lease and claim", "due/clokwerk beside lease and claim", Some(6.0)),
    ("background/bare", "background/bare, one after another", None),
    ("background/lease and claim", "background/lease and claim, one after another", None),
    ("file/gate and release", "file/floor", Some(1.5)),
    ("file/gate and release, with a claim", "file/floor", None),
    ("parse/soloist", "parse/cron crate", Some(0.4)),
    ("redis/in order", "redis/raw client beside in order", Some(0.65)),
    ("redis/in background", "redis/raw client beside in background", Some(1.3)),
    ("redis/alone", "redis/raw client beside alone", None),
    ("mariadb/alone", "mariadb/raw client beside alone", Some(1.3)),
    ("mariadb/alone, not on the disk", "mariadb/raw client beside alone, not on the disk", Some(1.3)),
    ("mariadb/a hundred at once", "mariadb/a hundred one by one", Some(0.1)),
    ("mariadb/among a million", "mariadb/in a small table", Some(1.3)),
    ("postgres/alone", "postgres/raw client beside alone", Some(1.3)),
    ("postgres/alone, not on the disk", "postgres/raw client beside alone, not on the disk", Some(1.3)),
    ("postgres/a hundred at once", "postgres/a hundred one by one", Some(0.1)),
    ("postgres/among a million", "postgres/in a small table", Some(1.3)),
];

/// The median of a benchmark in nanoseconds per thing it handles.
fn median(name: &str) -> Option<f64> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/target").into());
    let estimates = Path::new(&target).join("criterion").join(name).join("new/estimates.json");
    let estimates: Value = serde_json::from_str(&std::fs::read_to_string(estimates).ok()?).ok()?;
    Some(estimates["median"]["point_estimate"].as_f64()? / things(name))
}

fn things(name: &str) -> f64 {
    match name.split_once('/') {
        Some(("idle", rest)) => rest.rsplit('/').next().and_then(|count| count.parse().ok()).unwrap_or(1.0),
        Some(("due", _)) => 100.0,
        Some(("background", _)) => 1_000.0,
        Some(("parse", _)) => 8.0,
        Some(("redis", rest)) if rest.ends_with("in order") => 100.0,
        Some(("redis", rest)) if rest.ends_with("in background") => 1000.0,
        Some(("mariadb" | "postgres", rest)) if rest.starts_with("a hundred") => 100.0,
        _ => 1.0,
    }
}

fn main() {
    println!("{:36} {:>10}   {:36} {:>10}   {:>6}  promised", "each", "ns", "beside", "ns", "ratio");
    for (ours, theirs, promised) in PAIRS {
        let (Some(our), Some(their)) = (median(ours), median(theirs)) else {
            println!("{ours:36} not measured yet: run benches/run");
            continue;
        };
        let promised = promised.map_or_else(String::new, |ratio| format!("at most {ratio:.2}"));
        println!("{ours:36} {our:>10.2}   {theirs:36} {their:>10.2}   {:>6.2}  {promised}", our / their);
    }
}
