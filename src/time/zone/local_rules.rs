//! The rules of the machine's own zone: those of the file that `TZ` or `/etc/localtime` names, as it is now.
//!
//! `chrono` looks at the link `/etc/localtime` and at the text of `TZ`, and not at the file behind them: after an update of the
//! system's time zones it keeps the old rules until the process ends.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use chrono::{DateTime, FixedOffset, Offset as _, Utc};
use tz::TimeZone;
use tz::timezone::LocalTimeType;

use super::tz_variable::{self, FOLDERS};
use crate::time::clock::{Clock, moment::Moment};

/// The file of a machine without the variable `TZ`.
const LOCALTIME: &str = "/etc/localtime";

/// How long the rules are used before the file is looked at again.
const USED_FOR: Duration = Duration::from_secs(1);

thread_local! {
    /// One for each thread, so that a child made by `fork` never waits for a thread that it does not have.
    static RULES: RefCell<Option<LocalRules>> = const { RefCell::new(None) };
}

/// The rules that were read, and what they were read from.
struct LocalRules {
    checked: Moment,
    source: Source,
    /// `None`: UTC, because there is no such file, or it can't be read.
    rules: Option<TimeZone>,
}

/// The value of `TZ`, and the file that it names.
#[derive(PartialEq)]
struct Source {
    variable: Option<OsString>,
    file: Option<FileVersion>,
}

/// A file as it is now: another one in its place has another number, and a change of it another time.
#[derive(PartialEq)]
struct FileVersion {
    device: u64,
    number: u64,
    changed: (i64, i64),
}

/// Returns how far ahead of UTC the machine's own clocks are.
pub(super) fn offset_at(instant: DateTime<Utc>) -> FixedOffset {
    RULES.with_borrow_mut(|known| {
        let now = Clock::system().moment();
        let rules = match known.take() {
            Some(rules) if now.since(rules.checked) < USED_FOR => rules,
            before => LocalRules::read(before, now),
        };
        known.insert(rules).offset_at(instant)
    })
}

impl LocalRules {
    /// Reads the rules, unless they are those that were read before.
    fn read(before: Option<Self>, now: Moment) -> Self {
        let source = Source::now();
        match before {
            Some(before) if before.source == source => Self { checked: now, ..before },
            _ => {
                // A name that means UTC need not have a file.
                let rules = match source.variable.as_ref().map(|value| value.to_str()) {
                    None | Some(Some("localtime" | ":localtime")) => of_the_machine(),
                    Some(value) => value.and_then(tz_variable::zone_of),
                };
                Self { checked: now, source, rules }
            }
        }
    }

    fn offset_at(&self, instant: DateTime<Utc>) -> FixedOffset {
        let kind = self.rules.as_ref().and_then(|rules| {
            let found = rules.find_local_time_type(instant.timestamp()).ok();
            // A file without a rule for the years after its last change.
            found.or_else(|| {
                let last = rules.as_ref().transitions().last()?.local_time_type_index();
                rules.as_ref().local_time_types().get(last)
            })
        });
        kind.map(LocalTimeType::ut_offset).and_then(FixedOffset::east_opt).unwrap_or(Utc.fix())
    }
}

impl Source {
    fn now() -> Self {
        let variable = std::env::var_os("TZ");
        let name = variable.as_ref().map_or(Some(LOCALTIME), |value| value.to_str());
        let file = name.map(|name| name.strip_prefix(':').unwrap_or(name)).and_then(|name| match name {
            "localtime" => FileVersion::of(LOCALTIME),
            path if path.starts_with('/') => FileVersion::of(path),
            name => FOLDERS.iter().find_map(|folder| FileVersion::of(&format!("{folder}/{name}"))),
        });
        Self { variable, file }
    }
}

impl FileVersion {
    /// Follows links.
    fn of(path: &str) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self { device: file.dev(), number: file.ino(), changed: (file.ctime(), file.ctime_nsec()) })
    }
}

fn of_the_machine() -> Option<TimeZone> {
    TimeZone::from_tz_data(&fs::read(LOCALTIME).ok()?).ok()
}
