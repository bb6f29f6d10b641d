//! An entry in Redis: its key and its value.
//!
//! The key is `{PREFIX}:NAME`, where `NAME` is the text of a [`MutexName`], as in `{soloist}:lease/reports`. Other keys
//! are `{PREFIX}:runs/EVENT` for the log of runs, `{PREFIX}:token`, `{PREFIX}:revoked` and `{PREFIX}:check`. The text in
//! the braces is the [hash tag](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags) of
//! all these keys. So they lie on one slot of a cluster, and one script can use them together.
//!
//! The value is `v1 OWNER token=N term=MS since=INSTANT for=OCCURRENCE host=TEXT`. Without an occurrence, `for=` is left
//! out. `TEXT` is the rest of the value, as in `web-1 instance=blue app=shop (the table is migrated)`.

use std::fmt::{Display, Write};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::base::{error::InvalidOptions, escape::Quoted};
use crate::lease::holder::Holder;
use crate::lease::label::{Label, text_of_this_process};
use crate::lease::name::text::{event_key_text, read_event_key_text};
use crate::lease::{name::MutexName, owner::Owner, term::Term, token::FencingToken};
use crate::store::event_mutex::held::Names;
use crate::store::server::server_clock::instant;
use crate::time::clock::wall_plus;

/// The prefix of all keys, with its braces and the colon.
pub(super) struct Prefix(String);

impl Prefix {
    pub(super) fn new(prefix: &str) -> Result<Self, InvalidOptions> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}');
        let is_valid = !prefix.is_empty() && prefix.len() <= 100 && prefix.bytes().all(plain);
        let what = "the prefix of keys in redis has to be 1 to 100 visible ASCII characters without braces, as in `prefix(\"shop\")` or ?prefix=shop";
        if is_valid { Ok(Self(format!("{{{prefix}}}:"))) } else { Err(InvalidOptions::new(what)) }
    }

    /// Returns the key of a name, such as a lease or a claim.
    pub(super) fn key(&self, name: &MutexName) -> String {
        name.key_text(&self.0)
    }

    /// Returns the key that has this text behind the prefix.
    pub(super) fn with(&self, text: impl Display) -> String {
        format!("{}{text}", self.0)
    }

    /// Returns the key of the log of an event's runs.
    pub(super) fn runs_key(&self, event: &str) -> String {
        self.with(format_args!("runs/{}", event_key_text(event)))
    }

    /// Returns the pattern of `SCAN` for the keys of these leases or markers.
    pub(super) fn pattern_of(&self, names: Names<'_>) -> String {
        beginning_with(&self.with(names.beginning_of_keys()))
    }

    /// Returns the pattern of `SCAN` for the keys of all logs of runs.
    pub(super) fn pattern_of_runs(&self) -> String {
        beginning_with(&self.runs_key(""))
    }

    /// Returns the event whose log of runs has this key.
    pub(super) fn event_at(&self, key: &str) -> Option<String> {
        read_event_key_text(key.strip_prefix(&self.runs_key(""))?)
    }

    /// Returns the lease or the marker that has this key, or `None` if it is another key.
    pub(super) fn name_at(&self, key: &str) -> Option<MutexName> {
        MutexName::read_key_text(key.strip_prefix(&self.with(""))?)
    }
}

/// Returns the pattern of the keys that begin with this text.
fn beginning_with(text: &str) -> String {
    let is_special = |char: &char| matches!(char, '*' | '?' | '[' | ']' | '\\');
    let escaped = text.chars().flat_map(|char| is_special(&char).then_some('\\').into_iter().chain([char]));
    escaped.chain(['*']).collect()
}

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

/// Returns the term of an entry in milliseconds, rounded up.
pub(super) fn millis(term: Term) -> u128 {
    term.get().as_micros().div_ceil(1000)
}

/// Returns the end of an entry, behind the owner, the token and the term: the time of the grant, as this process
/// estimates the server's time; the occurrence; and the text about this process.
pub(super) fn end_of_entry(since: DateTime<Utc>, occurrence: Option<DateTime<Utc>>, label: Option<&Label>) -> String {
    let mut end = String::with_capacity(200);
    // Writing to a text never fails.
    let since = since.to_rfc3339_opts(SecondsFormat::Millis, true);
    let _ = write!(end, " since={since}");
    if let Some(occurrence) = occurrence {
        let _ = write!(end, " for={occurrence:?}");
    }
    let _ = write!(end, " host={}", text_of_this_process(label));
    end
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
        let entry = format!("v1 {owner} token=17 term=2000{}", end_of_entry(now, Some(now), Some(&label)));
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
        let end = end_of_entry(now - Duration::from_secs(5), None, None);
        let held_for =
            |token: i64| super::held_for(format!("v1 {} token={token} term=9{end}", Owner::unique()).as_bytes(), now);
        assert_eq!(held_for(now.timestamp_micros() - 7_000_001), Some(Duration::from_micros(7_000_001)));
        assert_eq!(held_for(now.timestamp_micros() + 1), Some(Duration::from_secs(5)));
        assert_eq!(super::held_for(b"1", now), None);
    }

    #[test]
    fn all_keys_of_a_prefix_share_a_hash_tag_and_are_read_back() {
        let prefix = Prefix::new(r"a*[b]?\:").unwrap();
        let odd = "100% ü}*?[x]\\:{%41";
        let lease = MutexName::lease(odd).unwrap();
        let (key, runs) = (prefix.key(&lease), prefix.runs_key(odd));
        assert_eq!(key, r"{a*[b]?\:}:lease/100%25%20%C3%BC%7D*?[x]%5C:%7B%2541");
        assert_eq!([prefix.with("token"), prefix.runs_key("a/b")], [r"{a*[b]?\:}:token", r"{a*[b]?\:}:runs/a%2Fb"]);
        assert_eq!((prefix.name_at(&key), prefix.event_at(&runs).as_deref()), (Some(lease), Some(odd)));
        for other in [&runs, &key[1..], ""] {
            assert_eq!(prefix.name_at(other), None, "{other}");
        }
        assert_eq!(prefix.event_at(&key), None);
        assert_eq!(prefix.pattern_of(Names::MarksOf("a")), r"{a\*\[b\]\?\\:}:mark/a/*");
        assert_eq!(prefix.pattern_of(Names::LeasesWithPrefix("ü*/")), r"{a\*\[b\]\?\\:}:lease/%C3%BC\*%2F*");
        assert_eq!(prefix.pattern_of_runs(), r"{a\*\[b\]\?\\:}:runs/*");
    }

    #[test]
    fn a_prefix_leaves_the_braces_to_the_hash_tag() {
        for wrong in ["", "{app}:", "a b", "ü", &"x".repeat(101)] {
            assert!(Prefix::new(wrong).is_err(), "{wrong}");
        }
    }
}
