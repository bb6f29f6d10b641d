//! The log of the example `worker`.

use std::path::Path;

use serde_json::Value;

/// A line of a log. Not every test reads all fields.
#[allow(dead_code)]
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// In nanoseconds since 1970.
    pub(crate) at: u64,
    pub(crate) event: String,
    pub(crate) what: String,
    pub(crate) occurrence: String,
    pub(crate) token: Option<u64>,
    /// With `at_most`.
    pub(crate) slot: Option<usize>,
    pub(crate) late_ms: Option<u64>,
    pub(crate) reason: Option<String>,
    pub(crate) holder: Option<String>,
    pub(crate) text: Option<String>,
    /// When the lease was lost, on the clock of `at`.
    pub(crate) lost_at: Option<u64>,
}

pub(crate) fn read(log: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        Line {
            at: value["at"].as_u64().expect("every line has a time"),
            event: text("event").expect("every line has its event"),
            what: text("what").expect("every line says what"),
            occurrence: text("occurrence").expect("every line has its occurrence"),
            token: value["token"].as_u64(),
            slot: value["slot"].as_u64().and_then(|slot| slot.try_into().ok()),
            late_ms: value["late_ms"].as_u64(),
            reason: text("reason"),
            holder: text("holder"),
            text: text("text"),
            lost_at: value["lost_at"].as_u64(),
        }
    };
    // The last line may be half-written.
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(line).collect()
}
