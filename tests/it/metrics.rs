//! What a scrape by Prometheus reads, held against the table of the guide.

#![expect(clippy::float_cmp, reason = "what is counted is a whole number")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::TimeDelta;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use soloist::testing::TestStore;
use soloist::{Event, ManualClock, Metrics, Notice, Run, Schedule, Step};

use crate::support::{noon, until};

/// The value of each series, by its name and labels, and the kind of each metric.
struct Scrape {
    series: BTreeMap<String, f64>,
    kinds: BTreeMap<String, String>,
}

impl Scrape {
    /// In the text format: <https://prometheus.io/docs/instrumenting/exposition_formats/>
    fn of(handle: &PrometheusHandle) -> Self {
        let text = handle.render();
        let mut scrape = Self { series: BTreeMap::new(), kinds: BTreeMap::new() };
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect(line);
                assert!(scrape.kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} has one kind");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').expect(line);
                assert!(scrape.series.insert(series.to_owned(), value.parse().expect(line)).is_none(), "{line}");
            }
        }
        scrape
    }

    #[track_caller]
    fn get(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("{series} is not among {:#?}", self.series.keys()))
    }

    fn has(&self, name: &str) -> bool {
        self.series.keys().any(|series| series.starts_with(name))
    }
}

fn recorder() -> (PrometheusRecorder, PrometheusHandle) {
    let recorder = PrometheusBuilder::new().set_buckets(&[0.001, 0.1, 1.0]).unwrap().build_recorder();
    let handle = recorder.handle();
    (recorder, handle)
}

/// Its metrics, with their kinds, as the guide lists them.
fn documented() -> BTreeMap<String, String> {
    let text = include_str!("../../src/guide/logs/observing.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `soloist_"));
    let row = |row: &str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        (format!("soloist_{}", cells[0].trim_end_matches('`')), cells[1].to_owned())
    };
    rows.map(row).collect()
}

