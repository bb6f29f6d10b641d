//! Timetables in words: sugar over the crontab.

use chrono::Weekday;

use crate::crontab::{Crontab, Field, Set};
use crate::error::Quoted;
use crate::event::Event;

mod error;

pub use error::FrequencyError;
use error::Problem;

/// How often, in words. Each call changes the fields of the crontab that it speaks of, and leaves to the others what
/// was said before: `weekdays().daily_at("07:00")` is `0 7 * * 1-5`, in this order or the other.
impl Event {
    /// Due every minute: `* * * * *`.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).every_minute())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn every_minute(self) -> Self {
        self.every_minutes(1)
    }

    /// Due every two minutes, counted from the full hour: `*/2 * * * *`.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).every_two_minutes())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn every_two_minutes(self) -> Self {
        self.every_minutes(2)
    }

    /// Due every three minutes, counted from the full hour: `*/3 * * * *`.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).every_three_minutes())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn every_three_minutes(self) -> Self {
        self.every_minutes(3)
    }

    /// Due every four minutes, counted from the full hour: `*/4 * * * *`.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).every_four_minutes())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn every_four_minutes(self) -> Self {
        self.every_minutes(4)
    }

    /// Due every five minutes, counted from the full hour: `*/5 * * * *`.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).every_five_minutes())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn every_five_minutes(self) -> Self {
        self.every_minutes(5)
    }

    /// Due every ten minutes, counted from the full hour: `*/10 * * * *`.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).every_ten_minutes())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn every_ten_minutes(self) -> Self {
        self.every_minutes(10)
    }

    /// Due every fifteen minutes, counted from the full hour: `*/15 * * * *`.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).every_fifteen_minutes())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn every_fifteen_minutes(self) -> Self {
        self.every_minutes(15)
    }

    /// Due every thirty minutes, counted from the full hour: `*/30 * * * *`.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).every_thirty_minutes())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn every_thirty_minutes(self) -> Self {
        self.every_minutes(30)
    }

    /// Due every `n` minutes, counted from the full hour: `*/n * * * *`.
    ///
    /// `n` must divide 60, or the hour would end with an interval that is shorter than the others; `add` refuses other
    /// numbers and says how to write them as a crontab.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).every_minutes(20))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn every_minutes(self, n: u32) -> Self {
        self.timed(|crontab| {
            crontab.set(Field::Minute, every_nth_minute(n)?);
            Ok(())
        })
    }

    /// Due every hour, on the hour: `0 * * * *`.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).hourly())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hourly(self) -> Self {
        self.timed(|crontab| set(crontab, Field::Minute, 0))
    }

    /// Due every hour at this minute: `17 * * * *` for 17.
    ///
    /// `add` refuses a minute that is not from 0 to 59.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).hourly_at(17))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hourly_at(self, minute: u32) -> Self {
        self.timed(|crontab| {
            set(crontab, Field::Minute, minute)?;
            crontab.set(Field::Hour, Set::every(Field::Hour));
            Ok(())
        })
    }

    /// Due every day at midnight: `0 0 * * *`.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).daily())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn daily(self) -> Self {
        self.timed(|crontab| set_time(crontab, TimeOfDay::MIDNIGHT))
    }

    /// Due every day at this time: `30 2 * * *` for `02:30`.
    ///
    /// A time of day is written `hh:mm`, from `00:00` to `23:59`, on the clocks of the event's zone; `add` refuses
    /// any other text.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).daily_at("02:30"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn daily_at(self, time: &str) -> Self {
        self.timed(|crontab| set_time(crontab, time.try_into()?))
    }

    /// Due on Sundays at midnight: `0 0 * * 0`.
    ///
    /// Midnight is where the day begins: it is the night from Saturday to Sunday.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).weekly())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn weekly(self) -> Self {
        self.timed(|crontab| {
            crontab.set(Field::DayOfWeek, day_of_week(Weekday::Sun));
            set_time(crontab, TimeOfDay::MIDNIGHT)
        })
    }

    /// Due on this day of the week at this time: `30 2 * * 1` for Monday and `02:30`.
    ///
    /// A time of day is written `hh:mm`, from `00:00` to `23:59`, on the clocks of the event's zone; `add` refuses
    /// any other text.
    ///
    /// ```
    /// use chrono::Weekday;
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).weekly_on(Weekday::Mon, "02:30"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn weekly_on(self, day: Weekday, time: &str) -> Self {
        self.timed(|crontab| {
            set_time(crontab, time.try_into()?)?;
            crontab.set(Field::DayOfWeek, day_of_week(day));
            Ok(())
        })
    }

    /// Due on the first of each month at midnight: `0 0 1 * *`.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).monthly())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn monthly(self) -> Self {
        self.timed(|crontab| {
            set_time(crontab, TimeOfDay::MIDNIGHT)?;
            set_day_of_month(crontab, 1)
        })
    }

    /// Due on this day of each month at this time: `30 2 15 * *` for 15 and `02:30`.
    ///
    /// In a month that has no such day it is not due: 31 means seven times a year, as it does in a crontab. Together
    /// with days of the week it is due on *either*, see [`Crontab`].
    ///
    /// A time of day is written `hh:mm`, from `00:00` to `23:59`, on the clocks of the event's zone; `add` refuses
    /// any other text, a day that is not from 1 to 31, and a day that comes in none of the event's months.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).monthly_on(15, "02:30"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn monthly_on(self, day: u32, time: &str) -> Self {
        self.timed(|crontab| {
            set_time(crontab, time.try_into()?)?;
            set_day_of_month(crontab, day)
        })
    }

    /// Due from Monday to Friday, at the times that are said otherwise: `* * * * 1-5`.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`].
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).weekdays().hourly())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn weekdays(self) -> Self {
        self.timed(|crontab| {
            crontab.set(Field::DayOfWeek, Set::range(1, 5));
            Ok(())
        })
    }

    /// Due on Saturday and Sunday, at the times that are said otherwise: `* * * * 6,0`.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`].
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Schedule::in_process().add(Event::call("reports:generate", |_| {}).weekends().daily_at("10:00"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn weekends(self) -> Self {
        self.timed(|crontab| {
            crontab.set(Field::DayOfWeek, day_of_week(Weekday::Sat).with(day_of_week(Weekday::Sun)));
            Ok(())
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimeOfDay {
    hour: u32,
    minute: u32,
}

impl TimeOfDay {
    const MIDNIGHT: Self = Self { hour: 0, minute: 0 };
}

impl TryFrom<&str> for TimeOfDay {
    type Error = FrequencyError;

    /// `hh:mm`, or `h:mm`.
    fn try_from(text: &str) -> Result<Self, FrequencyError> {
        let number = |digits: &str, max: u32| {
            let number = digits.parse().ok().filter(|number| *number <= max)?;
            // `parse` also takes a sign.
            digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(number)
        };
        let read = || {
            let (hour, minute) = text.split_once(':')?;
            let lengths_fit = hour.len() <= 2 && minute.len() == 2;
            lengths_fit.then_some(Self { hour: number(hour, 23)?, minute: number(minute, 59)? })
        };
        read().ok_or_else(|| Problem::TimeOfDay { text: Quoted::new(text) }.into())
    }
}

fn set(crontab: &mut Crontab, field: Field, number: u32) -> Result<(), FrequencyError> {
    if !(field.first()..=field.last()).contains(&number) {
        return Err(Problem::Number { field, number }.into());
    }
    crontab.set(field, Set::only(number));
    Ok(())
}

fn every_nth_minute(n: u32) -> Result<Set, FrequencyError> {
    if n == 0 || 60 % n != 0 {
        return Err(Problem::Interval { n }.into());
    }
    Ok(Set::every_nth(Field::Minute, n))
}

fn set_time(crontab: &mut Crontab, time: TimeOfDay) -> Result<(), FrequencyError> {
    set(crontab, Field::Hour, time.hour)?;
    set(crontab, Field::Minute, time.minute)
}

fn set_day_of_month(crontab: &mut Crontab, day: u32) -> Result<(), FrequencyError> {
    set(crontab, Field::DayOfMonth, day)?;
    // Its months may come from an expression that was given before.
    if crontab.comes() { Ok(()) } else { Err(Problem::NeverComes { crontab: *crontab }.into()) }
}

fn day_of_week(day: Weekday) -> Set {
    Set::only(day.num_days_from_sunday())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Event {
        Event::call("x", |_| {})
    }

    fn crontab_of(event: Event) -> Crontab {
        let mut seen = Crontab::EVERY_MINUTE;
        let _ = event.timed(|crontab| {
            seen = *crontab;
            Ok(())
        });
        seen
    }

    #[test]
    fn every_word_stands_for_its_expression() {
        for (event, expression) in [
            (event().every_minute(), "* * * * *"),
            (event().every_two_minutes(), "*/2 * * * *"),
            (event().every_three_minutes(), "*/3 * * * *"),
            (event().every_four_minutes(), "*/4 * * * *"),
            (event().every_five_minutes(), "*/5 * * * *"),
            (event().every_ten_minutes(), "*/10 * * * *"),
            (event().every_fifteen_minutes(), "*/15 * * * *"),
            (event().every_thirty_minutes(), "*/30 * * * *"),
            (event().every_minutes(1), "* * * * *"),
            (event().every_minutes(12), "*/12 * * * *"),
            (event().every_minutes(60), "*/60 * * * *"),
            (event().hourly(), "0 * * * *"),
            (event().hourly_at(17), "17 * * * *"),
            (event().daily(), "0 0 * * *"),
            (event().daily_at("02:30"), "30 2 * * *"),
            (event().weekly(), "0 0 * * 0"),
            (event().weekly_on(Weekday::Mon, "2:30"), "30 2 * * 1"),
            (event().weekly_on(Weekday::Sun, "02:30"), "30 2 * * 0"),
            (event().monthly(), "0 0 1 * *"),
            (event().monthly_on(31, "23:59"), "59 23 31 * *"),
            (event().weekdays(), "* * * * 1-5"),
            (event().weekends(), "* * * * 6,0"),
        ] {
            assert_eq!(crontab_of(event), expression.parse().unwrap(), "{expression}");
        }
    }

    #[test]
    fn words_combine_in_any_order() {
        for (event, expression) in [
            (event().weekdays().hourly(), "0 * * * 1-5"),
            (event().hourly().weekdays(), "0 * * * 1-5"),
            (event().daily_at("07:05").weekends(), "5 7 * * 6,0"),
            (event().weekends().daily_at("07:05"), "5 7 * * 6,0"),
            (event().weekly().daily_at("13:00"), "0 13 * * 0"),
            (event().daily_at("13:00").hourly(), "0 13 * * *"),
            (event().daily_at("13:00").hourly_at(5), "5 * * * *"),
            (event().monthly().every_five_minutes(), "*/5 0 1 * *"),
            (event().monthly_on(15, "12:00").daily(), "0 0 15 * *"),
        ] {
            assert_eq!(crontab_of(event), expression.parse().unwrap(), "{expression}");
        }
    }

    #[test]
    fn a_time_of_day_is_read_strictly() {
        for (text, hour, minute) in [("2:30", 2, 30), ("02:30", 2, 30), ("00:00", 0, 0), ("23:59", 23, 59)] {
            assert_eq!(TimeOfDay::try_from(text), Ok(TimeOfDay { hour, minute }));
        }
        for text in [
            "24:00", "2:60", "2", "", ":", "2:", ":30", "2:5", "002:30", "02:030", "+2:30", "02:+5", "2:30:00",
            " 2:30", "2:30 ", "2.30", "-1:00", "٢:30", "12:é",
        ] {
            let error = TimeOfDay::try_from(text).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("`{text}` is not a time of day from 00:00 to 23:59, write it as `02:30`")
            );
        }
    }

    #[test]
    fn what_no_crontab_can_say_is_refused_by_name() {
        let mut crontab: Crontab = "0 0 1 2 *".parse().unwrap();
        let before = crontab;
        for (error, message) in [
            (set(&mut crontab, Field::Minute, 60), "minute 60 is outside of 0-59"),
            (set_day_of_month(&mut crontab, 32), "day of month 32 is outside of 1-31"),
            (set_day_of_month(&mut crontab, 0), "day of month 0 is outside of 1-31"),
        ] {
            assert_eq!(error.unwrap_err().to_string(), message);
        }
        assert_eq!(crontab, before);
        assert_eq!(
            set_day_of_month(&mut crontab, 30).unwrap_err().to_string(),
            "`0 0 30 2 *` is due on a date that never comes"
        );
        assert_eq!((1..=60).filter(|n| every_nth_minute(*n).is_ok()).sum::<u32>(), 168, "the divisors of 60");
        let interval = |n| every_nth_minute(n).unwrap_err().to_string();
        assert_eq!(interval(0), "an interval of 0 minutes is outside of 1-60");
        assert_eq!(interval(90), "an interval of 90 minutes is outside of 1-60");
        assert_eq!(
            interval(7),
            "7 minutes do not divide an hour; if its last interval may be shorter, write cron(\"*/7 * * * *\")"
        );
    }
}
