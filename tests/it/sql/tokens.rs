//! Tokens rise with every grant, through changes of the server's clock and clean-ups.

use soloist::{EventMutex, FencingToken};

use super::on_both;
use super::trouble::{Trouble, request};

on_both!(
    a_token_that_is_ahead_of_the_clock_is_exceeded_and_outlives_a_purge,
    a_token_rises_over_a_purge_of_all_that_has_ended,
    a_lease_whose_end_went_back_with_the_clock_is_still_exceeded,
    the_highest_possible_token_is_an_error_that_says_what_to_do
);

/// In the year 2100, in microseconds.
const AHEAD: u64 = 4_102_444_800_000_000;

/// Makes all rows end an hour ago.
fn end_all<S: Trouble>(server: &S) {
    server.ask(&format!("UPDATE soloist_mutexes SET expires_at = {} - INTERVAL '1' HOUR", S::NOW));
}

#[track_caller]
fn grant<S: Trouble>(server: &S, name: &str) -> FencingToken {
    server.mutex().create(&request(name)).unwrap().expect("it is free").token()
}

fn a_token_that_is_ahead_of_the_clock_is_exceeded_and_outlives_a_purge<S: Trouble>() {
    let server = S::start();
    grant(&server, "a");
    server.ask(&format!("UPDATE soloist_mutexes SET token = {AHEAD} WHERE token > 0"));
    // As a server whose clock went back by decades finds it.
    assert_eq!(grant(&server, "b"), FencingToken::new(AHEAD + 1));
    end_all(&server);
    assert_eq!(grant(&server, "a"), FencingToken::new(AHEAD + 2));
    end_all(&server);
    S::purge(&server.mutex()).unwrap();
    assert_eq!(server.count("SELECT COUNT(*) FROM soloist_mutexes WHERE token > 0"), 1, "the highest stays");
    assert_eq!(grant(&server, "c"), FencingToken::new(AHEAD + 3));
    S::purge(&server.mutex()).unwrap();
    assert_eq!(grant(&server, "a"), FencingToken::new(AHEAD + 4));
}

fn a_token_rises_over_a_purge_of_all_that_has_ended<S: Trouble>() {
    let server = S::start();
    let mut last = None;
    for _ in 0..5 {
        for name in ["a", "b", "a:c"] {
            let token = Some(grant(&server, name));
            assert!(token > last, "{token:?} came after {last:?}");
            last = token;
        }
        end_all(&server);
        S::purge(&server.mutex()).unwrap();
        assert_eq!(server.count("SELECT COUNT(*) FROM soloist_mutexes WHERE token > 0"), 1, "the highest stays");
    }
}

fn a_lease_whose_end_went_back_with_the_clock_is_still_exceeded<S: Trouble>() {
    let server = S::start();
    let first = grant(&server, "a");
    // Two grants within one microsecond, or a clock that stands still.
    server.ask(&format!(
        "UPDATE soloist_mutexes SET token = token + 60000000, expires_at = {} - INTERVAL '1' SECOND",
        S::NOW
    ));
    let second = grant(&server, "a");
    assert!(second.get() > first.get() + 60_000_000, "{first:?} {second:?}");
    let lease = server.mutex().create(&request("b")).unwrap().expect("it is free");
    assert!(lease.token() > second);
}

fn the_highest_possible_token_is_an_error_that_says_what_to_do<S: Trouble>() {
    let server = S::start();
    grant(&server, "a");
    server.ask(&format!("UPDATE soloist_mutexes SET token = {} WHERE token > 0", i64::MAX));
    let error = server.mutex().create(&request("b")).unwrap_err();
    let end = "the table has the highest possible token: drop the table while nothing runs, and create it again";
    assert!(error.is_refused() && error.to_string().ends_with(end), "{error}");
}
