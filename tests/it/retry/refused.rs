//! Wrong definitions of a retry, which `add` refuses.

use super::*;

#[track_caller]
fn refused(event: impl FnOnce(Event) -> Event, why: &str) {
    let event = event(Event::call("import", fails));
    let error = Schedule::in_process().add(event).map(drop).expect_err("it is wrong");
    assert_eq!(error.to_string(), format!("event `import`: {why}"));
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_retry_needs_a_number_and_a_time_and_is_set_once() {
    refused(|event| event.hourly().retry(Retry::times(0).after(SECOND)), "`Retry::times(0)`: use 1 to 1000");
    refused(|event| event.hourly().retry(Retry::times(1001).after(SECOND)), "`Retry::times(1001)`: use 1 to 1000");
    refused(|event| event.hourly().retry(Retry::times(3).after(Duration::ZERO)), "`after(0s)`: use 1ms to ten years");
    refused(
        |event| event.hourly().retry(Retry::times(3)),
        "its `retry(..)` has no delay between two attempts: write `Retry::times(3).after(Duration::from_secs(10))`",
    );
    refused(
        |event| event.hourly().retry(Retry::times(3).after(SECOND)).retry(Retry::times(2).after(SECOND)),
        "`retry(..)` is called twice, with different values: remove one of the two",
    );
}

#[test]
fn a_retry_that_could_never_begin_is_refused() {
    let after = |delay| Retry::times(3).after(delay);
    let never = "no retry could ever begin, because";
    refused(
        |event| event.every_minute().retry(after(MINUTE)),
        &format!("`after(1m)`: {never} its next occurrence comes first: use a shorter time"),
    );
    refused(
        |event| event.daily_at("16:55").between("08:00", "17:00").retry(after(10 * MINUTE)),
        &format!("`after(10m)`: {never} its window is closed at the time of the retry: use a shorter time"),
    );
    refused(
        |event| event.hourly().timeout(MINUTE).retry(after(MINUTE)),
        &format!(
            "`after(1m)`: {never} its `timeout(1m)` counts for all attempts and the waits between them: use a shorter time, or a longer \
             `timeout(..)`"
        ),
    );
    refused(
        |event| event.hourly().without_overlapping_for(MINUTE).retry(after(MINUTE)),
        &format!(
            "`after(1m)`: {never} its lease of `without_overlapping_for(1m)` ends before that: use a shorter time, or a longer \
             `without_overlapping_for(..)`"
        ),
    );
}

#[test]
fn a_retry_that_some_occurrence_has_time_for_is_right() {
    for event in [
        Event::call("import", fails).every_minute().retry(Retry::times(3).after(59 * SECOND)),
        // There is time after the second one.
        Event::call("import", fails).cron("0 8,9 * * *").retry(Retry::times(1).after(90 * MINUTE)),
        // There is no next one.
        Event::call("import", fails).at(noon()).retry(Retry::times(1).after(90 * MINUTE)),
    ] {
        let schedule = Schedule::in_process();
        schedule.add(event).expect("it is right");
        let protections = schedule.event("import").expect("it was added").protections();
        assert!(protections.iter().any(|words| words.starts_with("retry ")), "{protections:?}");
    }
}
