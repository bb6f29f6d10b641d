//! Tests: the meaning of each method, alone and together with others, and the values that the methods refuse.

use std::time::Duration;

use chrono::{DateTime, Month, NaiveDate, Utc, Weekday};

use crate::event::event_builder::Event;

fn event() -> Event {
    Event::call("x", |_| {})
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[track_caller]
fn is_due_every(event: &Event, seconds: u64, expression: &str) {
    let every = (seconds != 60).then(|| Duration::from_secs(seconds));
    let expected = (expression.parse().expect("it is one"), every);
    assert_eq!(event.due.spelt_out(), expected, "{expression}");
}

#[test]
fn every_word_stands_for_its_expression() {
    let in_minutes = vec![
        (event().every_minute(), "* * * * *"),
        (event().every_two_minutes(), "*/2 * * * *"),
        (event().every_three_minutes(), "*/3 * * * *"),
        (event().every_four_minutes(), "*/4 * * * *"),
        (event().every_five_minutes(), "*/5 * * * *"),
        (event().every_ten_minutes(), "*/10 * * * *"),
        (event().every_fifteen_minutes(), "*/15 * * * *"),
        (event().every_thirty_minutes(), "*/30 * * * *"),
        (event().hourly(), "0 * * * *"),
        (event().hourly_at(17), "17 * * * *"),
        (event().hourly_at([15, 45]), "15,45 * * * *"),
        (event().hourly_at(vec![45, 0]), "0,45 * * * *"),
        (event().every_odd_hour(), "0 1-23/2 * * *"),
        (event().every_odd_hour_at(15), "15 1-23/2 * * *"),
        (event().every_two_hours(), "0 */2 * * *"),
        (event().every_two_hours_at(15), "15 */2 * * *"),
        (event().every_three_hours(), "0 */3 * * *"),
        (event().every_three_hours_at([15, 45]), "15,45 */3 * * *"),
        (event().every_four_hours(), "0 */4 * * *"),
        (event().every_four_hours_at(59), "59 */4 * * *"),
        (event().every_six_hours(), "0 */6 * * *"),
        (event().every_six_hours_at(15), "15 */6 * * *"),
        (event().every_hours(1), "0 * * * *"),
        (event().every_hours(24), "0 */24 * * *"),
        (event().every_hours_at(8, [0, 30]), "0,30 */8 * * *"),
        (event().daily(), "0 0 * * *"),
        (event().daily_at("02:30"), "30 2 * * *"),
        (event().twice_daily(1, 13), "0 1,13 * * *"),
        (event().twice_daily_at(13, 1, 15), "15 1,13 * * *"),
        (event().weekly(), "0 0 * * 0"),
        (event().weekly_on(Weekday::Mon, "2:30"), "30 2 * * 1"),
        (event().weekly_on(Weekday::Sun, "02:30"), "30 2 * * 0"),
        (event().weekly_on([Weekday::Thu, Weekday::Tue], "02:30"), "30 2 * * 2,4"),
        (event().weekdays(), "* * * * 1-5"),
        (event().weekends(), "* * * * 6,0"),
        (event().mondays(), "* * * * 1"),
        (event().tuesdays(), "* * * * 2"),
        (event().wednesdays(), "* * * * 3"),
        (event().thursdays(), "* * * * 4"),
        (event().fridays(), "* * * * 5"),
        (event().saturdays(), "* * * * 6"),
        (event().sundays(), "* * * * 0"),
        (event().days([Weekday::Sun, Weekday::Wed]), "* * * * 0,3"),
        (event().monthly(), "0 0 1 * *"),
        (event().monthly_on(31, "23:59"), "59 23 31 * *"),
        (event().twice_monthly(1, 16, "13:00"), "0 13 1,16 * *"),
        (event().days_of_month([1, 10, 20]), "0 0 1,10,20 * *"),
        (event().days_of_month(1..=7), "0 0 1-7 * *"),
        (event().last_day_of_month("00:00"), "0 0 L * *"),
        (event().quarterly(), "0 0 1 1-12/3 *"),
        (event().quarterly_on(4, "14:00"), "0 14 4 1-12/3 *"),
        (event().quarterly_on(31, "14:00"), "0 14 31 1-12/3 *"),
        (event().yearly(), "0 0 1 1 *"),
        (event().yearly_on(Month::February, 29, "14:00"), "0 14 29 2 *"),
        (event().yearly_on(Month::December, 31, "23:59"), "59 23 31 12 *"),
    ];
    for (event, expression) in in_minutes {
        is_due_every(&event, 60, expression);
    }
    for (event, seconds) in [
        (event().every_second(), 1),
        (event().every_two_seconds(), 2),
        (event().every_five_seconds(), 5),
        (event().every_ten_seconds(), 10),
        (event().every_fifteen_seconds(), 15),
        (event().every_twenty_seconds(), 20),
        (event().every_thirty_seconds(), 30),
        (event().every(seconds(12)), 12),
        (event().every(seconds(90)), 90),
        (event().every(seconds(7 * 24 * 60 * 60)), 7 * 24 * 60 * 60),
    ] {
        is_due_every(&event, seconds, "* * * * *");
    }
}

#[test]
fn words_combine_in_any_order() {
    type Word = fn(Event) -> Event;
    let cases: [(Word, Word, u64, &str); 31] = [
        (Event::weekdays, Event::hourly, 60, "0 * * * 1-5"),
        (Event::weekends, |event| event.daily_at("07:05"), 60, "5 7 * * 6,0"),
        (Event::weekly, |event| event.daily_at("13:00"), 60, "0 13 * * 0"),
        (Event::weekly, Event::mondays, 60, "0 0 * * 1"),
        (Event::weekly, Event::hourly, 60, "0 * * * 0"),
        (Event::mondays, Event::mondays, 60, "* * * * 1"),
        (Event::daily, |event| event.daily_at("0:00"), 60, "0 0 * * *"),
        (Event::every_two_hours, Event::every_fifteen_minutes, 60, "*/15 */2 * * *"),
        (Event::every_two_hours, Event::every_minute, 60, "* */2 * * *"),
        (Event::every_odd_hour, Event::every_thirty_minutes, 60, "*/30 1-23/2 * * *"),
        (|event| event.every_two_hours_at(15), Event::weekdays, 60, "15 */2 * * 1-5"),
        (|event| event.twice_daily(1, 13), Event::every_ten_minutes, 60, "*/10 1,13 * * *"),
        (Event::monthly, Event::every_five_minutes, 60, "*/5 0 1 * *"),
        (Event::monthly, |event| event.daily_at("02:30"), 60, "30 2 1 * *"),
        (Event::monthly, |event| event.days_of_month([1, 15]), 60, "0 0 1,15 * *"),
        (|event| event.days_of_month([1, 15]), |event| event.daily_at("02:30"), 60, "30 2 1,15 * *"),
        (|event| event.days_of_month([1, 15]), Event::hourly, 60, "0 * 1,15 * *"),
        (|event| event.last_day_of_month("18:00"), Event::quarterly, 60, "0 18 L 1-12/3 *"),
        (|event| event.monthly_on(10, "09:00"), Event::fridays, 60, "0 9 10 * 5"),
        (Event::yearly, Event::mondays, 60, "0 0 1 1 1"),
        (Event::yearly, |event| event.monthly_on(6, "12:00"), 60, "0 12 6 1 *"),
        (|event| event.between("08:00", "17:00"), |event| event.weekdays().every_minute(), 60, "* * * * 1-5"),
        (Event::every_ten_seconds, Event::weekdays, 10, "* * * * 1-5"),
        (Event::every_ten_seconds, Event::hourly, 10, "0 * * * *"),
        (Event::every_ten_seconds, Event::every_two_hours, 10, "0 */2 * * *"),
        (Event::every_ten_seconds, Event::every_minute, 10, "* * * * *"),
        (Event::every_ten_seconds, |event| event.daily_at("13:30"), 10, "30 13 * * *"),
        (Event::every_second, Event::yearly, 1, "0 0 1 1 *"),
        (|event| event.every(seconds(20 * 60)), Event::every_two_hours, 1200, "* */2 * * *"),
        (|event| event.every(seconds(90 * 60)), Event::weekdays, 5400, "* * * * 1-5"),
        (|event| event.every(seconds(90 * 60)), Event::monthly, 5400, "* * 1 * *"),
    ];
    for (first, second, seconds, expression) in cases {
        is_due_every(&second(first(event())), seconds, expression);
        is_due_every(&first(second(event())), seconds, expression);
    }
    is_due_every(&event().weekly().mondays().daily_at("13:00"), 60, "0 13 * * 1");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn words_of_which_one_would_be_lost_are_refused() {
    type Word = fn(Event) -> Event;
    let in_one = "leave one of them out, say both in one `cron(..)`, or add an event for each";
    let cases: [(Word, Word, &str); 21] = [
        (Event::mondays, Event::tuesdays, "day of week is set twice, as `1` by `mondays()` and as `2` by `tuesdays()`"),
        (
            Event::weekdays,
            Event::saturdays,
            "day of week is set twice, as `1-5` by `weekdays()` and as `6` by `saturdays()`",
        ),
        (
            Event::weekends,
            |event| event.weekly_on(Weekday::Fri, "02:30"),
            "day of week is set twice, as `0,6` by `weekends()` and as `5` by `weekly_on(..)`",
        ),
        (
            |event| event.monthly_on(1, "02:30"),
            |event| event.monthly_on(15, "02:30"),
            "day of month is set twice, as `1` by `monthly_on(..)` and as `15` by `monthly_on(..)`",
        ),
        (
            |event| event.days_of_month([1, 15]),
            |event| event.last_day_of_month("02:30"),
            "day of month is set twice, as `1,15` by `days_of_month(..)` and as `L` by `last_day_of_month(..)`",
        ),
        (
            Event::quarterly,
            |event| event.yearly_on(Month::January, 1, "00:00"),
            "month is set twice, as `1-10/3` by `quarterly()` and as `1` by `yearly_on(..)`",
        ),
        (
            |event| event.daily_at("02:00"),
            |event| event.daily_at("14:00"),
            "hour is set twice, as `2` by `daily_at(..)` and as `14` by `daily_at(..)`",
        ),
        (
            |event| event.daily_at("02:00"),
            |event| event.daily_at("02:30"),
            "minute is set twice, as `0` by `daily_at(..)` and as `30` by `daily_at(..)`",
        ),
        (
            |event| event.daily_at("02:00"),
            Event::hourly,
            "hour is set twice, as `2` by `daily_at(..)` and as `*` by `hourly()`",
        ),
        (
            |event| event.daily_at("13:00"),
            |event| event.hourly_at(5),
            "hour is set twice, as `13` by `daily_at(..)` and as `*` by `hourly_at(..)`",
        ),
        (
            Event::daily,
            |event| event.daily_at("13:00"),
            "hour is set twice, as `0` by `daily()` and as `13` by `daily_at(..)`",
        ),
        (
            Event::daily,
            Event::every_five_minutes,
            "minute is set twice, as `0` by `daily()` and as `*/5` by `every_five_minutes()`",
        ),
        (
            |event| event.last_day_of_month("18:00"),
            |event| event.daily_at("02:30"),
            "hour is set twice, as `18` by `last_day_of_month(..)` and as `2` by `daily_at(..)`",
        ),
        (
            |event| event.monthly_on(15, "12:00"),
            Event::daily,
            "hour is set twice, as `12` by `monthly_on(..)` and as `0` by `daily()`",
        ),
        (
            |event| event.twice_daily(1, 13),
            Event::hourly,
            "hour is set twice, as `1,13` by `twice_daily(..)` and as `*` by `hourly()`",
        ),
        (
            Event::every_two_hours,
            Event::hourly,
            "hour is set twice, as `*/2` by `every_two_hours()` and as `*` by `hourly()`",
        ),
        (
            Event::every_two_hours,
            Event::every_three_hours,
            "hour is set twice, as `*/2` by `every_two_hours()` and as `*/3` by `every_three_hours()`",
        ),
        (
            |event| event.every_hours_at(8, 15),
            Event::every_five_minutes,
            "minute is set twice, as `15` by `every_hours_at(..)` and as `*/5` by `every_five_minutes()`",
        ),
        (
            Event::hourly,
            Event::every_minute,
            "minute is set twice, as `0` by `hourly()` and as `*` by `every_minute()`",
        ),
        (
            Event::every_minute,
            Event::every_five_minutes,
            "minute is set twice, as `*` by `every_minute()` and as `*/5` by `every_five_minutes()`",
        ),
        (
            |event| event.daily_at("02:30"),
            Event::every_minute,
            "minute is set twice, as `30` by `daily_at(..)` and as `*` by `every_minute()`",
        ),
    ];
    for (first, second, what) in cases {
        let said = refusal(second(first(event()))).expect(what);
        assert_eq!(said, format!("event `x`: its {what}: {in_one}"));
        assert!(refusal(first(second(event()))).is_some(), "{what}, the other way round");
    }
    assert_eq!(
        refusal(event().every_second().every_ten_seconds()).expect("they differ"),
        "event `x`: `every(..)` is called twice, with `1s` and `10s`: remove one of the two"
    );
}

#[test]
fn two_methods_that_say_how_often_are_refused() {
    type Word = fn(Event) -> Event;
    let all: [(&str, Word); 6] = [
        ("daily()", Event::daily),
        ("weekly()", Event::weekly),
        ("monthly()", Event::monthly),
        ("quarterly()", Event::quarterly),
        ("yearly()", Event::yearly),
        ("every_weeks(..)", |event| event.every_weeks(2, date("2026-01-04"))),
    ];
    for (one, first) in all {
        for (other, second) in all {
            let both = format!(
                "event `x`: both `{one}` and `{other}` say how often it is due: leave one of them out; a time of the day is \
                 `daily_at(..)`"
            );
            assert_eq!(refusal(second(first(event()))), (one != other).then_some(both));
        }
    }
}

#[test]
fn days_without_a_time_are_refused() {
    for (event, days) in [
        (event().weekdays(), "1-5"),
        (event().weekends(), "0,6"),
        (event().mondays().between("08:00", "17:00"), "1"),
        (event().days([Weekday::Mon, Weekday::Wed]), "1,3"),
    ] {
        let said = format!(
            "event `x`: it says on which days it is due, but not at what time: add `daily_at(\"02:30\")` or `hourly()`; for \
             every minute of these days (`* * * * {days}`), add `every_minute()`"
        );
        assert_eq!(event.next(chrono::DateTime::UNIX_EPOCH), None);
        assert_eq!(refusal(event), Some(said));
    }
    assert_eq!(refusal(event().weekdays().every_minute()), None);
    assert_eq!(refusal(event().every_second().weekdays()), None);
}

#[test]
fn an_expression_says_all_of_it() {
    let cron = |event: Event| event.cron("0 9 * * mon");
    for (event, method) in [
        (cron(event().weekdays()), "weekdays()"),
        (cron(event()).weekdays(), "weekdays()"),
        (cron(event().daily_at("09:00")), "daily_at(..)"),
        (cron(event()).hourly(), "hourly()"),
        (cron(event().every_ten_seconds()), "every(..)"),
        (cron(event()).every(seconds(90)), "every(..)"),
        (cron(event()).every_days(2, date("2026-01-05")), "every_days(..)"),
        (cron(event()).at(instant("2026-01-05T00:00:00Z")), "at(..)"),
        (cron(event()).monthly(), "monthly()"),
    ] {
        let beside = format!(
            "event `x`: both the crontab `0 9 * * 1` and `{method}` say when it is due: leave one of the two out, or use \
             methods for all of it, such as `weekly_on(Weekday::Mon, \"09:00\")`"
        );
        assert_eq!(refusal(event), Some(beside));
    }
    let two = "event `x`: two crontabs say when it is due, `0 9 * * 1` and `0 10 * * 1`: leave one of them out";
    assert_eq!(refusal(cron(event()).cron("0 10 * * 1")).as_deref(), Some(two));
    assert_eq!(refusal(cron(cron(event())).between("08:00", "17:00")), None);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_no_crontab_can_say_is_refused_by_name() {
    for (event, message) in vec![
        (event().hourly_at(60), "`hourly_at(..)`: minute 60 is outside of 0-59"),
        (event().hourly_at([0, 15, 60]), "`hourly_at(..)`: minute 60 is outside of 0-59"),
        (
            event().hourly_at([]),
            "`hourly_at(..)`: the list is empty, so the event would never be due: write at least one minute",
        ),
        (event().every_odd_hour_at(60), "`every_odd_hour_at(..)`: minute 60 is outside of 0-59"),
        (
            event().every_six_hours_at([]),
            "`every_six_hours_at(..)`: the list is empty, so the event would never be due: write at least one minute",
        ),
        (event().twice_daily(1, 1), "`twice_daily(..)`: hour 1 is given twice: leave one of the two out"),
        (event().twice_daily_at(1, 1, 30), "`twice_daily_at(..)`: hour 1 is given twice: leave one of the two out"),
        (
            event().twice_monthly(5, 5, "02:30"),
            "`twice_monthly(..)`: day of month 5 is given twice: leave one of the two out",
        ),
        (event().hourly_at([15, 15]), "`hourly_at(..)`: minute 15 is given twice: leave one of the two out"),
        (
            event().weekly_on([Weekday::Mon, Weekday::Mon], "02:30"),
            "`weekly_on(..)`: day of week 1 is given twice: leave one of the two out",
        ),
        (
            event().days_of_month([1, 15, 1]),
            "`days_of_month(..)`: day of month 1 is given twice: leave one of the two out",
        ),
        (event().twice_daily(1, 24), "`twice_daily(..)`: hour 24 is outside of 0-23"),
        (event().twice_daily_at(1, 13, 60), "`twice_daily_at(..)`: minute 60 is outside of 0-59"),
        (
            event().weekly_on([], "02:30"),
            "`weekly_on(..)`: the list is empty, so the event would never be due: write at least one day of week",
        ),
        (
            event().days([]),
            "`days(..)`: the list is empty, so the event would never be due: write at least one day of week",
        ),
        (
            event().monthly_on(32, "02:30"),
            "`monthly_on(..)`: day of month 32 is outside of 1-31: the last day is `last_day_of_month(..)`",
        ),
        (
            event().monthly_on(0, "02:30"),
            "`monthly_on(..)`: day of month 0 is outside of 1-31: the last day is `last_day_of_month(..)`",
        ),
        (
            event().twice_monthly(1, 32, "02:30"),
            "`twice_monthly(..)`: day of month 32 is outside of 1-31: the last day is `last_day_of_month(..)`",
        ),
        (
            event().days_of_month(1..),
            "`days_of_month(..)`: day of month 32 is outside of 1-31: the last day is `last_day_of_month(..)`",
        ),
        (
            event().days_of_month([]),
            "`days_of_month(..)`: the list is empty, so the event would never be due: write at least one day of month",
        ),
        (
            event().quarterly_on(32, "02:30"),
            "`quarterly_on(..)`: day of month 32 is outside of 1-31: the last day is `last_day_of_month(..)`",
        ),
        (
            event().yearly_on(Month::May, 0, "02:30"),
            "`yearly_on(..)`: day of month 0 is outside of 1-31: the last day is `last_day_of_month(..)`",
        ),
        (
            event().yearly_on(Month::February, 30, "02:30"),
            "`yearly_on(..)`: this day never comes in these months: the end of a month is `last_day_of_month(..)`",
        ),
        (
            event().mondays().yearly_on(Month::June, 31, "02:30"),
            "`yearly_on(..)`: this day never comes in these months: the end of a month is `last_day_of_month(..)`",
        ),
        (
            event().every_hours(0),
            "`every_hours(..)`: 0 hours do not divide a day: write one of 1, 2, 3, 4, 6, 8, 12, 24; hours of real time are `every(..)`",
        ),
        (
            event().every_hours(5),
            "`every_hours(..)`: 5 hours do not divide a day: write one of 1, 2, 3, 4, 6, 8, 12, 24; hours of real time are `every(..)`",
        ),
    ] {
        assert_eq!(refusal(event).expect(message), format!("event `x`: {message}"));
    }
    for event in [
        |time: &str| event().daily_at(time),
        |time: &str| event().weekly_on(Weekday::Mon, time),
        |time: &str| event().monthly_on(1, time),
        |time: &str| event().twice_monthly(1, 16, time),
        |time: &str| event().last_day_of_month(time),
        |time: &str| event().quarterly_on(1, time),
        |time: &str| event().yearly_on(Month::May, 1, time),
        |time: &str| event().hourly().between(time, "17:00"),
        |time: &str| event().hourly().between("08:00", time),
        |time: &str| event().hourly().unless_between(time, "17:00"),
        |time: &str| event().hourly().unless_between("08:00", time),
    ] {
        for time in ["24:00", "2:30PM", "2.30", "02:30,14:30"] {
            let message =
                format!("`{time}` is not a time of day from 00:00 to 23:59, written as hh:mm, such as `02:30`");
            assert!(refusal(event(time)).is_some_and(|refusal| refusal.ends_with(&message)));
        }
        assert_eq!(refusal(event("23:59")), None);
    }
    let filtered = refusal(event().between("08:00", "17:00")).expect("a window says no times");
    assert!(filtered.contains("it has no timetable"), "{filtered}");
}

#[test]
fn what_no_interval_and_no_span_can_be_is_refused_by_name() {
    for (event, message) in vec![
        (event().every(Duration::from_millis(1500)), "`every(1500ms)`: use whole seconds, from 1s to ten years"),
        (event().every(Duration::ZERO), "`every(0s)`: use whole seconds, from 1s to ten years"),
        (
            event().every(seconds(90)).anchored_at(instant("2026-01-05T00:00:00.5Z")),
            "`anchored_at(2026-01-05T00:00:00.500Z)` is not at the start of a second, so ticks would miss it: \
             write a time such as `2026-01-05T00:00:00Z`",
        ),
        (
            event().every(seconds(120)).anchored_at(instant("2026-01-05T00:00:30Z")),
            "`anchored_at(2026-01-05T00:00:30Z)` is not at the start of a minute, so ticks would miss it: \
             write a time such as `2026-01-05T00:00:00Z`",
        ),
        (
            event().anchored_at(instant("2026-01-05T00:00:00Z")),
            "`anchored_at(2026-01-05T00:00:00Z)` needs an interval: add `every(..)`, or leave `anchored_at(..)` out",
        ),
        (
            event().daily_at("02:30").every(seconds(90)),
            "`every(90s)` can't be combined with `daily_at(..)`, which sets the minute `30`: leave one of the two out",
        ),
        (
            event().every(seconds(3600)).every_minute(),
            "`every(1h)` can't be combined with `every_minute()`, which sets the minute `*`: leave one of the two out",
        ),
        (
            event().mondays().every(seconds(86_400)),
            "`every(1d)` can't be combined with `mondays()`, which sets the day of week `1`: leave one of the two out",
        ),
        (
            event().every_days(2, date("2026-01-05")).every(seconds(86_400)),
            "`every(1d)` can't be combined with `every_days(..)`: leave one of the two out",
        ),
        (
            event().every(seconds(600)).every_days(3, date("2026-01-05")),
            "`every(10m)` can't be combined with `every_days(..)`: leave one of the two out",
        ),
        (
            event().every_weeks(2, date("2026-01-05")).days_of_month([1, 15]),
            "`every_weeks(..)` counts weeks, every 2 weeks from 2026-01-05, and `days_of_month(..)` sets the day of month `1,15`: name \
             days of the week, or leave one of the two out",
        ),
        (
            event().at(instant("2026-01-05T00:00:00Z")).until(instant("2026-01-06T00:00:00Z")),
            "`at(2026-01-05T00:00:00Z)` can't be combined with `until(..)`: leave one of the two out",
        ),
        (
            event().at(instant("2026-01-05T00:00:00Z")).every(seconds(30)),
            "`at(2026-01-05T00:00:00Z)` can't be combined with `every(..)`: leave one of the two out",
        ),
        (
            event().at(instant("2026-01-05T00:00:00Z")).every_minute(),
            "`at(2026-01-05T00:00:00Z)` can't be combined with `every_minute()`, which sets the minute `*`: leave one of the two out",
        ),
        (
            event().at(instant("2026-01-05T00:00:30Z")),
            "`at(2026-01-05T00:00:30Z)` is not at the start of a minute, so ticks would miss it: \
             write a time such as `2026-01-05T00:00:00Z`",
        ),
        (
            event().at(instant("1969-01-05T00:00:00Z")),
            "`once, at 1969-01-05 00:00` is never due between the years 1970 and 2100: \
             change a part of it, or leave a part out",
        ),
        (
            event().at(instant("2026-01-05T00:00:00Z")).at(instant("2026-01-06T00:00:00Z")),
            "`at(..)` is called twice, with `2026-01-05T00:00:00Z` and `2026-01-06T00:00:00Z`: remove one of the two",
        ),
        (
            event().daily().from(instant("2026-01-05T00:00:00Z")).until(instant("2026-01-05T00:00:00Z")),
            "`until(2026-01-05T00:00:00Z)` is not after `from(2026-01-05T00:00:00Z)`, so the event would never be due: \
             exchange them, or leave one out",
        ),
        (
            event().daily().from(instant("2026-01-05T00:01:00Z")).until(instant("2026-01-06T00:00:00Z")),
            "`daily at 00:00, from 2026-01-05 00:01, until 2026-01-06 00:00` is never due between the years 1970 and 2100: \
             change a part of it, or leave a part out",
        ),
        (
            event().every_days(14, date("2026-03-10")).mondays().daily_at("09:00"),
            "`at 09:00, on Mondays, every 14 days from 2026-03-10` is never due between the years 1970 and 2100: \
             change a part of it, or leave a part out",
        ),
        (
            event().every_days(14, date("2026-03-10")).tuesdays().until(instant("1970-01-02T00:00:00Z")),
            "`at 00:00, on Tuesdays, every 14 days from 2026-03-10, until 1970-01-02 00:00` is never due between the years 1970 and 2100: \
             change a part of it, or leave a part out",
        ),
        (event().every_days(0, date("2026-01-05")), "`every_days(0, 2026-01-05)` would never be due: write 1 or more"),
        (
            event().every_days(2, date("2026-01-05")).every_weeks(2, date("2026-01-05")),
            "its days are set twice, as every 2 days from 2026-01-05 and as every 2 weeks from 2026-01-05: leave out one \
             of the calls of `every_days(..)` or `every_weeks(..)`",
        ),
    ] {
        assert_eq!(refusal(event).expect(message), format!("event `x`: {message}"));
    }
}

#[test]
fn hours_are_those_that_come_out_even() {
    let sum = (0..100).filter(|n| refusal(event().every_hours(*n)).is_none()).sum::<u32>();
    assert_eq!(sum, 60, "the divisors of 24");
}

#[test]
fn what_an_event_says_of_its_days_and_its_span_is_told_in_words() {
    let schedule = crate::schedule::schedule::Schedule::in_process();
    for (event, words) in [
        (event().every(seconds(90 * 60)), "every 90 minutes"),
        (event().every(seconds(90 * 60)).weekdays(), "every 90 minutes, on weekdays"),
        (
            event().every(seconds(90 * 60)).anchored_at(instant("2026-03-01T09:00:00Z")).timezone("+01:00"),
            "every 90 minutes counted from 2026-03-01 10:00",
        ),
        (
            event().every(seconds(90)).anchored_at(instant("2026-03-01T09:00:30Z")),
            "every 90 seconds counted from 2026-03-01 09:00:30",
        ),
        (event().every(seconds(7 * 24 * 60 * 60)), "every 168 hours"),
        (event().every_days(3, date("2026-01-05")).daily_at("02:30"), "at 02:30, every 3 days from 2026-01-05"),
        (event().every_weeks(2, date("2026-01-07")), "at 00:00, on Wednesdays, every 2 weeks from 2026-01-05"),
        (
            event()
                .hourly()
                .from(instant("2026-01-05T00:00:00Z"))
                .until(instant("2026-02-05T12:30:00Z"))
                .timezone("+01:00"),
            "hourly, from 2026-01-05 01:00, until 2026-02-05 13:30",
        ),
        (event().at(instant("2026-01-05T00:00:00Z")).timezone("+01:00"), "once, at 2026-01-05 01:00"),
    ] {
        schedule.add(event).expect("it is in order");
        assert_eq!(schedule.event("x").expect("it was added").timetable(), words);
        schedule.remove("x");
    }
}

fn date(text: &str) -> NaiveDate {
    text.parse().expect("a date")
}

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant")
}

fn refusal(event: Event) -> Option<String> {
    crate::schedule::schedule::Schedule::in_process().add(event).err().map(|error| error.to_string())
}
