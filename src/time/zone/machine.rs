//! The machine's own zone. Its name comes from the variable `TZ` or from the file `/etc/localtime`.
//!
//! `chrono` alone is not enough, because it does not notice an update of the system's time zones. `chrono` notices a
//! change of the link `/etc/localtime` or of the text of `TZ`, but not a change of the files with the rules. So it
//! keeps the old rules until the process ends. If `TZ` names no zone, `chrono` silently uses `/etc/localtime` or UTC.

use std::cell::RefCell;
use std::env;
use std::ffi::OsString;
use std::time::Duration;

use chrono::{DateTime, FixedOffset, Offset as _, Utc};
use tz::{LocalTimeType, TimeZone, TimeZoneSettings};

use crate::base::escape::Quoted;
use crate::time::clock::{Clock, moment::Moment};

/// The folders that are searched for the files of zones.
const FOLDERS: [&str; 4] = ["/usr/share/zoneinfo", "/share/zoneinfo", "/etc/zoneinfo", "/usr/share/lib/zoneinfo"];

/// The values of `TZ` that mean UTC even on a system without zone files.
const MEANS_UTC: [&str; 5] = ["", "UTC", "Etc/UTC", "UTC0", "GMT"];

/// The time for which the rules are used before they are read again.
const USED_FOR: Duration = Duration::from_secs(1);

/// The rules of the zone. `None`: the zone is UTC, because there is no file, or the file can't be read.
type Rules = Option<TimeZone>;

thread_local! {
    /// The rules, and the time when they were read. Each thread has its own rules. So a child made by `fork` never
    /// waits for a lock of another thread.
    static RULES: RefCell<Option<(Moment, Rules)>> = const { RefCell::new(None) };
}

/// Returns the offset of the machine's own clocks from UTC.
pub(super) fn offset_at(instant: DateTime<Utc>) -> FixedOffset {
    RULES.with_borrow_mut(|known| {
        let now = Clock::system().moment();
        // If the file can't be read now, for example because too many files are open, the rules stay as they were.
        let before = known.take_if(|(read, _)| now.since(*read) >= USED_FOR).and_then(|(_, rules)| rules);
        let (_, rules) = known.get_or_insert_with(|| (now, read().unwrap_or_default().or(before)));
        let kind = rules.as_ref().and_then(|rules| kind_at(rules, instant.timestamp()));
        kind.map(LocalTimeType::ut_offset).and_then(FixedOffset::east_opt).unwrap_or(Utc.fix())
    })
}

/// Checks that `TZ`, if it is set, names a zone. The error says what to do.
pub(super) fn check() -> Result<(), String> {
    let Err(value) = read() else { return Ok(()) };
    Err(format!(
        "the machine's own zone is not known: the variable TZ is {}, which is neither a zone in {} nor a rule such as \
         `CET-1CEST,M3.5.0,M10.5.0/3`: correct TZ, install the system's time zones (the package tzdata), or name the \
         zone in `timezone(..)` instead of `local`",
        Quoted::new(&value.to_string_lossy()),
        FOLDERS[0]
    ))
}

/// Reads the rules. If `TZ` names no zone, the error is the value of `TZ`.
fn read() -> Result<Rules, OsString> {
    let settings = TimeZoneSettings::new(&FOLDERS, TimeZoneSettings::DEFAULT_READ_FILE_FN);
    let named = |name: &str| settings.parse_posix_tz(name).ok();
    let of_the_machine = || named("localtime");
    let Some(value) = env::var_os("TZ") else { return Ok(of_the_machine()) };
    match value.to_str() {
        // If there is no file `/etc/localtime`, the zone is UTC.
        Some("localtime" | ":localtime") => Ok(of_the_machine()),
        Some(name) => match named(name).filter(is_usual) {
            None if !MEANS_UTC.contains(&name) => Err(value),
            rules => Ok(rules),
        },
        None => Err(value),
    }
}

/// Returns whether the abbreviations have at least three letters, as POSIX demands, and whether the offsets are less
/// than a day, as `chrono` demands.
fn is_usual(rules: &TimeZone) -> bool {
    let mut kinds = rules.as_ref().local_time_types().iter();
    kinds.all(|kind| kind.time_zone_designation().len() >= 3 && FixedOffset::east_opt(kind.ut_offset()).is_some())
}

fn kind_at(rules: &TimeZone, second: i64) -> Option<&LocalTimeType> {
    rules.find_local_time_type(second).ok().or_else(|| {
        // The zone has no rule for the time after its last clock change, so the offset since that change stays.
        let rules = rules.as_ref();
        rules.local_time_types().get(rules.transitions().last()?.local_time_type_index())
    })
}
