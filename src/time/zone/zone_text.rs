//! The text of a zone: its parser, and the error for a text that is not a zone, with advice on what to write instead.

use std::convert::Infallible;
use std::str::FromStr;

use chrono::{FixedOffset, NaiveTime, Timelike as _};

use super::Zone;
#[cfg(feature = "tzdata")]
use super::{Kind, named::NamedZone};
use crate::base::{error::debug_as_display, escape::Quoted, similar::differs_by_a_letter, similar::quoted};

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

/// The error for a text that names no known zone.
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

const ANY_ZONE: &str = if cfg!(feature = "tzdata") {
    "a name such as `Europe/Berlin`, `UTC`, `local`, or an offset such as `+02:00`"
} else {
    "`UTC`, `local`, or an offset such as `+02:00` (names such as `Europe/Berlin` need the feature `tzdata`, which is off)"
};

const OF_NAMES: &str = "; a zone has the name of one large city in it: `timedatectl list-timezones` lists the names";

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
    #[cfg(feature = "chrono-tz")]
    fn a_type_of_chrono_tz_is_the_zone_of_its_name() {
        assert_eq!(Zone::try_from(chrono_tz::Tz::UTC), Ok(Zone::UTC));
        assert_ne!(Zone::try_from(chrono_tz::Tz::Etc__UTC), Ok(Zone::UTC));
        assert_eq!(Zone::try_from(chrono_tz::Europe::Berlin), "Europe/Berlin".parse());
    }
}
