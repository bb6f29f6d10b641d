//! The text of an expression: the oracle, which follows cronie's manual page, decides whether it is refused and
//! when it is due.

use std::fmt::Write;

use chrono::{DateTime, Datelike, TimeDelta, Utc};
use fastrand::Rng;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use soloist::{Event, Schedule};

use super::Rounds;
use crate::crontab::{Oracle, Writer};

/// The longest text that may be accepted.
const LONGEST: usize = 1_000;

/// Pieces that are errors in a text, or look like errors.
const PIECES: [&str; 44] = [
    "*",
    "/",
    "-",
    ",",
    " ",
    "\t",
    "0",
    "1",
    "7",
    "8",
    "24",
    "31",
    "60",
    "00",
    "007",
    "255",
    "256",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "99999999999999999999999999",
    "sun",
    "SAT",
    "jan",
    "Dec",
    "L",
    "l",
    "~",
    "?",
    "#",
    "W",
    "+",
    "-1",
    "@daily",
    "@reboot",
    "@",
    "\n",
    "\r",
    "\0",
    "\u{a0}",
    "\u{feff}",
    "é",
    "٣",
    "😀",
];

/// Generates a valid expression with some pieces added, removed or exchanged.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (any::<Index>(), 0_usize..3, select(&PIECES[..]));
    (any::<u64>(), vec(edit, 0..4)).prop_map(|(seed, edits)| {
        let mut text: Vec<String> = Writer(Rng::with_seed(seed)).expression().chars().map(String::from).collect();
        for (at, replaced, piece) in edits {
            let at = at.index(text.len() + 1);
            let end = text.len().min(at + replaced);
            text.splice(at..end, [piece.to_owned()]);
        }
        text.concat()
    })
}

/// Generates about five fields, put together from pieces.
fn assembled() -> impl Strategy<Value = String> {
    let field = vec(select(&PIECES[..]), 1..4).prop_map(|pieces| pieces.concat());
    vec(field, 3..7).prop_map(|fields| fields.join(" "))
}

/// Generates one piece, repeated.
fn long() -> impl Strategy<Value = String> {
    (select(&PIECES[..]), 1_usize..2_000, " \\* \\* \\* \\*")
        .prop_map(|(piece, times, rest)| piece.repeat(times) + &rest)
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![6 => mutated(), 3 => assembled(), 1 => long(), 1 => any::<String>(), 1 => "[ -~]{0,40}"]
}

/// Generates instants to search from, in seconds of the Unix epoch; the ends of time are among them.
fn instants() -> impl Strategy<Value = DateTime<Utc>> {
    let ends = [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC, DateTime::UNIX_EPOCH];
    prop_oneof![
        8 => (0_i64..4_102_444_800).prop_map(|seconds| DateTime::from_timestamp(seconds, 0).expect("before 2100")),
        1 => select(ends.to_vec()),
        1 => (0_i64..10_000_000).prop_map(|seconds| DateTime::<Utc>::MAX_UTC - TimeDelta::seconds(seconds)),
    ]
}

#[track_caller]
fn judge(text: &str, zone: &str, after: DateTime<Utc>) {
    let event = Event::call("fuzzed", |_| {}).cron(text).timezone(zone);
    let upcoming: Vec<_> = event.upcoming(after).take(8).collect();
    let schedule = Schedule::in_process();
    let oracle = Oracle::read(text).filter(|_| text.len() <= LONGEST);
    match (schedule.add(event), oracle) {
        (Err(error), None) => {
            assert_refused_in_words(text, &error.to_string());
            assert_eq!(schedule.names().count(), 0, "what was refused is in the schedule");
        }
        (Ok(_), Some(oracle)) => {
            assert!(upcoming.is_sorted_by(|earlier, later| earlier < later), "{upcoming:?}");
            for next in upcoming {
                assert!(next > after, "{next} is not after {after}");
                assert_eq!(schedule.due(next).count(), 1, "it is not due at {next}");
                assert!(zone != "UTC" || oracle.matches(next.naive_utc()), "the oracle says it is not due at {next}");
            }
            let is_due = schedule.due(after).count() == 1;
            // Far from the ends of time, the oracle must agree.
            if zone == "UTC" && (1900..3000).contains(&after.year()) {
                assert_eq!(is_due, oracle.matches(after.naive_utc()), "the oracle says otherwise at {after}");
            }
        }
        (Ok(_), None) => panic!("it was taken"),
        (Err(error), Some(_)) => panic!("{error}"),
    }
}

/// Asserts that the message names the event and quotes the start of the text, on one line of bounded length.
#[track_caller]
fn assert_refused_in_words(text: &str, message: &str) {
    let mut begins = String::from("event `fuzzed`: `");
    for char in text.chars().take(20).take_while(|char| *char == ' ' || char.is_ascii_graphic()) {
        begins.write_char(char).expect("a text takes what is written to it");
    }
    assert!(message.starts_with(&begins), "{message}");
    assert!(!message.contains(char::is_control), "{message:?}");
    assert!(message.chars().count() < 1_500, "{message}");
}

#[test]
fn any_text_is_refused_in_words_or_means_what_the_manual_page_says() {
    let zones = || select(vec!["UTC", "UTC", "Europe/Berlin", "Australia/Lord_Howe", "+13:45"]);
    let inputs = move || (texts(), zones(), instants());
    Rounds { rounds: 8, inputs: 250 }.feed(inputs, |(text, zone, after)| judge(text, zone, *after));
}
