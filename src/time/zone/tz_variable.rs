//! The variable `TZ`, which names the machine's own zone: whether it names one.
//!
//! What `chrono` can't read there it takes for `/etc/localtime` or for UTC, and tells nobody. `tz-rs` reads it as `chrono`
//! does, whose code was made from it, and tells.

use std::ffi::OsString;

use chrono::FixedOffset;
use tz::{LocalTimeType, TimeZoneSettings};

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
    let zone = TimeZoneSettings::new(&FOLDERS, TimeZoneSettings::DEFAULT_READ_FILE_FN).parse_posix_tz(value);
    zone.is_ok_and(|zone| zone.as_ref().local_time_types().iter().all(is_known_to_chrono))
}

/// `chrono` takes no name of fewer than three letters, and no offset of a day.
fn is_known_to_chrono(kind: &LocalTimeType) -> bool {
    kind.time_zone_designation().len() >= 3 && FixedOffset::east_opt(kind.ut_offset()).is_some()
}
