//! The variable `TZ`, which names the machine's own zone: whether it names one.
//!
//! What `chrono` can't read there it takes for `/etc/localtime` or for UTC, and tells nobody. This reads as `chrono` does.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::Path;

/// Where zones are looked for, and how each file of one begins.
pub(super) const FOLDERS: [&str; 4] =
    ["/usr/share/zoneinfo", "/share/zoneinfo", "/etc/zoneinfo", "/usr/share/lib/zoneinfo"];
const MAGIC: [u8; 4] = *b"TZif";

/// What `TZ` is, where it is set to something that names no zone. Windows has no such variable.
pub(super) fn of_no_zone() -> Option<OsString> {
    let value = std::env::var_os("TZ").filter(|_| cfg!(unix))?;
    let names_a_zone = value.to_str().is_some_and(names_a_zone);
    (!names_a_zone).then_some(value)
}

fn names_a_zone(value: &str) -> bool {
    match value.strip_prefix(':') {
        Some(path) => is_zone_file(path),
        // A machine without /etc/localtime is in UTC, and needs no `TZ` for that.
        None if value.is_empty() || value == "localtime" => true,
        // What it means is what comes of it also where no zone has a file.
        None if ["UTC", "Etc/UTC", "UTC0", "GMT"].contains(&value) => true,
        None => is_zone_file(value) || rule(value.trim_matches(|char: char| char.is_ascii_whitespace())).is_some(),
    }
}

fn is_zone_file(path: &str) -> bool {
    // An absolute path replaces the folder.
    let file = FOLDERS.iter().find_map(|folder| File::open(Path::new(folder).join(path)).ok());
    let mut begins = [0; MAGIC.len()];
    file.is_some_and(|mut file| file.read_exact(&mut begins).is_ok() && begins == MAGIC)
}

/// `CET-1CEST,M3.5.0,M10.5.0/3`: names, offsets, and the days on which clocks change, as POSIX has them.
fn rule(text: &str) -> Option<()> {
    let mut rest = Rest(text);
    rest.name()?;
    rest.offset()?;
    if rest.0.is_empty() {
        return Some(());
    }
    rest.name()?;
    if !rest.0.starts_with(',') {
        rest.offset()?;
    }
    for _ in 0..2 {
        rest.tag(",")?;
        rest.day()?;
    }
    rest.0.is_empty().then_some(())
}

struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn name(&mut self) -> Option<()> {
        let is_quoted = self.tag("<").is_some();
        let belongs = |char: char| match char {
            '+' | '-' | '0'..='9' => is_quoted,
            _ => char.is_ascii_alphabetic(),
        };
        let length = self.0.find(|char| !belongs(char)).unwrap_or(self.0.len());
        self.0 = &self.0[length..];
        if is_quoted {
            self.tag(">")?;
        }
        (3..=7).contains(&length).then_some(())
    }

    fn offset(&mut self) -> Option<()> {
        let _ = self.tag("+").or_else(|| self.tag("-"));
        self.time(23)
    }

    fn time(&mut self, last_hour: u32) -> Option<()> {
        self.number(0..=last_hour)?;
        for _ in 0..2 {
            if self.tag(":").is_some() {
                self.number(0..=59)?;
            }
        }
        Some(())
    }

    fn day(&mut self) -> Option<()> {
        if self.tag("M").is_some() {
            self.number(1..=12)?;
            self.tag(".")?;
            self.number(1..=5)?;
            self.tag(".")?;
            self.number(0..=6)?;
        } else if self.tag("J").is_some() {
            self.number(1..=365)?;
        } else {
            self.number(0..=365)?;
        }
        if self.tag("/").is_some() { self.time(24) } else { Some(()) }
    }

    fn number(&mut self, range: RangeInclusive<u32>) -> Option<()> {
        let length = self.0.find(|char: char| !char.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(length);
        self.0 = rest;
        digits.parse().is_ok_and(|number| range.contains(&number)).then_some(())
    }

    fn tag(&mut self, tag: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(tag)?;
        Some(())
    }
}
