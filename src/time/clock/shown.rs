//! Instants and lengths of time as they are shown.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

/// An instant as programs read it: `2026-03-01T12:00:00Z`, with a fraction where it has one.
pub(crate) struct Rfc3339(pub(crate) DateTime<Utc>);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}

/// A length of time as people say it, in its two largest units.
pub(crate) struct Rough(pub(crate) Duration);

impl fmt::Display for Rough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
        match seconds {
            0..60 => write!(f, "{seconds}s"),
            60..3600 => write!(f, "{minutes}min {}s", seconds % 60),
            3600..86_400 => write!(f, "{hours}h {minutes}min"),
            _ => write!(f, "{days}d {hours}h"),
        }
    }
}
