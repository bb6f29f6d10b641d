//! The value of a key: `v1 OWNER token=N term=MS since=INSTANT pid=N for=OCCURRENCE host=TEXT`. Without an occurrence,
//! `for=` is left out. `TEXT` is the rest of the value, as in `web-1 instance=blue app=shop (the table is migrated)`.

use std::fmt::Write;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::base::escape::Quoted;
use crate::lease::holder::Holder;
use crate::lease::label::{Label, text_of_this_process};
use crate::lease::{owner::Owner, term::Term, token::FencingToken};
use crate::store::server::server_clock::instant;
use crate::time::clock::wall_plus;

/// The format: the first word of each entry and of each line of a log.
pub(super) const FORMAT: &str = "v1";

/// The beginning of the text that the scripts return in place of an entry if the value of a key is not a text, but a
/// list, for example. The key comes after this beginning.
const NO_TEXT: &str = "no text at ";

/// Returns the beginning of an entry: the format and the owner, with a space behind each.
pub(super) fn beginning_of_entry(owner: Owner) -> String {
    let mut beginning = String::with_capacity(64);
    let _ = write!(beginning, "{FORMAT} {owner} "); // Writing to a text never fails.
    beginning
}

/// Returns the last part of an entry, which follows the owner, the token and the term. This part has the time of the
/// grant, the process id, the occurrence, and the text about this process. `since` is the server's time as this process
/// estimates it.
pub(super) fn held_since(since: DateTime<Utc>, occurrence: Option<DateTime<Utc>>, label: Option<&Label>) -> String {
    let since = since.to_rfc3339_opts(SecondsFormat::Millis, true);
    let mut entry = String::with_capacity(160);
    // Writing to a text never fails.
    let _ = write!(entry, " since={since} pid={}", std::process::id());
    if let Some(occurrence) = occurrence {
        let _ = write!(entry, " for={occurrence:?}");
    }
    let _ = write!(entry, " host={}", text_of_this_process(label));
    entry
}

/// Reads the holder from an entry, whose key expires `left_ms` milliseconds after `now`. Returns the reason as the
/// error if the entry can't be read.
pub(super) fn holder(entry: &[u8], left_ms: i64, now: DateTime<Utc>) -> Result<Holder, String> {
    let entry = String::from_utf8_lossy(entry);
    parsed(behind_format(&entry)?, left_ms, now)
        .ok_or_else(|| format!("{} is not an entry that soloist wrote", Quoted::new(&entry)))
}

/// Returns the text behind the format, or the reason why the text can't be read.
pub(super) fn behind_format(text: &str) -> Result<&str, String> {
    text.strip_prefix(FORMAT).and_then(|rest| rest.strip_prefix(' ')).ok_or_else(|| {
        if let Some(key) = text.strip_prefix(NO_TEXT) {
            return format!("the value at the key {} is no text: delete that key", Quoted::new(key));
        }
        format!(
            "{} does not begin with {FORMAT}, the format that this version of soloist knows: update this program, or give it a \
             prefix of its own",
            Quoted::new(text)
        )
    })
}

fn parsed(entry: &str, left_ms: i64, now: DateTime<Utc>) -> Option<Holder> {
    let (owner, rest) = entry.split_once(' ')?;
    let (rest, host) = rest.split_once(" host=")?;
    let field = |name: &str| rest.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let token = FencingToken::new(field("token")?.parse().ok()?);
    let instant = |name| DateTime::parse_from_rfc3339(field(name)?).ok().map(|instant| instant.to_utc());
    let since = instant("since")?;
    // If the key does not expire, the holder's deadline is the longest term after `now`.
    let left = u64::try_from(left_ms).map_or(Term::MAX.get(), Duration::from_millis);
    let holder = Holder::new(owner.parse().ok()?, token, host, since, wall_plus(now, left));
    Some(holder.with_occurrence(instant("for")).seen_at(now))
}

/// Returns the time from the grant of an entry until `now`, or `None` if the entry can't be read. The token is the time
/// of the grant in microseconds. If the clock was set back, the token may be later than `now`. In this case, the time
/// of the grant is taken from the entry's `since=`.
pub(super) fn held_for(entry: &[u8], now: DateTime<Utc>) -> Option<Duration> {
    let holder = holder(entry, 0, now).ok()?;
    let granted = i64::try_from(holder.token().get()).map_or(DateTime::<Utc>::MAX_UTC, instant);
    let since = if granted <= now { granted } else { holder.since() };
    Some((now - since).to_std().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::label::this_host;

    #[test]
    fn an_entry_is_read_back_and_nothing_else_is() {
        let now = DateTime::from_timestamp(1_772_366_400, 0).unwrap();
        let owner = Owner::unique();
        let (application, reason) = (Some("my shop".into()), Some("host=a b".into()));
        let label = Label { application, reason, ..Label::default() };
        let entry = format!("v1 {owner} token=17 term=2000{}", held_since(now, Some(now), Some(&label)));
        let holder_of = |entry: &str| holder(entry.as_bytes(), 1_500, now).ok();
        let read = holder_of(&entry).unwrap();
        assert_eq!((read.owner(), read.token().get(), read.since()), (owner, 17, now));
        assert_eq!(read.occurrence(), Some(now));
        assert_eq!((read.host(), read.until()), (&*this_host(), now + Duration::from_millis(1_500)));
        assert_eq!((read.application(), read.reason()), (Some("my shop"), Some("host=a b")));
        assert_eq!(holder(entry.as_bytes(), -1, now).unwrap().until(), now + Term::MAX.get());
        for wrong in ["", "1", "v1", &entry[4..], &entry.replace("token", "t"), &entry.replace("since=", "since=x")] {
            assert_eq!(holder_of(wrong), None, "{wrong}");
        }
        let later = entry.replacen("v1", "v10", 1);
        let why = holder(later.as_bytes(), 1_500, now).unwrap_err();
        assert!(why.contains("does not begin with v1, the format that this version of soloist knows"), "{why}");
    }

    #[test]
    fn a_token_that_is_ahead_of_the_clock_does_not_say_for_how_long_a_name_was_taken() {
        let now = DateTime::from_timestamp(1_772_366_400, 0).unwrap();
        let since = now - Duration::from_secs(5);
        let held_for = |token: i64| {
            held_for(
                format!("v1 {} token={token} term=9{}", Owner::unique(), held_since(since, None, None)).as_bytes(),
                now,
            )
        };
        assert_eq!(held_for(now.timestamp_micros() - 7_000_001), Some(Duration::from_micros(7_000_001)));
        assert_eq!(held_for(now.timestamp_micros() + 1), Some(Duration::from_secs(5)));
        assert_eq!(crate::store::redis::stored_holder::held_for(b"1", now), None);
    }
}