#[test]
fn a_scrape_has_what_the_guide_lists_and_counts_what_happened() {
    let (recorder, handle) = recorder();
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    metrics::with_local_recorder(&recorder, || {
        let mut schedule = Schedule::new(store.clone()).observe(Metrics::new());
        let fails =
            |run: &Run| if run.occurrence() < noon() + TimeDelta::minutes(3) { Err("no paper".into()) } else { Ok(()) };
        schedule.add(Event::call("fails", fails).every_minute().without_overlapping()).unwrap();
        schedule.add(Event::call("filtered", |_| {}).every_minute().skip(|_| true)).unwrap();
        schedule.add(Event::call("never", |_| {}).yearly()).unwrap();
        let _ = schedule.run_due(noon());
        let scrape = Scrape::of(&handle);
        assert_eq!(scrape.get(r#"soloist_runs_total{event="fails",result="failed"}"#), 1.0);
        for zero in [
            r#"soloist_runs_total{event="fails",result="succeeded"}"#,
            r#"soloist_runs_total{event="never",result="failed"}"#,
            r#"soloist_skips_total{event="never",reason="overlapping"}"#,
            r#"soloist_leases_lost_total{event="fails"}"#,
            r#"soloist_missed_total{event="never"}"#,
            r#"soloist_running{event="fails"}"#,
            "soloist_store_out",
            "soloist_store_errors_total",
        ] {
            assert_eq!(scrape.get(zero), 0.0, "{zero}");
        }
        assert_eq!(scrape.get(r#"soloist_last_start_timestamp_seconds{event="fails"}"#), 1_772_366_400.0);
        assert!(!scrape.has("soloist_last_success_timestamp_seconds"), "absent before the first success");
        assert_eq!(scrape.get(r#"soloist_skips_total{event="filtered",reason="filtered"}"#), 1.0);
        assert_eq!(scrape.get(r#"soloist_run_duration_seconds_count{event="fails"}"#), 1.0);

        let elsewhere = store.run_elsewhere("fails").unwrap();
        let _ = schedule.run_due(noon());
        drop(elsewhere);
        store.be_out(true);
        let _ = schedule.run_due(noon());
        let scrape = Scrape::of(&handle);
        assert_eq!(scrape.get(r#"soloist_skips_total{event="fails",reason="overlapping"}"#), 1.0);
        assert_eq!(scrape.get(r#"soloist_skips_total{event="fails",reason="store_unavailable"}"#), 1.0);
        assert_eq!((scrape.get("soloist_store_out"), scrape.get("soloist_store_errors_total")), (1.0, 1.0));
        assert_eq!(scrape.get(r#"soloist_consecutive_failures{event="fails"}"#), 1.0);

        store.be_out(false);
        let _ = schedule.run_due(noon());
        assert_eq!(Scrape::of(&handle).get(r#"soloist_consecutive_failures{event="fails"}"#), 2.0);
        clock.advance(Duration::from_secs(180));
        let _ = schedule.run_due(noon() + TimeDelta::minutes(3));
        let scrape = Scrape::of(&handle);
        assert_eq!(scrape.get("soloist_store_out"), 0.0);
        assert_eq!(scrape.get(r#"soloist_consecutive_failures{event="fails"}"#), 0.0);
        assert_eq!(scrape.get(r#"soloist_last_success_timestamp_seconds{event="fails"}"#), 1_772_366_580.0);
    });
}

#[test]
fn each_metric_of_the_guide_is_there_with_its_kind_and_no_other() {
    let (recorder, handle) = recorder();
    // For all threads, since this is the only test that counts on others than its own.
    metrics::set_global_recorder(recorder).expect("no other test does this");
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    {
        let mut schedule = Schedule::new(store.clone()).observe(Metrics::new());
        let (moved, seen) = (clock.clone(), handle.clone());
        let is_renewed = move |_: &Run| {
            moved.advance(Duration::from_secs(25));
            until(|| Scrape::of(&seen).has("soloist_lease_lowest_remaining_seconds"))
        };
        schedule.add(Event::call("a", is_renewed).every_minute().without_overlapping()).unwrap();
        store.take(Duration::from_millis(1));
        assert!(!schedule.run_due(noon()).is_failure());
        let shutdown = soloist::Shutdown::new();
        let ends = shutdown.clone();
        let end_of_the_loop = move |notice: &Notice<'_>| {
            if matches!(notice.step(), Step::LoopAlive) {
                ends.trigger();
            }
        };
        let mut schedule = Schedule::new(store.clone()).observe(Metrics::new()).observe(end_of_the_loop);
        schedule.add(Event::call("never", |_| {}).yearly()).unwrap();
        schedule.work(&shutdown);
    }
    let scrape = Scrape::of(&handle);
    let told: BTreeMap<String, String> = scrape.kinds.into_iter().collect();
    let missing: BTreeSet<_> = documented().into_iter().filter(|(name, kind)| told.get(name) != Some(kind)).collect();
    assert!(missing.is_empty(), "not told, or of another kind: {missing:?}");
    let documented = documented();
    let others: Vec<_> = told.keys().filter(|name| !documented.contains_key(*name)).collect();
    assert!(others.is_empty(), "not in the guide: {others:?}");
}

#[test]
fn the_dashboard_and_the_alerts_use_the_metrics_that_there_are() {
    let documented = documented();
    for (file, text) in [
        ("alerts.yml", include_str!("../../docs/prometheus/alerts.yml")),
        ("soloist.json", include_str!("../../docs/grafana/soloist.json")),
    ] {
        let mut names = BTreeSet::new();
        for (at, _) in text.match_indices("soloist_") {
            let name: String =
                text[at..].chars().take_while(|char| char.is_ascii_lowercase() || *char == '_').collect();
            names.insert(
                ["_bucket", "_sum", "_count"]
                    .iter()
                    .fold(name.as_str(), |name, end| name.trim_end_matches(end))
                    .to_owned(),
            );
        }
        assert!(names.len() > 4, "{file}");
        let unknown: Vec<_> = names.iter().filter(|name| !documented.contains_key(*name)).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let dashboard: serde_json::Value = serde_json::from_str(include_str!("../../docs/grafana/soloist.json")).unwrap();
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() >= 8));
}
