//! The metrics of a scrape by Prometheus, compared with the table of the book.

#![expect(clippy::float_cmp, reason = "what is counted is a whole number")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use soloist::observe::{Metrics, Notice, Step};
use soloist::testing::TestStore;
use soloist::time::ManualClock;
use soloist::{Event, Retry, Run, Schedule, Shutdown};

use crate::support::{noon, run_alone, until};

/// The value of each series, by its name and labels, and the kind of each metric.
struct Scrape {
    series: BTreeMap<String, f64>,
    kinds: BTreeMap<String, String>,
}

impl Scrape {
    /// Reads the text format: <https://prometheus.io/docs/instrumenting/exposition_formats/>
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

/// Returns the metrics with their kinds, as the book lists them.
fn documented() -> BTreeMap<String, String> {
    let text = include_str!("../../docs/guide/observing.md");
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
        let schedule = Schedule::new(store.clone()).observe(Metrics::new());
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
            r#"soloist_retries_total{event="fails"}"#,
            r#"soloist_leases_lost_total{event="fails"}"#,
            r#"soloist_missed_total{event="never"}"#,
            r#"soloist_backfilled_total{event="fails"}"#,
            r#"soloist_running{event="fails"}"#,
            "soloist_store_unavailable",
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
        store.be_unavailable(true);
        let _ = schedule.run_due(noon());
        let scrape = Scrape::of(&handle);
        assert_eq!(scrape.get(r#"soloist_skips_total{event="fails",reason="overlapping"}"#), 1.0);
        assert_eq!(scrape.get(r#"soloist_skips_total{event="fails",reason="store_unavailable"}"#), 1.0);
        assert_eq!((scrape.get("soloist_store_unavailable"), scrape.get("soloist_store_errors_total")), (1.0, 1.0));
        assert_eq!(scrape.get(r#"soloist_consecutive_failures{event="fails"}"#), 1.0);

        store.be_unavailable(false);
        let _ = schedule.run_due(noon());
        assert_eq!(Scrape::of(&handle).get(r#"soloist_consecutive_failures{event="fails"}"#), 2.0);
        clock.advance(Duration::from_secs(180));
        let backfill = schedule.backfill("fails", noon()..noon() + TimeDelta::minutes(2), 10).unwrap();
        assert_eq!(backfill.run().failures().count(), 2);
        assert_eq!(Scrape::of(&handle).get(r#"soloist_backfilled_total{event="fails"}"#), 2.0);
        let _ = schedule.run_due(noon() + TimeDelta::minutes(3));
        let scrape = Scrape::of(&handle);
        assert_eq!(scrape.get("soloist_store_unavailable"), 0.0);
        assert_eq!(scrape.get(r#"soloist_consecutive_failures{event="fails"}"#), 0.0);
        assert_eq!(scrape.get(r#"soloist_last_success_timestamp_seconds{event="fails"}"#), 1_772_366_580.0);
    });
}

#[test]
fn each_attempt_after_the_first_of_a_run_is_a_retry() {
    let (recorder, handle) = recorder();
    metrics::with_local_recorder(&recorder, || {
        let schedule = Schedule::in_process().observe(Metrics::new());
        schedule.add(fails("import").retry(Retry::times(2).after(Duration::from_millis(1)))).unwrap();
        assert!(schedule.run_due(noon()).is_failure());
        let scrape = Scrape::of(&handle);
        assert_eq!(scrape.get(r#"soloist_retries_total{event="import"}"#), 2.0);
        assert_eq!(scrape.get(r#"soloist_runs_total{event="import",result="failed"}"#), 1.0);
        assert_eq!(scrape.get(r#"soloist_running{event="import"}"#), 0.0);
    });
}

fn fails(name: &str) -> Event {
    Event::call(name, |_| Err("no paper".into())).every_minute()
}

#[test]
fn the_counts_go_on_when_events_are_added_and_removed_and_where_two_schedules_share_them() {
    let (recorder, handle) = recorder();
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    metrics::with_local_recorder(&recorder, || {
        let metrics = Arc::new(Metrics::new());
        let one = Schedule::new(store.clone()).observe(Arc::clone(&metrics));
        let other = Schedule::new(TestStore::new(&clock)).observe(metrics);
        one.add(fails("bad")).unwrap();
        one.add(Event::call("locked", |_| {}).every_minute().without_overlapping()).unwrap();
        other.add(Event::call("else", |_| {}).every_minute()).unwrap();
        let tick = |schedules: [&Schedule; 2]| {
            for schedule in schedules {
                let _ = schedule.run_due(noon());
            }
            Scrape::of(&handle)
        };
        store.be_unavailable(true);
        let failures = r#"soloist_consecutive_failures{event="bad"}"#;
        for number in [1.0, 2.0, 3.0] {
            let scrape = tick([&one, &other]);
            assert_eq!((scrape.get(failures), scrape.get("soloist_store_unavailable")), (number, 1.0));
            let succeeded = scrape.get(r#"soloist_runs_total{event="else",result="succeeded"}"#);
            assert_eq!(succeeded, number, "what one schedule begins with, the other goes on to count");
            assert_eq!(scrape.get(r#"soloist_runs_total{event="bad",result="failed"}"#), number);
        }

        one.add(Event::call("more", |_| {}).every_minute()).unwrap();
        let scrape = tick([&one, &other]);
        assert_eq!((scrape.get(failures), scrape.get("soloist_store_unavailable")), (4.0, 1.0));
        assert!(one.remove("more") && other.remove("else"));
        other.add(Event::call("else", |_| {}).every_minute()).unwrap();
        let scrape = tick([&other, &one]);
        assert_eq!((scrape.get(failures), scrape.get("soloist_store_unavailable")), (5.0, 1.0));
        assert_eq!(scrape.get(r#"soloist_runs_total{event="more",result="succeeded"}"#), 1.0);
        assert_eq!(scrape.get(r#"soloist_runs_total{event="else",result="succeeded"}"#), 5.0);

        store.be_unavailable(false);
        assert!(one.remove("bad"));
        let scrape = tick([&one, &other]);
        assert_eq!(scrape.get("soloist_store_unavailable"), 0.0);
        assert_eq!(scrape.get(failures), 0.0, "what was removed fails no more");
        one.add(fails("bad")).unwrap();
        assert_eq!(tick([&one, &other]).get(failures), 1.0);
        // Another schedule of this process, with its own metrics on this recorder.
        store.be_unavailable(true);
        assert_eq!(tick([&one, &other]).get("soloist_store_unavailable"), 1.0);
        let third = Schedule::new(TestStore::new(&clock)).observe(Metrics::new());
        third.add(fails("bad")).unwrap();
        assert_eq!(tick([&third, &other]).get("soloist_store_unavailable"), 1.0);
    });
}

/// The scrapes of Prometheus, minute by minute from 1970 on, as in its tests of rules.
struct Timeline {
    clock: ManualClock,
    handle: PrometheusHandle,
    scrapes: Vec<BTreeMap<String, f64>>,
}

impl Timeline {
    /// Reads the metrics, and goes on to the next minute.
    fn end_minute(&mut self) {
        self.scrapes.push(Scrape::of(&self.handle).series);
        let next = minute(self.scrapes.len());
        self.clock.advance((next - self.clock.now()).to_std().expect("a minute of the story takes less"));
    }

    /// Writes a test of the shipped rules with all that was scraped: whether this alert fires at this minute.
    fn rules_test(&self, fires: &[(&str, usize, bool)]) -> String {
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/prometheus/alerts.yml");
        let mut text =
            format!("rule_files: [{rules}]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n");
        let names: BTreeSet<&String> = self.scrapes.iter().flat_map(BTreeMap::keys).collect();
        for name in names.into_iter().filter(|name| !name.contains("_bucket")) {
            let value = |scrape: &BTreeMap<String, f64>| scrape.get(name).map_or("_".to_owned(), f64::to_string);
            let values: Vec<String> = self.scrapes.iter().map(value).collect();
            let of_instance = match name.split_once('{') {
                Some((name, labels)) => format!(r#"{name}{{job="shop",instance="web-1",{labels}"#),
                None => format!(r#"{name}{{job="shop",instance="web-1"}}"#),
            };
            writeln!(text, "      - {{ series: '{of_instance}', values: '{}' }}", values.join(" ")).unwrap();
        }
        text += "    promql_expr_test:\n";
        for (alert, minute, fires) in fires {
            let expr = format!(r#"count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)"#);
            let samples = format!("[{{ labels: '{{}}', value: {} }}]", u8::from(*fires));
            writeln!(text, "      - {{ expr: '{expr}', eval_time: {minute}m, exp_samples: {samples} }}").unwrap();
        }
        text
    }
}

fn minute(number: usize) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::minutes(i64::try_from(number).expect("a small number"))
}

/// Plays the story of one server. Two schedules share its metrics; events are added and removed. The story names
/// the alerts that must fire at each time. Prometheus' own tool judges that, which `tests/alert_rules` fetches and
/// names in `PROMTOOL`.
#[test]
fn each_alert_that_is_shipped_fires_on_what_is_scraped() {
    // The notices of a loop come from another thread. A recorder of this thread alone would not receive them.
    if run_alone("metrics::each_alert_that_is_shipped_fires_on_what_is_scraped", &[]).is_some() {
        return;
    }
    let (recorder, handle) = recorder();
    metrics::set_global_recorder(recorder).expect("this process has no other test");
    let clock = ManualClock::at(minute(0));
    let store = TestStore::new(&clock);
    let timeline = Arc::new(Mutex::new(Timeline { clock: clock.clone(), handle, scrapes: Vec::new() }));
    let shared = Arc::new(Metrics::new());
    let mut fires = Vec::new();
    let one = Schedule::new(store.clone()).observe(Arc::clone(&shared));
    let other = Schedule::new(store.clone()).observe(Arc::clone(&shared));
    let loses = {
        let store = store.clone();
        move |run: &Run| {
            if run.occurrence() == minute(18) {
                store.lose_all();
            }
        }
    };
    let hangs = {
        let timeline = Arc::clone(&timeline);
        move |run: &Run| {
            let minutes = if run.occurrence() == minute(20) { 64 } else { 0 };
            (0..minutes).for_each(|_| timeline.lock().unwrap().end_minute());
        }
    };
    one.add(Event::call("locked", loses).every_minute().without_overlapping()).unwrap();
    other.add(Event::call("import", hangs).every_minute()).unwrap();
    let is_at = || timeline.lock().unwrap().scrapes.len();
    let go_on_to = |one: &Schedule, other: &Schedule, end: usize| {
        while is_at() < end {
            let now = minute(is_at());
            drop((one.run_due(now), other.run_due(now)));
            timeline.lock().unwrap().end_minute();
        }
    };
    // The loop is awake once, and then stands still.
    let beat = |schedule: &Schedule| {
        let shutdown = Shutdown::new();
        let ends = shutdown.clone();
        let first = move |notice: &Notice<'_>| {
            if matches!(notice.step(), Step::LoopAlive) {
                ends.trigger();
            }
        };
        schedule.clone().observe(first).work(&shutdown);
    };

    go_on_to(&one, &other, 6);
    fires.extend([("SoloistAbsent", 2, false), ("SoloistAbsent", 5, true)]);
    beat(&other);
    go_on_to(&one, &other, 11);
    fires.extend([("SoloistAbsent", 7, false), ("SoloistSilent", 8, false), ("SoloistSilent", 10, true)]);

    // Each change in between lets the schedule begin anew.
    one.add(fails("bad")).unwrap();
    go_on_to(&one, &other, 13);
    one.add(Event::call("more", |_| {}).every_minute()).unwrap();
    go_on_to(&one, &other, 15);
    assert!(one.remove("bad"));
    fires.extend([("SoloistFailing", 12, false), ("SoloistFailing", 13, true), ("SoloistFailing", 14, true)]);
    fires.extend([("SoloistFailing", 15, false), ("SoloistStoreUnavailable", 14, false)]);
    store.be_unavailable(true);
    go_on_to(&one, &other, 16);
    assert!(one.remove("more"));
    go_on_to(&one, &other, 18);
    store.be_unavailable(false);
    fires.extend([
        ("SoloistStoreUnavailable", 15, false),
        ("SoloistStoreUnavailable", 17, true),
        ("SoloistStoreUnavailable", 18, false),
    ]);

    go_on_to(&one, &other, 86);
    fires.extend([("SoloistLeaseLost", 17, false), ("SoloistLeaseLost", 19, true), ("SoloistLeaseLost", 40, false)]);
    fires.extend([("SoloistStuck", 70, false), ("SoloistStuck", 82, true), ("SoloistStuck", 84, false)]);
    let rules = include_str!("../../docs/guide/prometheus/alerts.yml");
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(fires.iter().any(|(name, _, fires)| *name == alert && *fires), "{alert} has a part in the story");
    }

    let Some(promtool) = std::env::var_os("PROMTOOL") else { return };
    let folder = tempfile::tempdir().unwrap();
    let test: &Path = &folder.path().join("scraped_test.yml");
    std::fs::write(test, timeline.lock().unwrap().rules_test(&fires)).unwrap();
    let judged = Command::new(promtool).args(["test", "rules"]).arg(test).output().unwrap();
    let said = [judged.stdout, judged.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(judged.status.success(), "{}", said.concat());
}

#[test]
fn each_metric_of_the_guide_is_there_with_its_kind_and_no_other() {
    let (recorder, handle) = recorder();
    // For all threads, since this is the only test that counts on others than its own.
    metrics::set_global_recorder(recorder).expect("no other test does this");
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    {
        let schedule = Schedule::new(store.clone()).observe(Metrics::new());
        let (moved, seen) = (clock.clone(), handle.clone());
        let is_renewed = move |_: &Run| {
            moved.advance(Duration::from_secs(25));
            until(|| Scrape::of(&seen).has("soloist_lease_lowest_remaining_seconds"))
        };
        schedule.add(Event::call("a", is_renewed).every_minute().without_overlapping()).unwrap();
        store.answer_after(Duration::from_millis(1));
        assert!(!schedule.run_due(noon()).is_failure());
        let shutdown = Shutdown::new();
        let ends = shutdown.clone();
        let end_of_the_loop = move |notice: &Notice<'_>| {
            if matches!(notice.step(), Step::LoopAlive) {
                ends.trigger();
            }
        };
        let schedule = Schedule::new(store.clone()).observe(Metrics::new()).observe(end_of_the_loop);
        schedule.add(Event::call("never", |_| {}).yearly()).unwrap();
        schedule.work(&shutdown);
    }
    let scrape = Scrape::of(&handle);
    let told: BTreeMap<String, String> = scrape.kinds.into_iter().collect();
    let missing: BTreeSet<_> = documented().into_iter().filter(|(name, kind)| told.get(name) != Some(kind)).collect();
    assert!(missing.is_empty(), "not told, or of another kind: {missing:?}");
    let documented = documented();
    let others: Vec<_> = told.keys().filter(|name| !documented.contains_key(*name)).collect();
    assert!(others.is_empty(), "not in the book: {others:?}");
}

#[test]
fn the_dashboard_and_the_alerts_use_the_metrics_that_there_are() {
    let documented = documented();
    for (file, text) in [
        ("alerts.yml", include_str!("../../docs/guide/prometheus/alerts.yml")),
        ("soloist.json", include_str!("../../docs/guide/grafana/soloist.json")),
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
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../docs/guide/grafana/soloist.json")).unwrap();
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() >= 8));
}
