//! The log of runs on a server: a log that can't be used, beside those of other events.

use soloist::EventMutex;

use crate::run_log::an_unusable_log_is_the_fault_of_one_event_on;
use crate::servers::redis::Redis;

fn key(event: &str) -> String {
    format!("{{soloist}}:runs/{event}")
}

#[test]
fn a_key_of_another_type_is_the_fault_of_one_event() {
    let server = Redis::start();
    let damage = |event: &str| {
        server.ask(&["DEL", &key(event)]);
        server.ask(&["RPUSH", &key(event), "x"]);
    };
    let repair = |event: &str| assert_eq!(server.ask(&["DEL", &key(event)]).number(), 1);
    an_unusable_log_is_the_fault_of_one_event_on(&super::patient(&server.url()), damage, repair);
}

/// Writes wrong fields, so that the key keeps its type.
#[test]
fn a_number_that_is_none_and_a_line_of_another_format_are_the_fault_of_one_event() {
    let server = Redis::start();
    let damage = |event: &str| {
        for field in ["number", "skipped:overlapping"] {
            server.ask(&["HSET", &key(event), field, "many"]);
        }
        server.ask(&["HSET", &key(event), &soloist::store::Owner::unique().to_string(), "v9 number=1"]);
    };
    let repair = |event: &str| assert_eq!(server.ask(&["DEL", &key(event)]).number(), 1);
    let mutex = super::patient(&server.url());
    an_unusable_log_is_the_fault_of_one_event_on(&mutex, damage, repair);
    let error = mutex.run_log().expect("it keeps one").skips("damaged-0").unwrap_err();
    assert!(error.to_string().contains("read the log of runs of damaged-0 in "), "{error}");
}
