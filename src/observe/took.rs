//! A duration as people read it.

use std::fmt;
use std::time::Duration;

/// A duration as a person says it: `950 µs`, `12 ms`, `1.5 s`, `2 min 5 s`, `1 h 30 min`.
pub(crate) struct Took(pub(crate) Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.as_millis());
        match seconds {
            _ if millis == 0 => write!(f, "{} µs", self.0.as_micros()),
            0 => write!(f, "{millis} ms"),
            1..60 => write!(f, "{seconds}.{} s", self.0.subsec_millis() / 100),
            60..3600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            _ => write!(f, "{} h {} min", seconds / 3600, seconds % 3600 / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ];
        for (micros, text) in cases {
            assert_eq!(Took(Duration::from_micros(micros)).to_string(), text);
        }
    }
}
