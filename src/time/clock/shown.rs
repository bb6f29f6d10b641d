//! The formats of instants and durations in messages and logs.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

/// An instant for programs, in the format of RFC 3339: `2026-03-01T12:00:00Z`, with a fraction if it is not zero.
pub(crate) struct Rfc3339(pub(crate) DateTime<Utc>);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}

/// Formats an instant for people: `2026-03-01 12:00:00 UTC`.
pub(crate) fn for_people(instant: DateTime<Utc>) -> String {
    instant.format("%F %T UTC").to_string()
}

/// A duration as a user writes it in an option, without rounding: `90s`, `5m`, `1500ms`.
pub(crate) struct ExactDuration(pub(crate) Duration);

impl fmt::Display for ExactDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u128, &str); 6] = [
            (86_400_000_000_000, "d"),
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
        ];
        if self.0 == Duration::MAX {
            return f.write_str("Duration::MAX");
        }
        let nanos = self.0.as_nanos();
        match UNITS.iter().find(|(unit, _)| nanos > 0 && nanos.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", nanos / unit),
            None if nanos == 0 => f.write_str("0s"),
            None => write!(f, "{nanos}ns"),
        }
    }
}

/// A duration in a readable form, rounded down: `950 µs`, `12 ms`, `1.5 s`, `2 min 5 s`, `1 h 30 min`, `2 d 2 h`.
pub(crate) struct HumanDuration(pub(crate) Duration);

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.as_millis());
        match seconds {
            _ if millis == 0 => write!(f, "{} µs", self.0.as_micros()),
            0 => write!(f, "{millis} ms"),
            1..60 => write!(f, "{seconds}.{} s", self.0.subsec_millis() / 100),
            60..3600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            3600..86_400 => write!(f, "{} h {} min", seconds / 3600, seconds % 3600 / 60),
            _ => write!(f, "{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_duration_reads_as_it_was_typed() {
        let cases = [
            (Duration::ZERO, "0s"),
            (Duration::from_secs(90), "90s"),
            (Duration::from_secs(300), "5m"),
            (Duration::from_secs(2 * 3600), "2h"),
            (Duration::from_secs(366 * 86_400), "366d"),
            (Duration::from_millis(1500), "1500ms"),
            (Duration::from_micros(7), "7us"),
            (Duration::from_nanos(1_001), "1001ns"),
        ];
        for (duration, text) in cases {
            assert_eq!(ExactDuration(duration).to_string(), text);
        }
    }

    #[test]
    fn a_duration_reads_as_a_person_says_it() {
        let cases = [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_000, "1 ms"),
            (999_999, "999 ms"),
            (1_000_000, "1.0 s"),
            (59_990_000, "59.9 s"),
            (60_000_000, "1 min 0 s"),
            (3_599_000_000, "59 min 59 s"),
            (90 * 60_000_000, "1 h 30 min"),
            (50 * 60 * 60_000_000, "2 d 2 h"),
        ];
        for (micros, text) in cases {
            assert_eq!(HumanDuration(Duration::from_micros(micros)).to_string(), text);
        }
    }
}
