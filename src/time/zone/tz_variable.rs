//! The variable `TZ`, which names the machine's own zone: whether it names one.
//!
//! A value that names no zone is refused. It would otherwise be taken for `/etc/localtime`, or for UTC.

use std::ffi::OsString;

use chrono::FixedOffset;
use tz::{LocalTimeType, TimeZone, TimeZoneSettings};

/// Where zones are looked for.
pub(super) const FOLDERS: [&str; 4] =
    ["/usr/share/zoneinfo", "/share/zoneinfo", "/etc/zoneinfo", "/usr/share/lib/zoneinfo"];

/// What `TZ` is, where it is set to something that names no zone. Windows has no such variable.
pub(super) fn of_no_zone() -> Option<OsString> {
    let value = std::env::var_os("TZ").filter(|_| cfg!(unix))?;
    let names_a_zone = value.to_str().is_some_and(names_a_zone);
    (!names_a_zone).then_some(value)
}

fn names_a_zone(value: &str) -> bool {
    // A machine without /etc/localtime is in UTC, and needs no `TZ` for that. The others mean UTC also where no zone has
    // a file.
    if ["", "localtime", "UTC", "Etc/UTC", "UTC0", "GMT"].contains(&value) {
        return true;
    }
    zone_of(value).is_some()
}

/// Returns the zone that a value of `TZ` names.
pub(super) fn zone_of(value: &str) -> Option<TimeZone> {
    let zone = TimeZoneSettings::new(&FOLDERS, TimeZoneSettings::DEFAULT_READ_FILE_FN).parse_posix_tz(value).ok()?;
    zone.as_ref().local_time_types().iter().all(is_usual).then_some(zone)
}

/// POSIX has no name of fewer than three letters, and `chrono` no offset of a day.
fn is_usual(kind: &LocalTimeType) -> bool {
    kind.time_zone_designation().len() >= 3 && FixedOffset::east_opt(kind.ut_offset()).is_some()
}
