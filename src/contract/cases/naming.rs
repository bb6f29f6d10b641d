//! Cases of odd names: names that differ in a single byte are different names.

use std::collections::HashSet;

use chrono::{DateTime, TimeDelta};

use crate::contract::harness::Harness;
use crate::contract::subject::{Subject, lease, occurrence};
use crate::lease::{name::MutexName, request::Lease};

/// Names that some stores confuse with one another.
#[rustfmt::skip] // Each block has one kind of hazard.
pub(super) const ODD: &[&str] = &[
    // Upper and lower case in several alphabets, and characters that look or sort alike.
    "name", "Name", "NAME", "stra\u{df}e", "strasse", "STRASSE", "stra\u{1e9e}e", "i", "I", "\u{130}", "\u{131}",
    "\u{3c3}", "\u{3c2}", "k", "\u{212a}", "\u{ff4e}ame", "\u{fb01}", "fi", "\u{1f600}", "\u{1f601}",
    // The Unicode normal forms of one text, and characters without a width.
    "caf\u{e9}", "cafe\u{301}", "cafe", "\u{c5}", "\u{212b}", "A\u{30a}", "na\u{ad}me", "na\u{200b}me",
    "na\u{200d}me", "\u{feff}name", "\u{202e}name",
    // White space, and characters that end a line or a text.
    "", "name ", "name  ", " name", "name\t", "name\n", "name\r", "name\r\n", "name\u{a0}", "na\nme", "na\0me",
    "name\0", "name\0\0", "\0", "name\\0", "name\u{7f}", "name\u{1b}[2J",
    // Characters with a meaning in paths, patterns, keys or SQL statements.
    "/", "//", "name/", "/name", "a/b", "a%2Fb", "a%2fb", "a%252Fb", "%", "%%", "%s", "%00", "{", "}", "{}",
    "{name}", "{name", "name}", ".", "..", "../name", "name/..", "a\\b", "*", "?", "[n]ame", "n_me", "n%me", ":",
    "name:1", "'", "''", "\"", "`", "';--", "$1", "#", "&", "|", "~", "-", "--", "lease", "lease/name",
    "claim/name", "NULL", "0", "00", "0e0", "1", "1.0", "true",
];

pub(super) fn one_name_has_nothing_to_do_with_another<H: Harness>(subject: &Subject<H>) {
    let (one, other) = (subject.name("one"), subject.name("other"));
    let held = subject.create(&one);
    subject.is_free(&other, "a name is free while another name is held");
    let other_held = subject.create(&other);
    subject.releases(&held);
    subject.is_held_by(&other_held, "a name is held although another was released");
    let held = subject.create(&one);
    subject.releases(&other_held);
    subject.is_held_by(&held, "a name is held although another was released");
    subject.releases(&held);
}

pub(super) fn odd_names_are_all_different_and_all_work<H: Harness>(subject: &Subject<H>) {
    let mut names: Vec<MutexName> = ODD.iter().map(|ending| subject.name(ending)).collect();
    names.push(lease(own_wide_character(&subject.run)));
    all_are_held_at_once(subject, &names);
}

pub(super) fn a_lease_and_a_claim_never_collide<H: Harness>(subject: &Subject<H>) {
    let at = occurrence(0);
    let (a, b) = (subject.name("a"), subject.name("b"));
    let claim = a.claim("a", at);
    let texts = |text: String| {
        let bare = text.trim_start_matches("claim/").to_owned();
        [text.replace('/', ":"), bare, text].map(lease)
    };
    let mut names = vec![
        claim.clone(),
        a.claim("A", at),
        a.claim("a ", at),
        a.claim("b", at),
        b.claim("a", at),
        a.claim("a", at + TimeDelta::nanoseconds(1)),
        a.claim("a", at + TimeDelta::microseconds(1)),
        a.claim("a", at + TimeDelta::milliseconds(1)),
        a.claim("a", at + TimeDelta::seconds(1)),
        a.claim("a", at - TimeDelta::seconds(1)),
        a.claim("a", at + TimeDelta::days(36_525)),
        a.claim("a/b", at),
        subject.name("a/a").claim("b", at),
        subject.name("a%2Fa").claim("b", at),
        subject.name("a").claim("a%2Fb", at),
        a.claim("a\0b", at),
        a.claim("a\n", at),
        a.claim("{a}", at),
        a.claim(format!("a/{at:?}"), DateTime::UNIX_EPOCH + TimeDelta::days(1)),
        subject.name("a/a"),
        subject.name("a:a"),
    ];
    // Leases with names that equal the text of a claim, or parts of that text.
    names.extend(texts(claim.to_string()));
    names.extend([a, b]);
    all_are_held_at_once(subject, &names);
}

pub(super) fn a_permit_collides_with_nothing_else<H: Harness>(subject: &Subject<H>) {
    let at = occurrence(0);
    let (a, b) = (subject.name("a"), subject.name("b"));
    let permit = a.permit("a", "day@1970-01-01T00:00:00+00:00");
    let text = permit.to_string();
    let mut names = vec![
        permit,
        a.permit("a", "day@1970-01-02T00:00:00+00:00"),
        a.permit("a", "day@1970-01-01T00:00:00+01:00"),
        a.permit("a", "week@1970-01-01T00:00:00+00:00"),
        a.permit("a", "Day@1970-01-01T00:00:00+00:00"),
        a.permit("a", "day@1970-01-01T00:00:00+00:00 "),
        a.permit("b", "day@1970-01-01T00:00:00+00:00"),
        a.permit("A", "day@1970-01-01T00:00:00+00:00"),
        b.permit("a", "day@1970-01-01T00:00:00+00:00"),
        // A claim on an occurrence, and permits whose periods look like the text of this occurrence in a store.
        a.claim("a", at),
        a.permit("a", "1970-01-01T00:00:00Z"),
        a.permit("a", at.to_rfc3339()),
        a.permit("a", format!("{at}")),
        a.permit("a", at.timestamp().to_string()),
        a.permit("a", "a/1970-01-01T00:00:00Z"),
        a.claim("day@1970-01-01T00:00:00+00:00", at),
        // Markers whose texts equal the period of a permit, or are similar.
        a.mark("a", "day@1970-01-01T00:00:00+00:00"),
        a.mark("a", "day@1970-01-01T00:00:00+00:00 "),
        a.mark("b", "day@1970-01-01T00:00:00+00:00"),
        b.mark("a", "day@1970-01-01T00:00:00+00:00"),
        a.mark("a", "1970-01-01T00:00:00Z"),
        a.mark("b", "c/d"),
        a.mark("", ""),
        // Names that would be equal if a store joined their parts without a clear separator.
        a.permit("b", "c/d"),
        a.permit("b/c", "d"),
        a.permit("b%2Fc", "d"),
        subject.name("a/b").permit("c", "d"),
        a.permit("", "b"),
        a.permit("b", ""),
        a.permit("", ""),
        a.permit("b", "\0"),
        a.permit("b", "%"),
        a.permit("b", "{}"),
        a.permit("b", "\u{e9}"),
        a.permit("b", "e\u{301}"),
    ];
    names.extend([text.replace('/', ":"), text.trim_start_matches("permit/").to_owned(), text].map(lease));
    names.extend([a, b]);
    all_are_held_at_once(subject, &names);
}

pub(super) fn the_longest_names_are_told_apart_at_their_last_character<H: Harness>(subject: &Subject<H>) {
    let prefix = |chars: usize, fill: char| -> String {
        subject.run.chars().chain(std::iter::repeat(fill)).take(chars).collect()
    };
    let wide: String = subject.run.bytes().map(wide_character).collect();
    let wide = |last: char| -> String {
        let fill = std::iter::repeat('\u{1f600}');
        wide.chars().chain(fill).take(MutexName::MAX_CHARS - 1).chain([last]).collect()
    };
    let mut names: Vec<MutexName> = ["", "a", "b", "a ", "aa"].map(|last| lease(prefix(500, 'x') + last)).into();
    names.extend(["a", "b", "\0", " "].map(|last| lease(prefix(MutexName::MAX_CHARS - 1, 'x') + last)));
    names.push(lease(prefix(MutexName::MAX_CHARS, '%')));
    names.extend(['\u{1f600}', '\u{1f601}', '\u{10ffff}'].map(|last| lease(wide(last))));
    let longest = lease(wide('\u{1f602}'));
    for last in ['\u{1f600}', '\u{1f601}'] {
        names.extend([0, 1].map(|number| longest.claim(wide(last), occurrence(number))));
        // The text by which a schedule identifies the period of a permit has at most 128 characters.
        names.extend(['a', 'b'].map(|end| longest.permit(wide(last), "\u{1f600}".repeat(127) + &end.to_string())));
    }
    names.push(longest);
    all_are_held_at_once(subject, &names);
}

/// Checks that each name is granted while the other names are held, and that it stays held until it is released.
fn all_are_held_at_once<H: Harness>(subject: &Subject<H>, names: &[MutexName]) {
    let different: HashSet<&MutexName> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "the suite lists a name twice");
    let leases: Vec<Lease> = names
        .iter()
        .map(|name| {
            subject.is_free(name, "a name is free while similar names are held");
            subject.create(name)
        })
        .collect();
    for lease in &leases {
        subject.is_held_by(lease, "a name is held while similar names are held");
        subject.is_refused(lease.name());
    }
    for (at, lease) in leases.iter().enumerate() {
        subject.releases(lease);
        subject.is_free(lease.name(), "a name that was released is free although similar names are held");
        // Names that are near each other in the list are the most similar.
        for other in leases[at + 1..].iter().take(4) {
            subject.is_held_by(other, "a name stays held although a similar name was released");
        }
    }
}

/// Maps a byte to a character that has four bytes in UTF-8.
fn wide_character(byte: u8) -> char {
    char::from_u32(0x1f300 + u32::from(byte)).expect("the plane of pictographs has no gaps")
}

/// Returns a name of one character, which has four bytes. All other names of the case begin with `run`, but a single
/// character has no room for `run`. So the character is made from a hash of `run`: most likely, no other case uses this
/// character at the same time.
fn own_wide_character(run: &str) -> String {
    let hash = run.bytes().fold(0xcbf2_9ce4_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let private_use = char::from_u32(0x000f_0000 + hash % 0xfffd).expect("a plane of private use has no gaps");
    private_use.to_string()
}
